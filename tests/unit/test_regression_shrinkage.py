"""The spectrum, the filters and the damping over sets: what they say of the noise is so."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from dpstream.geometry.convex_set import ConvexSet
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.geometry.simplex import Simplex
from dpstream.mechanisms.public import PublicGenerator, public_generator
from dpstream.solvers import spectral_choice
from dpstream.solvers.ball_quadratic import ball_minimum
from dpstream.solvers.constrained_quadratic import Constraint
from dpstream.solvers.noisy_quadratic import NoisyQuadratic, Profile
from dpstream.solvers.quadratic import solve_quadratic
from dpstream.solvers.spectral_choice import Damped, least_predicted
from dpstream.solvers.spectrum import put_back, semicircle_spectrum

SIZE = 40


def symmetric(generator: PublicGenerator, size: int, noise: float) -> np.ndarray:
    upper = np.triu(generator.standard_normal((size, size)))
    return noise * (np.triu(upper, 1) + np.triu(upper, 1).T) / math.sqrt(2) + noise * np.diag(
        np.diagonal(upper)
    )


def variances(size: int, noise: float) -> np.ndarray:
    found = np.full((size, size), noise**2 / 2)
    np.fill_diagonal(found, noise**2)
    return found


def spiked(
    seed: int, noise: float, constraint: ConvexSet | None = None
) -> tuple[NoisyQuadratic, np.ndarray, np.ndarray]:
    """A few strong directions and many weak ones; the truth lives in both."""
    generator = public_generator(seed)
    basis = np.linalg.qr(generator.standard_normal((SIZE, SIZE)))[0]
    values = np.concatenate([[900.0, 500.0, 300.0, 150.0], np.geomspace(60.0, 1.0, SIZE - 4)])
    gram = (basis * values) @ basis.T
    truth = basis @ (generator.standard_normal(SIZE) / math.sqrt(SIZE))
    problem = NoisyQuadratic(
        gram=gram + symmetric(generator, SIZE, noise),
        cross=(gram @ truth + noise * generator.standard_normal(SIZE))[:, np.newaxis],
        gram_variance=variances(SIZE, noise),
        cross_variance=np.full((SIZE, 1), noise**2),
        constraint=None if constraint is None else Constraint(convex_set=constraint),
    )
    return problem, gram, truth


def excess(parameters: np.ndarray, gram: np.ndarray, truth: np.ndarray) -> float:
    gap = parameters - truth
    return float(gap @ gram @ gap)


def test_eigenvalues_are_put_back_where_they_were() -> None:
    generator = public_generator(1)
    size, noise = 400, 1.0
    radius = 2.0 * math.sqrt(size / 2) * noise
    for true in (0.75 * radius, 1.5 * radius, 4.0 * radius):
        matrix = symmetric(generator, size, noise)
        matrix[0, 0] += true
        seen = float(np.linalg.eigvalsh(matrix)[-1])
        # An outlier fluctuates by about the noise of one entry; seen it is off by r^2 / (4 l).
        assert seen - true > 0.7 * radius**2 / (4 * true)
        assert float(put_back(np.array([seen]), radius)[0]) == pytest.approx(true, abs=6 * noise)
    values = np.array([-3.0, 0.0, 1.0, 2.0, 5.0])
    np.testing.assert_array_equal(put_back(values, 0.0), np.maximum(values, 0.0))
    assert np.all(np.diff(put_back(np.linspace(-9, 9, 99), 2.0)) >= 0.0)


def test_a_spectrum_lies_above_half_the_noise() -> None:
    matrix = symmetric(public_generator(2), SIZE, 3.0)
    radius = 2.0 * math.sqrt(SIZE / 2) * 3.0
    found = semicircle_spectrum(matrix, penalty=0.0, radius=radius)
    assert found.values.min() == pytest.approx(radius / 2)
    assert found.raised > SIZE / 2
    large = semicircle_spectrum(matrix, penalty=10 * radius, radius=radius)
    assert large.values.min() == pytest.approx(10 * radius)


def test_predicted_risks_are_those_of_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over many draws the optimism is the mean product of the noise with the estimate.

    The estimated quadratic is replaced by the noisy one, for which Stein's identity is exact.
    """
    noise, draws = 20.0, 300
    seen: list[float] = []
    shown: list[float] = []
    true: list[float] = []
    monkeypatch.setattr(spectral_choice, "_SIZES", [1.0])
    monkeypatch.setattr(spectral_choice, "LEAST_KEPT", 0.0)
    radius = 2.0 * math.sqrt(SIZE / 2) * noise
    for draw in range(draws):
        problem, gram, truth = spiked(3, noise)
        generator = public_generator(100 + draw)
        clean = problem.cross[:, 0] - (problem.cross[:, 0] - gram @ truth)
        drawn = NoisyQuadratic(
            gram=gram + symmetric(generator, SIZE, noise),
            cross=(clean + noise * generator.standard_normal(SIZE))[:, np.newaxis],
            gram_variance=problem.gram_variance,
            cross_variance=problem.cross_variance,
        )
        estimate = semicircle_spectrum(drawn.gram, penalty=0.0, radius=radius)
        damped: Damped = spectral_choice._by_divergence(drawn, estimate, radius)  # pyright: ignore[reportPrivateUsage]  # one of two rules
        stiffness = damped.stiffness[0]
        assert stiffness is not None
        slopes = estimate.basis @ ((estimate.basis.T @ drawn.cross[:, 0]) / stiffness)
        turned = estimate.basis.T @ slopes
        exact = float((estimate.raw - estimate.values) @ turned**2)
        seen.append(damped.risk + exact)
        cross = float(slopes @ drawn.cross[:, 0])
        shown.append(float(slopes @ drawn.gram @ slopes) - 2.0 * cross)
        true.append(float(slopes @ gram @ slopes) - 2.0 * float(slopes @ gram @ truth))
    gaps = np.array(seen) - np.array(true)
    # The difference of the means has deviation std / sqrt(300), and 5 of them a false alarm rate
    # below 1e-6; choosing the least of three predictions makes it too good by some more.
    limit = 5 * gaps.std() / math.sqrt(draws) + 0.1 * abs(float(np.mean(true)))
    assert abs(gaps.mean()) < limit
    # The control: what the noisy moments show, without the optimism, is far too good.
    assert float(np.mean(true) - np.mean(shown)) > 3 * limit


