"""Implicit steps must be the proximal map: their contraction is what the noise rests on."""

import numpy as np
import pytest

from dpstream.arrays import FloatArray
from dpstream.domain.domain import Domain
from dpstream.learners.online.online_algorithm import StepProblem
from dpstream.learners.online.pigd import ImplicitGradientDescent
from dpstream.losses.logistic import LogisticLoss
from dpstream.mechanisms.public import public_generator

STEPS = [0.1, 1.0, 22.742325491889503, 188.38164354475893, 252.4655099337837, 1e4, 2323963.6]
FAR = [0.0, 0.5, 2.6464849540950595, 2.6464982735770217, 3.192363520003811, 8.0, 19.612637191295516]


def slope_by_bisection(score: float, target: float, step: float, clip: float) -> float:
    """The slope s with ``s = clipped(l'(score - step s))``: one side rises in s, one falls."""
    lower, upper = -1.0, 1.0
    for _ in range(200):
        middle = 0.5 * (lower + upper)
        found = -target / (1.0 + np.exp(np.clip(target * (score - step * middle), -700, 700)))
        lower, upper = (lower, middle) if middle > np.clip(found, -clip, clip) else (middle, upper)
    return 0.5 * (lower + upper)


def grid(count: int) -> FloatArray:
    """Scores, steps and clips where Newton's steps went back and forth, and many others."""
    random = public_generator(5)
    steps = 10 ** random.uniform(-3, 5, count)
    scores = steps ** random.uniform(0, 1, count) * random.uniform(-1.5, 1.5, count)
    clips = np.where(random.random(count) < 0.5, 1.0, 10 ** random.uniform(-2, 0, count))
    return np.stack([scores, steps, clips], axis=1)


@pytest.mark.parametrize("target", [1.0, -1.0])
def test_the_compiled_slope_is_the_proximal_maps(target: float):
    from dpstream.losses.loss_code import LOGISTIC
    from dpstream.losses.slope_kernel import implicit_slope

    chosen = [(sign * score, step, 1.0) for sign in (1, -1) for score in FAR for step in STEPS]
    for score, step, clip in [*chosen, *grid(3000).tolist()]:
        found = implicit_slope(LOGISTIC, score, target, step, 0.0, clip)
        assert abs(found - slope_by_bisection(score, target, step, clip)) < 1e-12


@pytest.mark.parametrize("target", [1.0, -1.0])
def test_the_vectorised_root_is_the_proximal_maps(target: float):
    cases = np.array([(sign * u, c, 1.0) for sign in (1, -1) for u in FAR for c in STEPS])
    scores, steps, _ = np.vstack([cases, grid(2000)]).T
    targets = np.full(scores.size, target)
    roots = LogisticLoss().proximal(scores, targets, steps)
    slopes = (scores - roots) / steps
    exact = [
        slope_by_bisection(score, target, step, 1.0)
        for score, step in zip(scores, steps, strict=True)
    ]
    np.testing.assert_allclose(slopes, exact, rtol=0, atol=1e-11)


# Streams found by search, on which unfinished roots moved the iterate by 1.64 times the claim.
@pytest.mark.parametrize(
    ("modulus", "nulled", "records"),
    [
        (
            0.0053047372878597746,
            1,
            [
                (1, -1),
                (1, 1),
                (0.8105002424235623, -1),
                (1, 1),
                (1, 1),
                (0.931594274292512, 1),
                (1, -1),
            ],
        ),
        (
            0.005797383768890452,
            0,
            [
                (0.7829567335198524, -1),
                (0.9842313371919232, -1),
                (1, 1),
                (1, 1),
                (0.9057582321013661, 1),
                (1, -1),
            ],
        ),
    ],
)
def test_a_nulled_record_moves_the_iterate_no_further_than_declared(
    modulus: float, nulled: int, records: list[tuple[float, float]]
):
    algorithm = ImplicitGradientDescent()
    problem = StepProblem(
        loss=LogisticLoss(),
        slope=1.0,
        length=1.0,
        modulus=modulus,
        domain=Domain.vectors(1, norm_bound=1.0, target_bound=1.0),
    )
    rows = np.array(records, np.float64)
    without = rows.copy()
    without[nulled] = 0.0
    ends: list[FloatArray] = []
    for world in (rows, without):
        point = np.zeros(1)
        algorithm.run(
            problem, world, np.ones(2), target_column=1, steps=0, point=point, total=np.zeros(1)
        )
        ends.append(point)
    assert abs(ends[0] - ends[1])[0] <= algorithm.shift(problem, len(rows))
