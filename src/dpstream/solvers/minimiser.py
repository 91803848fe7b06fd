"""The certified minimiser of a strongly convex smooth problem: deterministic, for any data.

What output and objective perturbation release is a minimiser; their privacy needs to know how
far a computed one is from the exact one. Proof in ``minimiser.proof.md``.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy import linalg, special
from scipy.optimize import brentq

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.errors import CertificateError, ConfigurationError
from dpstream.geometry.convex_set import ConvexSet, Projectable
from dpstream.geometry.l2_ball import L2Ball
from dpstream.losses.loss import SmoothGeneralisedLinear
from dpstream.losses.regularised import RegularisedLoss
from dpstream.losses.softmax import SoftmaxLoss
from dpstream.solvers.gradient import GradientSum, summation_slack
from dpstream.solvers.problem import Problem

_LARGEST_MATRIX = 1024
"""Up to this many parameters the Hessian is formed; beyond, only its products are."""

_NEWTON_STEPS = 60
_HALVINGS = 30
_CONJUGATE_STEPS = 200
_LEAST_TOLERANCE = 8.0
"""Tolerances below this multiple of the rounding error are refused in advance."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Target:
    """What is minimised over the set: public, but for ``linear``.

    ``(1/n) sum loss + (modulus / 2) |theta - centre|^2 + <linear, theta>``.

    Attributes:
        problem: gives the loss of records, n and the set.
        modulus: gamma, of the whole regulariser, the problem's own included.
        centre: of the regulariser.
        linear: a perturbation, in units of the average; None for none.
    """

    problem: Problem
    modulus: float
    centre: FloatArray
    linear: FloatArray | None = None

    @cached_property
    def convex_set(self) -> Projectable:
        """The set: secret points are projected on it.

        Raises:
            ConfigurationError: if it has no projection, or one whose error is not known in advance.
        """
        return secretly_projectable(self.problem.convex_set)

    @cached_property
    def smoothness(self) -> float:
        """Of the whole, wherever steps go: accelerated ones may leave the set.

        Raises:
            ConfigurationError: if the loss is not smooth everywhere.
        """
        problem = self.problem
        return problem.smooth_loss.smoothness(problem.record_bound, None).l2 + self.modulus


def secretly_projectable(chosen: ConvexSet) -> Projectable:
    """The set, if secret points may be projected on it.

    An iterative projection is wrong by what only the point tells, and may fail for some points
    and not for others: neither is paid for.

    Raises:
        ConfigurationError: if it has no projection, or one whose error is not known in advance.
    """
    if not isinstance(chosen, Projectable):
        raise ConfigurationError(
            f"{type(chosen).__name__} has no projection, which this solver needs; take Frank-Wolfe"
        )
    if not math.isfinite(chosen.projection_error(chosen.l2_radius())):
        raise ConfigurationError(
            f"the projection on a {type(chosen).__name__} is found by iteration, which secret "
            "points must not enter: its error is not known in advance; take mirror descent or "
            "Frank-Wolfe, which move released points only"
        )
    return chosen


def projection_errors(chosen: Projectable, sizes: FloatArray) -> FloatArray:
    """A bound for each size of a secret point: the next power of two's, as there may be many."""
    powers, places = np.unique(np.exp2(np.ceil(np.log2(sizes))), return_inverse=True)
    return np.array([chosen.projection_error(float(power)) for power in powers])[places]


def data_smoothness(problem: Problem) -> float:
    """The Lipschitz constant of any record's gradient on the set, in L2."""
    return problem.smooth_loss.smoothness(problem.record_bound, problem.convex_set).l2


def regulariser(problem: Problem, *, extra: float) -> tuple[float, FloatArray]:
    """The modulus and centre of the problem's regulariser with ``extra`` added to its ridge.

    A problem without one gets a ridge around the origin.

    Raises:
        ConfigurationError: if gradients are clipped: what is minimised must be a loss.
    """
    if problem.gradient_clip is not None:
        raise ConfigurationError(
            f"gradient_clip is {problem.gradient_clip}, but a minimiser needs the loss as it is; "
            "drop it: the set bounds the gradient"
        )
    centre = problem.loss.centre if isinstance(problem.loss, RegularisedLoss) else None
    modulus = problem.strong_convexity + extra
    return modulus, np.zeros(problem.dimension) if centre is None else centre


