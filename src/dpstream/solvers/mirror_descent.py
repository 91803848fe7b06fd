"""Noisy mirror descent: full-batch gradients, measured at released points.

Paper 001, algorithm 1, for every potential of ``dpstream.geometry``. Proof in
``mirror_descent.proof.md``.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.errors import ConfigurationError
from dpstream.geometry.convex_set import Mirrored, MirrorMap, Projectable
from dpstream.geometry.euclidean_potential import EuclideanPotential
from dpstream.geometry.l2_ball import L2Ball
from dpstream.losses.loss import SmoothLoss
from dpstream.mechanisms.mechanism import Noise
from dpstream.release import Measurement
from dpstream.solvers.gradient import GradientNoise, GradientSum, gradient_noise, mean_gradient
from dpstream.solvers.plan import Allowance, Plan, SolverResult, allowed_mu
from dpstream.solvers.problem import Problem

MOST_STEPS = 1024
"""Default bound on the number of gradient sums."""

_NEAR_BEST = 1.05
"""The fewest steps whose bound is within this factor of the best are taken."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Step sizes and averaging weights, and the excess risk they are proved to reach.

    Attributes:
        name: which of the four analyses it belongs to.
        sizes: of each step.
        weights: of the points before the first step and after each: one more than sizes.
        bound: on the expected excess risk of the weighted mean.
    """

    name: str
    sizes: FloatArray
    weights: FloatArray
    bound: float


@dataclass(frozen=True, kw_only=True)
class Terrain:
    """The public constants of a problem as one mirror map sees them.

    Attributes:
        breadth: the potential's range over the set, over its modulus.
        modulus: the potential's strong convexity.
        slope: bound on the average gradient, regulariser included, in the dual norm.
        bend: Lipschitz constant of the gradient in that norm; infinite for kinks.
        convexity: strong convexity relative to the potential; 0 for none.
        noise: root mean square of the dual norm of the noise of one step, if all of the
            budget went to one step.
    """

    breadth: float
    modulus: float
    slope: float
    bend: float
    convexity: float
    noise: float


def survey(problem: Problem, mirror: MirrorMap, mu: float) -> Terrain:
    """The constants; ``E |b|_*^2 <= sigma^2 (G^2 + |Q|_2^2)`` for the noise (001, section 3.1)."""
    ball = mirror.ball
    reach, spread = ball.l2_radius(), ball.l1_radius()
    ridge = problem.strong_convexity
    slope = min(problem.lipschitz.l2 * reach, problem.lipschitz.max * spread)
    if ridge:
        corner = problem.regulariser_gradient(problem.convex_set.centre())
        far = float(np.linalg.norm(corner)) + ridge * problem.convex_set.diameter()
        slope += far * reach
    loss, bend = problem.data_loss, math.inf
    if isinstance(loss, SmoothLoss):
        smooth = loss.smoothness(problem.record_bound, problem.convex_set)
        bend = min(smooth.l2 * reach**2, smooth.max * spread**2) + ridge * reach**2
    single = gradient_noise(problem, mu=mu, count=1).sigma / problem.records
    return Terrain(
        breadth=mirror.potential_range() / mirror.modulus,
        modulus=mirror.modulus,
        slope=slope,
        bend=bend,
        convexity=ridge if isinstance(mirror, EuclideanPotential) else 0.0,
        noise=single * math.hypot(ball.gaussian_width(), reach),
    )


def schedules(terrain: Terrain, steps: int) -> Iterator[Schedule]:
    """Every schedule with a proof that applies, for a number of steps."""
    noise = math.sqrt(steps) * terrain.noise
    kinked = terrain.slope + noise
    size = math.sqrt(2.0 * terrain.breadth / steps) / kinked
    before = np.append(np.ones(steps), 0.0)
    after = np.append(0.0, np.ones(steps))
    yield Schedule(
        name="lipschitz",
        sizes=np.full(steps, size * terrain.modulus),
        weights=before,
        bound=math.sqrt(2.0 * terrain.breadth / steps) * kinked,
    )
    if math.isfinite(terrain.bend):
        # A loss may be linear on all of the set.
        longest = 1.0 / (2.0 * terrain.bend) if terrain.bend else math.inf
        size = min(longest, math.sqrt(terrain.breadth / steps) / noise)
        yield Schedule(
            name="smooth",
            sizes=np.full(steps, size * terrain.modulus),
            weights=after,
            bound=terrain.breadth / (size * steps) + size * noise**2,
        )
    if not terrain.convexity:
        return
    counts = np.arange(1.0, steps + 1.0)
    yield Schedule(
        name="strongly convex",
        sizes=2.0 / (terrain.convexity * (counts + 1.0)),
        weights=np.append(counts, 0.0),
        bound=2.0 * (terrain.slope**2 + noise**2) / (terrain.convexity * (steps + 1.0)),
    )
    if math.isfinite(terrain.bend):
        shift = max(4.0 * terrain.bend / terrain.convexity - 1.0, 1.0)
        weights = counts + shift - 1.0
        start = shift * (shift - 1.0) / 2.0 * terrain.convexity * terrain.breadth
        yield Schedule(
            name="smooth and strongly convex",
            sizes=2.0 / (terrain.convexity * (counts + shift)),
            weights=np.append(0.0, weights),
            bound=float((start + 2.0 * steps * noise**2 / terrain.convexity) / weights.sum()),
        )


@dataclass(frozen=True, kw_only=True)
class MirrorDescent:
    """``theta <- argmin <eta g - grad Psi(theta), y> + Psi(y)`` over the set, g a noisy gradient.

    Guaranteed: the result and everything measured keep the plan's budget. Assumed: what
    ``gradient.proof.md`` assumes.

    Attributes:
        steps: number of gradient sums; None for the best bound's, at most ``most_steps``.
        most_steps: see ``steps``.
        mirror: the potential; None for the set's own (or the Euclidean one where its bound is
            better, as for strongly convex problems).
    """

    steps: int | None = None
    most_steps: int = MOST_STEPS
    mirror: MirrorMap | None = None

    def __post_init__(self) -> None:
        for name, value in (("steps", self.steps), ("most_steps", self.most_steps)):
            if value is not None and value < 1:
                raise ConfigurationError(f"{name} is {value}; at least one step is needed")

    @property
    def name(self) -> str:
        """``"mirror_descent"``."""
        return "mirror_descent"

    def maps(self, problem: Problem) -> tuple[MirrorMap, ...]:
        """The candidates, the set's own first.

        Raises:
            ConfigurationError: if the set has no potential and cannot be projected on.
        """
        if self.mirror is not None:
            return (self.mirror,)
        found: list[MirrorMap] = []
        chosen = problem.convex_set
        if isinstance(chosen, Mirrored):
            found.append(chosen.mirror_map())
        if isinstance(chosen, Projectable) and not any(
            isinstance(mirror, EuclideanPotential) for mirror in found
        ):
            ball = L2Ball(dimension=problem.dimension)
            found.append(EuclideanPotential(convex_set=chosen, ball=ball))
        if not found:
            raise ConfigurationError(
                f"{type(chosen).__name__} has no mirror map and no projection; take a "
                "Frank-Wolfe solver, or give a potential"
            )
        return tuple(found)

    def plan(self, problem: Problem, budget: Allowance) -> Plan:
        """The schedule with the smallest proved excess risk, over potentials and step counts."""
        mu = allowed_mu(budget)
        candidates: list[tuple[int, int, Schedule]] = []
        for index, mirror in enumerate(self.maps(problem)):
            terrain = survey(problem, mirror, mu)
            for steps in self._counts():
                candidates += [(index, steps, found) for found in schedules(terrain, steps)]
        best = min(schedule.bound for _, _, schedule in candidates)
        index, steps, schedule = min(
            (entry for entry in candidates if entry[2].bound <= _NEAR_BEST * best),
            key=lambda entry: (entry[1], entry[2].bound),
        )
        noise = gradient_noise(problem, mu=mu, count=steps)
        return Plan(
            solver=self.name,
            problem=problem,
            steps=steps,
            step_sizes=tuple(schedule.sizes.tolist()),
            noise_scales={"gradient_sum": noise.sigma},
            events=(noise.event(self.name, steps),),
            excess_bound=schedule.bound,
            settings={
                "schedule": schedule.name,
                "map": index,
                "exponent": noise.exponent,
                "sensitivity": noise.sensitivity,
            },
        )

    def release(self, plan: Plan, batch: Batch, noise: Noise) -> SolverResult:
        """Run the plan; the result is the schedule's weighted mean of the points."""
        problem = plan.problem
        mirror = self.maps(problem)[int(plan.settings["map"])]
        scale = GradientNoise(
            exponent=int(plan.settings["exponent"]),
            sensitivity=float(plan.settings["sensitivity"]),
            sigma=plan.noise_scales["gradient_sum"],
        )
        weights = self._weights(plan)
        gradients = GradientSum(problem, batch)
        state = mirror.start()
        total = weights[0] * mirror.point(state)
        measurements: list[Measurement] = []
        for step, size in enumerate(plan.step_sizes):
            point = mirror.point(state)
            measured = gradients.measure(point, scale, address=(step,), noise=noise)
            measurements.append(measured)
            state = mirror.step(state, size * mean_gradient(problem, measured, point))
            total = total + weights[step + 1] * mirror.point(state)
        return SolverResult(
            parameters=total / weights.sum(),
            measurements=tuple(measurements),
            events=plan.events,
        )

    def _counts(self) -> list[int]:
        if self.steps is not None:
            return [self.steps]
        grid = np.unique(np.rint(np.geomspace(1, self.most_steps, 48)).astype(int))
        return [int(count) for count in grid]

    def _weights(self, plan: Plan) -> FloatArray:
        """The averaging weights that belong to the plan's schedule."""
        steps = plan.steps
        match plan.settings["schedule"]:
            case "lipschitz":
                return np.append(np.ones(steps), 0.0)
            case "smooth":
                return np.append(0.0, np.ones(steps))
            case "strongly convex":
                return np.append(np.arange(1.0, steps + 1.0), 0.0)
            case _:
                # 2 / (convexity size) = count + shift, of which the weights are one less.
                sizes = np.array(plan.step_sizes)
                return np.append(0.0, 2.0 / (plan.problem.strong_convexity * sizes) - 1.0)
