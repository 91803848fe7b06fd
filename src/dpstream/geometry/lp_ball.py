"""Lp balls between L1 and L2."""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from dpstream.arrays import FloatArray
from dpstream.errors import ConfigurationError
from dpstream.geometry.norm_ball import NormBall
from dpstream.geometry.p_norm_potential import PNormPotential, half_square_gradient, q_norm
from dpstream.geometry.scalar_root import mixed_power_root, positive_decreasing_root
from dpstream.geometry.width import expected_maximum_modulus, expected_norm


@dataclass(frozen=True, kw_only=True)
class LpBall(NormBall):
    """``{y : |y|_p <= radius}`` for ``1 < p < 2``. Radii and diameter are exact.

    The Gaussian width is the least of three upper bounds.

    Attributes:
        order: p.
    """

    order: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 < self.order < 2:
            raise ConfigurationError(
                f"order is {self.order}; it must lie strictly between 1 and 2: use L1Ball or "
                "L2Ball at the ends"
            )

    @property
    def conjugate(self) -> float:
        """The dual order ``p / (p - 1)``."""
        return self.order / (self.order - 1)

    def norm(self, point: FloatArray) -> float:
        """The p-norm."""
        return q_norm(point, self.order)

    def l1_radius(self) -> float:
        """``dimension^(1 - 1/p) radius``, at equal coordinates."""
        return self.radius * self.dimension ** (1 - 1 / self.order)

    def l2_radius(self) -> float:
        """The radius, at a vertex of the L1 ball."""
        return self.radius

    def gaussian_width(self) -> float:
        """At most ``(d E|g|^q)^(1/q)`` (Jensen), and the widths of L1 and L2 balls around."""
        q = self.conjugate
        log_moment = q / 2 * math.log(2) + special.gammaln((q + 1) / 2) - 0.5 * math.log(math.pi)
        jensen = math.exp((math.log(self.dimension) + log_moment) / q)
        outer = self.dimension ** (1 - 1 / self.order) * expected_maximum_modulus(self.dimension)
        return self.radius * min(jensen, outer, expected_norm(self.dimension))

    def project(self, point: FloatArray) -> FloatArray:
        """Each modulus solves ``t + m t^(p-1) = |point_i|``; one scalar m meets the norm."""
        if self.norm(point) <= self.radius:
            return point.copy()
        # In units of the radius, so that guesses and tolerances do not depend on it.
        moduli = np.abs(point) / self.radius

        def shrunk(multiplier: float) -> FloatArray:
            return mixed_power_root(moduli, self.order - 1, multiplier)

        multiplier = positive_decreasing_root(
            lambda m: math.log(max(q_norm(shrunk(m), self.order), 1e-300)), 1.0
        )
        return self._pulled_in(np.copysign(self.radius * shrunk(multiplier), point))

    def projection_error(self, size: float) -> float:
        """Of the coordinates, and of the multiplier.

        Whatever the multiplier, the result is the projection on the ball of its own norm, which is
        a multiple of this one; so a norm that is wrong by a relative delta moves it by at most
        ``delta (size + radius)``. The norm's logarithm is Lipschitz in the multiplier's with
        constant ``1 / (p - 1)``, and that is found to ``2^-46`` of at most 64, for it is at most
        the logarithm of ``d size / radius``; where it is far below 0 it hardly moves the norm.
        """
        return super().projection_error(size) + (size + self.radius) * 2.0**-38 / (self.order - 1)

    def minimize_linear(self, gradient: FloatArray) -> FloatArray:
        """The boundary point dual to the gradient."""
        dual = half_square_gradient(gradient, self.conjugate)
        norm = self.norm(dual)
        return dual * (-self.radius / norm) if norm > 0 else self.centre()

    def mirror_map(self) -> PNormPotential:
        """The squared p-norm, of range ``radius^2 / (2(p-1))``."""
        ball = LpBall(dimension=self.dimension, order=self.order)
        return PNormPotential(ball=ball, order=self.order, radius=self.radius)