def reach(problem: Problem, centre: FloatArray) -> float:
    """An upper bound of the distance of any point of the set from the centre."""
    return min(
        problem.convex_set.l2_radius() + float(np.linalg.norm(centre)),
        problem.convex_set.diameter() if problem.convex_set.contains(centre) else math.inf,
    )


def rounding_error(target: Target, *, linear_bound: float = 0.0) -> float:
    """How far the computed mean gradient may be from the exact one, on the set, in L2.

    Sums of n terms; scores of ``features`` products each, whose errors reach the slope through
    the smoothness; the regulariser and the linear term; and, in the residual, the projection of a
    gradient step.

    Args:
        target: what is minimised.
        linear_bound: a bound of the linear term's length.
    """
    problem = target.problem
    largest = problem.convex_set.l2_radius()
    scores = (problem.features + 32) * 2.0**-51
    terms = problem.lipschitz.l2 + data_smoothness(problem) * largest
    public = target.modulus * (largest + float(np.linalg.norm(target.centre))) + linear_bound
    step = (problem.lipschitz.l2 + public) / target.smoothness
    projection = target.smoothness * target.convex_set.projection_error(largest + step)
    return (
        summation_slack(problem, problem.lipschitz.l2) / problem.records
        + scores * terms
        + public * 2.0**-48
        + projection
    )


def least_tolerance(target: Target, *, linear_bound: float = 0.0) -> float:
    """The smallest tolerance that float64 can certify for every data set."""
    return _LEAST_TOLERANCE * rounding_error(target, linear_bound=linear_bound)


def distance_bound(tolerance: float, modulus: float) -> float:
    """THE bound of what a certificate leaves open: the distance to the exact minimiser."""
    return tolerance / modulus


def iteration_bound(target: Target, *, tolerance: float, linear_bound: float = 0.0) -> int:
    """Steps after which first-order descent has its certificate, whatever the data: public.

    Args:
        target: what is minimised; only its public constants are used.
        tolerance: the residual to reach.
        linear_bound: a bound of the linear term's length.
    """
    problem = target.problem
    width = problem.convex_set.diameter()
    slope = problem.lipschitz.l2 + linear_bound
    slope += target.modulus * reach(problem, target.centre)
    start = slope * width + target.modulus / 2.0 * width**2
    rate = math.sqrt(target.smoothness / target.modulus)
    # A set of one point leaves nothing to descend.
    ratio = max(2.0 * target.smoothness * start / tolerance**2, 1.0)
    return 2 + math.ceil(rate * math.log(ratio))


class _Curvature(Protocol):
    """Products with the Hessian of the records' mean loss at one point."""

    def __call__(self, direction: FloatArray) -> FloatArray: ...


