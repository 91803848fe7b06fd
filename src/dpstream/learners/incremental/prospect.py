"""The excess risk that each incremental learner is predicted to have, over a stream's life.

No data is seen: the learner's own solver is run on the expected moments of made-up records
(``population.py``) with noise of the learner's own law. What is predicted is the excess of the
whole sum, the paper's measure (000, definition 2), at a few ticks up to the horizon; between two
refits PrivIncERM's model is the last one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, singledispatch
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.errors import ConfigurationError
from dpstream.learners.incremental.forecast import declared_set, simulated_parameters
from dpstream.learners.incremental.population import Population
from dpstream.learners.incremental.priv_inc_erm import PrivIncERM
from dpstream.learners.incremental.priv_inc_reg1 import PrivIncReg1
from dpstream.learners.incremental.priv_inc_reg2 import PrivIncReg2
from dpstream.mechanisms.public import PublicGenerator, public_generator
from dpstream.solvers.linear_model import LinearProblem
from dpstream.solvers.moment_regression import MomentRegression
from dpstream.solvers.plan import Plan

LOOKS = 5
DRAWS = 4

Incremental = PrivIncReg1 | PrivIncReg2 | PrivIncERM


@dataclass(frozen=True, kw_only=True)
class Prospect:
    """What is predicted of one learner: public.

    Attributes:
        name: in the catalogue.
        learner: calibrated; None if it cannot take this stream.
        refusal: why it cannot; None if it can.
        ticks: that were looked at.
        records: by then.
        excess: predicted excess risk of the whole sum then, in scaled units.
    """

    name: str
    learner: Incremental | None = None
    refusal: str | None = None
    ticks: tuple[int, ...] = ()
    records: tuple[int, ...] = ()
    excess: tuple[float, ...] = ()

    @property
    def worst(self) -> float:
        """The largest over time; infinite for a learner that cannot take the stream."""
        return max(self.excess, default=math.inf)

    def describe(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "learner": self.name,
            "refusal": self.refusal,
            "worst_excess": self.worst if math.isfinite(self.worst) else None,
            "over_time": [
                {"tick": tick, "records": records, "excess": excess}
                for tick, records, excess in zip(self.ticks, self.records, self.excess, strict=True)
            ],
        }


def look_ticks(last: int, *, looks: int) -> tuple[int, ...]:
    """A public grid of ticks from the first to the last."""
    return tuple(int(tick) for tick in np.unique(np.rint(np.geomspace(1, last, looks))))


def prospect(
    learner: Incremental,
    population: Population,
    *,
    last: int,
    tick_records: int,
    draws: int = DRAWS,
    looks: int = LOOKS,
    seed: int = 0,
) -> Prospect:
    """Simulate a learner's models on made-up records.

    Args:
        learner: calibrated.
        population: the made-up records.
        last: the last tick looked at.
        tick_records: of each tick, as planned.
        draws: of truth and noise, the same truths for every learner.
        looks: how many ticks are looked at.
        seed: of both.
    """
    ticks = look_ticks(last, looks=looks)
    total = np.zeros(len(ticks))
    for draw in range(draws):
        truth = population.truth(_declared(learner), public_generator(seed + draw))
        generator = public_generator(seed + draw + 1_000_003)
        total += _excess(learner, population, truth, ticks, tick_records, generator)
    return Prospect(
        name=learner.name,
        learner=learner,
        ticks=ticks,
        records=tuple(tick * tick_records for tick in ticks),
        excess=tuple((total / draws).tolist()),
    )


@singledispatch
def _excess(
    learner: Any,
    population: Population,
    truth: FloatArray,
    ticks: Sequence[int],
    tick_records: int,
    generator: PublicGenerator,
) -> FloatArray:
    raise ConfigurationError(f"no prediction is known for a {type(learner).__name__}")


def _solve(
    problem: LinearProblem,
    population: Population,
    truth: FloatArray,
    records: int,
    *,
    seen: FloatArray,
    unit_variance: float,
    shrink: bool,
    generator: PublicGenerator,
) -> float:
    found = simulated_parameters(
        problem,
        population.moments(problem.layout, truth, records, seen=seen),
        unit_variance=unit_variance,
        records=records,
        shrink=shrink,
        generator=generator,
    )
    return records * population.excess(found, truth)


@_excess.register
def _(
    learner: PrivIncReg1,
    population: Population,
    truth: FloatArray,
    ticks: Sequence[int],
    tick_records: int,
    generator: PublicGenerator,
) -> FloatArray:
    return np.array(
        [
            _solve(
                learner.problem,
                population,
                truth,
                tick * tick_records,
                seen=population.rows,
                unit_variance=learner.unit_variance(tick),
                shrink=learner.shrink,
                generator=generator,
            )
            for tick in ticks
        ]
    )


@_excess.register
def _(
    learner: PrivIncReg2,
    population: Population,
    truth: FloatArray,
    ticks: Sequence[int],
    tick_records: int,
    generator: PublicGenerator,
) -> FloatArray:
    seen = _projected(learner, population)
    return np.array(
        [
            _solve(
                learner.problem,
                population,
                truth,
                tick * tick_records,
                seen=seen,
                unit_variance=learner.stream.unit_variance(tick),
                shrink=learner.shrink,
                generator=generator,
            )
            for tick in ticks
        ]
    )


def _projected(learner: PrivIncReg2, population: Population) -> FloatArray:
    batch = learner.features.project(population.batch)
    return np.column_stack([np.ones(len(batch)), batch.scaled_features])


@_excess.register
def _(
    learner: PrivIncERM,
    population: Population,
    truth: FloatArray,
    ticks: Sequence[int],
    tick_records: int,
    generator: PublicGenerator,
) -> FloatArray:
    solver = learner.solver
    if not isinstance(solver, MomentRegression):
        raise ConfigurationError(
            "PrivIncERM is predicted over time for MomentRegression alone; compare other solvers "
            "with dpstream plan on a [batch] problem"
        )

    @cache
    def refit(index: int) -> float:
        """Excess per record of the model of that refit; of the set's centre before the first."""
        if index == 0:
            start = learner.problem(1).scaled_parameters(learner.constraint.centre())
            return population.excess(np.ravel(start), truth)
        records = index * learner.interval * tick_records
        plan = learner.plan(index, records)
        moments = population.moments(
            solver.layout(plan.problem), truth, records, seen=population.rows
        )
        return population.excess(simulated_refit(solver, plan, moments, generator), truth)

    return np.array([tick * tick_records * refit(tick // learner.interval) for tick in ticks])


def simulated_refit(
    solver: MomentRegression, plan: Plan, moments: FloatArray, generator: PublicGenerator
) -> FloatArray:
    """Scaled parameters of a refit, intercept first (0 if there is none), as they would be.

    Args:
        solver: of the refit.
        plan: of the refit.
        moments: exact, in the order of the solver's layout.
        generator: of the noise.
    """
    layout, sigma = solver.layout(plan.problem), plan.noise_scales["moments"]
    noise = generator.standard_normal(moments.size) * sigma / layout.scales
    point = solver.solved(plan.problem, layout, moments + noise, sigma)
    return np.ravel(plan.problem.scaled_parameters(point))


def _declared(learner: Incremental) -> Any:
    return declared_set(learner) if isinstance(learner, PrivIncReg1) else learner.constraint
