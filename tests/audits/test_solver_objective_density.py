"""Objective perturbation in one dimension, where densities are exact.

``theta = argmin sum l_i + Lambda theta^2 / 2 + b theta`` has the density
``phi(-J'(theta) / sigma) J''(theta) / sigma``: hockey-stick divergences are integrals.
"""

import math

import numpy as np
import pytest
from scipy.stats import norm

from dpstream.arrays import FloatArray
from dpstream.losses.huber import PseudoHuberLoss
from dpstream.privacy.gaussian import gaussian_delta
from dpstream.privacy.unit import Neighbours
from dpstream.randomness.public import public_generator
from dpstream.solvers.objective_profile import (
    absence_delta,
    largest_shift,
    objective_delta,
    presence_delta,
    replacement_delta,
)

EPSILON, DELTA = 1.0, 1e-6
THRESHOLD = 0.05
LOSS = PseudoHuberLoss(threshold=THRESHOLD)
# Its slope is at most the threshold, its second derivative at most 1.
SLOPE, BEND = THRESHOLD, 1.0
OTHERS = np.zeros(59)


def log_density(
    points: FloatArray, targets: FloatArray, modulus: float, sigma: float
) -> FloatArray:
    """Of the perturbed minimiser; every feature is 1, null records are left out."""
    slope, bend = modulus * points, np.full(points.size, modulus)
    for target, count in zip(*np.unique(targets, return_counts=True), strict=True):
        slope += count * LOSS.derivative(points, np.full(points.size, target))
        bend += count * LOSS.second_derivative(points, np.full(points.size, target))
    return norm.logpdf(slope / sigma) + np.log(bend / sigma)


def exact_delta(
    first: FloatArray, second: FloatArray, modulus: float, sigma: float, epsilon: float = EPSILON
) -> float:
    """``int (p - e^epsilon q)_+`` for the outputs on two data sets."""
    reach = (12.0 * sigma + 61.0 * SLOPE) / modulus
    points = np.linspace(-reach, reach, 240_001)
    p = np.exp(log_density(points, first, modulus, sigma))
    q = np.exp(log_density(points, second, modulus, sigma))
    assert abs(np.trapezoid(p, points) - 1.0) < 1e-8
    return float(np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0.0), points))


def worst_exact_delta(modulus: float, sigma: float, neighbours: Neighbours) -> float:
    """Over records with the target above, at or below all scores, and both directions."""
    found: list[float] = []
    pairs = [(1.0, -1.0)] if neighbours is Neighbours.REPLACE else [(1.0, None), (0.0, None)]
    for others in (OTHERS, np.zeros(0)):
        for one, two in pairs:
            first = np.append(others, one)
            second = others if two is None else np.append(others, two)
            found += [
                exact_delta(first, second, modulus, sigma),
                exact_delta(second, first, modulus, sigma),
            ]
    return max(found)


def test_solver_objective_printed_calibration_is_not_private() -> None:
    """Paper 001, Algorithm 2: modulus 2 lambda / epsilon, deviation L sqrt(2 ln(1/delta)) / eps."""
    sigma = SLOPE * math.sqrt(2.0 * math.log(1.0 / DELTA)) / EPSILON
    found = worst_exact_delta(2.0 * BEND / EPSILON, sigma, Neighbours.REPLACE)
    assert 7.5e-4 < found < 8.5e-4


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("modulus", [2.0, 5.0, 20.0])
def test_solver_objective_calibration_is_private(neighbours: Neighbours, modulus: float) -> None:
    shift = largest_shift(bend=BEND / modulus, epsilon=EPSILON, delta=DELTA, neighbours=neighbours)
    assert worst_exact_delta(modulus, SLOPE / shift, neighbours) <= DELTA


def test_solver_objective_calibration_is_not_wasteful() -> None:
    """A record whose slope turns over costs what is claimed: a tenth less noise would not do."""
    shift = 0.2293
    claim = absence_delta(shift, EPSILON)
    record, none = np.zeros(1), np.zeros(0)
    assert 0.9 * claim < exact_delta(none, record, 1.0, SLOPE / shift) <= claim
    assert exact_delta(none, record, 1.0, 0.9 * SLOPE / shift) > 3.0 * claim


def bit_delta(ratio: float) -> float:
    """Linear losses on an interval, no curvature: the output is one bit, ``sign(S L + b)``.

    S is the sum of the other records' signs; the changed record turns from +1 to -1.
    """
    return max(
        norm.cdf((others + 1) / ratio) - math.exp(EPSILON) * norm.cdf((others - 1) / ratio)
        for others in range(-59, 60)
    )


def test_solver_objective_linear_losses_on_an_interval() -> None:
    printed = math.sqrt(2.0 * math.log(1.0 / DELTA)) / EPSILON
    assert 7.9e-4 < bit_delta(printed) < 8.5e-4
    shift = largest_shift(bend=0.0, epsilon=EPSILON, delta=DELTA, neighbours=Neighbours.REPLACE)
    assert bit_delta(1.0 / shift) <= DELTA
    assert bit_delta(1.0 / shift) > 0.4 * DELTA  # the factor of folding is open here


# --- the one-dimensional game of the proof ---------------------------------------------------

PANEL = np.linspace(-9.0, 9.0, 120_001)


def game_delta(levels: FloatArray, *, present: bool, epsilon: float) -> float:
    """Either direction's divergence for a non-increasing shift r on the panel."""
    rates = -np.diff(levels) / np.diff(PANEL)
    centre, level = (PANEL[1:] + PANEL[:-1]) / 2, (levels[1:] + levels[:-1]) / 2
    p, q = norm.pdf(centre - level) * (1.0 + rates), norm.pdf(centre)
    first, second = (p, q) if present else (q, p)
    return float(np.sum(np.maximum(first - math.exp(epsilon) * second, 0.0) * np.diff(PANEL)))


