"""Running sums without a horizon: one factorisation after the other, for ever.

The stream is cut into epochs of public length. Each epoch has its own BLT. When an epoch is
full, its last noisy sum is frozen, and a fresh mechanism starts on the records that follow; the
released sum is the frozen ones plus the current epoch's. Freezing is post-processing, and every
record lies in one epoch only: epsilon is the same after a day and after a century.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.lattice import ExactVector
from dpstream.errors import ConfigurationError
from dpstream.mechanisms.continual.blt import BufferedDecoder, BufferedToeplitz, packed_counts
from dpstream.mechanisms.continual.blt_table import FILTERS
from dpstream.mechanisms.continual.pending import PendingNodes
from dpstream.mechanisms.continual.recurrence import BufferBank
from dpstream.mechanisms.continual.response import UPWARD
from dpstream.mechanisms.continual.strategy import Address, Node, Participation, Promise

Epoch = tuple[int, tuple[float, ...], tuple[float, ...]]
"""An epoch's ticks, and its filter's rates and scales."""

FIRST_EPOCH = (2**24, 5)
"""Ticks and buffers of the first epoch: six months of one tick per second."""

LATER_EPOCHS = (2**30, 8)
"""Ticks and buffers of all others: longer ones would need a finer lattice than noise allows."""


def endless_chain() -> "ToeplitzChain":
    """The standard chain: an epoch of 2**24 ticks, then epochs of 2**30 for ever."""
    epochs: list[Epoch] = []
    for ticks, buffers in (FIRST_EPOCH, LATER_EPOCHS):
        response = FILTERS[ticks, buffers]
        epochs.append((ticks, response.rates, response.scales))
    return ToeplitzChain(epochs=tuple(epochs))


@dataclass(frozen=True, kw_only=True)
class ToeplitzChain:
    """A running sum on an endless stream, by epochs in sequence.

    Guaranteed: a unit's shift does not grow with the number of epochs (``chain.proof.md``). The
    noise of an epoch is scaled so that one record shifts every epoch equally. The variance grows
    with the logarithm of the ticks within the listed epochs, and with their number after that.

    Attributes:
        epochs: ticks, rates and scales of the first epochs; the last one is repeated for ever.
    """

    epochs: tuple[Epoch, ...]

    def __post_init__(self) -> None:
        if not self.epochs:
            raise ConfigurationError("the chain has 0 epochs; it needs at least one to repeat")
        _ = self.mechanisms

    @cached_property
    def mechanisms(self) -> tuple[BufferedToeplitz, ...]:
        """The epochs' mechanisms; the last one is repeated for ever."""
        return tuple(
            BufferedToeplitz(horizon=ticks, rates=rates, scales=scales)
            for ticks, rates, scales in self.epochs
        )

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return "chain"

    @property
    def horizon(self) -> int | None:
        """None: it never ends."""
        return None

    @property
    def promise(self) -> Promise:
        """Every record is protected for ever."""
        return Promise.FOREVER

    @cached_property
    def weights(self) -> tuple[float, ...]:
        """Noise weights that make one record's shift the same in every epoch."""
        norms = [epoch.sensitivity(Participation(), order=2) for epoch in self.mechanisms]
        return tuple(norm / norms[0] for norm in norms)

    def epoch(self, number: int) -> BufferedToeplitz:
        """The mechanism of the epoch with that number, from 0."""
        return self.mechanisms[min(number, len(self.epochs) - 1)]

    def weight(self, number: int) -> float:
        """The noise weight of the epoch with that number, from 0."""
        return self.weights[min(number, len(self.epochs) - 1)]

    def locate(self, tick: int) -> tuple[int, int]:
        """A tick's epoch, from 0, and its place in it, from 1."""
        before = 0
        for number, epoch in enumerate(self.mechanisms[:-1]):
            if tick <= before + epoch.horizon:
                return number, tick - before
            before += epoch.horizon
        repeats, place = divmod(tick - before - 1, self.mechanisms[-1].horizon)
        return len(self.epochs) - 1 + repeats, place + 1

    def sensitivity(self, participation: Participation, *, order: int) -> float:
        """A bound over every division of a unit's records among epochs; exact for one record.

        If j records in one epoch cost at most ``r j`` in squares (in norms for ``order=1``) for
        every j up to the cap, any division of all of them costs at most ``r cap``. For epochs
        that are long against the cap, the worst is all records in one epoch, and attained.
        """
        costs: list[float] = []
        for epoch, weight in zip(self.mechanisms, self.weights, strict=True):
            counts = packed_counts(participation, epoch.horizon)
            if order == 1:
                # Columns shrink along an epoch: the first is the costliest per record.
                costs.append(epoch.sensitivity(Participation(), order=1) / weight)
                continue
            placed = np.cumsum(counts)
            energies = np.array(epoch.filter.run_energies(counts, epoch.horizon))
            costs.append(float(np.max(energies / placed)) / weight**2)
        worst = max(costs) * participation.cap
        return worst if order == 1 else UPWARD * math.sqrt(worst)

    def rounding_norm(self, participation: Participation, *, order: int) -> float:
        """A unit's records may lie in as many epochs as there are records."""
        reaches = [epoch.rounding_norm(participation, order=order) for epoch in self.mechanisms]
        worst = max(reach / weight for reach, weight in zip(reaches, self.weights, strict=True))
        return worst * (participation.cap if order == 1 else math.sqrt(participation.cap))

    def node_error(
        self, *, increment_bound: float, increment_exponent: int, node_exponent: int
    ) -> float:
        """The largest of the epochs'."""
        return max(
            epoch.node_error(
                increment_bound=increment_bound,
                increment_exponent=increment_exponent,
                node_exponent=node_exponent,
            )
            for epoch in self.mechanisms
        )

    def code_bound(self) -> float:
        """The largest of the epochs'."""
        return max(epoch.code_bound() for epoch in self.mechanisms)

    def variance(self, tick: int) -> float:
        """Variance per coordinate of the decoded sum at ``tick``, for ``sigma = 1``."""
        return self.covariance(tick, tick)

    def covariance(self, earlier: int, later: int) -> float:
        """Covariance per coordinate between two ticks' decoded sums, for ``sigma = 1``.

        Frozen sums before the earlier tick's epoch are in both; of that epoch, the later sum
        holds the last one if it is frozen by then.
        """
        number, place = self.locate(earlier)
        epoch = self.epoch(number)
        other, later_place = self.locate(later)
        end = later_place if other == number else epoch.horizon
        return self._frozen_variance(number) + self.weight(number) ** 2 * epoch.covariance(
            place, end
        )

    def _frozen_variance(self, number: int) -> float:
        """Variance of the frozen sums of all epochs before this one."""
        last = len(self.epochs) - 1
        singles = [self._final_variance(earlier) for earlier in range(min(number, last))]
        repeats = max(number - last, 0)
        return math.fsum(singles) + (repeats * self._final_variance(last) if repeats else 0.0)

    def _final_variance(self, number: int) -> float:
        epoch = self.epoch(number)
        return self.weight(number) ** 2 * epoch.variance(epoch.horizon)

    def memory(self, tick: int) -> int:
        """One vector per buffer of the current epoch."""
        number, _ = self.locate(tick)
        return self.epoch(number).memory(tick)

    def encoder(
        self, dimension: int, *, increment_exponent: int, node_exponent: int
    ) -> "ChainEncoder":
        """A fresh encoder."""

        def bank(number: int) -> BufferBank:
            return BufferBank(
                self.epoch(number).filter,
                dimension,
                increment_exponent=increment_exponent,
                node_exponent=node_exponent,
            )

        return ChainEncoder(self, bank, node_exponent)

    def decoder(self, dimension: int) -> "ChainDecoder":
        """A fresh decoder."""
        return ChainDecoder(self, dimension)


