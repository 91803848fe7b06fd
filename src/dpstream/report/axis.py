"""One axis of a picture: where its numbers fall, which of them are marked, and how they read."""

import math
from dataclasses import dataclass

import numpy as np

from dpstream.arrays import FloatArray

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_MARKS = 5
_PAD = 0.04
_FEWEST_DECADES = 2


@dataclass(frozen=True)
class Axis:
    """Maps numbers to the interval 0 to 1.

    Attributes:
        low: the number at 0, or its logarithm to the base 10.
        high: the number at 1, or its logarithm.
        logarithmic: whether equal factors take equal room.
    """

    low: float
    high: float
    logarithmic: bool = False

    def place(self, values: FloatArray) -> FloatArray:
        """Where the numbers fall; what cannot be shown is not a number."""
        shown = np.asarray(values, np.float64)
        if self.logarithmic:
            shown = np.log10(np.where(shown > 0, shown, np.nan))
        shown = np.where(np.isfinite(shown), shown, np.nan)
        return (shown - self.low) / (self.high - self.low)

    def marks(self) -> list[float]:
        """Round numbers on the axis, about five of them."""
        if not self.logarithmic:
            return _round_numbers(self.low, self.high)
        decades = range(math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9) + 1)
        if len(decades) > _FEWEST_DECADES:
            stride = math.ceil(len(decades) / (_MARKS + 1))
            return [10.0**power for power in decades if power % stride == 0]
        powers = range(math.floor(self.low), math.ceil(self.high) + 1)
        found = [part * 10.0**power for power in powers for part in (1, 2, 5)]
        within = [value for value in found if self.low <= math.log10(value) <= self.high]
        return within or [10.0**self.low]


def _round_numbers(low: float, high: float) -> list[float]:
    least = (high - low) / _MARKS
    scale = 10.0 ** math.floor(math.log10(least))
    step = next(part * scale for part in _STEPS if part * scale >= least * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def fit_axis(values: FloatArray, *, logarithmic: bool = False, padded: bool = True) -> Axis:
    """The axis that shows all finite numbers, with a little room at its ends."""
    shown = values[np.isfinite(values)]
    if logarithmic:
        shown = np.log10(shown[shown > 0])
    if not len(shown):
        return Axis(0.0, 1.0, logarithmic)
    low, high = float(shown.min()), float(shown.max())
    if high - low <= 1e-12 * max(abs(low), abs(high), 1e-300):
        half = 0.5 if logarithmic or low == 0.0 else 0.1 * abs(low)
        return Axis(low - half, high + half, logarithmic)
    room = _PAD * (high - low) if padded else 0.0
    return Axis(low - room, high + room, logarithmic)


def mark_text(value: float) -> str:
    """A round number, short: 0.02, 15, 20k, 3M, 1e-6."""
    size = abs(value)
    if size < 1e-12:
        return "0"
    if size >= 1e9 or size < 1e-3:
        text = f"{value:.3g}"
        return text.replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    for limit, suffix in ((1e6, "M"), (1e4, "k")):
        if size >= limit:
            return f"{value / (1e6 if suffix == 'M' else 1e3):.4g}{suffix}"
    return f"{value:.4g}"
