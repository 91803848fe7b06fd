"""POL: private batch learning by one online pass of implicit gradient steps, plus noise.

Paper 004, section 5 (Algorithm 6). Proof in ``pol.proof.md``.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpstream.domain.batch import Batch
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


def pol_course(records: int, *, modulus: float, result: Result) -> Course:
    """Implicit steps of size ``1 / (alpha t)`` on alpha-strongly convex ``f_t``."""
    ticks = np.arange(1.0, records + 1.0)
    return Course(
        step_sizes=1.0 / (modulus * ticks),
        moduli=np.full(records, modulus),
        weights=result_weights(result, records),
    )


@dataclass(frozen=True, kw_only=True)
class OnlineToOffline:
    """One pass of implicit steps on the regularised losses; an iterate or an average, plus noise.

    Guaranteed: the budget; purely, with spherical Laplace noise. For generalised linear losses
    of bounded slope.

    Attributes:
        result: ``"average"`` as in the paper, ``"suffix"`` (second half) or ``"last"``; without
            the average's early iterates the sensitivity has no logarithm.
        ridge: added to the problem's own; None for the best bound's.
        noise: ``"gaussian"`` or ``"spherical_laplace"``.
        seed: of the public permutation.
    """

    result: Result = "suffix"
    ridge: float | None = None
    noise: NoiseKind = "gaussian"
    seed: int = 0

    def __post_init__(self) -> None:
        check_result(self.result)
        check_noise_kind(self.noise)
        if self.ridge is not None:
            require_positive("ridge", self.ridge)

    @property
    def name(self) -> str:
        """``"pol"``."""
        return "pol"

    def plan(self, problem: Problem, budget: Allowance) -> Plan:
        """Noise from the recursion, and the ridge that minimises the bound.

        The bound is on the population's risk, for independent records in random order: the ridge,
        the average regret ``G^2 (1 + ln n) / (2 alpha n) + alpha R^2 / (2 n)`` and
        ``L E|noise|``. It is proved for the average alone (``settings["bound_is_proved"]``).

        Raises:
            ConfigurationError: if the loss has no score or no bounded slope, or the set no
                projection.
            NotPrivate: if Gaussian noise is asked for and delta is 0.
        """
        slope = global_slope(problem)
        _ = projectable(problem)
        wide = reach(problem, regulariser(problem, extra=0.0)[1])
        ridge = self.ridge
        if ridge is None:
            # Sensitivities are inverse to the modulus.
            course = pol_course(problem.records, modulus=1.0, result=self.result)
            unit = course_shift(problem, course, slope=slope)
            length = output_noise(
                self.noise,
                budget,
                dimension=problem.dimension,
                sensitivity=lambda _: unit,
                exact=unit,
            ).length
            best = math.sqrt(2.0 * slope * length) / wide
            ridge = max(best - problem.strong_convexity, 0.0)
        modulus, _ = regulariser(problem, extra=ridge)
        course = pol_course(problem.records, modulus=modulus, result=self.result)
        noise = output_noise(
            self.noise,
            budget,
            dimension=problem.dimension,
            sensitivity=lambda exponent: course_sensitivity(
                problem, course, slope=slope, exponent=exponent
            ),
            exact=course_sensitivity(problem, course, slope=slope, exponent=None),
            reach=problem.convex_set.l2_radius(),
        )
        whole = slope + modulus * wide
        regret = whole**2 * (1.0 + math.log(problem.records)) / (2.0 * modulus * problem.records)
        regret += modulus * wide**2 / (2.0 * problem.records)
        steep = slope + problem.strong_convexity * wide
        return Plan(
            solver=self.name,
            problem=problem,
            steps=problem.records,
            step_sizes=(),
            noise_scales={"output": noise.scale},
            events=(noise.event(self.name),),
            excess_bound=ridge / 2.0 * wide**2 + regret + steep * noise.length,
            settings=noise_settings(noise)
            | {
                "ridge": ridge,
                "modulus": modulus,
                "result": self.result,
                "seed": self.seed,
                "bound_is_proved": self.result == "average",
            },
        )

    def release(self, plan: Plan, batch: Batch, noise: Noise) -> SolverResult:
        """Run the pass, measure its result, and project onto the set.

        Raises:
            ConfigurationError: if the batch does not fit the problem.
        """
        problem = plan.problem
        course = pol_course(
            problem.records, modulus=float(plan.settings["modulus"]), result=self.result
        )
        _, centre = regulariser(problem, extra=0.0)
        found = run(problem, course, batch, centre=centre, seed=int(plan.settings["seed"]))
        return released(plan, found, noise)
