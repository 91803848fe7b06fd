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

from dataclasses import dataclass

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

    @property
    def width(self) -> int:
        """Number of coordinates."""
        return int(self.scale.shape[0])

    def apply(self, values: FloatArray) -> FloatArray:
        """The scaled coordinates as floats, without norm clip or rounding; NaN stays NaN."""
        return (np.clip(values, self.lower, self.upper) - self.centre) * self.scale


def quantise(
    features: FloatArray, feature_map: AffineMap, targets: FloatArray, target_map: AffineMap
) -> FloatArray:
    """The rows of a batch: ``(1, x, y)`` in grid units; a record that is not finite gives zeros.

    Guarantees, for every row and whatever the floats: coordinates are integers, and the
    integer norms of both parts are at most ``2**20``.

    Args:
        features: ``(n, d)`` raw numbers; NaN where missing.
        feature_map: the public map of the x part, of width d.
        targets: ``(n, k)`` raw numbers; NaN where missing.
        target_map: the public map of the y part, of width k.
    """
    from dpstream.domain.kernel import quantise_rows

    count = features.shape[0]
    if features.shape != (count, feature_map.width) or targets.shape != (count, target_map.width):
        raise ValueError("features and targets must have the widths of their maps")
    rows = np.empty((count, 1 + feature_map.width + target_map.width))
    quantise_rows(
        np.ascontiguousarray(features, np.float64),
        feature_map.lower,
        feature_map.upper,
        feature_map.centre,
        feature_map.scale * GRID,
        np.ascontiguousarray(targets, np.float64),
        target_map.lower,
        target_map.upper,
        target_map.centre,
        target_map.scale * GRID,
        rows,
    )
    return rows
