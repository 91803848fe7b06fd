"""Noisy projected gradient descent, on full batches or on secret Poisson samples.

The inner solver of PrivIncERM (000, section 4): case 1 for Lipschitz losses, case 2 for strongly
convex ones. Proof in ``noisy_sgd.proof.md``.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.batch import GRID, Batch
from dpstream.errors import ConfigurationError
from dpstream.geometry.convex_set import Projectable
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.poisson_sample import poisson_sample
from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import gaussian_mu
from dpstream.privacy.event import ApproximateEvent, Event
from dpstream.privacy.loss_distribution import sampled_gaussian_delta
from dpstream.privacy.unit import Neighbours
from dpstream.release import Measurement
from dpstream.solvers.gradient import (
    LATTICE_BITS,
    GradientNoise,
    GradientSum,
    gradient_noise,
    gradient_sensitivity,
    mean_gradient,
)
from dpstream.solvers.plan import Allowance, Plan, SolverResult, allowed_mu, shared
from dpstream.solvers.problem import Problem

MOST_STEPS = 1024

_ACCURACY = 1e-4
_LARGEST_MU = 4.0


def sampled_sensitivity(problem: Problem, *, exponent: int) -> float:
    """The largest L2 shift of a sampled, rounded gradient sum that one record can cause.

    Where a record is sampled the others move to other rows of the computation. Their scores are
    exact there, and slopes within a few units in the last place, a few more for every class.
    """
    moved = problem.records * problem.lipschitz.l2 * (60 + 4 * problem.rows) * 2.0**-52
    return gradient_sensitivity(problem, exponent=exponent) + moved


@lru_cache(maxsize=64)
def sampled_mu(budget: Budget, rate: float, steps: int) -> float:
    """The largest shift over deviation of each of ``steps`` sampled measurements.

    Args:
        budget: of all of them.
        rate: with which a record is sampled.
        steps: how many.
    """

    def admitted(mu: float) -> bool:
        return sampled_gaussian_delta(mu, rate, steps, budget.epsilon) <= budget.delta

    # What would do without amplification, or a little less, for the discretisation.
    lower = min(gaussian_mu(budget) / math.sqrt(steps), 0.5 * _LARGEST_MU)
    while not admitted(lower):
        lower *= 0.9
    upper = 2.0 * lower
    while upper < _LARGEST_MU and admitted(upper):
        lower, upper = upper, 2.0 * upper
    upper = min(upper, _LARGEST_MU)
    while upper - lower > _ACCURACY * lower:
        middle = 0.5 * (lower + upper)
        lower, upper = (middle, upper) if admitted(middle) else (lower, middle)
    return lower


def obstacle(problem: Problem, budget: Allowance) -> str:
    """Why sampling would not be accounted for here; empty where it is."""
    if problem.neighbours is not Neighbours.ZERO_OUT:
        return "replace neighbours"
    if problem.unit.cap != 1:
        return "several records per unit"
    if shared(budget).fraction < 1.0:
        return "a share of a budget, where sampled measurements have no exact sum"
    if problem.domain.record_bound != "l2":
        return "record bound 'max', whose scores are not exact"
    return ""


@dataclass(frozen=True, kw_only=True)
class NoisySgd:
    """``theta <- project(theta - eta_t g)`` for measured gradients g, averaged.

    Guaranteed: everything measured keeps the plan's budget. Assumed: what ``gradient.proof.md``
    assumes; samples stay secret.

    Attributes:
        steps: number of gradient sums; None for where the noise overtakes the gradients, at
            most ``most_steps``.
        batch_size: expected size of each Poisson sample; None for full batches. Where sampling
            cannot be accounted for (see ``obstacle``) the batch is full too, and the plan's
            setting ``"sampling"`` says why.
        most_steps: see ``steps``.
    """

    steps: int | None = None
    batch_size: int | None = None
    most_steps: int = MOST_STEPS

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "most_steps"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigurationError(f"{name} is {value}; it must be at least 1")

    @property
    def name(self) -> str:
        """``"noisy_sgd"``."""
        return "noisy_sgd"

    def plan(self, problem: Problem, budget: Allowance) -> Plan:
        """Steps, sizes and noise; strongly convex problems take the schedule of case 2."""
        chosen = _projectable(problem)
        reason = "" if self.batch_size is None else obstacle(problem, budget)
        sampled = self.batch_size is not None and not reason and self.batch_size < problem.records
        rate = self.batch_size / problem.records if sampled and self.batch_size else 1.0
        slope = problem.lipschitz.l2
        ridge = problem.strong_convexity
        if ridge:
            away = float(np.linalg.norm(problem.regulariser_gradient(chosen.centre())))
            slope += away + ridge * chosen.diameter()
        mu = allowed_mu(budget)
        single = gradient_noise(problem, mu=mu, count=1).sigma / problem.records
        single *= math.sqrt(problem.dimension)
        balanced = math.ceil((slope / single) ** 2)
        steps = min(balanced, self.most_steps) if self.steps is None else self.steps
        events: tuple[Event, ...]
        if sampled:
            whole = shared(budget).budget
            noise = _sampled_noise(problem, mu=sampled_mu(whole, rate, steps))
            events = (ApproximateEvent(self.name, epsilon=whole.epsilon, delta=whole.delta),)
        else:
            noise = gradient_noise(problem, mu=mu, count=steps)
            events = (noise.event(self.name, steps),)
        expected = rate * problem.records
        spread = problem.dimension * (noise.sigma / expected) ** 2
        spread += (1.0 - rate) * problem.lipschitz.l2**2 / expected
        square = slope**2 + spread
        if ridge:
            sizes = 2.0 / (ridge * np.arange(2.0, steps + 2.0))
            bound = 2.0 * square / (ridge * (steps + 1.0))
        else:
            reach = min(
                chosen.diameter(),
                chosen.l2_radius() + float(np.linalg.norm(chosen.centre())),
            )
            sizes = np.full(steps, reach / math.sqrt(square * steps))
            bound = reach * math.sqrt(square / steps)
        return Plan(
            solver=self.name,
            problem=problem,
            steps=steps,
            step_sizes=tuple(sizes.tolist()),
            noise_scales={"gradient_sum": noise.sigma},
            events=events,
            excess_bound=bound,
            settings={
                "rate": rate,
                "sampling": "Poisson" if sampled else f"full batch{reason and ': '}{reason}",
                "exponent": noise.exponent,
                "sensitivity": noise.sensitivity,
            },
        )

    def release(self, plan: Plan, batch: Batch, noise: Noise) -> SolverResult:
        """Run the plan; the result is the mean of the points before each step.

        Weights grow linearly for strongly convex problems.
        """
        problem = plan.problem
        chosen = _projectable(problem)
        rate = float(plan.settings["rate"])
        scale = GradientNoise(
            exponent=int(plan.settings["exponent"]),
            sensitivity=float(plan.settings["sensitivity"]),
            sigma=plan.noise_scales["gradient_sum"],
        )
        gradients = GradientSum(problem, batch)
        digest, sampling = b"", noise
        if rate < 1.0:
            # Samples cover no value, so they are bound to the public plan besides the records.
            digest = noise.bind(batch.rows)
            course = " ".join(size.hex() for size in plan.step_sizes)
            sampling = noise.child(f"sample {problem.label}; {scale.sigma.hex()} {course}")
        point = chosen.centre()
        point = _on_grid(problem, gradients.within(point)) if rate < 1.0 else point
        total = np.zeros(problem.dimension)
        weight = 0.0
        measurements: list[Measurement] = []
        for step, size in enumerate(plan.step_sizes):
            added = step + 1.0 if problem.strong_convexity else 1.0
            total += added * point
            weight += added
            sample = None
            if rate < 1.0:
                sample = poisson_sample(
                    problem.records, rate, address=(step, 0), digest=digest, noise=sampling
                )
            measured = gradients.measure(point, scale, address=(step,), noise=noise, sample=sample)
            measurements.append(measured)
            # A sampled sum is the rate's fraction of the whole one, in the mean.
            regular = problem.regulariser_gradient(point)
            gradient = (mean_gradient(problem, measured, point) - regular) / rate + regular
            point = chosen.project(point - size * gradient)
            point = _on_grid(problem, gradients.within(point)) if rate < 1.0 else point
        return SolverResult(
            parameters=chosen.project(total / weight),
            measurements=tuple(measurements),
            events=plan.events,
        )


def _sampled_noise(problem: Problem, *, mu: float) -> GradientNoise:
    exponent = math.floor(math.log2(problem.lipschitz.l2 / mu)) - LATTICE_BITS
    sensitivity = sampled_sensitivity(problem, exponent=exponent)
    return GradientNoise(exponent=exponent, sensitivity=sensitivity, sigma=sensitivity / mu)


def _on_grid(problem: Problem, point: FloatArray) -> FloatArray:
    """The point on a grid on which its products with grid records are exact in float64.

    For points within the set's L2 radius; rounding is towards zero.
    """
    reach = max(1.0, problem.record_bound.feature_l2 * problem.convex_set.l2_radius())
    bits = 52 - math.ceil(math.log2(GRID * reach))
    return np.ldexp(np.trunc(np.ldexp(point, bits)), -bits)


def _projectable(problem: Problem) -> Projectable:
    chosen = problem.convex_set
    if not isinstance(chosen, Projectable):
        raise ConfigurationError(
            f"{type(chosen).__name__} has no projection; take mirror descent with a potential, or "
            "Frank-Wolfe"
        )
    return chosen
