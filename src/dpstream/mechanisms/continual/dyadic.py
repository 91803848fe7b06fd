"""Sums over dyadic intervals: what the tree strategies have in common.

The node ``(level, index)`` sums the ticks ``((index - 1) 2^level, index 2^level]``. The ticks
``1..t`` are the disjoint union of one node per set bit of ``t``: their *cover*. In the papers'
terms these are the partial sums a_j of paper 000's TreeMech (appendix D).

A tree strategy says of every node how loud its noise is (``weight``, infinite if it is never
measured) and how much of its estimate is its own measurement rather than the sum of its
children's estimates (``share``). Encoder, decoder, variance and covariance follow.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.lattice import ExactVector
from dpstream.mechanisms.continual.pending import refuse_past_horizon
from dpstream.mechanisms.continual.strategy import Address, Node, Participation, Promise

Place = tuple[int, int]
"""A node's level and its index on that level, from 1."""


def cover(tick: int) -> Iterator[Place]:
    """The nodes whose disjoint union is ``1..tick``, from the oldest to the newest."""
    for level in range(tick.bit_length() - 1, -1, -1):
        if tick >> level & 1:
            yield level, tick >> level


def dyadic_node_error(*, increment_exponent: int, node_exponent: int) -> float:
    """Error of a node's coordinate: sums are exact, so only a coarser lattice costs anything."""
    if node_exponent <= increment_exponent:
        return 0.0
    return math.ldexp(1.0, node_exponent - 1)


@dataclass(frozen=True)
class LevelReach:
    """One level of disjoint nodes, as one unit's records see it.

    Attributes:
        size: ticks under one node.
        count: how many such nodes there are, at most.
        weight: the noise weight of every node of the level.
    """

    size: int
    count: int
    weight: float = 1.0


def dyadic_sensitivity(
    levels: Iterable[LevelReach], participation: Participation, *, order: int
) -> float:
    """Norm of one unit's largest shift, where every level's nodes are disjoint.

    At most ``capacity = size * per_tick`` of a unit's records fall under one node. On each level
    the sum of squared counts is largest when nodes are filled one after another (it is convex),
    and records in consecutive ticks from a boundary of all levels, ``per_tick`` in each, fill
    every level so at once. Hence the bound is attained wherever such a place exists.
    """
    total = 0.0
    for level in levels:
        capacity = level.size * participation.per_tick
        full, rest = divmod(participation.cap, capacity)
        if full >= level.count:
            full, rest = level.count, 0
        if order == 1:
            total += (full * capacity + rest) / level.weight
        else:
            total += (full * capacity**2 + rest**2) / level.weight**2
    return total if order == 1 else math.sqrt(total)


def dyadic_rounding_norm(
    levels: Iterable[LevelReach], participation: Participation, *, order: int
) -> float:
    """Norm of ``1/weight`` over the most nodes that one unit's records can touch."""
    touched = [(min(level.count, participation.cap), level.weight) for level in levels]
    if order == 1:
        return math.fsum(count / weight for count, weight in touched)
    return math.sqrt(math.fsum(count / weight**2 for count, weight in touched))


@dataclass(frozen=True)
class DyadicStrategy(ABC):
    """Part of a strategy: a running sum measured on dyadic nodes.

    Attributes:
        horizon: the last tick, or None if there is none.
    """

    horizon: int | None

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name in the catalogue."""

    @abstractmethod
    def weight(self, level: int, index: int) -> float:
        """The noise weight of a node; infinite if it is never measured."""

    @abstractmethod
    def share(self, level: int, index: int) -> float:
        """The share of its own measurement in a node's estimate; 1 ignores the children."""

    @abstractmethod
    def node_variance(self, level: int, index: int) -> float:
        """Variance of a node's estimate, for ``sigma = 1``."""

    @property
    def promise(self) -> Promise:
        """Every record is protected for ever: no exact sum is handed out."""
        return Promise.FOREVER

    def node_error(
        self, *, increment_bound: float, increment_exponent: int, node_exponent: int
    ) -> float:
        """Half a lattice step if nodes are on a coarser lattice than increments, else zero."""
        return dyadic_node_error(increment_exponent=increment_exponent, node_exponent=node_exponent)

    def variance(self, tick: int) -> float:
        """Variance per coordinate of the decoded sum: its cover's estimates are independent."""
        return math.fsum(self.node_variance(*place) for place in cover(tick))

    def covariance(self, earlier: int, later: int) -> float:
        """Covariance per coordinate between two ticks' decoded sums.

        The estimate of an ancestor is ``share`` of fresh noise and ``1 - share`` of the sum of
        its children's estimates, so a node below it keeps the product of ``1 - share`` on the
        way up to the later cover.
        """
        above = set(cover(later))
        terms: list[float] = []
        for level, index in cover(earlier):
            kept = self.node_variance(level, index)
            top, position = level, index
            while (top, position) not in above:
                top, position = top + 1, (position + 1) // 2
                kept *= 1.0 - self.share(top, position)
            terms.append(kept)
        return math.fsum(terms)

    def encoder(
        self, dimension: int, *, increment_exponent: int, node_exponent: int
    ) -> "DyadicEncoder":
        """A fresh encoder: increments on one lattice, nodes rounded to another."""
        return DyadicEncoder(self, dimension, increment_exponent, node_exponent)

    def decoder(self, dimension: int) -> "DyadicDecoder":
        """A fresh decoder."""
        return DyadicDecoder(self, dimension)


