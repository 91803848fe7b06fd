"""Quadratics over any convex set, minimised to a certificate.

``min h(Phi theta)`` over ``theta`` in C with ``h(v) = v' H v / 2 - z' v``, H positive
semi-definite. Over a ball the minimiser is exact (``ball_quadratic.py``). Else three parts:
accelerated projected gradients where the set can be projected on, Frank-Wolfe with away steps where
it has a linear oracle alone, and the lift of a point of ``Phi C`` to the point of least gauge above
it (000, section 5.1, step 9 of PrivIncReg2). Every result carries a bound of what it misses, from
duality, that holds whatever the iteration did.

The paper's own averaged noisy projected gradient (000, appendix C) is here too, for comparison.
All of it is post-processing of measurements.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.errors import ConfigurationError
from dpstream.geometry.convex_set import ConvexSet, LinearlyOptimizable, Projectable
from dpstream.geometry.l2_ball import L2Ball
from dpstream.solvers.ball_quadratic import ball_minimum
from dpstream.solvers.l1_penalty import L1Penalty, minimise_penalised

TOLERANCE = 1e-9
"""Of the gap, relative to the quadratic's size on the set."""

MOST_STEPS = 4000
_CHECK = 8
"""Steps between two looks at the certificate."""

_LIFT_ROUNDS = 40
_LIFT_ACCURACY = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class Constraint:
    """Parameters are ``lift @ theta`` for theta in the set (``theta`` itself without a lift).

    Attributes:
        convex_set: C, with a projection or a linear oracle.
        lift: ``(m, d)`` Phi, or None.
    """

    convex_set: ConvexSet
    lift: FloatArray | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.convex_set, Projectable | LinearlyOptimizable):
            raise ConfigurationError(
                f"{type(self.convex_set).__name__} has neither a projection nor a linear oracle; "
                "a constraint needs one of them"
            )
        if self.lift is not None and self.lift.shape[1] != self.convex_set.dimension:
            raise ConfigurationError(
                f"the projection takes {self.lift.shape[1]} coordinates, but the set has "
                f"dimension {self.convex_set.dimension}; declare the set in the features' dimension"
            )

    @property
    def dimension(self) -> int:
        """Of the parameters: m."""
        return self.convex_set.dimension if self.lift is None else int(self.lift.shape[0])

    def down(self, point: FloatArray) -> FloatArray:
        """``Phi theta``."""
        return point if self.lift is None else self.lift @ point

    def up(self, direction: FloatArray) -> FloatArray:
        """``Phi' v``: the gradient by theta of a function with gradient v."""
        return direction if self.lift is None else direction @ self.lift

    @cached_property
    def relative_width(self) -> float:
        """The set's Gaussian width over that of the ball of its L2 radius, at most 1.

        A lift keeps widths and radii up to its distortion; the ball is that of m dimensions.
        """
        ball = self.convex_set.l2_radius() * math.sqrt(self.dimension)
        return min(1.0, self.convex_set.gaussian_width() / ball)

    def origin(self) -> FloatArray:
        """Where damped minimisers are moved to: zero, where the set holds it, or its centre."""
        zero = np.zeros(self.convex_set.dimension)
        return zero if self.convex_set.contains(zero) else self.convex_set.centre()

    def cost(self, parameters: FloatArray) -> float:
        """Nothing: a set allows or forbids."""
        return 0.0

    def holds(self, parameters: FloatArray) -> bool:
        """Whether parameters are allowed; with a lift that is not decided, and False."""
        return self.lift is None and self.convex_set.contains(parameters)


Restraint = Constraint | L1Penalty
"""What holds parameters back."""


@dataclass(frozen=True, kw_only=True)
class ConstrainedMinimum:
    """A point and what it misses.

    Attributes:
        point: theta, in the set.
        parameters: ``Phi theta``.
        gap: the quadratic at the point exceeds its minimum by at most this.
        steps: how many were taken.
    """

    point: FloatArray
    parameters: FloatArray
    gap: float
    steps: int


