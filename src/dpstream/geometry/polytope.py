"""Polytopes given by inequalities."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dpstream.arrays import FloatArray
from dpstream.errors import CertificateError, ConfigurationError
from dpstream.geometry.convex_set import TOLERANCE
from dpstream.geometry.declaration import finite_array, require_width
from dpstream.geometry.euclidean_potential import EuclideanPotential
from dpstream.geometry.l2_ball import L2Ball
from dpstream.geometry.linear_program import (
    Constraints,
    minimize_linear_program,
    nonnegative_least_squares,
)
from dpstream.geometry.width import expected_norm

CERTIFICATE = 1e-9
"""Largest accepted residual of a projection's optimality conditions, in units of the move."""

ROUNDING = 1e-13
"""Violations up to this part of the diameter count as none."""


@dataclass(frozen=True, eq=False)
class Polytope:
    """``{y : matrix y <= limits}``, bounded and not empty.

    Sizes are upper bounds, from the smallest box around the set (linear programs, solved once
    when the polytope is declared): exact sizes of polytopes are hard to compute.

    Attributes:
        matrix: one row per inequality.
        limits: one number per row.
    """

    matrix: FloatArray
    limits: FloatArray

    def __post_init__(self) -> None:
        matrix = finite_array("matrix", self.matrix, 2)
        limits = finite_array("limits", self.limits, 1)
        require_width("limits", limits, matrix.shape[0])
        norms = np.linalg.norm(matrix, axis=1)
        if not norms.all():
            raise ConfigurationError("an inequality of the polytope has a zero row; remove it")
        # Rows of norm one: residuals are then distances.
        object.__setattr__(self, "matrix", matrix / norms[:, None])
        object.__setattr__(self, "limits", limits / norms)
        _ = self._box

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return int(self.matrix.shape[1])

    @cached_property
    def _box(self) -> tuple[FloatArray, FloatArray]:
        axes = np.eye(self.dimension)
        low = np.array([axis @ self.minimize_linear(axis) for axis in axes])
        high = np.array([axis @ self.minimize_linear(-axis) for axis in axes])
        return low, np.maximum(high, low)

    @cached_property
    def _centre(self) -> FloatArray:
        # The deepest point: the centre of the largest L2 ball inside (Chebyshev's).
        rows = np.hstack([self.matrix, np.ones((len(self.limits), 1))])
        cost = np.append(np.zeros(self.dimension), -1.0)
        lower = np.append(np.full(self.dimension, -np.inf), 0.0)
        constraints = Constraints(matrix=rows, limits=self.limits, lower=lower)
        return minimize_linear_program(cost, constraints, name="polytope")[: self.dimension]

    def contains(self, point: FloatArray, tolerance: float = TOLERANCE) -> bool:
        """Whether every inequality holds up to ``tolerance`` of the set's size."""
        slack = tolerance * max(self.diameter(), self.l2_radius())
        return bool(np.max(self.matrix @ point - self.limits) <= slack)

    def centre(self) -> FloatArray:
        """The deepest point."""
        return self._centre.copy()

    def diameter(self) -> float:
        """Of the box around."""
        low, high = self._box
        return float(np.linalg.norm(high - low))

    def l1_radius(self) -> float:
        """Of the box around."""
        low, high = self._box
        return float(np.maximum(np.abs(low), np.abs(high)).sum())

    def l2_radius(self) -> float:
        """Of the box around."""
        low, high = self._box
        return float(np.linalg.norm(np.maximum(np.abs(low), np.abs(high))))

    def gaussian_width(self) -> float:
        """At most the box's, and at most that of the ball around the box."""
        low, high = self._box
        half = (high - low) / 2
        ball = float(np.linalg.norm(half)) * expected_norm(self.dimension)
        return min(math.sqrt(2 / math.pi) * float(half.sum()), ball)

    def project(self, point: FloatArray) -> FloatArray:
        """The nearest point, by one nonnegative least-squares problem.

        The least move ``z`` with ``-matrix z >= h`` for the violations ``h`` is read off the
        residual of ``[-matrix, h]^T u = (0, .., 0, 1)`` over ``u >= 0`` (Lawson and Hanson
        1974, chapter 23). Optimality is checked before anything is returned. Subtracting a far
        point from its move leaves an error in units of the move; projecting once more, from
        nearby, removes it.
        """
        nearest = point + self._move(point)
        return nearest + self._move(nearest)

    def _move(self, point: FloatArray) -> FloatArray:
        violations = self.matrix @ point - self.limits
        worst = float(violations.max())
        if worst <= ROUNDING * self.diameter():
            return np.zeros_like(point)
        violations = violations / worst
        system = np.vstack([-self.matrix.T, violations])
        # Columns of norm one: inequalities far from active would drown the others.
        lengths = np.linalg.norm(system, axis=0)
        target = np.append(np.zeros(self.dimension), 1.0)
        multipliers = nonnegative_least_squares(system / lengths, target, name="polytope")
        multipliers = multipliers / lengths
        residual = system @ multipliers - target
        scale = -float(residual[-1])
        if scale <= 0:
            raise CertificateError(
                "projection on a polytope: no separating direction was found; the set is too flat: "
                "drop repeated inequalities, or describe it in fewer coordinates"
            )
        move = residual[:-1] / scale
        excess = self.matrix @ move + violations
        slackness = float(np.max(multipliers / scale * np.abs(excess)))
        failure = max(float(excess.max()), slackness) / max(1.0, float(np.abs(move).max()))
        if failure > CERTIFICATE:
            raise CertificateError(
                f"projection on a polytope: residual {failure:.1e} exceeds {CERTIFICATE:.0e}; "
                "remove inequalities that are nearly parallel"
            )
        return worst * move

    def projection_error(self, size: float) -> float:
        """Unknown: an iteration, checked when it ends."""
        return math.inf

    def minimize_linear(self, gradient: FloatArray) -> FloatArray:
        """A vertex, by a linear program."""
        constraints = Constraints(matrix=self.matrix, limits=self.limits, lower=-np.inf)
        return minimize_linear_program(gradient, constraints, name="polytope")

    def minimize_linear_local(
        self, centre: FloatArray, radius: float, gradient: FloatArray
    ) -> FloatArray:
        """The exact minimiser over the points within ``radius`` in every coordinate.

        A radius below 1e-6 of the set's size is taken as that, for the solver's tolerance.
        """
        allowed = max(radius, 1e-6 * self.diameter())
        constraints = Constraints(
            matrix=self.matrix,
            limits=self.limits,
            lower=centre - allowed,
            upper=centre + allowed,
        )
        return minimize_linear_program(gradient, constraints, name="local polytope")

    def local_ratio(self) -> float:
        """``sqrt(p)``: the box of half width r reaches that far."""
        return math.sqrt(self.dimension)

    def mirror_map(self) -> EuclideanPotential:
        """The Euclidean potential around the deepest point."""
        return EuclideanPotential(convex_set=self, ball=L2Ball(dimension=self.dimension))


def polytope(matrix: npt.ArrayLike, limits: npt.ArrayLike) -> Polytope:
    """``{y : matrix y <= limits}``, from any array-likes."""
    return Polytope(np.asarray(matrix, np.float64), np.asarray(limits, np.float64))
