"""PrivIncReg1: a linear model kept fresh on one continual sum of moments.

Paper 000, section 4 (Algorithm PrivIncReg1), on paper 004's ridge problem (Algorithm 4, PQFTL) as
well. Where the papers run two trees, for the sum of ``x x^T`` and of ``x y``, one stacked,
symmetric sum is measured here, by any continual-sum strategy; the solver is told how noisy it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.domain.moments import MOMENT_EXPONENT, MomentAccumulator
from dpstream.errors import ConfigurationError, HorizonReached, NotPrivate
from dpstream.learners.learner import Arrays, Outcome, Tick
from dpstream.mechanisms.continual.blt import STANDARD_BUFFERS
from dpstream.mechanisms.continual.blt_table import FILTERS
from dpstream.mechanisms.continual.chain import ToeplitzChain
from dpstream.mechanisms.continual.choice import AUTO, prefix_strategy
from dpstream.mechanisms.continual.node_noise import NoiseKind
from dpstream.mechanisms.continual.strategy import Participation, Promise, Strategy
from dpstream.mechanisms.continual.sum import ContinualSum, SumState
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.moments import (
    MomentLayout,
    MomentWeights,
    balanced_weights,
    moment_sensitivity,
)
from dpstream.privacy.budget import Budget
from dpstream.privacy.event import Event
from dpstream.privacy.paper import tree_noise_scale
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.solvers.linear_model import LinearProblem, check_regularisation

TICK_BITS = range(20, 9, -2)
"""Default bounds on the records of a tick, largest first: they size integers, not noise."""

SHORTER_EPOCHS = (1 << 21, 1 << 18, 1 << 15)
"""Epochs of the chains that ``strategy="auto"`` takes where the usual choice has no lattice: with
many features and a long horizon, rounding its nodes would cost too much."""

PAPER_SENSITIVITY = 2.0
"""The shift that paper 000 assumes of both of its sums."""


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


@dataclass(frozen=True, kw_only=True)
class PrivIncReg1:
    """Least squares on a stream, released at any tick, under one event for life.

    Minimised at a tick with t records is ``sum (y_i - <x_i, theta> - b)^2 + (penalty t + ridge)
    |theta|^2``, over the ball of ``radius`` if there is one, in the domain's scaled units, for
    every target on its own.

    Guaranteed: all releases of the stream's whole life, together and adaptively, satisfy the
    budget for the declared unit and neighbours. Assumed of the caller: the schedule of ticks is
    public; at most ``tick_records`` records fall in a tick; units over their cap were made null.

    Attributes:
        domain: what of a record counts, with at least one target.
        budget: of everything published.
        unit: whose contribution is hidden; a user's cap must hold for the stream's life.
        neighbours: what it is hidden against.
        horizon: how many ticks may be closed, or None for a stream without end.
        strategy: of the continual sum: ``"auto"`` (the quietest that fits the integers), a name,
            or a strategy itself.
        weights: of the moments' blocks, or ``"auto"``.
        radius: of the L2 ball for the coefficients, or None.
        penalty: ridge penalty per record (paper 004's alpha).
        ridge: ridge penalty of the whole sum.
        noise: the law of the noise.
        shrink: whether the solver may shrink; without it, it only repairs.
        intervals: whether releases carry standard errors and intervals.
        tick_records: public bound on the records of one tick; None takes the largest of 2**20,
            2**18, ... for which the sums fit their integers.
        calibration: ``"tight"``, or ``"paper"``: the printed constants, for reproduction.
        reproduction: that ``calibration="paper"`` is asked for to compare, not to publish.
        layout: which moments are measured; derived.
        problem: what is minimised; derived.
        sum: the continual sum of the moments; derived.
    """

    domain: Domain
    budget: Budget
    unit: Unit
    neighbours: Neighbours
    horizon: int | None
    strategy: str | Strategy = "auto"
    weights: MomentWeights | Literal["auto"] = "auto"
    radius: float | None = None
    penalty: float = 0.0
    ridge: float = 0.0
    noise: NoiseKind = NoiseKind.GAUSSIAN
    shrink: bool = True
    intervals: bool = True
    tick_records: int | None = None
    calibration: Literal["tight", "paper"] = "tight"
    reproduction: bool = False
    layout: MomentLayout = field(init=False)
    problem: LinearProblem = field(init=False)
    sum: ContinualSum = field(init=False)

    def __post_init__(self) -> None:
        self._check()
        object.__setattr__(self, "layout", self._choose_layout())
        problem = LinearProblem(
            domain=self.domain,
            layout=self.layout,
            penalty=self.penalty,
            ridge=self.ridge,
            radius=self.radius,
        )
        object.__setattr__(self, "problem", problem)
        object.__setattr__(self, "sum", self._choose_sum())

    def _check(self) -> None:
        if self.domain.target_count == 0:
            raise ConfigurationError("the domain has no targets; a regression needs at least one")
        check_regularisation(penalty=self.penalty, ridge=self.ridge, radius=self.radius)
        if self.tick_records is not None and self.tick_records < 1:
            raise ConfigurationError(f"tick_records is {self.tick_records}; it must be at least 1")
        if self.unit.period == "window":
            raise ConfigurationError(
                "the unit's cap counts over a window, but this learner never forgets a record; "
                "cap over the stream's life, or take a learner over a window"
            )
        if self.calibration == "paper":
            self._check_paper()

    def _check_paper(self) -> None:
        if not self.reproduction:
            raise NotPrivate(
                "calibration='paper' repeats the printed constants of PrivIncReg1, which budget "
                "log T nodes where a record touches floor(log2 T) + 1 and never divide delta among "
                "them: noise too small for the shortest streams, several times too large for the "
                "others; use calibration='tight', or say reproduction=True to compare"
            )
        if self.horizon is None or self.domain.intercept or self.weights != "auto":
            raise ConfigurationError(
                "calibration='paper' needs a horizon, a domain without intercept and "
                "weights='auto': the paper measures x x^T and x y alone, for a known T"
            )
        if self.unit.cap != 1 or self.noise is not NoiseKind.GAUSSIAN:
            raise ConfigurationError(
                "calibration='paper' protects single records with Gaussian noise; set unit cap 1 "
                "and Gaussian noise"
            )

    def _choose_layout(self) -> MomentLayout:
        if isinstance(self.weights, MomentWeights):
            weights = self.weights
        elif self.calibration == "paper":
            weights = MomentWeights(count=0.0, x=0.0, xx=1.0, y=0.0, xy=1.0, yy=0.0)
        else:
            weights = balanced_weights(
                dimension=self.domain.dimension,
                target_count=self.domain.target_count,
                intercept=self.domain.intercept,
                count=True,
                penalty=self.penalty,
                radius=self.radius,
            )
        return MomentLayout(
            dimension=self.domain.dimension,
            target_count=self.domain.target_count,
            weights=weights,
        )

    def _strategies(self) -> list[Strategy]:
        """Candidates, quietest first; more than one only where none was asked for by name."""
        if self.calibration == "paper":
            return [prefix_strategy("binary_tree", self.horizon)]
        if not isinstance(self.strategy, str):
            return [self.strategy]
        chosen = prefix_strategy(self.strategy, self.horizon)
        if self.strategy != AUTO:
            return [chosen]
        last = prefix_strategy("hybrid" if self.horizon is None else "honaker_tree", self.horizon)
        return [chosen, *(_chain_of(ticks) for ticks in SHORTER_EPOCHS), last]

    def _choose_strength(self, strategy: Strategy, shift: float) -> float:
        if self.calibration == "tight":
            return self.noise.strength(self.budget)
        assert self.horizon is not None
        half = Budget(epsilon=self.budget.epsilon / 2, delta=self.budget.delta / 2)
        scale = tree_noise_scale(
            half, horizon=self.horizon, sensitivity=PAPER_SENSITIVITY, base=2.0
        )
        return shift * strategy.sensitivity(Participation(), order=2) / scale

    def _choose_sum(self) -> ContinualSum:
        shift = moment_sensitivity(self.layout.weights, self.neighbours)
        refusals: list[ConfigurationError] = []
        for strategy in self._strategies():
            if strategy.promise is not Promise.FOREVER:
                raise ConfigurationError(
                    f"strategy {strategy.name!r} publishes expired records exactly; this learner "
                    "keeps every record secret for ever: take a running-sum strategy"
                )
            bounds = [1 << bits for bits in TICK_BITS]
            for records in bounds if self.tick_records is None else [self.tick_records]:
                try:
                    return self._calibrated(strategy, shift, records)
                except ConfigurationError as refusal:
                    refusals.append(refusal)
        raise refusals[0]

    def _calibrated(self, strategy: Strategy, shift: float, records: int) -> ContinualSum:
        cap = self.unit.cap
        return ContinualSum(
            strategy=strategy,
            dimension=self.layout.size,
            increment_exponent=MOMENT_EXPONENT,
            increment_bound=float(records),
            record_shift=shift,
            participation=Participation(cap=cap, per_tick=min(cap, records)),
            kind=self.noise,
            strength=self._choose_strength(strategy, shift),
            scales=tuple(self.layout.scales.tolist()),
        )

    # --- the learner's contract ----------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return "priv_inc_reg1"

    @property
    def window(self) -> None:
        """None: a record counts for ever."""
        return

    @property
    def promise(self) -> Promise:
        """What its releases keep secret, and for how long."""
        return self.sum.promise

    def describe(self) -> Mapping[str, Any]:
        """Every public parameter, JSON-ready: its identity for ``resume``."""
        return {
            "domain": self.domain.to_json(),
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "unit": {
                "kind": self.unit.kind,
                "cap": self.unit.cap,
                "column": self.unit.column,
                "period": self.unit.period,
            },
            "neighbours": self.neighbours.value,
            "horizon": self.horizon,
            "weights": self.layout.weights.to_json(),
            "radius": self.radius,
            "penalty": self.penalty,
            "ridge": self.ridge,
            "shrink": self.shrink,
            "intervals": self.intervals,
            "calibration": self.calibration,
            "sum": _plain(self.sum.describe()),
        }

    def opening_events(self) -> Sequence[Event]:
        """The one event that covers every release of the stream's life."""
        return (self.sum.event(),)

    def next_events(self, tick: Tick) -> Sequence[Event]:
        """Nothing: the opening event covers every release."""
        return ()

    def init(self) -> RegressionState:
        """The state of an empty stream."""
        return RegressionState(MomentAccumulator(self.layout.width), 0, self.sum.init())

    def learn(self, state: RegressionState, batch: Batch) -> None:
        """Absorb records of the open tick; exact, and the same for any batching.

        Raises:
            ConfigurationError: if the tick has more records than its public bound; nothing of
                the batch is absorbed.
        """
        bound = int(self.sum.increment_bound)
        if state.open_records + len(batch) > bound:
            raise ConfigurationError(
                f"a tick holds more than its public bound of {bound} records; declare a larger "
                "tick_records, or close ticks more often"
            )
        state.open.add(batch)
        state.open_records += len(batch)

    def close(self, state: RegressionState, tick: Tick) -> None:
        """Close the tick, whether or not it publishes.

        Raises:
            HorizonReached: past the declared horizon; nothing is absorbed.
        """
        if self.horizon is not None and state.sum.tick >= self.horizon:
            raise HorizonReached(
                f"{self.name} has closed the {self.horizon} ticks of its horizon; declare a "
                "longer one, or none, before the stream starts"
            )
        self.sum.absorb(state.sum, self.layout.select(state.open.take()))
        state.open_records = 0

    def release(self, state: RegressionState, tick: Tick, noise: Noise) -> Outcome:
        """Measure the moments of a closed tick and solve; the only place where noise is drawn."""
        measurements, moments = self.sum.release(state.sum, noise)
        return Outcome(measurements=measurements, model=self._model(moments, tick))

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

    # --- post-processing -----------------------------------------------------------------------

    def unit_variance(self, tick: int) -> float:
        """Noise variance at a tick of an entry of scale 1."""
        return float(self.sum.variance(tick)[0]) * float(self.layout.scales[0]) ** 2

    def _model(self, moments: FloatArray, tick: Tick) -> Mapping[str, Any]:
        model = self.problem.model(
            moments,
            unit_variance=self.unit_variance(tick.number),
            records=tick.records,
            shrink=self.shrink,
            intervals=self.intervals,
            seed=tick.number,
        )
        return {"tick": tick.number, **model}


def _chain_of(ticks: int) -> Strategy:
    """A chain of equal epochs."""
    response = FILTERS[ticks, STANDARD_BUFFERS]
    return ToeplitzChain(epochs=((ticks, response.rates, response.scales),))


def _plain(value: Any) -> Any:
    """The same with lists for tuples, as JSON gives it back."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
