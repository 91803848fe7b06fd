"""From numbers to grid integers inside the unit ball: the per-record function of admission.

For each record, and separately for its x and its y part: clip each coordinate to its declared
bounds, shift and scale it, and round to the grid. The result is a function of that record alone,
the same on every machine with IEEE 754 arithmetic: scalar operations in a fixed order.

The norm is a theorem about integers. A part is rounded to nearest and its integer norm checked,
``q.q <= 2**40``. A part that fails (it lies outside the ball, or rounding carried it outside) is
shrunk from its unrounded coordinates onto the sphere, times ``1 - 2**-48``, and truncated towards
zero; the check is made again, and lowers the largest coordinate for as long as it fails. Nothing
but the declared bounds of a column is applied before the norm clip: clamping coordinates first
would turn the record's direction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.batch import GRID


@dataclass(frozen=True)
class AffineMap:
    """Public bounds, centre and scale of each coordinate of a part.

    Attributes:
        lower: values below count as this; may be ``-inf``.
        upper: values above count as this; may be ``inf``.
        centre: subtracted after clipping.
        scale: multiplied with last; positive, between ``2**-256`` and ``2**256``.
    """

    lower: FloatArray
    upper: FloatArray
    centre: FloatArray
    scale: FloatArray

    @classmethod
    def of_bounds(
        cls, intervals: Sequence[tuple[float, float] | None], *, centred: bool, radius: float
    ) -> Self:
        """Each interval onto [-1, 1], then all divided by the radius.

        Args:
            intervals: of each coordinate; None leaves it as it is but for the radius.
            centred: whether an interval's middle becomes zero; else it is only scaled.
            radius: of the ball that the part is to lie in.
        """
        lower, upper, centre, half = [], [], [], []
        for interval in intervals:
            low, high = interval or (-np.inf, np.inf)
            middle, length = centre_and_half(low, high, centred) if interval else (0.0, 1.0)
            lower.append(low)
            upper.append(high)
            centre.append(middle)
            half.append(length)
        return cls(
            np.array(lower, np.float64),
            np.array(upper, np.float64),
            np.array(centre, np.float64),
            1.0 / (np.array(half, np.float64) * radius),
        )

    @property
    def width(self) -> int:
        """Number of coordinates."""
        return int(self.scale.shape[0])

    def apply(self, values: FloatArray) -> FloatArray:
        """The scaled coordinates as floats, without norm clip or rounding; NaN stays NaN."""
        return (np.clip(values, self.lower, self.upper) - self.centre) * self.scale

    def beside(self, other: "AffineMap") -> "AffineMap":
        """The map of this part's coordinates followed by the other's."""
        return AffineMap(
            np.concatenate((self.lower, other.lower)),
            np.concatenate((self.upper, other.upper)),
            np.concatenate((self.centre, other.centre)),
            np.concatenate((self.scale, other.scale)),
        )


def centre_and_half(lower: float, upper: float, centred: bool) -> tuple[float, float]:
    """What is subtracted from values between bounds, and how far from it they can then be."""
    if centred:
        return lower + (upper - lower) / 2, (upper - lower) / 2
    return 0.0, max(abs(lower), abs(upper))


def quantise(records: FloatArray, mapping: AffineMap, dimension: int) -> FloatArray:
    """The rows of a batch: ``(1, x, y)`` in grid units; a record that is not finite gives zeros.

    Guarantees, for every row and whatever the floats: coordinates are integers, and the
    integer norms of both parts are at most ``2**20``.

    Args:
        records: ``(n, d + k)`` raw numbers, x before y; NaN where missing.
        mapping: the public map of all of them.
        dimension: d, where y begins.
    """
    from dpstream.domain.kernel import quantise_rows

    count = records.shape[0]
    if records.shape != (count, mapping.width) or not 0 <= dimension <= mapping.width:
        raise ValueError(f"records of shape {records.shape} do not fit a map of {mapping.width}")
    rows = np.empty((count, 1 + mapping.width))
    quantise_rows(
        np.ascontiguousarray(records, np.float64),
        mapping.lower,
        mapping.upper,
        mapping.centre,
        mapping.scale * GRID,
        dimension,
        rows,
    )
    return rows
