"""Running sums through the square-root Toeplitz factorisation: the yardstick for short streams.

``A = C C`` with ``C`` the Toeplitz matrix of ``(1 - z)^(-1/2)``: ``f_0 = 1``,
``f_k = f_{k-1} (1 - 1/(2k))``. Within 7 % of the lower bound for every factorisation, but the
encoder keeps every increment. The buffered factorisation (``blt``) comes within 1.5 % of it at
the memory of five vectors: use that one.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.lattice import LIMB_BITS, ExactVector
from dpstream.errors import ConfigurationError
from dpstream.mechanisms.continual.blt import packed_counts
from dpstream.mechanisms.continual.pending import PendingNodes, refuse_past_horizon
from dpstream.mechanisms.continual.response import UPWARD
from dpstream.mechanisms.continual.strategy import Address, Node, Participation, Promise

Scalar = TypeVar("Scalar", np.int64, np.float64)

COEFFICIENT_BITS = 20
"""Coefficients are integers times 2**-20, so that the code is exact in integers."""

LONGEST_HORIZON = 2**15

_CHUNK = 1024
# A coefficient times a lower limb has 52 bits: sums of 2**10 of them fit 62.

_LARGEST_HIGH_BITS = 27
_LARGEST_HIGH = 1 << _LARGEST_HIGH_BITS
# Likewise for upper limbs over the longest horizon: 20 + 27 + 15 = 62 bits.


def root_coefficients(count: int) -> FloatArray:
    """The first coefficients of ``(1 - z)^(-1/2)``, rounded to the coefficients' lattice."""
    steps = np.arange(1, count)
    exact = np.concatenate([[1.0], np.cumprod(1.0 - 0.5 / steps)])
    return np.ldexp(np.rint(np.ldexp(exact, COEFFICIENT_BITS)), -COEFFICIENT_BITS)


@dataclass(frozen=True, kw_only=True)
class SquareRootToeplitz:
    """A running sum of at most ``horizon`` ticks, measured through its square root.

    Guaranteed: coefficients are positive and never increase, so the first record's column is
    the longest and ``sensitivity`` is exact (``toeplitz.proof.md``); nodes are exact integers
    rounded once. The decoder inverts the rounded coefficients, so the sum is exact without noise.

    Attributes:
        horizon: the last tick, at most 2**15.
    """

    horizon: int

    def __post_init__(self) -> None:
        if not 1 <= self.horizon <= LONGEST_HORIZON:
            raise ConfigurationError(
                f"the horizon is {self.horizon}; the square root takes 1 to {LONGEST_HORIZON} "
                "ticks, since it keeps every increment: use the buffered factorisation"
            )

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return "square_root_toeplitz"

    @property
    def promise(self) -> Promise:
        """Every record is protected for ever."""
        return Promise.FOREVER

    @cached_property
    def coefficients(self) -> FloatArray:
        """The first column of ``C``."""
        return root_coefficients(self.horizon)

    @cached_property
    def decoding(self) -> FloatArray:
        """The first column of ``B = A C^-1``."""
        # Solves C b = (1, 1, ...), row by row.
        backwards = self.coefficients[::-1]
        solution = np.ones(self.horizon)
        for tick in range(1, self.horizon):
            solution[tick] -= float(backwards[-tick - 1 : -1] @ solution[:tick])
        return solution

    @cached_property
    def _variances(self) -> FloatArray:
        return np.cumsum(self.decoding**2)

    def sensitivity(self, participation: Participation, *, order: int) -> float:
        """Norm of one unit's largest shift: records in the first ticks, packed."""
        shift = np.zeros(self.horizon)
        for tick, count in enumerate(packed_counts(participation, self.horizon)):
            shift[tick:] += count * self.coefficients[: self.horizon - tick]
        return UPWARD * float(np.sum(shift) if order == 1 else np.linalg.norm(shift))

    def rounding_norm(self, participation: Participation, *, order: int) -> float:
        """Every node from the unit's first record on may round differently."""
        del participation
        return float(self.horizon) if order == 1 else math.sqrt(self.horizon)

    def node_error(
        self, *, increment_bound: float, increment_exponent: int, node_exponent: int
    ) -> float:
        """Half a lattice step if nodes are on a coarser lattice than the exact code, else zero.

        Raises:
            ConfigurationError: if increments within their public bound could overflow the
                encoder, which would stop the stream for a reason that depends on data.
        """
        largest = math.ldexp(1.0, _LARGEST_HIGH_BITS + LIMB_BITS - 1 + increment_exponent)
        if largest < increment_bound < math.inf:
            raise ConfigurationError(
                f"increments reach {increment_bound:g}; on the lattice 2**{increment_exponent} the "
                f"square root takes at most {largest:g}: allow fewer records per tick, or use the "
                "buffered factorisation"
            )
        if node_exponent <= increment_exponent - COEFFICIENT_BITS:
            return 0.0
        return math.ldexp(1.0, node_exponent - 1)

    def code_bound(self) -> float:
        """The sum of all coefficients."""
        return UPWARD * math.fsum(self.coefficients)

    def variance(self, tick: int) -> float:
        """Variance per coordinate of the decoded sum at ``tick``, for ``sigma = 1``."""
        return float(self._variances[tick - 1])

    def covariance(self, earlier: int, later: int) -> float:
        """Covariance per coordinate between two ticks' decoded sums, for ``sigma = 1``."""
        ahead = later - earlier
        return float(self.decoding[:earlier] @ self.decoding[ahead : ahead + earlier])

    def memory(self, tick: int) -> int:
        """Every increment so far."""
        return tick

    def encoder(
        self, dimension: int, *, increment_exponent: int, node_exponent: int
    ) -> "SquareRootEncoder":
        """A fresh encoder."""
        return SquareRootEncoder(self, dimension, increment_exponent, node_exponent)

    def decoder(self, dimension: int) -> "SquareRootDecoder":
        """A fresh decoder."""
        return SquareRootDecoder(self, dimension)


