"""The window tree of paper 002, section III: delayed publication of a running sum.

A release at tick ``t`` adds the exact sum of the ticks up to ``t - W`` and a noisy dyadic cover
of the last ``W``. A record is protected while it is live, that is for ``W`` ticks; then its
contribution is published exactly. This is no protection against an observer who keeps watching.

Three rules keep live records private, and all of them hold here by construction: a node's noise
is drawn once and kept; noise is independent between nodes; and a node that holds expired and
live records at once is never measured again or refreshed: covers fall to its sub-nodes.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.lattice import ExactVector
from dpstream.geometry.declaration import require_whole
from dpstream.mechanisms.continual.dyadic import (
    LevelReach,
    Place,
    dyadic_node_error,
    dyadic_rounding_norm,
    dyadic_sensitivity,
)
from dpstream.mechanisms.continual.strategy import Address, Node, Participation, Promise

EXPIRED = -1
"""The level in the address of an exact sum of expired ticks."""


def window_cover(start: int, end: int, top: int) -> Iterator[Place]:
    """The fewest aligned nodes, of level at most ``top``, that make up ``(start, end]``."""
    while start < end:
        aligned = top if start == 0 else min(top, (start & -start).bit_length() - 1)
        level = min(aligned, (end - start).bit_length() - 1)
        yield level, (start >> level) + 1
        start += 1 << level


@dataclass(frozen=True)
class WindowTree:
    """A running sum whose records expire after ``window`` ticks; no horizon.

    Only nodes of at most ``window`` ticks can lie within a window, so a record touches at most
    ``floor(log2 window) + 1`` nodes, for any window and not only for powers of two. Covers are
    smallest for powers of two: at most as many nodes (11 for 1024 ticks, but 15 for 1000).

    Attributes:
        window: W: for how many ticks a record is protected, its own included.
    """

    window: int

    def __post_init__(self) -> None:
        require_whole("window", self.window)

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return "window_tree"

    @property
    def horizon(self) -> None:
        """None: it runs for ever."""
        return

    @property
    def promise(self) -> Promise:
        """Delayed publication: records are protected while they are live."""
        return Promise.WHILE_LIVE

    @property
    def top(self) -> int:
        """The highest level of a node: floor(log2 window)."""
        return self.window.bit_length() - 1

    def levels(self, participation: Participation) -> list[LevelReach]:
        """The levels of nodes, as the live records of one unit see them."""
        return [LevelReach(1 << level, participation.cap) for level in range(self.top + 1)]

    def sensitivity(self, participation: Participation, *, order: int) -> float:
        """The largest shift by the live records of one unit.

        Exact for one record, which touches ``floor(log2 W) + 1`` nodes before it expires, and
        for a unit whose records may all share a tick; otherwise a bound: no more than
        ``per_tick * window`` of a unit's records are live at once.
        """
        live = self._live(participation)
        return dyadic_sensitivity(self.levels(live), live, order=order)

    def rounding_norm(self, participation: Participation, *, order: int) -> float:
        """How many nodes one unit's live records touch, or its square root for ``order=2``."""
        live = self._live(participation)
        return dyadic_rounding_norm(self.levels(live), live, order=order)

    def _live(self, participation: Participation) -> Participation:
        most = min(participation.cap, participation.per_tick * self.window)
        return Participation(cap=most, per_tick=participation.per_tick)

    def node_error(
        self, *, increment_bound: float, increment_exponent: int, node_exponent: int
    ) -> float:
        """Half a lattice step if nodes are on a coarser lattice than increments, else zero."""
        return dyadic_node_error(increment_exponent=increment_exponent, node_exponent=node_exponent)

    def code_bound(self) -> float:
        """The largest noisy node sums this many increments."""
        return float(1 << self.top)

    def cover(self, tick: int) -> Iterator[Place]:
        """The nodes whose disjoint union is the window that ends at ``tick``."""
        return window_cover(max(tick - self.window, 0), tick, self.top)

    def variance(self, tick: int) -> float:
        """One unit of noise for every node of the window's cover."""
        return float(sum(1 for _ in self.cover(tick)))

    def covariance(self, earlier: int, later: int) -> float:
        """One unit of noise for every node that both covers share."""
        return float(len(set(self.cover(earlier)) & set(self.cover(later))))

    def memory(self, tick: int) -> int:
        """The running sums since the window's start: each may become an exact release."""
        return min(tick, self.window) + 1

    def encoder(
        self, dimension: int, *, increment_exponent: int, node_exponent: int
    ) -> "WindowTreeEncoder":
        """A fresh encoder: increments on one lattice, nodes rounded to another."""
        return WindowTreeEncoder(self, dimension, increment_exponent, node_exponent)

    def decoder(self, dimension: int) -> "WindowTreeDecoder":
        """A fresh decoder."""
        return WindowTreeDecoder(self, dimension)


