"""The binary tree for a known horizon: paper 000, appendix D (TreeMech); paper 004, Algorithm 5.

Every dyadic sum that fits into the horizon is measured once, with equal noise; the released sum
adds the nodes of its cover. Paper 000 budgets ``log T`` nodes for a record, which is one too few
where it matters; the count is ``floor(log2 T) + 1``, and only its square root enters the noise.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.errors import ConfigurationError
from dpstream.mechanisms.continual.dyadic import (
    DyadicStrategy,
    LevelReach,
    cover,
    dyadic_rounding_norm,
    dyadic_sensitivity,
)
from dpstream.mechanisms.continual.strategy import Participation


def tree_levels(ticks: int) -> list[LevelReach]:
    """The levels of the dyadic nodes that lie within ``1..ticks``.

    Raises:
        ConfigurationError: if the horizon is not a positive number of ticks.
    """
    if ticks < 1:
        raise ConfigurationError(f"a tree's horizon is {ticks}; it must be at least 1 tick")
    return [LevelReach(1 << level, ticks >> level) for level in range(ticks.bit_length())]


EXACT_CAP = 1024
"""Up to this cap a unit's worst ticks are found exactly; beyond it all nodes are counted."""


def tree_sensitivity(ticks: int, participation: Participation, *, order: int) -> float:
    """The largest shift of one unit over the nodes that covers can use.

    A cover's nodes have odd indices: a node of even index completes together with its parent,
    which takes its place. So the worst multiset of a unit's ticks maximises the sum of
    ``count^order`` over odd nodes, ``F_h(m) = m^order + G_h(m)`` under an odd node of height
    ``h``, where ``G_h(m) = max_j F_{h-1}(j) + G_{h-1}(m - j)`` is the same under an even one.
    All roots of the forest are odd, and share the unit's records in the best way.
    """
    levels = tree_levels(ticks)
    if participation.cap > EXACT_CAP:
        return dyadic_sensitivity(levels, participation, order=order)
    most = participation.cap
    count = np.arange(min(most, participation.per_tick) + 1)
    even = [np.zeros(count.size)]
    odd = [count.astype(np.float64) ** order]
    for level in levels[1:]:
        room = min(most, level.size * participation.per_tick)
        even.append(_share_out(odd[-1], even[-1], room))
        odd.append(even[-1] + np.arange(room + 1, dtype=np.float64) ** order)
    forest = np.zeros(1)
    for level, _ in cover(ticks):
        forest = _share_out(forest, odd[level], min(most, forest.size + odd[level].size - 2))
    worst = float(forest.max())
    return worst if order == 1 else math.sqrt(worst)


def _share_out(first: FloatArray, second: FloatArray, room: int) -> FloatArray:
    """The best total of two parts for every number of records up to ``room``."""
    best = np.zeros(room + 1)
    for records, value in enumerate(first):
        reach = min(second.size, room + 1 - records)
        part = best[records : records + reach]
        np.maximum(part, value + second[:reach], out=part)
    return best


@dataclass(frozen=True)
class BinaryTree(DyadicStrategy):
    """The tight binary tree.

    A release needs its cover only, so a node is measured when the first release needs it and
    never if none does. Memory is one exact vector per set bit of the tick.

    Attributes:
        horizon: the last tick.
    """

    horizon: int

    def __post_init__(self) -> None:
        tree_levels(self.horizon)

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return "binary_tree"

    def sensitivity(self, participation: Participation, *, order: int) -> float:
        """The largest shift of one unit: exact for caps up to ``EXACT_CAP``, else a bound.

        The first record touches one node on each of ``floor(log2 T) + 1`` levels.
        """
        return tree_sensitivity(self.horizon, participation, order=order)

    def rounding_norm(self, participation: Participation, *, order: int) -> float:
        """How many nodes one unit's records touch, or its square root for ``order=2``."""
        return dyadic_rounding_norm(tree_levels(self.horizon), participation, order=order)

    def code_bound(self) -> float:
        """The largest node sums this many increments."""
        return float(1 << (self.horizon.bit_length() - 1))

    def memory(self, tick: int) -> int:
        """One exact vector per node of the cover."""
        return tick.bit_count()

    def weight(self, level: int, index: int) -> float:
        """All nodes carry equal noise."""
        return 1.0

    def share(self, level: int, index: int) -> float:
        """A node's estimate is its own measurement."""
        return 1.0

    def node_variance(self, level: int, index: int) -> float:
        """One unit of noise."""
        return 1.0
