"""Private Frank-Wolfe on any set with a linear oracle: gradients measured with Gaussian noise.

Paper 001, section 5.2. Proof in ``frank_wolfe_gaussian.proof.md``.
"""

from dataclasses import dataclass

from dpstream.domain.batch import Batch
from dpstream.errors import ConfigurationError
from dpstream.geometry.convex_set import ConvexSet, LinearlyOptimizable
from dpstream.mechanisms.mechanism import Noise
from dpstream.release import Measurement
from dpstream.solvers.frank_wolfe import MOST_STEPS, curvature, step_counts
from dpstream.solvers.gradient import GradientNoise, GradientSum, gradient_noise, mean_gradient
from dpstream.solvers.plan import Allowance, Plan, SolverResult, allowed_mu
from dpstream.solvers.problem import Problem


def oracle_of(convex_set: ConvexSet) -> LinearlyOptimizable:
    """The set, if it has a linear oracle.

    Raises:
        ConfigurationError: if it has none.
    """
    if not isinstance(convex_set, LinearlyOptimizable):
        raise ConfigurationError(
            f"{type(convex_set).__name__} has no linear oracle; take mirror descent"
        )
    return convex_set


@dataclass(frozen=True, kw_only=True)
class GaussianFrankWolfe:
    """``theta <- (1 - mu_t) theta + mu_t argmin <noisy gradient, v>``, ``mu_t = 2 / (t + 2)``.

    Guaranteed: the measured gradients, and so the result, keep the plan's budget. Assumed: what
    ``gradient.proof.md`` assumes.

    Attributes:
        steps: number of gradient sums; None for the best bound's, at most ``most_steps``.
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
        """``"frank_wolfe_gaussian"``."""
        return "frank_wolfe_gaussian"

    def plan(self, problem: Problem, budget: Allowance) -> Plan:
        """The number of steps that minimises ``2 Gamma / (T + 2) + 2 sigma G_C / n``."""
        chosen = oracle_of(problem.convex_set)
        mu, bend = allowed_mu(budget), curvature(problem)
        width = 2.0 * chosen.gaussian_width() / problem.records

        def bound(count: int) -> float:
            sigma = gradient_noise(problem, mu=mu, count=count).sigma
            return 2.0 * bend / (count + 2) + sigma * width

        counts = step_counts(self.most_steps) if self.steps is None else [self.steps]
        steps = min(counts, key=bound)
        noise = gradient_noise(problem, mu=mu, count=steps)
        return Plan(
            solver=self.name,
            problem=problem,
            steps=steps,
            step_sizes=tuple(2.0 / (step + 2.0) for step in range(steps)),
            noise_scales={"gradient_sum": noise.sigma},
            events=(noise.event(self.name, steps),),
            excess_bound=bound(steps),
            settings={"exponent": noise.exponent, "sensitivity": noise.sensitivity},
        )

    def release(self, plan: Plan, batch: Batch, noise: Noise) -> SolverResult:
        """Run the plan; the last point is the result."""
        problem = plan.problem
        chosen = oracle_of(problem.convex_set)
        scale = GradientNoise(
            exponent=int(plan.settings["exponent"]),
            sensitivity=float(plan.settings["sensitivity"]),
            sigma=plan.noise_scales["gradient_sum"],
        )
        gradients = GradientSum(problem, batch)
        point = chosen.centre()
        measurements: list[Measurement] = []
        for step, size in enumerate(plan.step_sizes):
            measured = gradients.measure(point, scale, address=(step,), noise=noise)
            measurements.append(measured)
            extreme = chosen.minimize_linear(mean_gradient(problem, measured, point))
            point = (1.0 - size) * point + size * extreme
        return SolverResult(parameters=point, measurements=tuple(measurements), events=plan.events)