class Objective:
    """A target on a batch. Secret."""

    def __init__(self, target: Target, batch: Batch) -> None:
        self.target = target
        problem = target.problem
        self._gradients = GradientSum(problem, batch)
        self._features, self._targets = self._gradients.features, self._gradients.targets
        zero = np.zeros(problem.dimension)
        self._linear = zero if target.linear is None else target.linear

    def value(self, point: FloatArray) -> float:
        """The objective: it steers steps, and no certificate rests on it."""
        loss = self.target.problem.data_loss
        offset = point - self.target.centre
        mean = float(np.mean(loss.values(point, self._features, self._targets)))
        return mean + self.target.modulus / 2 * float(offset @ offset) + float(self._linear @ point)

    def gradient(self, point: FloatArray) -> FloatArray:
        """Its gradient, within ``rounding_error`` on the set."""
        mean = self._gradients.at(point) / self.target.problem.records
        return mean + self.target.modulus * (point - self.target.centre) + self._linear

    def residual(
        self, point: FloatArray, gradient: FloatArray | None = None
    ) -> tuple[float, FloatArray]:
        """The length of the projected gradient step, times the smoothness; and that step's end."""
        scale = self.target.smoothness
        slope = self.gradient(point) if gradient is None else gradient
        end = self.target.convex_set.project(point - slope / scale)
        return scale * float(np.linalg.norm(point - end)), end

    def newton_direction(self, point: FloatArray, gradient: FloatArray) -> FloatArray:
        """The step to the minimiser of the second-order model: on an L2 ball, within it.

        On other sets the model is minimised over all of space, for more than a thousand
        parameters by conjugate gradients.
        """
        problem, loss = self.target.problem, self.target.problem.data_loss
        if isinstance(loss, SmoothGeneralisedLinear):
            scores = self._features @ point
            weights = loss.second_derivative(scores, self._targets) / problem.records
            if problem.dimension <= _LARGEST_MATRIX:
                hessian = (self._features * weights[:, None]).T @ self._features
                hessian[np.diag_indices_from(hessian)] += self.target.modulus
                if isinstance(problem.convex_set, L2Ball):
                    model = hessian @ point - gradient
                    return _ball_minimum(hessian, model, problem.convex_set.radius) - point
                return self._solved(hessian, gradient)
            return self._conjugate(
                lambda direction: self._features.T @ (weights * (self._features @ direction)),
                gradient,
            )
        if isinstance(loss, SoftmaxLoss):
            return self._conjugate(self._softmax_curvature(loss, point), gradient)
        return -gradient / self.target.smoothness

    def _solved(self, hessian: FloatArray, gradient: FloatArray) -> FloatArray:
        # Factors, not ``solve``: its warning would print a number computed from records.
        try:
            factor = linalg.cho_factor(hessian)
        except linalg.LinAlgError:
            return -gradient / self.target.smoothness
        return -np.asarray(linalg.cho_solve(factor, gradient), np.float64)

    def _softmax_curvature(self, loss: SoftmaxLoss, point: FloatArray) -> _Curvature:
        scores = self._features @ point.reshape(loss.classes, -1).T
        chances = np.asarray(special.softmax(scores, axis=1), np.float64)

        def product(direction: FloatArray) -> FloatArray:
            change = self._features @ direction.reshape(loss.classes, -1).T
            change -= np.einsum("ij,ij->i", chances, change)[:, None]
            return ((chances * change).T @ self._features).ravel() / self.target.problem.records

        return product

    def _conjugate(self, curvature: _Curvature, gradient: FloatArray) -> FloatArray:
        solution, left = np.zeros_like(gradient), -gradient
        direction, square = left.copy(), float(left @ left)
        # Superlinear convergence: the closer, the more exact.
        enough = min(0.01, square**0.25) ** 2 * square
        for _ in range(_CONJUGATE_STEPS):
            image = curvature(direction) + self.target.modulus * direction
            bend = float(direction @ image)
            if not bend > 0.0:
                # Nothing is left, or too little for float64.
                break
            length = square / bend
            solution += length * direction
            left = left - length * image
            following = float(left @ left)
            if following <= enough:
                break
            direction = left + following / square * direction
            square = following
        return solution


def _ball_minimum(hessian: FloatArray, linear: FloatArray, radius: float) -> FloatArray:
    """``argmin u' H u / 2 - <linear, u>`` over the L2 ball, by its secular equation."""
    values, vectors = np.linalg.eigh(hessian)
    along = vectors.T @ linear

    def excess(multiplier: float) -> float:
        return float(np.linalg.norm(along / (values + multiplier))) - radius

    multiplier = 0.0
    if excess(0.0) > 0.0:
        most = float(np.linalg.norm(along)) / radius
        multiplier = most
        # Rounding may leave no change of sign; the upper end is then the root. An unfinished root
        # is good enough for a direction, and no error may tell of the records.
        if excess(most) < 0.0:
            root = brentq(excess, 0.0, most, xtol=1e-300, rtol=1e-14, full_output=True, disp=False)
            multiplier = float(root[0])
    return np.asarray(vectors @ (along / (values + multiplier)), np.float64)


