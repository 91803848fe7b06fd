"""The encoder of filters on endless streams, over buffers that are refreshed."""

import math

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.lattice import ExactVector
from dpstream.mechanisms.continual.pending import PendingNodes
from dpstream.mechanisms.continual.recurrence import RefreshedBank
from dpstream.mechanisms.continual.response import BufferedFilter
from dpstream.mechanisms.continual.strategy import Node

FORGOTTEN = 40.0
"""Slowest time constants after which a record is dropped: its weight is exp(-40) = 4e-18."""


def refresh_period(response: BufferedFilter) -> int:
    """Ticks after which what a buffer still holds of a record is below float resolution."""
    return math.ceil(FORGOTTEN / response.rates[0])


class EndlessEncoder:
    """Streams increments through refreshed buffers; one node per tick, for ever."""

    def __init__(self, bank: RefreshedBank, node_exponent: int) -> None:
        self._bank = bank
        self._pending = PendingNodes(node_exponent)
        self._tick = 0

    def absorb(self, increment: ExactVector) -> None:
        """Close one tick with its exact increment."""
        node = self._bank.step(increment)
        self._tick += 1
        self._pending.add((self._tick,), node)

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
        self._bank.restore("bank", arrays)
        self._pending.restore(arrays)
