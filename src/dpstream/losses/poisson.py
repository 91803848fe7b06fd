"""The Poisson loss with a bounded rate."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.errors import ConfigurationError
from dpstream.geometry.declaration import require_positive
from dpstream.losses.generalised_linear import SmoothGeneralisedLinearLoss, proximal_newton
from dpstream.losses.record_bound import RecordBound


@dataclass(frozen=True, kw_only=True)
class PoissonLoss(SmoothGeneralisedLinearLoss):
    """``rate(u) - y u``, the rate ``exp(u)`` up to ``rate_bound`` and its tangent beyond.

    The negative log-likelihood of counts at rate ``exp(u)``, up to terms without u. An
    unbounded rate has no Lipschitz constant; the tangent keeps the loss convex and once
    differentiable. Its second derivative jumps at the bound.

    Domains map targets to [-1, 1]; ``target_offset`` is what was taken off, in the same units,
    so that counts are ``y + target_offset``. The null record's gradient is zero all the same: its
    features are.

    Attributes:
        rate_bound: the largest slope of the rate.
        target_offset: what a count of zero is away from a target of zero.
    """

    rate_bound: float
    target_offset: float = 0.0
    name: ClassVar[str] = "Poisson"
    twice_differentiable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_positive("rate_bound", self.rate_bound)
        if not math.isfinite(self.target_offset):
            raise ConfigurationError(
                f"target_offset is {self.target_offset}; it must be a finite number"
            )

    @property
    def _knee(self) -> float:
        return math.log(self.rate_bound)

    def link(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """``exp(min(u, k)) + rate_bound (u - k)_+ - y u`` with ``k = ln rate_bound``."""
        beyond = np.maximum(scores - self._knee, 0.0)
        rates = np.exp(np.minimum(scores, self._knee)) + self.rate_bound * beyond
        return rates - (targets + self.target_offset) * scores

    def derivative(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """``min(exp(u), rate_bound) - y``."""
        return np.exp(np.minimum(scores, self._knee)) - (targets + self.target_offset)

    def second_derivative(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """``exp(u)`` up to the bound, 0 beyond."""
        bends = np.where(scores <= self._knee, np.exp(np.minimum(scores, self._knee)), 0.0)
        return np.broadcast_to(bends, np.broadcast_shapes(scores.shape, targets.shape))

    def proximal(self, scores: FloatArray, targets: FloatArray, steps: FloatArray) -> FloatArray:
        """A scalar root, by safeguarded Newton."""
        return proximal_newton(self, scores, targets, steps)

    def slope_bound(self, bound: RecordBound, score_bound: float) -> float:
        """The largest rate over the least target, or the largest target over the least rate."""
        largest = min(math.exp(min(score_bound, self._knee)), self.rate_bound)
        least = math.exp(min(-score_bound, self._knee))
        lower, upper = bound.target_lower, bound.target_upper
        return max(
            abs(largest - (lower + self.target_offset)), abs(upper + self.target_offset - least)
        )

    def bend_bound(self, bound: RecordBound, score_bound: float) -> float:
        """The largest rate that a score can reach, 0 if all lie beyond the bound."""
        if -score_bound > self._knee:
            return 0.0
        return math.exp(min(score_bound, self._knee))
