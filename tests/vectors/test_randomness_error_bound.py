"""The certified float64 bounds, measured against mpmath on dense and adversarial grids.

Each word stands for all uniforms that begin with it, so the distance is taken from both ends.
A search over 1.6 million words found 2^-48.2 (normals) and 2^-49.8 (exponentials) at worst;
this one repeats a part of it on the machine at hand, the slow one a larger part.
"""

import math

import mpmath
import numpy as np
import pytest

from dpstream.arrays import FloatArray, WordArray
from dpstream.errors import DpstreamError
from dpstream.randomness import exponential, gaussian, gumbel, refinement
from dpstream.randomness.public import public_generator
from dpstream.randomness.source import KeyStream

MARGIN = 16
GENERATOR = public_generator(17)
CUT = float(mpmath.ncdf(-gaussian.TAIL_CUT))


def words_at(lower: FloatArray) -> WordArray:
    """Words whose uniform, halved, begins at the given numbers below 1/2."""
    heads = np.ldexp(np.minimum(lower, 0.5 - 2.0**-53), 64).astype(np.uint64)
    return heads << np.uint64(1)


def log_spaced(low: float, count: int) -> FloatArray:
    return np.exp(-GENERATOR.uniform(math.log(2), -math.log(low), count))


def near(centre: float, count: int) -> FloatArray:
    return centre * (1 + GENERATOR.integers(-4000, 4000, count) * 2.0**-53)


# The quantile function's rational approximations meet at exp(-2); powers of two are where
# float64's spacing changes; the tail is where the uniform's bits are fewest.
GRIDS = {
    "uniform": lambda: GENERATOR.integers(0, 2**64, 6000, np.uint64),
    "log spaced": lambda: words_at(log_spaced(CUT, 6000)),
    "far end": lambda: words_at(CUT * (1 + 0.5 * GENERATOR.random(3000))),
    "break": lambda: words_at(near(math.exp(-2), 3000)),
    "centre": lambda: words_at(0.5 - np.ldexp(GENERATOR.integers(1, 4000, 1000), -54)),
    "powers": lambda: words_at(np.concatenate([near(2.0**-k, 200) for k in range(2, 18)])),
}


@pytest.mark.slow
@pytest.mark.parametrize("grid", GRIDS)
def test_float_normals_are_within_a_sixteenth_of_their_bound_on_many_grids(grid: str):
    for _ in range(30):
        test_float_normals_are_within_a_sixteenth_of_their_bound(grid)


@pytest.mark.parametrize("grid", GRIDS)
def test_float_normals_are_within_a_sixteenth_of_their_bound(grid: str):
    words = GRIDS[grid]()
    lower = gaussian._lower_normals(words)
    inside = lower >= -gaussian.TAIL_CUT
    assert inside.sum() > 0.9 * words.size
    worst = 0.0
    with mpmath.workprec(200):
        for word, drawn in zip(
            (words[inside] >> np.uint64(1)).tolist(), lower[inside].tolist(), strict=True
        ):
            # The distance in z is the distance in probability over the density, to first
            # order; the second order is 2^-90.
            below = mpmath.ncdf(drawn)
            density = mpmath.npdf(drawn)
            for end in (word, word + 1):
                worst = max(worst, abs(float((mpmath.ldexp(end, -64) - below) / density)))
    # The product with the scale adds half a unit in the last place of a number up to the cut.
    assert worst + 2.0**-53 * gaussian.TAIL_CUT <= gaussian.ERROR_BOUND / MARGIN


def test_float_normals_would_fail_a_bound_without_margin():
    words = words_at(log_spaced(CUT, 2000))
    drawn = gaussian._lower_normals(words)
    with mpmath.workprec(200):
        worst = max(
            abs(float((mpmath.ldexp(word, -64) - mpmath.ncdf(z)) / mpmath.npdf(z)))
            for word, z in zip((words >> np.uint64(1)).tolist(), drawn.tolist(), strict=True)
        )
    assert worst > gaussian.ERROR_BOUND / 2**10


def test_a_float_normal_is_that_of_the_middle_of_its_words_uniforms():
    heads = [0, 1, 2, 100]
    drawn = gaussian._lower_normals(np.array([head << 1 for head in heads], np.uint64))
    with mpmath.workprec(200):
        for head, number in zip(heads, drawn.tolist(), strict=True):
            assert abs(mpmath.ncdf(number) * 2**65 / (2 * head + 1) - 1) < 1e-12


EXPONENTIAL_GRIDS = {
    "uniform": lambda: GENERATOR.integers(0, 2**64, 6000, np.uint64),
    "log spaced": lambda: (
        (
            words_at(log_spaced(exponential.NEAR_END, 8000))
            << np.uint64(1)
            >> np.uint64(2)
            << np.uint64(2)
        )
        | GENERATOR.integers(0, 2, 8000, np.uint64)
    ),
    # Where the uniform's further bits weigh most: at the near end, for the upper half.
    "near end": lambda: (
        (np.uint64(exponential.NEAR_END * 2.0**63) + GENERATOR.integers(0, 2**20, 500, np.uint64))
        << np.uint64(2)
        | np.uint64(1)
    ),
}


