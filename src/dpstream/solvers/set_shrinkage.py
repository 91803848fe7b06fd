"""Least squares over a convex set, damped as far as the noise makes it follow itself.

Over a set that is no ball, single directions cannot be damped without leaving what the set is good
for; over a ball they can, but where the noise hides all curvature none moves, however plain the
signal. The set's minimiser is moved as a whole towards the set's centre instead (towards zero,
where the set holds it), and the curvature is taken from whichever of two estimates predicts less
risk.

How far a minimiser follows the noise is the expected product of the two (Stein's identity), which
is found by simulation: more noise of the same law, from *public* randomness, is added to what was
measured, and the minimiser's answer to it is watched (a covariance penalty, Efron 2004). All of it
is post-processing of measurements; claims 2 and 4 of ``quadratic.proof.md``.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.mechanisms.public import public_generator
from dpstream.solvers.constrained_quadratic import (
    ConstrainedMinimum,
    Restraint,
    minimise_quadratic,
)
from dpstream.solvers.noisy_quadratic import NoisyQuadratic, Profile, RotatedNoise
from dpstream.solvers.spectral_choice import Damped, isotropic_of, least_predicted
from dpstream.solvers.spectrum import Spectrum

PROBES = 4
_PROBE_SIZE = 1.0
"""Deviation of the noise that is added, in units of the noise that is there."""

SET_CAUTION = 1.0
"""The centre is left only for a risk that is less by this much of its own deviation: more than for
single directions, because a vertex that the noise chose answers to few probes."""

_PROBE_TOLERANCE = 1e-6
_SEED = 0
_PRESENT = 1e-14


@dataclass(frozen=True, kw_only=True, eq=False)
class SetMinimum:
    """One target's damped minimiser.

    Attributes:
        slopes: the parameters but the constant.
        active: whether the free minimiser lies outside the set, or is not known to lie inside.
        gap: what the minimiser may miss before it is damped.
        point: in the set's own coordinates.
    """

    slopes: FloatArray
    active: bool
    gap: float
    point: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class DampedOverSet:
    """The minimisers of all targets, with their curvature.

    Attributes:
        spectrum: the estimated curvature.
        parts: one minimiser per target.
        risk: predicted, less that of the centre; summed over targets.
    """

    spectrum: Spectrum
    parts: tuple[SetMinimum, ...]
    risk: float


@dataclass(frozen=True, kw_only=True, eq=False)
class _Trial:
    """A way to estimate: per target a matrix over the set, and how it follows the noise.

    Attributes:
        spectrum: the estimated curvature.
        stiffness: per target, the matrix whose quadratic is minimised.
        follows: what a change of the noisy matrix changes in the estimated one.
    """

    spectrum: Spectrum
    stiffness: tuple[FloatArray, ...]
    follows: Callable[[FloatArray], FloatArray]


def damped_over_set(problem: NoisyQuadratic) -> DampedOverSet:
    """The minimiser over the problem's set, damped; every target on its own."""
    plain = isotropic_of(problem, shrink=True)
    targets = problem.cross.shape[1]
    trials = [
        _Trial(
            spectrum=plain,
            stiffness=(plain.matrix,) * targets,
            follows=lambda change: max(plain.kept) * change,
        )
    ]
    radius = problem.noise_radius()
    if radius > 0.0:
        free = least_predicted(problem)
        if free.spectrum.semicircle or any(part is not None for part in free.stiffness):
            trials.append(_filtered(free, radius))
    found = [[_damped(problem, trial, target) for target in range(targets)] for trial in trials]
    best = int(np.argmin([sum(risk for risk, _ in parts) for parts in found]))
    return DampedOverSet(
        spectrum=trials[best].spectrum,
        parts=tuple(part for _, part in found[best]),
        risk=sum(risk for risk, _ in found[best]),
    )


def _filtered(free: Damped, radius: float) -> _Trial:
    """The filters that are best over all of space, as matrices over the set."""
    spectrum = free.spectrum
    basis, values = spectrum.basis, spectrum.values
    matrices: list[FloatArray] = []
    for stiffness in free.stiffness:
        # A zero estimate is left to the damping of the whole.
        chosen = values if stiffness is None else stiffness
        chosen = np.where(np.isfinite(chosen), chosen, values)
        matrices.append((basis * chosen) @ basis.T)
    hidden = (spectrum.raw <= radius) if spectrum.semicircle else np.zeros(values.size, np.bool_)

    def follows(change: FloatArray) -> FloatArray:
        turned = basis.T @ change @ basis
        turned[np.logical_and.outer(hidden, hidden)] = 0.0
        return max(spectrum.kept) * (basis @ turned @ basis.T)

    return _Trial(spectrum=spectrum, stiffness=tuple(matrices), follows=follows)


