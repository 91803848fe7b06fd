"""Follow the approximate leader on a continual sum of gradients, under one event for life.

Paper 002's WDP-COCOP and WDP-COCOL, and what is elsewhere called DP-FTRL: gradients of a tick's
records are taken at the model that was released before it, their running sum is measured by any
continual-sum strategy, and the next model minimises the sum of the losses' approximations. Second
moments measured in the same stack tell the approximations' curvature.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Literal

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.domain.moments import MOMENT_EXPONENT
from dpstream.errors import ConfigurationError
from dpstream.geometry.convex_set import ConvexSet
from dpstream.learners.description import described_scores
from dpstream.learners.learner import Arrays, Outcome, Tick
from dpstream.learners.limit import (
    check_tick_records,
    largest_that_fits,
    require_room,
    require_within_horizon,
)
from dpstream.learners.online.gradient_stack import (
    Curvature,
    GradientStack,
    StackLoss,
    natural_slope,
)
from dpstream.learners.online.leader import LeaderProblem, Update, standard_bend
from dpstream.learners.online.leader_state import LeaderState
from dpstream.learners.online.progressive_loss import LossMark, marked, recent_loss
from dpstream.losses.generalised_linear import SmoothGeneralisedLinearLoss
from dpstream.losses.softmax import SoftmaxLoss
from dpstream.mechanisms.continual.choice import AUTO, prefix_strategy
from dpstream.mechanisms.continual.decayed import DecayedToeplitz
from dpstream.mechanisms.continual.expiring import ExpiringToeplitz
from dpstream.mechanisms.continual.node_noise import NoiseKind, NoiseName
from dpstream.mechanisms.continual.sliding import SlidingToeplitz
from dpstream.mechanisms.continual.strategy import Participation, Promise, Strategy
from dpstream.mechanisms.continual.sum import ContinualSum
from dpstream.mechanisms.continual.window_tree import WindowTree
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.budget import Budget
from dpstream.privacy.event import Event
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.solvers.description import described

WIDEST_FULL = 256
"""Up to so many parameters per class all second moments are measured, above only squares."""


@dataclass(frozen=True, kw_only=True)
class FollowTheLeader:
    """A model of scores, refitted at every tick from gradients at released models.

    Minimised is the sum over records of ``loss(<x, theta> + b, y) + (ridge / 2) |theta|^2`` in the
    domain's scaled units, over a set if there is one.

    Guaranteed: all releases of the stream's whole life, together and adaptively, satisfy the
    budget for the declared unit and neighbours; with an expiring strategy, those up to any tick
    do for the records that are live then, and every release says so. Assumed of the caller: the
    schedule of ticks is public; at most ``tick_records`` records fall in a tick; units over their
    cap were made null.

    Attributes:
        domain: what of a record counts: one target, or for softmax its classes.
        budget: of everything published.
        unit: whose contribution is hidden.
        neighbours: what it is hidden against.
        horizon: how many ticks may be closed, or None for a stream without end.
        loss: generalised linear, or softmax.
        strategy: ``"auto"``, the name of a running sum, or a strategy: decayed sums forget old
            losses, expiring ones publish them.
        curvature: which second moments steer the steps: ``"full"``, ``"diagonal"`` or ``"none"``;
            ``"auto"`` measures them unless the problem is strongly convex by its ridge.
        ridge: strong convexity per record; the regulariser is public and costs no privacy.
        convex_set: of the flattened parameters without constants, or None.
        update: exact minimisation with projections, or Frank-Wolfe steps with the set's oracle.
        slope_clip: bound to which slopes are clipped; None takes the loss's own.
        bend: public guess of the loss's mean second derivative; None takes it at score 0.
        prior_scale: public guess of a parameter's size in scaled units; infinite for none. It
            keeps early models, which are mostly noise, small.
        constant_scale: the constant's size beside features in the unit ball.
        moment_weight: how loudly second moments are measured beside gradients.
        loss_weight: how loudly the progressive loss is measured; 0 for not at all.
        loss_bound: losses are clipped to it before they are measured.
        count: whether records are counted privately; needed if ticks follow a clock.
        oracle_count: oracle calls per release.
        noise: the law of the noise, or its name.
        tick_records: public bound on the records of one tick; None takes the largest that fits.
        stack: what is measured; derived.
        problem: what is minimised; derived.
        sum: the continual sum; derived.
    """

    domain: Domain
    budget: Budget
    unit: Unit
    neighbours: Neighbours
    horizon: int | None
    loss: StackLoss
    strategy: str | Strategy = AUTO
    curvature: Curvature | Literal["auto"] = "auto"
    ridge: float = 0.0
    convex_set: ConvexSet | None = None
    update: Update = "projection"
    slope_clip: float | None = None
    bend: float | None = None
    prior_scale: float = 2.0
    constant_scale: float = 0.3
    moment_weight: float = 0.3
    loss_weight: float = 0.05
    loss_bound: float = 4.0
    count: bool = False
    oracle_count: int = 8
    noise: NoiseKind | NoiseName = NoiseKind.GAUSSIAN
    tick_records: int | None = None
    stack: GradientStack = field(init=False)
    problem: LeaderProblem = field(init=False)
    sum: ContinualSum = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", NoiseKind.of(self.noise))
        self._check()
        object.__setattr__(self, "stack", self._choose_stack())
        object.__setattr__(self, "problem", self._choose_problem())
        object.__setattr__(self, "sum", self._choose_sum())

    def _check(self) -> None:
        for name in ("bend", "slope_clip"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ConfigurationError(f"{name} is {value}; it must be positive and finite")
        check_tick_records(self.tick_records)

    def _choose_stack(self) -> GradientStack:
        curvature = self.curvature
        if curvature == "auto":
            full = "full" if self.domain.dimension < WIDEST_FULL else "diagonal"
            curvature = "none" if self.ridge > 0 or self.update == "linear_oracle" else full
        slope = self.slope_clip
        if slope is None:
            slope = natural_slope(
                self.loss, convex_set=self.convex_set, intercept=self.domain.intercept
            )
        return GradientStack(
            domain=self.domain,
            loss=self.loss,
            slope=slope,
            curvature=curvature,
            constant_scale=self.constant_scale,
            moment_weight=self.moment_weight,
            loss_bound=self.loss_bound,
            loss_weight=self.loss_weight,
            count_weight=self.moment_weight if self.count else 0.0,
        )

    def _choose_problem(self) -> LeaderProblem:
        bend = self.bend
        if bend is None:
            # Without measured curvature a guess of the bend is a help, not a need.
            needed = self.stack.curvature != "none"
            smooth = isinstance(self.loss, SoftmaxLoss | SmoothGeneralisedLinearLoss)
            bend = standard_bend(self.loss) if needed or smooth else 0.0
        return LeaderProblem(
            stack=self.stack,
            bend=bend,
            ridge=self.ridge,
            prior_scale=self.prior_scale,
            convex_set=self.convex_set,
            update=self.update,
            oracle_count=self.oracle_count,
        )

    def _strategies(self) -> list[Strategy]:
        if not isinstance(self.strategy, str):
            return [self.strategy]
        chosen = prefix_strategy(self.strategy, self.horizon)
        if self.strategy != AUTO:
            return [chosen]
        quiet = prefix_strategy("hybrid" if self.horizon is None else "honaker_tree", self.horizon)
        return [chosen, quiet]

    def _choose_sum(self) -> ContinualSum:
        refusals: list[ConfigurationError] = []
        for strategy in self._strategies():
            if isinstance(strategy, SlidingToeplitz):
                raise ConfigurationError(
                    "a sliding sum drops gradients but not the models they were taken at; use a "
                    "decayed or an expiring sum"
                )
            if self.unit.period == "window" and strategy.promise is Promise.FOREVER:
                raise ConfigurationError(
                    f"the unit's cap counts over a window, but {strategy.name!r} protects records "
                    "for ever; cap over the stream's life"
                )
            try:
                return largest_that_fits(partial(self._calibrated, strategy), self.tick_records)
            except ConfigurationError as refusal:
                refusals.append(refusal)
        raise refusals[0]

    def _calibrated(self, strategy: Strategy, records: int) -> ContinualSum:
        cap = self.unit.cap
        return ContinualSum.calibrated(
            strategy,
            budget=self.budget,
            kind=NoiseKind.of(self.noise),
            dimension=self.stack.size,
            increment_exponent=MOMENT_EXPONENT,
            increment_bound=records * self.stack.coordinate_bound,
            record_shift=self.stack.sensitivity(self.neighbours),
            participation=Participation(cap=cap, per_tick=min(cap, records)),
            scales=self.stack.scales,
        )

    # --- the learner's contract ----------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return "follow_the_leader"

    @property
    def most_records(self) -> int:
        """The most records that one tick may hold."""
        return int(self.sum.increment_bound / self.stack.coordinate_bound)

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
        own = {
            item.name: described(getattr(self, item.name))
            for item in fields(self)
            if item.init and item.name not in ("domain", "budget", "unit", "strategy")
        }
        return {
            "domain": self.domain.to_json(),
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "unit": described(self.unit),
            **own,
            "sum": described(self.sum.describe()),
        }

    def opening_events(self) -> Sequence[Event]:
        """The one event that covers every release of the stream's life."""
        return (self.sum.event(),)

    def next_events(self, tick: Tick) -> Sequence[Event]:
        """Nothing: the opening event covers every release."""
        return ()

    def init(self) -> LeaderState:
        """The state of an empty stream; its model is zero, or the set's centre."""
        point = self.stack.published(self.problem.start())
        return LeaderState(
            self.stack.zeros(), 0, self.sum.init(), point, point.copy(), np.zeros_like(point)
        )

    def learn(self, state: LeaderState, batch: Batch) -> None:
        """Absorb records of the open tick; exact, and the same for any batching.

        Raises:
            ConfigurationError: if the tick has more records than its public bound; nothing of
                the batch is absorbed.
        """
        require_room(state.open_records + len(batch), self.most_records)
        self.stack.add(state.open, batch, state.point)
        state.open_records += len(batch)

    def close(self, state: LeaderState, tick: Tick) -> None:
        """Close the tick, whether or not it publishes.

        Raises:
            HorizonReached: past the declared horizon; nothing is absorbed.
            ConfigurationError: if ticks follow a clock and records are not counted.
        """
        require_within_horizon(self.name, closed=state.sum.tick, horizon=self.horizon)
        if tick.records is None and not self.count:
            raise ConfigurationError(
                "ticks follow a clock, so the number of records is secret; set count=True to "
                "measure it"
            )
        self.sum.absorb(state.sum, state.open)
        weight = 1.0 if tick.records is None else float(tick.records - state.records)
        state.start = state.point
        state.total = self._decay * state.total + weight * state.point
        state.weight = self._decay * state.weight + weight
        state.records = tick.records or 0
        state.open, state.open_records = self.stack.zeros(), 0

    def release(self, state: LeaderState, tick: Tick, noise: Noise) -> Outcome:
        """Measure the stack of a closed tick and find the leader; noise is drawn here alone."""
        measurements, measured = self.sum.release(state.sum, noise)
        variance = self.unit_variance(tick.number)
        records = self._records(state, tick, measured)
        found = self.problem.solution(
            measured,
            centre=state.total / max(state.weight, 1.0),
            start=state.start,
            records=records,
            variance=variance,
        )
        state.point = self.stack.published(found)
        model = self._model(state, tick, measured, records=records, variance=variance)
        return Outcome(measurements=measurements, model=model)

    def snapshot(self, state: LeaderState) -> Arrays:
        """The whole state, secret and public, as arrays."""
        return state.to_arrays(self.sum)

    def restore(self, arrays: Arrays) -> LeaderState:
        """The state of a snapshot; continues to the bit."""
        return LeaderState.from_arrays(arrays, self.sum)

    # --- post-processing -----------------------------------------------------------------------

    @property
    def _decay(self) -> float:
        strategy = self.sum.strategy
        return strategy.decay if isinstance(strategy, DecayedToeplitz) else 1.0

    def unit_variance(self, tick: int) -> float:
        """Noise variance at a tick of a coordinate of scale 1."""
        return float(self.sum.variance(tick)[0]) * self.stack.scales[0] ** 2

    def _records(self, state: LeaderState, tick: Tick, measured: FloatArray) -> float:
        """How many records count, as far as it is public."""
        if tick.records is None:
            return max(self.stack.record_count(measured), 1.0)
        return max(state.weight, 1.0)

    def _model(
        self,
        state: LeaderState,
        tick: Tick,
        measured: FloatArray,
        *,
        records: float,
        variance: float,
    ) -> Mapping[str, Any]:
        """The released parameters, their running average, and the progressive loss."""
        released = state.point
        model: dict[str, Any] = {
            "kind": "scores",
            "tick": tick.number,
            "records": tick.records,
            "loss": self.loss.name,
            "promise": self.promise.value,
            "features": list(self.domain.feature_names),
            "targets": list(self.domain.target_names),
            **described_scores(self.domain, released, loss=self.loss),
            "average": described_scores(
                self.domain, state.total / max(state.weight, 1.0), loss=self.loss
            ),
        }
        if self.stack.loss_weight > 0:
            model["progressive_loss"] = self._progressive_loss(
                state,
                tick.number,
                self.stack.loss_sum(measured),
                records=records,
                variance=variance * (self.loss_bound / self.stack.loss_weight) ** 2,
            )
        return model

    def _progressive_loss(
        self, state: LeaderState, tick: int, total: float, *, records: float, variance: float
    ) -> dict[str, Any]:
        """The mean over all records, and over those since half the ticks for sums that keep all."""
        told: dict[str, Any] = {
            "mean": total / records,
            "noise_standard_error": math.sqrt(variance) / records,
            "bound": self.loss_bound,
        }
        if self._decay < 1.0:
            return told
        own = LossMark(tick=tick, records=records, total=total, variance=variance)
        recent = recent_loss(state.marks, own)
        state.marks = marked(state.marks, own)
        return told if recent is None else told | {"recent": recent}
