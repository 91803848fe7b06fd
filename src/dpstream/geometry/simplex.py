"""The probability simplex."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.geometry.convex_set import TOLERANCE, closed_form_error
from dpstream.geometry.declaration import require_dimension, require_positive
from dpstream.geometry.entropy import AxisVertices, SimplexEntropy
from dpstream.geometry.l1_ball import L1Ball, move_weight
from dpstream.geometry.threshold import project_simplex
from dpstream.geometry.width import expected_maximum


@dataclass(frozen=True, kw_only=True)
class Simplex:
    """``{y >= 0, sum y = total}``; the probability simplex for ``total`` 1. Sizes are exact."""

    dimension: int
    total: float = 1.0

    def __post_init__(self) -> None:
        require_dimension("dimension", self.dimension)
        require_positive("total", self.total)

    def contains(self, point: FloatArray, tolerance: float = TOLERANCE) -> bool:
        """Whether entries are nonnegative and sum to the total."""
        slack = tolerance * self.total
        return bool(point.min() >= -slack and abs(float(point.sum()) - self.total) <= slack)

    def scaled(self, factor: float) -> Self:
        """The simplex of ``factor`` times the total."""
        require_positive("factor", factor)
        return type(self)(dimension=self.dimension, total=self.total * factor)

    def centre(self) -> FloatArray:
        """Equal entries."""
        return np.full(self.dimension, self.total / self.dimension)

    def diameter(self) -> float:
        """Between two corners."""
        return math.sqrt(2) * self.total if self.dimension > 1 else 0.0

    def l1_radius(self) -> float:
        """The total."""
        return self.total

    def l2_radius(self) -> float:
        """The total, at a corner."""
        return self.total

    def gaussian_width(self) -> float:
        """``total E max g_i``."""
        return self.total * expected_maximum(self.dimension)

    def project(self, point: FloatArray) -> FloatArray:
        """One threshold, then positive parts."""
        return project_simplex(point, self.total)

    def projection_error(self, size: float) -> float:
        """Of a closed form."""
        return closed_form_error(self.dimension, size + self.total)

    def minimize_linear(self, gradient: FloatArray) -> FloatArray:
        """The corner of the smallest gradient entry."""
        corner = np.zeros(self.dimension)
        corner[int(np.argmin(gradient))] = self.total
        return corner

    def minimize_linear_local(
        self, centre: FloatArray, radius: float, gradient: FloatArray
    ) -> FloatArray:
        """Weight moved from the largest gradient entries to the smallest.

        A point within L2 distance r is within L1 distance ``sqrt(p) r``, so it moves at most
        half of that (Garber and Hazan 2016, section 4).
        """
        moved = math.sqrt(self.dimension) * radius / 2
        return move_weight(centre, gradient, moved)

    def local_ratio(self) -> float:
        """``sqrt(p / 2)``."""
        return math.sqrt(self.dimension / 2)

    def mirror_map(self) -> SimplexEntropy:
        """Negative entropy, of range ``ln p``."""
        return SimplexEntropy(
            vertices=AxisVertices(dimension=self.dimension, length=self.total),
            ball=L1Ball(dimension=self.dimension, radius=self.total),
        )
