"""The Euclidean potential: mirror descent by projection, for any set."""

from dataclasses import dataclass

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.geometry.convex_set import Gauged, Projectable


@dataclass(frozen=True, kw_only=True)
class EuclideanPotential:
    """``Psi(y) = |y - c|^2 / 2`` around the set's centre ``c`` (001, section 3.2).

    1-strongly convex in L2. Its range is half the squared reach of the set from ``c``, bounded
    by the diameter and by the L2 radius.

    Attributes:
        convex_set: where it lives.
        ball: the unit L2 ball.
    """

    convex_set: Projectable
    ball: Gauged

    @property
    def modulus(self) -> float:
        """Exactly 1."""
        return 1.0

    def potential_range(self) -> float:
        """``reach^2 / 2``."""
        offset = float(np.linalg.norm(self.convex_set.centre()))
        reach = min(self.convex_set.diameter(), self.convex_set.l2_radius() + offset)
        return reach**2 / 2

    def value(self, point: FloatArray) -> float:
        """``|point - c|^2 / 2``."""
        return float(np.sum((point - self.convex_set.centre()) ** 2)) / 2

    def gradient(self, point: FloatArray) -> FloatArray:
        """``point - c``."""
        return point - self.convex_set.centre()

    def start(self) -> FloatArray:
        """The centre."""
        return self.convex_set.centre()

    def step(self, state: FloatArray, direction: FloatArray) -> FloatArray:
        """The projection of ``state - direction``."""
        return self.convex_set.project(state - direction)

    def point(self, state: FloatArray) -> FloatArray:
        """The state itself."""
        return state
