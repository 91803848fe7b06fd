"""Where noise enters: a bound on a shift, an exact value, one draw, a measurement.

The layers above receive a ``Noise`` and hand it on to a mechanism; the import contract keeps
the samplers from them. Every mechanism that adds noise to a vector does so through ``measure``,
so noise is bound to its address and to a digest of the exact value it covers in one place.

Addresses are unique within one ``Noise``: two mechanisms that count their nodes independently
take ``noise.child(label)`` each, for equal values at equal addresses have equal noise.
"""

import math
from collections.abc import Callable

import numpy as np

from dpstream.arrays import IntArray
from dpstream.errors import ConfigurationError
from dpstream.privacy.unit import Neighbours
from dpstream.randomness.source import NoiseSource
from dpstream.release import Measurement

Noise = NoiseSource
"""The handle of a noise source, under the name that learners and the engine use."""

MEASURABLE = 1 << 61
"""No measured integer exceeds it: the noise, below 2**61, then cannot overflow."""

# A few roundings of float64, upwards.
_ROUNDED_UP = 1.0 + 2.0**-50


def measure(
    value: IntArray,
    exponent: int,
    *,
    address: tuple[int, ...],
    noise: Noise,
    draw: Callable[[bytes], IntArray],
) -> Measurement:
    """Add one draw to an exact value.

    Args:
        value: integers on the lattice ``2**exponent``: secret, in one dimension.
        exponent: the lattice.
        address: the node's address, unique in the stream.
        noise: the noise source that binds the draw to the value.
        draw: the sampler, given the value's digest.

    Raises:
        ConfigurationError: if the value is no row of integers or exceeds 2**61; the caller's
            public bounds must exclude both.
    """
    exact = exact_integers(value)
    if exact.size and (exact.max() > MEASURABLE or exact.min() < -MEASURABLE):
        raise ConfigurationError(
            "a measured value exceeds 2**61 lattice units; choose a coarser lattice or tighter "
            "public bounds"
        )
    added = draw(noise.bind(exact, exponent=exponent))
    return Measurement(address=address, exponent=exponent, value=exact + added)


def exact_integers(value: IntArray) -> IntArray:
    """The value, if it is a row of integers that 64 bits hold: nothing is rounded in silence.

    Raises:
        ConfigurationError: if it is not.
    """
    if value.ndim != 1 or (value.dtype != np.int64 and not np.can_cast(value.dtype, np.int64)):
        raise ConfigurationError(
            f"a measured value has shape {value.shape} and type {value.dtype}; it must be a row "
            "of 64-bit integers on its lattice"
        )
    return value.astype(np.int64, copy=False)


def bounded_sum_sensitivity(
    bound: float,
    *,
    neighbours: Neighbours,
    cap: int,
    rounding_step: float,
    dimension: int,
) -> float:
    """The largest L2 shift of a rounded sum of bounded records that one unit can cause.

    A unit's records vanish (``zero_out``: ``cap * bound``) or change (``replace``: twice
    that). Rounding to a lattice moves each of the two sums by at most half a step in each
    coordinate, hence a further ``rounding_step * sqrt(dimension)``.

    Args:
        bound: the largest L2 norm of a record's contribution.
        neighbours: what a unit is hidden against.
        cap: how many records of a unit count.
        rounding_step: the spacing of the lattice the sum is rounded to; 0 if it lies on it.
        dimension: of the sum.

    Raises:
        ConfigurationError: if an argument is negative or not finite.
    """
    changes = {Neighbours.ZERO_OUT: 1, Neighbours.REPLACE: 2}[neighbours]
    shift = changes * cap * bound + rounding_step * math.sqrt(max(dimension, 0))
    if min(bound, cap, rounding_step, dimension) < 0 or not math.isfinite(shift):
        raise ConfigurationError(
            f"bound {bound}, cap {cap}, rounding step {rounding_step} and dimension {dimension} "
            "give no sensitivity; they must be finite and not negative"
        )
    return shift * _ROUNDED_UP


def lattice_units(scale: float, exponent: int) -> float:
    """A scale in units of the lattice ``2**exponent``: exact.

    Raises:
        ConfigurationError: if it is so far from the lattice that float64 cannot hold it.
    """
    try:
        return math.ldexp(scale, -exponent)
    except OverflowError:
        raise ConfigurationError(
            f"noise scale {scale} is beyond float64 in units of the lattice 2**{exponent}; "
            "choose a coarser lattice"
        ) from None


def checked_ratio(sensitivity: float, scale: float) -> float:
    """``sensitivity / scale``, rounded up.

    Raises:
        ConfigurationError: if the sensitivity is not a number in [0, inf) or the scale not in
            (0, inf).
    """
    if not (0.0 <= sensitivity < math.inf and 0.0 < scale < math.inf):
        raise ConfigurationError(
            f"sensitivity is {sensitivity} and noise scale {scale}; the first must be a finite "
            "number not below 0, the second a finite number above 0"
        )
    return sensitivity / scale * _ROUNDED_UP