@pytest.mark.parametrize("noise", [3.0, 10.0, 30.0, 300.0])
def test_choosing_beats_the_repair_alone_and_is_no_worse_than_nothing(noise: float) -> None:
    ours = plain = nothing = 0.0
    for seed in range(20):
        problem, gram, truth = spiked(seed, noise)
        ours += excess(solve_quadratic(problem).parameters[:, 0], gram, truth)
        plain += excess(solve_quadratic(problem, shrink=False).parameters[:, 0], gram, truth)
        nothing += excess(np.zeros(SIZE), gram, truth)
    assert ours <= 1.0001 * nothing
    assert ours < plain


SETS: dict[str, Callable[[], ConvexSet]] = {
    "l1": lambda: L1Ball(dimension=SIZE, radius=8.0),
    "l2": lambda: L2Ball(dimension=SIZE, radius=1.0),
    "simplex": lambda: Simplex(dimension=SIZE),
}


@pytest.mark.parametrize("name", SETS)
def test_over_a_set_early_releases_stay_near_its_centre(name: str) -> None:
    chosen = SETS[name]()
    zero = np.zeros(SIZE)
    centre = zero if chosen.contains(zero) else chosen.centre()
    ours = plain = nothing = 0.0
    for seed in range(12):
        problem, gram, truth = spiked(seed, 300.0, chosen)
        found = solve_quadratic(problem)
        point = found.parameters[:, 0]
        assert chosen.contains(point, tolerance=1e-7)
        np.testing.assert_array_equal(solve_quadratic(problem).parameters[:, 0], point)
        ours += excess(point, gram, truth)
        plain += excess(solve_quadratic(problem, shrink=False).parameters[:, 0], gram, truth)
        nothing += excess(centre, gram, truth)
    # Undamped, the L1 ball's minimiser does three times as much harm as nothing would.
    assert ours <= max(1.3 * nothing, 0.8 * plain)


