"""The Poisson loss with a bounded rate."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.geometry.declaration import require_positive
from dpstream.losses.generalised_linear import SmoothGeneralisedLinearLoss, proximal_newton
from dpstream.losses.record_bound import RecordBound


@dataclass(frozen=True, kw_only=True)
class PoissonLoss(SmoothGeneralisedLinearLoss):
    """``rate(u) - y u``, the rate ``exp(u)`` up to ``rate_bound`` and its tangent beyond.

    The negative log-likelihood of counts at rate ``exp(u)``, up to terms without u. An
    unbounded rate has no Lipschitz constant; the tangent keeps the loss convex and once
    differentiable. Its second derivative jumps at the bound.

    Attributes:
        rate_bound: the largest slope of the rate.
    """

    rate_bound: float
    name: ClassVar[str] = "Poisson"
    twice_differentiable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_positive("rate_bound", self.rate_bound)

    @property
    def _knee(self) -> float:
        return math.log(self.rate_bound)

    def link(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """``exp(min(u, k)) + rate_bound (u - k)_+ - y u`` with ``k = ln rate_bound``."""
        beyond = np.maximum(scores - self._knee, 0.0)
        return np.exp(np.minimum(scores, self._knee)) + self.rate_bound * beyond - targets * scores

    def derivative(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """``min(exp(u), rate_bound) - y``."""
        return np.exp(np.minimum(scores, self._knee)) - targets

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
        return max(abs(largest - bound.target_lower), abs(bound.target_upper - least))

    def bend_bound(self, bound: RecordBound, score_bound: float) -> float:
        """The largest rate that a score can reach, 0 if all lie beyond the bound."""
        if -score_bound > self._knee:
            return 0.0
        return math.exp(min(score_bound, self._knee))
