"""Private Frank-Wolfe on polytopes: vertices chosen by private selection.

Paper 001, section 5.1 and algorithm 2. Proof in ``frank_wolfe.proof.md``.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.errors import ConfigurationError
from dpstream.geometry.convex_set import ConvexSet, Mirrored
from dpstream.geometry.entropy import VertexEntropy, Vertices
from dpstream.mechanisms.exponential import (
    check_score_bound,
    exponential_event,
    rounded_scores,
    score_sensitivity,
    select_exponential,
)
from dpstream.mechanisms.mechanism import Noise, bounded_sum_sensitivity
from dpstream.privacy.event import RepeatedEvent
from dpstream.release import Measurement
from dpstream.solvers.gradient import GradientSum, summation_slack
from dpstream.solvers.plan import Allowance, Plan, SolverResult, allowed_rho
from dpstream.solvers.plan import allowed_selection_epsilon as allowed_epsilon
from dpstream.solvers.problem import Problem

LATTICE_BITS = 24
"""Scores are rounded to a lattice this many bits finer than the Gumbel noise."""

MOST_STEPS = 1024


def vertices_of(convex_set: ConvexSet) -> Vertices:
    """The set's vertices, where it is the hull of a list of them.

    Raises:
        ConfigurationError: if it is not.
    """
    if isinstance(convex_set, Mirrored):
        mirror = convex_set.mirror_map()
        if isinstance(mirror, VertexEntropy):
            return mirror.vertices
    raise ConfigurationError(
        f"{type(convex_set).__name__} has no list of vertices; take an L1 ball, a simplex or a "
        "hull of vertices, or the Frank-Wolfe solver with Gaussian noise"
    )


def vertex_bound(problem: Problem) -> float:
    """The largest ``|<g, v>|`` of a record's gradient and a vertex: ``L_1 |C|_1`` in the paper."""
    chosen, slope = problem.convex_set, problem.lipschitz
    return min(slope.max * chosen.l1_radius(), slope.l2 * chosen.l2_radius())


def selection_sensitivity(problem: Problem, *, exponent: int) -> float:
    """The largest change of any vertex's rounded score that one unit can cause.

    The score is ``-<sum of gradients + n * regulariser, v>``; twice the float64 slack of the
    sum and of the product with the vertex is added.

    Args:
        problem: its constants, neighbours and cap.
        exponent: of the lattice that scores are rounded to.
    """
    bound = vertex_bound(problem)
    exact = bounded_sum_sensitivity(
        bound,
        neighbours=problem.neighbours,
        cap=problem.unit.cap,
        rounding_step=0.0,
        dimension=1,
    )
    slack = summation_slack(problem, problem.lipschitz.max * problem.convex_set.l1_radius())
    # The regulariser's entries and the product with a vertex: p + 8 more roundings.
    slack += (problem.dimension + 8) * 2.0**-52 * largest_score(problem)
    return score_sensitivity(exact + 2.0 * slack, exponent=exponent)


def largest_score(problem: Problem) -> float:
    """A bound on any vertex's score, for any batch: of all records and of the regulariser."""
    chosen = problem.convex_set
    public = problem.strong_convexity * chosen.diameter() + _norm_at_centre(problem)
    size = problem.lipschitz.max * chosen.l1_radius() + public * chosen.l2_radius()
    return problem.records * size


def _norm_at_centre(problem: Problem) -> float:
    return float(np.linalg.norm(problem.regulariser_gradient(problem.convex_set.centre())))


def curvature(problem: Problem) -> float:
    """Frank-Wolfe's curvature constant (001, definition 5.1), the regulariser's included."""
    own = problem.smooth_loss.curvature(problem.record_bound, problem.convex_set)
    return own + problem.strong_convexity * problem.convex_set.diameter() ** 2


def step_counts(most_steps: int) -> list[int]:
    """A public grid of step counts."""
    return [int(count) for count in np.unique(np.rint(np.geomspace(1, most_steps, 64)))]


