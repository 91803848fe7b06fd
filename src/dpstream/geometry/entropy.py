"""Entropy over vertex weights: mirror descent on simplices, L1 balls and hulls.

A point of the hull of ``v_1..v_k`` is ``sum w_i v_i``; the potential ``sum w_i ln w_i`` over the
weights is 1-strongly convex in L1 (Pinsker), which dominates the gauge of the symmetric hull Q
of the vertices, and its range is ``ln k``. One step multiplies the weights by
``exp(-<direction, v_i>)``, so the state is the accumulated direction and never under- or
overflows. Paper 001, section 3.2, uses ``|y|_{Q,q}^2 / (4(q-1))`` instead, which is only
1/2-strongly convex and has a larger range.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import special

from dpstream.arrays import FloatArray
from dpstream.geometry.convex_set import Gauged


class Vertices(Protocol):
    """A finite list of vertices, seen through what entropies need."""

    @property
    def count(self) -> int:
        """How many there are."""
        ...

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        ...

    def scores(self, direction: FloatArray) -> FloatArray:
        """``<direction, v_i>`` for every vertex."""
        ...

    def combine(self, weights: FloatArray) -> FloatArray:
        """``sum w_i v_i``."""
        ...


@dataclass(frozen=True, kw_only=True)
class AxisVertices:
    """``length e_1 .. length e_p``."""

    dimension: int
    length: float

    @property
    def count(self) -> int:
        """One per coordinate."""
        return self.dimension

    def scores(self, direction: FloatArray) -> FloatArray:
        """``length * direction``."""
        return self.length * direction

    def combine(self, weights: FloatArray) -> FloatArray:
        """``length * weights``."""
        return self.length * weights


@dataclass(frozen=True, kw_only=True)
class SignedAxisVertices:
    """``length e_1 .. length e_p``, then their negatives."""

    dimension: int
    length: float

    @property
    def count(self) -> int:
        """Two per coordinate."""
        return 2 * self.dimension

    def scores(self, direction: FloatArray) -> FloatArray:
        """``length * direction`` and its negative."""
        return self.length * np.concatenate([direction, -direction])

    def combine(self, weights: FloatArray) -> FloatArray:
        """``length`` times the difference of the two halves."""
        return self.length * (weights[: self.dimension] - weights[self.dimension :])


@dataclass(frozen=True, eq=False)
class VertexMatrix:
    """Vertices as the rows of a matrix."""

    matrix: FloatArray

    @property
    def count(self) -> int:
        """Number of rows."""
        return int(self.matrix.shape[0])

    @property
    def dimension(self) -> int:
        """Number of columns."""
        return int(self.matrix.shape[1])

    def scores(self, direction: FloatArray) -> FloatArray:
        """One product with the matrix."""
        return self.matrix @ direction

    def combine(self, weights: FloatArray) -> FloatArray:
        """One product with its transpose."""
        return weights @ self.matrix


@dataclass(frozen=True, kw_only=True)
class VertexEntropy:
    """``Psi = min sum w_i ln w_i`` over the weights of a point.

    Attributes:
        vertices: the vertices.
        ball: the symmetric hull of the vertices.
    """

    vertices: Vertices
    ball: Gauged

    @property
    def modulus(self) -> float:
        """Exactly 1, in L1 over weights."""
        return 1.0

    def potential_range(self) -> float:
        """``ln k``."""
        return math.log(self.vertices.count)

    def start(self) -> FloatArray:
        """No direction yet: equal weights."""
        return np.zeros(self.vertices.dimension)

    def step(self, state: FloatArray, direction: FloatArray) -> FloatArray:
        """The accumulated direction."""
        return state + direction

    def weights(self, state: FloatArray) -> FloatArray:
        """``exp(-<state, v_i>)``, normalised."""
        return special.softmax(-self.vertices.scores(state))

    def point(self, state: FloatArray) -> FloatArray:
        """The weighted mean of the vertices."""
        return self.vertices.combine(self.weights(state))


@dataclass(frozen=True, kw_only=True)
class SimplexEntropy(VertexEntropy):
    """Negative entropy on ``{y >= 0, sum y = total}``: a potential of the point itself."""

    vertices: AxisVertices

    def value(self, point: FloatArray) -> float:
        """``sum w ln w`` for ``w = point / total``."""
        weights = point / self.vertices.length
        return float(-special.entr(weights).sum())

    def gradient(self, point: FloatArray) -> FloatArray:
        """``(ln w + 1) / total``; minus infinity at zero weights."""
        weights = point / self.vertices.length
        with np.errstate(divide="ignore"):
            return (np.log(weights) + 1) / self.vertices.length
