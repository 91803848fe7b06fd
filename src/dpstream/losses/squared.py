"""The squared loss."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.losses.generalised_linear import SmoothGeneralisedLinearLoss
from dpstream.losses.record_bound import RecordBound


@dataclass(frozen=True, kw_only=True)
class SquaredLoss(SmoothGeneralisedLinearLoss):
    """``(u - y)^2 / 2``. Its slope needs a bounded set; ``l''`` is 1."""

    name: ClassVar[str] = "squared"
    twice_differentiable: ClassVar[bool] = True

    def link(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """``(u - y)^2 / 2``."""
        return (scores - targets) ** 2 / 2

    def derivative(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """``u - y``."""
        return scores - targets

    def second_derivative(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """1."""
        return np.ones(np.broadcast_shapes(scores.shape, targets.shape))

    def proximal(self, scores: FloatArray, targets: FloatArray, steps: FloatArray) -> FloatArray:
        """``(u + c y) / (1 + c)``."""
        return (scores + steps * targets) / (1 + steps)

    def slope_bound(self, bound: RecordBound, score_bound: float) -> float:
        """Largest score plus largest target."""
        return score_bound + bound.target_size

    def bend_bound(self, bound: RecordBound, score_bound: float) -> float:
        """1."""
        return 1.0
