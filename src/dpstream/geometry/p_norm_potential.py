"""Squared q-norm potentials, on L1 and Lp balls.

``|y|_q^2 / (2(q-1))`` is 1-strongly convex in the q-norm for ``1 < q <= 2`` (Shalev-Shwartz
2007, lemma 17). Paper 001, fact 3.4, prints ``1/(4(q-1))``: only 1/2-strongly convex. In L1,
``|y|_1 <= p^(1-1/q) |y|_q`` costs the factor ``p^(2(1-1/q))``, which the paper leaves inside its
O(.).
"""

import math
from abc import ABC, abstractmethod
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
class SquaredNormPotential(ABC):
    """``Psi(y) = (weight / 2) |y|_q^2``, 1-strongly convex in the norm of ``ball``.

    Attributes:
        ball: the unit ball of that norm.
        radius: of the set, in that norm.
    """

    ball: Gauged
    radius: float

    @property
    @abstractmethod
    def exponent(self) -> float:
        """The exponent q, in (1, 2]."""

    @property
    @abstractmethod
    def weight(self) -> float:
        """The factor of the half square."""

    @abstractmethod
    def step(self, state: FloatArray, direction: FloatArray) -> FloatArray:
        """``argmin <direction - grad Psi(state), y> + Psi(y)`` over the set."""

    @property
    def modulus(self) -> float:
        """1, by the choice of the weight."""
        return 1.0

    def potential_range(self) -> float:
        """``weight radius^2 / 2``, attained at a vertex of the L1 ball."""
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

    def point(self, state: FloatArray) -> FloatArray:
        """The state itself."""
        return state

    def _free(self, dual: FloatArray) -> FloatArray:
        """The minimiser of ``Psi(y) - <dual, y>`` over the whole space."""
        return half_square_gradient(dual, self.exponent / (self.exponent - 1)) / self.weight


@dataclass(frozen=True, kw_only=True)
class PNormPotential(SquaredNormPotential):
    """``|y|_p^2 / (2(p-1))`` on the ball of the same norm.

    Attributes:
        order: p, in (1, 2].
    """

    order: float

    @property
    def exponent(self) -> float:
        """The ball's own order."""
        return self.order

    @property
    def weight(self) -> float:
        """``1 / (p - 1)``."""
        return 1 / (self.order - 1)

    def step(self, state: FloatArray, direction: FloatArray) -> FloatArray:
        """The dual map, its length cut at the radius: exact, as set and potential share a norm."""
        free = self._free(self.gradient(state) - direction)
        norm = q_norm(free, self.order)
        return free * (self.radius / norm) if norm > self.radius else free


@dataclass(frozen=True, kw_only=True)
class L1NormPotential(SquaredNormPotential):
    """``(weight / 2) |y|_q^2`` on an L1 ball, q from ``l1_exponent``.

    The entropy over vertices has the smaller range; this one keeps the point as its state.
    """

    @property
    def exponent(self) -> float:
        """The best q for the dimension."""
        return l1_exponent(self.ball.dimension)

    @property
    def weight(self) -> float:
        """``p^(2(1-1/q)) / (q-1)``."""
        return l1_weight(self.ball.dimension, self.exponent)

    def step(self, state: FloatArray, direction: FloatArray) -> FloatArray:
        """The dual map of the shrunk dual; the L1 bound's multiplier is the shrinkage."""
        dual = self.gradient(state) - direction

        def shrunk(multiplier: float) -> FloatArray:
            return self._free(dual - np.clip(dual, -multiplier, multiplier))

        def excess(multiplier: float) -> float:
            return float(np.abs(shrunk(multiplier)).sum()) - self.radius

        result = shrunk(decreasing_root(excess, 0.0, float(np.max(np.abs(dual)))))
        norm = float(np.abs(result).sum())
        return result * (self.radius / norm) if norm > self.radius else result
