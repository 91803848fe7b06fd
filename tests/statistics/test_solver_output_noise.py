"""The noise of perturbed outputs and objectives: what is there is what was planned.

Each check passes as it is and fails for half and for twice the noise. False alarms are below
1e-6: chi-squared and Kolmogorov-Smirnov limits at that level.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpstream.arrays import FloatArray
from dpstream.domain.domain import Domain
from dpstream.geometry.l2_ball import L2Ball
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.randomness.public import public_generator
from dpstream.solvers.minimiser import Objective, Target
from dpstream.solvers.objective_perturbation import ObjectivePerturbation
from dpstream.solvers.output_perturbation import OutputPerturbation
from dpstream.solvers.plan import Plan
from dpstream.solvers.pol import OnlineToOffline
from dpstream.solvers.problem import Problem
from dpstream.testing.attack import failures, spherical_attack

BUDGET = Budget(epsilon=1.0, delta=1e-6)
FALSE_ALARM = 1e-6
RECORDS, DIMENSION, RUNS = 60, 3, 240


def problem_of(loss: Any, radius: float) -> Problem:
    return Problem(
        loss=loss,
        convex_set=L2Ball(dimension=DIMENSION, radius=radius),
        domain=Domain.vectors(DIMENSION, norm_bound=1.0, target_bound=1.0),
        records=RECORDS,
        neighbours=Neighbours.REPLACE,
        unit=Unit(),
    )


def admitted(problem: Problem) -> Any:
    generator = public_generator(1)
    features = generator.normal(size=(RECORDS, DIMENSION))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return problem.domain.admit(features, np.sign(features[:, 0]))


def scaled(plan: Plan, factor: float) -> Plan:
    """The plan with its noise changed, and its claims kept."""
    return replace(
        plan, noise_scales={name: factor * scale for name, scale in plan.noise_scales.items()}
    )


def is_normal(values: FloatArray, deviation: float) -> bool:
    """Mean square by chi-squared, shape by Kolmogorov-Smirnov."""
    size = values.size
    low, high = (stats.chi2.ppf(level, size) for level in (FALSE_ALARM / 2, 1 - FALSE_ALARM / 2))
    square = float(np.sum(values**2)) / deviation**2
    shape = stats.kstest(values.ravel() / deviation, "norm").pvalue
    return bool(low <= square <= high and shape > FALSE_ALARM)


def outputs(solver: Any, plan: Plan) -> FloatArray:
    batch = admitted(plan.problem)
    found = [solver.release(plan, batch, Noise.insecure(seed)) for seed in range(RUNS)]
    return np.array(
        [np.ldexp(r.measurements[0].value.astype(float), r.measurements[0].exponent) for r in found]
    )


@pytest.mark.parametrize(("factor", "honest"), [(1.0, True), (0.5, False), (2.0, False)])
@pytest.mark.parametrize(
    "solver", [OutputPerturbation(ridge=0.1), OnlineToOffline(ridge=0.1)], ids=repr
)
def test_solver_output_noise_is_as_planned(solver: Any, factor: float, honest: bool) -> None:
    plan = solver.plan(problem_of(LogisticLoss(), 5.0), BUDGET)
    found = outputs(solver, scaled(plan, factor))
    # All runs share the data: the difference of two is noise alone, of twice the variance.
    noise = (found[::2] - found[1::2]) / np.sqrt(2.0)
    assert is_normal(noise, plan.noise_scales["output"]) is honest


@pytest.mark.parametrize(("factor", "honest"), [(1.0, True), (0.5, False), (2.0, False)])
def test_solver_output_spherical_noise_is_as_planned(factor: float, honest: bool) -> None:
    solver = OutputPerturbation(ridge=0.1, noise="spherical_laplace")
    plan = solver.plan(problem_of(LogisticLoss(), 5.0), BUDGET)
    silent = scaled(plan, 1e-5)
    centre = outputs(solver, silent).mean(axis=0)
    found = outputs(solver, scaled(plan, factor)) - centre
    broken = failures(
        spherical_attack(found, scale=plan.noise_scales["output"], false_alarm=FALSE_ALARM)
    )
    assert (not broken) is honest


def test_solver_output_coordinate_noise_is_found() -> None:
    noise = public_generator(2).laplace(size=(4000, DIMENSION))
    assert failures(spherical_attack(noise, scale=1.0, false_alarm=FALSE_ALARM))


@pytest.mark.parametrize(("factor", "honest"), [(1.0, True), (0.5, False), (2.0, False)])
@pytest.mark.parametrize("loss", [LogisticLoss(), SquaredLoss()], ids=lambda loss: loss.name)
def test_solver_objective_perturbation_is_read_back(loss: Any, factor: float, honest: bool) -> None:
    """An unconstrained minimiser tells its perturbation: ``b = -n grad F``, exactly normal."""
    problem = problem_of(loss, 400.0)
    solver = ObjectivePerturbation(ridge=0.3)
    plan = solver.plan(problem, BUDGET)
    batch = admitted(problem)
    objective = Objective(Target(problem=problem, modulus=0.3, centre=np.zeros(DIMENSION)), batch)
    found = outputs(solver, scaled(plan, factor))
    read = np.array([-RECORDS * objective.gradient(point) for point in found])
    assert is_normal(read, plan.noise_scales["linear_term"]) is honest
