"""Implicit gradient descent, the algorithm inside PIGD (paper 004, appendix B, Algorithm 2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpstream.arrays import FloatArray
from dpstream.learners.online.online_algorithm import StepProblem


@dataclass(frozen=True)
class ImplicitGradientDescent:
    """``x_{t+1} = argmin |x - x_t|^2 / 2 + f_t(x) / (alpha t)``, from the origin.

    For generalised linear losses the step is a scalar root. Guaranteed: nulling one record moves
    the iterate after t steps by at most ``L / (alpha (t + 1))`` with L the Lipschitz constant of
    the record's own part, whichever record it is (``pigd.proof.md``).
    """

    @property
    def name(self) -> str:
        """Its name."""
        return "implicit gradient descent"

    def shift(self, problem: StepProblem, steps: int, *, first: int = 1) -> float:
        """``L / (alpha (t + 1))`` for every record taken so far."""
        if first > steps:
            return 0.0
        return problem.lipschitz / (problem.modulus * (steps + 1))

    def radius(self, problem: StepProblem) -> float:
        """``L / alpha``: an iterate is ``t / (t + 1)`` of the last plus at most its share of it."""
        return problem.lipschitz / problem.modulus

    def roundings(self, width: int) -> float:
        """A product, a product and a difference in each coordinate."""
        return 4.0

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
        from dpstream.learners.online.step_kernel import implicit_steps

        loss, threshold = problem.code
        implicit_steps(
            rows,
            scales,
            target_column,
            loss,
            threshold,
            problem.slope,
            problem.modulus,
            steps,
            point,
            total,
        )

    def describe(self) -> Mapping[str, Any]:
        """Its public parameters."""
        return {"name": self.name}
