"""How strongly to damp each eigendirection: the filter of least predicted risk.

A filter turns a noisy cross moment ``z_j`` into ``z_j / h_j`` with ``h_j`` at least the estimated
curvature. What a filter costs beyond what it shows is known: by Stein's identity the expected
product of the noise with the estimate is a divergence, which is computed here. So the risk of every
filter can be predicted from what was measured and public variances, and the least one is taken, or
zero. Post-processing; bounded for every choice by claim 3 of ``quadratic.proof.md``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.solvers.noisy_quadratic import NoisyQuadratic, RotatedNoise
from dpstream.solvers.spectrum import (
    Spectrum,
    isotropic_spectrum,
    semicircle_spectrum,
    semicircle_values,
)

_ROUNDS = 3
_LIKELY_SCALES = np.geomspace(1e-4, 4.0, 96)
"""Trial scales of the coefficients, relative to the plain solution's largest."""

_SIZES = np.geomspace(0.05, 100.0, 20).tolist()
"""Trial ridges, in units of the noise's spectral radius."""

CAUTION = 0.5
"""Zero is left only for a risk that is less by so much of its own deviation."""

LEAST_SIZE = 16
"""Of smaller matrices the edge of the noise's spectrum is too blurred to put eigenvalues back."""

LEAST_KEPT = 0.5
"""A matrix of which more than half is noise, its mean aside, is taken for isotropic."""

