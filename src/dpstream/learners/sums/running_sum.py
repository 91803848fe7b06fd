"""Running sums and means of bounded columns: the simplest thing a continual sum can publish.

Paper 000, appendix D (TreeMech) and paper 004 (PrivateSum) state it for one tree; here it is
measured by any strategy: a running, windowed or decayed sum.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.batch import GRID_BITS, Batch
from dpstream.domain.domain import Domain
from dpstream.domain.lattice import ExactVector
from dpstream.errors import ConfigurationError, require_kind
from dpstream.learners.learner import Arrays, Outcome, Tick, check_parts
from dpstream.learners.limit import check_tick_records, largest_that_fits, require_room
from dpstream.mechanisms.continual.choice import prefix_strategy
from dpstream.mechanisms.continual.expiring import ExpiringToeplitz
from dpstream.mechanisms.continual.node_noise import NoiseKind, NoiseName
from dpstream.mechanisms.continual.strategy import Participation, Promise, Strategy
from dpstream.mechanisms.continual.sum import ContinualSum, SumState
from dpstream.mechanisms.continual.window_tree import WindowTree
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.budget import Budget
from dpstream.privacy.event import Event
from dpstream.privacy.unit import Neighbours, Unit


def sum_sensitivity(neighbours: Neighbours, *, count: bool) -> float:
    """The largest L2 shift by one record of ``(1, x)``, or of ``x`` alone, with ``|x| <= 1``.

    Zero-out: the record's own norm, ``sqrt(2)`` or 1. Replace: between two records that count
    the ones cancel and ``|x - x'| <= 2``; to the null record it is the zero-out shift, which is
    smaller.
    """
    if neighbours is Neighbours.REPLACE:
        return 2.0
    return math.sqrt(2.0) if count else 1.0


@dataclass
class RunningSumState:
    """One stream's state: all secret but the sum's decoder.

    Attributes:
        open: exact sum of the open tick.
        open_records: its records, null ones included.
        sum: the continual sum's state.
    """

    open: ExactVector
    open_records: int
    sum: SumState


@dataclass(frozen=True, kw_only=True)
class RunningSum:
    """Sums of a domain's columns, released at any tick, under one event for life.

    Guaranteed: all releases of the stream's whole life, together and adaptively, satisfy the
    budget for the declared unit and neighbours; with an expiring strategy, those up to any tick
    do for the records that are live then, and every release says so. Assumed of the caller: the
    schedule of ticks is public; at most ``tick_records`` records fall in a tick; units over
    their cap were made null.

    Attributes:
        domain: what of a record counts; its targets are not used.
        budget: of everything published.
        unit: whose contribution is hidden.
        neighbours: what it is hidden against.
        horizon: how many ticks may be closed, or None for a stream without end.
        strategy: ``"auto"``, the name of a running sum, or any strategy.
        count: whether the number of records that count is measured as well.
        noise: the law of the noise, or its name.
        tick_records: public bound on the records of one tick; None takes the largest that fits.
    """

    domain: Domain
    budget: Budget
    unit: Unit
    neighbours: Neighbours
    horizon: int | None
    strategy: str | Strategy = "auto"
    count: bool = False
    noise: NoiseKind | NoiseName = NoiseKind.GAUSSIAN
    tick_records: int | None = None
    sum: ContinualSum = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", NoiseKind.of(self.noise))
        check_parts(
            domain=self.domain, budget=self.budget, unit=self.unit, neighbours=self.neighbours
        )
        require_kind(self.count, bool, "count", "give True or False", truth=True)
        if self.tick_records is not None:
            require_kind(self.tick_records, int, "tick_records", "give a whole number of records")
        check_tick_records(self.tick_records)
        strategy = (
            prefix_strategy(self.strategy, self.horizon)
            if isinstance(self.strategy, str)
            else self.strategy
        )
        if self.unit.period == "window" and strategy.promise is Promise.FOREVER:
            raise ConfigurationError(
                f"the unit's cap counts over a window, but {strategy.name!r} protects records for "
                "ever; cap over the stream's life"
            )
        summed = largest_that_fits(partial(self._calibrated, strategy), self.tick_records)
        object.__setattr__(self, "sum", summed)

    def _calibrated(self, strategy: Strategy, records: int) -> ContinualSum:
        cap = self.unit.cap
        return ContinualSum.calibrated(
            strategy,
            budget=self.budget,
            kind=NoiseKind.of(self.noise),
            dimension=self.domain.dimension + self.count,
            increment_exponent=-GRID_BITS,
            increment_bound=float(records),
            record_shift=sum_sensitivity(self.neighbours, count=self.count),
            participation=Participation(cap=cap, per_tick=min(cap, records)),
        )

    # --- the learner's contract ----------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return "running_sum"

    @property
    def most_records(self) -> int:
        """The most records that one tick may hold."""
        return int(self.sum.increment_bound)

    @property
    def window(self) -> int | None:
        """Ticks for which a record counts, or None if it counts for ever."""
        strategy = self.sum.strategy
        return strategy.window if isinstance(strategy, WindowTree | ExpiringToeplitz) else None

    @property
    def promise(self) -> Promise:
        """What its releases keep secret, and for how long."""
        return self.sum.promise

    def describe(self) -> Mapping[str, Any]:
        """Every public parameter, JSON-ready: its identity for ``resume``."""
        return {
            "horizon": self.horizon,
            "count": self.count,
            "tick_records": self.most_records,
            "sum": self.sum.describe(),
        }

    def opening_events(self) -> Sequence[Event]:
        """The one event that covers every release of the stream's life."""
        return (self.sum.event(),)

    def next_events(self, tick: Tick) -> Sequence[Event]:
        """Nothing: the opening event covers every release."""
        return ()

    def init(self) -> RunningSumState:
        """The state of an empty stream."""
        return RunningSumState(self._nothing(), 0, self.sum.init())

    def learn(self, state: RunningSumState, batch: Batch) -> None:
        """Absorb records of the open tick; exact, and the same for any batching.

        Raises:
            ConfigurationError: if the tick has more records than its public bound; nothing of
                the batch is absorbed.
        """
        require_room(state.open_records + len(batch), self.most_records)
        first = 0 if self.count else 1
        part = batch.rows[:, first : 1 + self.domain.dimension]
        # Integers of at most 2^20 each: 64 bits hold the sum of 2^43 of them.
        state.open.add_integers(part.astype(np.int64).sum(axis=0))
        state.open_records += len(batch)

    def close(self, state: RunningSumState, tick: Tick) -> None:
        """Close the tick, whether or not it publishes."""
        self.sum.absorb(state.sum, state.open)
        state.open = self._nothing()
        state.open_records = 0

    def release(self, state: RunningSumState, tick: Tick, noise: Noise) -> Outcome:
        """Measure the sum of a closed tick; the only place where noise is drawn."""
        measurements, scaled = self.sum.release(state.sum, noise)
        return Outcome(measurements=measurements, model=self._model(scaled, tick))

    def snapshot(self, state: RunningSumState) -> Arrays:
        """The whole state, secret and public, as arrays."""
        arrays: dict[str, FloatArray | IntArray] = {
            "open_records": np.array([state.open_records], np.int64),
            "open.high": state.open.high,
            "open.low": state.open.low,
        }
        return arrays | {f"sum.{key}": value for key, value in self.sum.snapshot(state.sum).items()}

    def restore(self, arrays: Arrays) -> RunningSumState:
        """The state of a snapshot; continues to the bit."""
        high = np.array(arrays["open.high"], np.int64)
        low = np.array(arrays["open.low"], np.int64)
        held = {
            key.removeprefix("sum."): value
            for key, value in arrays.items()
            if key.startswith("sum.")
        }
        return RunningSumState(
            ExactVector(high, low, -GRID_BITS),
            int(arrays["open_records"][0]),
            self.sum.restore(held),
        )

    # --- post-processing -----------------------------------------------------------------------

    def _nothing(self) -> ExactVector:
        return ExactVector.zeros(self.domain.dimension + self.count, -GRID_BITS)

    def _model(self, scaled: FloatArray, tick: Tick) -> Mapping[str, Any]:
        """Scaled sums and, where the number of records is known, the user's sums and means."""
        noise = float(np.sqrt(self.sum.variance(tick.number)[0]))
        values = scaled[1:] if self.count else scaled
        counted = float(scaled[0]) if self.count else None
        mapping = self.domain.feature_map
        model: dict[str, Any] = {
            "kind": "sum",
            "tick": tick.number,
            "records": tick.records,
            "count": None if counted is None else {"value": counted, "standard_error": noise},
            "features": list(self.domain.feature_names),
            "scaled": {"sum": values.tolist(), "standard_error": noise},
        }
        # Without a measured count a null record counts as the middle of its bounds.
        total = counted if counted is not None else tick.records
        if total is None or self.sum.strategy.name in _NOT_RUNNING:
            return model
        spread = 1.0 / mapping.scale
        sums = values * spread + mapping.centre * total
        carried = mapping.centre if self.count else np.zeros_like(spread)
        errors = noise * np.hypot(spread, carried)
        model["user"] = {"sum": sums.tolist(), "standard_error": errors.tolist()}
        if total >= 1.0:
            model["user"]["mean"] = (sums / total).tolist()
        return model


_NOT_RUNNING = frozenset({"sliding_toeplitz", "decayed_toeplitz"})
# The public number of records says nothing of how many a window or a decayed sum holds.
