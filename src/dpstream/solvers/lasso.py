"""Sparse linear regression: private screening, then moments of the few chosen columns.

Least squares over an L1 ball with bounded entries (001, section 5.1, the LASSO), by another way
than Frank-Wolfe's, which spends every selection on one small step. Proof in ``lasso.proof.md``.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.batch import Batch
from dpstream.errors import ConfigurationError
from dpstream.geometry.l1_ball import L1Ball
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.exponential import exponential_event, select_exponential
from dpstream.mechanisms.gaussian import measure_gaussian
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.moments import MomentLayout, moment_sensitivity
from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import calibrate
from dpstream.privacy.curve import PrivacyCurve
from dpstream.privacy.event import Event, GaussianEvent, RepeatedEvent
from dpstream.release import Measurement
from dpstream.solvers.lasso_columns import (
    Columns,
    clip_length,
    declared_radius,
    moment_layout,
    places_of,
    restricted_sensitivity,
    score_exponent,
    screening_sensitivity,
)
from dpstream.solvers.noisy_quadratic import NoisyQuadratic
from dpstream.solvers.plan import Allowance, Plan, SolverResult, allowed_rho, shared
from dpstream.solvers.problem import Problem
from dpstream.solvers.quadratic import solve_quadratic

MOMENT_SHARE = 0.4
"""Part of the budget, in units of zero-concentration, that goes to moments."""

LAST_SHARE = 0.75
"""Part of the moments' budget that goes to the last round's."""

GUESSED_SQUARE = 1.0 / 3.0
"""Second moment of a column in units of its largest, for choosing how many to select."""

MOST_SELECTIONS = 64

_LATTICE_BITS = 20
_QP_ROUNDS = 400


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round of a plan: which selections it makes and how its moments are measured."""

    index: int
    selections: int
    columns: int
    layout: MomentLayout
    exponent: int
    sigma: float
    mu: float


def rounds_of(problem: Problem, *, rounds: int, selections: int, mu: float) -> Iterator[Round]:
    """The rounds of a plan, from public numbers alone.

    Args:
        problem: what is solved.
        rounds: how many.
        selections: of all rounds together.
        mu: of all moments together.
    """
    constant = int(problem.domain.intercept)
    last = 1.0 if rounds == 1 else LAST_SHARE
    taken = 0
    for index in range(rounds):
        upto = selections * (index + 1) // rounds
        share = last if index == rounds - 1 else (1.0 - last) / (rounds - 1)
        each = mu * math.sqrt(share)
        layout = moment_layout(problem, upto + constant)
        rough = moment_sensitivity(layout.weights, problem.neighbours) * problem.unit.cap / each
        exponent = math.floor(math.log2(rough)) - _LATTICE_BITS
        sigma = restricted_sensitivity(problem, layout, exponent=exponent) / each
        yield Round(
            index=index,
            selections=upto - taken,
            columns=upto + constant,
            layout=layout,
            exponent=exponent,
            sigma=sigma,
            mu=each,
        )
        taken = upto


@lru_cache(maxsize=64)
def _calibrated(budget: Budget, share: float, selections: int) -> float:
    """The largest s for which moments and selections of total rho ``s^2 / 2`` fit the budget."""
    return calibrate(
        lambda scale: PrivacyCurve.gaussian(scale * math.sqrt(share)).compose(
            PrivacyCurve.exponential(_selection_epsilon(scale, share, selections)).repeat(
                selections
            )
        ),
        budget,
    )


def _selection_epsilon(scale: float, share: float, selections: int) -> float:
    """The range with ``selections * epsilon^2 / 8 = (1 - share) * scale^2 / 2``."""
    return scale * math.sqrt(4.0 * (1.0 - share) / selections)