_STEP = 0.05
"""Eigenvalues closer than twice this part of the radius are told apart by a difference quotient."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Damped:
    """A spectrum with a filter for every target.

    Attributes:
        spectrum: the estimated curvature.
        stiffness: per target ``h``, or None for the zero estimate.
        risk: predicted, less that of zero; summed over targets.
    """

    spectrum: Spectrum
    stiffness: tuple[FloatArray | None, ...]
    risk: float


def isotropic_of(problem: NoisyQuadratic, *, shrink: bool) -> Spectrum:
    """Stein's estimate of the profiled matrix.

    Centring adds noise that is not counted here: it can only shrink too little.
    """
    first = problem.first
    return isotropic_spectrum(
        problem.profile.gram,
        problem.gram_variance[first:, first:],
        penalty=problem.penalty,
        floor=problem.hidden_curvature(),
        shrink=shrink,
    )


def least_predicted(problem: NoisyQuadratic) -> Damped:
    """The spectrum and filters of least predicted risk, over all of space."""
    plain = isotropic_of(problem, shrink=True)
    trials = [_by_likelihood(problem, plain)]
    radius = problem.noise_radius()
    if radius > 0.0 and plain.values.size >= LEAST_SIZE and max(plain.kept) >= LEAST_KEPT:
        estimate = semicircle_spectrum(problem.profile.gram, penalty=problem.penalty, radius=radius)
        trials.append(_by_divergence(problem, estimate, radius))
    return min(trials, key=lambda trial: trial.risk)


# --- the likeliest scale of the coefficients ------------------------------------------------------


def _by_likelihood(problem: NoisyQuadratic, spectrum: Spectrum) -> Damped:
    """Empirical Bayes: posterior means at the scale under which what was seen is likeliest."""
    profile, basis, values = problem.profile, spectrum.basis, spectrum.values
    rotation = basis.T @ profile.rows
    spread = RotatedNoise(problem, rotation)
    found: list[FloatArray | None] = []
    risk = 0.0
    for target in range(problem.cross.shape[1]):
        seen = basis.T @ profile.cross[:, target]
        quiet = spread.variance(profile.complete(np.zeros(values.size), target), target)
        noise, stiffness, slopes = quiet, None, np.zeros(values.size)
        for _ in range(_ROUNDS):
            stiffness = _posterior_stiffness(values, seen, noise)
            slopes = np.zeros(values.size) if stiffness is None else _divided(seen, stiffness)
            noise = spread.variance(profile.complete(basis @ slopes, target), target)
        if stiffness is not None:
            # The estimate follows what is left of the matrix's noise, not more.
            moved = quiet + max(spectrum.kept) * np.maximum(noise - quiet, 0.0)
            optimism = 2.0 * float(np.sum(_divided(moved, stiffness)))
            # As it was seen, without bias; but never less than what was estimated.
            whole = basis @ slopes
            bend = float(whole @ profile.gram @ whole) + problem.penalty * float(slopes @ slopes)
            bend = max(bend, float(values @ slopes**2))
            own = bend - 2.0 * float(seen @ slopes) + optimism
            told = problem.risk_deviation(float(quiet @ slopes**2), float(slopes @ slopes))
            stiffness = stiffness if own < -CAUTION * told or not optimism > 0.0 else None
            risk += 0.0 if stiffness is None else own
        found.append(stiffness)
    return Damped(spectrum=spectrum, stiffness=tuple(found), risk=risk)


def _posterior_stiffness(
    curved: FloatArray, seen: FloatArray, noise: FloatArray
) -> FloatArray | None:
    """Stiffness ``l + v / (l t^2)`` at the likeliest scale t; None where t = 0 is likeliest.

    Under ``theta_j ~ N(0, t^2)`` the rotated cross moment ``z_j`` is ``N(0, l^2 t^2 + v_j)``, and
    the posterior mean of ``theta_j`` is ``z_j / (l_j + v_j / (l_j t^2))``.
    """
    present = curved > 1e-14 * curved.max(initial=0.0)
    curved, seen, noise = curved[present], seen[present], noise[present]
    full = np.full(present.size, np.inf)
    largest = float(np.abs(seen / curved).max(initial=0.0))
    if not np.any(noise > 0.0) or largest == 0.0:
        full[present] = curved
        return full
    spread = np.maximum(noise, np.finfo(np.float64).tiny)
    scales = largest * _LIKELY_SCALES
    marginal = np.multiply.outer(scales**2, curved**2) + spread
    cost = np.sum(np.log(marginal) + seen**2 / marginal, axis=1)
    best = int(np.argmin(cost))
    if cost[best] >= float(np.sum(np.log(spread) + seen**2 / spread)):
        return None
    full[present] = curved + noise / (curved * scales[best] ** 2)
    return full


# --- the least predicted risk over two families ---------------------------------------------------


def _by_divergence(problem: NoisyQuadratic, spectrum: Spectrum, radius: float) -> Damped:
    """Ridge and Wiener filters of the semicircle estimate, by their predicted risks."""
    profile, basis, values, raw = (
        problem.profile,
        spectrum.basis,
        spectrum.values,
        spectrum.raw,
    )
    spread = RotatedNoise(problem, basis.T @ profile.rows)
    apart = _Apart(raw, _STEP * radius)
    variance = problem.mixed_variance
    found: list[FloatArray | None] = []
    total = 0.0
    for target in range(problem.cross.shape[1]):
        seen = basis.T @ profile.cross[:, target]
        quiet = spread.variance(profile.complete(np.zeros(values.size), target), target)
        best: FloatArray | None = None
        least = 0.0
        for stiffen in _families(radius):

            def damping(
                eigenvalues: FloatArray, stiffen: Callable[[FloatArray], FloatArray] = stiffen
            ) -> FloatArray:
                restored = semicircle_values(eigenvalues, penalty=problem.penalty, radius=radius)
                return 1.0 / stiffen(restored)

            factors = 1.0 / stiffen(values)
            slopes = factors * seen
            quotients = apart.quotients(damping, factors)
            # E theta' N theta, by Stein's identity for a rotation-invariant symmetric noise.
            bent = (
                2.0
                * variance
                * float(
                    np.sum(quotients @ (slopes * seen)) + np.diagonal(quotients) @ (slopes * seen)
                )
            )
            optimism = 2.0 * float(quiet @ factors) - bent
            risk = float(values @ slopes**2 - 2.0 * seen @ slopes) + optimism
            if risk < least:
                best, least = stiffen(values), risk
        if best is not None:
            slopes = seen / best
            told = problem.risk_deviation(float(quiet @ slopes**2), float(slopes @ slopes))
            best = best if least < -CAUTION * told else None
        found.append(best)
        total += 0.0 if best is None else least
    return Damped(spectrum=spectrum, stiffness=tuple(found), risk=total)


def _families(radius: float) -> Iterator[Callable[[FloatArray], FloatArray]]:
    """Stiffness as a function of curvature: ``l + r`` and ``l + r^2 / l``."""

    def ridge(size: float) -> Callable[[FloatArray], FloatArray]:
        return lambda curved: curved + size

    def wiener(size: float) -> Callable[[FloatArray], FloatArray]:
        return lambda curved: curved + size * size / curved

    yield ridge(0.0)
    for size in _SIZES:
        yield ridge(size * radius)
        yield wiener(size * radius)


class _Apart:
    """Divided differences of a function over all pairs of eigenvalues."""

    def __init__(self, raw: FloatArray, step: float) -> None:
        gaps = np.subtract.outer(raw, raw)
        self._near = np.abs(gaps) <= 2.0 * step
        self._gaps = np.where(self._near, 1.0, gaps)
        self._middle = (np.add.outer(raw, raw) / 2.0)[self._near]
        self._step = step

    def quotients(self, function: Callable[[FloatArray], FloatArray], at: FloatArray) -> FloatArray:
        """``(f(a) - f(b)) / (a - b)``; over a short step about their middle where a is near b."""
        found = np.subtract.outer(at, at) / self._gaps
        above, below = function(self._middle + self._step), function(self._middle - self._step)
        found[self._near] = (above - below) / (2.0 * self._step)
        return found


def _divided(values: FloatArray, stiffness: FloatArray) -> FloatArray:
    """0 in directions of infinite stiffness, which nobody has."""
    return np.where(np.isfinite(stiffness), values / stiffness, 0.0)