@dataclass(frozen=True, kw_only=True)
class FrankWolfe:
    """``theta <- (1 - mu_t) theta + mu_t v`` for a privately selected vertex v.

    ``mu_t = 2 / (t + 2)`` from t = 0: the first vertex replaces the start.

    Guaranteed: the selections, and so the result, keep the plan's budget. Assumed: the batch
    was admitted by the problem's domain and the unit's cap is enforced.

    Attributes:
        steps: number of selections; None for the best bound's, at most ``most_steps``.
        most_steps: see ``steps``.
    """

    steps: int | None = None
    most_steps: int = MOST_STEPS

    def __post_init__(self) -> None:
        for name, value in (("steps", self.steps), ("most_steps", self.most_steps)):
            if value is not None and value < 1:
                raise ConfigurationError(f"{name} is {value}; at least one step is needed")

    @property
    def name(self) -> str:
        """``"frank_wolfe"``."""
        return "frank_wolfe"

    def plan(self, problem: Problem, budget: Allowance) -> Plan:
        """The number of steps that minimises ``2 Gamma / (T + 2) + beta ln(k) / n``.

        Raises:
            ConfigurationError: if the set has no list of vertices, the loss is not smooth, or
                scores could outgrow their lattice.
            NotPrivate: if delta is 0.
        """
        vertices = vertices_of(problem.convex_set)
        bend = curvature(problem)
        rho = allowed_rho(budget)
        shift = selection_sensitivity(problem, exponent=-1000)

        def bound(count: int, epsilon: float) -> float:
            scale = 2.0 * shift / epsilon
            return 2.0 * bend / (count + 2) + scale * math.log(vertices.count) / problem.records

        counts = step_counts(self.most_steps) if self.steps is None else [self.steps]
        steps = min(counts, key=lambda count: bound(count, math.sqrt(8.0 * rho / count)))
        epsilon = allowed_epsilon(budget, steps)
        exponent = math.floor(math.log2(2.0 * shift / epsilon)) - LATTICE_BITS
        check_score_bound(largest_score(problem), exponent)
        sensitivity = selection_sensitivity(problem, exponent=exponent)
        scale = 2.0 * sensitivity / epsilon
        event = exponential_event(self.name, sensitivity=sensitivity, scale=scale)
        return Plan(
            solver=self.name,
            problem=problem,
            steps=steps,
            step_sizes=tuple(2.0 / (step + 2.0) for step in range(steps)),
            noise_scales={"score": scale},
            events=(RepeatedEvent(event, steps),),
            excess_bound=bound(steps, epsilon),
            settings={"exponent": exponent, "sensitivity": sensitivity},
        )

    def release(self, plan: Plan, batch: Batch, noise: Noise) -> SolverResult:
        """Run the plan; the last point is the result."""
        problem = plan.problem
        vertices = vertices_of(problem.convex_set)
        exponent = int(plan.settings["exponent"])
        gradients = GradientSum(problem, batch)
        point = problem.convex_set.centre()
        chosen: list[Measurement] = []
        for step, size in enumerate(plan.step_sizes):
            total = gradients.at(gradients.within(point))
            total += problem.records * problem.regulariser_gradient(point)
            scores = rounded_scores(-vertices.scores(total), exponent)
            selected = select_exponential(
                scores,
                exponent,
                scale=plan.noise_scales["score"],
                address=(step,),
                noise=noise,
            )
            chosen.append(selected)
            point = (1.0 - size) * point + size * vertex(vertices, int(selected.value[0]))
        return SolverResult(parameters=point, measurements=tuple(chosen), events=plan.events)


def vertex(vertices: Vertices, index: int) -> FloatArray:
    """One vertex of the list."""
    weights = np.zeros(vertices.count)
    weights[index] = 1.0
    return vertices.combine(weights)
