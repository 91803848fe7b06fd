"""The polytope of unit flows through a directed acyclic graph.

Its vertices are the paths from source to sink: exponentially many, yet the linear oracle is a
shortest path and the entropy over all paths is two sweeps over the edges. It has no projection
here: projecting is a quadratic program over flows, which the oracles exist to avoid.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import sparse

from dpstream.arrays import FloatArray, IntArray
from dpstream.errors import ConfigurationError
from dpstream.geometry.convex_set import TOLERANCE
from dpstream.geometry.directed_graph import Sweep, sweep
from dpstream.geometry.linear_program import Constraints, minimize_linear_program
from dpstream.geometry.width import expected_norm


@dataclass(frozen=True, eq=False)
class FlowPolytope:
    """Unit flows from ``source`` to ``sink``, one coordinate per edge.

    Radii are exact; the diameter and the Gaussian width are upper bounds.

    Attributes:
        edges: rows (tail, head) of node numbers; every edge must lie on some path from source
            to sink.
        source: where the unit enters.
        sink: where it leaves.
    """

    edges: IntArray
    source: int
    sink: int

    def __post_init__(self) -> None:
        edges = np.array(self.edges, np.int64)
        if edges.ndim != 2 or edges.shape[1] != 2 or len(edges) == 0:
            raise ConfigurationError(
                f"edges has shape {edges.shape}; give one row (tail, head) per edge, at least one"
            )
        edges.setflags(write=False)
        object.__setattr__(self, "edges", edges)
        names = np.unique(edges)
        for name, node in (("source", self.source), ("sink", self.sink)):
            if node not in names:
                raise ConfigurationError(f"{name} {node} is not a node of any edge")
        if self.source == self.sink:
            raise ConfigurationError(f"source and sink are both {self.source}; they must differ")
        self._check_paths()

    def _check_paths(self) -> None:
        zero = np.zeros(self.dimension)
        reached = np.isfinite(self._forward.fold(zero, np.minimum, np.inf))
        reaching = np.isfinite(self._backward.fold(zero, np.minimum, np.inf))
        tails, heads = self._forward.tails, self._forward.heads
        if not reached[self._forward_end]:
            raise ConfigurationError(
                f"no path leads from source {self.source} to sink {self.sink}; the flow polytope "
                "would be empty: add edges"
            )
        dead = np.flatnonzero(~(reached[tails] & reaching[heads]))
        if dead.size:
            raise ConfigurationError(
                f"edge {int(dead[0])} lies on no path from source to sink; remove it"
            )

    @cached_property
    def _numbered(self) -> tuple[IntArray, IntArray]:
        names, numbers = np.unique(self.edges, return_inverse=True)
        return names, numbers.reshape(self.edges.shape).astype(np.int64)

    @property
    def _forward_end(self) -> int:
        return int(np.searchsorted(self._numbered[0], self.sink))

    @cached_property
    def _forward(self) -> Sweep:
        names, numbers = self._numbered
        root = int(np.searchsorted(names, self.source))
        return sweep(numbers[:, 0], numbers[:, 1], root, names.size)

    @cached_property
    def _backward(self) -> Sweep:
        names, numbers = self._numbered
        return sweep(numbers[:, 1], numbers[:, 0], self._forward_end, names.size)

    @cached_property
    def conservation(self) -> tuple[sparse.csr_array, FloatArray]:
        """The node-by-edge incidence matrix (out minus in) and the unit supply per node."""
        numbers = self._numbered[1]
        edge = np.arange(self.dimension)
        rows = np.concatenate([numbers[:, 0], numbers[:, 1]])
        signs = np.concatenate([np.ones(self.dimension), -np.ones(self.dimension)])
        shape = (self._forward.nodes, self.dimension)
        incidence = sparse.csr_array((signs, (rows, np.concatenate([edge, edge]))), shape=shape)
        supply = np.zeros(self._forward.nodes)
        supply[self._forward.root] = 1.0
        supply[self._forward_end] = -1.0
        return incidence, supply

    @property
    def dimension(self) -> int:
        """Number of edges."""
        return len(self.edges)

    def longest_path(self) -> int:
        """Edges of the longest path."""
        longest = self._forward.fold(np.ones(self.dimension), np.maximum, -np.inf)
        return round(longest[self._forward_end])

    def log_paths(self) -> float:
        """The logarithm of the number of paths."""
        logs = self._forward.fold(np.zeros(self.dimension), np.logaddexp, -np.inf)
        return float(logs[self._forward_end])

    def marginals(self, scores: FloatArray) -> FloatArray:
        """Edge probabilities of a random path of weight ``exp(-sum of its scores)``."""
        before = self._forward.fold(-scores, np.logaddexp, -np.inf)
        after = self._backward.fold(-scores, np.logaddexp, -np.inf)
        tails, heads = self._forward.tails, self._forward.heads
        return np.exp(before[tails] - scores + after[heads] - before[self._forward_end])

    def contains(self, point: FloatArray, tolerance: float = TOLERANCE) -> bool:
        """Whether the flow is nonnegative and conserved."""
        incidence, supply = self.conservation
        error = float(np.max(np.abs(incidence @ point - supply)))
        return bool(error <= tolerance and point.min() >= -tolerance)

    def centre(self) -> FloatArray:
        """The mean over all paths."""
        return self.marginals(np.zeros(self.dimension))

    def diameter(self) -> float:
        """Two paths differ in at most the edges of both."""
        return math.sqrt(min(2 * self.longest_path(), self.dimension))

    def l1_radius(self) -> float:
        """Edges of the longest path."""
        return float(self.longest_path())

    def l2_radius(self) -> float:
        """The square root of that."""
        return math.sqrt(self.longest_path())

    def gaussian_width(self) -> float:
        """``E max <path, g>`` at most ``l2_radius`` times ``sqrt(2 ln paths)`` or ``E|g|``."""
        norm = expected_norm(self.dimension)
        return self.l2_radius() * min(math.sqrt(2 * max(self.log_paths(), 0.0)), norm)

    def minimize_linear(self, gradient: FloatArray) -> FloatArray:
        """A shortest path."""
        flow = np.zeros(self.dimension)
        flow[self._forward.best_path(gradient, self._forward_end)] = 1.0
        return flow

    def minimize_linear_local(
        self, centre: FloatArray, radius: float, gradient: FloatArray
    ) -> FloatArray:
        """The exact minimiser over the flows within ``radius`` on every edge: min-cost flow.

        A radius below 1e-6 is taken as that, for the solver's tolerance.
        """
        incidence, supply = self.conservation
        allowed = max(radius, 1e-6)
        constraints = Constraints(
            equal_matrix=incidence,
            equal_limits=supply,
            lower=np.maximum(centre - allowed, 0.0),
            upper=centre + allowed,
        )
        return minimize_linear_program(gradient, constraints, name="local flow polytope")

    def local_ratio(self) -> float:
        """``sqrt(edges)``."""
        return math.sqrt(self.dimension)

    def mirror_map(self) -> "PathEntropy":
        """Entropy over all paths, of range ``ln paths``."""
        return PathEntropy(polytope=self)


@dataclass(frozen=True, eq=False)
class SymmetricFlow:
    """The convex hull of unit flows and their negatives: the unit ball of a flow norm.

    Radii and diameter are exact; the Gaussian width is an upper bound.

    Attributes:
        polytope: the unit flows.
    """

    polytope: FlowPolytope

    @property
    def dimension(self) -> int:
        """Number of edges."""
        return self.polytope.dimension

    def contains(self, point: FloatArray, tolerance: float = TOLERANCE) -> bool:
        """Whether the gauge is at most 1; never tighter than the solver's 1e-7."""
        return self.gauge(point) <= 1 + max(tolerance, 1e-7)

    def gauge(self, point: FloatArray) -> float:
        """The least ``a + b`` with ``point`` a flow of value a minus one of value b."""
        incidence, supply = self.polytope.conservation
        # Variables: both flows, then their values.
        column = sparse.csr_array(-supply[:, None])
        blocks = sparse.block_array(
            [
                [incidence, None, column, None],
                [None, incidence, None, column],
                [sparse.eye_array(self.dimension), -sparse.eye_array(self.dimension), None, None],
            ]
        )
        constraints = Constraints(
            equal_matrix=blocks.tocsr(),
            equal_limits=np.concatenate([np.zeros(2 * supply.size), point]),
        )
        cost = np.concatenate([np.zeros(2 * self.dimension), np.ones(2)])
        try:
            solution = minimize_linear_program(cost, constraints, name="symmetric flow")
        except ConfigurationError:
            return math.inf
        return float(cost @ solution)

    def centre(self) -> FloatArray:
        """The origin."""
        return np.zeros(self.dimension)

    def diameter(self) -> float:
        """Twice the L2 radius, by symmetry."""
        return 2 * self.l2_radius()

    def l1_radius(self) -> float:
        """As for the flows."""
        return self.polytope.l1_radius()

    def l2_radius(self) -> float:
        """As for the flows."""
        return self.polytope.l2_radius()

    def gaussian_width(self) -> float:
        """As for the flows, over twice as many vertices."""
        count = self.polytope.log_paths() + math.log(2)
        return self.l2_radius() * min(math.sqrt(2 * count), expected_norm(self.dimension))

    def minimize_linear(self, gradient: FloatArray) -> FloatArray:
        """The better of a shortest path and the negative of a longest one."""
        shortest = self.polytope.minimize_linear(gradient)
        longest = self.polytope.minimize_linear(-gradient)
        return shortest if gradient @ shortest <= -(gradient @ longest) else -longest


