"""Enclosures against mpmath's own functions at a higher precision, and how decisions end."""

import math
from fractions import Fraction

import mpmath
import pytest

from dpstream.errors import DpstreamError
from dpstream.randomness import refinement
from dpstream.randomness.public import public_generator
from dpstream.randomness.refinement import FixedPoint


def holds(enclosure: FixedPoint, number: mpmath.mpf) -> bool:
    scaled = mpmath.ldexp(number, enclosure.places)
    return enclosure.low <= scaled <= enclosure.high


def relative_width(enclosure: FixedPoint) -> float:
    return (enclosure.high - enclosure.low) / (1 << enclosure.places)


GENERATOR = public_generator(5)
PREFIXES = [
    (int.from_bytes(GENERATOR.bytes(32), "big") >> (256 - bits + zeros), bits)
    for bits in (64, 127, 255)
    for zeros in (1, 2, 3, 5, 10, 30)
] + [((1 << 63) - 1, 64), ((1 << 126) - 1, 127), (1 << 20, 127), ((1 << 21) + 5, 400)]


def lower_tail(z: mpmath.mpf, bits: int) -> int:
    """The first bits of the probability below z."""
    with mpmath.workprec(2 * bits + 200):
        return int(mpmath.floor(mpmath.ncdf(z) * 2**bits))


# As many bits as the last extensions have; where the first term left out is small beside its
# bound; and where the two parts of its factor 6 z^3 + 7 z would cancel or are far apart.
with mpmath.workprec(3000):
    FAR_PREFIXES = [
        *(
            (lower_tail(mpmath.mpf(-z), bits), bits)
            for z in (0.3, 2.5, 8.1)
            for bits in (512, 1024)
        ),
        (lower_tail(-mpmath.sqrt(mpmath.mpf(7) / 6) - mpmath.ldexp(1, -204), 1024), 1024),
        *((lower_tail(-mpmath.ldexp(5, -k), 256), 256) for k in (9, 10, 13)),
    ]


@pytest.mark.parametrize(("integer", "bits"), [*PREFIXES, *FAR_PREFIXES])
def test_normal_quantile_encloses_every_quantile_of_the_prefix(integer: int, bits: int):
    enclosure = refinement.normal_quantile(integer, bits)
    assert enclosure is not None
    with mpmath.workprec(2 * bits + 200):
        for end in (integer, integer + Fraction(1, 2), integer + 1):
            lower = mpmath.mpf(Fraction(end).numerator) / Fraction(end).denominator / 2**bits
            start = float(enclosure.middle())
            exact = mpmath.findroot(
                lambda z, q=lower: mpmath.ncdf(z) - q, start, tol=0, verify=False
            )
            assert holds(enclosure, exact)
            assert abs(mpmath.ncdf(exact) / lower - 1) < mpmath.ldexp(1, -bits - 100)
            if end == integer + Fraction(1, 2):
                middle = mpmath.mpf(enclosure.low + enclosure.high) / 2 / 2**enclosure.places
                off_centre = abs(middle - exact)
        assert off_centre * 2**bits * mpmath.npdf(exact) < 0.01
        width = 4 * mpmath.ldexp(1, -bits) / mpmath.npdf(exact)
    # Not wider than its purpose allows: twice the prefix's own width, and some slack.
    assert relative_width(enclosure) < width


def test_a_prefix_of_zeros_encloses_nothing():
    assert refinement.normal_quantile(0, 128) is None
    assert refinement.normal_quantile((1 << 19) - 1, 128) is None
    assert refinement.normal_quantile(1 << 19, 128) is not None