class _Quadratic:
    """``h(Phi theta)`` and its gradient by theta."""

    def __init__(self, matrix: FloatArray, linear: FloatArray, constraint: Constraint) -> None:
        self.constraint = constraint
        self.matrix = matrix
        self.linear = linear
        if constraint.lift is not None and constraint.lift.shape[1] <= 2 * constraint.lift.shape[0]:
            # One square product is quicker than two flat ones.
            self.matrix = constraint.lift.T @ matrix @ constraint.lift
            self.linear = linear @ constraint.lift
            self.constraint = Constraint(convex_set=constraint.convex_set)

    def gradient(self, point: FloatArray) -> FloatArray:
        down = self.constraint.down(point)
        return self.constraint.up(self.matrix @ down - self.linear)

    def bend(self, direction: FloatArray) -> float:
        down = self.constraint.down(direction)
        return float(down @ self.matrix @ down)

    def smoothness(self) -> float:
        """The largest curvature, rounded up."""
        lift = self.constraint.lift
        largest = float(np.linalg.eigvalsh(self.matrix)[-1])
        if lift is not None:
            largest *= float(np.linalg.norm(lift, 2)) ** 2
        return max(largest, 0.0) * (1.0 + 1e-9)

    def size(self) -> float:
        """A bound of the linear part on the set: the scale of gaps."""
        reach = self.constraint.convex_set.l2_radius()
        return float(np.linalg.norm(self.constraint.up(self.linear))) * reach


def minimise_quadratic(
    matrix: FloatArray,
    linear: FloatArray,
    constraint: Restraint,
    *,
    start: FloatArray | None = None,
    tolerance: float = TOLERANCE,
    most_steps: int = MOST_STEPS,
) -> ConstrainedMinimum:
    """The minimiser over the set, or with the penalty, with the gap it is certified to.

    Args:
        matrix: H, symmetric and positive semi-definite.
        linear: z.
        constraint: the set and the lift, or a penalty, which the quadratic and the gap then hold.
        start: a point theta to begin at; it need not lie in the set if that can be projected on.
        tolerance: the gap to reach, relative to ``|Phi' z|`` times the set's radius.
        most_steps: after these, the result is what was reached, with its gap.
    """
    if isinstance(constraint, L1Penalty):
        point, gap, steps = minimise_penalised(
            matrix, linear, constraint, start=start, tolerance=tolerance, most_steps=most_steps
        )
        return ConstrainedMinimum(point=point, parameters=point, gap=gap, steps=steps)
    convex_set = constraint.convex_set
    if isinstance(convex_set, L2Ball) and constraint.lift is None:
        values, basis = np.linalg.eigh(matrix)
        turned, _ = ball_minimum(np.maximum(values, 0.0), basis.T @ linear, convex_set.radius)
        exact = basis @ turned
        return ConstrainedMinimum(point=exact, parameters=exact, gap=0.0, steps=1)
    quadratic = _Quadratic(matrix, linear, constraint)
    target = tolerance * quadratic.size()
    if isinstance(convex_set, Projectable):
        point, gap, steps = _accelerated(quadratic, convex_set, start, target, most_steps)
    else:
        assert isinstance(convex_set, LinearlyOptimizable)
        point, gap, steps = _away_steps(quadratic, convex_set, target, most_steps)
    return ConstrainedMinimum(point=point, parameters=constraint.down(point), gap=gap, steps=steps)


