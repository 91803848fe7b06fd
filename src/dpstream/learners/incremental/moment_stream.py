"""The moments of a stream, measured by one continual sum: what regressions on moments share.

Calibration before any data, exact absorption, measurement, snapshots; a learner adds the public
settings and turns the moments into a model.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.domain.moments import MOMENT_EXPONENT, MomentAccumulator
from dpstream.errors import ConfigurationError
from dpstream.learners.learner import Arrays
from dpstream.learners.limit import (
    TICK_BOUNDS,
    check_tick_records,
    require_room,
    require_within_horizon,
)
from dpstream.mechanisms.continual.blt import STANDARD_BUFFERS
from dpstream.mechanisms.continual.blt_table import FILTERS
from dpstream.mechanisms.continual.chain import ToeplitzChain
from dpstream.mechanisms.continual.choice import AUTO, prefix_strategy
from dpstream.mechanisms.continual.node_noise import NoiseKind
from dpstream.mechanisms.continual.strategy import Participation, Promise, Strategy
from dpstream.mechanisms.continual.sum import ContinualSum, SumState
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.moments import MomentLayout, moment_sensitivity
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.release import Measurement
from dpstream.solvers.description import described

LEAST_TICK = 1 << 14
"""Smaller bounds are taken only where no strategy has a lattice for this one."""

SHORTER_EPOCHS = (1 << 21, 1 << 18, 1 << 15)
"""Epochs of the chains that ``strategy="auto"`` takes where the usual choice has no lattice: with
many features and a long horizon, rounding its nodes would cost too much."""


@dataclass
class RegressionState:
    """One stream's state: all secret but the sum's decoder.

    Attributes:
        open: exact moments of the open tick.
        open_records: its records, null ones included.
        sum: the continual sum's state.
    """

    open: MomentAccumulator
    open_records: int
    sum: SumState


def check_declaration(domain: Domain, unit: Unit, tick_records: int | None) -> None:
    """Refuse what no regression on a running sum of moments can serve.

    Raises:
        ConfigurationError: naming the first that is wrong.
    """
    if domain.target_count == 0:
        raise ConfigurationError("the domain has no targets; a regression needs at least one")
    check_tick_records(tick_records)
    if unit.period == "window":
        raise ConfigurationError(
            "the unit's cap counts over a window, but this learner never forgets a record; "
            "cap over the stream's life, or take a learner over a window"
        )


@dataclass(frozen=True, kw_only=True)
class MomentStream:
    """One continual sum of the measured moments, with the open tick before it.

    Guaranteed and assumed: as for its continual sum, with ``moment_sensitivity`` as the shift of
    one record; the rows it learns must be a batch's, in the layout's width.

    Attributes:
        name: of the learner, for messages.
        layout: which moments are measured.
        sum: the continual sum of them.
        horizon: how many ticks may be closed, or None.
    """

    name: str
    layout: MomentLayout
    sum: ContinualSum
    horizon: int | None

    @property
    def most_records(self) -> int:
        """The most records that one tick may hold."""
        return int(self.sum.increment_bound)

    def init(self) -> RegressionState:
        """The state of an empty stream."""
        return RegressionState(MomentAccumulator(self.layout.width), 0, self.sum.init())

    def learn(self, state: RegressionState, batch: Batch) -> None:
        """Absorb records of the open tick; exact, and the same for any batching.

        Raises:
            ConfigurationError: if the tick has more records than its public bound; nothing of
                the batch is absorbed.
        """
        require_room(state.open_records + len(batch), self.most_records)
        state.open.add(batch)
        state.open_records += len(batch)

    def close(self, state: RegressionState) -> None:
        """Close the tick, whether or not it publishes.

        Raises:
            HorizonReached: past the declared horizon; nothing is absorbed.
        """
        require_within_horizon(self.name, closed=state.sum.tick, horizon=self.horizon)
        self.sum.absorb(state.sum, self.layout.select(state.open.take()))
        state.open_records = 0

    def release(
        self, state: RegressionState, noise: Noise
    ) -> tuple[Sequence[Measurement], FloatArray]:
        """Measure the moments of a closed tick; the only place where noise is drawn."""
        return self.sum.release(state.sum, noise)

    def unit_variance(self, tick: int) -> float:
        """Noise variance at a tick of an entry of scale 1."""
        return float(self.sum.variance(tick)[0]) * float(self.layout.scales[0]) ** 2

    def snapshot(self, state: RegressionState) -> Arrays:
        """The whole state, secret and public, as arrays."""
        arrays: dict[str, FloatArray | IntArray] = {
            "open_records": np.array([state.open_records], np.int64)
        }
        arrays |= {f"open.{key}": value for key, value in state.open.snapshot().items()}
        return arrays | {f"sum.{key}": value for key, value in self.sum.snapshot(state.sum).items()}

    def restore(self, arrays: Arrays) -> RegressionState:
        """The state of a snapshot; continues to the bit."""

        def part(prefix: str) -> dict[str, FloatArray | IntArray]:
            return {
                key.removeprefix(prefix): value
                for key, value in arrays.items()
                if key.startswith(prefix)
            }

        return RegressionState(
            MomentAccumulator.restore(self.layout.width, part("open.")),
            int(arrays["open_records"][0]),
            self.sum.restore(part("sum.")),
        )

    def describe(self) -> Any:
        """The sum's every public parameter, JSON-ready."""
        return described(self.sum.describe())


