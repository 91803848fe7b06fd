"""One pass for losses without strong convexity: a regulariser that fades as ``1 / sqrt(t)``.

Paper 004, section 6.1. Proof, and what is not proved, in ``non_strongly_convex.proof.md``.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpstream.domain.batch import Batch
from dpstream.errors import ConfigurationError
from dpstream.geometry.declaration import require_positive
from dpstream.mechanisms.mechanism import Noise
from dpstream.solvers.implicit_gradient import (
    Course,
    Result,
    check_result,
    course_sensitivity,
    course_shift,
    global_slope,
    projectable,
    result_weights,
    run,
)
from dpstream.solvers.minimiser import reach, regulariser
from dpstream.solvers.output_perturbation import (
    NoiseKind,
    check_noise_kind,
    noise_settings,
    output_noise,
    released,
)
from dpstream.solvers.plan import Allowance, Plan, SolverResult
from dpstream.solvers.problem import Problem


def fading_course(records: int, *, strength: float, result: Result) -> Course:
    """``f_t + (a / sqrt(t)) |x - x_0|^2`` with steps ``1 / M_t``, M the sum of the moduli."""
    moduli = 2.0 * strength / np.sqrt(np.arange(1.0, records + 1.0))
    return Course(
        step_sizes=1.0 / np.cumsum(moduli),
        moduli=moduli,
        weights=result_weights(result, records),
    )


@dataclass(frozen=True, kw_only=True)
class FadingRegulariser:
    """One pass of implicit steps with regularisers of modulus ``2 a / sqrt(t)``, plus noise.

    Guaranteed: the budget; purely, with spherical Laplace noise. Its sensitivity falls like
    ``1 / sqrt(n)``, not ``1 / n``: where n is known a constant ridge (``OnlineToOffline``) is as
    good, and simpler.

    Attributes:
        strength: a; None for the bound's.
        result: ``"average"``, ``"suffix"`` (second half) or ``"last"``.
        noise: ``"gaussian"`` or ``"spherical_laplace"``.
        seed: of the public permutation.
    """

    strength: float | None = None
    result: Result = "suffix"
    noise: NoiseKind = "gaussian"
    seed: int = 0

    def __post_init__(self) -> None:
        check_result(self.result)
        check_noise_kind(self.noise)
        if self.strength is not None:
            require_positive("strength", self.strength)

    @property
    def name(self) -> str:
        """``"non_strongly_convex"``."""
        return "non_strongly_convex"

    def plan(self, problem: Problem, budget: Allowance) -> Plan:
        """Noise from the recursion, and the strength that minimises the bound.

        The bound is on the population's risk, for independent records: ``2 a R^2 / sqrt(n)`` for
        the regularisers, the regret of implicit steps, and ``L E|noise|``. It is proved for the
        average (``settings["bound_is_proved"]``), for this one release; the paper's regret of
        ``T^(2/3)`` with a release at every tick is not.

        Raises:
            ConfigurationError: if the problem is regularised already, the loss has no score or no
                bounded slope, or the set has no projection.
            NotPrivate: if Gaussian noise is asked for and delta is 0.
        """
        if problem.strong_convexity > 0.0:
            raise ConfigurationError(
                f"the problem is strongly convex with modulus {problem.strong_convexity}; take "
                "OnlineToOffline, whose noise is smaller"
            )
        slope = global_slope(problem)
        _, centre = regulariser(problem, extra=0.0)
        _ = projectable(problem)
        wide, root = reach(problem, centre), math.sqrt(problem.records)
        strength = self.strength
        if strength is None:
            # Sensitivities are inverse to the strength.
            course = fading_course(problem.records, strength=1.0, result=self.result)
            unit = course_shift(problem, course, slope=slope)
            length = output_noise(
                self.noise,
                budget,
                dimension=problem.dimension,
                sensitivity=lambda _: unit,
                exact=unit,
            ).length
            strength = math.sqrt(slope * length * root / 2.0) / wide
        chosen = strength
        noise = output_noise(
            self.noise,
            budget,
            dimension=problem.dimension,
            sensitivity=lambda exponent: self._sensitivity(problem, chosen, slope, exponent),
            exact=self._sensitivity(problem, chosen, slope, None),
            reach=problem.convex_set.l2_radius(),
        )
        # Moduli 2 a / sqrt(t) sum to M_t >= 4 a (sqrt(t + 1) - 1) >= 1.65 a sqrt(t).
        steep = (slope + 2.0 * strength * wide) ** 2
        bound = (
            2.0 * strength * wide**2 / root
            + steep * 2.0 * root / (2.0 * 1.65 * strength * problem.records)
            + strength * wide**2 / problem.records
            + slope * noise.length
        )
        return Plan(
            solver=self.name,
            problem=problem,
            steps=problem.records,
            step_sizes=(),
            noise_scales={"output": noise.scale},
            events=(noise.event(self.name),),
            excess_bound=bound,
            settings=noise_settings(noise)
            | {
                "strength": strength,
                "result": self.result,
                "seed": self.seed,
                "bound_is_proved": self.result == "average",
            },
        )

    def _sensitivity(
        self, problem: Problem, strength: float, slope: float, exponent: int | None
    ) -> float:
        course = fading_course(problem.records, strength=strength, result=self.result)
        return course_sensitivity(problem, course, slope=slope, exponent=exponent)

    def release(self, plan: Plan, batch: Batch, noise: Noise) -> SolverResult:
        """Run the pass, measure its result, and project onto the set.

        Raises:
            ConfigurationError: if the batch does not fit the problem.
        """
        problem = plan.problem
        course = fading_course(
            problem.records, strength=float(plan.settings["strength"]), result=self.result
        )
        _, centre = regulariser(problem, extra=0.0)
        found = run(problem, course, batch, centre=centre, seed=int(plan.settings["seed"]))
        return released(plan, found, noise)