class ChainEncoder:
    """Streams increments through the current epoch's buffers."""

    def __init__(
        self, strategy: ToeplitzChain, bank: Callable[[int], BufferBank], node_exponent: int
    ) -> None:
        self._strategy = strategy
        self._fresh_bank = bank
        self._bank = bank(0)
        self._pending = PendingNodes(node_exponent)
        self._tick = 0

    def absorb(self, increment: ExactVector) -> None:
        """Close one tick with its exact increment."""
        number, place = self._strategy.locate(self._tick + 1)
        if place == 1:
            self._bank = self._fresh_bank(number)
        node = self._bank.step(increment)
        self._tick += 1
        self._pending.add((number, place), node, self._strategy.weight(number))

    def nodes(self) -> list[Node]:
        """The nodes of all ticks since the last release."""
        return self._pending.take()

    def snapshot(self) -> dict[str, FloatArray | IntArray]:
        """The whole secret state as arrays."""
        return {
            "tick": np.array([self._tick], np.int64),
            **self._bank.snapshot("bank"),
            **self._pending.snapshot(),
        }

    def restore(self, arrays: dict[str, FloatArray | IntArray]) -> None:
        """Take up a snapshot."""
        self._tick = int(arrays["tick"][0])
        number, _ = self._strategy.locate(max(self._tick, 1))
        self._bank = self._fresh_bank(number)
        self._bank.restore("bank", arrays)
        self._pending.restore(arrays)


class ChainDecoder:
    """Adds the frozen sums of full epochs and the current epoch's running sum."""

    def __init__(self, strategy: ToeplitzChain, dimension: int) -> None:
        self._strategy = strategy
        self._dimension = dimension
        self._number = 0
        self._frozen = np.zeros(dimension)
        self._current = BufferedDecoder(strategy.epoch(0).filter, dimension)

    def observe(self, address: Address, value: FloatArray) -> None:
        """Take the next tick's measured node, in units of the sum."""
        number, place = address
        if number != self._number:
            self._frozen += self._current.estimate(place)
            self._current = BufferedDecoder(self._strategy.epoch(number).filter, self._dimension)
            self._number = number
        self._current.observe(address, value)

    def estimate(self, tick: int) -> FloatArray:
        """The decoded sum at the last observed tick, which ``tick`` is."""
        return self._frozen + self._current.estimate(tick)

    def snapshot(self) -> dict[str, FloatArray | IntArray]:
        """The whole public state as arrays."""
        return {
            **self._current.snapshot(),
            "epoch": np.array([self._number], np.int64),
            "frozen": self._frozen.copy(),
        }

    def restore(self, arrays: dict[str, FloatArray | IntArray]) -> None:
        """Take up a snapshot."""
        self._number = int(arrays["epoch"][0])
        self._frozen = arrays["frozen"].astype(np.float64)
        response = self._strategy.epoch(self._number).filter
        self._current = BufferedDecoder(response, self._dimension)
        self._current.restore(arrays)
