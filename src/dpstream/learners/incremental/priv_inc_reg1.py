"""PrivIncReg1: a linear model kept fresh on one continual sum of moments.

Paper 000, section 4 (Algorithm PrivIncReg1), on paper 004's ridge problem (Algorithm 4, PQFTL) as
well. Where the papers run two trees, for the sum of ``x x^T`` and of ``x y``, one stacked,
symmetric sum is measured here, by any continual-sum strategy; the solver is told how noisy it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.errors import ConfigurationError, NotPrivate, require_kind
from dpstream.geometry.convex_set import ConvexSet
from dpstream.geometry.l2_ball import L2Ball
from dpstream.learners.incremental.moment_stream import (
    MomentStream,
    RegressionState,
    check_declaration,
    moment_stream,
)
from dpstream.learners.learner import Arrays, Outcome, Tick, check_parts
from dpstream.mechanisms.continual.node_noise import NoiseKind, NoiseName
from dpstream.mechanisms.continual.strategy import Participation, Promise, Strategy
from dpstream.mechanisms.continual.sum import ContinualSum
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.moments import MomentLayout, MomentWeights, balanced_weights
from dpstream.privacy.budget import Budget
from dpstream.privacy.event import Event
from dpstream.privacy.paper import tree_noise_scale
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.solvers.constrained_quadratic import Constraint
from dpstream.solvers.description import described
from dpstream.solvers.linear_model import LinearProblem, SolverName, check_regularisation

PAPER_SENSITIVITY = 2.0
"""The shift that paper 000 assumes of both of its sums."""


@dataclass(frozen=True, kw_only=True)
class PrivIncReg1:
    """Least squares on a stream, released at any tick, under one event for life.

    Minimised at a tick with t records is ``sum (y_i - <x_i, theta> - b)^2 + (penalty t + ridge)
    |theta|^2 + (l1_penalty t + lasso) |theta|_1``, over the ball of ``radius`` or the set
    ``constraint`` if there is one, in the domain's scaled units, for every target on its own; b is
    neither penalised nor bounded. A ridge and an L1 penalty together are the elastic net.

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
        radius: of the L2 ball for the coefficients, or None: short for that constraint.
        constraint: any set with a projection or a linear oracle for the coefficients, or None.
        penalty: ridge penalty per record (paper 004's alpha).
        ridge: ridge penalty of the whole sum.
        l1_penalty: L1 penalty per record; not together with a set.
        lasso: L1 penalty of the whole sum; not together with a set.
        noise: the law of the noise, or its name.
        solver: ``"certified"``, or ``"averaged_gradient"``: the paper's averaged projected gradient
            on the unrepaired moments, for comparison; it needs a set and no constant.
        shrink: whether the solver may shrink; without it, it only repairs.
        intervals: whether releases carry standard errors and intervals.
        tick_records: public bound on the records of one tick; None takes the largest of 2**20,
            2**18, ... for which the sums fit their integers.
        calibration: ``"tight"``, or ``"paper"``: the printed constants, for reproduction.
        reproduction: that ``calibration="paper"`` is asked for to compare, not to publish.
        problem: what is minimised; derived.
        stream: the measured moments; derived.
    """

    domain: Domain
    budget: Budget
    unit: Unit
    neighbours: Neighbours
    horizon: int | None
    strategy: str | Strategy = "auto"
    weights: MomentWeights | Literal["auto"] = "auto"
    radius: float | None = None
    constraint: ConvexSet | None = None
    penalty: float = 0.0
    ridge: float = 0.0
    l1_penalty: float = 0.0
    lasso: float = 0.0
    noise: NoiseKind | NoiseName = NoiseKind.GAUSSIAN
    solver: SolverName = "certified"
    shrink: bool = True
    intervals: bool = True
    tick_records: int | None = None
    calibration: Literal["tight", "paper"] = "tight"
    reproduction: bool = False
    problem: LinearProblem = field(init=False)
    stream: MomentStream = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", NoiseKind.of(self.noise))
        check_parts(
            domain=self.domain, budget=self.budget, unit=self.unit, neighbours=self.neighbours
        )
        self._check_choices()
        check_declaration(self.domain, self.unit, self.tick_records)
        check_regularisation(
            penalty=self.penalty,
            ridge=self.ridge,
            radius=self.radius,
            l1_penalty=self.l1_penalty,
            lasso=self.lasso,
            bounded=self.constraint is not None,
        )
        if self.radius is not None and self.constraint is not None:
            raise ConfigurationError("radius and constraint are two sets; give one of them")
        if self.calibration == "paper":
            self._check_paper()
        layout = self._choose_layout()
        # The ball's minimiser is exact, by its secular equation.
        ball = self.constraint if isinstance(self.constraint, L2Ball) else None
        problem = LinearProblem(
            domain=self.domain,
            layout=layout,
            penalty=self.penalty,
            ridge=self.ridge,
            radius=self.radius if ball is None else ball.radius,
            constraint=None
            if self.constraint is None or ball is not None
            else Constraint(convex_set=self.constraint),
            l1_penalty=self.l1_penalty,
            lasso=self.lasso,
            solver=self.solver,
        )
        object.__setattr__(self, "problem", problem)
        stream = moment_stream(
            name=self.name,
            layout=layout,
            horizon=self.horizon,
            strategy="binary_tree" if self.calibration == "paper" else self.strategy,
            unit=self.unit,
            neighbours=self.neighbours,
            noise=NoiseKind.of(self.noise),
            strength=self._choose_strength,
            tick_records=self.tick_records,
        )
        object.__setattr__(self, "stream", stream)

    def _check_choices(self) -> None:
        for name, value, choices in (
            ("solver", self.solver, get_args(SolverName)),
            ("calibration", self.calibration, ("tight", "paper")),
        ):
            if value not in choices:
                raise ConfigurationError(
                    f"{name} is {value!r}; it must be one of {', '.join(choices)}"
                )
        if self.weights != "auto":
            require_kind(self.weights, MomentWeights, "weights", "give 'auto' or MomentWeights")
        if self.radius is not None:
            require_kind(self.radius, (int, float, np.number), "radius", "give a number")
        if self.constraint is not None and not hasattr(self.constraint, "l2_radius"):
            given = type(self.constraint).__name__
            raise ConfigurationError(
                f"constraint came as {given}; give a set of dpstream.geometry, or radius for a ball"
            )

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
                radius=self.radius if self.constraint is None else self.constraint.l2_radius(),
            )
        return MomentLayout(
            dimension=self.domain.dimension,
            target_count=self.domain.target_count,
            weights=weights,
        )

    def _choose_strength(self, strategy: Strategy, shift: float) -> float:
        if self.calibration == "tight":
            return NoiseKind.of(self.noise).strength(self.budget)
        assert self.horizon is not None
        half = Budget(epsilon=self.budget.epsilon / 2, delta=self.budget.delta / 2)
        scale = tree_noise_scale(
            half, horizon=self.horizon, sensitivity=PAPER_SENSITIVITY, base=2.0
        )
        return shift * strategy.sensitivity(Participation(), order=2) / scale

    # --- the learner's contract ----------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return "priv_inc_reg1"

    @property
    def layout(self) -> MomentLayout:
        """Which moments are measured."""
        return self.stream.layout

    @property
    def sum(self) -> ContinualSum:
        """The continual sum of the moments."""
        return self.stream.sum

    @property
    def most_records(self) -> int:
        """The most records that one tick may hold."""
        return self.stream.most_records

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
            "constraint": None if self.constraint is None else described(self.constraint),
            "penalty": self.penalty,
            "ridge": self.ridge,
            "l1_penalty": self.l1_penalty,
            "lasso": self.lasso,
            "solver": self.solver,
            "shrink": self.shrink,
            "intervals": self.intervals,
            "calibration": self.calibration,
            "sum": self.stream.describe(),
        }

    def opening_events(self) -> Sequence[Event]:
        """The one event that covers every release of the stream's life."""
        return (self.sum.event(),)

    def next_events(self, tick: Tick) -> Sequence[Event]:
        """Nothing: the opening event covers every release."""
        return ()

    def init(self) -> RegressionState:
        """The state of an empty stream."""
        return self.stream.init()

    def learn(self, state: RegressionState, batch: Batch) -> None:
        """Absorb records of the open tick; see ``MomentStream.learn``."""
        self.stream.learn(state, batch)

    def close(self, state: RegressionState, tick: Tick) -> None:
        """Close the tick, whether or not it publishes; see ``MomentStream.close``."""
        self.stream.close(state)

    def release(self, state: RegressionState, tick: Tick, noise: Noise) -> Outcome:
        """Measure the moments of a closed tick and solve; the only place where noise is drawn."""
        measurements, moments = self.stream.release(state, noise)
        return Outcome(measurements=measurements, model=self._model(moments, tick))

    def snapshot(self, state: RegressionState) -> Arrays:
        """The whole state, secret and public, as arrays."""
        return self.stream.snapshot(state)

    def restore(self, arrays: Arrays) -> RegressionState:
        """The state of a snapshot; continues to the bit."""
        return self.stream.restore(arrays)

    # --- post-processing -----------------------------------------------------------------------

    def unit_variance(self, tick: int) -> float:
        """Noise variance at a tick of an entry of scale 1."""
        return self.stream.unit_variance(tick)

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