class DyadicEncoder:
    """Exact sums of the current cover, and the completed nodes that wait for a release.

    A completed node waits until it is handed out, or until a parent that ignores its children
    takes its place in every later cover. Vectors are never changed once a node is complete.
    """

    def __init__(
        self,
        strategy: DyadicStrategy,
        dimension: int,
        increment_exponent: int,
        node_exponent: int,
    ) -> None:
        self._strategy = strategy
        self._dimension = dimension
        self._increment_exponent = increment_exponent
        self._node_exponent = node_exponent
        self._tick = 0
        self._sums: dict[Place, ExactVector] = {}
        self._waiting: dict[Place, ExactVector] = {}

    def absorb(self, increment: ExactVector) -> None:
        """Close one tick with its exact increment.

        Raises:
            HorizonReached: if the tick lies past the horizon; nothing is absorbed.
        """
        horizon = self._strategy.horizon
        if horizon is not None:
            refuse_past_horizon(self._strategy.name, self._tick, horizon)
        total = ExactVector.zeros(self._dimension, self._increment_exponent)
        total.add(increment)
        self._tick += 1
        level, index = 0, self._tick
        node: ExactVector | None = total
        self._complete((level, index), node)
        while index % 2 == 0:
            left = self._sums.pop((level, index - 1), None)
            right = self._sums.pop((level, index), None)
            children = ((level, index - 1), (level, index))
            level, index = level + 1, index // 2
            if math.isinf(self._strategy.weight(level, index)):
                continue
            assert left is not None
            assert right is not None
            node = left.copy()
            node.add(right)
            if self._strategy.share(level, index) == 1.0:
                for child in children:
                    self._waiting.pop(child, None)
            self._complete((level, index), node)

    def _complete(self, place: Place, node: ExactVector) -> None:
        self._sums[place] = node
        self._waiting[place] = node

    def nodes(self) -> Sequence[Node]:
        """The completed nodes that wait, children before their parents; they wait no more."""
        order = sorted(self._waiting, key=lambda place: (place[1] << place[0], place[0]))
        handed = [
            Node(
                address=place,
                value=self._waiting[place].rounded(self._node_exponent),
                exponent=self._node_exponent,
                weight=self._strategy.weight(*place),
            )
            for place in order
        ]
        self._waiting.clear()
        return handed

    def snapshot(self) -> dict[str, FloatArray | IntArray]:
        """The whole secret state as arrays."""
        return {
            "tick": np.array([self._tick], np.int64),
            **_pack("sum", self._sums),
            **_pack("waiting", self._waiting),
        }

    def restore(self, arrays: dict[str, FloatArray | IntArray]) -> None:
        """Take up a snapshot."""
        self._tick = int(arrays["tick"][0])
        self._sums = _unpack("sum", arrays, self._increment_exponent)
        self._waiting = _unpack("waiting", arrays, self._increment_exponent)


def _pack(label: str, nodes: dict[Place, ExactVector]) -> dict[str, FloatArray | IntArray]:
    places = sorted(nodes)
    return {
        f"{label}_places": np.array(places, np.int64).reshape(len(places), 2),
        f"{label}_high": np.array([nodes[place].high for place in places], np.int64),
        f"{label}_low": np.array([nodes[place].low for place in places], np.int64),
    }


def _unpack(
    label: str, arrays: dict[str, FloatArray | IntArray], exponent: int
) -> dict[Place, ExactVector]:
    places = [(int(level), int(index)) for level, index in arrays[f"{label}_places"]]
    high = arrays[f"{label}_high"].astype(np.int64)
    low = arrays[f"{label}_low"].astype(np.int64)
    return {
        place: ExactVector(high[row].copy(), low[row].copy(), exponent)
        for row, place in enumerate(places)
    }


class DyadicDecoder:
    """Estimates of the current cover's nodes, each from its own and its children's measurement."""

    def __init__(self, strategy: DyadicStrategy, dimension: int) -> None:
        self._strategy = strategy
        self._dimension = dimension
        self._estimates: dict[Place, FloatArray] = {}

    def observe(self, address: Address, value: FloatArray) -> None:
        """Take one measured node; children come before their parents."""
        level, index = address
        share = self._strategy.share(level, index)
        estimate = value.astype(np.float64)
        if share < 1.0:
            below = self._children(level, index)
            estimate = share * estimate + (1.0 - share) * below
        self._forget_under(level, index)
        self._estimates[level, index] = estimate
        while index % 2 == 0 and math.isinf(self._strategy.weight(level + 1, index // 2)):
            level, index = level + 1, index // 2
            self._estimates[level, index] = self._children(level, index)
            self._forget_under(level, index)

    def _children(self, level: int, index: int) -> FloatArray:
        left = self._estimates[level - 1, 2 * index - 1]
        return left + self._estimates[level - 1, 2 * index]

    def _forget_under(self, level: int, index: int) -> None:
        for low, place in list(self._estimates):
            if low < level and (place - 1) >> (level - low) == index - 1:
                del self._estimates[low, place]

    def estimate(self, tick: int) -> FloatArray:
        """The decoded sum at ``tick``, added up from the oldest node to the newest."""
        total = np.zeros(self._dimension)
        for place in cover(tick):
            total += self._estimates[place]
        return total

    def snapshot(self) -> dict[str, FloatArray | IntArray]:
        """The whole public state as arrays."""
        places = sorted(self._estimates)
        return {
            "places": np.array(places, np.int64).reshape(len(places), 2),
            "estimates": np.array([self._estimates[place] for place in places], np.float64),
        }

    def restore(self, arrays: dict[str, FloatArray | IntArray]) -> None:
        """Take up a snapshot."""
        estimates = arrays["estimates"].astype(np.float64)
        self._estimates = {
            (int(level), int(index)): estimates[row].copy()
            for row, (level, index) in enumerate(arrays["places"])
        }
