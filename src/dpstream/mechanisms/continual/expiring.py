"""Running sums whose records are protected for W ticks only: block by block.

Paper 002's promise of privacy expiration (delayed publication): a record of age W or more may be
published exactly. The stream is cut into blocks of W ticks. Each block has a BLT for the running
sum inside it and one noisy total of its own; when the youngest record of a block is W ticks old,
the block's exact sum is published instead. Between those two moments the block stands in the
released sum with a noisy total.

Exact sums may only stand beside noise that protects nobody they hold: a whole block expires at
once, and no noise is shared between blocks.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.lattice import ExactVector
from dpstream.errors import ConfigurationError
from dpstream.mechanisms.continual.blt import (
    BufferedDecoder,
    BufferedToeplitz,
    standard_filter,
)
from dpstream.mechanisms.continual.filtered import FilteredStrategy
from dpstream.mechanisms.continual.pending import PendingNodes
from dpstream.mechanisms.continual.recurrence import BufferBank
from dpstream.mechanisms.continual.response import UPWARD
from dpstream.mechanisms.continual.strategy import Address, Node, Participation, Promise

TICK, TOTAL, EXACT = 0, 1, 2
"""What a node is: a tick's, its block's noisy total, its block's exact sum."""


def expiring_toeplitz(*, window: int) -> "ExpiringToeplitz":
    """The standard block-wise expiring sum, its noise split for the least largest error."""
    response = standard_filter(window)
    # The optimum is flat: sixteenths of an octave lose less than 1e-3.
    candidates = [
        ExpiringToeplitz(
            window=window,
            rates=response.rates,
            scales=response.scales,
            total_weight=2.0 ** (step / 16),
        )
        for step in range(-32, 33)
    ]
    return min(candidates, key=lambda strategy: strategy.loss)


@dataclass(frozen=True, kw_only=True)
class ExpiringToeplitz(FilteredStrategy):
    """A running sum on an endless stream, under delayed publication after one block's ticks.

    Guaranteed: for every tick t, what is published up to t protects every record of age below W
    at t (``expiring.proof.md``). Not protected: a record of age W or more, whose contribution
    is published exactly. A unit's cap counts its records within any W ticks.

    Attributes:
        window: W: the ticks of a block, and the age from which records may be exact.
        total_weight: noise weight of a block's total.
    """

    window: int
    total_weight: float

    def __post_init__(self) -> None:
        if not 0.0 < self.total_weight < math.inf:
            raise ConfigurationError(
                f"the block total's noise weight is {self.total_weight}; it must be positive and "
                "finite: a total without noise would publish live records"
            )
        _ = self.block

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return "expiring_toeplitz"

    @cached_property
    def block(self) -> BufferedToeplitz:
        """The running sum inside a block."""
        return BufferedToeplitz(horizon=self.window, rates=self.rates, scales=self.scales)

    @property
    def horizon(self) -> int | None:
        """None: it never ends."""
        return None

    @property
    def promise(self) -> Promise:
        """Delayed publication."""
        return Promise.WHILE_LIVE

    @property
    def total_share(self) -> float:
        """The share of one record's squared shift that the block's total takes."""
        return (UPWARD / self.total_weight / self.sensitivity(Participation(), order=2)) ** 2

    @property
    def loss(self) -> float:
        """Largest standard deviation of the sum, for a sensitivity of 1."""
        largest = self.variance(2 * self.window - 1)
        largest = max(largest, self.variance(self.window))
        return math.sqrt(largest) * self.sensitivity(Participation(), order=2)

    def sensitivity(self, participation: Participation, *, order: int) -> float:
        """All of a unit's live records in one block, from its first tick on, and in its total."""
        inside = self.block.sensitivity(participation, order=order)
        records = min(participation.cap, participation.per_tick * self.window)
        total = UPWARD * records / self.total_weight
        return inside + total if order == 1 else math.hypot(inside, total)

    def rounding_norm(self, participation: Participation, *, order: int) -> float:
        """Live records lie in two blocks at most: one record's in one."""
        blocks = min(participation.cap, 2)
        inside = self.block.rounding_norm(participation, order=order)
        total = 1.0 / self.total_weight
        if order == 1:
            return blocks * (inside + total)
        return math.sqrt(blocks) * math.hypot(inside, total)

    def code_bound(self) -> float:
        """A block's total sums W increments; a tick's node has the filter's gain."""
        return max(self.block.code_bound(), float(self.window))

    @cached_property
    def _last(self) -> float:
        return self.block.variance(self.window)

    @property
    def trust(self) -> float:
        """Share of the total's own measurement in a full block's estimate: least variance."""
        return self._last / (self._last + self.total_weight**2)

    @cached_property
    def _full(self) -> float:
        return self.trust * self.total_weight**2

    def locate(self, tick: int) -> tuple[int, int]:
        """A tick's block, from 0, and its place in it, from 1."""
        block, place = divmod(tick - 1, self.window)
        return block, place + 1

    def variance(self, tick: int) -> float:
        """Variance per coordinate of the decoded sum at ``tick``, for ``sigma = 1``."""
        return self.covariance(tick, tick)

    def covariance(self, earlier: int, later: int) -> float:
        """Covariance per coordinate between two ticks' decoded sums, for ``sigma = 1``.

        A block's noise is in the sums of its own ticks and, through its full estimate, of the
        next block's until the last; blocks share none.
        """
        terms: list[float] = []
        first, _ = self.locate(earlier)
        for block in range(max(first - 1, 0), first + 1):
            left, right = self._part(block, earlier), self._part(block, later)
            if left is None or right is None:
                continue
            if left == right == self.window:
                terms.append(self._full)
            elif right == self.window:
                # The full estimate holds the block's running sum with the rest of the trust.
                terms.append((1.0 - self.trust) * self.block.covariance(left, right))
            else:
                terms.append(self.block.covariance(left, right))
        return math.fsum(terms)

    def _part(self, block: int, tick: int) -> int | None:
        """How many ticks of the block are in the noisy part of the sum; None if none is."""
        current, place = self.locate(tick)
        if current == block:
            return place
        return self.window if current == block + 1 and place < self.window else None

    def memory(self, tick: int) -> int:
        """One vector per buffer, the block's exact sum and the one before it."""
        del tick
        return self.block.memory(1) + 2

    def encoder(
        self, dimension: int, *, increment_exponent: int, node_exponent: int
    ) -> "ExpiringEncoder":
        """A fresh encoder."""
        return ExpiringEncoder(self, dimension, increment_exponent, node_exponent)

    def decoder(self, dimension: int) -> "ExpiringDecoder":
        """A fresh decoder."""
        return ExpiringDecoder(self, dimension)


