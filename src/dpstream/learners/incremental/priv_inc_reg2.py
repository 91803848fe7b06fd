"""PrivIncReg2: linear regression on moments of randomly projected features.

Paper 000, section 5 (Algorithm PrivIncReg2): features are projected to m dimensions by a public
matrix and clipped there, so that noise grows with m and not with d; the solver minimises over the
set in d dimensions and lifts. Useful where the set and the records have small Gaussian widths and d
is large against the number of records to the power 2/3.
"""

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np

from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.domain.subset import SubsetRule, check_rule, within
from dpstream.errors import ConfigurationError, require_kind
from dpstream.geometry.convex_set import ConvexSet
from dpstream.learners.incremental.moment_stream import (
    MomentStream,
    RegressionState,
    check_declaration,
    moment_stream,
)
from dpstream.learners.incremental.projected_dimension import (
    candidates,
    input_width,
    paper_dimension,
    predicted_excess,
    require_records,
)
from dpstream.learners.incremental.projection import Projection, ProjectionKind
from dpstream.learners.learner import Arrays, Outcome, Tick
from dpstream.mechanisms.continual.node_noise import NoiseKind, NoiseName
from dpstream.mechanisms.continual.strategy import Promise, Strategy
from dpstream.mechanisms.continual.sum import ContinualSum
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.moments import (
    MomentLayout,
    MomentWeights,
    balanced_weights,
    moment_sensitivity,
)
from dpstream.privacy.budget import Budget
from dpstream.privacy.event import Event
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.solvers.constrained_quadratic import Constraint
from dpstream.solvers.description import described
from dpstream.solvers.linear_model import LinearProblem

DimensionChoice = int | Literal["auto", "paper"]


