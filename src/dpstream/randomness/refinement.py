"""Random reals to as many bits as a decision needs.

A uniform number is an endless row of bits: those of its word in the main lane, then those of
that word's extension lane. A real random variable is a function of such numbers, so any finite
prefix encloses it in an interval; a decision (which integer is nearest, which of two is
larger) is taken as soon as the enclosures allow only one answer, and asks for more bits until
then. The outcome is that of ideal reals, not an approximation of it.

Interval arithmetic and logarithms are mpmath's, rounded outwards; the normal quantile is
enclosed by ``normal_quantile``. Contexts are private to this module and to each thread, so
that nobody's working precision is disturbed and nobody disturbs ours.
"""

import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final, TypeVar

from mpmath import MPContext
from mpmath.ctx_iv import MPIntervalContext
from scipy.special import ndtri

from dpstream.errors import DpstreamError
from dpstream.randomness.source import KeyStream

EXTENSIONS: Final = (64, 192, 448, 960)
"""Bits beyond the first word, tried in turn; the third is reached with chance below 2^-150."""

GUARD_BITS: Final = 64
"""Working precision beyond the bits of a uniform number."""

LEAST_DIGITS: Final = 20
"""Significant bits without which a prefix says too little of a number near zero."""

Interval = Any
"""An mpmath interval, with outward-rounded ``+ - * /``; mpmath has no types."""

T = TypeVar("T")


class _Contexts(threading.local):
    """One real and one interval context for each thread."""

    def __init__(self) -> None:
        self.real: Any = MPContext()
        self.interval: Any = MPIntervalContext()

    def at(self, bits: int) -> Any:
        """The interval context, at the precision for uniforms of so many bits."""
        self.interval.prec = self.real.prec = bits + GUARD_BITS
        return self.interval


_contexts: Final = _Contexts()


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


def uniform(integer: int, bits: int) -> Interval:
    """Encloses the uniform numbers in [0, 1) that begin with these bits."""
    return _contexts.at(bits).mpf([integer, integer + 1]) / 2**bits


def logarithm(value: Interval) -> Interval:
    """Encloses the natural logarithms of an interval of positive numbers."""
    return _contexts.interval.log(value)


def square_root(value: Interval) -> Interval:
    """Encloses the square roots of an interval of non-negative numbers."""
    return _contexts.interval.sqrt(value)


def exactly(number: Fraction) -> Interval:
    """Encloses a rational number."""
    return _contexts.interval.mpf(number.numerator) / number.denominator


def normal_quantile(integer: int, bits: int) -> Interval | None:
    """Encloses ``Phi^-1(q)`` for every ``q < 1/2`` in ``[integer, integer + 1) / 2**bits``.

    With ``t = (q - Phi(z)) / phi(z)`` the inverse function's Taylor series about ``Phi(z)`` is
    ``z + t + z t^2/2 + (2 z^2 + 1) t^3/6 + (6 z^3 + 7 z) t^4/24 + ...``. Steps of three terms
    start from float64's quantile and stop once twice the fourth term is below ``2**-bits``.
    The prefix's own width is multiplied by the quantile's slope ``1 / phi``; twice the half
    width covers the slope's change, at most a millionth when 20 bits are significant.

    Returns:
        The enclosure, or None if fewer than ``LEAST_DIGITS`` bits are significant.
    """
    if integer.bit_length() < LEAST_DIGITS:
        return None
    interval, real = _contexts.at(bits), _contexts.real
    lower = real.ldexp(2 * integer + 1, -bits - 1)
    z = real.mpf(float(ndtri(float(lower))))
    density = remainder = real.inf
    while remainder > real.ldexp(1, -bits):
        density = real.npdf(z)
        t = (lower - real.erfc(-z / real.sqrt(2)) / 2) / density
        remainder = abs((6 * z**3 + 7 * z) * t**4) / 12
        z += t + z * t**2 / 2 + (2 * z**2 + 1) * t**3 / 6
    radius = real.ldexp(1, -bits) / density + real.ldexp(1, 8 - bits)
    return interval.mpf([z - radius, z + radius])


def nearest_integer(value: Interval) -> int | None:
    """The integer nearest to every number of an interval, or None if there are several."""
    return floor(value + 0.5)


def floor(value: Interval) -> int | None:
    """The floor of every number of an interval, or None if there are several."""
    low, high = (int(_contexts.real.floor(end)) for end in ends(value))
    return low if low == high else None


def ends(value: Interval) -> tuple[Any, Any]:
    """The two ends of an interval, as comparable reals."""
    low, high = value._mpi_
    return _contexts.real.make_mpf(low), _contexts.real.make_mpf(high)


def midpoint(value: Interval) -> float:
    """The float64 nearest to the middle of an interval."""
    low, high = ends(value)
    return float((low + high) / 2)


def exceeds(value: Interval, threshold: Fraction) -> bool | None:
    """Whether every number of an interval exceeds a rational one; None if only some do."""
    low, high = ends(value - exactly(threshold))
    return None if low <= 0 <= high else low > 0
