"""Least squares on any set from one noisy measurement of a batch's moments.

Paper 000, section 4, for one batch: the sums of ``x x^T`` and ``x y`` determine the squared loss of
every parameter, so they are measured once and the problem is solved on what was measured. Who
refits keeps nothing but these sums. Proof in ``moment_regression.proof.md``.
"""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.domain.lattice import ExactVector
from dpstream.domain.moments import MOMENT_EXPONENT, MomentAccumulator
from dpstream.errors import ConfigurationError
from dpstream.geometry.l2_ball import L2Ball
from dpstream.losses.regularised import RegularisedLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.gaussian import measure_gaussian
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.moments import MomentLayout, balanced_weights, moment_sensitivity
from dpstream.privacy.event import GaussianEvent
from dpstream.solvers.constrained_quadratic import Constraint
from dpstream.solvers.noisy_quadratic import NoisyQuadratic
from dpstream.solvers.plan import Allowance, Plan, Solver, SolverResult, allowed_mu
from dpstream.solvers.problem import Problem
from dpstream.solvers.quadratic import solve_quadratic

_LATTICE_BITS = 20


@runtime_checkable
class StatisticSolver(Solver, Protocol):
    """A solver to which a batch's sufficient statistics are as good as the batch."""

    def release_statistics(self, plan: Plan, statistics: ExactVector, noise: Noise) -> SolverResult:
        """``release`` of any batch with these moments.

        Args:
            plan: for the batch's size.
            statistics: the exact packed sum of ``z z^T``, z = (1, x, y): secret.
            noise: the noise source.
        """
        ...


def batch_sensitivity(problem: Problem, layout: MomentLayout, *, exponent: int) -> float:
    """The largest L2 shift of the weighted, rounded moments that one unit can cause.

    Args:
        problem: its neighbours and cap.
        layout: which moments are measured, with their weights.
        exponent: of the lattice that the sums are rounded to.
    """
    exact = problem.unit.cap * moment_sensitivity(layout.weights, problem.neighbours)
    rounding = math.ldexp(float(np.linalg.norm(layout.scales)), exponent)
    return (exact + rounding) * (1.0 + 2.0**-40)


