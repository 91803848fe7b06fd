"""Standard errors and 95 % intervals of least squares from noisy moments.

The noise's law is public, so its part of the error is known exactly up to linearisation; it is
always labelled apart from the total:

- *noise*: the difference to the coefficients that the same records give without noise;
- *total*: the difference to the coefficients of the population behind the records, with the
  sampling error of independent records whose residuals have one variance added.

Intervals are centred on the unshrunk solution, whose error is known; a shrunk estimate may lie
off their middle, the more so the more it was shrunk. Clipping's bias is not covered. Where the
noise is too large for the linearisation, or a constraint can bind, both errors are simulated: a
parametric bootstrap from public randomness, through the same solver and set. All of it is
post-processing.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import chdtri

from dpstream.arrays import FloatArray
from dpstream.geometry.l2_ball import L2Ball
from dpstream.mechanisms.public import public_generator
from dpstream.solvers.constrained_quadratic import Constraint
from dpstream.solvers.noisy_quadratic import NoisyQuadratic
from dpstream.solvers.quadratic import repaired_minimum

LARGEST_RATIO = 0.15
"""Up to this ratio of the noise's spectral radius to the least curvature, it is linearised."""

NORMAL_QUANTILE = 1.959963984540054
"""Of a two-sided 95 % interval."""

BOOTSTRAP_DRAWS = 199
"""So that the fifth smallest and the fifth largest bound 95 % of what comes next."""

_TAIL = 0.025

_REPLICA_TOLERANCE = 1e-8
"""Of a replica's gap: far below what its noise moves it by."""

_UNLIKELY = 0.01
"""A pressure on an edge that the errors exceed this seldom is taken for the truth's own."""

Method = Literal["linear", "bootstrap"]


@dataclass(frozen=True, kw_only=True)
class TargetSpread:
    """How well one target is known.

    Attributes:
        square: noisy sum of the squared target.
        square_variance: its noise variance; infinite if it was not measured.
        count: number of records, public or estimated.
    """

    square: float
    square_variance: float
    count: float


@dataclass(frozen=True, kw_only=True)
class Uncertainty:
    """How far one target's parameters may lie off.

    Attributes:
        centre: ``(p,)`` the unshrunk solution.
        noise_covariance: ``(p, p)`` of the error by noise.
        total_covariance: ``(p, p)`` of the error by noise and sampling, or None if the squared
            target was not measured.
        noise_draws: ``(draws, p)`` simulated errors by noise, or None if linearised.
        total_draws: ``(draws, p)`` simulated errors by noise and sampling, or None; two such arrays
            stacked where a second truth is in question: one that lies on the set's edge.
        held: whether a set or a penalty may hold the parameters back.
        method: how they were found.
        noise_ratio: the noise's spectral radius over the least curvature.
        residual_variance: of the residuals per record, noise bias removed, at least 0; or None.
        residual_error: its standard error by noise, or None.
        r_squared: explained part of the target's sum of squares (about the mean if there is a
            constant), in [0, 1], or None.
    """

    centre: FloatArray
    noise_covariance: FloatArray
    total_covariance: FloatArray | None
    noise_draws: FloatArray | None
    total_draws: FloatArray | None
    held: bool
    method: Method
    noise_ratio: float
    residual_variance: float | None
    residual_error: float | None
    r_squared: float | None

    def mapped(self, matrix: FloatArray, offset: FloatArray) -> "Uncertainty":
        """The same for ``matrix @ parameters + offset``."""

        def moved(draws: FloatArray | None) -> FloatArray | None:
            return None if draws is None else draws @ matrix.T

        return replace(
            self,
            centre=matrix @ self.centre + offset,
            noise_covariance=matrix @ self.noise_covariance @ matrix.T,
            total_covariance=None
            if self.total_covariance is None
            else matrix @ self.total_covariance @ matrix.T,
            noise_draws=moved(self.noise_draws),
            total_draws=moved(self.total_draws),
        )

    @property
    def noise_error(self) -> FloatArray:
        """Standard errors by noise alone."""
        return _errors(self.noise_covariance)

    @property
    def total_error(self) -> FloatArray | None:
        """Standard errors by noise and sampling, where they are known."""
        return None if self.total_covariance is None else _errors(self.total_covariance)

    @property
    def noise_interval(self) -> FloatArray:
        """``(p, 2)`` 95 % intervals for the coefficients without noise."""
        return self._interval(self.noise_error, self.noise_draws)

    @property
    def total_interval(self) -> FloatArray | None:
        """``(p, 2)`` 95 % intervals for the population's coefficients, where they are known."""
        error = self.total_error
        return None if error is None else self._interval(error, self.total_draws)

    def _interval(self, error: FloatArray, draws: FloatArray | None) -> FloatArray:
        reach = NORMAL_QUANTILE * error
        if draws is not None and self.held:
            # The k-th smallest of n has k / (n + 1) of what comes next below it. Errors about the
            # truth lean as simulated ones do about the estimate, or against them.
            low, high = np.quantile(draws, (_TAIL, 1.0 - _TAIL), axis=-2, method="weibull")
            reach = np.atleast_2d(np.maximum(high, -low)).max(axis=0)
        return np.column_stack((self.centre - reach, self.centre + reach))