class SquareRootEncoder:
    """Keeps every increment and convolves them with the coefficients, in integers."""

    def __init__(
        self,
        strategy: SquareRootToeplitz,
        dimension: int,
        increment_exponent: int,
        node_exponent: int,
    ) -> None:
        self._strategy = strategy
        self._increment_exponent = increment_exponent
        self._node_exponent = node_exponent
        scaled = np.ldexp(strategy.coefficients, COEFFICIENT_BITS).astype(np.int64)
        self._reversed = scaled[::-1].copy()
        self._high = np.zeros((0, dimension), np.int64)
        self._low = np.zeros((0, dimension), np.int64)
        self._tick = 0
        self._pending = PendingNodes(node_exponent)

    def absorb(self, increment: ExactVector) -> None:
        """Close one tick with its exact increment.

        Raises:
            HorizonReached: if the tick lies past the horizon; nothing is absorbed.
            OverflowError: if the increment is too large; public bounds must exclude it.
        """
        refuse_past_horizon(self._strategy.name, self._tick, self._strategy.horizon)
        if np.any(np.abs(increment.high) >= _LARGEST_HIGH):
            raise OverflowError("an increment of the continual sum exceeds 59 bits on its lattice")
        if self._tick == len(self._high):
            room = min(max(2 * self._tick, 8), self._strategy.horizon)
            self._high = _grown(self._high, room)
            self._low = _grown(self._low, room)
        self._high[self._tick] = increment.high
        self._low[self._tick] = increment.low
        self._tick += 1
        self._pending.add((self._tick,), self._code().rounded(self._node_exponent))

    def _code(self) -> ExactVector:
        """The current row of ``C`` times all increments, exactly."""
        total = ExactVector.zeros(self._high.shape[1], self._increment_exponent - COEFFICIENT_BITS)
        weights = self._reversed[len(self._reversed) - self._tick :]
        for start in range(0, self._tick, _CHUNK):
            rows = slice(start, min(start + _CHUNK, self._tick))
            low = weights[rows] @ self._low[rows]
            high = weights[rows] @ self._high[rows] + (low >> LIMB_BITS)
            total.add(ExactVector(high, low & ((1 << LIMB_BITS) - 1), total.exponent))
        return total

    def nodes(self) -> list[Node]:
        """The nodes of all ticks since the last release."""
        return self._pending.take()

    def snapshot(self) -> dict[str, FloatArray | IntArray]:
        """The whole secret state as arrays."""
        return {
            "tick": np.array([self._tick], np.int64),
            "high": self._high[: self._tick].copy(),
            "low": self._low[: self._tick].copy(),
            **self._pending.snapshot(),
        }

    def restore(self, arrays: dict[str, FloatArray | IntArray]) -> None:
        """Take up a snapshot."""
        self._tick = int(arrays["tick"][0])
        self._high = arrays["high"].astype(np.int64)
        self._low = arrays["low"].astype(np.int64)
        self._pending.restore(arrays)


class SquareRootDecoder:
    """Multiplies the noisy nodes with ``B``'s current row."""

    def __init__(self, strategy: SquareRootToeplitz, dimension: int) -> None:
        self._reversed = strategy.decoding[::-1].copy()
        self._nodes = np.zeros((0, dimension))
        self._tick = 0

    def observe(self, address: Address, value: FloatArray) -> None:
        """Take the next tick's measured node, in units of the sum."""
        del address
        if self._tick == len(self._nodes):
            self._nodes = _grown(self._nodes, min(max(2 * self._tick, 8), len(self._reversed)))
        self._nodes[self._tick] = value
        self._tick += 1

    def estimate(self, tick: int) -> FloatArray:
        """The decoded sum at ``tick``, added up from the oldest node to the newest."""
        total = np.zeros(self._nodes.shape[1])
        weights = self._reversed[len(self._reversed) - tick :]
        for weight, node in zip(weights, self._nodes[:tick], strict=True):
            total += weight * node
        return total

    def snapshot(self) -> dict[str, FloatArray | IntArray]:
        """The whole public state as arrays."""
        return {"nodes": self._nodes[: self._tick].copy()}

    def restore(self, arrays: dict[str, FloatArray | IntArray]) -> None:
        """Take up a snapshot."""
        self._nodes = arrays["nodes"].astype(np.float64)
        self._tick = len(self._nodes)


def _grown(array: npt.NDArray[Scalar], rows: int) -> npt.NDArray[Scalar]:
    return np.concatenate([array, np.zeros((rows - len(array), array.shape[1]), array.dtype)])