def _accelerated(
    quadratic: _Quadratic,
    convex_set: Projectable,
    start: FloatArray | None,
    target: float,
    most_steps: int,
) -> tuple[FloatArray, float, int]:
    """FISTA, restarted whenever the momentum points uphill."""
    point = convex_set.project(convex_set.centre() if start is None else start)
    smoothness = quadratic.smoothness()
    if smoothness == 0.0:
        smoothness = max(quadratic.size(), 1.0) / max(convex_set.diameter(), 1e-100) ** 2
    ahead, weight = point, 1.0
    best, least = point, math.inf
    for step in range(1, most_steps + 1):
        following = convex_set.project(ahead - quadratic.gradient(ahead) / smoothness)
        if float((ahead - following) @ (following - point)) > 0.0:
            weight = 1.0
        grown = (1.0 + math.sqrt(1.0 + 4.0 * weight * weight)) / 2.0
        ahead = following + (weight - 1.0) / grown * (following - point)
        point, weight = following, grown
        if step % _CHECK and step != most_steps:
            continue
        candidate, gap = _certificate(quadratic, convex_set, point, smoothness)
        if gap < least:
            best, least = candidate, gap
        if least <= target:
            return best, least, step
    return best, least, most_steps


def _certificate(
    quadratic: _Quadratic, convex_set: Projectable, point: FloatArray, smoothness: float
) -> tuple[FloatArray, float]:
    """A point and a bound of its gap.

    With a linear oracle the Frank-Wolfe gap. Else, for a projected gradient step to ``p`` with
    the gradient map g, ``f(p) <= f(y) + <g, point - y> - |g|^2 / (2 L)`` for every y of the set.
    """
    gradient = quadratic.gradient(point)
    if isinstance(convex_set, LinearlyOptimizable):
        vertex = convex_set.minimize_linear(gradient)
        return point, max(float(gradient @ (point - vertex)), 0.0)
    following = convex_set.project(point - gradient / smoothness)
    mapped = smoothness * float(np.linalg.norm(point - following))
    return following, mapped * convex_set.diameter()


def _away_steps(
    quadratic: _Quadratic, convex_set: LinearlyOptimizable, target: float, most_steps: int
) -> tuple[FloatArray, float, int]:
    """Frank-Wolfe with away steps and exact line search (Lacoste-Julien, Jaggi 2015)."""
    first = convex_set.minimize_linear(quadratic.gradient(convex_set.centre()))
    atoms, weights = first[np.newaxis], np.ones(1)
    point = first
    gap = math.inf
    for step in range(most_steps):
        gradient = quadratic.gradient(point)
        vertex = convex_set.minimize_linear(gradient)
        gap = max(float(gradient @ (point - vertex)), 0.0)
        if gap <= target:
            return point, gap, step
        scores = atoms @ gradient
        worst = int(np.argmax(scores))
        away = float(scores[worst] - gradient @ point)
        leaves = away > gap and weights[worst] < 1.0
        if leaves:
            direction, slope = point - atoms[worst], away
            longest = float(weights[worst] / (1.0 - weights[worst]))
        else:
            direction, slope, longest = vertex - point, gap, 1.0
        bend = quadratic.bend(direction)
        size = longest if bend * longest <= slope else slope / bend
        if leaves:
            weights = weights * (1.0 + size)
            weights[worst] -= size
        else:
            same = np.flatnonzero((atoms == vertex).all(axis=1))
            weights = weights * (1.0 - size)
            if same.size:
                weights[same[0]] += size
            else:
                atoms, weights = np.vstack([atoms, vertex]), np.append(weights, size)
        kept = weights > 1e-15
        atoms, weights = atoms[kept], weights[kept] / weights[kept].sum()
        point = weights @ atoms
    return point, gap, most_steps


@dataclass(frozen=True, kw_only=True)
class Lifted:
    """A point above given parameters.

    Attributes:
        point: theta with ``Phi theta`` equal to the parameters up to ``distance``.
        gauge: theta's gauge is at most this; that of no point above the parameters is smaller.
        distance: ``|Phi theta - parameters|``.
    """

    point: FloatArray
    gauge: float
    distance: float


