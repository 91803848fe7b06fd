"""PrivIncReg1: a linear model kept fresh on one continual sum of moments.

Paper 000, section 4 (Algorithm PrivIncReg1), on paper 004's ridge problem (Algorithm 4, PQFTL) as
well. Where the papers run two trees, for the sum of ``x x^T`` and of ``x y``, one stacked,
symmetric sum is measured here, by any continual-sum strategy; the solver is told how noisy it is.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.domain.moments import MOMENT_EXPONENT, MomentAccumulator
from dpstream.errors import ConfigurationError, NotPrivate
from dpstream.learners.learner import Arrays, Outcome, Tick
from dpstream.mechanisms.continual.choice import prefix_strategy
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
from dpstream.solvers.interval import TargetSpread, Uncertainty, uncertainty
from dpstream.solvers.quadratic import NoisyQuadratic, QuadraticSolution, solve_quadratic

TICK_BITS = range(20, 9, -1)
"""Default bounds on the records of a tick, largest first: they size integers, not noise."""

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
        strategy: of the continual sum: ``"auto"``, a name, or a strategy itself.
        weights: of the moments' blocks, or ``"auto"``.
        radius: of the L2 ball for the coefficients, or None.
        penalty: ridge penalty per record (paper 004's alpha).
        ridge: ridge penalty of the whole sum.
        noise: the law of the noise.
        shrink: whether the solver may shrink; without it, it only repairs.
        intervals: whether releases carry standard errors and intervals.
        tick_records: public bound on the records of one tick; None takes the largest power of
            two up to 2**20 for which the sums fit their integers.
        calibration: ``"tight"``, or ``"paper"``: the printed constants, for reproduction.
        reproduction: that ``calibration="paper"`` is asked for to compare, not to publish.
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
    sum: ContinualSum = field(init=False)

    def __post_init__(self) -> None:
        self._check()
        object.__setattr__(self, "layout", self._choose_layout())
        object.__setattr__(self, "sum", self._choose_sum())

    def _check(self) -> None:
        if self.domain.target_count == 0:
            raise ConfigurationError("the domain has no targets; a regression needs at least one")
        for name in ("penalty", "ridge"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0.0):
                raise ConfigurationError(f"{name} is {value}; it must be finite and at least 0")
        if self.radius is not None and not 0.0 < self.radius < math.inf:
            raise ConfigurationError(f"radius is {self.radius}; it must be positive and finite")
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
        needed = ("count", "x", "xx", "y", "xy") if self.domain.intercept else ("xx", "xy")
        missing = [block for block in needed if getattr(weights, block) == 0.0]
        if missing:
            raise ConfigurationError(
                f"moment weight {missing[0]!r} is 0, but the model needs that block; "
                "give it a positive weight"
            )
        return MomentLayout(
            dimension=self.domain.dimension,
            target_count=self.domain.target_count,
            weights=weights,
        )

    def _choose_strategy(self) -> Strategy:
        if self.calibration == "paper":
            return prefix_strategy("binary_tree", self.horizon)
        strategy = (
            prefix_strategy(self.strategy, self.horizon)
            if isinstance(self.strategy, str)
            else self.strategy
        )
        if strategy.promise is not Promise.FOREVER:
            raise ConfigurationError(
                f"strategy {strategy.name!r} publishes expired records exactly; this learner "
                "keeps every record secret for ever: take a running-sum strategy"
            )
        return strategy

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
        strategy = self._choose_strategy()
        shift = moment_sensitivity(self.layout.weights, self.neighbours)
        strength = self._choose_strength(strategy, shift)

        def bounded(records: int) -> ContinualSum:
            cap = self.unit.cap
            return ContinualSum(
                strategy=strategy,
                dimension=self.layout.size,
                increment_exponent=MOMENT_EXPONENT,
                increment_bound=float(records),
                record_shift=shift,
                participation=Participation(cap=cap, per_tick=min(cap, records)),
                kind=self.noise,
                strength=strength,
                scales=tuple(self.layout.scales.tolist()),
            )

        if self.tick_records is not None:
            return bounded(self.tick_records)
        for bits in TICK_BITS[:-1]:
            try:
                return bounded(1 << bits)
            except ConfigurationError:
                continue
        return bounded(1 << TICK_BITS[-1])

    # --- the learner's contract ----------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return "priv_inc_reg1"

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
        """Close the tick, whether or not it publishes."""
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

    @property
    def implied_radius(self) -> float | None:
        """A bound of the solution's norm that the penalty implies, or the declared radius.

        With ``|x| <= 1`` and ``|y| <= 1`` the ridge solution has norm at most ``1/penalty``, and
        at most ``1/(2 sqrt(penalty))``.
        """
        if self.penalty == 0.0:
            return self.radius
        implied = min(1.0 / self.penalty, 0.5 / math.sqrt(self.penalty))
        return implied if self.radius is None else min(implied, self.radius)

    def _model(self, moments: FloatArray, tick: Tick) -> Mapping[str, Any]:
        matrix = self.layout.matrix(moments)
        variances = self.layout.variances(self.unit_variance(tick.number))
        counted = math.isfinite(float(variances[0, 0]))
        count = float(matrix[0, 0]) if counted else None
        records = float(tick.records) if tick.records is not None else count
        if records is None:
            raise ConfigurationError(
                "ticks follow a clock and moment weight 'count' is 0: the number of records is "
                "neither public nor measured; give that block a positive weight"
            )
        records = max(records, 1.0)
        first = 0 if self.domain.intercept else 1
        inner = slice(first, 1 + self.domain.dimension)
        outer = slice(1 + self.domain.dimension, None)
        problem = NoisyQuadratic(
            gram=matrix[inner, inner],
            cross=matrix[inner, outer],
            gram_variance=variances[inner, inner],
            cross_variance=variances[inner, outer],
            penalty=self.penalty * records + self.ridge,
            constant=self.domain.intercept,
            radius=self.implied_radius,
            target_bound=1.0,
        )
        solution = solve_quadratic(problem, shrink=self.shrink)
        # An implied radius cannot bind on the noiseless problem: intervals need not know of it.
        stated = replace(problem, radius=self.radius)
        targets: list[dict[str, Any]] = []
        for index, name in enumerate(self.domain.target_names):
            spread = TargetSpread(
                square=float(matrix[outer, outer][index, index]),
                square_variance=float(variances[outer, outer][index, index]),
                count=records if count is None or not self.domain.intercept else max(count, 1.0),
            )
            known = (
                uncertainty(stated, spread, target=index, seed=tick.number)
                if self.intervals
                else None
            )
            targets.append({"name": name, **self._report(index, solution, known)})
        return {
            "kind": "linear",
            "tick": tick.number,
            "records": tick.records,
            "count": None
            if count is None
            else {"value": count, "standard_error": math.sqrt(float(variances[0, 0]))},
            "features": list(self.domain.feature_names),
            "targets": targets,
            "noise": {
                "node": self.sum.sigma,
                "standard_deviation": math.sqrt(self.unit_variance(tick.number)),
                "matrix_shrinkage": list(solution.matrix_shrinkage),
                "raised_eigenvalues": solution.raised,
            },
        }

    def _report(
        self, target: int, solution: QuadraticSolution, known: Uncertainty | None
    ) -> dict[str, Any]:
        """One target's part of the model: scaled units, then the user's."""
        constant = self.domain.intercept
        mapping = self.domain.user_map(target)
        inner = slice(0 if constant else 1, None)
        matrix, offset = mapping.matrix[inner, inner], mapping.offset[inner]
        parameters = solution.parameters[:, target]
        report: dict[str, Any] = {
            **_parameters(parameters, known, constant),
            "user": _parameters(
                matrix @ parameters + offset,
                None if known is None else known.mapped(matrix, offset),
                constant,
            ),
            "shrinkage": float(solution.shrinkage[target]),
            "constraint_active": solution.active[target],
            "expected_noise_excess": float(solution.noise_excess[target]),
        }
        if known is not None:
            report |= {
                "interval_method": known.method,
                "noise_ratio": _finite(known.noise_ratio),
                "residual_variance": known.residual_variance,
                "residual_variance_error": known.residual_error,
                "r_squared": known.r_squared,
            }
        return report


def _plain(value: Any) -> Any:
    """Public dataclasses and tuples inside a description, as JSON has them."""
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _parameters(values: FloatArray, known: Uncertainty | None, constant: bool) -> dict[str, Any]:
    """Coefficients and intercept with their errors and intervals, as lists."""
    columns: dict[str, FloatArray | None] = {"estimate": values}
    if known is not None:
        columns |= {
            "unshrunk": known.centre,
            "noise_standard_error": known.noise_error,
            "total_standard_error": known.total_error,
            "noise_interval": known.noise_interval,
            "total_interval": known.total_interval,
        }
    first = 1 if constant else 0
    slopes = {
        key: None if column is None else column[first:].tolist() for key, column in columns.items()
    }
    heads = {key: None if column is None else column[0].tolist() for key, column in columns.items()}
    return {"coefficients": slopes, "intercept": heads if constant else None}