def uncertainty(
    problem: NoisyQuadratic,
    spread: TargetSpread,
    *,
    target: int = 0,
    seed: int = 0,
    draws: int = BOOTSTRAP_DRAWS,
) -> Uncertainty:
    """Errors and intervals of one target's parameters.

    Args:
        problem: the noisy moments.
        spread: what is known of the target itself.
        target: which column of the cross moments.
        seed: of the public generator, for the bootstrap.
        draws: of the bootstrap.
    """
    gram = 0.5 * (problem.gram + problem.gram.T)
    least = float(np.linalg.eigvalsh(gram + np.diag(problem.ridge))[0])
    radius = problem.noise_radius()
    ratio = radius / least if least > 0.0 else math.inf
    constrained = problem.radius is not None or problem.constraint is not None
    linear = ratio <= LARGEST_RATIO and not constrained
    if linear:
        repaired, curvature = gram, gram + np.diag(problem.ridge)
    else:
        # Directions hidden by the noise get the curvature of its spectral radius.
        values, vectors = np.linalg.eigh(gram)
        repaired = (vectors * np.maximum(values, 0.0)) @ vectors.T
        curved, turned = np.linalg.eigh(repaired + np.diag(problem.ridge))
        floor = max(radius, 1e-14 * float(curved[-1]), np.finfo(np.float64).tiny)
        curvature = (turned * np.maximum(curved, floor)) @ turned.T
    cross = problem.cross[:, target]
    centre = np.asarray(np.linalg.solve(curvature, cross), np.float64)
    equations = problem.equation_covariance(centre, target)
    inverse = np.linalg.inv(curvature)
    bias = -float(np.sum((2.0 * inverse - inverse @ repaired @ inverse) * equations))
    noise_covariance = inverse @ equations @ inverse
    simulated: _Simulated | None = None
    if not linear:
        simulated = _Simulated(
            replace(problem, gram=repaired, cross=cross[:, np.newaxis]),
            problem.cross_variance[:, target],
            seed=seed,
            draws=draws,
        )
        centre, bias = simulated.centre, simulated.bias
        noise_covariance = np.cov(simulated.noise.T).reshape(centre.size, -1)
    variance = residual_error = r_squared = total_covariance = total_draws = None
    if math.isfinite(spread.square_variance):
        freedom = max(spread.count - centre.size, 1.0)
        residual = spread.square - 2.0 * float(centre @ cross) + float(centre @ gram @ centre)
        variance = max(residual - bias, 0.0) / freedom
        noise = spread.square_variance + _explained_variance(problem, centre, target)
        residual_error = math.sqrt(noise) / freedom
        r_squared = _r_squared(problem, spread, target, variance * freedom)
        if simulated is None:
            sampling = np.asarray(variance * inverse @ repaired @ inverse, np.float64)
            total_covariance = noise_covariance + sampling
        else:
            total_draws = simulated.total(variance)
            total_covariance = np.cov(total_draws.T).reshape(centre.size, -1)
            if _edged(problem) and simulated.may_touch(variance):
                total_draws = np.stack([total_draws, simulated.total(variance, touching=True)])
    return Uncertainty(
        centre=centre,
        noise_covariance=noise_covariance,
        total_covariance=total_covariance,
        noise_draws=None if simulated is None else simulated.noise,
        total_draws=total_draws,
        held=constrained,
        method="linear" if linear else "bootstrap",
        noise_ratio=ratio,
        residual_variance=variance,
        residual_error=residual_error,
        r_squared=r_squared,
    )


def _errors(covariance: FloatArray) -> FloatArray:
    return np.sqrt(np.maximum(np.diagonal(covariance), 0.0))


def _explained_variance(problem: NoisyQuadratic, parameters: FloatArray, target: int) -> float:
    """Noise variance of ``theta' N theta - 2 theta' n``; a pair of mirrored entries counts once."""
    squares = parameters**2
    twice = problem.gram_variance * np.multiply.outer(squares, squares)
    once = float(np.trace(twice)) + 2.0 * float(twice.sum() - np.trace(twice))
    return once + 4.0 * float(squares @ problem.cross_variance[:, target])


