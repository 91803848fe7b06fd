"""Least squares over a convex set, left for its centre unless evidence says otherwise.

Over a set that is no ball, single directions cannot be damped without leaving what the set is good
for; over a ball they can, but where the noise hides all curvature none moves, however plain the
signal. The set's minimiser is moved as a whole towards the set's centre instead (towards zero,
where the set holds it, and with an L1 penalty).

A minimiser that the noise chose, a vertex above all, looks good on the moments that it was chosen
by. So it is fitted on one of two independent measurements and judged on the other
(``noise_split.py``), where the noise of what it shows is normal with a known deviation. The centre
is left where what both splits show is certain to be better than it, up to a stated rate of false
alarms; what is released then is the splits' mean. All of it is post-processing of measurements;
claims 2, 4 and 5 of ``quadratic.proof.md``.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.geometry.convex_set import Gauged
from dpstream.geometry.l2_ball import L2Ball
from dpstream.mechanisms.public import public_generator
from dpstream.solvers.constrained_quadratic import (
    TOLERANCE,
    ConstrainedMinimum,
    Constraint,
    Restraint,
    minimise_quadratic,
)
from dpstream.solvers.noise_split import NoiseSplit, noise_splits
from dpstream.solvers.noisy_quadratic import NoisyQuadratic, Profile
from dpstream.solvers.spectral_choice import CAUTION, Damped, least_predicted
from dpstream.solvers.spectrum import Spectrum

FALSE_ALARMS = 1e-4
"""A release that leaves the centre is worse than it with at most this probability, per target."""

SHARES = (0.25, 1.0)
"""Noise that is added to fit by, in variances of the noise that is there. Little leaves the fit as
good as it was; as much as there is makes two equal halves, which see a signal soonest."""

PENALTY_CAUTION = 1.0
"""With an L1 penalty in place of a set zero is left for so many deviations, much as over all of
space: where nothing bounds the model, to wait for certainty costs more than it saves."""

STEPS = (1.0, 0.5, 0.25, 0.125)
"""Parts of the way from the centre that are judged."""

_WAYS = 2
"""The set's own minimiser, and that over all of space, scaled into the set."""

_TOLERANCE = 1e-6
"""Of a minimiser over the set, relative to the quadratic's size, where there is noise."""

_SEED = 0
_PRESENT = 1e-14


@dataclass(frozen=True, kw_only=True, eq=False)
class SetMinimum:
    """One target's damped minimiser.

    Attributes:
        slopes: the parameters but the constant.
        active: whether the free minimiser lies outside the set, or is not known to lie inside.
        gap: what the minimisers may miss before they are damped.
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
class _Judged:
    """A way from the centre that one half proposed, as the other half sees it.

    Attributes:
        proposed: where the way ends.
        bend: ``d' (S + N) d``, the penalty included, d the way.
        gain: ``d' (s + n - (S + N) c)``, c the centre, less what an L1 penalty costs at the end.
        deviations: of the risk's noise at each of ``STEPS``.
    """

    proposed: ConstrainedMinimum
    bend: float
    gain: float
    deviations: FloatArray

    def risk(self, step: float) -> float:
        """Less that of the centre, without bias."""
        return step * (step * self.bend - 2.0 * self.gain)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Move:
    """A certified move.

    Attributes:
        step: which part of the way.
        shares: of each split in the mean.
        risk: predicted, less that of the centre.
        whole: whether it is as far as the prediction asks for.
        ways: what is averaged.
    """

    step: float
    shares: FloatArray
    risk: float
    whole: bool
    ways: Sequence[_Judged]


def damped_over_set(problem: NoisyQuadratic, free: Damped) -> DampedOverSet:
    """The minimiser over the problem's set, damped; every target on its own.

    Args:
        problem: with a constraint.
        free: its filters of least predicted risk over all of space.
    """
    constraint = problem.constraint
    assert constraint is not None
    targets = range(problem.cross.shape[1])
    noisy = bool(np.any(problem.gram_variance > 0.0) or np.any(problem.cross_variance > 0.0))
    if not noisy:
        minima = [_minimum(free, problem.profile, target, constraint) for target in targets]
        return DampedOverSet(
            spectrum=free.spectrum, parts=tuple(_part(*minimum) for minimum in minima), risk=0.0
        )
    moves = _moves(problem, constraint)
    parts: list[SetMinimum] = []
    for target, move in zip(targets, moves, strict=True):
        active = _inside(free, problem.profile, target, constraint) is None
        parts.append(_part(_moved(constraint, move), active))
    return DampedOverSet(
        spectrum=free.spectrum,
        parts=tuple(parts),
        risk=sum(0.0 if move is None else move.risk for move in moves),
    )


def _part(minimum: ConstrainedMinimum, active: bool) -> SetMinimum:
    return SetMinimum(
        slopes=minimum.parameters, active=active, gap=minimum.gap, point=minimum.point
    )


def _moved(constraint: Restraint, move: _Move | None) -> ConstrainedMinimum:
    """The mean of the ways' ends, a step of the way from the centre."""
    centre = constraint.origin()
    start = constraint.down(centre)
    if move is None:
        return ConstrainedMinimum(point=centre, parameters=start, gap=0.0, steps=0)
    ends = [way.proposed for way in move.ways]
    point = move.shares @ np.stack([end.point for end in ends])
    parameters = move.shares @ np.stack([end.parameters for end in ends])
    return ConstrainedMinimum(
        point=centre + move.step * (point - centre),
        parameters=start + move.step * (parameters - start),
        gap=max(end.gap for end in ends),
        steps=0,
    )


