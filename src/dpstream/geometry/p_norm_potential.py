"""Squared q-norm potentials, on L1 and Lp balls.

``|y|_q^2 / (2(q-1))`` is 1-strongly convex in the q-norm for ``1 < q <= 2`` (Shalev-Shwartz
2007, lemma 17). Paper 001, fact 3.4, prints ``1/(4(q-1))``: only 1/2-strongly convex. In L1,
``|y|_1 <= p^(1-1/q) |y|_q`` costs the factor ``p^(2(1-1/q))``, which the paper leaves inside its
O(.).
"""

import math
from dataclasses import dataclass

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.geometry.convex_set import Gauged
from dpstream.geometry.scalar_root import decreasing_root


def l1_exponent(dimension: int) -> float:
    """The q that makes ``weight / 2`` smallest for the L1 norm: near ``1 + 1/(ln p - 1)``.

    With ``s = 1 - 1/q`` the range is ``p^(2s) (1-s) / (2s)``, least where
    ``s (1-s) = 1 / (2 ln p)``; no such s exists for ``p <= 7``, and q is 2 there.
    """
    rest = 1 - 2 / math.log(dimension) if dimension > 1 else -1.0
    share = (1 - math.sqrt(rest)) / 2 if rest > 0 else 0.5
    return 1 / (1 - share)


def l1_weight(dimension: int, exponent: float) -> float:
    """The c for which ``(c/2) |y|_q^2`` is 1-strongly convex in L1."""
    return dimension ** (2 * (1 - 1 / exponent)) / (exponent - 1)


def q_norm(point: FloatArray, exponent: float) -> float:
    """``|y|_q``, scaled against under- and overflow."""
    largest = float(np.max(np.abs(point)))
    if largest == 0:
        return 0.0
    return largest * float(np.sum((np.abs(point) / largest) ** exponent)) ** (1 / exponent)


def half_square_gradient(point: FloatArray, exponent: float) -> FloatArray:
    """The gradient of ``|y|_q^2 / 2``."""
    norm = q_norm(point, exponent)
    if norm == 0:
        return np.zeros_like(point)
    return norm * np.sign(point) * (np.abs(point) / norm) ** (exponent - 1)


@dataclass(frozen=True, kw_only=True)
class PNormPotential:
    """``Psi(y) = (weight / 2) |y|_q^2`` on the ball ``|y|_q <= radius`` of the same norm.

    Attributes:
        ball: the unit ball of the q-norm.
        exponent: q, in (1, 2].
        radius: of the set, in the q-norm.
    """

    ball: Gauged
    exponent: float
    radius: float

    @property
    def weight(self) -> float:
        """``1 / (q - 1)``."""
        return 1 / (self.exponent - 1)

    @property
    def modulus(self) -> float:
        """1, in the q-norm."""
        return 1.0

    def potential_range(self) -> float:
        """``radius^2 / (2(q-1))``."""
        return self.weight * self.radius**2 / 2

    def value(self, point: FloatArray) -> float:
        """``(weight / 2) |y|_q^2``."""
        return self.weight * q_norm(point, self.exponent) ** 2 / 2

    def gradient(self, point: FloatArray) -> FloatArray:
        """``weight`` times the gradient of the half square."""
        return self.weight * half_square_gradient(point, self.exponent)

    def start(self) -> FloatArray:
        """The origin."""
        return np.zeros(self.ball.dimension)

    def step(self, state: FloatArray, direction: FloatArray) -> FloatArray:
        """The dual map, its length cut at the radius: exact, as set and potential share a norm."""
        dual = self.gradient(state) - direction
        free = half_square_gradient(dual, self.exponent / (self.exponent - 1)) / self.weight
        norm = q_norm(free, self.exponent)
        return free * (self.radius / norm) if norm > self.radius else free

    def point(self, state: FloatArray) -> FloatArray:
        """The state itself."""
        return state


@dataclass(frozen=True, kw_only=True)
class L1NormPotential:
    """``Psi(y) = (weight / 2) |y|_q^2`` on an L1 ball, q from ``l1_exponent``.

    The entropy over vertices has the smaller range; this one keeps the point as its state.

    Attributes:
        ball: the unit L1 ball.
        radius: of the set.
    """

    ball: Gauged
    radius: float

    @property
    def exponent(self) -> float:
        """The best q for the dimension."""
        return l1_exponent(self.ball.dimension)

    @property
    def weight(self) -> float:
        """``p^(2(1-1/q)) / (q-1)``."""
        return l1_weight(self.ball.dimension, self.exponent)

    @property
    def modulus(self) -> float:
        """1, in L1."""
        return 1.0

    def potential_range(self) -> float:
        """``weight radius^2 / 2``, attained at a vertex."""
        return self.weight * self.radius**2 / 2

    def value(self, point: FloatArray) -> float:
        """``(weight / 2) |y|_q^2``."""
        return self.weight * q_norm(point, self.exponent) ** 2 / 2

    def gradient(self, point: FloatArray) -> FloatArray:
        """``weight`` times the gradient of the half square."""
        return self.weight * half_square_gradient(point, self.exponent)

    def start(self) -> FloatArray:
        """The origin."""
        return np.zeros(self.ball.dimension)

    def step(self, state: FloatArray, direction: FloatArray) -> FloatArray:
        """The dual map of the shrunk dual; the L1 bound's multiplier is the shrinkage."""
        dual = self.gradient(state) - direction
        conjugate = self.exponent / (self.exponent - 1)

        def shrunk(multiplier: float) -> FloatArray:
            kept = dual - np.clip(dual, -multiplier, multiplier)
            return half_square_gradient(kept, conjugate) / self.weight

        def excess(multiplier: float) -> float:
            return float(np.abs(shrunk(multiplier)).sum()) - self.radius

        result = shrunk(decreasing_root(excess, 0.0, float(np.max(np.abs(dual)))))
        norm = float(np.abs(result).sum())
        return result * (self.radius / norm) if norm > self.radius else result

    def point(self, state: FloatArray) -> FloatArray:
        """The state itself."""
        return state
