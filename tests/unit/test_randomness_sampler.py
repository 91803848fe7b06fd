"""The samplers' edges: refusals, empty draws, forced refinement, and words chosen by hand."""

import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpstream.arrays import IntArray, WordArray
from dpstream.errors import ConfigurationError, DpstreamError
from dpstream.randomness import discrete_gaussian as discrete
from dpstream.randomness import gaussian, gumbel, refinement, spherical
from dpstream.randomness.discrete_gaussian import discrete_gaussian
from dpstream.randomness.exponential import RELATIVE_ERROR, exponential, standard_exponentials
from dpstream.randomness.gaussian import rounded_gaussian
from dpstream.randomness.gumbel import gumbel_argmax
from dpstream.randomness.refinement import FixedPoint
from dpstream.randomness.source import KeyStream, NoiseSource
from dpstream.randomness.spherical import rounded_spherical_laplace

SOURCE = NoiseSource.insecure(11)
DIGEST = SOURCE.bind(np.arange(3))


def stream(*address: int) -> KeyStream:
    return SOURCE.stream(address, DIGEST)


class ChosenStream(KeyStream):
    """A stream whose words and further bits the test chooses."""

    __slots__ = ("_chosen", "_further")

    def __init__(self, chosen: list[int], further: Callable[[int, int], int]) -> None:
        super().__init__(bytes(32))
        self._chosen = chosen
        self._further = further

    def words(self, count: int) -> WordArray:
        words = np.array(self._chosen[self.position : self.position + count], np.uint64)
        self.position += count
        return words

    def extension(self, position: int, bits: int) -> int:
        return self._further(position, bits)


def zeros(position: int, bits: int) -> int:
    return 0


def ones(position: int, bits: int) -> int:
    return (1 << bits) - 1


SAMPLERS: dict[str, Callable[[int, float], IntArray]] = {
    "gaussian": lambda size, scale: rounded_gaussian(SOURCE, (1,), DIGEST, size, scale),
    "spherical": lambda size, scale: rounded_spherical_laplace(SOURCE, (1,), DIGEST, size, scale),
    "discrete": lambda size, scale: discrete_gaussian(
        SOURCE, (1,), DIGEST, size, Fraction(scale) ** 2 if 0 < scale < math.inf else 1 << 90
    ),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_an_empty_draw_is_empty(name: str):
    drawn = SAMPLERS[name](0, 10.0)
    assert drawn.shape == (0,)
    assert drawn.dtype == np.int64


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_negative_size_is_refused(name: str):
    with pytest.raises(ConfigurationError, match="size is -1"):
        SAMPLERS[name](-1, 10.0)


@pytest.mark.parametrize(
    "scale", [0.0, -1.0, 2.0**-11, 2.0**40 * (1 + 2.0**-52), math.nan, math.inf]
)
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_scale_out_of_range_is_refused(name: str, scale: float):
    with pytest.raises(ConfigurationError, match="lattice units"):
        SAMPLERS[name](3, scale)


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("scale", [1.0, 2.0**40])
def test_the_ends_of_the_range_are_admitted(name: str, scale: float):
    assert SAMPLERS[name](5, scale).shape == (5,)


def test_the_smallest_variance_is_admitted_and_none_below_it():
    smallest = Fraction(1, 1 << 20)
    assert discrete_gaussian(SOURCE, (1,), DIGEST, 50, smallest).tolist() == [0] * 50
    below = smallest * (1 - Fraction(1, 1 << 60))
    with pytest.raises(ConfigurationError, match=r"variance is .*; it must lie in \[2\*\*-20, "):
        discrete_gaussian(SOURCE, (1,), DIGEST, 50, below)


def test_one_bad_scale_among_many_is_refused_by_value():
    scales = np.array([4.0, 0.5, 2.0])
    with pytest.raises(ConfigurationError, match=r"scale is 0\.5"):
        rounded_gaussian(SOURCE, (1,), DIGEST, 3, scales)
    with pytest.raises(ConfigurationError, match="shape"):
        rounded_gaussian(SOURCE, (1,), DIGEST, 2, scales)
    with pytest.raises(ConfigurationError, match="shape"):
        rounded_gaussian(SOURCE, (1,), DIGEST, 3, np.ones((3, 1)))


def test_a_dimension_too_large_for_spherical_noise_is_refused():
    with pytest.raises(ConfigurationError, match="size"):
        rounded_spherical_laplace(SOURCE, (1,), DIGEST, (1 << 20) + 1, 4.0)
    largest = rounded_spherical_laplace(SOURCE, (1,), DIGEST, 1 << 20, 1.0)
    assert largest.shape == (1 << 20,)


@pytest.mark.parametrize("name", SAMPLERS)
def test_another_scale_has_other_noise(name: str):
    # Were the underlying reals shared, these would agree but for rounding.
    first, second = SAMPLERS[name](400, 2.0**20), SAMPLERS[name](400, 2.0**21)
    correlation = np.corrcoef(first, second)[0, 1]
    # 4.9 standard errors: two-sided false alarm 1e-6.
    assert abs(correlation) < 4.9 / math.sqrt(400)


SCALES = [1.0, 3.7, 2.0**20, 2.0**30 + 0.5, 2.0**40]


@pytest.mark.parametrize("scale", SCALES)
def test_gaussian_refinement_changes_nothing(scale: float):
    scales = np.asarray(scale)
    fast = gaussian.draw(stream(1), 1500, scales)
    everything = gaussian.draw(stream(1), 1500, scales, error_bound=0.5, tail_cut=0.0)
    assert np.array_equal(fast, everything)


def test_a_scale_for_each_coordinate_is_that_coordinates_scale():
    scales = np.repeat([5.0, 2.0**35, 2.0**20], 8000)
    drawn = gaussian.draw(stream(2), scales.size, scales)
    for scale in (5.0, 2.0**35, 2.0**20):
        alone = gaussian.draw(stream(2), scales.size, np.asarray(scale))
        assert np.array_equal(drawn[scales == scale], alone[scales == scale])


@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(7, 2), 1 << 40, (1 << 80) - 1])
def test_discrete_refinement_changes_nothing(variance: Fraction | int):
    fast = discrete.draw(stream(3), 800, Fraction(variance))
    everything = discrete.draw(stream(3), 800, Fraction(variance), relative_error=1.0)
    assert np.array_equal(fast, everything)


