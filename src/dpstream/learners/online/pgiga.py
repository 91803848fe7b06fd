"""Generalised infinitesimal gradient ascent, inside PGIGA (paper 004, appendix C, Algorithm 3)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpstream.arrays import FloatArray
from dpstream.errors import ConfigurationError
from dpstream.learners.online.online_algorithm import StepProblem


@dataclass(frozen=True)
class GradientAscent:
    """``x_{t+1} = P(x_t - grad f_t(x_t) / (alpha (t + t_0)))`` from the origin, on a ball.

    The public offset ``t_0 = ceil(bend / (2 alpha))`` makes every step a contraction by
    ``1 - 1 / (t + t_0)``. Guaranteed: nulling one record moves the iterate after t steps by at
    most ``L / (alpha (t + t_0))`` (``pgiga.proof.md``).

    Attributes:
        ball_radius: of the ball that iterates are projected on; None for ``L / alpha``, which
            never cuts off the best point.
    """

    ball_radius: float | None = None

    def __post_init__(self) -> None:
        if self.ball_radius is not None and not 0 < self.ball_radius < math.inf:
            raise ConfigurationError(
                f"ball_radius is {self.ball_radius}; it must be positive and finite"
            )

    @property
    def name(self) -> str:
        """Its name."""
        return "gradient ascent"

    def offset(self, problem: StepProblem) -> int:
        """``t_0``: steps ``1 / (alpha (t + t_0))`` are at most ``2 / (2 alpha + bend)`` then."""
        return math.ceil(problem.bend / (2.0 * problem.modulus))

    def shift(self, problem: StepProblem, steps: int, *, first: int = 1) -> float:
        """``L / (alpha (t + t_0))`` for every record taken so far."""
        if first > steps:
            return 0.0
        return problem.lipschitz / (problem.modulus * (steps + self.offset(problem)))

    def radius(self, problem: StepProblem) -> float:
        """Of the ball: at most ``L / alpha``, which no step leaves."""
        return min(problem.lipschitz / problem.modulus, self.ball_radius or math.inf)

    def roundings(self, width: int) -> float:
        """Those of the step, and of the norm by which the projection divides."""
        return 0.5 * width + 8.0

    def run(
        self,
        problem: StepProblem,
        rows: FloatArray,
        scales: FloatArray,
        *,
        target_column: int,
        steps: int,
        point: FloatArray,
        total: FloatArray,
    ) -> None:
        """Take one step per row, in place."""
        from dpstream.learners.online.step_kernel import gradient_steps

        loss, threshold = problem.code
        radius = self.radius(problem)
        gradient_steps(
            rows,
            scales,
            target_column,
            loss,
            threshold,
            problem.slope,
            problem.modulus,
            self.offset(problem),
            # No step leaves the ball of radius L / alpha: nothing is to be projected on it.
            radius if radius == self.ball_radius else math.inf,
            steps,
            point,
            total,
        )

    def describe(self) -> Mapping[str, Any]:
        """Its public parameters."""
        return {"name": self.name, "ball_radius": self.ball_radius}
