"""What floats add to a secret iterate stays within what releases pay for.

The compiled steps are replayed in 60-digit arithmetic on the same admitted integers. The distance
of the two paths must obey ``float_drift``, which enters the sensitivity once per world.
"""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpstream.domain.domain import Domain
from dpstream.learners.online.online_algorithm import OnlineAlgorithm, StepProblem
from dpstream.learners.online.pgiga import GradientAscent
from dpstream.learners.online.pigd import ImplicitGradientDescent
from dpstream.learners.online.pocp import POCP
from dpstream.learners.online.release_sensitivity import float_drift, release_sensitivity
from dpstream.losses.generalised_linear import GeneralisedLinearLoss
from dpstream.losses.hinge import HingeLoss
from dpstream.losses.huber import HuberLoss
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit

STEPS, WIDTH = 40, 6


def clipped_slope(loss: GeneralisedLinearLoss, score: mpmath.mpf, target: mpmath.mpf, clip: float):
    if isinstance(loss, LogisticLoss):
        slope = -target / (1 + mpmath.exp(target * score))
    elif isinstance(loss, HingeLoss):
        slope = -target if target * score < 1 else mpmath.mpf(0)
    else:
        slope = score - target
        if isinstance(loss, HuberLoss):
            slope = max(-loss.threshold, min(loss.threshold, slope))
    return max(-clip, min(clip, slope))


def implicit(loss: GeneralisedLinearLoss, score, target, step, clip: float):
    """The root of ``v + c slope(v) = u`` by bisection, to 50 digits."""
    if step == 0:
        return mpmath.mpf(0)
    end = score - step * clipped_slope(loss, score, target, clip)
    lower, upper = min(score, end), max(score, end)
    for _ in range(220):
        middle = (lower + upper) / 2
        if middle + step * clipped_slope(loss, middle, target, clip) > score:
            upper = middle
        else:
            lower = middle
    return (score - (lower + upper) / 2) / step


def exact_paths(model: POCP, features: np.ndarray, targets: np.ndarray):
    """The iterates in exact arithmetic, but for 60 digits."""
    problem, algorithm = model.problem, model.algorithm
    alpha, clip = mpmath.mpf(problem.modulus), problem.slope
    x = [mpmath.mpf(0)] * features.shape[1]
    for number, (row, y) in enumerate(zip(features.tolist(), targets.tolist(), strict=True), 1):
        z, target = [mpmath.mpf(value) for value in row], mpmath.mpf(y)
        score = mpmath.fdot(z, x)
        square = mpmath.fdot(z, z)
        if isinstance(algorithm, GradientAscent):
            place = number + algorithm.offset(problem)
            slope = clipped_slope(problem.loss, score, target, clip) if square else 0
            keep, push = mpmath.mpf(place - 1) / place, slope / (alpha * place)
        else:
            keep = mpmath.mpf(number) / (number + 1)
            step = keep / (alpha * number)
            push = step * implicit(problem.loss, keep * score, target, step * square, clip)
        x = [keep * a - push * b for a, b in zip(x, z, strict=True)]
        if isinstance(algorithm, GradientAscent):
            norm = mpmath.sqrt(mpmath.fdot(x, x))
            radius = algorithm.radius(problem)
            x = [a * radius / norm for a in x] if norm > radius else x
        yield x


CASES: list[tuple[OnlineAlgorithm, GeneralisedLinearLoss, float, float | None]] = [
    (ImplicitGradientDescent(), LogisticLoss(), 1e-4, None),
    (ImplicitGradientDescent(), LogisticLoss(), 5e-5, 1e-4),
    (ImplicitGradientDescent(), LogisticLoss(), 1.0, None),
    (ImplicitGradientDescent(), HingeLoss(), 1e-3, None),
    (ImplicitGradientDescent(), HuberLoss(threshold=0.3), 1e-2, None),
    (ImplicitGradientDescent(), SquaredLoss(), 1e-3, 2.0),
    (GradientAscent(), LogisticLoss(), 1e-3, None),
    (GradientAscent(ball_radius=0.05), LogisticLoss(), 1e-2, None),
    (GradientAscent(), SquaredLoss(), 0.1, 0.5),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0].name}-{case[1].name}-{case[2]}")
