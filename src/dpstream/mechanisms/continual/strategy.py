"""What a continual sum is made of: an encoder, noise, and a decoder.

A prefix, windowed or decayed sum ``A x`` of tick increments ``x_1, x_2, ...`` is measured as
``C x + z`` and decoded as ``B (C x + z)`` with ``A = B C``. The encoder computes ``C x`` from
secret data; the mechanism adds noise; the decoder is post-processing and public.

Coordinates of the code ``C x`` are called *nodes*. Every node has a public address, is
measured once, and is never drawn again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.lattice import ExactVector

Address = tuple[int, ...]


class Promise(Enum):
    """What a strategy's releases keep secret, and for how long."""

    FOREVER = "every record is protected for the stream's whole life"
    WHILE_LIVE = (
        "delayed publication: a record is protected for W ticks, then its contribution to the "
        "sum is published exactly"
    )


@dataclass(frozen=True, kw_only=True)
class Participation:
    """How often one unit may contribute, in public numbers.

    Attributes:
        cap: records of one unit over the stream's life (over a window, for windowed sums).
        per_tick: records of one unit that may fall in the same tick (at most ``cap``).
    """

    cap: int = 1
    per_tick: int = 1


@dataclass(frozen=True)
class Node:
    """One coordinate vector of the code, before noise: secret.

    Attributes:
        address: public, unique within the strategy's life.
        value: integers on the lattice ``2**exponent``.
        exponent: the lattice.
        weight: the node's noise is ``weight * sigma``; 0 marks an expired exact sum, which only
            a strategy with ``Promise.WHILE_LIVE`` may emit.
    """

    address: Address
    value: IntArray
    exponent: int
    weight: float = 1.0


class Encoder(Protocol):
    """Secret side: streams increments, exact, and hands out nodes."""

    def absorb(self, increment: ExactVector) -> None:
        """Close one tick with its exact increment."""
        ...

    def nodes(self) -> Sequence[Node]:
        """The nodes that a release at the current tick needs and that were not handed out yet.

        Calling it marks them as handed out: ticks at which nothing is released never call it.
        """
        ...

    def snapshot(self) -> dict[str, FloatArray | IntArray]:
        """The whole secret state as arrays; ``restore`` continues to the bit."""
        ...

    def restore(self, arrays: dict[str, FloatArray | IntArray]) -> None:
        """Take up a snapshot."""
        ...


class Decoder(Protocol):
    """Public side: turns noisy nodes into the running estimate."""

    def observe(self, address: Address, value: FloatArray) -> None:
        """Take one measured node, in units of the sum."""
        ...

    def estimate(self, tick: int) -> FloatArray:
        """The decoded sum at ``tick`` (every node that tick needs has been observed)."""
        ...

    def snapshot(self) -> dict[str, FloatArray | IntArray]:
        """The whole public state as arrays."""
        ...

    def restore(self, arrays: dict[str, FloatArray | IntArray]) -> None:
        """Take up a snapshot."""
        ...


class Strategy(Protocol):
    """A factorisation of a continual sum, by public numbers alone.

    ``tick`` counts from 1. ``sigma`` is the noise of a node of weight 1.
    """

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        ...

    @property
    def horizon(self) -> int | None:
        """The last tick, or None if there is none."""
        ...

    @property
    def promise(self) -> Promise:
        """What its releases keep secret."""
        ...

    def sensitivity(self, participation: Participation, *, order: int) -> float:
        """The largest norm of one unit's shift of the code, per unit of record norm.

        The maximum over every admissible set of ticks K of a unit of
        ``|| sum_{k in K} C_k / weight ||`` with columns ``C_k``: L2 for Gaussian noise
        (``order=2``); for pure noise (``order=1``) the sum over nodes of the nodes' shifts.
        """
        ...

    def rounding_nodes(self) -> float:
        """How many nodes one unit's rounding errors can reach: a bound for the lattice term."""
        ...

    def code_bound(self) -> float:
        """The largest ``sum_k |C_jk|`` over nodes j: bounds a node by increments' bounds."""
        ...

    def variance(self, tick: int) -> float:
        """Variance per coordinate of the decoded sum at ``tick``, for ``sigma = 1``."""
        ...

    def covariance(self, earlier: int, later: int) -> float:
        """Covariance per coordinate between two ticks' decoded sums, for ``sigma = 1``."""
        ...

    def memory(self, tick: int) -> int:
        """Vectors of the sum's dimension held by the encoder after ``tick`` ticks."""
        ...

    def encoder(self, dimension: int, *, increment_exponent: int, node_exponent: int) -> Encoder:
        """A fresh encoder: increments on one lattice, nodes rounded to another."""
        ...

    def decoder(self, dimension: int) -> Decoder:
        """A fresh decoder."""
        ...