def moment_stream(
    *,
    name: str,
    layout: MomentLayout,
    horizon: int | None,
    strategy: str | Strategy,
    unit: Unit,
    neighbours: Neighbours,
    noise: NoiseKind,
    strength: Callable[[Strategy, float], float],
    tick_records: int | None,
) -> MomentStream:
    """The first calibration whose rounding and integers fit, quietest strategies first.

    Args:
        name: of the learner.
        layout: which moments are measured.
        horizon: ticks, or None.
        strategy: ``"auto"``, a name, or a strategy.
        unit: whose contribution is hidden.
        neighbours: what it is hidden against.
        noise: the law of the noise.
        strength: what may be spent, given the strategy and one record's shift.
        tick_records: public bound on the records of a tick, or None for the largest that fits.

    Raises:
        ConfigurationError: if nothing fits, or the strategy forgets.
    """
    shift = moment_sensitivity(layout.weights, neighbours)
    refusals: list[ConfigurationError] = []
    candidates = _candidates(strategy, horizon)
    for candidate in candidates:
        if candidate.promise is not Promise.FOREVER:
            raise ConfigurationError(
                f"strategy {candidate.name!r} publishes expired records exactly; this learner "
                "keeps every record secret for ever: take a running-sum strategy"
            )
    for candidate, records in _calibrations(candidates, tick_records):
        try:
            continual = ContinualSum(
                strategy=candidate,
                dimension=layout.size,
                increment_exponent=MOMENT_EXPONENT,
                increment_bound=float(records),
                record_shift=shift,
                participation=Participation(cap=unit.cap, per_tick=min(unit.cap, records)),
                kind=noise,
                strength=strength(candidate, shift),
                scales=tuple(layout.scales.tolist()),
            )
        except ConfigurationError as refusal:
            refusals.append(refusal)
        else:
            return MomentStream(name=name, layout=layout, sum=continual, horizon=horizon)
    raise refusals[0]


def _calibrations(
    candidates: Sequence[Strategy], tick_records: int | None
) -> Iterator[tuple[Strategy, int]]:
    """Strategies with bounds of a tick: quiet first, but ticks of ``LEAST_TICK`` before quiet."""
    if tick_records is not None:
        yield from ((candidate, tick_records) for candidate in candidates)
        return
    for ample in (True, False):
        chosen = [records for records in TICK_BOUNDS if (records >= LEAST_TICK) is ample]
        yield from itertools.product(candidates, chosen)


def _candidates(strategy: str | Strategy, horizon: int | None) -> list[Strategy]:
    """Quietest first; more than one only where none was asked for by name."""
    if not isinstance(strategy, str):
        return [strategy]
    chosen = prefix_strategy(strategy, horizon)
    if strategy != AUTO:
        return [chosen]
    last = prefix_strategy("hybrid" if horizon is None else "honaker_tree", horizon)
    return [chosen, *(_chain_of(ticks) for ticks in SHORTER_EPOCHS), last]


def _chain_of(ticks: int) -> Strategy:
    """A chain of equal epochs."""
    response = FILTERS[ticks, STANDARD_BUFFERS]
    return ToeplitzChain(epochs=((ticks, response.rates, response.scales),))
