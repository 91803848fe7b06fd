"""How far one record really moves what is perturbed, by search, against the claims.

Huber's loss with a small threshold has slopes that stay at their bound: worst cases are attained.
"""

from typing import Any

import numpy as np
import pytest

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.geometry.l2_ball import L2Ball
from dpstream.losses.huber import HuberLoss
from dpstream.losses.logistic import LogisticLoss
from dpstream.privacy.bounds import curve_of
from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import gaussian_mu
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.randomness.public import public_generator
from dpstream.solvers.implicit_gradient import Course, course_sensitivity, run
from dpstream.solvers.minimiser import Target, minimise
from dpstream.solvers.non_strongly_convex import fading_course
from dpstream.solvers.output_perturbation import OutputPerturbation, minimiser_sensitivity
from dpstream.solvers.permuted_sgd import PermutedSGD, descend, descent_course, descent_influences
from dpstream.solvers.pol import pol_course
from dpstream.solvers.problem import Problem

BUDGET = Budget(epsilon=1.0, delta=1e-6)
RECORDS, DIMENSION = 40, 2
SLOPE = 0.01
TIGHT = 0.97


def problem_of(loss: Any, neighbours: Neighbours, records: int = RECORDS) -> Problem:
    return Problem(
        loss=loss,
        convex_set=L2Ball(dimension=DIMENSION, radius=0.9),
        domain=Domain.vectors(DIMENSION, norm_bound=1.0, target_bound=1.0),
        records=records,
        neighbours=neighbours,
        unit=Unit(),
    )


def admit(problem: Problem, features: FloatArray, targets: FloatArray) -> Batch:
    return problem.domain.admit(features, targets)


def worst_pair(problem: Problem, position: int) -> tuple[Batch, Batch]:
    """All others null; one record pulls up, and down (replace) or is null (zero-out)."""
    features = np.full((problem.records, DIMENSION), np.nan)
    targets = np.zeros(problem.records)
    features[position], targets[position] = [1.0, 0.0], 1.0
    first = admit(problem, features, targets)
    if problem.neighbours is Neighbours.REPLACE:
        targets[position] = -1.0
    else:
        features[position] = np.nan
    return first, admit(problem, features, targets)


def random_pair(problem: Problem, seed: int) -> tuple[Batch, Batch]:
    generator = public_generator(seed)
    features = generator.normal(size=(problem.records, DIMENSION))
    targets = np.sign(generator.normal(size=problem.records))
    first = admit(problem, features, targets)
    position = generator.integers(problem.records)
    if problem.neighbours is Neighbours.REPLACE:
        features[position], targets[position] = -features[position], targets[position]
    else:
        features[position] = np.nan
    return first, admit(problem, features, targets)


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_solver_output_minimiser_moves_as_claimed(neighbours: Neighbours) -> None:
    problem, modulus, tolerance = problem_of(HuberLoss(threshold=SLOPE), neighbours), 0.05, 1e-9

    def shift(pair: tuple[Batch, Batch]) -> float:
        target = Target(problem=problem, modulus=modulus, centre=np.zeros(DIMENSION))
        first, second = (minimise(target, batch, tolerance=tolerance).point for batch in pair)
        return float(np.linalg.norm(first - second))

    claim = minimiser_sensitivity(problem, modulus=modulus, tolerance=tolerance, exponent=None)
    assert TIGHT * claim < shift(worst_pair(problem, 3)) <= claim
    assert all(shift(random_pair(problem, seed)) <= claim for seed in range(30))
    # A claim for the modulus of lambda |w|^2 with lambda the modulus would be half, and false.
    assert shift(worst_pair(problem, 3)) > claim / 2


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_solver_output_plan_claims_the_shift_it_has(neighbours: Neighbours) -> None:
    """``mu = shift / sigma`` of the worst neighbours, against the budget's."""
    problem = problem_of(HuberLoss(threshold=SLOPE), neighbours)
    plan = OutputPerturbation(ridge=0.05).plan(problem, BUDGET)
    target = Target(problem=problem, modulus=0.05, centre=np.zeros(DIMENSION))
    first, second = (
        minimise(target, batch, tolerance=float(plan.settings["tolerance"])).point
        for batch in worst_pair(problem, 0)
    )
    mu = float(np.linalg.norm(first - second)) / plan.noise_scales["output"]
    assert TIGHT * gaussian_mu(BUDGET) < mu <= curve_of(plan.events[0]).mu
    assert curve_of(plan.events[0]).mu <= gaussian_mu(BUDGET) * (1 + 1e-9)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize(("batch_size", "epochs"), [(1, 1), (4, 3), (40, 5), (7, 2)])
def test_solver_output_descent_moves_as_claimed(
    neighbours: Neighbours, batch_size: int, epochs: int
) -> None:
    problem = problem_of(HuberLoss(threshold=SLOPE), neighbours)
    plan = PermutedSGD(ridge=0.05, batch_size=batch_size, epochs=epochs).plan(problem, BUDGET)
    claim = float(plan.settings["sensitivity"])

    def shift(pair: tuple[Batch, Batch]) -> float:
        first, second = (descend(plan, batch) for batch in pair)
        return float(np.linalg.norm(first - second))

    worst = max(shift(worst_pair(problem, position)) for position in range(RECORDS))
    assert TIGHT * claim < worst <= claim
    assert all(shift(random_pair(problem, seed)) <= claim for seed in range(20))


