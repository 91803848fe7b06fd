"""Online algorithms with a declared sensitivity: what output perturbation can make private.

Every record is one step on ``f_t = loss(<z_t, x>, y_t) + (alpha / 2) |x|^2``. An algorithm either
takes a step at a time, or keeps the records and finds the leader of all of them when it is asked.
Its iterate is secret. What it declares is how far one record can move the iterate after t steps.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeGuard

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.errors import ConfigurationError
from dpstream.losses.generalised_linear import GeneralisedLinearLoss
from dpstream.losses.hinge import HingeLoss
from dpstream.losses.huber import HuberLoss
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.loss_code import loss_code
from dpstream.losses.squared import SquaredLoss

_KNOWN = (LogisticLoss, SquaredLoss, HuberLoss, HingeLoss)


def online_loss_code(loss: object) -> tuple[int, float] | None:
    """The loss as the online loops know it, and its threshold; None if they do not know it."""
    return loss_code(loss) if type(loss) in _KNOWN else None


@dataclass(frozen=True, kw_only=True)
class StepProblem:
    """The public side of every record's function.

    Attributes:
        loss: logistic, squared, Huber or hinge.
        slope: bound to which slopes are clipped: the clipped loss is convex again.
        length: the largest norm of a record's features, its constant included.
        modulus: alpha, of the regulariser.
        domain: of the records.
        clipped: whether slopes are clipped below the loss's own bound, or in place of it.
    """

    loss: GeneralisedLinearLoss
    slope: float
    length: float
    modulus: float
    domain: Domain
    clipped: bool = False

    @cached_property
    def lipschitz(self) -> float:
        """The largest gradient of a record's own part: the regulariser's cancels."""
        return self.slope * self.length

    @cached_property
    def bend(self) -> float:
        """The largest second derivative of a record's own part along its features.

        Raises:
            ConfigurationError: if the loss is not smooth.
        """
        if isinstance(self.loss, LogisticLoss):
            return 0.25 * self.length**2
        if isinstance(self.loss, SquaredLoss | HuberLoss):
            return self.length**2
        raise ConfigurationError(
            f"the {self.loss.name} loss is not smooth, and explicit gradient steps need it; take "
            "the implicit algorithm, or a smooth loss"
        )

    @cached_property
    def code(self) -> tuple[int, float]:
        """The loss as the compiled loops know it, and its threshold.

        Raises:
            ConfigurationError: if they do not know it.
        """
        known = online_loss_code(self.loss)
        if known is None:
            raise ConfigurationError(
                f"the {self.loss.name} loss has no compiled step; perturbed learners take "
                "logistic, squared, Huber or hinge losses"
            )
        return known


class OnlineAlgorithm(Protocol):
    """An online algorithm over one problem, with a declared sensitivity."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    def shift(self, problem: StepProblem, steps: int, *, first: int = 1) -> float:
        """How far the iterate after ``steps`` moves if the record of step ``first`` is nulled.

        An upper bound over all streams, for exact arithmetic; for stepping algorithms of the form
        ``(L / alpha) / (t + t_0)``. Replacing a record costs at most twice that.

        Raises:
            ConfigurationError: if the algorithm does not take the problem.
        """
        ...

    def describe(self) -> Mapping[str, Any]:
        """Its public parameters."""
        ...


class SteppingAlgorithm(OnlineAlgorithm, Protocol):
    """An algorithm that keeps its iterate and takes one step per record."""

    def radius(self, problem: StepProblem) -> float:
        """A bound on the norm of every iterate."""
        ...

    def roundings(self, width: int) -> float:
        """How often a step rounds its result, in units of ``2^-53`` of the radius."""
        ...

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
        """Take one step per row, in place.

        Args:
            problem: the functions.
            rows: ``(n, >= target_column + 1)`` admitted rows, features first.
            scales: of each feature, then of the target.
            target_column: where the target is.
            steps: taken so far.
            point: the iterate.
            total: the sum of all iterates.
        """
        ...


class RememberingAlgorithm(OnlineAlgorithm, Protocol):
    """An algorithm that keeps the records and finds its iterate when it is asked."""

    def inexactness(self, problem: StepProblem, steps: int) -> float:
        """A bound on how far a found iterate is from the exact one, whatever the records."""
        ...

    def leader(self, problem: StepProblem, batch: Batch) -> FloatArray:
        """The iterate after the batch's records: secret."""
        ...


def takes_steps(algorithm: OnlineAlgorithm) -> TypeGuard[SteppingAlgorithm]:
    """Whether it takes a step per record. Cheap, for releases may come at every record."""
    return hasattr(algorithm, "run")


def remembers(algorithm: OnlineAlgorithm) -> TypeGuard[RememberingAlgorithm]:
    """Whether it keeps the records and finds its leader when asked."""
    return hasattr(algorithm, "leader")