def test_discrete_draws_do_not_depend_on_how_many_are_asked_for():
    many = discrete.draw(stream(4), 40_000, Fraction(50))
    for size in (1, 7, 12_000):
        assert np.array_equal(discrete.draw(stream(4), size, Fraction(50)), many[:size])


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("size", [1, 2, 20])
def test_spherical_refinement_changes_nothing(size: int, scale: float):
    for trial in range(400 // size):
        fast = spherical.draw(stream(5, trial), size, scale)
        everything = spherical.draw(stream(5, trial), size, scale, slack=2.0**80)
        assert np.array_equal(fast, everything)


@pytest.mark.parametrize("scale", [2.0**-20, 1.0, 300.0, 2.0**60])
def test_gumbel_refinement_changes_nothing(scale: float):
    scores = np.array([-(1 << 61), 0, 17, 100, 101, 101, 90])
    for trial in range(150):
        fast = gumbel.draw(stream(6, trial), scores, scale)
        everything = gumbel.draw(stream(6, trial), scores, scale, slack=2.0**90)
        assert fast == everything


def test_gumbel_is_certain_of_a_score_far_above():
    scores = np.array([5, -(1 << 61), 1 << 61])
    assert gumbel_argmax(SOURCE, (1,), DIGEST, scores, 1.0) == 2
    assert gumbel_argmax(SOURCE, (1,), DIGEST, scores[:1], 1.0) == 0


@pytest.mark.parametrize(
    ("scores", "scale", "reason"),
    [
        (np.empty(0, np.int64), 1.0, "shape"),
        (np.zeros((2, 2), np.int64), 1.0, "shape"),
        (np.array([0, (1 << 61) + 1]), 1.0, "exceeds"),
        (np.array([0, -(1 << 61) - 1]), 1.0, "exceeds"),
        (np.arange(3), 0.0, "scale"),
        (np.arange(3), math.nan, "scale"),
        (np.arange(3), 2.0**61, "scale"),
        (np.arange(3), 2.0**-20 * (1 - 2.0**-53), r"must lie in \[2\*\*-20, 2\*\*60\]"),
        (np.arange(3), 2.0**60 * (1 + 2.0**-52), r"must lie in \[2\*\*-20, 2\*\*60\]"),
    ],
)
def test_gumbel_refuses(scores: IntArray, scale: float, reason: str):
    with pytest.raises(ConfigurationError, match=reason):
        gumbel_argmax(SOURCE, (1,), DIGEST, scores, scale)


@pytest.mark.parametrize("scale", [2.0**-20, 2.0**60])
def test_the_ends_of_a_gumbels_range_are_admitted(scale: float):
    scores = np.array([-(1 << 61), 1 << 61])
    assert gumbel_argmax(SOURCE, (1,), DIGEST, scores, scale) == 1


def test_normals_are_symmetric_in_the_lowest_bit():
    heads = [0, 1, 2**62, 2**63 - 1]
    upper = gaussian.draw(ChosenStream([head << 1 | 1 for head in heads], ones), 4, np.asarray(1e9))
    lower = gaussian.draw(ChosenStream([head << 1 for head in heads], ones), 4, np.asarray(1e9))
    assert np.array_equal(upper, -lower)
    assert np.all(upper >= 0)


def test_the_far_tail_uses_further_bits():
    # u = 2^-127 (all further bits but the last one of 64 zero): Phi^-1 of 2^-128.
    last_is_one = ChosenStream([1], lambda position, bits: 1 << (bits - 64))
    drawn = gaussian.draw(last_is_one, 1, np.asarray(2.0**20))
    with mpmath.workprec(400):
        # u / 2 lies in [1, 2) / 2^128; the interval's middle is of the bits tried.
        far, near = (
            mpmath.findroot(lambda z, q=q: mpmath.log(mpmath.ncdf(z)) - mpmath.log(q), -13.1)
            for q in (mpmath.ldexp(1, -128), mpmath.ldexp(2, -128))
        )
    assert -near * 2**20 <= drawn[0] <= -far * 2**20 + 1


def test_a_keystream_of_zeros_is_recognised():
    with pytest.raises(DpstreamError, match="not random"):
        gaussian.draw(ChosenStream([0], zeros), 1, np.asarray(4.0))
    with pytest.raises(DpstreamError, match="not random"):
        gaussian.standard_normals(ChosenStream([0], zeros), 1)
    with pytest.raises(DpstreamError, match="not random"):
        standard_exponentials(np.zeros(1, np.uint64), ChosenStream([0], zeros), np.zeros(1, int))


def head_of(number: mpmath.mpf, bits: int) -> tuple[int, Callable[[int, int], int]]:
    """The first bits of a number in (0, 1), and its further bits."""

    def further(position: int, more: int) -> int:
        with mpmath.workprec(2000):
            return int(mpmath.floor(number * mpmath.mpf(2) ** (bits + more))) % (1 << more)

    with mpmath.workprec(2000):
        return int(mpmath.floor(number * mpmath.mpf(2) ** bits)), further


@pytest.mark.parametrize(("offset", "expected"), [(-1, 0), (1, 1)])
def test_a_normal_next_to_a_boundary_is_decided_by_bits_beyond_the_first_extension(
    offset: int, expected: int
):
    # |G| = 1/2 plus or minus 2^-150: 127 bits cannot tell.
    with mpmath.workprec(2000):
        size = mpmath.mpf(1) / 2 + offset * mpmath.ldexp(1, -150)
        head, further = head_of(2 * mpmath.ncdf(-size), 63)
    chosen = ChosenStream([head << 1 | 1], further)
    lower = gaussian.lower_normal(chosen, 0, head << 1, 64)
    assert lower is not None
    assert lower.nearest_multiple(1.0) is None
    assert gaussian.draw(chosen, 1, np.asarray(1.0))[0] == expected


@pytest.mark.parametrize(("offset", "expected"), [(-1, 2), (1, 3)])
def test_a_geometric_next_to_an_integer_is_decided_likewise(offset: int, expected: int):
    with mpmath.workprec(2000):
        # E = 3 / t with t = 4 for a variance of 10.
        wait = mpmath.mpf(3) / 4 + offset * mpmath.ldexp(1, -150)
        # v = u lies in the lower half.
        head, further = head_of(2 * mpmath.exp(-wait), 62)
    # The second word is a patience of 31, which accepts; the rest are other proposals.
    chosen = ChosenStream([head << 2, 1 << 20, *range(1 << 60, (1 << 60) + 30)], further)
    assert exponential(chosen, 0, head << 2, 64).floor_multiple(4) is None
    assert discrete.draw(chosen, 1, Fraction(10))[0] == expected


@pytest.mark.parametrize(("offset", "expected"), [(-1, False), (1, True)])
def test_an_acceptance_next_to_its_hurdle_is_decided_likewise(offset: int, expected: bool):
    hurdle = discrete._exact_hurdle(7, 4, Fraction(10))
    with mpmath.workprec(2000):
        wait = mpmath.mpf(hurdle.numerator) / hurdle.denominator + offset * mpmath.ldexp(1, -150)
        assert wait > mpmath.log(2)
        head, further = head_of(2 * mpmath.exp(-wait), 62)
        # A magnitude of 7: E = 7.5 / 4.
        seven = int(2 * mpmath.exp(-mpmath.mpf(7.5) / 4) * 2**62) << 2
    # The next proposal is a magnitude of 0 (E = 1/32), accepted.
    fillers = [1 << 60 | 1, 1 << 20] * 8
    chosen = ChosenStream([seven, head << 2, *fillers], further)
    assert exponential(chosen, 1, head << 2, 64).exceeds(hurdle) is None
    assert discrete.draw(chosen, 1, Fraction(10))[0] == (7 if expected else 0)


def wait_word(wait: mpmath.mpf) -> tuple[int, Callable[[int, int], int]]:
    """The word of a given exponential, and its further bits."""
    with mpmath.workprec(2000):
        upper = wait < mpmath.log(2)
        distance = -mpmath.expm1(-wait) if upper else mpmath.exp(-wait)
        head, further = head_of(2 * distance, 62)
    return head << 2 | int(upper), further


class Lanes:
    """Words one after the other, each with further bits of its own."""

    def __init__(self) -> None:
        self.words: list[int] = []
        self._further: dict[int, Callable[[int, int], int]] = {}

    def add(self, word: int, further: Callable[[int, int], int] = zeros) -> None:
        self._further[len(self.words)] = further
        self.words.append(word)

    def stream(self) -> ChosenStream:
        """What was added; every other lane holds ones."""
        return ChosenStream(
            self.words, lambda position, bits: self._further.get(position, ones)(position, bits)
        )


# Scales near 2^40 lattice units: float64 alone takes the wrong side of about half of these.
FAR_INTEGERS = [(1 << 39) + 12345677 * k for k in range(40)]


@pytest.mark.parametrize("offset", [-1, 1])
def test_normals_next_to_half_integers_at_the_largest_scale_take_their_side(offset: int):
    lanes = Lanes()
    for integer in FAR_INTEGERS:
        with mpmath.workprec(2000):
            size = (integer + mpmath.mpf(1) / 2 + offset * mpmath.ldexp(1, -100)) / 2**40
            head, further = head_of(2 * mpmath.ncdf(-size), 63)
        lanes.add(head << 1 | 1, further)
    drawn = gaussian.draw(lanes.stream(), len(FAR_INTEGERS), np.asarray(2.0**40))
    assert drawn.tolist() == [integer + (offset > 0) for integer in FAR_INTEGERS]


@pytest.mark.parametrize("offset", [-1, 1])
def test_geometrics_next_to_integers_at_the_largest_variance_take_their_side(offset: int):
    lanes = Lanes()
    for integer in [*FAR_INTEGERS, *FAR_INTEGERS]:
        with mpmath.workprec(2000):
            wait = (integer + offset * mpmath.ldexp(1, -100)) / mpmath.mpf(2**40 + 1)
        lanes.add(*wait_word(wait))
        # A patience of 31 accepts.
        lanes.add(1 << 20)
    drawn = discrete.draw(lanes.stream(), len(FAR_INTEGERS), Fraction(1 << 80))
    assert drawn.tolist() == [integer - (offset < 0) for integer in FAR_INTEGERS]


# Hurdles next to zero, of about one, and of dozens.
@pytest.mark.parametrize("steps_out", [Fraction(1, 1 << 16), Fraction(2), Fraction(9)])
@pytest.mark.parametrize("offset", [-1, 1])
def test_a_patience_next_to_its_hurdle_at_a_large_variance_takes_its_side(
    offset: int, steps_out: Fraction
):
    variance = Fraction(10**24, 3)
    scale = math.isqrt(10**24 // 3) + 1
    magnitudes = [int(scale * (1 + steps_out)) + 1234567 * k for k in range(40)]
    lanes = Lanes()
    for magnitude in [*magnitudes, *magnitudes]:
        hurdle = (magnitude - variance / scale) ** 2 / (2 * variance)
        with mpmath.workprec(2000):
            lanes.add(*wait_word((magnitude + mpmath.mpf(1) / 2) / scale))
            wait = mpmath.mpf(hurdle.numerator) / hurdle.denominator
            lanes.add(*wait_word(wait * (1 + offset * mpmath.ldexp(1, -100))))
            # The next proposal, of 7, is accepted in any case.
            lanes.add(*wait_word(mpmath.mpf(7.5) / scale))
        lanes.add(1 << 20)
    drawn = discrete.draw(lanes.stream(), 80 if offset > 0 else 40, variance).tolist()
    accepted = [[magnitude, 7] if offset > 0 else [7] for magnitude in magnitudes]
    assert drawn == [number for numbers in accepted for number in numbers]


def test_a_discrete_magnitude_next_to_an_end_uses_its_own_lane():
    lanes = Lanes()
    # u = 1 - v with v = 2^-27: the word itself is all zeros.
    lanes.add(1, lambda position, bits: 1 << (bits + 36))
    lanes.add(1 << 20)
    for _ in range(20):
        lanes.add(1 << 60 | 1)
        lanes.add(1 << 20)
    scale = (1 << 40) + 1
    with mpmath.workprec(200):
        magnitude = int(mpmath.floor(-scale * mpmath.log1p(-mpmath.ldexp(1, -27))))
    assert discrete.draw(lanes.stream(), 1, Fraction(1 << 80))[0] == magnitude


@pytest.mark.parametrize("word_end", [0, 1])
def test_exponentials_next_to_an_end_use_further_bits(word_end: int):
    chosen = ChosenStream([word_end], lambda position, bits: 1 << (bits - 64))
    assert exponential(chosen, 0, word_end, 64) is None
    drawn = standard_exponentials(np.array([word_end], np.uint64), chosen, np.zeros(1, int))[0]
    small = 2.0**-127
    low, high = (small, 2 * small) if word_end else (-math.log(2 * small), -math.log(small))
    assert low <= drawn <= high


def test_an_exponential_is_enclosed_from_twenty_significant_bits_on():
    chosen = ChosenStream([], lambda position, bits: (1 << 19) - 1)
    assert exponential(chosen, 0, 0, 64) is None
    enclosure = exponential(ChosenStream([], lambda position, bits: 1 << 19), 0, 0, 64)
    assert enclosure is not None
    low, high = (math.log(2) * 127 - math.log((1 << 19) + more) for more in (1, 0))
    assert enclosure.low / 2**enclosure.places < low < high < enclosure.high / 2**enclosure.places


def test_equal_scores_with_equal_first_bits_are_told_apart():
    word = (12345 << 40) | 0
    for larger in (0, 1):

        def further(position: int, bits: int, larger: int = larger) -> int:
            # Alike for 100 bits; then the exponential of the other one is smaller.
            return (
                ((1 << 90) - 1 if position == larger else 0) << max(bits - 190, 0)
                if bits > 64
                else 0
            )

        chosen = ChosenStream([word, word], further)
        # u larger: E smaller: Gumbel larger.
        assert gumbel.draw(chosen, np.array([3, 3]), 2.0) == larger


def test_a_third_candidate_does_not_decide_between_two():
    word = (12345 << 40) | 0

    def further(position: int, bits: int) -> int:
        return ((1 << 90) - 1 if position == 1 else 0) << max(bits - 190, 0) if bits > 64 else 0

    chosen = ChosenStream([word, word, 1 << 30], further)
    assert gumbel.draw(chosen, np.array([3, 3, 0]), 2.0, slack=2.0**60) == 1


def test_gumbels_closer_than_float64_resolves_are_told_apart():
    # The second score is lower by one, its Gumbel higher by one, give or take 2^-150.
    for trial in range(30):
        for offset in (-1, 1):
            with mpmath.workprec(2000):
                first = mpmath.mpf(5) / 2 + mpmath.mpf(trial) / 7
                second = first * mpmath.exp(-1 - offset * mpmath.ldexp(1, -150))
                heads = [head_of(2 * mpmath.exp(-wait), 62) for wait in (first, second)]
            chosen = ChosenStream(
                [head << 2 for head, _ in heads],
                lambda position, bits, heads=heads: heads[position][1](position, bits),
            )
            assert gumbel.draw(chosen, np.array([1, 0]), 1.0) == (1 if offset > 0 else 0)


@pytest.mark.parametrize("offset", [-1, 1])
def test_gumbels_far_out_are_told_apart(offset: int, monkeypatch: pytest.MonkeyPatch):
    # Of two scores far below a third, each with a Gumbel of 600 that makes up for it. Their
    # exponentials are refined, so what is kept for roundings must do.
    monkeypatch.setattr(gumbel, "ERROR_BOUND", 0.0)
    for trial in range(30):
        lanes = Lanes()
        lanes.add(1 << 60)
        scores = np.array([0, -4201, -4202 - trial])
        with mpmath.workprec(3000):
            first = mpmath.mpf(610) + mpmath.mpf(trial) / 17
            second = first + mpmath.mpf(1 + trial) / 7 + offset * mpmath.ldexp(1, -70)
            for size in (first, second):
                lanes.add(*wait_word(mpmath.exp(-size)))
        assert gumbel.draw(lanes.stream(), scores, 7.0) == (2 if offset > 0 else 1)


def test_scores_that_float64_tells_apart_ask_for_no_further_bits():
    def refuse(position: int, bits: int) -> int:
        raise AssertionError

    chosen = ChosenStream([1 << 62, 1 << 61, 3 << 62], refuse)
    assert gumbel.draw(chosen, np.array([1 << 61, (1 << 61) - 50, 7]), 1.0) == 0


def test_equal_enclosures_are_never_told_apart(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(refinement, "gumbel", lambda wait: FixedPoint(0, 0, wait.places))
    with pytest.raises(DpstreamError, match="undecided"):
        gumbel.draw(ChosenStream([1 << 60, 1 << 60], ones), np.array([3, 3]), 2.0)


def test_a_gumbel_too_near_its_end_asks_for_more():
    def further(position: int, bits: int) -> int:
        return 1 << (bits - 64) | position << max(bits - 70, 0)

    # The smaller uniform has the larger exponential, hence the smaller Gumbel.
    assert gumbel.draw(ChosenStream([0, 0], further), np.array([0, 0]), 1.0, slack=2.0**60) == 1


def test_a_normal_vector_next_to_zero_is_told_apart():
    # The normal's enclosure from 64 further bits contains zero, so its direction is open.
    def further(position: int, bits: int) -> int:
        return (1 << bits) - 1 if bits == 64 else (1 << bits) - (1 << 100)

    chosen = ChosenStream([1 << 62, (1 << 64) - 1], further)
    drawn = spherical.draw(chosen, 1, 2.0**20)
    waits, words = np.array([1 << 62], np.uint64), np.array([(1 << 64) - 1], np.uint64)
    assert spherical._enclosed(chosen, waits, words, 64) is None
    wait = exponential(chosen, 0, 1 << 62, 192)
    assert wait is not None
    assert drawn[0] == wait.nearest_multiple(2.0**20)


def test_a_radius_too_near_its_end_asks_for_more():
    chosen = ChosenStream([1, 3 << 60], lambda position, bits: 1 << (bits - 64))
    assert spherical.draw(chosen, 1, 2.0**20, slack=2.0**80)[0] == 0


def test_a_vector_coordinate_next_to_a_boundary_asks_for_more():
    # In one dimension the noise is the exponential times the scale: E = 5/2 and a little.
    for offset, expected in ((-1, 2), (1, 3)):
        with mpmath.workprec(2000):
            wait = mpmath.mpf(5) / 2 + offset * mpmath.ldexp(1, -150)
            head, further = head_of(2 * mpmath.exp(-wait), 62)
        drawn = spherical.draw(ChosenStream([head << 2, 1 << 40 | 1], further), 1, 1.0)
        assert drawn[0] == expected


def test_a_vectors_enclosures_hold_what_further_bits_reveal():
    for trial in range(50):
        keyed = stream(10, trial)
        waits, words = keyed.words(3), keyed.words(3)
        rough = spherical._enclosed(keyed, waits, words, 64)
        fine = spherical._enclosed(keyed, waits, words, 448)
        assert rough is not None
        assert fine is not None
        for outer, inner in (
            (rough.radius, fine.radius),
            (rough.norm, fine.norm),
            *zip(rough.lengths, fine.lengths, strict=True),
        ):
            more = inner.places - outer.places
            assert outer.low << more <= inner.low <= inner.high <= outer.high << more
        for vector in (rough, fine):
            low, high = (sum(ends[side] ** 2 for ends in vector.lengths) for side in (0, 1))
            assert vector.norm.low**2 <= low < (vector.norm.low + 1) ** 2
            assert (vector.norm.high - 1) ** 2 <= high < vector.norm.high**2


@pytest.mark.parametrize("size", [1, 2, 5, 12])
def test_a_vectors_float_error_covers_the_worst_errors_of_its_parts(size: int):
    for trial in range(20):
        keyed = stream(13, trial)
        exponentials = standard_exponentials(keyed.words(size), keyed, np.arange(size))
        _, normals = gaussian.standard_normals(keyed, size)
        noise, error = spherical._product(exponentials, normals, 1e6)
        for index in range(size):
            # One normal further out and the others further in, the radius longer.
            shift = -gaussian.ERROR_BOUND * np.sign(normals)
            shift[index] *= -1
            with mpmath.workprec(200):
                moved = [mpmath.mpf(n) + mpmath.mpf(h) for n, h in zip(normals, shift, strict=True)]
                radius = 1e6 * mpmath.fsum(exponentials) * (1 + mpmath.mpf(RELATIVE_ERROR))
                norm = mpmath.sqrt(mpmath.fsum(number**2 for number in moved))
                worst = float(abs(radius * moved[index] / norm - noise[index]))
            # Half of the bound is kept for what first order leaves out.
            assert worst <= 0.51 * error[index]


@pytest.mark.parametrize("size", [1, 4, 25])
def test_nothing_is_known_of_a_direction_with_a_norm_error_above_a_thousandth(size: int):
    # The norm's error is sqrt(size) 2^-43; it must be below 2^-10 of the norm sqrt(size) g.
    exponentials = np.ones(size)
    for factor, known in ((1.001, True), (0.999, False)):
        normals = np.full(size, factor * 2.0**-33)
        noise, error = spherical._product(exponentials, normals, 8.0)
        assert np.all(np.isfinite(error)) == known
        assert np.all(np.isinf(error)) == (not known)
        assert np.any(noise) == known


def test_refined_coordinates_are_integers_and_not_floats():
    keyed = stream(14)
    waits, words = keyed.words(2), keyed.words(2)
    refined = spherical._refined(keyed, waits, words, 2.0**40, np.array([0, 1]))
    assert refined.dtype == np.int64


def test_refinement_uses_each_words_own_lane():
    seen: list[int] = []

    def further(position: int, bits: int) -> int:
        seen.append(position)
        return SOURCE.stream((9,), DIGEST).extension(position, bits)

    words = SOURCE.words((9,), DIGEST, 40_000).tolist()
    gaussian.draw(ChosenStream(words, further), 40_000, np.asarray(2.0**38))
    assert len(seen) == len(set(seen))
    assert max(seen) > 30_000
    assert refinement.EXTENSIONS[0] == 64
