"""Who paid what: the composition of all charges, position by position.

Charges on disjoint intervals of record positions reveal nothing of the same record, so a record
pays only for the intervals that hold it (parallel composition). The positions are cut into
segments at the ends of intervals; the segments are the leaves of a search tree whose inner nodes
carry what all leaves below have paid, so that a charge touches a logarithmic number of nodes.

The tree is a treap: cuts are ordered by position and heaped by a fixed pseudo-random rank of the
position. Its shape depends on the set of cuts alone and is shallow for every order of charges,
the increasing one of a stream included.
"""

import heapq
import math
from collections.abc import Callable, Iterable, Iterator
from itertools import count, pairwise

from dpstream.privacy.curve import PrivacyCurve
from dpstream.privacy.event import Interval

_NOTHING = PrivacyCurve.none()
_RANK_BITS = (1 << 64) - 1


def _rank(cut: int) -> int:
    """A fixed scrambling of positions: the finaliser of splitmix64."""
    mixed = (cut + 0x9E3779B97F4A7C15) & _RANK_BITS
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _RANK_BITS
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _RANK_BITS
    return mixed ^ (mixed >> 31)


class _Node:
    """All positions between two cuts: a leaf, or two nodes that meet at ``cut``.

    ``paid`` is what every position below paid beyond what nodes above it say; ``envelope`` is
    ``paid`` with the part-wise maximum of the two branches.
    """

    __slots__ = ("branches", "cut", "envelope", "paid", "rank")

    def __init__(self, paid: PrivacyCurve) -> None:
        self.paid = paid
        self.envelope = paid
        self.cut = 0
        self.rank = -1
        self.branches: tuple[_Node, _Node] | None = None

    def refresh(self, left: "_Node", right: "_Node") -> None:
        self.envelope = left.envelope.envelope(right.envelope).compose(self.paid)

    def pay(self, curve: PrivacyCurve) -> None:
        self.paid = self.paid.compose(curve)
        self.envelope = self.envelope.compose(curve)


class Coverage:
    """The composition of charges at every record position from 0 on."""

    def __init__(self) -> None:
        self._root = _Node(_NOTHING)

    def charge(self, curve: PrivacyCurve, covers: Interval | None) -> None:
        """Compose ``curve`` into every position of ``covers``; None for all positions."""
        if covers is None:
            self._root.pay(curve)
            return
        for cut in covers:
            self._root = _cut(self._root, cut)
        _pay(self._root, *covers, curve)

    def envelope(self, covers: Interval | None) -> PrivacyCurve:
        """The part-wise maximum over ``covers``: reveals no less than any position there."""
        if covers is None:
            return self._root.envelope
        return _envelope(self._root, *covers)

    def segments(self, covers: Interval | None) -> Iterator[PrivacyCurve]:
        """What each segment that meets ``covers`` paid."""
        pending = [(self._root, _NOTHING, 0.0, math.inf)]
        first, end = covers or (0.0, math.inf)
        while pending:
            node, above, lower, upper = pending.pop()
            if upper <= first or end <= lower:
                continue
            paid = above.compose(node.paid)
            if node.branches is None:
                yield paid
            else:
                left, right = node.branches
                pending += [(right, paid, node.cut, upper), (left, paid, lower, node.cut)]

    def worst(self, cost: Callable[[PrivacyCurve], float]) -> PrivacyCurve:
        """What the position that costs most has paid.

        Args:
            cost: how bad a curve is; never less for a curve that reveals more.
        """
        order = count()
        queue = [(-cost(self._root.envelope), next(order), self._root, _NOTHING)]
        while True:
            _, _, node, above = heapq.heappop(queue)
            paid = above.compose(node.paid)
            if node.branches is None:
                return paid
            for branch in node.branches:
                bound = cost(paid.compose(branch.envelope))
                heapq.heappush(queue, (-bound, next(order), branch, paid))


def disjoint(
    parts: Iterable[tuple[PrivacyCurve, Interval | None]],
) -> tuple[PrivacyCurve, list[tuple[PrivacyCurve, Interval]]]:
    """The same charges, rearranged.

    Returns:
        What every position pays, and what is paid besides on intervals that are disjoint.
    """
    everywhere = _NOTHING
    local: list[tuple[PrivacyCurve, Interval]] = []
    for curve, covers in parts:
        if covers is None:
            everywhere = everywhere.compose(curve)
        else:
            local.append((curve, covers))
    if len(local) < 2:
        return everywhere, local
    # Between neighbouring ends the set of open intervals is constant. It is composed anew on
    # each segment, since curves cannot be subtracted: an event's parts are few.
    segments: list[tuple[PrivacyCurve, Interval]] = []
    for first, end in pairwise(sorted({position for _, covers in local for position in covers})):
        total = _NOTHING
        for curve, covers in local:
            if covers[0] <= first and end <= covers[1]:
                total = total.compose(curve)
        segments.append((total, (first, end)))
    return everywhere, segments


def _joined(left: _Node, right: _Node, cut: int, rank: int, paid: PrivacyCurve) -> _Node:
    node = _Node(paid)
    node.cut, node.rank, node.branches = cut, rank, (left, right)
    node.refresh(left, right)
    return node


def _cut(node: _Node, cut: int) -> _Node:
    """The same payments with a cut at ``cut``."""
    rank = _rank(cut)
    if node.branches is None or node.rank < rank:
        left, right = _split(node, cut)
        return _joined(left, right, cut, rank, _NOTHING)
    if node.cut != cut:
        left, right = node.branches
        if cut < node.cut:
            node.branches = (_cut(left, cut), right)
        else:
            node.branches = (left, _cut(right, cut))
    return node


def _split(node: _Node, cut: int) -> tuple[_Node, _Node]:
    """The payments below and from ``cut``, which is no cut of ``node``."""
    if node.branches is None:
        return _Node(node.paid), _Node(node.paid)
    left, right = node.branches
    if cut < node.cut:
        below, above = _split(left, cut)
        below.pay(node.paid)
        return below, _joined(above, right, node.cut, node.rank, node.paid)
    below, above = _split(right, cut)
    above.pay(node.paid)
    return _joined(left, below, node.cut, node.rank, node.paid), above


def _pay(node: _Node, first: float, end: float, curve: PrivacyCurve) -> None:
    """Compose ``curve`` into the positions of ``node`` in [first, end), whose ends are cuts."""
    if (first == -math.inf and end == math.inf) or node.branches is None:
        node.pay(curve)
        return
    left, right = node.branches
    if first < node.cut:
        _pay(left, first, end if end < node.cut else math.inf, curve)
    if end > node.cut:
        _pay(right, first if first > node.cut else -math.inf, end, curve)
    node.refresh(left, right)


def _envelope(node: _Node, first: float, end: float) -> PrivacyCurve:
    if (first == -math.inf and end == math.inf) or node.branches is None:
        return node.envelope
    left, right = node.branches
    found = _NOTHING
    if first < node.cut:
        found = _envelope(left, first, end if end < node.cut else math.inf)
    if end > node.cut:
        found = found.envelope(_envelope(right, first if first > node.cut else -math.inf, end))
    return found.compose(node.paid)