def _damped(problem: NoisyQuadratic, trial: _Trial, target: int) -> tuple[float, SetMinimum]:
    """The predicted risk, less that of the centre, and the damped minimiser."""
    constraint = problem.constraint
    assert constraint is not None
    matrix, cross = trial.stiffness[target], problem.profile.cross[:, target]
    minimum, active = _minimum(matrix, cross, constraint)
    centre = constraint.origin()
    start = constraint.down(centre)
    moved = minimum.parameters - start
    curved = trial.spectrum.matrix @ moved
    gain = float(moved @ (cross - trial.spectrum.matrix @ start)) - constraint.cost(moved)
    optimism = _optimism(problem, trial, target, minimum)
    # As it was seen, without bias; but never less than what was estimated.
    raw = float(moved @ problem.profile.gram @ moved) + problem.penalty * float(moved @ moved)
    bend = max(float(moved @ curved), raw)
    kept = 1.0 if optimism == 0.0 else min(1.0, max(0.0, (gain - optimism) / bend)) if bend else 1.0
    risk = kept * kept * bend - 2.0 * kept * (gain - optimism)
    row = (moved @ problem.profile.rows)[np.newaxis]
    shown = float(
        RotatedNoise(problem, row).variance(problem.profile.complete(start, target), target)[0]
    )
    told = problem.risk_deviation(kept**2 * shown, kept**2 * float(moved @ moved))
    if told > 0.0 and risk >= -SET_CAUTION * told:
        kept, risk = 0.0, 0.0
    return risk, SetMinimum(
        slopes=start + kept * moved,
        active=active,
        gap=minimum.gap,
        point=centre + kept * (minimum.point - centre),
    )


def _minimum(
    matrix: FloatArray, cross: FloatArray, constraint: Restraint
) -> tuple[ConstrainedMinimum, bool]:
    """The minimiser, and whether the set is known not to matter."""
    if constraint.lift is None:
        values = np.linalg.eigvalsh(matrix)
        if values[0] > _PRESENT * values[-1]:
            free = np.asarray(np.linalg.solve(matrix, cross), np.float64)
            if constraint.holds(free):
                return ConstrainedMinimum(point=free, parameters=free, gap=0.0, steps=0), False
    return minimise_quadratic(matrix, cross, constraint), True


def _optimism(
    problem: NoisyQuadratic, trial: _Trial, target: int, minimum: ConstrainedMinimum
) -> float:
    """The expected product of the normal equations' noise with the minimiser."""
    constraint = problem.constraint
    assert constraint is not None
    if not (np.any(problem.gram_variance > 0.0) or np.any(problem.cross_variance > 0.0)):
        return 0.0
    generator = public_generator(_SEED)
    matrix, profile = trial.stiffness[target], problem.profile
    deviation = np.sqrt(problem.gram_variance)
    total = 0.0
    for _ in range(PROBES):
        upper = np.triu(generator.standard_normal(problem.gram.shape))
        shift = (upper + np.triu(upper, 1).T) * deviation
        noise = generator.standard_normal(problem.cross.shape) * np.sqrt(problem.cross_variance)
        probed = Profile.of(
            problem, problem.gram + _PROBE_SIZE * shift, problem.cross + _PROBE_SIZE * noise
        )
        bent = (probed.gram - profile.gram) / _PROBE_SIZE
        pushed = (probed.cross - profile.cross)[:, target] / _PROBE_SIZE
        # To first order, changing the matrix by D moves the minimiser as changing the cross
        # moments by minus D times the minimiser does.
        push = pushed - trial.follows(bent) @ minimum.parameters
        answer = minimise_quadratic(
            matrix,
            profile.cross[:, target] + _PROBE_SIZE * push,
            constraint,
            start=minimum.point,
            tolerance=_PROBE_TOLERANCE,
        )
        whole = pushed - bent @ minimum.parameters
        total += float(whole @ (answer.parameters - minimum.parameters)) / _PROBE_SIZE
    return max(total / PROBES, 0.0)
