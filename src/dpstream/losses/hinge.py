"""The hinge loss, and its smoothed form."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.geometry.declaration import require_positive
from dpstream.losses.generalised_linear import GeneralisedLinearLoss, SmoothGeneralisedLinearLoss
from dpstream.losses.record_bound import RecordBound


@dataclass(frozen=True, kw_only=True)
class HingeLoss(GeneralisedLinearLoss):
    """``max(0, 1 - y u)``, for labels y in [-1, 1]. Not smooth."""

    name: ClassVar[str] = "hinge"

    def link(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """``max(0, 1 - y u)``."""
        return np.maximum(0.0, 1 - targets * scores)

    def derivative(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """``-y`` below margin 1, else 0."""
        return np.where(targets * scores < 1, -targets, 0.0)

    def proximal(self, scores: FloatArray, targets: FloatArray, steps: FloatArray) -> FloatArray:
        """A full step ``u + c y``, stopped at the kink."""
        lack = np.maximum(1 - targets * scores, 0.0)
        squares = targets**2
        # Compared before it is divided: the squares of tiny labels underflow to zero.
        stops = lack < steps * squares
        return scores + targets * np.where(stops, lack / np.where(stops, squares, 1.0), steps)

    def slope_bound(self, bound: RecordBound, score_bound: float) -> float:
        """The largest label: at score 0 the margin is below 1."""
        return bound.target_size


@dataclass(frozen=True, kw_only=True)
class SmoothedHingeLoss(SmoothGeneralisedLinearLoss):
    """The hinge with its kink rounded off (Rennie and Srebro 2005).

    For margins ``m = y u`` and width h: 0 above 1, ``(1 - m)^2 / (2 h)`` down to ``1 - h``,
    then ``1 - m - h / 2``. Its second derivative jumps.

    Attributes:
        width: h, of the quadratic part.
    """

    width: float = 1.0
    name: ClassVar[str] = "smoothed hinge"
    twice_differentiable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_positive("width", self.width)

    def link(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """The three pieces."""
        lack = 1 - targets * scores
        bent = np.clip(lack, 0.0, self.width)
        return bent**2 / (2 * self.width) + np.maximum(lack - self.width, 0.0)

    def derivative(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """``-y`` times the clipped lack of margin over h."""
        return -targets * np.clip((1 - targets * scores) / self.width, 0.0, 1.0)

    def second_derivative(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """``y^2 / h`` on the quadratic part."""
        lack = 1 - targets * scores
        return np.where((lack >= 0) & (lack <= self.width), targets**2 / self.width, 0.0)

    def proximal(self, scores: FloatArray, targets: FloatArray, steps: FloatArray) -> FloatArray:
        """The quadratic piece's answer, its slope clipped to the outer pieces'."""
        slope = (1 - targets * scores) / (self.width + steps * targets**2)
        return scores + steps * targets * np.clip(slope, 0.0, 1.0)

    def slope_bound(self, bound: RecordBound, score_bound: float) -> float:
        """At the largest label and the most wrong score."""
        size = bound.target_size
        return size * min((1 + size * score_bound) / self.width, 1.0)

    def bend_bound(self, bound: RecordBound, score_bound: float) -> float:
        """``Y^2 / h`` if a score reaches the quadratic part."""
        size = bound.target_size
        return size**2 / self.width if 1 - size * score_bound <= self.width else 0.0