@dataclass(frozen=True, kw_only=True)
class Lasso:
    """Screen columns by private selection, measure their moments, solve over the L1 ball.

    Each round selects, without replacement, columns of large ``|sum x_j r|`` for the clipped
    residuals r of the released model (the targets, at first), then measures the moments of all
    columns chosen so far; a second round finds what correlated columns hide in the first.

    Guaranteed: selections and moments, and so the result, keep the plan's budget. Assumed: the
    batch was admitted by the problem's domain and the unit's cap is enforced.

    Attributes:
        selections: how many columns; None for a number chosen from n, the dimension, the
            radius and the budget.
        rounds: of screening.
    """

    selections: int | None = None
    rounds: int = 2

    def __post_init__(self) -> None:
        for name, value in (("selections", self.selections), ("rounds", self.rounds)):
            if value is not None and value < 1:
                raise ConfigurationError(f"{name} is {value}; it must be at least 1")
        if self.selections is not None and self.selections < self.rounds:
            raise ConfigurationError(
                f"selections is {self.selections} in {self.rounds} rounds; select at least one "
                "column in each round"
            )

    @property
    def name(self) -> str:
        """``"lasso"``."""
        return "lasso"

    def plan(self, problem: Problem, budget: Allowance) -> Plan:
        """The number of columns, and the noise of selections and moments.

        ``excess_bound`` is a prediction: it takes every column that the selections' noise
        could hide for hidden, and columns of the second moment that was guessed.
        """
        _check(problem)
        most = min(MOST_SELECTIONS, problem.domain.dimension)
        rounds = min(self.rounds, most)
        rho = allowed_rho(budget)
        shift = screening_sensitivity(problem)
        # In units of the design, per record: the Gumbel scale if there were one selection.
        single = 2.0 * shift / math.sqrt(8.0 * (1.0 - MOMENT_SHARE) * rho)
        single *= problem.feature_scale / problem.records * math.log(problem.domain.dimension + 1.0)
        square = GUESSED_SQUARE
        if problem.domain.record_bound == "l2":
            square = 1.0 / problem.domain.dimension
        if self.selections is None:
            # The flattest vector of k entries is as large as twice the noise of k selections.
            found = (declared_radius(problem) * square / (2.0 * single)) ** (2.0 / 3.0)
            selections = max(rounds, min(most, round(found)))
        else:
            selections = min(self.selections, most)
        share = shared(budget)
        scale = math.sqrt(2.0 * rho)
        if share.fraction == 1.0:
            scale = max(scale, _calibrated(share.budget, MOMENT_SHARE, selections))
        epsilon = _selection_epsilon(scale, MOMENT_SHARE, selections)
        mu = scale * math.sqrt(MOMENT_SHARE)
        gumbel = 2.0 * shift / epsilon
        steps = tuple(rounds_of(problem, rounds=rounds, selections=selections, mu=mu))
        selection = exponential_event(f"{self.name} screening", sensitivity=shift, scale=gumbel)
        events: tuple[Event, ...] = (
            RepeatedEvent(selection, selections),
            GaussianEvent(f"{self.name} moments", mu=mu),
        )
        hidden = 2.0 * single * math.sqrt(selections) * declared_radius(problem)
        last = steps[-1]
        unit = (last.sigma / last.layout.weights.xy) ** 2 / problem.records**2
        clip = clip_length(problem, last.columns)
        fitted = last.columns * unit * (problem.record_bound.target_size * clip) ** 2 / square
        return Plan(
            solver=self.name,
            problem=problem,
            steps=selections + rounds,
            step_sizes=(),
            noise_scales={"score": gumbel, "moments": last.sigma},
            events=events,
            excess_bound=min(hidden + fitted, problem.record_bound.target_size**2 / 2.0),
            settings={
                "selections": selections,
                "rounds": rounds,
                "mu": mu,
                "bound": "prediction",
            },
        )

    def release(self, plan: Plan, batch: Batch, noise: Noise) -> SolverResult:
        """Run the plan; the last round's model is the result."""
        problem = plan.problem
        problem.check(batch)
        columns = Columns(problem, batch)
        support = np.zeros(0, np.int64)
        model = np.zeros(problem.dimension)
        measurements: list[Measurement] = []
        for step in rounds_of(
            problem,
            rounds=int(plan.settings["rounds"]),
            selections=int(plan.settings["selections"]),
            mu=float(plan.settings["mu"]),
        ):
            scores = columns.scores(support, model)
            for place in range(step.selections):
                open_columns = np.setdiff1d(np.arange(problem.domain.dimension), support)
                selected = select_exponential(
                    scores[open_columns],
                    score_exponent(problem),
                    scale=plan.noise_scales["score"],
                    address=(step.index, place),
                    noise=noise,
                )
                measurements.append(selected)
                support = np.append(support, open_columns[int(selected.value[0])])
            exact = columns.moments(support, step.layout).rounded(step.exponent)
            measured = measure_gaussian(
                exact,
                step.exponent,
                sigma=step.sigma / step.layout.scales,
                address=(step.index, step.selections),
                noise=noise,
            )
            measurements.append(measured)
            model = _solve(problem, step, measured, support)
        return SolverResult(parameters=model, measurements=tuple(measurements), events=plan.events)


def _check(problem: Problem) -> None:
    if not isinstance(problem.loss, SquaredLoss) or not isinstance(problem.convex_set, L1Ball):
        raise ConfigurationError(
            f"the LASSO is the squared loss over an L1 ball, not the {problem.loss.name} loss over "
            f"{type(problem.convex_set).__name__}; take mirror descent or Frank-Wolfe"
        )
    if problem.gradient_clip is not None:
        raise ConfigurationError(
            "gradient_clip has no meaning for the LASSO, which measures no gradients; remove it"
        )


def _solve(problem: Problem, step: Round, measured: Measurement, support: IntArray) -> FloatArray:
    """The noise-aware model on the chosen columns: post-processing."""
    layout = step.layout
    entries = np.ldexp(measured.value.astype(np.float64), measured.exponent)
    matrix, variances = layout.matrix(entries), layout.variances(step.sigma**2)
    inner, outer = slice(1, 1 + step.columns), slice(1 + step.columns, None)
    solution = solve_quadratic(
        NoisyQuadratic(
            gram=matrix[inner, inner],
            cross=matrix[inner, outer],
            gram_variance=variances[inner, inner],
            cross_variance=variances[inner, outer],
        )
    )
    unit = problem.record_bound.target_size / clip_length(problem, step.columns)
    radius = declared_radius(problem) / unit
    model = np.zeros(problem.dimension)
    inside = minimise_over_l1(solution.curvature, solution.parameters[:, 0], radius)
    model[places_of(problem, support)] = unit * inside
    return model


def minimise_over_l1(curvature: FloatArray, centre: FloatArray, radius: float) -> FloatArray:
    """``argmin (t - centre)' curvature (t - centre)`` over an L1 ball."""
    # Accelerated projection: a few hundred products with a small matrix.
    ball = L1Ball(dimension=centre.size, radius=radius)
    if ball.contains(centre, 0.0):
        return centre
    steepest = max(float(np.linalg.eigvalsh(curvature)[-1]), 1e-300)
    point = ball.project(centre)
    ahead, pace = point, 1.0
    for _ in range(_QP_ROUNDS):
        following = ball.project(ahead - curvature @ (ahead - centre) / steepest)
        faster = (1.0 + math.sqrt(1.0 + 4.0 * pace * pace)) / 2.0
        ahead = following + (pace - 1.0) / faster * (following - point)
        point, pace = following, faster
    return point
