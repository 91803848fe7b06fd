"""Least squares from noisy moments, by a solver that knows how noisy they are.

The problem is ``min theta' S theta - 2 s' theta + penalty |theta|^2`` over all of space, over an
L2 ball or over any convex set, or with an L1 penalty besides; what is known is ``S + N`` and ``s +
n`` with public noise variances. Everything here is post-processing of measurements: the privacy of
its result is theirs.

Three steps, each of which does nothing when the noise is zero:

1. The matrix's spectrum is estimated (``spectrum.py``); directions that the noise hides are not
   inverted.
2. Each eigendirection is damped by the filter of least predicted risk (``spectral_choice.py``),
   zero included. Over a set, and with an L1 penalty, the minimiser as a whole is damped instead
   (``set_shrinkage.py``); over a ball, whichever of the two is predicted to be better.
3. The minimiser over the ball, where there is one, by its secular equation; over any other set, or
   with a penalty, to a certificate.
"""

from dataclasses import dataclass, replace

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.geometry.l2_ball import L2Ball
from dpstream.solvers.ball_quadratic import ball_minimum
from dpstream.solvers.constrained_quadratic import (
    TOLERANCE,
    Constraint,
    minimise_quadratic,
)
from dpstream.solvers.noisy_quadratic import NoisyQuadratic, Profile, RotatedNoise
from dpstream.solvers.set_shrinkage import DampedOverSet, damped_over_set
from dpstream.solvers.spectral_choice import Damped, isotropic_of, least_predicted
from dpstream.solvers.spectrum import Spectrum

_PRESENT = 1e-14
"""Directions of less than this part of the largest curvature are left at 0."""