def test_floats_stay_within_the_drift_that_is_paid_for(
    case: tuple[OnlineAlgorithm, GeneralisedLinearLoss, float, float | None],
) -> None:
    algorithm, loss, modulus, clip = case
    model = POCP(
        domain=Domain.vectors(WIDTH, norm_bound=1.0, target_bound=1.0),
        budget=Budget(epsilon=1.0, delta=1e-6),
        unit=Unit(),
        neighbours=Neighbours.ZERO_OUT,
        releases=STEPS,
        algorithm=algorithm,
        loss=loss,
        modulus=modulus,
        slope_clip=clip,
    )
    generator = public_generator(3)
    x = generator.standard_normal((STEPS, WIDTH))
    x[::5] *= 1e-4
    x[7] = np.nan
    y = np.where(generator.uniform(size=STEPS) < 0.6, 1.0, -1.0)
    batch = model.domain.admit(x, y)
    features, targets = batch.scaled_features, batch.scaled_targets[:, 0]
    state = model.init()
    largest = 0.0
    with mpmath.workdps(60):
        for step, exact in enumerate(exact_paths(model, features, targets), start=1):
            model.learn(state, batch.slice(step - 1, step))
            gaps = [mpmath.mpf(a) - b for a, b in zip(state.point.tolist(), exact, strict=True)]
            distance = float(mpmath.sqrt(mpmath.fdot(gaps, gaps)))
            allowed = float_drift(algorithm, model.problem, steps=step, output="last", width=WIDTH)
            assert distance <= allowed
            largest = max(largest, distance / allowed)
    # The two paths do differ: what is compared is rounding, not one path with itself.
    assert largest > 0.0


def flat_problem(offset: int) -> tuple[StepProblem, GradientAscent]:
    """Explicit steps whose public offset is a given whole number."""
    problem = StepProblem(
        loss=SquaredLoss(),
        slope=1.0,
        length=1.0,
        modulus=0.5 / offset,
        domain=Domain.vectors(WIDTH, norm_bound=1.0, target_bound=1.0),
        clipped=True,
    )
    algorithm = GradientAscent()
    assert algorithm.offset(problem) == offset
    return problem, algorithm


@pytest.mark.parametrize("offset", [1, 2, 64, 4096, 1 << 20])
@pytest.mark.parametrize("steps", [1, 2, 33, 1000])
def test_the_same_error_in_every_step_is_paid_for_however_little_later_steps_contract(
    offset: int, steps: int
) -> None:
    """Beside a large offset nothing contracts: errors add up to all steps', and not to half."""
    problem, algorithm = flat_problem(offset)
    kept = Fraction(0)
    for step in range(1, steps + 1):
        kept = kept * Fraction(step + offset - 1, step + offset) + 1
    rounding = algorithm.roundings(WIDTH) * 2.0**-53 * algorithm.radius(problem)
    paid = float_drift(algorithm, problem, steps=steps, output="last", width=WIDTH)
    assert paid >= float(kept) * rounding


@pytest.mark.parametrize("offset", [1, 600, 1200, 10**6, 1 << 20])
@pytest.mark.parametrize("steps", [1, 2, 10, 100])
def test_an_average_pays_for_the_mean_shift_to_the_last_digit(offset: int, steps: int) -> None:
    problem, algorithm = flat_problem(offset)
    exact = sum((Fraction(1, step + offset) for step in range(1, steps + 1)), Fraction())
    mean = exact * 2 * offset / steps
    drift = float_drift(algorithm, problem, steps=steps, output="average", width=WIDTH)
    found = release_sensitivity(
        algorithm,
        problem,
        steps=steps,
        output="average",
        neighbours=Neighbours.ZERO_OUT,
        cap=1,
        width=WIDTH,
    )
    assert Fraction(found) - 2 * Fraction(drift) >= mean
    assert found - 2 * drift <= float(mean) * (1 + 1e-6)
