"""The laws of the samplers, each with controls of too little and of too much noise.

Every test rejects at a p-value of 1e-7, so a correct sampler fails one of them with chance
below 1e-6 over all seeds; seeds are fixed, so it never fails by chance once it passes.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpstream.arrays import FloatArray, IntArray
from dpstream.randomness.discrete_gaussian import discrete_gaussian
from dpstream.randomness.gaussian import rounded_gaussian
from dpstream.randomness.gumbel import gumbel_argmax
from dpstream.randomness.public import public_generator
from dpstream.randomness.source import NoiseSource
from dpstream.randomness.spherical import rounded_spherical_laplace

SOURCE = NoiseSource.insecure(23)
DIGEST = SOURCE.bind(np.arange(3))
REJECT = 1e-7
FACTORS = [0.5, 2.0]


def fits(drawn: FloatArray | IntArray, law: Callable[[FloatArray], FloatArray]) -> bool:
    """Kolmogorov-Smirnov against a continuous law."""
    return bool(stats.kstest(drawn, law).pvalue > REJECT)


def fits_mass(drawn: IntArray, mass: Callable[[FloatArray], FloatArray], reach: int) -> bool:
    """Chi-square against masses on ``-reach..reach``, rare outcomes pooled at both ends."""
    points = np.arange(-reach, reach + 1)
    expected = mass(points) * drawn.size
    clipped = np.clip(drawn, -reach, reach)
    observed = np.bincount(clipped + reach, minlength=points.size).astype(float)
    expected[0] += (drawn.size - expected.sum()) / 2
    expected[-1] += drawn.size - expected.sum()
    assert expected.min() > 20
    return bool(stats.chisquare(observed, expected).pvalue > REJECT)


def gaussian(size: int, scale: float) -> IntArray:
    return rounded_gaussian(SOURCE, (1,), DIGEST, size, scale)


@pytest.mark.parametrize(("scale", "reach"), [(1.0, 3), (2.6, 8)])
def test_rounded_gaussian_has_the_masses_of_a_rounded_normal(scale: float, reach: int):
    def mass(k: FloatArray) -> FloatArray:
        return stats.norm.cdf((k + 0.5) / scale) - stats.norm.cdf((k - 0.5) / scale)

    assert fits_mass(gaussian(100_000, scale), mass, reach)
    assert not fits_mass(gaussian(100_000, 2 * scale), mass, reach)
    halved = np.rint(gaussian(100_000, 1000 * scale) / 2000).astype(np.int64)
    assert not fits_mass(halved, mass, reach)


@pytest.mark.parametrize("scale", [2.0**20, 2.0**32])
def test_rounded_gaussian_is_normal(scale: float):
    law = stats.norm(scale=scale).cdf
    drawn = gaussian(150_000, scale)
    assert fits(drawn, law)
    for factor in FACTORS:
        assert not fits(gaussian(150_000, factor * scale), law)
    # Tails: the count beyond 4 standard deviations, two-sided binomial.
    beyond = int(np.sum(np.abs(gaussian(2_000_000, scale)) > 4 * scale))
    assert stats.binomtest(beyond, 2_000_000, 2 * stats.norm.sf(4)).pvalue > REJECT


def test_rounded_gaussian_coordinates_are_independent():
    drawn = gaussian(200_000, 2.0**20).astype(float)
    for lag in (1, 2, 8, 1 << 14):
        correlation = np.corrcoef(drawn[:-lag], drawn[lag:])[0, 1]
        # 5.4 standard errors: two-sided 1e-7.
        assert abs(correlation) < 5.4 / math.sqrt(drawn.size - lag)


def discrete(size: int, variance: Fraction | int) -> IntArray:
    return discrete_gaussian(SOURCE, (2,), DIGEST, size, variance)


@pytest.mark.parametrize(
    ("variance", "reach"), [(Fraction(1, 3), 1), (Fraction(7, 2), 5), (100, 30)]
)
def test_discrete_gaussian_has_its_masses(variance: Fraction | int, reach: int):
    support = np.arange(-400.0, 401.0)
    total = np.sum(np.exp(-(support**2) / (2 * float(variance))))

    def mass(k: FloatArray) -> FloatArray:
        return np.exp(-(k**2) / (2 * float(variance))) / total

    assert fits_mass(discrete(100_000, variance), mass, reach)
    for factor in (Fraction(1, 4), 4):
        assert not fits_mass(discrete(100_000, variance * factor), mass, reach)


def test_discrete_gaussian_agrees_with_the_rounded_one_on_a_fine_lattice():
    # At s = 2^20 the two laws differ by less than 2^-40 in any probability.
    exact = discrete(100_000, 1 << 40)
    assert stats.ks_2samp(exact, gaussian(100_000, 2.0**20)).pvalue > REJECT
    for factor in FACTORS:
        assert stats.ks_2samp(exact, gaussian(100_000, factor * 2.0**20)).pvalue < REJECT
    wide = discrete(20_000, 1 << 80)
    assert fits(wide, stats.norm(scale=2.0**40).cdf)


def spherical(size: int, scale: float, count: int) -> FloatArray:
    drawn = [
        rounded_spherical_laplace(SOURCE, (3, trial), DIGEST, size, scale) for trial in range(count)
    ]
    return np.array(drawn, np.float64)


def norm_fits(vectors: FloatArray, scale: float) -> bool:
    law = stats.gamma(vectors.shape[1], scale=scale).cdf
    return fits(np.linalg.norm(vectors, axis=1), law)


def direction_fits(vectors: FloatArray) -> bool:
    """Every coordinate of a uniform direction is a beta variable on [-1, 1]."""
    directions = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    half = (vectors.shape[1] - 1) / 2
    law = stats.beta(half, half, loc=-1, scale=2).cdf
    octants = (directions[:, :3] > 0) @ np.array([1, 2, 4])
    even = stats.chisquare(np.bincount(octants, minlength=8)).pvalue > REJECT
    # And so is every other projection.
    diagonal = directions @ np.ones(vectors.shape[1]) / math.sqrt(vectors.shape[1])
    return bool(even and fits(directions[:, 0], law) and fits(diagonal, law))


@pytest.mark.parametrize(("size", "count"), [(3, 8000), (54, 4000)])
def test_spherical_laplace_has_a_gamma_norm_and_a_uniform_direction(size: int, count: int):
    scale = 2.0**20
    vectors = spherical(size, scale, count)
    assert norm_fits(vectors, scale)
    assert direction_fits(vectors)
    norms = np.linalg.norm(vectors, axis=1)
    # Independent of each other: 5.4 standard errors.
    assert abs(np.corrcoef(norms, np.abs(vectors[:, 0]) / norms)[0, 1]) < 5.4 / math.sqrt(count)
    for factor in FACTORS:
        assert not norm_fits(factor * vectors, scale)


def test_coordinate_laplace_fails_both_tests_of_the_spherical_law():
    vectors = public_generator(1).laplace(scale=2.0**20, size=(8000, 3))
    assert not norm_fits(vectors, 2.0**20)
    assert not direction_fits(vectors)


def test_one_dimensional_spherical_laplace_is_the_laplace_law():
    vectors = spherical(1, 2.0**20, 8000)[:, 0]
    assert fits(vectors, stats.laplace(scale=2.0**20).cdf)
    for factor in FACTORS:
        assert not fits(factor * vectors, stats.laplace(scale=2.0**20).cdf)


def test_gumbel_argmax_selects_by_the_softmax():
    scores = np.array([0, 30, 55, 80, 100, 100])
    scale = 40.0
    weights = np.exp(scores / scale)
    count = 12_000

    def selection_fits(used: float) -> bool:
        chosen = [gumbel_argmax(SOURCE, (4, trial), DIGEST, scores, used) for trial in range(count)]
        observed = np.bincount(chosen, minlength=scores.size)
        expected = weights / weights.sum() * count
        return bool(stats.chisquare(observed, expected).pvalue > REJECT)

    assert selection_fits(scale)
    for factor in FACTORS:
        assert not selection_fits(factor * scale)