@pytest.mark.parametrize("batch_size", [1, 5, 20])
@pytest.mark.parametrize("epochs", [1, 4])
def test_solver_output_descent_costs_what_the_minimiser_costs(batch_size: int, epochs: int) -> None:
    """``2 L / (gamma n)`` for steps ``min(1 / beta, 1 / (gamma t))``, any batches and epochs."""
    course = descent_course(
        RECORDS, batch_size=batch_size, epochs=epochs, modulus=0.5, smoothness=0.5
    )
    assert max(descent_influences(course)) == pytest.approx(1.0 / (0.5 * RECORDS), rel=1e-12)
    steep = descent_course(
        RECORDS, batch_size=batch_size, epochs=epochs, modulus=0.05, smoothness=2.0
    )
    assert max(descent_influences(steep)) <= 1.0 / (0.05 * RECORDS) * (1 + 1e-12)


def shift_of(problem: Problem, course: Course, pair: tuple[Batch, Batch]) -> float:
    first, second = (
        run(problem, course, batch, centre=np.zeros(DIMENSION), seed=5) for batch in pair
    )
    return float(np.linalg.norm(first - second))


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("result", ["average", "suffix", "last"])
@pytest.mark.parametrize("fading", [False, True])
def test_solver_pol_first_record_moves_the_result_as_claimed(
    neighbours: Neighbours, result: Any, fading: bool
) -> None:
    problem = problem_of(HuberLoss(threshold=SLOPE), neighbours)
    if fading:
        course = fading_course(RECORDS, strength=0.02, result=result)
    else:
        course = pol_course(RECORDS, modulus=0.1, result=result)
    claim = course_sensitivity(problem, course, slope=SLOPE, exponent=None)
    shifts = [shift_of(problem, course, worst_pair(problem, at)) for at in range(RECORDS)]
    assert 0.999 * claim < max(shifts) <= claim
    assert all(shift_of(problem, course, random_pair(problem, seed)) <= claim for seed in range(15))


@pytest.mark.parametrize("modulus", [1.0, 0.1, 0.01])
@pytest.mark.parametrize("records", [2, 10, 1000])
def test_solver_pol_sensitivities_are_the_closed_forms(modulus: float, records: int) -> None:
    """``(2 L / (alpha n)) (H_n - 1)`` and ``2 L / (alpha (n + 1))``; the printed loses 1/alpha."""
    problem = problem_of(LogisticLoss(), Neighbours.REPLACE, records)
    harmonic = float(np.sum(1.0 / np.arange(1, records + 1)))
    average = course_sensitivity(
        problem,
        pol_course(records, modulus=modulus, result="average"),
        slope=1.0,
        exponent=None,
    )
    assert average == pytest.approx(2.0 / (modulus * records) * (harmonic - 1.0), rel=1e-6)
    last = course_sensitivity(
        problem, pol_course(records, modulus=modulus, result="last"), slope=1.0, exponent=None
    )
    assert last == pytest.approx(2.0 / (modulus * (records + 1)), rel=1e-6)


def test_solver_pol_suffix_has_no_logarithm() -> None:
    problem = problem_of(LogisticLoss(), Neighbours.REPLACE, 100_000)
    suffix = course_sensitivity(
        problem, pol_course(100_000, modulus=1.0, result="suffix"), slope=1.0, exponent=None
    )
    assert suffix == pytest.approx(2.0 * np.log(2.0) * 2.0 / 100_000, rel=1e-3)


def test_solver_pol_fading_moves_by_the_sum_of_moduli() -> None:
    """At most ``2 L / M_{n+1}``, about ``L / (2 a sqrt(n))``, and nearly that: never ``1 / n``."""
    records, strength = 10_000, 0.3
    problem = problem_of(LogisticLoss(), Neighbours.REPLACE, records)
    moduli = 2 * strength / np.sqrt(np.arange(1, records + 2))
    claim = course_sensitivity(
        problem,
        fading_course(records, strength=strength, result="last"),
        slope=1.0,
        exponent=None,
    )
    assert 0.99 * 2.0 / moduli.sum() < claim <= 2.0 / moduli.sum() * (1 + 1e-6)


def test_solver_pol_adds_up_the_records_of_a_user() -> None:
    alone = problem_of(LogisticLoss(), Neighbours.ZERO_OUT)
    user = Problem(
        loss=alone.loss,
        convex_set=alone.convex_set,
        domain=alone.domain,
        records=RECORDS,
        neighbours=Neighbours.ZERO_OUT,
        unit=Unit(kind="user", cap=3, column="id"),
    )
    course = pol_course(RECORDS, modulus=0.1, result="last")
    one, three = (
        course_sensitivity(problem, course, slope=1.0, exponent=None) for problem in (alone, user)
    )
    assert three == pytest.approx(3.0 * one, rel=1e-6)
