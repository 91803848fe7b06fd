"""The L2 ball."""

import math
from dataclasses import dataclass

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.geometry.euclidean_potential import EuclideanPotential
from dpstream.geometry.norm_ball import NormBall
from dpstream.geometry.width import expected_norm


@dataclass(frozen=True, kw_only=True)
class L2Ball(NormBall):
    """``{y : |y|_2 <= radius}``. All sizes are exact."""

    def norm(self, point: FloatArray) -> float:
        """The L2 norm."""
        return float(np.linalg.norm(point))

    def l1_radius(self) -> float:
        """``sqrt(dimension) radius``."""
        return math.sqrt(self.dimension) * self.radius

    def l2_radius(self) -> float:
        """The radius."""
        return self.radius

    def gaussian_width(self) -> float:
        """``radius E |g|_2``."""
        return self.radius * expected_norm(self.dimension)

    def project(self, point: FloatArray) -> FloatArray:
        """The point, scaled to the ball if it lies outside."""
        norm = self.norm(point)
        return point * (self.radius / norm) if norm > self.radius else point.copy()

    def projection_error(self, size: float) -> float:
        """Of a length, a sum of d squares, and of a product with it; twice that."""
        return (self.dimension + 8) * 2.0**-52 * size

    def minimize_linear(self, gradient: FloatArray) -> FloatArray:
        """The boundary point opposite to the gradient."""
        norm = self.norm(gradient)
        if norm == 0:
            return self.centre()
        return gradient * (-self.radius / norm)

    def minimize_linear_local(
        self, centre: FloatArray, radius: float, gradient: FloatArray
    ) -> FloatArray:
        """The exact minimiser over the intersection of the two balls."""
        norm = self.norm(gradient)
        if norm == 0:
            return centre.copy()
        inner = centre - gradient * (radius / norm)
        if self.norm(inner) <= self.radius:
            return inner
        outer = self.minimize_linear(gradient)
        if self.norm(outer - centre) <= radius:
            return outer
        # Otherwise it lies on both spheres, in the plane of the centre and the gradient.
        distance = self.norm(centre)
        axis = centre / distance
        across = gradient - (gradient @ axis) * axis
        height = (self.radius**2 + distance**2 - radius**2) / (2 * distance)
        reach = math.sqrt(max(self.radius**2 - height**2, 0.0))
        return self._pulled_in(height * axis - across * (reach / max(self.norm(across), 1e-300)))

    def local_ratio(self) -> float:
        """1: the local oracle is exact."""
        return 1.0

    def mirror_map(self) -> EuclideanPotential:
        """The Euclidean potential, of range ``radius^2 / 2``."""
        return EuclideanPotential(convex_set=self, ball=L2Ball(dimension=self.dimension))
