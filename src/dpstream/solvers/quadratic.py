"""Least squares from noisy moments, by a solver that knows how noisy they are.

The problem is ``min theta' S theta - 2 s' theta + penalty |theta|^2`` over all of space, over an
L2 ball or over any convex set; what is known is ``S + N`` and ``s + n`` with public noise
variances. Everything here is post-processing of measurements: the privacy of its result is theirs.

Four steps, each of which does nothing when the noise is zero:

1. Stein shrinkage of the matrix towards its isotropic part, by groups of equal variance.
2. Repair: eigenvalues are made non-negative, and, with the penalty, at least the spectral radius
   of the noise: directions that the noise hides are not inverted.
3. Empirical Bayes: the coefficients' scale is the one under which the noisy cross moments are
   likeliest; the posterior mean shrinks each eigendirection between zero and the plain solution.
   Over a set that is not a ball this step is left out: the set itself says what is likely.
4. The minimiser over the ball, where there is one, by its secular equation; over any other set to
   a certificate.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from dpstream.arrays import FloatArray
from dpstream.errors import ConfigurationError
from dpstream.solvers.constrained_quadratic import Constraint, minimise_quadratic

_ROUNDS = 3
_TRIAL_SCALES = np.geomspace(1e-4, 4.0, 96)
"""Trial scales of the coefficients, relative to the plain solution's largest."""


@dataclass(frozen=True, kw_only=True)
class NoisyQuadratic:
    """A least squares problem as its noisy moments show it.

    Attributes:
        gram: ``(p, p)`` noisy ``S``, symmetric.
        cross: ``(p, k)`` noisy ``s``, one column per target.
        gram_variance: ``(p, p)`` noise variance of each entry; an entry and its mirror image are
            the same draw, all others are independent.
        cross_variance: ``(p, k)`` noise variances.
        penalty: ridge penalty of the whole sum, on all parameters but the constant.
        constant: whether the first parameter is a constant: neither penalised nor bounded.
        radius: of the L2 ball for the parameters but the constant; None for all of space.
        constraint: another set for the parameters but the constant; not together with a radius.
        target_bound: public bound of the targets, which bounds their mean; None if there is none.
    """

    gram: FloatArray
    cross: FloatArray
    gram_variance: FloatArray
    cross_variance: FloatArray
    penalty: float = 0.0
    constant: bool = False
    radius: float | None = None
    constraint: Constraint | None = None
    target_bound: float | None = None

    def __post_init__(self) -> None:
        if self.constraint is None:
            return
        if self.radius is not None:
            raise ConfigurationError("radius and constraint are two sets; give one of them")
        free = self.gram.shape[0] - self.first
        if self.constraint.dimension != free:
            raise ConfigurationError(
                f"the constraint has dimension {self.constraint.dimension}, but there are {free} "
                "parameters beside the constant; declare the set in that dimension"
            )

    @property
    def first(self) -> int:
        """The first parameter that is penalised."""
        return 1 if self.constant else 0

    @property
    def ridge(self) -> FloatArray:
        """The diagonal that the penalty adds."""
        diagonal = np.full(self.gram.shape[0], self.penalty)
        diagonal[: self.first] = 0.0
        return diagonal

    def equation_covariance(self, parameters: FloatArray, target: int) -> FloatArray:
        """Covariance of the noise in the normal equations, ``n - N parameters``.

        With one draw per pair of mirrored entries of variance ``V_ij``:
        ``diag(v_i + sum_j V_ij b_j^2)`` plus ``V_ij b_i b_j`` off the diagonal.
        """
        outer = self.gram_variance * np.multiply.outer(parameters, parameters)
        np.fill_diagonal(outer, self.cross_variance[:, target] + self.gram_variance @ parameters**2)
        return outer

    def noise_radius(self) -> float:
        """The spectral radius that the noise of the penalised block has, up to its fluctuation.

        A symmetric p by p matrix with off-diagonal variance V has it near ``2 sqrt(p V)``.
        """
        block = self.gram_variance[self.first :, self.first :]
        size = block.shape[0]
        if size < 2:
            return math.sqrt(float(block[0, 0])) if size else 0.0
        return 2.0 * math.sqrt(float(block.sum() - np.trace(block)) / (size - 1))

    def hidden_curvature(self) -> float:
        """The curvature that the noise alone could show along a direction of the set.

        Over a set of width w and L2 radius R, ``E sup theta' N theta`` is at most ``2 sqrt(V) R
        w`` (Chevet), which is ``w / (R sqrt(p))`` of the spectral radius per ``R^2``: all of it
        for a ball.
        """
        whole = self.noise_radius()
        return whole if self.constraint is None else whole * self.constraint.relative_width


