"""The L1 ball."""

import math
from dataclasses import dataclass

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.geometry.entropy import SignedAxisVertices, VertexEntropy
from dpstream.geometry.norm_ball import NormBall
from dpstream.geometry.threshold import project_l1
from dpstream.geometry.width import expected_maximum_modulus


@dataclass(frozen=True, kw_only=True)
class L1Ball(NormBall):
    """``{y : |y|_1 <= radius}``. All sizes are exact."""

    def norm(self, point: FloatArray) -> float:
        """The L1 norm."""
        return float(np.abs(point).sum())

    def l1_radius(self) -> float:
        """The radius."""
        return self.radius

    def l2_radius(self) -> float:
        """The radius, at a vertex."""
        return self.radius

    def gaussian_width(self) -> float:
        """``radius E max |g_i|``."""
        return self.radius * expected_maximum_modulus(self.dimension)

    def project(self, point: FloatArray) -> FloatArray:
        """One threshold, then shrinkage."""
        return project_l1(point, self.radius)

    def minimize_linear(self, gradient: FloatArray) -> FloatArray:
        """The vertex opposite to the largest gradient entry."""
        vertex = np.zeros(self.dimension)
        best, least = int(np.argmax(gradient)), int(np.argmin(gradient))
        if -gradient[least] > gradient[best]:
            best = least
        vertex[best] = -math.copysign(self.radius, float(gradient[best]))
        return vertex

    def minimize_linear_local(
        self, centre: FloatArray, radius: float, gradient: FloatArray
    ) -> FloatArray:
        """Weight moved between the vertices, with the origin for the slack.

        A point within L2 distance r differs by at most ``sqrt(p) r`` in L1, hence by that much
        weight (in units of the ball's radius) over signed vertices and slack.
        """
        positive, negative = np.maximum(centre, 0.0), np.maximum(-centre, 0.0)
        slack = max(self.radius - self.norm(centre), 0.0)
        weights = np.concatenate([positive, negative, [slack]])
        costs = np.concatenate([gradient, -gradient, [0.0]])
        moved = move_weight(weights, costs, math.sqrt(self.dimension) * radius)
        return moved[: self.dimension] - moved[self.dimension : -1]

    def local_ratio(self) -> float:
        """``2 sqrt(p)``: what is moved leaves one place and arrives at another."""
        return 2 * math.sqrt(self.dimension)

    def mirror_map(self) -> VertexEntropy:
        """Entropy over the ``2 p`` vertices, of range ``ln 2p``."""
        vertices = SignedAxisVertices(dimension=self.dimension, length=self.radius)
        return VertexEntropy(vertices=vertices, ball=self)


def move_weight(weights: FloatArray, costs: FloatArray, amount: float) -> FloatArray:
    """Move ``amount`` of weight from the costliest places to the cheapest, greedily."""
    order = np.argsort(-costs, kind="stable")
    before = np.concatenate([[0.0], np.cumsum(weights[order])[:-1]])
    taken = np.clip(amount - before, 0.0, np.maximum(weights[order], 0.0))
    result = weights.astype(np.float64, copy=True)
    result[order] -= taken
    result[order[-1]] += float(taken.sum())
    return result