# --- minimisers -----------------------------------------------------------------------------------


def _minimum(
    free: Damped,
    profile: Profile,
    target: int,
    constraint: Restraint,
    tolerance: float = TOLERANCE,
) -> tuple[ConstrainedMinimum, bool]:
    """The filtered problem's minimiser over the set, and whether the set may matter."""
    inside = _inside(free, profile, target, constraint)
    if inside is not None:
        return _exact(inside), False
    basis = free.spectrum.basis
    matrix = (basis * _stiffness(free, target)) @ basis.T
    cross = profile.cross[:, target]
    return minimise_quadratic(matrix, cross, constraint, tolerance=tolerance), True


def _inside(
    free: Damped, profile: Profile, target: int, constraint: Restraint
) -> FloatArray | None:
    """The minimiser over all of space, where it is known to lie in the set."""
    stiffness, basis = _stiffness(free, target), free.spectrum.basis
    if constraint.lift is not None or stiffness.min() <= _PRESENT * stiffness.max():
        return None
    point = basis @ ((basis.T @ profile.cross[:, target]) / stiffness)
    return point if constraint.holds(point) else None


def _stiffness(free: Damped, target: int) -> FloatArray:
    """The filter, where it moves; the curvature where it does not: the whole is damped anyway."""
    values, stiffness = free.spectrum.values, free.stiffness[target]
    return values if stiffness is None else np.where(np.isfinite(stiffness), stiffness, values)


def _exact(point: FloatArray) -> ConstrainedMinimum:
    return ConstrainedMinimum(point=point, parameters=point, gap=0.0, steps=0)


# --- which move is certain ------------------------------------------------------------------------


def least_evidence(constraint: Restraint) -> float:
    """How many deviations the mean of the splits has to show.

    Over an L2 ball as few as over all of space, where single directions are the alternative; over
    another set as many as false alarms allow. The noise of each split, in units of its deviation,
    is standard normal; so the mean of several, dependent as they may be, passes t with probability
    at most ``exp(-t^2 / 2)``. As many moves are tried as are counted here.
    """
    if not isinstance(constraint, Constraint):
        return PENALTY_CAUTION
    if isinstance(constraint.convex_set, L2Ball):
        return CAUTION
    tried = len(SHARES) * len(STEPS) * _WAYS
    return math.sqrt(2.0 * math.log(tried / FALSE_ALARMS))