def test_over_a_set_little_noise_changes_little() -> None:
    for name in SETS:
        problem, gram, truth = spiked(4, 0.01, SETS[name]())
        quiet = NoisyQuadratic(
            gram=gram,
            cross=(gram @ truth)[:, np.newaxis],
            gram_variance=np.zeros((SIZE, SIZE)),
            cross_variance=np.zeros((SIZE, 1)),
            constraint=problem.constraint,
        )
        best = solve_quadratic(quiet).parameters[:, 0]
        np.testing.assert_allclose(solve_quadratic(problem).parameters[:, 0], best, atol=0.02)


def test_a_public_count_bounds_the_noisy_one() -> None:
    problem = NoisyQuadratic(
        gram=np.array([[900.0, 30.0], [30.0, 50.0]]),
        cross=np.array([[300.0], [10.0]]),
        gram_variance=np.full((2, 2), 100.0),
        cross_variance=np.full((2, 1), 100.0),
        constant=True,
        most_records=600.0,
    )
    assert problem.profile.count == 600.0
    assert problem.profile.levels is not None
    assert problem.profile.levels[0] == pytest.approx(0.5)
    low = Profile.of(problem, np.array([[-5.0, 0.0], [0.0, 50.0]]), problem.cross)
    assert low.count == 10.0  # the deviation of the count itself


def test_zero_is_left_for_evidence_alone() -> None:
    released = 0
    for seed in range(100):
        generator = public_generator(seed)
        problem = NoisyQuadratic(
            gram=100.0 * np.eye(SIZE) + symmetric(generator, SIZE, 3.0),
            cross=5.0 * generator.standard_normal((SIZE, 1)),
            gram_variance=variances(SIZE, 3.0),
            cross_variance=np.full((SIZE, 1), 25.0),
        )
        released += least_predicted(problem).stiffness[0] is not None
    assert released <= 20


@pytest.mark.parametrize("size", [8, 32, 128])
def test_over_a_ball_a_plain_signal_moves_though_all_curvature_is_hidden(size: int) -> None:
    """Paper 000, theorem 4.2: what is missed is the noise's, not the signal's."""
    noise, records, draws = 20.0, 1_000_000.0, 6
    deviation = noise * math.sqrt(size)
    for strength in (0.5, 1.0, 4.0, 16.0, 64.0):
        # All records are signal * e_1 with target 1: the curvature along e_1 is far below noise.
        signal = strength * deviation / records
        gram, cross = np.zeros((size, size)), np.zeros(size)
        gram[0, 0], cross[0] = records * signal**2, records * signal
        missed: list[float] = []
        for draw in range(draws):
            generator = public_generator(draw)
            problem = NoisyQuadratic(
                gram=gram + symmetric(generator, size, noise),
                cross=(cross + noise * generator.standard_normal(size))[:, np.newaxis],
                gram_variance=variances(size, noise),
                cross_variance=np.full((size, 1), noise**2),
                radius=1.0,
            )
            first = float(solve_quadratic(problem).parameters[0, 0])
            missed.append(records * ((1 - signal * first) ** 2 - (1 - signal) ** 2))
        # Zero misses 2 strength deviations: it is right for a weak signal and no other.
        assert max(missed) <= 2.0 * deviation
        if strength >= 4.0:
            assert max(missed) < deviation


def test_the_secular_equation_meets_a_general_solver() -> None:
    generator = public_generator(5)
    for size, radius in ((1, 0.3), (5, 0.2), (5, 2.0), (30, 1.0)):
        stiffness = np.geomspace(1e-3, 50.0, size)
        seen = 3.0 * generator.standard_normal(size)
        found, active = ball_minimum(stiffness, seen, radius)
        ball = L2Ball(dimension=size, radius=radius)
        assert ball.contains(found)
        assert active == (float(np.linalg.norm(seen / stiffness)) > radius)
        # The certificate of convex minimisation: no point of the ball is better to first order.
        slope = stiffness * found - seen
        assert float(slope @ (found - ball.minimize_linear(slope))) < 1e-9
    flat, active = ball_minimum(np.zeros(3), np.array([3.0, 0.0, 4.0]), 2.0)
    np.testing.assert_allclose(flat, [1.2, 0.0, 1.6])
    assert active
    assert not np.any(ball_minimum(np.zeros(2), np.zeros(2), 1.0)[0])
