"""The L1/L2 interpolation ball."""

import math
from dataclasses import dataclass

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.errors import ConfigurationError
from dpstream.geometry.convex_set import Potential
from dpstream.geometry.euclidean_potential import EuclideanPotential
from dpstream.geometry.interpolation_potential import InterpolationPotential
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.geometry.norm_ball import NormBall
from dpstream.geometry.p_norm_potential import L1NormPotential
from dpstream.geometry.scalar_root import decreasing_root
from dpstream.geometry.width import expected_maximum_modulus, expected_norm


@dataclass(frozen=True, kw_only=True)
class InterpolationBall(NormBall):
    """``{y : (1 - mix) |y|_1 + mix |y|_2 <= radius}`` (001, section 3.2).

    Radii and diameter are exact; the Gaussian width is the least of three upper bounds.

    Attributes:
        mix: the paper's alpha: 0 is the L1 ball, 1 the L2 ball.
    """

    mix: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.mix <= 1:
            raise ConfigurationError(f"mix is {self.mix}; it must lie between 0 and 1")

    def norm(self, point: FloatArray) -> float:
        """``(1 - mix) |y|_1 + mix |y|_2``."""
        return (1 - self.mix) * float(np.abs(point).sum()) + self.mix * float(np.linalg.norm(point))

    def dual_norm(self, direction: FloatArray) -> float:
        """The t with ``|(|g| - (1 - mix) t)_+|_2 = mix t``: the dual ball is a Minkowski sum."""
        moduli = np.abs(direction)
        largest = float(moduli.max())
        if self.mix == 0 or largest == 0:
            return largest

        def excess(t: float) -> float:
            rest = np.maximum(moduli - (1 - self.mix) * t, 0.0)
            return float(np.linalg.norm(rest)) - self.mix * t

        return decreasing_root(excess, 0.0, float(np.linalg.norm(moduli)))

    def l1_radius(self) -> float:
        """At equal coordinates."""
        root = math.sqrt(self.dimension)
        return self.radius * root / ((1 - self.mix) * root + self.mix)

    def l2_radius(self) -> float:
        """The radius, at a vertex of the L1 ball."""
        return self.radius

    def gaussian_width(self) -> float:
        """The least of the widths of three sets around: an L1 ball, the L2 ball, their sum."""
        first, second = expected_maximum_modulus(self.dimension), expected_norm(self.dimension)
        mean = (1 - self.mix) * first + self.mix * second
        return min(self.l1_radius() * first, self.radius * second, self.radius * mean)

    def project(self, point: FloatArray) -> FloatArray:
        """Shrinkage in L1, then in L2, with one multiplier for both."""
        if self.norm(point) <= self.radius:
            return point.copy()

        def shrunk(multiplier: float) -> FloatArray:
            limit = (1 - self.mix) * multiplier
            kept = point - np.clip(point, -limit, limit)
            norm = float(np.linalg.norm(kept))
            return kept * max(1 - self.mix * multiplier / norm, 0.0) if norm > 0 else kept

        multiplier = decreasing_root(
            lambda m: self.norm(shrunk(m)) - self.radius, 0.0, self.dual_norm(point)
        )
        return self._pulled_in(shrunk(multiplier))

    def projection_error(self, size: float) -> float:
        """Of the coordinates, and of the multiplier.

        As for Lp balls: the norm that the multiplier reaches is wrong by no more than its own
        rounding, which is that of the coordinates over the radius.
        """
        return super().projection_error(size) * (1.0 + size / self.radius)

    def minimize_linear(self, gradient: FloatArray) -> FloatArray:
        """The boundary point dual to the gradient."""
        limit = (1 - self.mix) * self.dual_norm(gradient)
        dual = gradient - np.clip(gradient, -limit, limit)
        norm = self.norm(dual)
        # Without an L2 part, or by rounding, nothing is left of the dual but its largest entry.
        if norm <= 1e-12 * limit:
            return L1Ball(dimension=self.dimension, radius=self.radius).minimize_linear(gradient)
        return dual * (-self.radius / norm)

    def mirror_map(self) -> Potential:
        """The mixed potential; at the ends, the L1 ball's or the Euclidean one."""
        if self.mix == 0:
            return L1NormPotential(ball=L1Ball(dimension=self.dimension), radius=self.radius)
        if self.mix == 1:
            return EuclideanPotential(convex_set=self, ball=L2Ball(dimension=self.dimension))
        ball = InterpolationBall(dimension=self.dimension, mix=self.mix)
        return InterpolationPotential(ball=ball, mix=self.mix, radius=self.radius)