@dataclass(frozen=True, kw_only=True)
class QuadraticSolution:
    """What the solver makes of it.

    Attributes:
        parameters: ``(p, k)`` the estimate.
        curvature: ``(p, p)`` the repaired matrix, the penalty included.
        shrinkage: per target, the mean factor between the plain solution (1) and zero (0).
        matrix_shrinkage: the factors kept of the matrix's diagonal and off-diagonal deviation.
        raised: how many eigenvalues the repair raised.
        active: per target, whether the free solution lies outside the set (over a lifted set:
            whether it is not known to lie inside).
        gaps: per target, by how much the solution may miss the least value over the set.
        points: ``(d, k)`` the penalised parameters in the set's own coordinates.
        noise_excess: per target, the expected noise part of the excess of the whole sum, before
            shrinkage: the trace of ``curvature^{-1} Cov(noise in the normal equations)``.
    """

    parameters: FloatArray
    curvature: FloatArray
    shrinkage: FloatArray
    matrix_shrinkage: tuple[float, float]
    raised: int
    active: tuple[bool, ...]
    gaps: tuple[float, ...]
    points: FloatArray
    noise_excess: FloatArray


def stein_factor(square_norm: float, dimension: int, variance: float) -> float:
    """The positive-part James-Stein factor for ``dimension`` values of equal noise variance.

    It lowers the expected squared error whatever the truth is, for three values or more; for
    fewer it is 1.
    """
    if dimension < 3 or variance == 0.0:
        return 1.0
    excess = (dimension - 2) * variance
    return 0.0 if square_norm <= excess else 1.0 - excess / square_norm


def shrink_to_isotropic(
    block: FloatArray, variance: FloatArray
) -> tuple[FloatArray, tuple[float, float]]:
    """Stein shrinkage of a symmetric matrix towards a multiple of the identity.

    Diagonal deviations from the mean and off-diagonal entries are two groups of equal noise
    variance and independent noise, each shrunk by its own factor.
    """
    size = block.shape[0]
    if size < 2:
        return block, (1.0, 1.0)
    mean = float(np.trace(block)) / size
    diagonal = np.diagonal(block) - mean
    upper = np.triu_indices(size, 1)
    kept_diagonal = stein_factor(float(diagonal @ diagonal), size - 1, float(variance[0, 0]))
    kept_off = stein_factor(float(np.sum(block[upper] ** 2)), len(upper[0]), float(variance[0, 1]))
    shrunk = kept_off * block
    np.fill_diagonal(shrunk, mean + kept_diagonal * diagonal)
    return shrunk, (kept_diagonal, kept_off)


