"""The quantile loss."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.errors import ConfigurationError
from dpstream.losses.generalised_linear import GeneralisedLinearLoss
from dpstream.losses.record_bound import RecordBound


@dataclass(frozen=True, kw_only=True)
class QuantileLoss(GeneralisedLinearLoss):
    """``max(q (y - u), (q - 1) (y - u))``: its minimiser is the q-quantile. Not smooth.

    Attributes:
        level: q, strictly between 0 and 1.
    """

    level: float = 0.5
    name: ClassVar[str] = "quantile"

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise ConfigurationError(f"level is {self.level}; it must lie strictly between 0 and 1")

    def link(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """The two lines."""
        lack = targets - scores
        return np.maximum(self.level * lack, (self.level - 1) * lack)

    def derivative(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """``-q`` below the target, ``1 - q`` above it, 0 on it."""
        lack = targets - scores
        return np.where(lack > 0, -self.level, np.where(lack < 0, 1 - self.level, 0.0))

    def proximal(self, scores: FloatArray, targets: FloatArray, steps: FloatArray) -> FloatArray:
        """A step towards the target, stopped there."""
        lack = targets - scores
        return scores + np.clip(lack, -(1 - self.level) * steps, self.level * steps)

    def slope_bound(self, bound: RecordBound, score_bound: float) -> float:
        """The steeper line that a score can reach."""
        below = self.level if -score_bound < bound.target_upper else 0.0
        above = 1 - self.level if score_bound > bound.target_lower else 0.0
        return max(below, above)