def lift_by_gauge(
    parameters: FloatArray, constraint: Constraint, *, accuracy: float = _LIFT_ACCURACY
) -> Lifted:
    """The point of least gauge with ``Phi theta = parameters`` (000, section 5.1, step 9).

    For any direction u, ``gauge >= <u, parameters> / max over C of <Phi' u, y>``. The residual of
    the best fit within ``r C`` is a direction whose bound exceeds r, unless the fit is exact: the
    bounds increase to the least gauge (van den Berg, Friedlander 2008, on any set).

    Args:
        parameters: v.
        constraint: the set, which must contain the origin, and the lift.
        accuracy: of the fit, relative to ``|parameters|``.

    Raises:
        ConfigurationError: if the set does not contain the origin, or has no linear oracle.
    """
    convex_set = constraint.convex_set
    zero = np.zeros(convex_set.dimension)
    if not convex_set.contains(zero) or not isinstance(convex_set, LinearlyOptimizable):
        raise ConfigurationError(
            f"lifting by least gauge needs a set with a linear oracle that contains the origin; "
            f"{type(convex_set).__name__} is not one: use the minimiser itself"
        )
    size = float(np.linalg.norm(parameters))
    identity = np.eye(constraint.dimension)
    point, radius, residual = zero, 0.0, parameters
    for _ in range(_LIFT_ROUNDS):
        distance = float(np.linalg.norm(residual))
        if distance <= accuracy * size:
            break
        direction = constraint.up(residual)
        top = float(direction @ convex_set.minimize_linear(-direction))
        bound = float(residual @ parameters) / top if top > 0.0 else math.inf
        if not radius < bound < math.inf:
            break
        radius = bound
        found = minimise_quadratic(
            identity * radius**2,
            parameters * radius,
            constraint,
            start=point / radius,
            tolerance=0.1 * accuracy**2,
        )
        point = radius * found.point
        residual = parameters - constraint.down(point)
    return Lifted(
        point=point,
        gauge=radius,
        distance=float(np.linalg.norm(residual)),
    )


def gradient_error(deviation: float, dimension: int, reach: float) -> float:
    """Lemma 4.1 of paper 000: ``alpha = 2 sigma sqrt(d) (1 + |C|)``, by which a gradient may err.

    Args:
        deviation: sigma, of an entry of q.
        dimension: d.
        reach: |C|, the largest norm of a point.
    """
    return 2.0 * deviation * math.sqrt(dimension) * (1.0 + reach)


def averaged_projected_gradient(
    gram: FloatArray,
    cross: FloatArray,
    convex_set: Projectable,
    *,
    records: float,
    deviation: float,
    noisy_dimension: int | None = None,
    most_steps: int = 100_000,
) -> FloatArray:
    """NoisyProjGrad as printed (000, appendix C), for ``theta' Q theta - 2 q' theta``, unrepaired.

    The mean of r points from the set's centre on, at step size ``|C| / (sqrt(r) (alpha + L))``
    with ``r = (1 + L / alpha)^2`` (corollary C.2), ``alpha`` that of
    ``gradient_error`` and ``L = 2 t (1 + |C|)``, which paper 000 prints as ``T |C|``.
    ``|C|`` is the largest norm of a point.

    Args:
        gram: Q, noisy, symmetric.
        cross: q.
        convex_set: C.
        records: t.
        deviation: sigma, of an entry of q.
        noisy_dimension: d; that of the measured moments, where Q and q are lifted from them.
        most_steps: the most points that are averaged.
    """
    reach = convex_set.l2_radius()
    slope = 2.0 * records * (1.0 + reach)
    noisy = cross.size if noisy_dimension is None else noisy_dimension
    error = max(gradient_error(deviation, noisy, reach), 1e-9 * slope)
    steps = min(most_steps, math.ceil((1.0 + slope / error) ** 2))
    size = reach / (math.sqrt(steps) * (error + slope))
    point = convex_set.project(convex_set.centre())
    total = np.zeros_like(point)
    for _ in range(steps):
        total += point
        point = convex_set.project(point - size * 2.0 * (gram @ point - cross))
    return total / steps
