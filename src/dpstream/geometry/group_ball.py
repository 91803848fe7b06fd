"""The grouped L1 ball."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.errors import ConfigurationError
from dpstream.geometry.norm_ball import NormBall
from dpstream.geometry.power_potential import PowerPotential, SpectrumMap
from dpstream.geometry.threshold import project_simplex
from dpstream.geometry.width import expected_maximum_group_norm


@dataclass(frozen=True, kw_only=True)
class GroupBall(NormBall):
    """``{y : sum over groups of |y_group|_2 <= radius}`` (001, section 3.2).

    Groups are consecutive; the last may be shorter. All sizes are exact.

    Attributes:
        group_size: coordinates per group, the paper's k.
    """

    group_size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.group_size <= self.dimension:
            raise ConfigurationError(
                f"group_size is {self.group_size}; it must lie between 1 and the dimension, "
                f"{self.dimension}"
            )

    @cached_property
    def starts(self) -> IntArray:
        """Where each group begins."""
        return np.arange(0, self.dimension, self.group_size)

    @cached_property
    def sizes(self) -> IntArray:
        """Coordinates in each group."""
        return np.diff(np.append(self.starts, self.dimension))

    def group_norms(self, point: FloatArray) -> FloatArray:
        """The L2 norm of each group."""
        return np.sqrt(np.add.reduceat(point * point, self.starts))

    def map_norms(self, point: FloatArray, function: SpectrumMap) -> FloatArray:
        """Groups rescaled to a function of their norms; zero groups stay zero."""
        norms = self.group_norms(point)
        factors = np.zeros_like(norms)
        np.divide(function(norms), norms, out=factors, where=norms > 0)
        return point * np.repeat(factors, self.sizes)

    def norm(self, point: FloatArray) -> float:
        """The sum of the groups' L2 norms."""
        return float(self.group_norms(point).sum())

    def l1_radius(self) -> float:
        """``sqrt(group_size) radius``."""
        return math.sqrt(self.group_size) * self.radius

    def l2_radius(self) -> float:
        """The radius."""
        return self.radius

    def gaussian_width(self) -> float:
        """``radius E max |g_group|_2``."""
        return self.radius * expected_maximum_group_norm(self.sizes.astype(np.float64))

    def project(self, point: FloatArray) -> FloatArray:
        """Groups shrunk by one threshold on their norms."""
        norms = self.group_norms(point)
        if norms.sum() <= self.radius:
            return point.copy()
        return self._pulled_in(self.map_norms(point, lambda s: project_simplex(s, self.radius)))

    def minimize_linear(self, gradient: FloatArray) -> FloatArray:
        """The boundary point opposite to the group with the largest gradient."""
        best = int(np.argmax(self.group_norms(gradient)))
        group = slice(self.starts[best], self.starts[best] + self.sizes[best])
        point = np.zeros(self.dimension)
        norm = float(np.linalg.norm(gradient[group]))
        if norm > 0:
            point[group] = gradient[group] * (-self.radius / norm)
        return point

    def mirror_map(self) -> "GroupPotential":
        """The power potential, of range ``O(ln groups) radius^2``."""
        ball = GroupBall(dimension=self.dimension, group_size=self.group_size)
        return GroupPotential(ball=ball, radius=self.radius)


@dataclass(frozen=True, kw_only=True)
class GroupPotential(PowerPotential):
    """``R^2 / (M xi) sum (|y_group|_2 / R)^M``, M = ``1 + 1/ln n``, xi = ``1/(e ln n)``.

    n is the number of groups; M is 2 and xi is ``1/n`` for one or two. The modulus in the
    grouped norm is exactly 1, at equal norms: along radial directions the second derivatives
    ``h_j`` give ``1 / sum(1/h_j)``, least at equal norms where it is ``(M-1) n^(1-M) / xi``.
    Paper 001, section 3.2, writes M for the number of groups as well, and ``ln(p/k)`` for
    ``ln n``; its claimed range O(sqrt(ln n)) is ``e ln n / M``.
    """

    ball: GroupBall

    @property
    def exponent(self) -> float:
        """M."""
        groups = self.ball.starts.size
        return 2.0 if groups <= 2 else 1 + 1 / math.log(groups)

    @property
    def weight(self) -> float:
        """``1 / xi``."""
        groups = self.ball.starts.size
        return float(groups) if groups <= 2 else math.e * math.log(groups)

    def spectrum(self, point: FloatArray) -> FloatArray:
        """The groups' L2 norms."""
        return self.ball.group_norms(point)

    def map_spectrum(self, point: FloatArray, function: SpectrumMap) -> FloatArray:
        """Groups rescaled."""
        return self.ball.map_norms(point, function)