@dataclass(frozen=True, eq=False)
class PathEntropy:
    """``Psi = min sum w ln w`` over path weights whose mean is the point.

    The state is the accumulated direction: the weights ``exp(-<state, path>)`` factor over the
    edges, so the point, their mean, is a vector of edge marginals.

    Attributes:
        polytope: the unit flows.
    """

    polytope: FlowPolytope

    @property
    def modulus(self) -> float:
        """Exactly 1, in L1 over path weights."""
        return 1.0

    @property
    def ball(self) -> SymmetricFlow:
        """The hull of the paths and their negatives."""
        return SymmetricFlow(self.polytope)

    def potential_range(self) -> float:
        """``ln paths``."""
        return max(self.polytope.log_paths(), 0.0)

    def start(self) -> FloatArray:
        """No direction yet: all paths alike."""
        return np.zeros(self.polytope.dimension)

    def step(self, state: FloatArray, direction: FloatArray) -> FloatArray:
        """The accumulated direction."""
        return state + direction

    def point(self, state: FloatArray) -> FloatArray:
        """The edge marginals."""
        return self.polytope.marginals(state)


def flow_polytope(edges: npt.ArrayLike, *, source: int, sink: int) -> FlowPolytope:
    """Unit flows through the graph with the given (tail, head) rows."""
    return FlowPolytope(np.asarray(edges, np.int64), source, sink)
