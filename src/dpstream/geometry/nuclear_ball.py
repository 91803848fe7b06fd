"""The nuclear-norm ball of matrices."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.geometry.convex_set import TOLERANCE, closed_form_error
from dpstream.geometry.declaration import require_dimension, require_positive
from dpstream.geometry.power_potential import PowerPotential, SpectrumMap
from dpstream.geometry.threshold import project_simplex


@dataclass(frozen=True, kw_only=True)
class NuclearBall:
    """Matrices whose singular values sum to at most ``radius``, flattened row by row.

    Radii and diameter are exact; L1 and L2 are of the entries. The Gaussian width is at most
    ``radius (sqrt(rows) + sqrt(columns))`` (Gordon 1985).

    Attributes:
        rows: of the matrices.
        columns: of the matrices.
        radius: in the nuclear norm.
    """

    rows: int
    columns: int
    radius: float = 1.0

    def __post_init__(self) -> None:
        require_dimension("rows", self.rows)
        require_dimension("columns", self.columns)
        require_positive("radius", self.radius)

    @property
    def dimension(self) -> int:
        """Number of entries."""
        return self.rows * self.columns

    def matrix(self, point: FloatArray) -> FloatArray:
        """The point as a matrix."""
        return point.reshape(self.rows, self.columns)

    def singular_values(self, point: FloatArray) -> FloatArray:
        """In decreasing order."""
        return np.linalg.svd(self.matrix(point), full_matrices=False)[1].astype(np.float64)

    def map_singular_values(self, point: FloatArray, function: SpectrumMap) -> FloatArray:
        """The matrix with its singular values replaced by a function of them: one SVD."""
        left, values, right = np.linalg.svd(self.matrix(point), full_matrices=False)
        return ((left * function(values)) @ right).ravel()

    def norm(self, point: FloatArray) -> float:
        """The nuclear norm."""
        return float(self.singular_values(point).sum())

    def contains(self, point: FloatArray, tolerance: float = TOLERANCE) -> bool:
        """Whether the nuclear norm is within the radius."""
        return self.norm(point) <= self.radius * (1 + tolerance)

    def gauge(self, point: FloatArray) -> float:
        """The nuclear norm over the radius."""
        return self.norm(point) / self.radius

    def scaled(self, factor: float) -> Self:
        """The ball of ``factor`` times the radius."""
        require_positive("factor", factor)
        return type(self)(rows=self.rows, columns=self.columns, radius=self.radius * factor)

    def centre(self) -> FloatArray:
        """The zero matrix."""
        return np.zeros(self.dimension)

    def diameter(self) -> float:
        """Twice the radius."""
        return 2 * self.radius

    def l1_radius(self) -> float:
        """``sqrt(rows columns) radius``, at a matrix of equal entries."""
        return math.sqrt(self.dimension) * self.radius

    def l2_radius(self) -> float:
        """The radius, at a matrix of rank one."""
        return self.radius

    def gaussian_width(self) -> float:
        """``radius`` times the bound on the expected largest singular value."""
        return self.radius * (math.sqrt(self.rows) + math.sqrt(self.columns))

    def project(self, point: FloatArray) -> FloatArray:
        """Singular values projected on the L1 ball: one SVD."""

        def shrunk(values: FloatArray) -> FloatArray:
            if values.sum() <= self.radius:
                return values
            return project_simplex(values, self.radius)

        return self.map_singular_values(point, shrunk)

    def projection_error(self, size: float) -> float:
        """Of a closed form."""
        return closed_form_error(self.dimension, size + self.radius)

    def minimize_linear(self, gradient: FloatArray) -> FloatArray:
        """The rank-one matrix of the leading singular vectors."""
        left, _, right = np.linalg.svd(self.matrix(gradient), full_matrices=False)
        return (-self.radius * np.outer(left[:, 0], right[0])).ravel()

    def mirror_map(self) -> "NuclearPotential":
        """The power potential of the singular values, of range ``O(ln m) radius^2``."""
        ball = NuclearBall(rows=self.rows, columns=self.columns)
        return NuclearPotential(ball=ball, radius=self.radius)


@dataclass(frozen=True, kw_only=True)
class NuclearPotential(PowerPotential):
    """``R^2 4 sqrt(e) ln(2m) / (2^q (1+q)) sum (s_j / R)^(1+q)``, ``q = 1/(2 ln 2m)``.

    m is the smaller side. At least 1-strongly convex in the nuclear norm on the ball (Ben-Tal
    and Nemirovski 2013, section 5.2.3); exactly 2 along diagonal directions at equal singular
    values. Paper 001 quotes it with ``sqrt(e ln 2m)`` for ``sqrt(e) ln(2m)``, which falls below
    1 from m = 28 on.
    """

    ball: NuclearBall

    @property
    def _power(self) -> float:
        return 1 / (2 * math.log(2 * min(self.ball.rows, self.ball.columns)))

    @property
    def exponent(self) -> float:
        """``1 + q``."""
        return 1 + self._power

    @property
    def weight(self) -> float:
        """``4 sqrt(e) ln(2m) / 2^q``."""
        return 2 * math.sqrt(math.e) / self._power / 2**self._power

    def spectrum(self, point: FloatArray) -> FloatArray:
        """The singular values."""
        return self.ball.singular_values(point)

    def map_spectrum(self, point: FloatArray, function: SpectrumMap) -> FloatArray:
        """One SVD."""
        return self.ball.map_singular_values(point, function)
