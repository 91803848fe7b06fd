"""Random reals to as many bits as a decision needs.

A uniform number is an endless row of bits: those of its word in the main lane, then those of
its extension lane. A real random variable is a function of such numbers, so any finite prefix
encloses it in an interval; a decision (which integer is nearest, which of two is larger) is
taken as soon as the enclosures allow only one answer, and asks for more bits until then. The
outcome is that of ideal reals, not an approximation of it.

Interval arithmetic and logarithms are mpmath's outward-rounded ones; the normal quantile is
enclosed by ``normal_quantile``. Contexts are private to this module and to each thread, so
that nobody's working precision is disturbed and nobody disturbs ours.
"""

import threading
from collections.abc import Iterator
from typing import Any, Final

from mpmath import MPContext
from mpmath.ctx_iv import MPIntervalContext
from scipy.special import ndtri

from dpstream.errors import DpstreamError
from dpstream.randomness.source import KeyStream

EXTENSIONS: Final = (64, 192, 448, 960)
"""Bits beyond the first word, tried in turn; more than 192 are needed with chance < 2^-150."""
GUARD_BITS: Final = 64
"""Working precision beyond the bits of the uniform number."""

# An mpmath interval [a, b]; mpmath is not typed.
Interval = Any


class _Contexts(threading.local):
    """One real and one interval context for each thread."""

    def __init__(self) -> None:
        self.real: Any = MPContext()
        self.interval: Any = MPIntervalContext()

    def at(self, bits: int) -> tuple[Any, Any]:
        self.real.prec = bits
        self.interval.prec = bits
        return self.real, self.interval


_contexts: Final = _Contexts()


def prefixes(stream: KeyStream, index: int, head: int, head_bits: int) -> Iterator[tuple[int, int]]:
    """Ever longer prefixes ``(integer, bits)`` of the uniform number with draw index ``index``.

    Args:
        stream: the stream the word came from.
        index: the draw's index: its extension lane.
        head: the bits already used, as an integer.
        head_bits: how many they are.
    """
    for more in EXTENSIONS:
        yield head << more | stream.extension(index, more), head_bits + more


def uniform(integer: int, bits: int) -> Interval:
    """The interval of the uniform numbers in (0, 1) that begin with these bits."""
    _, interval = _contexts.at(bits + GUARD_BITS)
    unit = interval.mpf(1) / 2**bits
    return interval.mpf([integer, integer + 1]) * unit


def normal_quantile(integer: int, bits: int) -> Interval | None:
    """Encloses ``Phi^-1(q)`` for every ``q`` in ``[integer, integer + 1) / 2**bits``, q < 1/2.

    From the float64 quantile ``z`` the residual ``t = (q - Phi(z)) / phi(z)`` gives the Taylor
    series of the inverse function, ``z + t + z t^2/2 + (2 z^2 + 1) t^3/6 + ...``, whose next
    term is ``(6 z^3 + 7 z) t^4/24``; steps are taken until twice that term is below the
    working precision. The uniform number's own width enters through ``1/phi``.

    Returns:
        None if the prefix is too short for its tail: fewer than 20 significant bits.
    """
    if integer >> 20 == 0:
        return None
    precision = bits + GUARD_BITS
    real, interval = _contexts.at(precision)
    quantile = real.ldexp(2 * integer + 1, -bits - 1)
    z = real.mpf(float(ndtri(float(quantile))))
    while True:
        density = real.npdf(z)
        t = (quantile - real.erfc(-z / real.sqrt(2)) / 2) / density
        remainder = abs((6 * z**3 + 7 * z) * t**4) / 12
        z += t + z * t**2 / 2 + (2 * z**2 + 1) * t**3 / 6
        if remainder < real.ldexp(1, -bits):
            break
    radius = real.ldexp(1, -bits) / density + real.ldexp(1, 8 - bits)
    return interval.mpf([z - radius, z + radius])


def nearest_integer(value: Interval) -> int | None:
    """The integer nearest to every number in the interval, or None if there are several."""
    low = _floor(value.a + 0.5)
    return low if low == _floor(value.b + 0.5) else None


def _floor(point: Interval) -> int:
    # Both ends of a degenerate interval are one exact number.
    return int(_contexts.real.floor(_contexts.real.mpf(point._mpi_[0])))


def exhausted() -> DpstreamError:
    """A thousand bits did not decide: impossible for uniform words, so the cipher is broken."""
    return DpstreamError(
        "noise could not be decided within 1,000 bits: the keystream is not random; "
        "do not publish anything made with this installation"
    )
