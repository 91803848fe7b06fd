"""Nodes that ticks have completed and no release has asked for yet.

Matrix mechanisms decode every later sum from all earlier nodes, so a node completed at a tick
without a release waits here, with its value fixed, until a release takes it.
"""

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.errors import HorizonReached
from dpstream.mechanisms.continual.strategy import Address, Node


class PendingNodes:
    """A queue of nodes, in the order in which they were completed."""

    def __init__(self, exponent: int) -> None:
        self._exponent = exponent
        self._nodes: list[Node] = []

    def add(self, address: Address, value: IntArray, weight: float = 1.0) -> None:
        """Let a node wait."""
        self._nodes.append(Node(address, value, self._exponent, weight))

    def take(self) -> list[Node]:
        """All waiting nodes; they wait no more."""
        nodes, self._nodes = self._nodes, []
        return nodes

    def snapshot(self) -> dict[str, FloatArray | IntArray]:
        """The waiting nodes as arrays."""
        return {
            "pending_addresses": np.array([node.address for node in self._nodes], np.int64),
            "pending_values": np.array([node.value for node in self._nodes], np.int64),
            "pending_weights": np.array([node.weight for node in self._nodes], np.float64),
        }

    def restore(self, arrays: dict[str, FloatArray | IntArray]) -> None:
        """Take up the waiting nodes of a snapshot."""
        self._nodes = [
            Node(
                tuple(int(part) for part in address),
                value.astype(np.int64),
                self._exponent,
                float(weight),
            )
            for address, value, weight in zip(
                arrays["pending_addresses"],
                arrays["pending_values"],
                arrays["pending_weights"],
                strict=True,
            )
        ]


def refuse_past_horizon(name: str, tick: int, horizon: int) -> None:
    """Refuse to close another tick once ``tick`` of ``horizon`` are closed.

    Raises:
        HorizonReached: always past the horizon, before anything is absorbed.
    """
    if tick >= horizon:
        raise HorizonReached(
            f"{name} was calibrated for {horizon} ticks and has closed them all; declare a longer "
            "horizon, or a strategy without one, before the stream starts"
        )
