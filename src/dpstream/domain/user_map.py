"""From scaled parameters back to the user's units."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.quantise import AffineMap


@dataclass(frozen=True)
class UserMap:
    """Turns parameters in scaled units into the user's: ``matrix @ parameters + offset``.

    Parameters are ordered intercept first, then one per feature, on both sides. A covariance
    of scaled parameters becomes ``matrix @ covariance @ matrix.T``.

    Attributes:
        matrix: ``(1 + d, 1 + d)``.
        offset: ``(1 + d,)``.
    """

    matrix: FloatArray
    offset: FloatArray

    @classmethod
    def between(cls, features: AffineMap, targets: AffineMap, target: int) -> Self:
        """Of the models of one encoded target, from the maps of both parts."""
        size = 1 + features.width
        spread = 1.0 / targets.scale[target]
        matrix = np.zeros((size, size))
        matrix[0, 0] = spread
        matrix[0, 1:] = -spread * features.centre * features.scale
        matrix[1:, 1:] = np.diag(spread * features.scale)
        offset = np.zeros(size)
        offset[0] = targets.centre[target]
        return cls(matrix, offset)
