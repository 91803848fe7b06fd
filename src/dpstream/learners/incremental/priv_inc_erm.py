"""PrivIncERM: any private batch solver, run on the history at public intervals.

Paper 000, section 3 (Mechanism PrivIncERM): every tau ticks the solver is run on all records so
far, for its share of the budget; between refits the last model is published again.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.domain.lattice import ExactVector
from dpstream.domain.moments import MOMENT_EXPONENT, MomentAccumulator
from dpstream.errors import ConfigurationError
from dpstream.geometry.convex_set import ConvexSet
from dpstream.learners.covering import covering
from dpstream.learners.description import described_scores
from dpstream.learners.incremental.refit_schedule import (
    PaperInterval,
    Shares,
    paper_interval,
    refit_fraction,
)
from dpstream.learners.learner import Arrays, Outcome, Tick
from dpstream.learners.limit import require_within_horizon
from dpstream.losses.loss import Loss
from dpstream.losses.regularised import RegularisedLoss
from dpstream.mechanisms.continual.strategy import Promise
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.budget import Budget
from dpstream.privacy.event import Event
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.release import Measurement
from dpstream.solvers.description import described
from dpstream.solvers.moment_regression import StatisticSolver
from dpstream.solvers.plan import Plan, Share, Solver, SolverResult
from dpstream.solvers.problem import Problem

RefitInterval = int | Literal["auto"] | PaperInterval

_TRIALS = 24
_LOOKS = 6


@dataclass
class HistoryState:
    """One stream's state.

    Attributes:
        rows: all records so far, in pieces: secret; empty where moments are enough.
        moments: their exact moments, where those are enough: secret.
        records: how many there are, null ones included.
        closed: ticks closed.
        fitted: the tick of the last refit, 0 before the first.
        parameters: the last model: public.
    """

    rows: list[FloatArray]
    moments: MomentAccumulator
    records: int
    closed: int
    fitted: int
    parameters: FloatArray


@dataclass(frozen=True, kw_only=True)
class PrivIncERM:
    """Empirical risk minimisation on a stream, by refits of any private batch solver.

    A refit happens at every published tick whose number is a multiple of ``refit_every``; if such
    a tick is not published it does not happen, and its share is not spent. Ticks must close by
    count, so that the number of records is public.

    Guaranteed: all releases of the stream's whole life, together and adaptively, satisfy the
    budget for the declared unit and neighbours. Assumed of the caller: the schedule of ticks is
    public; units over their cap were made null; every event of ``next_events`` is charged before
    its release.

    Attributes:
        domain: what of a record counts.
        budget: of everything published.
        unit: whose contribution is hidden; a user's cap must hold for the stream's life.
        neighbours: what it is hidden against.
        horizon: how many ticks may be closed, or None for a stream without end.
        loss: of a record; a ``RegularisedLoss`` makes the problem strongly convex.
        constraint: the set for the parameters (the constant included, in the coordinates of
            ``Problem.design``).
        solver: any private batch solver whose calls compose by shares.
        tick_records: records of a tick, as planned: public.
        refit_every: tau, in ticks; the paper's choice for ``"convex"``, ``"strongly_convex"`` or
            ``"low_width"`` problems; or ``"auto"``, the least predicted worst excess risk.
        shares: how the budget is divided: ``"equal"``, ``"harmonic"`` or ``"endless"``; None for
            equal with a horizon and endless without one.
        gradient_clip: rescale each record's gradient to this L2 norm; None for the loss's own
            bound. Solvers that minimise the loss as it is refuse it.
        interval: tau in ticks; derived.
    """

    domain: Domain
    budget: Budget
    unit: Unit
    neighbours: Neighbours
    horizon: int | None
    loss: Loss | RegularisedLoss
    constraint: ConvexSet
    solver: Solver
    tick_records: int
    refit_every: RefitInterval = "auto"
    shares: Shares | None = None
    gradient_clip: float | None = None
    interval: int = field(init=False)

    def __post_init__(self) -> None:
        for name, value in (("tick_records", self.tick_records), ("horizon", self.horizon)):
            if value is not None and value < 1:
                raise ConfigurationError(f"{name} is {value}; it must be at least 1")
        if self.unit.period == "window":
            raise ConfigurationError(
                "the unit's cap counts over a window, but this learner never forgets a record; "
                "cap over the stream's life, or take a learner over a window"
            )
        scores = self.problem(1).rows
        if self.domain.target_count != scores:
            raise ConfigurationError(
                f"the domain has {self.domain.target_count} encoded targets, but the "
                f"{self.loss.name} loss has {scores}; declare a domain for this loss"
            )
        if self.division not in ("equal", "harmonic", "endless"):
            raise ConfigurationError(
                f"shares is {self.shares!r}; it must be 'equal', 'harmonic' or 'endless'"
            )
        object.__setattr__(self, "interval", self._choose_interval())
        _ = self.plan(1, self.interval * self.tick_records)

    # --- the schedule --------------------------------------------------------------------------

    @property
    def division(self) -> Shares:
        """How the budget is divided."""
        if self.shares is not None:
            return self.shares
        return "endless" if self.horizon is None else "equal"

    def refits(self, interval: int) -> int | None:
        """How many refits there are at that interval; None without an end."""
        return None if self.horizon is None else self.horizon // interval

    def fraction(self, index: int) -> float:
        """The share of the budget of refit ``index``, from 1."""
        return refit_fraction(self.division, index, self.refits(self.interval))

    def problem(self, records: int) -> Problem:
        """The problem over so many records."""
        return Problem(
            loss=self.loss,
            convex_set=self.constraint,
            domain=self.domain,
            records=records,
            neighbours=self.neighbours,
            unit=self.unit,
            gradient_clip=self.gradient_clip,
        )

    def plan(self, index: int, records: int) -> Plan:
        """The plan of refit ``index`` over so many records: public numbers alone."""
        share = Share(budget=self.budget, fraction=self.fraction(index))
        return self.solver.plan(self.problem(records), share)

    def _choose_interval(self) -> int:
        choice = self.refit_every
        if not isinstance(choice, str):
            if choice < 1 or (self.horizon is not None and choice > self.horizon):
                limit = "" if self.horizon is None else f" and at most the horizon, {self.horizon}"
                raise ConfigurationError(
                    f"refit_every is {choice} ticks; it must be at least 1{limit}"
                )
            return choice
        if choice not in ("auto", "convex", "strongly_convex", "low_width"):
            raise ConfigurationError(
                f"refit_every is {choice!r}; give a number of ticks, 'auto', 'convex', "
                "'strongly_convex' or 'low_width'"
            )
        if self.horizon is None:
            raise ConfigurationError(
                f"refit_every={choice!r} depends on the stream's length; declare a horizon, or "
                "give a number of ticks"
            )
        if choice != "auto":
            whole = self.problem(self.horizon * self.tick_records)
            records = paper_interval(choice, whole, self.budget.epsilon)
            return min(self.horizon, math.ceil(records / self.tick_records))
        low, high = 1, self.horizon
        while True:  # a grid, then finer ones between its best point's neighbours
            trials = np.unique(np.rint(np.geomspace(low, high, _TRIALS)).astype(int)).tolist()
            best = min(trials, key=self.predicted_excess)
            place = trials.index(best)
            below, above = trials[max(place - 1, 0)], trials[min(place + 1, len(trials) - 1)]
            if max(best - below, above - best) <= 1:
                return best
            low, high = below, above

    def predicted_excess(self, interval: int) -> float:
        """The largest predicted excess risk of the whole sum at any tick, for that tau.

        Of a refit, its plan's prediction; then, until the next one, at most the loss's range for
        every record that came since; and never more than the range for every record.
        """
        assert self.horizon is not None
        slope = self.problem(1).lipschitz.l2
        span = slope * self.constraint.diameter()
        stale = interval * self.tick_records * span
        count = self.horizon // interval
        worst = stale
        looks = np.unique(np.rint(np.geomspace(1, count, _LOOKS)).astype(int))
        for index in (int(look) for look in looks):
            records = index * interval * self.tick_records
            fraction = refit_fraction(self.division, index, count)
            share = Share(budget=self.budget, fraction=fraction)
            bound = self.solver.plan(self.problem(records), share).excess_bound
            worst = max(worst, min(bound, span) * records + stale)
        return min(worst, self.horizon * self.tick_records * span)

    def _due(self, tick: Tick) -> int | None:
        """The number of the refit at this tick, if there is one."""
        return None if tick.number % self.interval else tick.number // self.interval

    def _records(self, tick: Tick) -> int:
        if tick.records is None:
            raise ConfigurationError(
                f"{self.name} averages over a public number of records, which ticks by a clock "
                "keep secret; close ticks by count"
            )
        return tick.records

    # --- the learner's contract ----------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return "priv_inc_erm"

    @property
    def window(self) -> None:
        """None: a record counts for ever."""
        return

    @property
    def promise(self) -> Promise:
        """Every record is protected for ever."""
        return Promise.FOREVER

    def describe(self) -> Mapping[str, Any]:
        """Every public parameter, JSON-ready: its identity for ``resume``."""
        return {
            "loss": {"name": self.loss.name, "parameters": described(self.loss)},
            "constraint": described(self.constraint),
            "solver": {"name": self.solver.name, "options": described(self.solver)},
            "horizon": self.horizon,
            "tick_records": self.tick_records,
            "interval": self.interval,
            "shares": self.division,
            "gradient_clip": self.gradient_clip,
        }

    def opening_events(self) -> Sequence[Event]:
        """Nothing: every refit is charged when it happens."""
        return ()

    def next_events(self, tick: Tick) -> Sequence[Event]:
        """What the refit at this tick costs the records so far, if there is one."""
        index = self._due(tick)
        records = self._records(tick)
        if index is None or records == 0:
            return ()
        return tuple(covering(event, (0, records)) for event in self.plan(index, records).events)

    @cached_property
    def _by_moments(self) -> StatisticSolver | None:
        """The solver, if moments are all it needs."""
        return self.solver if isinstance(self.solver, StatisticSolver) else None

    def init(self) -> HistoryState:
        """The state of an empty stream."""
        return HistoryState(
            rows=[],
            moments=MomentAccumulator(self.domain.width),
            records=0,
            closed=0,
            fitted=0,
            parameters=self.constraint.centre(),
        )

    def learn(self, state: HistoryState, batch: Batch) -> None:
        """Keep the records, or their moments; the same for any batching."""
        if self._by_moments is not None:
            state.moments.add(batch)
        elif len(batch):
            state.rows.append(batch.rows.copy())
        state.records += len(batch)

    def close(self, state: HistoryState, tick: Tick) -> None:
        """Close the tick.

        Raises:
            HorizonReached: past the declared horizon.
        """
        require_within_horizon(self.name, closed=state.closed, horizon=self.horizon)
        state.closed += 1

    def release(self, state: HistoryState, tick: Tick, noise: Noise) -> Outcome:
        """Refit if it is time; publish the last model."""
        index = self._due(tick)
        records = self._records(tick)
        measurements: Sequence[Measurement] = ()
        plan = None
        if index is not None and records > 0:
            plan = self.plan(index, records)
            result = self._run(plan, state, noise.child(f"refit {index}"))
            # Solvers number their own measurements; a stream's addresses are unique.
            measurements = [
                replace(part, address=(index, *part.address)) for part in result.measurements
            ]
            state.parameters = result.parameters
            state.fitted = tick.number
            if index == self.refits(self.interval):
                # What no later refit needs is forgotten.
                state.rows, state.moments = [], MomentAccumulator(self.domain.width)
        return Outcome(measurements=measurements, model=self._model(state, tick, plan))

    def _run(self, plan: Plan, state: HistoryState, noise: Noise) -> SolverResult:
        by_moments = self._by_moments
        if by_moments is not None:
            held = state.moments.snapshot()
            statistics = ExactVector(
                np.asarray(held["high"], np.int64),
                np.asarray(held["low"], np.int64),
                MOMENT_EXPONENT,
            )
            return by_moments.release_statistics(plan, statistics, noise)
        # In one piece, and kept so: the next refit has less to join.
        state.rows = [np.concatenate(state.rows)]
        return self.solver.release(plan, Batch(state.rows[0], self.domain.dimension), noise)

    def snapshot(self, state: HistoryState) -> Arrays:
        """The whole state, secret and public, as arrays; rows are integers."""
        rows = np.concatenate([np.zeros((0, self.domain.width)), *state.rows])
        arrays: dict[str, FloatArray | IntArray] = {
            "rows": rows.astype(np.int64),
            "counts": np.array([state.records, state.closed, state.fitted], np.int64),
            "parameters": state.parameters.copy(),
        }
        return arrays | {f"moments.{key}": held for key, held in state.moments.snapshot().items()}

    def restore(self, arrays: Arrays) -> HistoryState:
        """The state of a snapshot; continues to the bit."""
        rows = np.ascontiguousarray(arrays["rows"], np.float64)
        records, closed, fitted = (int(number) for number in arrays["counts"])
        moments = {key.removeprefix("moments."): held for key, held in arrays.items()}
        return HistoryState(
            rows=[rows] if len(rows) else [],
            moments=MomentAccumulator.restore(self.domain.width, moments),
            records=records,
            closed=closed,
            fitted=fitted,
            parameters=np.array(arrays["parameters"], np.float64),
        )

    def _model(self, state: HistoryState, tick: Tick, plan: Plan | None) -> Mapping[str, Any]:
        """The last model; the set's centre, and marked as not ready, before the first refit."""
        table = np.atleast_2d(self.problem(1).scaled_parameters(state.parameters))
        return {
            "kind": "scores",
            "tick": tick.number,
            "records": tick.records,
            "loss": self.loss.name,
            "features": list(self.domain.feature_names),
            "targets": list(self.domain.target_names),
            "ready": state.fitted > 0,
            "fitted_at": state.fitted,
            "refitted": plan is not None,
            "expected_excess": None if plan is None else plan.excess_bound,
            **described_scores(
                self.domain,
                table if self.domain.intercept else table[:, 1:],
                loss=self.loss,
            ),
        }