@pytest.mark.parametrize(("integer", "bits"), PREFIXES)
def test_negative_logarithm_encloses_every_logarithm_of_the_prefix(integer: int, bits: int):
    for head in (integer, (1 << bits) - 1 - integer):
        enclosure = refinement.negative_logarithm(head, bits)
        with mpmath.workprec(2 * bits + 200):
            for end in (head, head + 1):
                assert holds(enclosure, -mpmath.log(mpmath.mpf(end) / 2**bits))
                middle = mpmath.mpf(enclosure.low + enclosure.high) / 2 / 2**enclosure.places
                # Half of the prefix's width, in units of the logarithm's slope.
                assert abs(abs(middle + mpmath.log(mpmath.mpf(end) / 2**bits)) * head - 0.5) < 0.01
            width = mpmath.mpf(4) / head + mpmath.ldexp(1, -bits)
        assert relative_width(enclosure) < width


def test_enclosures_keep_their_slack_for_roundings():
    # 2^16 units in the last place, beside twice the prefix's half width times the slope.
    integer, bits = PREFIXES[0]
    wait = refinement.negative_logarithm(integer, bits)
    assert wait.places == bits + 32
    prefix = (1 << wait.places) // integer
    assert (wait.high - wait.low) // 2 - prefix >= 1 << 16
    exact = FixedPoint(3 << 90, 3 << 90, 92)
    assert refinement.gumbel(exact).high - refinement.gumbel(exact).low >= 2 << 16
    # Their slope is 1 / phi > 2.5.
    quantile = refinement.normal_quantile(integer, bits)
    assert quantile is not None
    with mpmath.workprec(300):
        z = mpmath.mpf(quantile.low + quantile.high) / 2 / 2**quantile.places
        prefix = int(2**32 / mpmath.npdf(z))
        assert (quantile.high - quantile.low) // 2 - prefix >= (1 << 16) * 5 // 2


def test_further_bits_are_whole_bytes():
    # As the lanes hand them out.
    assert all(bits % 8 == 0 for bits in refinement.EXTENSIONS)
    assert max(refinement.EXTENSIONS) + 62 > 1000


def test_gumbel_encloses_the_logarithm_of_its_interval():
    wait = FixedPoint(3 << 90, (3 << 90) + 12345, 92)
    enclosure = refinement.gumbel(wait)
    with mpmath.workprec(300):
        for end in (wait.low, wait.high):
            assert holds(enclosure, -mpmath.log(mpmath.mpf(end) / 2**92))
    assert relative_width(enclosure) < 2.0**-70


def test_an_interval_decides_only_what_all_its_numbers_decide():
    around = FixedPoint((5 << 10) - 1, (5 << 10) + 1, 11)  # 2.5, give or take
    below = FixedPoint((5 << 10) - 9, (5 << 10) - 1, 11)
    assert around.nearest_multiple(1.0) is None
    assert below.nearest_multiple(1.0) == 2
    assert around.nearest_multiple(2.0) == 5
    assert around.nearest_multiple(-2.0) == -5
    assert around.floor_multiple(2) is None
    assert below.floor_multiple(2) == 4
    assert around.exceeds(Fraction(5, 2)) is None
    assert around.exceeds(Fraction(7, 3)) is True
    assert below.exceeds(Fraction(5, 2)) is False
    # Of an interval that begins at the threshold not every number exceeds it.
    assert FixedPoint(5, 6, 1).exceeds(Fraction(5, 2)) is None
    assert FixedPoint(4, 5, 1).exceeds(Fraction(5, 2)) is False
    assert around.middle() == 2.5


def test_decide_asks_for_more_until_there_is_an_answer():
    asked: list[int] = []

    def attempt(more: int) -> str | None:
        asked.append(more)
        return "done" if more >= 448 else None

    assert refinement.decide(attempt) == "done"
    assert asked == [64, 192, 448]


def test_decide_gives_up_on_a_broken_keystream():
    with pytest.raises(DpstreamError, match="not random"):
        refinement.decide(lambda more: None)


def test_false_and_zero_are_answers():
    assert refinement.decide(lambda more: False) is False
    assert refinement.decide(lambda more: 0) == 0


def test_middle_of_a_wide_fixed_point_is_the_nearest_float():
    places = 300
    value = math.isqrt(2 << 600)
    assert FixedPoint(value, value, places).middle() == math.sqrt(2)