class WindowTreeEncoder:
    """The running sums of the window's ticks; nodes are their differences."""

    def __init__(
        self, strategy: WindowTree, dimension: int, increment_exponent: int, node_exponent: int
    ) -> None:
        self._strategy = strategy
        self._increment_exponent = increment_exponent
        self._node_exponent = node_exponent
        self._tick = 0
        self._sums = deque([ExactVector.zeros(dimension, increment_exponent)])
        self._handed: set[Place] = set()
        self._expired = 0

    @property
    def _start(self) -> int:
        return max(self._tick - self._strategy.window, 0)

    def absorb(self, increment: ExactVector) -> None:
        """Close one tick with its exact increment."""
        total = self._sums[-1].copy()
        total.add(increment)
        self._tick += 1
        self._sums.append(total)
        if len(self._sums) > self._strategy.window + 1:
            self._sums.popleft()

    def nodes(self) -> Sequence[Node]:
        """The nodes of the window's cover that were not handed out, and the expired sum."""
        start = self._start
        handed: list[Node] = []
        if start > self._expired:
            # Everything in it is older than the window: no live record is touched.
            self._expired = start
            handed.append(self._node((EXPIRED, start), self._sums[0], 0.0))
        # A node that reaches behind the window is in no later cover.
        self._handed = {place for place in self._handed if _first(place) >= start}
        for place in self._strategy.cover(self._tick):
            if place not in self._handed:
                self._handed.add(place)
                first = _first(place)
                value = self._sums[first + (1 << place[0]) - start].copy()
                value.subtract(self._sums[first - start])
                handed.append(self._node(place, value, 1.0))
        return handed

    def _node(self, address: Address, value: ExactVector, weight: float) -> Node:
        return Node(address, value.rounded(self._node_exponent), self._node_exponent, weight)

    def snapshot(self) -> dict[str, FloatArray | IntArray]:
        """The whole secret state as arrays."""
        return {
            "tick": np.array([self._tick, self._expired], np.int64),
            "high": np.array([total.high for total in self._sums], np.int64),
            "low": np.array([total.low for total in self._sums], np.int64),
            "handed": _places(self._handed),
        }

    def restore(self, arrays: dict[str, FloatArray | IntArray]) -> None:
        """Take up a snapshot."""
        self._tick, self._expired = (int(number) for number in arrays["tick"])
        high, low = arrays["high"].astype(np.int64), arrays["low"].astype(np.int64)
        self._sums = deque(
            ExactVector(high[row].copy(), low[row].copy(), self._increment_exponent)
            for row in range(high.shape[0])
        )
        self._handed = {(int(level), int(index)) for level, index in arrays["handed"]}


def _first(place: Place) -> int:
    """The tick before a node's first."""
    return (place[1] - 1) << place[0]


def _places(places: set[Place] | dict[Place, FloatArray]) -> IntArray:
    return np.array(sorted(places), np.int64).reshape(len(places), 2)


class WindowTreeDecoder:
    """The noisy nodes that lie within the window, and the last exact sum."""

    def __init__(self, strategy: WindowTree, dimension: int) -> None:
        self._strategy = strategy
        self._expired = np.zeros(dimension)
        self._noisy: dict[Place, FloatArray] = {}

    def observe(self, address: Address, value: FloatArray) -> None:
        """Take one node."""
        level, index = address
        if level == EXPIRED:
            self._expired = value.astype(np.float64)
            self._noisy = {
                place: noisy for place, noisy in self._noisy.items() if _first(place) >= index
            }
        else:
            self._noisy[level, index] = value.astype(np.float64)

    def estimate(self, tick: int) -> FloatArray:
        """The decoded sum at ``tick``."""
        total = self._expired.copy()
        for place in self._strategy.cover(tick):
            total += self._noisy[place]
        return total

    def snapshot(self) -> dict[str, FloatArray | IntArray]:
        """The whole public state as arrays."""
        noisy = [self._noisy[place] for place in sorted(self._noisy)]
        return {
            "expired": self._expired.copy(),
            "places": _places(self._noisy),
            "noisy": np.array(noisy, np.float64).reshape(len(noisy), self._expired.size),
        }

    def restore(self, arrays: dict[str, FloatArray | IntArray]) -> None:
        """Take up a snapshot."""
        self._expired = arrays["expired"].astype(np.float64)
        noisy = arrays["noisy"].astype(np.float64)
        self._noisy = {
            (int(level), int(index)): noisy[row].copy()
            for row, (level, index) in enumerate(arrays["places"])
        }
