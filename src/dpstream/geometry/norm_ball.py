"""Balls of norms around the origin: what they all share."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.geometry.convex_set import TOLERANCE, closed_form_error
from dpstream.geometry.declaration import require_dimension, require_positive


@dataclass(frozen=True, kw_only=True)
class NormBall(ABC):
    """``{y : norm(y) <= radius}``.

    Attributes:
        dimension: number of coordinates.
        radius: in the ball's own norm.
    """

    dimension: int
    radius: float = 1.0

    def __post_init__(self) -> None:
        require_dimension("dimension", self.dimension)
        require_positive("radius", self.radius)

    @abstractmethod
    def norm(self, point: FloatArray) -> float:
        """The norm whose ball this is."""

    @abstractmethod
    def l1_radius(self) -> float:
        """The largest L1 norm of a point; exact for every norm ball here."""

    @abstractmethod
    def l2_radius(self) -> float:
        """The largest L2 norm of a point; exact for every norm ball here."""

    @abstractmethod
    def gaussian_width(self) -> float:
        """The expected dual norm of a standard normal vector, times the radius."""

    def contains(self, point: FloatArray, tolerance: float = TOLERANCE) -> bool:
        """Whether the norm is within the radius."""
        return self.norm(point) <= self.radius * (1 + tolerance)

    def gauge(self, point: FloatArray) -> float:
        """``norm(point) / radius``."""
        return self.norm(point) / self.radius

    def projection_error(self, size: float) -> float:
        """Of a closed form; balls with a multiplier to be found add its error."""
        return closed_form_error(self.dimension, size + self.l2_radius())

    def centre(self) -> FloatArray:
        """The origin."""
        return np.zeros(self.dimension)

    def diameter(self) -> float:
        """Twice the L2 radius: exact, by symmetry."""
        return 2 * self.l2_radius()

    def scaled(self, factor: float) -> Self:
        """The ball of ``factor`` times the radius."""
        require_positive("factor", factor)
        return replace(self, radius=self.radius * factor)

    def _pulled_in(self, point: FloatArray) -> FloatArray:
        # Rounding may leave a computed boundary point outside by a few units in the last place.
        norm = self.norm(point)
        return point * (self.radius / norm) if norm > self.radius else point
