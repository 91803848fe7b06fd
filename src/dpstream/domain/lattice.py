"""Exact vectors: integers on a dyadic lattice, wide enough for a stream's whole life.

Sensitivity is a theorem about integers, so everything a mechanism measures is a vector of
integers times ``2**exponent``. Sums outgrow 64 bits, hence two limbs in canonical form:
``value = (high * 2**32 + low) * 2**exponent`` with ``0 <= low < 2**32``.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from dpstream.arrays import FloatArray, IntArray

LIMB_BITS = 32
_LOW_MASK = (1 << LIMB_BITS) - 1


@dataclass(slots=True)
class ExactVector:
    """A vector of exact integers on the lattice ``2**exponent``.

    Attributes:
        high: upper limbs.
        low: lower limbs, each in ``[0, 2**32)``.
        exponent: the lattice's spacing is ``2**exponent``.
    """

    high: IntArray
    low: IntArray
    exponent: int

    @classmethod
    def zeros(cls, dimension: int, exponent: int) -> Self:
        """The zero vector."""
        return cls(np.zeros(dimension, np.int64), np.zeros(dimension, np.int64), exponent)

    @classmethod
    def from_integers(cls, integers: IntArray, exponent: int) -> Self:
        """A vector of 64-bit integers on the lattice ``2**exponent``."""
        integers = np.asarray(integers, np.int64)
        return cls(integers >> LIMB_BITS, integers & _LOW_MASK, exponent)

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return int(self.high.shape[0])

    def copy(self) -> Self:
        """An independent copy."""
        return type(self)(self.high.copy(), self.low.copy(), self.exponent)

    def add(self, other: "ExactVector") -> None:
        """Add in place, exactly.

        Raises:
            ValueError: if the lattices differ (a programming error, never data).
        """
        if other.exponent != self.exponent:
            raise ValueError(f"lattices differ: {self.exponent} and {other.exponent}")
        self.high += other.high
        self.low += other.low
        self._carry()

    def add_integers(self, integers: IntArray) -> None:
        """Add 64-bit integers in place, exactly."""
        self.high += integers >> LIMB_BITS
        self.low += integers & _LOW_MASK
        self._carry()

    def subtract(self, other: "ExactVector") -> None:
        """Subtract in place, exactly."""
        if other.exponent != self.exponent:
            raise ValueError(f"lattices differ: {self.exponent} and {other.exponent}")
        self.high -= other.high
        self.low -= other.low
        self._carry()

    def _carry(self) -> None:
        self.high += self.low >> LIMB_BITS
        self.low &= _LOW_MASK

    def to_float(self) -> FloatArray:
        """The nearest float64 values, up to one rounding of each limb's sum."""
        scaled = np.ldexp(self.high.astype(np.float64), LIMB_BITS) + self.low
        return np.ldexp(scaled, self.exponent)

    def rounded(self, exponent: int) -> IntArray:
        """The coordinates rounded to the lattice ``2**exponent``, half upwards, exactly.

        A deterministic function of the integers: ``floor(value / 2**exponent + 1/2)``.

        Raises:
            OverflowError: if a rounded coordinate does not fit 62 bits; the caller's public
                bounds must exclude it.
        """
        shift = exponent - self.exponent
        high, low = self.high, self.low
        if shift <= 0:
            up = -shift
            limit = 62 - up - LIMB_BITS
            if limit <= 0 or np.any(np.abs(high) >> limit):
                raise OverflowError("lattice value exceeds 62 bits")
            return ((high << LIMB_BITS) + low) << up
        if shift < LIMB_BITS:
            # (high * 2^32 + low + half) >> shift, with the carry of low + half kept in place.
            if np.any(np.abs(high) >> (62 - LIMB_BITS + shift)):
                raise OverflowError("lattice value exceeds 62 bits")
            half = np.int64(1 << (shift - 1))
            return (high << (LIMB_BITS - shift)) + ((low + half) >> shift)
        below = shift - LIMB_BITS
        if below == 0:
            return high + (low >> (LIMB_BITS - 1))
        half = np.int64(1 << (below - 1))
        # floor((high + low/2^32) / 2^below + 1/2): low is below one unit of high.
        return (high + half) >> below
