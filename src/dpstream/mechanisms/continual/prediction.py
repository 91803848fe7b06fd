"""How noisy a continual sum will be, from public numbers, before any data."""

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.mechanisms.continual.strategy import Strategy

_DENSE = 4096
"""Up to so many ticks every one is looked at."""


def revealing_ticks(last: int, *, most: int = _DENSE) -> IntArray:
    """Ticks at which the variance of every strategy shown here is largest, and a fair sample.

    All ticks if there are few. Otherwise a geometric and an even grid; the last ticks; powers of
    two and their neighbours; and the ticks of most binary ones up to ``last`` (``last`` with one
    bit cleared and all lower ones set), where sums over dyadic nodes are noisiest.
    """
    if last <= most:
        return np.arange(1, last + 1)
    grid = np.unique(np.geomspace(1, last, most // 2).round().astype(np.int64))
    even = np.linspace(1, last, most // 2).round().astype(np.int64)
    powers = 2 ** np.arange(last.bit_length())
    ones = [(last >> bit << bit) - 1 for bit in range(last.bit_length()) if last >> bit & 1]
    near = np.concatenate([powers - 1, powers, powers + 1, ones, np.arange(last - 64, last + 1)])
    ticks = np.unique(np.concatenate([grid, even, near]))
    return ticks[(ticks >= 1) & (ticks <= last)]


def standard_deviations(strategy: Strategy, ticks: IntArray, *, scale: float = 1.0) -> FloatArray:
    """Standard deviation of the decoded sum per coordinate at each tick, for ``sigma = scale``."""
    return scale * np.sqrt([strategy.variance(int(tick)) for tick in ticks])


def largest_standard_deviation(
    strategy: Strategy, last: int, *, scale: float = 1.0
) -> tuple[float, int]:
    """The largest standard deviation up to ``last`` and the tick where it is reached."""
    ticks = revealing_ticks(last)
    values = standard_deviations(strategy, ticks, scale=scale)
    worst = int(np.argmax(values))
    return float(values[worst]), int(ticks[worst])


def most_memory(strategy: Strategy, last: int) -> int:
    """The most exact vectors that the encoder holds at any tick up to ``last``."""
    return max(strategy.memory(int(tick)) for tick in revealing_ticks(last))
