"""Following the exact leader, or the regularised one, inside POCP (paper 004, section 3)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.errors import ConfigurationError
from dpstream.geometry.l2_ball import L2Ball
from dpstream.learners.online.online_algorithm import StepProblem
from dpstream.losses.generalised_linear import SmoothGeneralisedLinearLoss
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.solvers.minimiser import Target, distance_bound, least_tolerance, minimise
from dpstream.solvers.problem import Problem

TOLERANCE_SHARE = 2.0**-10
"""Of a record's own influence: what a certificate may leave open, where floats allow."""


@dataclass(frozen=True)
class ExactLeader:
    """``x_t = argmin sum_{s <= t} f_s(x) + (weight / 2) |x|^2``, found when it is asked for.

    Without weight the algorithm follows the leader, with weight the regularised leader: then
    alpha may be 0, for losses that are convex only. It keeps all records.

    Guaranteed: nulling one record moves the exact leader of t records by at most
    ``L / (alpha t + weight)``, whichever record it is, and a found leader is within
    ``inexactness`` of it (``exact_leader.proof.md``).

    Attributes:
        weight: of the regulariser that stands before the first record.
    """

    weight: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise ConfigurationError(f"weight is {self.weight}; it must be finite and at least 0")

    @property
    def name(self) -> str:
        """Its name."""
        return "regularised leader" if self.weight > 0 else "leader"

    def modulus(self, problem: StepProblem, steps: int) -> float:
        """Strong convexity of the sum of t functions.

        Raises:
            ConfigurationError: if it is zero, or the loss is none whose leader can be certified.
        """
        if not isinstance(problem.loss, SmoothGeneralisedLinearLoss):
            raise ConfigurationError(
                f"the {problem.loss.name} loss is not smooth, and the exact leader needs it; take "
                "the implicit algorithm, or a smooth loss"
            )
        if problem.clipped:
            raise ConfigurationError(
                "slope_clip is given, but the exact leader minimises the loss as it is; drop it, "
                "or take a loss of bounded slope such as huber (for squared losses: PQFTL)"
            )
        if problem.domain.record_bound != "l2":
            raise ConfigurationError(
                f"the domain bounds records by {problem.domain.record_bound!r}; the exact leader "
                'takes record_bound = "l2"'
            )
        total = problem.modulus * steps + self.weight
        if not total > 0:
            raise ConfigurationError(
                "the leader's strong convexity is zero, so one record could move it without "
                "bound; give modulus or weight"
            )
        return total

    def shift(self, problem: StepProblem, steps: int, *, first: int = 1) -> float:
        """``L / (alpha t + weight)`` for every record so far."""
        modulus = self.modulus(problem, steps)
        return 0.0 if first > steps else problem.lipschitz / modulus

    def inexactness(self, problem: StepProblem, steps: int) -> float:
        """What the certificate leaves open."""
        target = self._target(problem, steps)
        return distance_bound(self._tolerance(problem, target), target.modulus)

    def leader(self, problem: StepProblem, batch: Batch) -> FloatArray:
        """The certified leader of a batch: secret."""
        target = self._target(problem, len(batch))
        return minimise(target, batch, tolerance=self._tolerance(problem, target)).point

    def describe(self) -> Mapping[str, Any]:
        """Its public parameters."""
        return {"name": self.name, "weight": self.weight}

    def _target(self, problem: StepProblem, steps: int) -> Target:
        """The leader's problem as an average, on a ball that holds every leader."""
        modulus = self.modulus(problem, steps) / steps
        width = problem.domain.dimension + int(problem.domain.intercept)
        average = Problem(
            loss=problem.loss,
            # Beyond this ball the regulariser's gradient outweighs all records'.
            convex_set=L2Ball(dimension=width, radius=problem.lipschitz / modulus),
            domain=problem.domain,
            records=steps,
            # Neither enters a minimum: sensitivity is declared by ``shift``.
            neighbours=Neighbours.ZERO_OUT,
            unit=Unit(),
        )
        return Target(problem=average, modulus=modulus, centre=np.zeros(width))

    def _tolerance(self, problem: StepProblem, target: Target) -> float:
        """On the mean gradient: a share of one record's, or what floats can certify."""
        own = TOLERANCE_SHARE * problem.lipschitz / target.problem.records
        return max(own, 2.0 * least_tolerance(target))