def solve_quadratic(problem: NoisyQuadratic, *, shrink: bool = True) -> QuadraticSolution:
    """The noise-aware minimiser; see ``quadratic.proof.md`` for its derivation and bound.

    Args:
        problem: the noisy moments and their variances.
        shrink: whether to shrink; without it the result is the repaired problem's exact minimiser.
    """
    first = problem.first
    gram = 0.5 * (problem.gram + problem.gram.T)
    # Row operations that profile the constant out: rows - mean * row of the constant.
    profile = np.eye(gram.shape[0])[first:]
    if problem.constant:
        count = max(float(gram[0, 0]), 1.0, math.sqrt(float(problem.gram_variance[0, 0])))
        mean = gram[1:, 0] / count
        profile[:, 0] = -mean
        centred = gram[1:, 1:] - np.multiply.outer(mean, mean) * count
    else:
        count, mean, centred = 1.0, np.zeros(0), gram
    kept = (1.0, 1.0)
    if shrink:
        # Centring adds noise that is not counted here: it can only shrink too little.
        centred, kept = shrink_to_isotropic(centred, problem.gram_variance[first:, first:])
    eigenvalues, basis = np.linalg.eigh(centred)
    floor = problem.hidden_curvature() * max(kept)
    curved = np.maximum(np.maximum(eigenvalues, 0.0) + problem.penalty, floor)
    raised = int(np.count_nonzero(curved > eigenvalues + problem.penalty + 1e-9 * floor))
    curvature = (basis * curved) @ basis.T
    # Without noise and penalty a direction nobody has is left at 0: the solution of least norm.
    present = curved > 1e-14 * curved.max(initial=0.0)
    if not present.all():
        curved, basis = curved[present], basis[:, present]
    rotation = basis.T @ profile if problem.constant else basis.T
    spread = _RotatedNoise(problem, rotation)

    empirical = shrink and problem.constraint is None
    columns: list[FloatArray] = []
    factors: list[float] = []
    found: list[_Minimum] = []
    excess: list[float] = []
    for target in range(problem.cross.shape[1]):
        cross = problem.cross[:, target]
        seen = rotation @ cross
        minimum = _Minimum(slopes=np.zeros(profile.shape[0]), active=False)
        level = _level(problem, cross, count)
        parameters = _complete(minimum.slopes, level, mean)
        noise = spread.variance(parameters, target)
        for _ in range(_ROUNDS if empirical else 1):
            stiffness = _posterior_stiffness(curved, seen, noise) if empirical else curved
            minimum = _minimise(stiffness, seen, basis, problem)
            parameters = _complete(minimum.slopes, level, mean)
            noise = spread.variance(parameters, target)
        columns.append(parameters)
        found.append(minimum)
        factors.append(_mean_factor(curved, seen, basis, minimum))
        excess.append(float(np.sum(noise / curved)))
    full = curvature
    if problem.constant:
        head = count * np.concatenate(([1.0], mean))
        full = np.empty((first + curvature.shape[0],) * 2)
        full[0, :] = head
        full[:, 0] = head
        full[1:, 1:] = curvature + np.multiply.outer(mean, mean) * count
    return QuadraticSolution(
        parameters=np.column_stack(columns),
        curvature=full,
        shrinkage=np.array(factors),
        matrix_shrinkage=kept,
        raised=raised,
        active=tuple(minimum.active for minimum in found),
        gaps=tuple(minimum.gap for minimum in found),
        points=np.column_stack(
            [minimum.slopes if minimum.point is None else minimum.point for minimum in found]
        ),
        noise_excess=np.array(excess),
    )


def _level(problem: NoisyQuadratic, cross: FloatArray, count: float) -> float | None:
    """The mean target, which the constant has to meet at the mean features."""
    if not problem.constant:
        return None
    bound = math.inf if problem.target_bound is None else problem.target_bound
    return max(-bound, min(bound, float(cross[0]) / count))


def _complete(slopes: FloatArray, level: float | None, mean: FloatArray) -> FloatArray:
    """All parameters: the constant, where there is one, solves its own normal equation."""
    if level is None:
        return slopes
    return np.concatenate(([level - mean @ slopes], slopes))


class _RotatedNoise:
    """Noise variance of each rotated normal equation, at any parameters.

    In ``sum_ik r_i r_k C_ik`` the covariance C is ``diag(v_i + sum_j V_ij b_j^2)`` and ``V_ij b_i
    b_j`` off the diagonal. Where V is one number V0 off its diagonal, the second part is ``V0
    (r . b)^2 - V0 sum r_i^2 b_i^2``: no matrix product is needed.
    """

    def __init__(self, problem: NoisyQuadratic, rotation: FloatArray) -> None:
        self._problem = problem
        self._rotation = rotation
        variance = problem.gram_variance
        self._size = variance.shape[0]
        self._common = float(variance[0, -1]) if self._size > 1 else 0.0
        apart = np.count_nonzero(variance != self._common)
        on_diagonal = np.count_nonzero(np.diagonal(variance) != self._common)
        self._uniform = math.isfinite(self._common) and apart == on_diagonal
        self._squares = rotation * rotation if self._uniform else rotation

    def variance(self, parameters: FloatArray, target: int) -> FloatArray:
        """The variances at the given parameters."""
        problem, rotation = self._problem, self._rotation
        if not self._uniform:
            covariance = problem.equation_covariance(parameters, target)
            return np.sum((rotation @ covariance) * rotation, axis=1)
        square = parameters * parameters
        own = problem.cross_variance[:, target] + problem.gram_variance @ square
        mixed = rotation @ parameters
        rest = self._squares @ (own - self._common * square)
        return np.maximum(rest + self._common * mixed * mixed, 0.0)


