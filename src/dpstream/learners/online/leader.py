"""The approximate leader: a quadratic in the parameters, and how its minimiser is found.

At a tick the leader minimises, over a set or all of space,

    <g, theta> + 1/2 sum_s n_s |theta - theta_s|^2_H + ridge / 2 |theta - centre|^2,

in words: the sum of the records' losses, each replaced by its tangent at the model under which it
arrived plus a quadratic of common curvature H. Everything here is computed from measurements and
public numbers.
"""

import math
from dataclasses import dataclass
from typing import Literal, cast, get_args

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.errors import ConfigurationError
from dpstream.geometry.convex_set import (
    ConvexSet,
    LinearlyOptimizable,
    LocallyOptimizable,
    Projectable,
)
from dpstream.learners.online.gradient_stack import GradientStack, StackLoss
from dpstream.losses.generalised_linear import SmoothGeneralisedLinearLoss
from dpstream.losses.softmax import SoftmaxLoss

Update = Literal["projection", "linear_oracle"]

ORACLE_TOLERANCE = 1e-6
"""Relative slack with which an oracle's answer must lie in its set."""

PROJECTION_STEPS = 200
"""Accelerated projected gradient steps where the curvature is not the same in all directions."""


@dataclass(frozen=True, kw_only=True)
class Quadratic:
    """``1/2 theta' A theta - <b, theta>`` for every class, with one A in its eigenbasis.

    Attributes:
        basis: ``(width, width)`` orthonormal columns; None if A is diagonal.
        curvatures: ``(width,)`` or ``(1,)`` eigenvalues of A, all positive.
        linear: ``(classes, width)`` b.
    """

    basis: FloatArray | None
    curvatures: FloatArray
    linear: FloatArray

    def product(self, points: FloatArray) -> FloatArray:
        """``A`` times every row."""
        if self.basis is None:
            return points * self.curvatures
        return (points @ self.basis * self.curvatures) @ self.basis.T

    def gradient(self, points: FloatArray) -> FloatArray:
        """``A theta - b`` of every row."""
        return self.product(points) - self.linear

    def minimiser(self) -> FloatArray:
        """The minimiser over all of space."""
        if self.basis is None:
            return self.linear / self.curvatures
        return (self.linear @ self.basis / self.curvatures) @ self.basis.T


@dataclass(frozen=True, kw_only=True)
class Restriction:
    """A set for the parameters but the constants, which are free.

    Attributes:
        convex_set: of the flattened ``(classes, features)`` parameters.
        first: how many leading columns are constants.
    """

    convex_set: ConvexSet
    first: int

    def project(self, points: FloatArray) -> FloatArray:
        """The nearest parameters; the set must be projectable."""
        # Checked once by ``LeaderProblem``: looking for capabilities takes longer than projecting.
        convex_set = cast("Projectable", self.convex_set)
        moved = points.copy()
        inner = points[:, self.first :]
        moved[:, self.first :] = convex_set.project(inner.ravel()).reshape(inner.shape)
        return moved


def projected_minimiser(
    quadratic: Quadratic, restriction: Restriction | None, start: FloatArray
) -> FloatArray:
    """The minimiser, over the set if there is one.

    With equal curvatures it is the projection of the free minimiser (002, WDP-COCOP). Otherwise
    a public number of accelerated projected gradient steps from ``start``; their last point is
    in the set, whatever its accuracy.
    """
    free = quadratic.minimiser()
    if restriction is None:
        return free
    projected = restriction.project(free)
    if quadratic.curvatures.size == 1 or np.array_equal(projected, free):
        return projected
    largest, least = float(quadratic.curvatures.max()), float(quadratic.curvatures.min())
    root = np.sqrt(least / largest)
    momentum = (1.0 - root) / (1.0 + root)
    point = ahead = restriction.project(start)
    for _ in range(PROJECTION_STEPS):
        following = restriction.project(ahead - quadratic.gradient(ahead) / largest)
        ahead = following + momentum * (following - point)
        point = following
    return point