def _r_squared(
    problem: NoisyQuadratic, spread: TargetSpread, target: int, residual: float
) -> float:
    total = spread.square
    if problem.constant:
        total -= float(problem.cross[0, target]) ** 2 / max(float(problem.gram[0, 0]), 1.0)
    return min(1.0, max(0.0, 1.0 - residual / total)) if total > 0.0 else 0.0


class _Simulated:
    """What the unshrunk solver makes of replicas, when the repaired moments are the truth.

    Attributes:
        centre: ``(p,)`` its solution for the repaired moments themselves.
        noise: ``(draws, p)`` its errors by noise.
        bias: by how much the noisy sum of squared residuals of a noisy solution exceeds that of
            the centre, on average: mostly negative, for the solution follows the noise.
    """

    def __init__(
        self, anchor: NoisyQuadratic, cross_variance: FloatArray, *, seed: int, draws: int
    ) -> None:
        self._anchor = anchor
        self._cross_variance = cross_variance
        self._generator = public_generator(seed)
        self.centre = repaired_minimum(anchor)
        self.noise = np.empty((draws, self.centre.size))
        excess: list[float] = []
        for row in range(draws):
            replica = self._replica()
            solution = self._solved(replica)
            self.noise[row] = solution - self.centre
            excess.append(_squares(replica, solution) - _squares(replica, self.centre))
        self.bias = float(np.mean(excess))

    def total(self, variance: float, *, touching: bool = False) -> FloatArray:
        """``(draws, p)`` errors by noise and sampling, for residuals of the given variance.

        With ``touching`` the truth is the centre itself, on the edge that nothing presses it to.

        Sampling moves the cross moments by ``sum x_i e_i`` with e the residuals: by a Gaussian of
        covariance ``variance`` times the gram matrix. What that does to the solution, the set
        decides.
        """
        values, vectors = np.linalg.eigh(self._anchor.gram)
        root = vectors * np.sqrt(variance * np.maximum(values, 0.0))
        found = np.empty_like(self.noise)
        for row in range(len(found)):
            replica = self._replica()
            scores = root @ self._generator.standard_normal(self.centre.size)
            if touching:
                scores -= self._pressure
            moved = replace(replica, cross=replica.cross + scores[:, np.newaxis])
            found[row] = self._solved(moved) - self.centre
        return found

    def may_touch(self, variance: float) -> bool:
        """Whether noise and sampling explain what presses the centre to the set's edge."""
        anchor = self._anchor
        errors = replace(anchor, cross_variance=self._cross_variance[:, np.newaxis])
        covariance = errors.equation_covariance(self.centre, 0) + variance * anchor.gram
        pressure = self._pressure
        pressed = float(pressure @ np.linalg.pinv(covariance, hermitian=True) @ pressure)
        return pressed <= float(chdtri(self.centre.size, _UNLIKELY))

    @property
    def _pressure(self) -> FloatArray:
        """What is left of the normal equations at the centre: the multiplier's pull."""
        anchor = self._anchor
        curved = anchor.gram @ self.centre + anchor.ridge * self.centre
        return np.asarray(anchor.cross[:, 0] - curved, np.float64)

    def _replica(self) -> NoisyQuadratic:
        """The anchor with more noise of the same law."""
        anchor, generator, size = self._anchor, self._generator, self.centre.size
        upper = np.triu(generator.standard_normal((size, size)))
        shift = (upper + np.triu(upper, 1).T) * np.sqrt(anchor.gram_variance)
        pushed = generator.standard_normal(size) * np.sqrt(self._cross_variance)
        return replace(
            anchor,
            gram=anchor.gram + shift,
            cross=anchor.cross + pushed[:, np.newaxis],
            cross_variance=self._cross_variance[:, np.newaxis],
        )

    def _solved(self, replica: NoisyQuadratic) -> FloatArray:
        return repaired_minimum(replica, start=self.centre, tolerance=_REPLICA_TOLERANCE)


def _edged(problem: NoisyQuadratic) -> bool:
    """Whether there is a set that is no ball."""
    constraint = problem.constraint
    return isinstance(constraint, Constraint) and not isinstance(constraint.convex_set, L2Ball)


def _squares(problem: NoisyQuadratic, parameters: FloatArray) -> float:
    """The sum of squared residuals, less that of the target itself."""
    return float(parameters @ problem.gram @ parameters - 2.0 * parameters @ problem.cross[:, 0])
