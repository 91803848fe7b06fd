"""Excess risk along one axis: its slope on logarithmic scales, with an interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from dpstream.arrays import FloatArray

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Excess risk along one axis.

    Attributes:
        name: of the experiment.
        axis: ``"dimension"``, ``"records"`` or ``"epsilon"``.
        expected: the slope that theory gives.
        x: sizes.
        excess: ``(draws, sizes)``.
    """

    name: str
    axis: str
    expected: str
    x: tuple[float, ...]
    excess: FloatArray

    @property
    def mean(self) -> FloatArray:
        """Over draws."""
        return self.excess.mean(axis=0)

    def slope(self) -> tuple[float, float, float]:
        """The slope of log mean excess on log size, and its jackknife interval over draws."""
        draws = len(self.excess)
        centre = _slope(self.x, self.mean)
        left_out = np.array(
            [
                _slope(self.x, np.delete(self.excess, draw, axis=0).mean(axis=0))
                for draw in range(draws)
            ]
        )
        error = math.sqrt((draws - 1) / draws * float(np.sum((left_out - left_out.mean()) ** 2)))
        half = float(stats.t.ppf((1 + CONFIDENCE) / 2, draws - 1)) * error
        return centre, centre - half, centre + half

    def to_json(self) -> dict[str, Any]:
        """Numbers for people and programs."""
        slope, lower, upper = self.slope()
        return {
            "name": self.name,
            "axis": self.axis,
            "expected_slope": self.expected,
            "slope": slope,
            "slope_lower": lower,
            "slope_upper": upper,
            # 1 if the excess grows like log x: what "flat" may hide.
            "slope_against_logarithm": _slope(np.log(np.array(self.x, np.float64)), self.mean)
            if min(self.x) > 1.0
            else None,
            "x": list(self.x),
            "excess": self.mean.tolist(),
            "standard_error": (
                self.excess.std(axis=0, ddof=1) / math.sqrt(len(self.excess))
            ).tolist(),
        }


def _slope(x: Sequence[float] | FloatArray, y: FloatArray) -> float:
    return float(np.polyfit(np.log(np.array(x, np.float64)), np.log(y), 1)[0])
