"""The noise-aware solver: exact without noise, and never much worse than zero with it."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from dpstream.mechanisms.public import public_generator
from dpstream.solvers.noisy_quadratic import NoisyQuadratic
from dpstream.solvers.quadratic import solve_quadratic
from dpstream.solvers.spectrum import shrink_to_isotropic, stein_factor


def exact(gram: np.ndarray, cross: np.ndarray, **settings: object) -> NoisyQuadratic:
    return NoisyQuadratic(
        gram=gram,
        cross=cross,
        gram_variance=np.zeros_like(gram),
        cross_variance=np.zeros_like(cross),
        **settings,
    )


def data(seed: int, records: int = 60, size: int = 4, targets: int = 2) -> tuple[np.ndarray, ...]:
    generator = public_generator(seed)
    x = generator.standard_normal((records, size)) / math.sqrt(size)
    y = x @ generator.standard_normal((size, targets)) + 0.3
    return x, y + 0.1 * generator.standard_normal((records, targets))


@pytest.mark.parametrize("shrink", [True, False])
@pytest.mark.parametrize("penalty", [0.0, 2.5])
def test_without_noise_it_is_least_squares(shrink: bool, penalty: float) -> None:
    x, y = data(1)
    solution = solve_quadratic(exact(x.T @ x, x.T @ y, penalty=penalty), shrink=shrink)
    expected = np.linalg.solve(x.T @ x + penalty * np.eye(4), x.T @ y)
    np.testing.assert_allclose(solution.parameters, expected, rtol=1e-10)
    assert solution.raised == 0
    assert solution.matrix_shrinkage == (1.0, 1.0)
    np.testing.assert_allclose(solution.shrinkage, 1.0)
    np.testing.assert_allclose(solution.noise_excess, 0.0)


def test_constant_is_neither_penalised_nor_bounded() -> None:
    x, y = data(2)
    z = np.column_stack((np.ones(len(x)), x))
    solution = solve_quadratic(exact(z.T @ z, z.T @ y, penalty=3.0, constant=True))
    ridge = np.diag([0.0, 3.0, 3.0, 3.0, 3.0])
    np.testing.assert_allclose(
        solution.parameters, np.linalg.solve(z.T @ z + ridge, z.T @ y), rtol=1e-9
    )
    np.testing.assert_allclose(solution.curvature, z.T @ z + ridge, atol=1e-10)
    small = solve_quadratic(exact(z.T @ z, z.T @ y, radius=0.01, constant=True))
    np.testing.assert_allclose(np.linalg.norm(small.parameters[1:], axis=0), 0.01)
    assert np.all(np.abs(small.parameters[0]) > 0.1)


def test_missing_directions_stay_at_zero() -> None:
    x, y = data(3, size=3)
    x = np.column_stack((x, np.zeros(len(x))))
    solution = solve_quadratic(exact(x.T @ x, x.T @ y))
    assert np.all(solution.parameters[3] == 0.0)
    np.testing.assert_allclose(solution.parameters, np.linalg.pinv(x) @ y, atol=1e-10)
    nothing = solve_quadratic(exact(np.zeros((3, 3)), np.zeros((3, 1))))
    assert np.all(nothing.parameters == 0.0)


@pytest.mark.parametrize("radius", [0.05, 0.5, 50.0])
def test_ball_against_a_general_solver(radius: float) -> None:
    x, y = data(4, targets=1)
    gram, cross = x.T @ x, x.T @ y
    solution = solve_quadratic(exact(gram, cross, penalty=0.5, radius=radius))
    found = solution.parameters[:, 0]

    def cost(theta: np.ndarray) -> float:
        return float(theta @ (gram + 0.5 * np.eye(4)) @ theta - 2 * theta @ cross[:, 0])

    witness = minimize(
        cost,
        np.zeros(4),
        constraints={"type": "ineq", "fun": lambda theta: radius**2 - theta @ theta},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert np.linalg.norm(found) <= radius * (1 + 1e-12)
    assert solution.active[0] == (np.linalg.norm(found) > radius * (1 - 1e-9))
    assert cost(found) <= cost(witness.x) + 1e-9 * abs(cost(found))


def noisy(seed: int, records: int, noise: float, **settings: object) -> tuple[NoisyQuadratic, ...]:
    """A problem as its noise shows it, and as it is."""
    generator = public_generator(seed)
    size = int(generator.integers(2, 9))
    x = generator.standard_normal((records, size)) * generator.uniform(0.05, 1.0, size)
    y = x @ generator.standard_normal((size, 1)) * generator.uniform(0.0, 1.0)
    upper = np.triu(generator.standard_normal((size, size)))
    shift = upper / math.sqrt(2)
    shift = shift + shift.T
    np.fill_diagonal(shift, np.diagonal(upper))
    shift[~np.eye(size, dtype=bool)] *= 1.0
    true = exact(x.T @ x, x.T @ y, **settings)
    variance = np.full((size, size), noise**2 / 2)
    np.fill_diagonal(variance, noise**2)
    seen = NoisyQuadratic(
        gram=true.gram + noise * shift,
        cross=true.cross + noise * generator.standard_normal((size, 1)),
        gram_variance=variance,
        cross_variance=np.full((size, 1), noise**2),
        **settings,
    )
    return seen, true


@pytest.mark.parametrize("settings", [{}, {"penalty": 5.0}, {"radius": 1.0}, {"penalty": 0.1}])
@pytest.mark.parametrize("shrink", [True, False])
def test_never_worse_than_zero_by_more_than_the_noise(
    settings: dict[str, float], shrink: bool
) -> None:
    # The bound of the proof file holds for every outcome of the noise, at every noise level.
    for seed in range(150):
        noise = 10.0 ** public_generator(seed).uniform(-2, 3)
        seen, true = noisy(seed, 40, noise, **settings)
        solution = solve_quadratic(seen, shrink=shrink)
        best = solve_quadratic(true, shrink=False).parameters[:, 0]
        radius = settings.get("radius")
        if radius is not None and np.linalg.norm(best) >= radius * (1 - 1e-9):
            continue  # the bound compares with the unconstrained minimiser
        curvature = solution.curvature
        rest = seen.cross[:, 0] - curvature @ best
        error = solution.parameters[:, 0] - best
        bound = best @ curvature @ best + rest @ np.linalg.solve(curvature, rest)
        assert error @ curvature @ error <= bound * (1 + 1e-8) + 1e-12


def test_pure_noise_releases_nearly_nothing() -> None:
    # No signal at all: what is released is a small part of what inverting the noise would give.
    released, plain = [], []
    for seed in range(200):
        generator = public_generator(1000 + seed)
        size = 10
        gram = 100.0 * np.eye(size)
        problem = NoisyQuadratic(
            gram=gram,
            cross=generator.standard_normal((size, 1)) * 5.0,
            gram_variance=np.zeros((size, size)),
            cross_variance=np.full((size, 1), 25.0),
        )
        released.append(float(np.sum(solve_quadratic(problem).parameters ** 2)))
        plain.append(float(np.sum(solve_quadratic(problem, shrink=False).parameters ** 2)))
    assert np.mean(released) < 0.15 * np.mean(plain)


def test_shrinkage_is_better_in_the_mean_and_vanishes_with_the_noise() -> None:
    def error(noise: float, shrink: bool) -> float:
        total = 0.0
        for seed in range(120):
            seen, true = noisy(seed, 400, noise)
            best = solve_quadratic(true, shrink=False).parameters[:, 0]
            miss = solve_quadratic(seen, shrink=shrink).parameters[:, 0] - best
            total += float(miss @ true.gram @ miss)
        return total

    # Paired over 120 problems; the seeds are fixed, so this is one number: 0.86.
    assert error(30.0, True) < 0.9 * error(30.0, False)
    assert error(0.01, True) == pytest.approx(error(0.01, False), rel=0.2)
    seen, _ = noisy(5, 4000, 0.001)
    assert solve_quadratic(seen).shrinkage[0] > 0.999


def test_stein_factor() -> None:
    assert stein_factor(1.0, 2, 5.0) == 1.0
    assert stein_factor(9.0, 5, 3.0) == 0.0
    assert stein_factor(18.0, 5, 3.0) == pytest.approx(0.5)
    assert stein_factor(18.0, 5, 0.0) == 1.0


def test_stein_shrinkage_lowers_the_error_whatever_the_matrix() -> None:
    generator = public_generator(9)
    size, noise = 8, 2.0
    variance = np.full((size, size), noise**2 / 2)
    np.fill_diagonal(variance, noise**2)
    for spread in (0.0, 1.0, 5.0):
        truth = 10 * np.eye(size) + spread * np.diag(generator.standard_normal(size))
        raw, shrunk = 0.0, 0.0
        for _ in range(400):
            draw = np.triu(generator.standard_normal((size, size)), 1) * noise / math.sqrt(2)
            seen = truth + draw + draw.T + noise * np.diag(generator.standard_normal(size))
            raw += float(np.sum((seen - truth) ** 2))
            shrunk += float(np.sum((shrink_to_isotropic(seen, variance)[0] - truth) ** 2))
        assert shrunk < raw


@pytest.mark.parametrize("even", [True, False])
def test_the_stated_noise_is_that_of_the_normal_equations(even: bool) -> None:
    """With one variance off the diagonal there is a short cut; the figure is the same."""
    generator = public_generator(8)
    size = 7
    z = generator.normal(size=(60, size))
    variance = np.full((size, size), 3.0)
    if not even:
        variance += generator.uniform(0.0, 1.0, (size, size))
        variance = (variance + variance.T) / 2
    np.fill_diagonal(variance, generator.uniform(4.0, 6.0, size))
    problem = NoisyQuadratic(
        gram=z.T @ z,
        cross=(z.T @ generator.normal(size=60))[:, None],
        gram_variance=variance,
        cross_variance=generator.uniform(1.0, 2.0, (size, 1)),
        penalty=1.0,
    )
    solution = solve_quadratic(problem)
    covariance = problem.equation_covariance(solution.parameters[:, 0], 0)
    expected = np.trace(np.linalg.solve(solution.curvature, covariance))
    assert solution.noise_excess[0] == pytest.approx(expected, rel=1e-9)
