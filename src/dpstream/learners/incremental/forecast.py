"""How good a private linear model will be, before any data: noise simulated on made-up records.

The real noise law, the real solver and the learner's own calibration are used; only the records
are made up (``population.py``). Correlated features, or features that fill little of their bounds,
make a worse model than this.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.domain import Domain
from dpstream.geometry.convex_set import ConvexSet
from dpstream.geometry.l2_ball import L2Ball
from dpstream.learners.incremental.population import EXPLAINED, made_up
from dpstream.learners.incremental.priv_inc_reg1 import PrivIncReg1
from dpstream.mechanisms.public import PublicGenerator, public_generator
from dpstream.solvers.linear_model import LinearProblem


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What is expected of the first target's model at one tick, in the user's units.

    Attributes:
        tick: the tick.
        records: records by then.
        best_error: root mean square error of the best linear model.
        expected_error: of the private model, mean over draws of the noise.
        constant_error: of the best constant.
    """

    tick: int
    records: int
    best_error: float
    expected_error: float
    constant_error: float


def forecast(
    learner: PrivIncReg1, ticks: Sequence[tuple[int, int]], *, draws: int = 8, seed: int = 0
) -> list[Forecast]:
    """Simulate the learner's releases at ``(tick, records)`` on made-up records.

    Args:
        learner: the calibrated learner.
        ticks: which releases, each with the number of records by then.
        draws: of the noise, and of the true coefficients.
        seed: of the simulation.
    """
    generator = public_generator(seed)
    population = made_up(learner.domain, generator)
    chosen = declared_set(learner)
    found: list[Forecast] = []
    for tick, records in ticks:
        excess = 0.0
        for _ in range(draws):
            truth = population.truth(chosen, generator)
            moments = population.moments(learner.layout, truth, records, seen=population.rows)
            released = simulated_parameters(
                learner.problem,
                moments,
                unit_variance=learner.unit_variance(tick),
                records=records,
                shrink=learner.shrink,
                generator=generator,
            )
            excess += population.excess(released, truth) / draws
        residual = (1.0 - EXPLAINED) * population.variance
        scale = 1.0 / float(learner.domain.target_map.scale[0])
        found.append(
            Forecast(
                tick=tick,
                records=records,
                best_error=scale * math.sqrt(residual),
                expected_error=scale * math.sqrt(residual + excess),
                constant_error=scale * math.sqrt(population.variance),
            )
        )
    return found


def simulated_parameters(
    problem: LinearProblem,
    moments: FloatArray,
    *,
    unit_variance: float,
    records: int,
    shrink: bool,
    generator: PublicGenerator,
) -> FloatArray:
    """The first target's parameters as they would be released, with noise of the same law.

    Args:
        problem: what is minimised.
        moments: exact, in the layout's order.
        unit_variance: of an entry of scale 1.
        records: how many.
        shrink: whether the solver may shrink.
        generator: of the noise.

    Returns:
        Scaled parameters, intercept first (0 if there is none).
    """
    noise = generator.standard_normal(moments.size) * math.sqrt(unit_variance)
    model = problem.model(
        moments + noise / problem.layout.scales,
        unit_variance=unit_variance,
        records=records,
        shrink=shrink,
        intervals=False,
    )
    return released_parameters(model["targets"][0], problem.domain)


def declared_set(learner: PrivIncReg1) -> ConvexSet | None:
    """The set that a learner was given, a radius being a ball."""
    if learner.radius is None:
        return learner.constraint
    return L2Ball(dimension=learner.domain.dimension, radius=learner.radius)


def released_parameters(target: Mapping[str, Any], domain: Domain) -> FloatArray:
    """A linear model's scaled parameters of one target, intercept first (0 if it has none)."""
    slopes = np.array(target["coefficients"]["estimate"], np.float64)
    head = target["intercept"]["estimate"] if domain.intercept else 0.0
    return np.concatenate([[head], slopes])
