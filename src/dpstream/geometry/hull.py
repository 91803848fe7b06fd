"""Convex hulls of given vertices."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy.spatial import distance

from dpstream.arrays import FloatArray
from dpstream.errors import CertificateError, ConfigurationError
from dpstream.geometry.convex_set import TOLERANCE
from dpstream.geometry.declaration import finite_array, require_positive
from dpstream.geometry.entropy import VertexEntropy, VertexMatrix
from dpstream.geometry.linear_program import (
    Constraints,
    minimize_linear_program,
    nonnegative_least_squares,
)
from dpstream.geometry.width import expected_norm

PAIRWISE_LIMIT = 2048
"""Up to this many vertices the diameter is exact; beyond, twice the reach from the mean."""

CERTIFICATE = 1e-12
"""Largest accepted optimality gap of a projection, in units of the squared distance."""


def hull_width(vertices: FloatArray, count: int) -> float:
    """``E max <v, g>`` over ``count`` vertices of L2 norm at most the largest row's.

    At most ``reach sqrt(2 ln count)`` (a maximum of Gaussians), and ``reach E|g|_2`` in the
    vertices' span.
    """
    reach = float(np.max(np.linalg.norm(vertices, axis=1)))
    span = min(vertices.shape)
    return reach * min(math.sqrt(2 * math.log(count)), expected_norm(span))


@dataclass(frozen=True, eq=False)
class VertexHull:
    """The convex hull of the rows of ``vertices``.

    Radii are exact, and so is the diameter up to 2048 vertices; the Gaussian width is an upper
    bound.

    Attributes:
        vertices: one row each.
    """

    vertices: FloatArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "vertices", finite_array("vertices", self.vertices, 2))

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return int(self.vertices.shape[1])

    def scaled(self, factor: float) -> Self:
        """The hull of the scaled vertices."""
        require_positive("factor", factor)
        return type(self)(self.vertices * factor)

    def contains(self, point: FloatArray, tolerance: float = TOLERANCE) -> bool:
        """Whether the projection is no further than ``tolerance`` of the set's size."""
        size = max(self.l2_radius(), self.diameter())
        return float(np.linalg.norm(self.project(point) - point)) <= tolerance * size

    def centre(self) -> FloatArray:
        """The mean of the vertices."""
        return self.vertices.mean(axis=0)

    @cached_property
    def _centred(self) -> FloatArray:
        return self.vertices - self.centre()

    @cached_property
    def _diameter(self) -> float:
        if len(self.vertices) > PAIRWISE_LIMIT:
            return 2 * float(np.max(np.linalg.norm(self._centred, axis=1)))
        return float(distance.pdist(self.vertices).max(initial=0.0))

    def diameter(self) -> float:
        """Between two vertices."""
        return self._diameter

    def l1_radius(self) -> float:
        """Of a vertex."""
        return float(np.max(np.abs(self.vertices).sum(axis=1)))

    def l2_radius(self) -> float:
        """Of a vertex."""
        return float(np.max(np.linalg.norm(self.vertices, axis=1)))

    def gaussian_width(self) -> float:
        """A bound around the mean: a shift averages out."""
        return hull_width(self._centred, len(self.vertices))

    def project(self, point: FloatArray) -> FloatArray:
        """The nearest point, by one nonnegative least-squares problem.

        With rows ``d_i = v_i - point`` the minimiser ``u >= 0`` of ``|sum u_i d_i|^2 +
        (sum u_i - 1)^2``, normalised, holds the weights of the shortest vector of the hull of
        the ``d_i``. The optimality gap is checked before anything is returned.
        """
        differences = self.vertices - point
        size = float(np.max(np.linalg.norm(differences, axis=1)))
        if size == 0:
            return point.copy()
        differences = differences / size
        system = np.vstack([differences.T, np.ones(len(self.vertices))])
        target = np.append(np.zeros(self.dimension), 1.0)
        weights = nonnegative_least_squares(system, target, name="vertex hull")
        weights = weights / weights.sum()
        nearest = weights @ differences
        gap = float(nearest @ nearest - np.min(differences @ nearest))
        if gap > CERTIFICATE:
            raise CertificateError(
                f"projection on a vertex hull: optimality gap {gap:.1e} of the squared distance "
                f"exceeds {CERTIFICATE:.0e}; drop vertices that nearly coincide"
            )
        return weights @ self.vertices

    def projection_error(self, size: float) -> float:
        """Unknown: an iteration, checked when it ends."""
        return math.inf

    def minimize_linear(self, gradient: FloatArray) -> FloatArray:
        """The vertex of least score."""
        return self.vertices[int(np.argmin(self.vertices @ gradient))].copy()

    def minimize_linear_local(
        self, centre: FloatArray, radius: float, gradient: FloatArray
    ) -> FloatArray:
        """The exact minimiser over the points within ``radius`` in every coordinate: an LP.

        A radius below 1e-6 of the set's size is taken as that, for the solver's tolerance.
        """
        size = self.diameter()
        if size == 0:
            return self.centre()
        allowed = max(radius / size, 1e-6)
        shape = (self.vertices - centre).T / size
        constraints = Constraints(
            matrix=np.vstack([shape, -shape]),
            limits=np.full(2 * self.dimension, allowed),
            equal_matrix=np.ones((1, len(self.vertices))),
            equal_limits=np.ones(1),
        )
        scores = self.vertices @ gradient
        weights = minimize_linear_program(scores - scores.min(), constraints, name="local hull")
        return (weights / weights.sum()) @ self.vertices

    def local_ratio(self) -> float:
        """``sqrt(p)``: the box of half width r reaches that far."""
        return math.sqrt(self.dimension)

    def mirror_map(self) -> VertexEntropy:
        """Entropy over the vertices, of range ``ln k``."""
        return VertexEntropy(
            vertices=VertexMatrix(self.vertices), ball=SymmetricHull(self.vertices)
        )


