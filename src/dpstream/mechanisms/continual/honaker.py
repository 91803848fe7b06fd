"""Honaker's estimate on the binary tree: the same measurements, less error.

A node's sum is measured by itself and, again, by the sum of its children's estimates. The two
are independent, so weighing them by inverse variance is the best linear unbiased estimate from
the node's whole subtree, and from all completed nodes (the cover's subtrees share no noise).
It is the best estimate a dyadic tree allows online; its cost is that every completed node is
measured, where the plain tree measures the cover alone.
"""

from dataclasses import dataclass
from functools import lru_cache

from dpstream.mechanisms.continual.dyadic import (
    DyadicStrategy,
    dyadic_rounding_norm,
    dyadic_sensitivity,
)
from dpstream.mechanisms.continual.strategy import Participation
from dpstream.mechanisms.continual.tree import tree_levels


@lru_cache(maxsize=4096)
def bottom_up_variance(level: int, weight: float, root_weight: float) -> float:
    """Variance of the best estimate of a full subtree's root.

    The recursion ``1/v = 1/weight^2 + 1/(2 v_below)``.

    Args:
        level: height of the root; 0 is a leaf.
        weight: noise weight of every node below the root.
        root_weight: noise weight of the root.
    """
    own = root_weight**2
    if level == 0:
        return own
    below = 2.0 * bottom_up_variance(level - 1, weight, weight)
    return own * below / (own + below)


def bottom_up_share(level: int, weight: float, root_weight: float) -> float:
    """Share of the root's own measurement in its best estimate: ``v / root_weight^2``."""
    return bottom_up_variance(level, weight, root_weight) / root_weight**2


@dataclass(frozen=True)
class HonakerTree(DyadicStrategy):
    """The tight binary tree with Honaker's bottom-up estimate.

    Attributes:
        horizon: the last tick.
    """

    horizon: int

    def __post_init__(self) -> None:
        tree_levels(self.horizon)

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return "honaker_tree"

    def sensitivity(self, participation: Participation, *, order: int) -> float:
        """The largest shift of one unit: that of the binary tree, whose nodes these are."""
        return dyadic_sensitivity(tree_levels(self.horizon), participation, order=order)

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
        """Inverse-variance share of the node's own measurement."""
        return bottom_up_share(level, 1.0, 1.0)

    def node_variance(self, level: int, index: int) -> float:
        """Variance of the best estimate from the node's subtree."""
        return bottom_up_variance(level, 1.0, 1.0)