@dataclass(frozen=True, kw_only=True)
class Minimum:
    """A certified point of the set. Secret.

    Attributes:
        point: within ``distance_bound(tolerance, modulus)`` of the exact minimiser.
        residual: what was certified, rounding error included; at most the tolerance.
    """

    point: FloatArray
    residual: float


def minimise(target: Target, batch: Batch, *, tolerance: float) -> Minimum:
    """The minimiser over the set, with its certificate.

    Newton's steps come first. Should they not reach the certificate (the set may be active),
    first-order descent does, after at most ``iteration_bound`` steps, for every data set.

    Args:
        target: what to minimise.
        batch: its records.
        tolerance: on the residual.

    Raises:
        ConfigurationError: if the tolerance is below what float64 can certify.
        CertificateError: if the certificate was not reached, which only a broken machine or
            loss can cause.
    """
    linear_bound = 0.0 if target.linear is None else float(np.linalg.norm(target.linear))
    error = rounding_error(target, linear_bound=linear_bound)
    if tolerance < _LEAST_TOLERANCE * error:
        raise ConfigurationError(
            f"a tolerance of {tolerance:g} is below what 64-bit floats can certify here; use a "
            "larger one, or a larger ridge"
        )
    objective = Objective(target, batch)
    start = target.convex_set.project(_newton(objective, tolerance - error))
    steps = iteration_bound(target, tolerance=tolerance - error, linear_bound=linear_bound)
    point, residual = _descent(objective, start, tolerance - error, steps)
    if not residual + error <= tolerance:
        # How many steps it took is not said: with a secret linear term their bound is secret.
        raise CertificateError(
            f"the minimiser did not reach its certificate of {tolerance:g} within its proved "
            "number of steps; nothing was released"
        )
    return Minimum(point=point, residual=residual + error)


def _newton(objective: Objective, tolerance: float) -> FloatArray:
    """A point whose gradient is small, if Newton's method finds one within its steps."""
    point = objective.target.convex_set.project(objective.target.centre)
    gradient = objective.gradient(point)
    value = objective.value(point)
    for _ in range(_NEWTON_STEPS):
        norm = objective.residual(point, gradient)[0]
        # A small gradient at a point off the set is all that Newton can do: the set is active.
        if min(norm, float(np.linalg.norm(gradient))) <= tolerance / 4.0:
            break
        direction = _safe_direction(objective, point, gradient)
        descent = float(direction @ gradient)
        length, trial, found = 1.0, point, value
        for _ in range(_HALVINGS):
            trial = point + length * direction
            found = objective.value(trial)
            if found <= value + 1e-4 * length * descent:
                break
            if length == 1.0 and objective.residual(trial)[0] <= 0.5 * norm:
                # Differences of values drown in their rounding close to the minimiser.
                break
            length /= 2.0
        else:
            break
        point, value = trial, found
        gradient = objective.gradient(point)
    return point


def _safe_direction(objective: Objective, point: FloatArray, gradient: FloatArray) -> FloatArray:
    """Newton's direction, or steepest descent where it is not found.

    An error would tell of the records that caused it, and a direction that is not finite would be
    handed to projections.
    """
    with np.errstate(all="ignore"):
        try:
            direction = objective.newton_direction(point, gradient)
        except (ArithmeticError, ValueError):
            direction = np.full_like(gradient, np.nan)
    return direction if np.isfinite(direction).all() else -gradient / objective.target.smoothness


def _descent(
    objective: Objective, start: FloatArray, tolerance: float, steps: int
) -> tuple[FloatArray, float]:
    """Accelerated projected descent, until the residual is small."""
    target = objective.target
    root = math.sqrt(target.smoothness / target.modulus)
    momentum = (root - 1.0) / (root + 1.0)
    point = ahead = start
    residual, end = objective.residual(point)
    for _ in range(steps):
        if residual <= tolerance:
            break
        following = end if ahead is point else objective.residual(ahead)[1]
        ahead = following + momentum * (following - point)
        point = following
        residual, end = objective.residual(point)
    return point, residual