def _posterior_stiffness(
    curved: FloatArray, seen: FloatArray, noise: FloatArray
) -> FloatArray | None:
    """Stiffness ``l + v / (l t^2)`` at the likeliest scale t; None where t = 0 is likeliest.

    Under ``theta_j ~ N(0, t^2)`` the rotated cross moment ``z_j`` is ``N(0, l^2 t^2 + v_j)``, and
    the posterior mean of ``theta_j`` is ``z_j / (l_j + v_j / (l_j t^2))``.
    """
    largest = float(np.abs(seen / curved).max(initial=0.0))
    if not np.any(noise > 0.0) or largest == 0.0:
        return curved
    spread = np.maximum(noise, np.finfo(np.float64).tiny)
    scales = largest * _TRIAL_SCALES
    marginal = np.multiply.outer(scales**2, curved**2) + spread
    cost = np.sum(np.log(marginal) + seen**2 / marginal, axis=1)
    best = int(np.argmin(cost))
    if cost[best] >= float(np.sum(np.log(spread) + seen**2 / spread)):
        return None
    return curved + noise / (curved * scales[best] ** 2)


@dataclass(frozen=True, kw_only=True)
class _Minimum:
    """One target's minimiser.

    Attributes:
        slopes: the parameters but the constant.
        active: whether the set keeps it from the free minimiser.
        gap: what it may miss; 0 where it is exact.
        point: in the set's own coordinates, where a constraint was solved.
    """

    slopes: FloatArray
    active: bool
    gap: float = 0.0
    point: FloatArray | None = None


def _minimise(
    stiffness: FloatArray | None, seen: FloatArray, basis: FloatArray, problem: NoisyQuadratic
) -> _Minimum:
    """Minimiser of ``sum h_j t_j^2 / 2 - z_j t_j`` in rotated parameters t.

    The minimiser over the ball is ``z / (h + m)`` with the multiplier ``m >= 0`` at which its norm
    is the radius: the secular equation, decreasing in ``m``.
    """
    if stiffness is None:
        return _Minimum(slopes=np.zeros(basis.shape[0]), active=False)
    free = seen / stiffness
    constraint = problem.constraint
    if constraint is not None:
        slopes = basis @ free
        if constraint.holds(slopes):
            return _Minimum(slopes=slopes, active=False)
        matrix = (basis * stiffness) @ basis.T
        minimum = minimise_quadratic(matrix, basis @ seen, constraint)
        return _Minimum(
            slopes=minimum.parameters, active=True, gap=minimum.gap, point=minimum.point
        )
    radius = problem.radius
    if radius is None or float(np.linalg.norm(free)) <= radius:
        return _Minimum(slopes=basis @ free, active=False)

    def surplus(multiplier: float) -> float:
        return float(np.linalg.norm(seen / (stiffness + multiplier))) - radius

    upper = float(np.linalg.norm(seen)) / radius
    multiplier = brentq(surplus, 0.0, upper, xtol=1e-15 * upper, rtol=1e-12)
    inside = seen / (stiffness + multiplier)
    inside = inside * min(1.0, radius / float(np.linalg.norm(inside)))
    return _Minimum(slopes=basis @ inside, active=True)


def _mean_factor(
    curved: FloatArray, seen: FloatArray, basis: FloatArray, minimum: _Minimum
) -> float:
    """How much of the plain solution is left, the set's part in it included."""
    plain = seen / curved
    moving = plain != 0.0
    if not moving.any():
        return 1.0
    return float(np.mean((basis.T @ minimum.slopes)[moving] / plain[moving]))