@dataclass(frozen=True, kw_only=True)
class MomentRegression:
    """Noisy moments, repaired and minimised over the set (``quadratic.py``).

    Guaranteed: the measurement, and so the result, keeps the plan's budget. Assumed: the batch was
    admitted by the problem's domain and the unit's cap is enforced.

    Attributes:
        shrink: whether the solver may shrink; without it, it only repairs.
    """

    shrink: bool = True

    @property
    def name(self) -> str:
        """``"moment_regression"``."""
        return "moment_regression"

    def layout(self, problem: Problem) -> MomentLayout:
        """The moments that the squared loss needs, of all targets.

        Raises:
            ConfigurationError: if the loss is another one, or its gradients are clipped.
        """
        if not isinstance(problem.data_loss, SquaredLoss) or problem.gradient_clip is not None:
            raise ConfigurationError(
                "moments are sufficient for the squared loss alone, without clipped gradients; "
                f"the loss is {problem.data_loss.name}: take another solver"
            )
        domain = problem.domain
        weights = balanced_weights(
            dimension=domain.dimension,
            target_count=domain.target_count,
            intercept=domain.intercept,
            count=domain.intercept,
            penalty=problem.strong_convexity,
            radius=problem.convex_set.l2_radius() * problem.feature_scale,
        )
        return MomentLayout(
            dimension=domain.dimension, target_count=domain.target_count, weights=weights
        )

    def plan(self, problem: Problem, budget: Allowance) -> Plan:
        """One measurement; the predicted excess is of first order, not a bound.

        Twice the objective's largest expected change over the set, with the set's width w and
        radius R: ``2 (w / w_xy + R w / (sqrt(2) w_xx)) sigma / n``.

        Raises:
            ConfigurationError: if the loss is not the squared one.
            NotPrivate: if the budget's delta is 0.
        """
        layout = self.layout(problem)
        mu = allowed_mu(budget)
        near = problem.unit.cap * moment_sensitivity(layout.weights, problem.neighbours) / mu
        exponent = math.floor(math.log2(near / float(layout.scales.max()))) - _LATTICE_BITS
        exponent = max(exponent, MOMENT_EXPONENT)
        sigma = batch_sensitivity(problem, layout, exponent=exponent) / mu
        weights, chosen = layout.weights, problem.convex_set
        scale = problem.feature_scale
        change = scale / weights.xy + scale**2 * chosen.l2_radius() / (math.sqrt(2.0) * weights.xx)
        return Plan(
            solver=self.name,
            problem=problem,
            steps=1,
            step_sizes=(),
            noise_scales={"moments": sigma},
            events=(GaussianEvent(self.name, mu=mu),),
            excess_bound=2.0 * chosen.gaussian_width() * change * sigma / problem.records,
            settings={"exponent": exponent, "bound_is_proved": False},
        )

    def release(self, plan: Plan, batch: Batch, noise: Noise) -> SolverResult:
        """Measure the batch's moments and solve.

        Raises:
            ConfigurationError: if the batch does not fit the problem.
        """
        plan.problem.check(batch)
        moments = MomentAccumulator(plan.problem.domain.width)
        moments.add(batch)
        return self.release_statistics(plan, moments.take(), noise)

    def release_statistics(self, plan: Plan, statistics: ExactVector, noise: Noise) -> SolverResult:
        """See ``StatisticSolver.release_statistics``."""
        layout = self.layout(plan.problem)
        exponent = int(plan.settings["exponent"])
        sigma = plan.noise_scales["moments"]
        measured = measure_gaussian(
            layout.select(statistics).rounded(exponent),
            exponent,
            sigma=sigma / layout.scales,
            address=(0,),
            noise=noise,
        )
        entries = np.ldexp(measured.value.astype(np.float64), exponent)
        return SolverResult(
            parameters=self.solved(plan.problem, layout, entries, sigma),
            measurements=(measured,),
            events=plan.events,
        )

    def solved(
        self, problem: Problem, layout: MomentLayout, entries: FloatArray, sigma: float
    ) -> FloatArray:
        """The minimiser in the problem's own coordinates: post-processing.

        Args:
            problem: what is solved.
            layout: of the entries.
            entries: the measured moments.
            sigma: noise deviation of an entry of scale 1.
        """
        first = 0 if problem.domain.intercept else 1
        inner = slice(first, 1 + layout.dimension)
        place = 1 + layout.dimension + problem.target
        outer = slice(place, place + 1)
        # The design's features are the scaled ones times a public number; a constant is not.
        scale = np.full(problem.features, problem.feature_scale)
        scale[: 1 - first] = 1.0
        square = np.multiply.outer(scale, scale)
        matrix, variances = layout.matrix(entries), layout.variances(sigma**2)
        ridge = problem.records * problem.strong_convexity
        cross = matrix[inner, outer] * scale[:, np.newaxis]
        if isinstance(problem.loss, RegularisedLoss) and problem.loss.centre is not None:
            cross = cross + ridge * problem.loss.centre[:, np.newaxis]
        chosen = problem.convex_set
        ball = chosen if isinstance(chosen, L2Ball) else None
        solution = solve_quadratic(
            NoisyQuadratic(
                gram=matrix[inner, inner] * square,
                cross=cross,
                gram_variance=variances[inner, inner] * square**2,
                cross_variance=variances[inner, outer] * scale[:, np.newaxis] ** 2,
                penalty=ridge,
                radius=None if ball is None else ball.radius,
                constraint=None if ball is not None else Constraint(convex_set=chosen),
            ),
            shrink=self.shrink,
        )
        return solution.parameters[:, 0]