def _moves(problem: NoisyQuadratic, constraint: Restraint) -> list[_Move | None]:
    """Per target, the certified move of least predicted risk, if there is one."""
    generator = public_generator(_SEED)
    targets = range(problem.cross.shape[1])
    best: list[_Move | None] = [None for _ in targets]
    for share in SHARES:
        open_targets = [place for place in targets if not _settled(best[place])]
        if not open_targets:
            break
        splits = noise_splits(problem, share=share, generator=generator)
        filters = [least_predicted(split.fit) for split in splits]
        for target in open_targets:
            ways: list[list[_Judged]] = [[] for _ in range(_WAYS)]
            for split, free in zip(splits, filters, strict=True):
                for way, proposed in enumerate(_proposals(free, split.fit, target, constraint)):
                    judged = proposed and _judged(split, proposed, target, constraint)
                    if judged is not None:
                        ways[way].append(judged)
            for way in ways:
                move = _certified(way, len(splits), least_evidence(constraint))
                before = best[target]
                if move is not None and (before is None or move.risk < before.risk):
                    best[target] = move
    return best


def _settled(move: _Move | None) -> bool:
    return move is not None and move.whole


def _proposals(
    free: Damped, problem: NoisyQuadratic, target: int, constraint: Restraint
) -> Iterator[ConstrainedMinimum | None]:
    """The set's minimiser, and the free one scaled into the set: as good a part of it as fits."""
    yield _minimum(free, problem.profile, target, constraint, tolerance=_TOLERANCE)[0]
    stiffness = free.stiffness[target]
    chosen = constraint.convex_set if isinstance(constraint, Constraint) else None
    if stiffness is None or constraint.lift is not None or not isinstance(chosen, Gauged):
        yield None
        return
    basis = free.spectrum.basis
    seen = basis.T @ problem.profile.cross[:, target]
    point = basis @ np.where(np.isfinite(stiffness), seen / stiffness, 0.0)
    gauge = chosen.gauge(point)
    inside = point / max(gauge, 1.0) if math.isfinite(gauge) else None
    yield None if inside is None else _exact(inside)


def _judged(
    split: NoiseSplit, proposed: ConstrainedMinimum, target: int, constraint: Restraint
) -> _Judged | None:
    """The way as the other half sees it; None where it leads nowhere."""
    profile, judge = split.fit.profile, split.judge
    centre = profile.complete(constraint.down(constraint.origin()), target)
    way = profile.complete(proposed.parameters, target) - centre
    gram = judge.gram + np.diag(judge.ridge)
    deviations: list[float] = []
    for step in STEPS:
        # (c + k d)' N (c + k d) - c' N c - 2 k d' n is -2 k d' (n - N (c + k d / 2)).
        noise = judge.equation_covariance(centre + 0.5 * step * way, target)
        deviations.append(2.0 * step * math.sqrt(max(float(way @ noise @ way), 0.0)))
    if min(deviations) == 0.0:
        return None
    return _Judged(
        proposed=proposed,
        bend=float(way @ gram @ way),
        gain=float(way @ (judge.cross[:, target] - gram @ centre))
        - constraint.cost(proposed.parameters),
        deviations=np.array(deviations),
    )


def _certified(ways: Sequence[_Judged], splits: int, evidence: float) -> _Move | None:
    """The move of least predicted risk that is certain, or the next shorter one that is."""
    if not ways:
        return None
    gain = sum(way.gain for way in ways)
    bend = sum(way.bend for way in ways)
    if gain <= 0.0:
        return None
    wanted = min(1.0, gain / bend) if bend > 0.0 else 1.0
    for step in (wanted, *(part for part in STEPS if part < wanted)):
        # The risk over the step grows with the step: what is certain farther out is so here.
        place = max(index for index, part in enumerate(STEPS) if part >= step)
        deviations = np.array([way.deviations[place] for way in ways])
        risks = np.array([way.risk(STEPS[place]) for way in ways])
        # Of a split that proposed nothing the centre's own risk is counted: zero, without noise.
        shown = float(np.sum(risks / deviations)) / splits
        if shown < -evidence:
            shares = 1.0 / deviations / float(np.sum(1.0 / deviations))
            risk = float(shares @ [way.risk(step) for way in ways])
            return _Move(step=step, shares=shares, risk=risk, whole=step == wanted, ways=ways)
    return None
