"""Huber's loss, and its smooth relative."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.geometry.declaration import require_positive
from dpstream.losses.generalised_linear import SmoothGeneralisedLinearLoss, proximal_newton
from dpstream.losses.record_bound import RecordBound


@dataclass(frozen=True, kw_only=True)
class HuberLoss(SmoothGeneralisedLinearLoss):
    """``r^2 / 2`` for residuals ``r = u - y`` up to the threshold k, ``k |r| - k^2 / 2`` beyond.

    Its second derivative jumps.

    Attributes:
        threshold: k.
    """

    threshold: float = 1.0
    name: ClassVar[str] = "Huber"
    twice_differentiable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_positive("threshold", self.threshold)

    def link(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """Quadratic, then linear."""
        sizes = np.abs(scores - targets)
        bent = np.minimum(sizes, self.threshold)
        return bent * (sizes - bent / 2)

    def derivative(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """The clipped residual."""
        return np.clip(scores - targets, -self.threshold, self.threshold)

    def second_derivative(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """1 on the quadratic part."""
        return np.where(np.abs(scores - targets) <= self.threshold, 1.0, 0.0)

    def proximal(self, scores: FloatArray, targets: FloatArray, steps: FloatArray) -> FloatArray:
        """The quadratic answer, its slope clipped."""
        slope = (scores - targets) / (1 + steps)
        return scores - steps * np.clip(slope, -self.threshold, self.threshold)

    def slope_bound(self, bound: RecordBound, score_bound: float) -> float:
        """The threshold, or the largest residual if smaller."""
        return min(self.threshold, score_bound + bound.target_size)

    def bend_bound(self, bound: RecordBound, score_bound: float) -> float:
        """1 if some residual is within the threshold."""
        least = max(bound.target_lower, -bound.target_upper, 0.0) - score_bound
        return 1.0 if least <= self.threshold else 0.0


@dataclass(frozen=True, kw_only=True)
class PseudoHuberLoss(SmoothGeneralisedLinearLoss):
    """``k^2 (sqrt(1 + (r / k)^2) - 1)`` for residuals ``r = u - y``: smooth everywhere.

    Attributes:
        threshold: k, where quadratic turns to linear.
    """

    threshold: float = 1.0
    name: ClassVar[str] = "pseudo-Huber"
    twice_differentiable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_positive("threshold", self.threshold)

    def link(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """In the form ``r^2 / (1 + sqrt(1 + (r / k)^2))``, exact for small residuals."""
        residual = scores - targets
        return residual**2 / (1 + np.hypot(1.0, residual / self.threshold))

    def derivative(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """``r / sqrt(1 + (r / k)^2)``."""
        residual = scores - targets
        return residual / np.hypot(1.0, residual / self.threshold)

    def second_derivative(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """``(1 + (r / k)^2)^(-3/2)``."""
        return np.hypot(1.0, (scores - targets) / self.threshold) ** -3.0

    def proximal(self, scores: FloatArray, targets: FloatArray, steps: FloatArray) -> FloatArray:
        """A scalar root, by safeguarded Newton."""
        return proximal_newton(self, scores, targets, steps)

    def slope_bound(self, bound: RecordBound, score_bound: float) -> float:
        """At the largest residual; the threshold in the limit."""
        residual = score_bound + bound.target_size
        if math.isinf(residual):
            return self.threshold
        return residual / math.hypot(1.0, residual / self.threshold)

    def bend_bound(self, bound: RecordBound, score_bound: float) -> float:
        """1, at residual 0, or at the smallest residual there is."""
        least = max(max(bound.target_lower, -bound.target_upper, 0.0) - score_bound, 0.0)
        return math.hypot(1.0, least / self.threshold) ** -3.0