@dataclass(frozen=True, eq=False)
class SymmetricHull:
    """The convex hull of the rows of ``vertices`` and of their negatives.

    Radii and diameter are exact; the Gaussian width is an upper bound.

    Attributes:
        vertices: one row each; the negatives are implied.
    """

    vertices: FloatArray

    def __post_init__(self) -> None:
        array = finite_array("vertices", self.vertices, 2)
        if not array.any():
            raise ConfigurationError("all vertices are zero; a symmetric hull needs another one")
        object.__setattr__(self, "vertices", array)

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return int(self.vertices.shape[1])

    @cached_property
    def _hull(self) -> VertexHull:
        return VertexHull(np.vstack([self.vertices, -self.vertices]))

    def scaled(self, factor: float) -> Self:
        """The hull of the scaled vertices."""
        require_positive("factor", factor)
        return type(self)(self.vertices * factor)

    def contains(self, point: FloatArray, tolerance: float = TOLERANCE) -> bool:
        """Whether the projection is no further than ``tolerance`` of the set's size."""
        return self._hull.contains(point, tolerance)

    def gauge(self, point: FloatArray) -> float:
        """The least ``sum |a_i|`` with ``sum a_i v_i = point``; infinite off the span."""
        size = float(np.max(np.abs(point)))
        if size == 0:
            return 0.0
        columns = np.hstack([self.vertices.T, -self.vertices.T]) / self.l2_radius()
        constraints = Constraints(equal_matrix=columns, equal_limits=point / size)
        try:
            weights = minimize_linear_program(
                np.ones(columns.shape[1]), constraints, name="symmetric hull"
            )
        except ConfigurationError:
            return math.inf
        return float(weights.sum()) * size / self.l2_radius()

    def centre(self) -> FloatArray:
        """The origin."""
        return np.zeros(self.dimension)

    def diameter(self) -> float:
        """Twice the L2 radius, by symmetry."""
        return 2 * self.l2_radius()

    def l1_radius(self) -> float:
        """Of a vertex."""
        return self._hull.l1_radius()

    def l2_radius(self) -> float:
        """Of a vertex."""
        return self._hull.l2_radius()

    def gaussian_width(self) -> float:
        """A bound over twice as many vertices."""
        return hull_width(self.vertices, 2 * len(self.vertices))

    def project(self, point: FloatArray) -> FloatArray:
        """As for the hull of both signs."""
        return self._hull.project(point)

    def projection_error(self, size: float) -> float:
        """Unknown: an iteration, checked when it ends."""
        return math.inf

    def minimize_linear(self, gradient: FloatArray) -> FloatArray:
        """The vertex of largest score in modulus, signed."""
        scores = self.vertices @ gradient
        best = int(np.argmax(np.abs(scores)))
        return -math.copysign(1.0, float(scores[best])) * self.vertices[best]

    def minimize_linear_local(
        self, centre: FloatArray, radius: float, gradient: FloatArray
    ) -> FloatArray:
        """As for the hull of both signs."""
        return self._hull.minimize_linear_local(centre, radius, gradient)

    def local_ratio(self) -> float:
        """``sqrt(p)``."""
        return self._hull.local_ratio()

    def mirror_map(self) -> VertexEntropy:
        """Entropy over the vertices of both signs, of range ``ln 2k``."""
        return VertexEntropy(vertices=VertexMatrix(self._hull.vertices), ball=self)
