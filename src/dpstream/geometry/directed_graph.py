"""Sums over the paths of a directed acyclic graph, level by level.

Paths from a source to a sink are too many to list; shortest paths, longest paths, path counts
and path-weighted edge marginals all come from one sweep over the edges.
"""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.errors import ConfigurationError


@dataclass(frozen=True, eq=False)
class Sweep:
    """The edges grouped by head, heads in an order that respects the edges.

    Attributes:
        tails: node each edge leaves.
        heads: node each edge enters.
        root: where paths begin.
        nodes: number of nodes.
        batches: per level: the heads, their edges sorted by head, and where each head starts.
    """

    tails: IntArray
    heads: IntArray
    root: int
    nodes: int
    batches: tuple[tuple[IntArray, IntArray, IntArray], ...]

    def fold(self, values: FloatArray, reduce: np.ufunc, empty: float) -> FloatArray:
        """For every node, ``reduce`` over paths from the root of the summed edge values."""
        result = np.full(self.nodes, empty)
        result[self.root] = 0.0
        for heads, edges, starts in self.batches:
            candidates = result[self.tails[edges]] + values[edges]
            result[heads] = reduce.reduceat(candidates, starts)
        return result

    def best_path(self, values: FloatArray, end: int) -> IntArray:
        """The edges of a path from the root to ``end`` with the least sum of values."""
        lengths = self.fold(values, np.minimum, np.inf)
        path: list[int] = []
        node = end
        while node != self.root:
            entering = self.entering[node]
            best = entering[int(np.argmin(lengths[self.tails[entering]] + values[entering]))]
            path.append(int(best))
            node = int(self.tails[best])
        return np.array(path, np.int64)

    @cached_property
    def entering(self) -> dict[int, IntArray]:
        """The edges that enter each node."""
        return {
            int(head): edges[start:stop]
            for heads, edges, starts in self.batches
            for head, start, stop in zip(
                heads, starts, np.append(starts[1:], edges.size), strict=True
            )
        }


def sweep(tails: IntArray, heads: IntArray, root: int, nodes: int) -> Sweep:
    """Order the edges for sweeps from ``root``.

    Raises:
        ConfigurationError: if the graph has a cycle.
    """
    leaving: dict[int, list[int]] = defaultdict(list)
    for edge, tail in enumerate(tails.tolist()):
        leaving[tail].append(edge)
    waiting = np.bincount(heads, minlength=nodes)
    level = np.zeros(nodes, np.int64)
    ready = np.flatnonzero(waiting == 0).tolist()
    ordered = 0
    while ready:
        node = ready.pop()
        ordered += 1
        for edge in leaving[node]:
            head = int(heads[edge])
            level[head] = max(level[head], level[node] + 1)
            waiting[head] -= 1
            if waiting[head] == 0:
                ready.append(head)
    if ordered < nodes:
        raise ConfigurationError("the graph has a cycle; a flow polytope needs an acyclic graph")
    batches: list[tuple[IntArray, IntArray, IntArray]] = []
    edge_level = level[heads]
    order = np.lexsort((heads, edge_level))
    for group in np.split(order, np.flatnonzero(np.diff(edge_level[order])) + 1):
        entered, starts = np.unique(heads[group], return_index=True)
        batches.append((entered, group, starts.astype(np.int64)))
    return Sweep(tails, heads, root, nodes, tuple(batches))
