"""Random reals to as many bits as a decision needs.

A uniform number is an endless row of bits: those of its word in the main lane, then those of
that word's extension lane. A real random variable is a function of such numbers, so any finite
prefix encloses it in an interval; a decision (which integer is nearest, which of two is
larger) is taken as soon as the enclosures allow only one answer, and asks for more bits until
then. The outcome is that of ideal reals, not an approximation of it.

Everything here is integer arithmetic on fixed-point numbers, but for three functions of
``mpmath.libmp``, called with an explicit precision: no global state, nothing to disturb.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

from mpmath import libmp
from scipy.special import ndtri

from dpstream.errors import DpstreamError
from dpstream.randomness.source import KeyStream

EXTENSIONS: Final = (64, 192, 448, 960)
"""Bits beyond the first word, tried in turn; the third is reached with chance below 2^-150."""

LEAST_DIGITS: Final = 20
"""Significant bits without which a prefix says too little of a number near zero."""

GUARD_BITS: Final = 32
"""Places of fixed-point numbers beyond the bits of their uniform."""

# Allowance for all roundings of a function's evaluation, in units of the last place: the
# formulas below round a few dozen times, libmp's functions are accurate to a few units.
_SLACK: Final = 1 << (GUARD_BITS // 2)

T = TypeVar("T")


class FixedPoint(NamedTuple):
    """The interval ``[low, high] / 2**places``."""

    low: int
    high: int
    places: int

    def nearest_multiple(self, scale: float) -> int | None:
        """The integer nearest to ``scale`` times every number here; None if there are several."""
        numerator, denominator = scale.as_integer_ratio()
        one = denominator << self.places
        low, high = ((2 * end * numerator + one) // (2 * one) for end in (self.low, self.high))
        return low if low == high else None

    def floor_multiple(self, factor: int) -> int | None:
        """The floor of ``factor`` times every number here; None if there are several."""
        low, high = (end * factor >> self.places for end in (self.low, self.high))
        return low if low == high else None

    def exceeds(self, threshold: Fraction) -> bool | None:
        """Whether every number here exceeds the threshold; None if only some do."""
        low, high = (
            end * threshold.denominator > threshold.numerator << self.places
            for end in (self.low, self.high)
        )
        return low if low == high else None

    def middle(self) -> float:
        """The float64 nearest to the middle."""
        return (self.low + self.high) / (1 << (self.places + 1))


def decide(attempt: Callable[[int], T | None]) -> T:
    """The first answer of ``attempt(bits)``, for ever more further bits.

    Raises:
        DpstreamError: if a thousand bits do not decide. For uniform words the chance is below
            2^-900: the cipher is broken then.
    """
    for more in EXTENSIONS:
        answer = attempt(more)
        if answer is not None:
            return answer
    raise DpstreamError(
        "noise is undecided after 1,000 bits: the keystream of this installation is not "
        "random; repair the cryptography package and publish nothing made with it"
    )


def prefix(stream: KeyStream, position: int, head: int, more: int) -> int:
    """The bits ``head`` of the word at ``position``, followed by ``more`` further ones."""
    return head << more | stream.extension(position, more)


def normal_quantile(integer: int, bits: int) -> FixedPoint | None:
    """Encloses ``Phi^-1(q)`` for every ``q < 1/2`` in ``[integer, integer + 1) / 2**bits``.

    With ``t = (q - Phi(z)) / phi(z)`` the inverse function's Taylor series about ``Phi(z)`` is
    ``z + t + z t^2/2 + (2 z^2 + 1) t^3/6 + (6 z^3 + 7 z) t^4/24 + ...``. Steps of three terms
    start from float64's quantile and stop once twice the fourth term is below ``2**-bits``.
    The prefix's own width is multiplied by the quantile's slope ``1 / phi``; twice the half
    width covers the slope's change, below one part in 10,000 with 20 significant bits.

    Returns:
        The enclosure, or None if fewer than ``LEAST_DIGITS`` bits are significant.
    """
    if integer.bit_length() < LEAST_DIGITS:
        return None
    places = bits + GUARD_BITS
    root_half, peak = _constants(places)
    quantile = (2 * integer + 1) << (GUARD_BITS - 1)
    z = _fixed(libmp.from_float(float(ndtri(math.ldexp(integer, -bits)))), places)
    density = remainder = 1 << places
    while remainder >> GUARD_BITS:
        square = z * z >> places
        argument = libmp.from_man_exp(-z * root_half >> places, -places)
        below = _fixed(libmp.mpf_erfc(argument, places), places) >> 1
        exponent = libmp.from_man_exp(-square, -places - 1)
        density = _fixed(libmp.mpf_exp(exponent, places), places) * peak >> places
        t = ((quantile - below) << places) // density
        second = t * t >> places
        third = second * t >> places
        fourth = abs(third * t) >> places
        remainder = (6 * square + (7 << places)) * abs(z) // 12 * fourth >> 2 * places
        z += t + (z * second >> (places + 1))
        z += ((2 * square + (1 << places)) * third >> places) // 6
    radius = (1 << (GUARD_BITS + places)) // density + (_SLACK << places) // density
    return FixedPoint(z - radius, z + radius, places)


def negative_logarithm(integer: int, bits: int) -> FixedPoint:
    """Encloses ``-ln u`` for every ``u`` in ``[integer, integer + 1) / 2**bits``.

    The prefix's half width is multiplied by the slope ``1/u``, taken twice; the caller sees to
    it that ``LEAST_DIGITS`` bits are significant.
    """
    places = bits + GUARD_BITS
    middle = libmp.from_man_exp(2 * integer + 1, -bits - 1)
    value = -_fixed(libmp.mpf_log(middle, places), places)
    radius = (1 << places) // integer + _SLACK
    return FixedPoint(value - radius, value + radius, places)


def gumbel(wait: FixedPoint) -> FixedPoint:
    """Encloses ``-ln`` of every number of an interval above zero."""
    low, high = (
        -_fixed(libmp.mpf_log(libmp.from_man_exp(end, -wait.places), wait.places), wait.places)
        for end in (wait.high, wait.low)
    )
    return FixedPoint(low - _SLACK, high + _SLACK, wait.places)


@lru_cache
def _constants(places: int) -> tuple[int, int]:
    """``sqrt(1/2)`` and ``1 / sqrt(2 pi)`` in fixed point."""
    root_half = math.isqrt(1 << (2 * places - 1))
    two_pi = libmp.mpf_shift(libmp.mpf_pi(places), 1)
    peak = libmp.mpf_div(libmp.fone, libmp.mpf_sqrt(two_pi, places), places)
    return root_half, _fixed(peak, places)


def _fixed(number: Any, places: int) -> int:
    return int(libmp.to_fixed(number, places))
