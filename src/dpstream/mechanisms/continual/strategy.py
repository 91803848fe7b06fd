"""What a continual sum is made of: an encoder, noise, and a decoder.

A prefix, windowed or decayed sum ``A x`` of tick increments ``x_1, x_2, ...`` is measured as
``C x + z`` and decoded as ``B (C x + z)`` with ``A = B C``. The encoder computes ``C x`` from
secret data; the mechanism adds noise; the decoder is post-processing and public.

Coordinates of the code ``C x`` are called *nodes*. Every node has a public address, is
measured once, and is never drawn again.

A strategy is a frozen dataclass of public, JSON-ready numbers: its name and its fields are its
identity. Encoders and decoders are made by it and hold all the state.
"""

from collections.abc import Sequence
from dataclasses import Field, dataclass
from enum import Enum
from typing import Any, ClassVar, Protocol

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.lattice import ExactVector
from dpstream.errors import ConfigurationError

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

    def __post_init__(self) -> None:
        if not 1 <= self.per_tick <= self.cap:
            raise ConfigurationError(
                f"participation has cap {self.cap} and per_tick {self.per_tick}; a unit must be "
                "allowed at least one record, and no more in a tick than in its life"
            )


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
        """Close one tick with its exact increment.

        Raises:
            HorizonReached: if the tick lies past the strategy's horizon; nothing is absorbed.
        """
        ...

    def nodes(self) -> Sequence[Node]:
        """The nodes that a release at the current tick needs and that were not handed out yet.

        Calling it marks them as handed out: ticks at which nothing is released never call it,
        and nodes they completed that a later release needs are kept until that release. Hence
        a node's value, and the estimate, never depend on which earlier ticks were released.
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

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

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

        The maximum over every admissible multiset K of a unit's ticks, and every choice of
        shifts ``v_k`` of norm at most 1, of ``|| sum_{k in K} C_k v_k / weight ||`` with
        columns ``C_k``: over all nodes in L2 for Gaussian noise (``order=2``); for pure noise
        (``order=1``) the sum over nodes of the nodes' L2 shifts. Where columns have
        non-negative inner products the worst shifts are equal. Nodes of weight 0 are expired
        and do not count. Exact, or a proved upper bound.

        Raises:
            ConfigurationError: if no finite bound exists for that order.
        """
        ...

    def rounding_norm(self, participation: Participation, *, order: int) -> float:
        """How far rounding can reach: the norm of ``1/weight`` over the nodes a unit touches.

        The lattice term of the sensitivity is ``2 * node_error * |scales| * rounding_norm``:
        ``sqrt(sum 1/weight^2)`` for ``order=2``, ``sum 1/weight`` for ``order=1``, over every
        node whose code differs between neighbouring streams. Infinite is not allowed.
        """
        ...

    def node_error(
        self, *, increment_bound: float, increment_exponent: int, node_exponent: int
    ) -> float:
        """The largest error of a node's coordinate against the exact code, in units of the sum.

        Rounding to ``2**node_exponent`` costs half of it; arithmetic in floats costs more, and
        grows with ``increment_bound``, the public bound of every increment's coordinates
        (infinite if there is none, which integer codes accept). Zero where nodes are exact.
        """
        ...

    def code_bound(self) -> float:
        """The largest ``sum_k |C_jk|`` over noisy nodes j: bounds a node by increments' bounds.

        Infinite if nodes sum ever more increments; each coefficient is then at most 1.
        """
        ...

    def variance(self, tick: int) -> float:
        """Variance per coordinate of the decoded sum at ``tick``, for ``sigma = 1``."""
        ...

    def covariance(self, earlier: int, later: int) -> float:
        """Covariance per coordinate between two ticks' decoded sums, for ``sigma = 1``."""
        ...

    def memory(self, tick: int) -> int:
        """Exact vectors that the encoder holds after ``tick`` ticks, each of them released.

        Nodes that unreleased ticks completed are held in addition until the next release.
        """
        ...

    def encoder(self, dimension: int, *, increment_exponent: int, node_exponent: int) -> Encoder:
        """A fresh encoder: increments on one lattice, nodes rounded to another."""
        ...

    def decoder(self, dimension: int) -> Decoder:
        """A fresh decoder."""
        ...