class ExpiringEncoder:
    """The buffers and the exact sum of the current block, and the exact sum of the last one."""

    def __init__(
        self,
        strategy: ExpiringToeplitz,
        dimension: int,
        increment_exponent: int,
        node_exponent: int,
    ) -> None:
        self._strategy = strategy
        self._dimension = dimension
        self._increment_exponent = increment_exponent
        self._node_exponent = node_exponent
        self._pending = PendingNodes(node_exponent)
        self._tick = 0
        self._bank = self._fresh_bank()
        self._total = self._zeros()
        self._live = self._zeros()

    def _fresh_bank(self) -> BufferBank:
        return BufferBank(
            self._strategy.block.filter,
            self._dimension,
            increment_exponent=self._increment_exponent,
            node_exponent=self._node_exponent,
        )

    def _zeros(self) -> ExactVector:
        return ExactVector.zeros(self._dimension, self._increment_exponent)

    def absorb(self, increment: ExactVector) -> None:
        """Close one tick with its exact increment."""
        block, place = self._strategy.locate(self._tick + 1)
        node = self._bank.step(increment)
        self._total.add(increment)
        self._tick += 1
        self._pending.add((block, place, TICK), node)
        if place < self._strategy.window:
            return
        weight = self._strategy.total_weight
        total = self._total.rounded(self._node_exponent)
        self._pending.add((block, place, TOTAL), total, weight)
        if block > 0:
            # Its youngest record is now exactly W ticks old.
            exact = self._live.rounded(self._node_exponent)
            self._pending.add((block - 1, self._strategy.window, EXACT), exact, 0.0)
        self._live, self._total = self._total, self._zeros()
        self._bank = self._fresh_bank()

    def nodes(self) -> list[Node]:
        """The nodes of all ticks since the last release."""
        return self._pending.take()

    def snapshot(self) -> dict[str, FloatArray | IntArray]:
        """The whole secret state as arrays."""
        return {
            "tick": np.array([self._tick], np.int64),
            "total_high": self._total.high.copy(),
            "total_low": self._total.low.copy(),
            "live_high": self._live.high.copy(),
            "live_low": self._live.low.copy(),
            **self._bank.snapshot("bank"),
            **self._pending.snapshot(),
        }

    def restore(self, arrays: dict[str, FloatArray | IntArray]) -> None:
        """Take up a snapshot."""
        self._tick = int(arrays["tick"][0])
        self._bank.restore("bank", arrays)
        self._pending.restore(arrays)
        for label, vector in (("total", self._total), ("live", self._live)):
            vector.high = arrays[f"{label}_high"].astype(np.int64)
            vector.low = arrays[f"{label}_low"].astype(np.int64)


class ExpiringDecoder:
    """Exact sums of expired blocks, the last full block's estimate, and the current block's."""

    def __init__(self, strategy: ExpiringToeplitz, dimension: int) -> None:
        self._strategy = strategy
        self._dimension = dimension
        self._expired = np.zeros(dimension)
        self._full = np.zeros(dimension)
        self._inside = BufferedDecoder(strategy.block.filter, dimension)
        self._complete = False

    def observe(self, address: Address, value: FloatArray) -> None:
        """Take one measured node, in units of the sum, in the order of the encoder."""
        _, place, kind = address
        if kind == TICK:
            if place == 1:
                self._inside = BufferedDecoder(self._strategy.block.filter, self._dimension)
                self._complete = False
            self._inside.observe(address, value)
        elif kind == TOTAL:
            trust = self._strategy.trust
            self._full = trust * value + (1.0 - trust) * self._inside.estimate(place)
            self._complete = True
        else:
            self._expired += value

    def estimate(self, tick: int) -> FloatArray:
        """The decoded sum at the last observed tick, which ``tick`` is."""
        if self._complete:
            return self._expired + self._full
        return self._expired + self._full + self._inside.estimate(tick)

    def snapshot(self) -> dict[str, FloatArray | IntArray]:
        """The whole public state as arrays."""
        return {
            **self._inside.snapshot(),
            "expired": self._expired.copy(),
            "full": self._full.copy(),
            "complete": np.array([self._complete], np.int64),
        }

    def restore(self, arrays: dict[str, FloatArray | IntArray]) -> None:
        """Take up a snapshot."""
        self._inside.restore(arrays)
        self._expired = arrays["expired"].astype(np.float64)
        self._full = arrays["full"].astype(np.float64)
        self._complete = bool(arrays["complete"][0])
