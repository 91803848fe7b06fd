"""What leaves the system: measurements, and releases made of them.

A *measurement* is an exact bounded statistic plus noise, drawn once and kept. A *release* is
what is published at a tick: a value computed from measurements alone, with the statement of
its privacy and the events that statement rests on.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar, cast

from dpstream.arrays import IntArray
from dpstream.privacy.unit import Neighbours, Unit

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One noisy statistic: public, drawn once.

    Attributes:
        address: the node it measures, unique in the stream.
        exponent: its lattice.
        value: the noisy integers on that lattice.
    """

    address: tuple[int, ...]
    exponent: int
    value: IntArray


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """The privacy statement of a whole stream, for its whole life.

    Attributes:
        epsilon: with ``delta``, the guarantee of everything published, taken together.
        delta: the probability with which the epsilon bound may fail.
        unit: whose contribution is hidden.
        neighbours: what it is hidden against.
        promise: one plain sentence; says so if records are protected for a while only.
        insecure_seed: True if the noise came from a test seed: the statement is then void.
    """

    epsilon: float
    delta: float
    unit: Unit
    neighbours: Neighbours
    promise: str
    insecure_seed: bool = False


@dataclass(frozen=True, kw_only=True)
class Release(Generic[T]):
    """A published value and what is known of it.

    Attributes:
        tick: the public tick at which it was made, from 1.
        value: what the learner publishes, JSON-ready: a function of measurements and public
            numbers alone. What is in the user's units stands under ``"user"``.
        guarantee: the statement of the whole stream.
        events: the privacy events it rests on, as their public descriptions.
        provenance: public facts: mechanism, bounds, package version, offsets.
    """

    tick: int
    value: T
    guarantee: Guarantee
    events: tuple[Mapping[str, object], ...] = ()
    provenance: Mapping[str, object] = field(default_factory=dict[str, object])

    def map(self, function: Callable[[T], U]) -> "Release[U]":
        """Post-process the value; privacy is unchanged by any function of it."""
        return replace(cast("Release[Any]", self), value=function(self.value))