@pytest.mark.parametrize("grid", EXPONENTIAL_GRIDS)
def test_float_exponentials_are_within_a_sixteenth_of_their_bound(grid: str):
    words = EXPONENTIAL_GRIDS[grid]()
    far = np.ldexp((words >> np.uint64(2)).astype(float), -63) >= exponential.NEAR_END
    assert far.sum() > 0.9 * words.size
    words = words[far]
    drawn = exponential.standard_exponentials(words, KeyStream(bytes(32)), np.arange(words.size))
    worst = 0.0
    with mpmath.workprec(200):
        for word, number in zip(words.tolist(), drawn.tolist(), strict=True):
            for end in (word >> 2, (word >> 2) + 1):
                distance = mpmath.ldexp(end, -63)
                exact = -mpmath.log(1 - distance if word & 1 else distance)
                worst = max(worst, abs(float((number - exact) / exact)))
    assert 0 < worst <= exponential.RELATIVE_ERROR / MARGIN


def test_refined_tails_are_within_the_bounds():
    stream = KeyStream(bytes(32))
    size = 2_000_000
    all_words, normals = gaussian.standard_normals(stream, size)
    tails = np.flatnonzero(np.abs(normals) > gaussian.TAIL_CUT)
    # Expected: 13.6.
    assert tails.size > 3
    words = all_words[:200_000]
    waits = exponential.standard_exponentials(words, stream, np.arange(words.size))
    ends = np.flatnonzero(
        np.ldexp((words >> np.uint64(2)).astype(float), -63) < exponential.NEAR_END
    )
    assert ends.size > 5
    with mpmath.workprec(300):
        for index in tails.tolist():
            head = (int(all_words[index]) >> 1 << 192) | stream.extension(index, 192)
            lower = mpmath.ldexp(mpmath.mpf(head), -256)
            exact = mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * lower)
            assert abs(float(exact - abs(normals[index]))) < gaussian.ERROR_BOUND / MARGIN
        for index in ends.tolist():
            head = (int(words[index]) >> 2 << 192) | stream.extension(index, 192)
            distance = mpmath.ldexp(mpmath.mpf(head), -255)
            exact = -mpmath.log(1 - distance if int(words[index]) & 1 else distance)
            assert abs(float(waits[index] / exact - 1)) < exponential.RELATIVE_ERROR / MARGIN


def test_float_gumbels_are_within_a_sixteenth_of_their_bound():
    words = EXPONENTIAL_GRIDS["uniform"]()
    words = words[np.ldexp((words >> np.uint64(2)).astype(float), -63) >= exponential.NEAR_END]
    drawn = -np.log(
        exponential.standard_exponentials(words, KeyStream(bytes(32)), np.arange(words.size))
    )
    with mpmath.workprec(200):
        for word, number in zip(words.tolist(), drawn.tolist(), strict=True):
            distance = mpmath.ldexp(word >> 2, -63)
            exact = -mpmath.log(-mpmath.log(1 - distance if word & 1 else distance))
            # The logarithm's own rounding is what ROUNDING is for, beside the sum's.
            allowed = gumbel.ERROR_BOUND / MARGIN + gumbel.ROUNDING / 4 * abs(number)
            assert abs(float(number - exact)) <= allowed


def test_the_bound_of_perturbed_scores_is_not_below_the_sum_of_its_parts():
    # A relative error of an exponential is an absolute one of its logarithm; taken twice.
    assert gumbel.ERROR_BOUND >= 2 * exponential.RELATIVE_ERROR
    # The logarithm's rounding by one unit in the last place, and three by half a unit: of the
    # score, of its quotient and of the sum.
    assert gumbel.ROUNDING >= 2.0**-52 + 3 * 2.0**-53


def test_bounds_that_follow_from_others():
    # A Gumbel's: the exponential's, doubled, and a few units in the last place of what is added.
    assert gumbel.ERROR_BOUND == 2 * exponential.RELATIVE_ERROR
    assert gumbel.ROUNDING == 4 * 2.0**-52
    assert gumbel.draw(KeyStream(bytes(32)), np.array([0, 1 << 40]), 1.0) == 1
    # Lanes are read byte by byte, and a decision asks for ever more of them.
    asked: list[int] = []
    with pytest.raises(DpstreamError, match="undecided after 1,000 bits"):
        refinement.decide(asked.append)
    assert asked == list(refinement.EXTENSIONS)
    assert all(bits % 8 == 0 for bits in asked)