def random_levels(shift: float, bend: float, seed: int) -> FloatArray:
    """A random non-increasing shift with slopes of 0 and the largest."""
    generator = public_generator(seed)
    edges = np.sort(generator.uniform(-7.0, 7.0, 2 * generator.integers(1, 12)))
    bent = np.searchsorted(edges, PANEL[:-1]) % 2 == 1
    fall = np.cumsum(np.append(0.0, bent * bend * np.diff(PANEL)))
    start = generator.uniform(-shift, shift) if seed % 3 else shift
    return np.maximum(start - fall, -shift)


def chattering_levels(shift: float, bend: float, epsilon: float) -> FloatArray:
    """The proof's worst case: at each level r, bend where it counts most, in fine teeth."""
    candidates = np.linspace(0.002, shift, 4000)
    grid = np.linspace(0.01, 9.0, 6000)
    gains = (1 + bend) * norm.pdf(grid - candidates[:, None]) - math.exp(epsilon) * norm.pdf(grid)
    best = np.minimum(grid[np.argmax(gains, axis=1)], epsilon / candidates + candidates / 2)
    wanted = np.interp(PANEL, best[::-1], candidates[::-1], left=shift, right=candidates[0])
    level, falling, out = shift, False, np.empty_like(PANEL)
    for index, target in enumerate(wanted):
        out[index] = level
        # Teeth of sixteen cells: fall at full rate, or not at all.
        if index % 16 == 0:
            falling = level > target
        if falling:
            level -= bend * (PANEL[1] - PANEL[0])
    return out


@pytest.mark.parametrize(
    ("shift", "bend", "epsilon"),
    [(0.2, 0.3, 1.0), (0.15, 0.5, 1.0), (0.4, 0.8, 2.0), (0.02, 0.04, 0.1)],
)
def test_solver_objective_profile_bounds_the_game_and_is_attained(
    shift: float, bend: float, epsilon: float
) -> None:
    present = presence_delta(shift, bend, epsilon)
    absent = absence_delta(shift, epsilon)
    for seed in range(24):
        levels = random_levels(shift, bend, seed)
        assert game_delta(levels, present=True, epsilon=epsilon) <= present
        assert game_delta(levels, present=False, epsilon=epsilon) <= absent * (1 + 1e-6)
    worst = game_delta(chattering_levels(shift, bend, epsilon), present=True, epsilon=epsilon)
    assert 0.85 * present < worst <= present
    turning = np.clip(-bend * PANEL, -shift, shift)
    worst = game_delta(turning, present=False, epsilon=epsilon)
    assert 0.98 * absent < worst <= absent * (1 + 1e-6)


# --- witnesses -------------------------------------------------------------------------------


def published_delta(shift: float, bend: float, epsilon: float) -> float:
    """Redberg, Koskela and Wang (2023), zero-out, where ``epsilon + ln(1 - k) >= mu^2 / 2``."""
    room = epsilon + math.log1p(-bend)
    return 2.0 * gaussian_delta(shift, room) if room >= shift**2 / 2 else 1.0


@pytest.mark.parametrize("bend", [0.01, 0.05, 0.1, 0.2, 0.5])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_solver_objective_profile_is_below_the_published_one(bend: float, epsilon: float) -> None:
    for shift in (0.05, 0.1, 0.2, 0.3):
        ours = objective_delta(shift, bend=bend, epsilon=epsilon, neighbours=Neighbours.ZERO_OUT)
        assert ours <= published_delta(shift, bend, epsilon) * (1 + 1e-6)


def test_solver_objective_noise_against_published_and_split() -> None:
    """At epsilon 1, delta 1e-6, in units of the Gaussian mechanism's noise, 4.2247."""

    def noise(bend: float) -> float:
        shift = largest_shift(bend=bend, epsilon=1.0, delta=1e-6, neighbours=Neighbours.ZERO_OUT)
        return 1.0 / (shift * 4.2247)

    assert noise(0.05) == pytest.approx(1.033, abs=0.002)
    assert noise(0.2) == pytest.approx(1.072, abs=0.004)
    assert noise(0.5) == pytest.approx(1.354, abs=0.006)
    # The split of epsilon with q = 0.1 and 0.25, replace: 9.63 and 11.42 in units of L.
    for part, expected in ((0.1, 9.63), (0.25, 11.42)):
        shift = largest_shift(
            bend=math.expm1(part), epsilon=1.0, delta=1e-6, neighbours=Neighbours.REPLACE
        )
        assert 1.0 / shift == pytest.approx(expected, rel=2e-3)


def test_solver_objective_presence_approaches_the_gaussian_mechanism() -> None:
    for shift in (0.1, 0.2, 0.3):
        assert presence_delta(shift, 1e-3, 1.0) == pytest.approx(
            gaussian_delta(shift, 1.0), rel=1e-3
        )
        assert presence_delta(shift, 0.2, 1.0) <= gaussian_delta(shift, 1.0 - math.log(1.2))


def test_solver_objective_profile_is_trivial_where_nothing_is_proved() -> None:
    assert presence_delta(0.2, 2.0, 1.0) == 1.0
    assert replacement_delta(0.2, 2.0, 1.0) == 1.0
    assert objective_delta(0.0, bend=5.0, epsilon=1.0, neighbours=Neighbours.REPLACE) == 0.0
    assert absence_delta(3.0, 0.5) < 1.0