@dataclass(frozen=True, kw_only=True)
class QuadraticSolution:
    """What the solver makes of it. What is said of a set holds of an L1 penalty, too.

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


def solve_quadratic(problem: NoisyQuadratic, *, shrink: bool = True) -> QuadraticSolution:
    """The noise-aware minimiser; see ``quadratic.proof.md`` for its derivation and bound.

    Args:
        problem: the noisy moments and their variances.
        shrink: whether to shrink; without it the result is the repaired problem's exact minimiser.
    """
    profile = problem.profile
    targets = range(problem.cross.shape[1])
    spectrum, found = _minima(problem, shrink=shrink)
    basis, values = spectrum.basis, spectrum.values
    present = values > _PRESENT * values.max(initial=0.0)
    spread = RotatedNoise(problem, basis.T @ profile.rows)
    columns: list[FloatArray] = []
    factors: list[float] = []
    excess: list[float] = []
    for target, minimum in zip(targets, found, strict=True):
        columns.append(profile.complete(minimum.slopes, target))
        noise = spread.variance(columns[-1], target)
        seen = basis.T @ profile.cross[:, target]
        factors.append(_mean_factor(values[present], seen[present], basis[:, present], minimum))
        excess.append(float(np.sum(noise[present] / values[present])))
    return QuadraticSolution(
        parameters=np.column_stack(columns),
        curvature=_with_constant(spectrum.matrix, profile),
        shrinkage=np.array(factors),
        matrix_shrinkage=spectrum.kept,
        raised=spectrum.raised,
        active=tuple(minimum.active for minimum in found),
        gaps=tuple(minimum.gap for minimum in found),
        points=np.column_stack(
            [minimum.slopes if minimum.point is None else minimum.point for minimum in found]
        ),
        noise_excess=np.array(excess),
    )


def repaired_minimum(
    problem: NoisyQuadratic, *, start: FloatArray | None = None, tolerance: float = TOLERANCE
) -> FloatArray:
    """What ``solve_quadratic`` gives for the first target without shrinking: the parameters alone.

    Args:
        problem: the noisy moments and their variances.
        start: parameters to begin at, where a constraint is solved for in steps.
        tolerance: of the gap, as in ``minimise_quadratic``.
    """
    damped = _undamped(problem)
    found = _minimise(
        damped.stiffness[0],
        0,
        damped.spectrum,
        problem,
        start=None if start is None else start[problem.first :],
        tolerance=tolerance,
    )
    return problem.profile.complete(found.slopes, 0)


def _minima(problem: NoisyQuadratic, *, shrink: bool) -> "tuple[Spectrum, list[_Minimum]]":
    """The curvature, and the minimiser of every target."""
    targets = range(problem.cross.shape[1])
    damped = least_predicted(problem) if shrink else _undamped(problem)
    if problem.constraint is not None and shrink:
        return _as_a_whole(damped_over_set(problem, damped))
    if problem.radius is not None and shrink and problem.noise_radius() > 0.0:
        # Where the noise hides all curvature no filter dares to move, and yet a signal that stands
        # out of the noise says which way to go: the ball says how far.
        ball = L2Ball(dimension=problem.gram.shape[0] - problem.first, radius=problem.radius)
        over_ball = replace(problem, radius=None, constraint=Constraint(convex_set=ball))
        whole = damped_over_set(over_ball, damped)
        if whole.risk < damped.risk:
            return _as_a_whole(whole)
    return damped.spectrum, [
        _minimise(damped.stiffness[target], target, damped.spectrum, problem) for target in targets
    ]


def _as_a_whole(damped: DampedOverSet) -> "tuple[Spectrum, list[_Minimum]]":
    return damped.spectrum, [_Minimum(**vars(part)) for part in damped.parts]


def _undamped(problem: NoisyQuadratic) -> Damped:
    spectrum = isotropic_of(problem, shrink=False)
    targets = problem.cross.shape[1]
    return Damped(spectrum=spectrum, stiffness=(spectrum.values,) * targets, risk=0.0)


def _with_constant(curvature: FloatArray, profile: Profile) -> FloatArray:
    """The curvature of all parameters, from that of the profiled ones."""
    if profile.levels is None:
        return curvature
    mean, count = profile.mean, profile.count
    head = count * np.concatenate(([1.0], mean))
    full = np.empty((1 + mean.size,) * 2)
    full[0, :] = full[:, 0] = head
    full[1:, 1:] = curvature + np.multiply.outer(mean, mean) * count
    return full


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
    stiffness: FloatArray | None,
    target: int,
    spectrum: Spectrum,
    problem: NoisyQuadratic,
    *,
    start: FloatArray | None = None,
    tolerance: float = TOLERANCE,
) -> _Minimum:
    """Minimiser of ``sum h_j t_j^2 / 2 - z_j t_j`` in rotated parameters t, over the set.

    Without noise and penalty a direction nobody has is left at 0: the solution of least norm.
    """
    basis = spectrum.basis
    if stiffness is None:
        return _Minimum(slopes=np.zeros(basis.shape[0]), active=False)
    present = (spectrum.values > _PRESENT * spectrum.values.max(initial=0.0)) & np.isfinite(
        stiffness
    )
    basis, stiffness = basis[:, present], stiffness[present]
    seen = basis.T @ problem.profile.cross[:, target]
    constraint = problem.constraint
    if constraint is not None:
        slopes = basis @ (seen / stiffness)
        if constraint.holds(slopes):
            return _Minimum(slopes=slopes, active=False)
        matrix = (basis * stiffness) @ basis.T
        minimum = minimise_quadratic(
            matrix, basis @ seen, constraint, start=start, tolerance=tolerance
        )
        return _Minimum(
            slopes=minimum.parameters, active=True, gap=minimum.gap, point=minimum.point
        )
    if problem.radius is None:
        return _Minimum(slopes=basis @ (seen / stiffness), active=False)
    inside, active = ball_minimum(stiffness, seen, problem.radius)
    return _Minimum(slopes=basis @ inside, active=active)


def _mean_factor(
    curved: FloatArray, seen: FloatArray, basis: FloatArray, minimum: _Minimum
) -> float:
    """How much of the plain solution is left, the set's part in it included."""
    plain = seen / curved
    moving = plain != 0.0
    if not moving.any():
        return 1.0
    return float(np.mean((basis.T @ minimum.slopes)[moving] / plain[moving]))