def oracle_steps(
    quadratic: Quadratic, convex_set: ConvexSet, start: FloatArray, *, steps: int
) -> FloatArray:
    """Frank-Wolfe steps from ``start`` with the local oracle if the set has one (002, WDP-COCOL).

    The local oracle's radius is ``min(D, sqrt(2 h / m))`` with h the Frank-Wolfe gap and m the
    least curvature: by strong convexity the minimiser lies within it. The step along the oracle's
    direction minimises the quadratic exactly. ``start`` must lie in the set; so does the result.
    """
    assert isinstance(convex_set, LinearlyOptimizable)
    least = float(quadratic.curvatures.min())
    point = start
    local = convex_set if isinstance(convex_set, LocallyOptimizable) else None
    for _ in range(steps):
        gradient = quadratic.gradient(point).ravel()
        vertex = convex_set.minimize_linear(gradient)
        _refuse_outside(convex_set, vertex)
        gap = float(gradient @ (point.ravel() - vertex))
        if gap <= 0.0:
            break
        if local is not None:
            radius = min(convex_set.diameter(), float(np.sqrt(2.0 * gap / least)))
            vertex = local.minimize_linear_local(point.ravel(), radius, gradient)
            _refuse_outside(convex_set, vertex)
        direction = vertex.reshape(point.shape) - point
        slope = float(-gradient @ direction.ravel())
        bend = float(np.sum(direction * quadratic.product(direction)))
        if slope <= 0.0 or bend <= 0.0:
            break
        point = point + min(1.0, slope / bend) * direction
    return point


def _refuse_outside(convex_set: ConvexSet, point: FloatArray) -> None:
    if not convex_set.contains(point, ORACLE_TOLERANCE):
        raise ConfigurationError(
            f"the linear oracle of {type(convex_set).__name__} returned a point outside its set; "
            "nothing was published: repair the set's minimize_linear"
        )


NOISE_FLOOR = 0.5
"""Curvatures are raised to this much of the noise's spectral radius: what it hides is damped."""

LEAST_SHARE = 0.1
"""Curvatures are at least this much of an isotropic stream's, if the number of records is known."""


def repaired_curvature(
    moments: FloatArray, *, deviation: float, records: float | None
) -> tuple[FloatArray | None, FloatArray]:
    """Eigenbasis and eigenvalues of noisy second moments of features in the unit ball.

    Args:
        moments: a symmetric matrix or its diagonal, in scaled units.
        deviation: standard deviation of a diagonal entry's noise; off the diagonal it is
            ``sqrt(2)`` times smaller.
        records: how many there are, as far as known publicly.

    Returns:
        The basis (None for a diagonal) and positive eigenvalues.
    """
    width = moments.shape[0]
    spread = np.sqrt(width) if moments.ndim == 2 else 1.0
    floor = NOISE_FLOOR * spread * deviation
    if records is not None:
        floor = max(floor, LEAST_SHARE * records / width)
    if moments.ndim == 1:
        return None, np.maximum(moments, floor)
    values, basis = np.linalg.eigh(moments)
    return basis, np.maximum(values, floor)


def standard_bend(loss: StackLoss) -> float:
    """The curvature of the loss at the model of zeros: a public guess of its typical curvature.

    Raises:
        ConfigurationError: if the loss has none there.
    """
    if isinstance(loss, SoftmaxLoss):
        return 1.0 / loss.classes
    if isinstance(loss, SmoothGeneralisedLinearLoss):
        targets = np.array([-1.0, 0.0, 1.0])
        bend = float(np.max(loss.second_derivative(np.zeros(3), targets)))
        if bend > 0:
            return bend
    raise ConfigurationError(
        f"the {loss.name} loss has no curvature at the model of zeros; give bend, a public guess "
        "of its mean second derivative"
    )


