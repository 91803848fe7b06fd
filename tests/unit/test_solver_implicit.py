"""The compiled pass of implicit steps is the pass that the losses' own proximal maps make."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.geometry.box import Box
from dpstream.geometry.convex_set import Projectable
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.losses.generalised_linear import GeneralisedLinearLoss
from dpstream.losses.hinge import HingeLoss, SmoothedHingeLoss
from dpstream.losses.huber import HuberLoss, PseudoHuberLoss
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.loss_code import loss_code
from dpstream.losses.poisson import PoissonLoss
from dpstream.losses.quantile import QuantileLoss
from dpstream.losses.regularised import RegularisedLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.randomness.public import public_generator
from dpstream.solvers import implicit_gradient
from dpstream.solvers.implicit_gradient import (
    course_sensitivity,
    course_shift,
    global_slope,
    run,
    shifted_targets,
)
from dpstream.solvers.pol import pol_course
from dpstream.solvers.problem import Problem

LOSSES: list[GeneralisedLinearLoss] = [
    LogisticLoss(),
    HuberLoss(threshold=0.3),
    HingeLoss(),
    SmoothedHingeLoss(width=0.4),
    PseudoHuberLoss(threshold=0.2),
    QuantileLoss(level=0.3),
    PoissonLoss(rate_bound=2.0, target_offset=1.0),
    PoissonLoss(rate_bound=0.05, target_offset=1.0),
]
SETS: list[Projectable] = [
    L2Ball(dimension=3, radius=0.8),
    L1Ball(dimension=3, radius=0.8),
    Box(half_widths=np.array([0.3, 0.5, 0.7])),
]
RECORDS = 150


def identity(value: object) -> str:
    return repr(value)


def problem_of(loss: Any, chosen: Projectable) -> Problem:
    return Problem(
        loss=loss,
        convex_set=chosen,
        domain=Domain.vectors(3, norm_bound=1.0, target_bound=1.0),
        records=RECORDS,
        neighbours=Neighbours.ZERO_OUT,
        unit=Unit(),
    )


def batch_of(problem: Problem, seed: int = 0) -> Batch:
    generator = public_generator(seed)
    features = generator.normal(size=(RECORDS, 3))
    features[7] = np.nan
    features[11] = 1e-6
    return problem.domain.admit(features, generator.uniform(-1, 1, RECORDS))


def reference(problem: Problem, batch: Batch, course: Any, centre: FloatArray) -> FloatArray:
    """By the losses' own proximal maps, record by record."""
    loss, chosen = problem.generalised_linear_loss, problem.convex_set
    assert isinstance(chosen, Projectable)
    features, targets = problem.design(batch)
    point = chosen.project(centre)
    total = course.weights[0] * point
    for step, row in enumerate(public_generator(5).permutation(RECORDS)):
        x, rate = features[row], course.step_sizes[step] * course.contractions[step]
        point = course.contractions[step] * point + (1 - course.contractions[step]) * centre
        if x.any():
            score = np.array([x @ point])
            moved = loss.proximal(score, targets[row : row + 1], np.array([rate * (x @ x)]))
            point = point - (score[0] - moved[0]) / (x @ x) * x
        point = chosen.project(point)
        total = total + course.weights[step + 1] * point
    return total


@pytest.mark.parametrize("chosen", SETS, ids=lambda chosen: type(chosen).__name__)
@pytest.mark.parametrize("loss", LOSSES, ids=identity)
def test_the_compiled_pass_is_the_losses_own(
    loss: GeneralisedLinearLoss, chosen: Projectable, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = problem_of(loss, chosen)
    batch = batch_of(problem)
    centre = chosen.project(np.array([0.2, -0.1, 0.3]))
    for modulus in (1e-3, 0.3):
        course = pol_course(RECORDS, modulus=modulus, result="suffix")
        found = run(problem, course, batch, centre=centre, seed=5)
        expected = reference(problem, batch, course, centre)
        # Both are computed to what the sensitivity counts as rounding, and much better.
        slope = global_slope(problem)
        allowed = course_sensitivity(problem, course, slope=slope, exponent=None)
        allowed -= implicit_gradient.course_shift(problem, course, slope=slope)
        assert np.linalg.norm(found - expected) <= allowed
        assert np.linalg.norm(found - expected) <= 1e-10
        assert np.linalg.norm(found - centre) > 1e-3  # something was learned
        # Losses that compiled loops do not know go by their own proximal map.
        with monkeypatch.context() as unknown:
            unknown.setattr(implicit_gradient, "loss_code", lambda _: None)
            own = run(problem, course, batch, centre=centre, seed=5)
        assert np.linalg.norm(own - expected) <= 1e-12


@pytest.mark.parametrize("loss", [*LOSSES, SquaredLoss()], ids=identity)
def test_compiled_slopes_are_roots_wherever_they_are_asked(loss: GeneralisedLinearLoss) -> None:
    """``s = l'(u - c s)``, or between the slopes on both sides where l' jumps there."""
    from dpstream.losses.slope_kernel import implicit_slope

    code = loss_code(loss)
    assert code is not None
    generator = public_generator(9)
    for _ in range(2000):
        step = 10 ** generator.uniform(-8, 6)
        score = generator.uniform(-3, 3) * max(1.0, step ** generator.uniform(0, 1))
        target = generator.choice([-1.0, 1.0, generator.uniform(-1, 1)])
        shifted = float(shifted_targets(loss, np.array([target]))[0])
        slope = implicit_slope(code[0], score, shifted, step, code[1], math.inf)
        end = score - step * slope
        # Slopes increase with the score; a little beyond on both sides they enclose the root.
        away = 1e-9 * (1.0 + abs(end)) + 1e-13 * (abs(score) + step * abs(slope))
        below, above = loss.derivative(np.array([end - away, end + away]), np.full(2, target))
        room = 1e-9 * (1.0 + abs(slope))
        assert below - room <= slope <= above + room


def test_compiled_loops_know_every_loss_of_a_score() -> None:
    for loss in [*LOSSES, SquaredLoss()]:
        assert loss_code(loss) is not None
    assert loss_code(object()) is None
    codes = [loss_code(loss) for loss in [*LOSSES[:7], SquaredLoss()]]
    assert len({code[0] for code in codes if code}) == 8


def test_rounding_counts_a_regulariser_s_centre_however_far_it_lies() -> None:
    """A step begins with a mean of the point and the centre, and rounds numbers of that size."""
    problem = problem_of(LogisticLoss(), SETS[1])
    course = pol_course(RECORDS, modulus=0.1, result="last")

    def slack(centre: FloatArray | None) -> float:
        loss = RegularisedLoss(loss=problem.loss, ridge=0.1, centre=centre)
        asked, slope = replace(problem, loss=loss), global_slope(problem)
        exact = course_shift(asked, course, slope=slope)
        return course_sensitivity(asked, course, slope=slope, exponent=None) - exact

    near, far = slack(None), slack(np.full(3, 1e9))
    # Step t rounds its part of the centre, 1 / (t + 1); the pass keeps (t + 1) / (n + 1) of that.
    least = 2.0 * RECORDS / (RECORDS + 1) * 1e9 * math.sqrt(3.0) * 2.0**-53
    assert near < 1e-9
    assert far > least
