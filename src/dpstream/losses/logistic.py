"""The logistic loss."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from dpstream.arrays import FloatArray
from dpstream.losses.generalised_linear import SmoothGeneralisedLinearLoss, proximal_newton
from dpstream.losses.record_bound import RecordBound


@dataclass(frozen=True, kw_only=True)
class LogisticLoss(SmoothGeneralisedLinearLoss):
    """``ln(1 + exp(-y u))``, for labels y in [-1, 1]."""

    name: ClassVar[str] = "logistic"
    twice_differentiable: ClassVar[bool] = True

    def link(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """``ln(1 + exp(-y u))``."""
        return np.logaddexp(0.0, -targets * scores)

    def derivative(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """``-y / (1 + exp(y u))``."""
        return -targets * special.expit(-targets * scores)

    def second_derivative(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """``y^2 p (1 - p)``."""
        margins = targets * scores
        return targets**2 * special.expit(margins) * special.expit(-margins)

    def proximal(self, scores: FloatArray, targets: FloatArray, steps: FloatArray) -> FloatArray:
        """A scalar root, by safeguarded Newton."""
        return proximal_newton(self, scores, targets, steps)

    def slope_bound(self, bound: RecordBound, score_bound: float) -> float:
        """At the largest label and the most wrong score: ``Y / (1 + exp(-Y B))``."""
        size = bound.target_size
        return size / (1 + math.exp(-size * score_bound)) if size > 0 else 0.0

    def bend_bound(self, bound: RecordBound, score_bound: float) -> float:
        """``Y^2 / 4``, at score 0."""
        return bound.target_size**2 / 4