@dataclass(frozen=True, kw_only=True)
class LeaderProblem:
    """From a measured stack to the next model: public parameters alone.

    Attributes:
        stack: the layout of what was measured.
        bend: public guess of the loss's mean second derivative.
        ridge: strong convexity per record.
        prior_scale: public guess of a parameter's size; may be infinite.
        convex_set: of the flattened parameters without constants, or None.
        update: how the minimiser is found.
        oracle_count: Frank-Wolfe steps per release.
    """

    stack: GradientStack
    bend: float
    ridge: float
    prior_scale: float
    convex_set: ConvexSet | None
    update: Update
    oracle_count: int

    def __post_init__(self) -> None:
        if not (math.isfinite(self.ridge) and self.ridge >= 0):
            raise ConfigurationError(f"ridge is {self.ridge}; it must be finite and at least 0")
        if not self.prior_scale > 0:
            raise ConfigurationError(f"prior_scale is {self.prior_scale}; it must be positive")
        if self.oracle_count < 1:
            raise ConfigurationError(f"oracle_count is {self.oracle_count}; it must be at least 1")
        if self.update not in get_args(Update):
            raise ConfigurationError(
                f"update is {self.update!r}; it must be one of {', '.join(get_args(Update))}"
            )
        chosen, domain = self.convex_set, self.stack.domain
        size = self.stack.classes * domain.dimension
        if chosen is not None and chosen.dimension != size:
            raise ConfigurationError(
                f"the set has dimension {chosen.dimension}, the parameters without constants "
                f"{size}; declare a set of that dimension"
            )
        if self.update == "projection":
            if chosen is not None and not isinstance(chosen, Projectable):
                raise ConfigurationError(
                    f"{type(chosen).__name__} has no projection; use update='linear_oracle'"
                )
        elif not isinstance(chosen, LinearlyOptimizable) or domain.intercept:
            raise ConfigurationError(
                "update='linear_oracle' needs a set with a linear oracle and a domain without "
                "intercept: a free constant has no bounded set; declare both, or project"
            )
        if self.stack.curvature == "none" and math.isinf(self.distance) and self.ridge == 0:
            raise ConfigurationError(
                "the problem has neither curvature, nor a ridge, nor a size of its parameters: "
                "no step size follows; give ridge, convex_set or a finite prior_scale"
            )

    @property
    def constants(self) -> int:
        """Leading columns of the parameters that are constants."""
        return 1 - self.stack.first

    @property
    def distance(self) -> float:
        """Public guess of how far the best parameters are from the start."""
        guess = self.prior_scale * math.sqrt(self.stack.gradient_size)
        return guess if self.convex_set is None else min(guess, self.convex_set.diameter())

    def start(self) -> FloatArray:
        """The model before any data: zero, or the set's centre."""
        point = np.zeros((self.stack.classes, self.stack.width))
        if self.convex_set is not None:
            features = point[:, self.constants :]
            features[:] = self.convex_set.centre().reshape(features.shape)
        return point

    def quadratic(
        self, measured: FloatArray, *, centre: FloatArray, records: float, variance: float
    ) -> Quadratic:
        """What the leader minimises, in units where the constant is as large as the features.

        Args:
            measured: the stack, in its own units.
            centre: mean of the parameters under which the records arrived.
            records: how many they are, as far as it is public.
            variance: noise variance of a coordinate of scale 1.
        """
        scales = self.stack.feature_scales
        linear = -self.stack.gradient(measured) * scales
        ridge = self.ridge * records
        if self.stack.curvature == "none":
            curvatures = np.array([ridge + self._damping(ridge, variance, records)])
            return Quadratic(basis=None, curvatures=curvatures, linear=linear)
        moments = self.stack.moments(measured)
        basis, values = repaired_curvature(
            moments * (np.outer(scales, scales) if moments.ndim == 2 else scales**2),
            deviation=math.sqrt(variance) / self.stack.moment_weight,
            records=records,
        )
        losses = Quadratic(basis=basis, curvatures=self.bend * values, linear=linear)
        return Quadratic(
            basis=basis,
            curvatures=losses.curvatures
            + ridge
            + self._damping(losses.curvatures + ridge, variance, records),
            linear=linear + losses.product(centre / scales),
        )

    def _damping(
        self, curvatures: FloatArray | float, variance: float, records: float
    ) -> FloatArray | float:
        """What is added to keep noise out of directions that it dominates.

        For a parameter of size ``prior_scale`` seen through curvature h and noise of variance v,
        the least mean squared error adds ``(v / h + 1) / prior_scale^2``. Without any curvature
        it is the inverse of dual averaging's step eta.
        """
        if self.stack.curvature != "none" or self.ridge > 0.0:
            return (variance / curvatures + 1.0) / self.prior_scale**2
        # With features in the unit ball noise costs (bend / 2) eta^2 v, and a distance D that is
        # still to go D^2 / (2 eta t): eta^-3 = 2 bend v t / D^2 makes their sum least. Gradients
        # themselves cost as in any dual averaging.
        noise = (2.0 * self.bend * variance * records / self.distance**2) ** (1.0 / 3.0)
        energy = records * (self.stack.slope * self.stack.length) ** 2
        if self.bend == 0.0:
            energy += self.stack.gradient_size * variance
        # The same rule as above for an isotropic stream keeps the first models small.
        isotropic = max(self.bend, 1e-3) * records / self.stack.width
        return noise + math.sqrt(energy) / self.distance + variance / isotropic / self.distance**2

    def solution(
        self,
        measured: FloatArray,
        *,
        centre: FloatArray,
        start: FloatArray,
        records: float,
        variance: float,
    ) -> FloatArray:
        """The next parameters; ``start`` are those under which the last tick's records came."""
        quadratic = self.quadratic(measured, centre=centre, records=records, variance=variance)
        if self.update == "linear_oracle":
            assert self.convex_set is not None
            return oracle_steps(quadratic, self.convex_set, start, steps=self.oracle_count)
        restriction = (
            None
            if self.convex_set is None
            else Restriction(convex_set=self.convex_set, first=self.constants)
        )
        scales = self.stack.feature_scales
        return projected_minimiser(quadratic, restriction, start / scales) * scales