@dataclass(frozen=True, kw_only=True)
class PrivIncReg2:
    """Least squares over a set, on moments of projected features, under one event for life.

    Minimised at a tick is ``sum (y_i - <v_i, Phi theta> - b)^2 + ridge |Phi theta|^2`` over theta
    in the constraint's set, ``v_i`` the projection ``Phi x_i`` clipped to the unit ball, for every
    target on its own; of all theta with the same ``Phi theta`` the one of least gauge is published,
    where the set contains the origin.

    Guaranteed: all releases of the stream's whole life, together and adaptively, satisfy the
    budget for the declared unit and neighbours, whatever the projection. Assumed of the caller:
    what ``PrivIncReg1`` assumes; that a seed, if one is named, was chosen without looking at the
    records (for utility alone).

    The projection is public, and one stream's own: records that were chosen with a projection in
    sight may be distorted by it. It is drawn from the whole declaration and from a random public
    salt that the stream is given when it begins, and that its store keeps: a resumed stream has the
    same projection, to the bit, and no other stream has it. A seed that is named takes the salt's
    place; a session then refuses to begin a stream with a projection that a stream kept beside it
    has. Seed or salt, and the matrix's digest, are part of the stream's identity.

    Attributes:
        domain: what of a record counts, with at least one target.
        budget: of everything published.
        unit: whose contribution is hidden; a user's cap must hold for the stream's life.
        neighbours: what it is hidden against.
        horizon: how many ticks may be closed, or None for a stream without end.
        constraint: the set for the coefficients, with a projection or a linear oracle.
        projection_seed: public, to name a projection; None, as it should be but to reproduce a
            stream, draws one for each stream.
        projection: ``"gaussian"`` or ``"sparse"``.
        projected_dimension: m; ``"paper"`` for the paper's formula with constants 1; ``"auto"`` for
            the least predicted excess risk. At most the number of features; at that number
            nothing is projected.
        expected_records: how many records the stream is planned for; public, for choosing m.
        subset: only records inside count, or None for all: a fixed rule per record.
        strategy: of the continual sum: ``"auto"``, a name, or a strategy itself.
        weights: of the moments' blocks, or ``"auto"``.
        ridge: ridge penalty of the whole sum, on ``Phi theta``.
        noise: the law of the noise, or its name.
        shrink: whether the solver may shrink; without it, it only repairs.
        tick_records: public bound on the records of one tick, or None.
        features: the projection itself; derived.
        problem: what is minimised; derived.
        stream: the measured moments; derived.
    """

    domain: Domain
    budget: Budget
    unit: Unit
    neighbours: Neighbours
    horizon: int | None
    constraint: ConvexSet
    projection_seed: int | None = None
    projection: ProjectionKind = "gaussian"
    projected_dimension: DimensionChoice = "auto"
    expected_records: int | None = None
    subset: SubsetRule | None = None
    strategy: str | Strategy = "auto"
    weights: MomentWeights | Literal["auto"] = "auto"
    ridge: float = 0.0
    noise: NoiseKind | NoiseName = NoiseKind.GAUSSIAN
    shrink: bool = True
    tick_records: int | None = None
    features: Projection = field(init=False)
    problem: LinearProblem = field(init=False)
    stream: MomentStream = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", NoiseKind.of(self.noise))
        check_declaration(self.domain, self.unit, self.tick_records)
        if self.subset is not None:
            check_rule(self.subset)
        if self.constraint.dimension != self.domain.dimension:
            raise ConfigurationError(
                f"the constraint has dimension {self.constraint.dimension}, but the domain has "
                f"{self.domain.dimension} encoded features; declare the set in that dimension"
            )
        if self.projection_seed is not None:
            remedy = "leave it out, or give a whole number"
            require_kind(self.projection_seed, (int, np.integer), "projection_seed", remedy)
        seed = "" if self.projection_seed is None else int(self.projection_seed)
        self._project(seed, self._choose_dimension())

    def _project(self, seed: int | str, target: int) -> None:
        """Draw the projection, and derive what follows from it."""
        object.__setattr__(
            self,
            "features",
            Projection(
                kind=self.projection,
                source=self.domain.dimension,
                target=target,
                seed=seed,
                purpose=repr(self._declaration()),
            ),
        )
        layout = self._layout(target)
        problem = LinearProblem(
            domain=self.domain,
            layout=layout,
            penalty=0.0,
            ridge=self.ridge,
            radius=None,
            constraint=Constraint(
                convex_set=self.constraint,
                lift=None if self.features.trivial else self.features.matrix,
            ),
        )
        object.__setattr__(self, "problem", problem)
        object.__setattr__(self, "stream", self._stream(layout))

    def _layout(self, target: int) -> MomentLayout:
        weights = self.weights
        if not isinstance(weights, MomentWeights):
            weights = balanced_weights(
                dimension=target,
                target_count=self.domain.target_count,
                intercept=self.domain.intercept,
                count=True,
                penalty=0.0,
                radius=self.constraint.l2_radius(),
            )
        return MomentLayout(
            dimension=target, target_count=self.domain.target_count, weights=weights
        )

    def _stream(self, layout: MomentLayout) -> MomentStream:
        return moment_stream(
            name=self.name,
            layout=layout,
            horizon=self.horizon,
            strategy=self.strategy,
            unit=self.unit,
            neighbours=self.neighbours,
            noise=NoiseKind.of(self.noise),
            strength=lambda _strategy, _shift: NoiseKind.of(self.noise).strength(self.budget),
            tick_records=self.tick_records,
        )

    def _choose_dimension(self) -> int:
        choice, dimension = self.projected_dimension, self.domain.dimension
        if not isinstance(choice, str):
            return choice
        if choice not in ("auto", "paper"):
            raise ConfigurationError(
                f"projected_dimension is {choice!r}; give a number, 'auto' or 'paper'"
            )
        records = require_records(self.expected_records, choice)
        if choice == "paper":
            return paper_dimension(records=records, width=self.total_width, dimension=dimension)
        last = records if self.horizon is None else min(records, self.horizon)
        # Noise per unit of sensitivity is the strategy's and the budget's: the same for every m.
        small = self._stream(self._layout(1))
        shift = moment_sensitivity(small.layout.weights, self.neighbours)
        deviation = math.sqrt(small.unit_variance(last)) / shift

        def predicted(target: int) -> float:
            weights = self._layout(target).weights
            return predicted_excess(
                target,
                records=records,
                dimension=dimension,
                radius=self.constraint.l2_radius(),
                deviation=deviation * moment_sensitivity(weights, self.neighbours),
                weights=weights,
            )

        return min(candidates(dimension), key=predicted)

    @property
    def total_width(self) -> float:
        """W (000, theorem 5.7): of the records that count plus that of the set."""
        return input_width(self.subset, self.domain.dimension) + self.constraint.gaussian_width()

    def _declaration(self) -> dict[str, Any]:
        """Everything public but the projection and what is derived with it."""
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
            "constraint": described(self.constraint),
            "subset": None if self.subset is None else self.subset.describe(),
            "ridge": self.ridge,
            "shrink": self.shrink,
        }

    # --- the stream's own projection -------------------------------------------------------------

    @property
    def salt(self) -> str | None:
        """The stream's public salt, empty before it began; None if there is no draw of its own."""
        seed = self.features.seed
        return seed if isinstance(seed, str) and not self.features.trivial else None

    def drawn_for(self, salt: str) -> Self:
        """The same learner with the projection of the stream of that salt."""
        if self.salt is None:
            return self
        own = copy(self)
        own._project(salt, self.features.target)
        return own

    def shares_draw(self, described: Mapping[str, Any]) -> bool:
        """Whether the learner that so described itself had the same projection."""
        mine = self.features.describe()["digest"]
        return not self.features.trivial and described.get("projection", {}).get("digest") == mine

    # --- the learner's contract ----------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return "priv_inc_reg2"

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
            **self._declaration(),
            "weights": self.layout.weights.to_json(),
            "projection": self.features.describe(),
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
        """Project and absorb records of the open tick; exact, and the same for any batching."""
        self.stream.learn(state, self.features.project(within(batch, self.subset)))

    def close(self, state: RegressionState, tick: Tick) -> None:
        """Close the tick, whether or not it publishes; see ``MomentStream.close``."""
        self.stream.close(state)

    def release(self, state: RegressionState, tick: Tick, noise: Noise) -> Outcome:
        """Measure the moments of a closed tick and solve; the only place where noise is drawn."""
        measurements, moments = self.stream.release(state, noise)
        model = self.problem.model(
            moments,
            unit_variance=self.stream.unit_variance(tick.number),
            # Outside the subset records are null: how many count is measured, never public.
            records=tick.records if self.subset is None else None,
            shrink=self.shrink,
            intervals=False,
            seed=tick.number,
        )
        dimension = {"projected_dimension": self.features.target}
        return Outcome(measurements=measurements, model={"tick": tick.number, **model, **dimension})

    def snapshot(self, state: RegressionState) -> Arrays:
        """The whole state, secret and public, as arrays."""
        return self.stream.snapshot(state)

    def restore(self, arrays: Arrays) -> RegressionState:
        """The state of a snapshot; continues to the bit."""
        return self.stream.restore(arrays)
