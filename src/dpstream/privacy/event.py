"""What ran: privacy events, as data without mathematics.

An event describes one measurement, or one adaptive family of measurements, by the public
number that bounds what it reveals of any unit. Events are frozen, serialise to JSON and back
without loss, and know nothing of composition: ``bounds.curve_of`` gives each its curve.

``covers`` names the record positions an event can reveal anything about, directly or through
secret state: None for every position, or a half-open interval ``(first, end)``. What it depends
on through released values alone does not count. Events with disjoint intervals compose in
parallel when the unit is a record.
"""

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import ClassVar, Self, TypeVar, cast

from dpstream.errors import ConfigurationError, StoreCorrupt, StoreMismatch

Interval = tuple[int, int]

_kinds: dict[str, type["Event"]] = {}

Kind = TypeVar("Kind", bound="type[Event]")


def register_event(kind: Kind) -> Kind:
    """Make an event class readable from JSON under its ``kind``.

    Raises:
        ConfigurationError: if another class already has that kind.
    """
    if _kinds.setdefault(kind.kind, kind) is not kind:
        raise ConfigurationError(
            f"event kind {kind.kind!r} is already registered; give the new class another kind"
        )
    return kind


def event_from_json(description: Mapping[str, object]) -> "Event":
    """The event that ``to_json`` described.

    Raises:
        StoreMismatch: if the kind is unknown to this version of the package.
        StoreCorrupt: if the kind is known and its description does not fit it.
    """
    kind = description.get("kind")
    known = _kinds.get(kind) if isinstance(kind, str) else None
    if known is None:
        raise StoreMismatch(
            f"privacy event of kind {kind!r} is unknown to this version, which knows "
            f"{', '.join(sorted(_kinds))}; read it with the version that wrote it"
        )
    contents = {key: value for key, value in description.items() if key != "kind"}
    try:
        return known.from_contents(contents)
    except (TypeError, ConfigurationError) as error:
        raise StoreCorrupt(f"privacy event of kind {kind!r} does not verify: {error}") from error


@dataclass(frozen=True)
class Event:
    """The root of all events; ``kind`` is the class's name in JSON, for ever."""

    kind: ClassVar[str]

    def to_json(self) -> dict[str, object]:
        """A description of plain JSON values from which ``event_from_json`` rebuilds it."""
        description: dict[str, object] = {"kind": self.kind}
        return description | {item.name: getattr(self, item.name) for item in fields(self)}

    @classmethod
    def from_contents(cls, contents: Mapping[str, object]) -> Self:
        """Build from a JSON description without its ``kind``."""
        return cls(**contents)


@dataclass(frozen=True)
class MeasurementEvent(Event):
    """What the events of single mechanisms share.

    Attributes:
        name: the mechanism's name, for people who read the ledger.
        covers: the record positions it can reveal anything about; None for all of them.
    """

    name: str
    covers: Interval | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:  # pyright: ignore[reportUnnecessaryIsInstance]  # JSON arrives unchecked
            raise ConfigurationError(f"event name is {self.name!r}; give a non-empty text")
        if self.covers is not None:
            object.__setattr__(self, "covers", _interval(self.name, self.covers))

    def to_json(self) -> dict[str, object]:
        """See ``Event.to_json``."""
        covers = None if self.covers is None else list(self.covers)
        return super().to_json() | {"covers": covers}

    def _keep(self, field_name: str, below: float = math.inf) -> None:
        """Store a public number as a float in ``[0, below)``, or refuse it."""
        value = getattr(self, field_name)
        number = float(value) if not isinstance(value, bool | str) else math.nan
        if not 0.0 <= number < below:
            raise ConfigurationError(
                f"{field_name} of event {self.name!r} is {value!r}; "
                f"it must be a number in [0, {below:g})"
            )
        object.__setattr__(self, field_name, number)


def _interval(name: str, covers: object) -> Interval:
    try:
        first, end = (operator.index(position) for position in cast("Interval", covers))
    except (TypeError, ValueError):
        first, end = 0, -1
    if not 0 <= first < end:
        raise ConfigurationError(
            f"covers of event {name!r} is {covers!r}; it must be None or a pair of integers "
            "(first, end) with 0 <= first < end"
        )
    return first, end


@register_event
@dataclass(frozen=True)
class GaussianEvent(MeasurementEvent):
    """An adaptive family of Gaussian measurements.

    Attributes:
        mu: the square root of the largest sum over measurements of squared shift over
            variance that one unit can cause.
    """

    kind: ClassVar[str] = "gaussian"
    mu: float = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._keep("mu")


@register_event
@dataclass(frozen=True)
class PureEvent(MeasurementEvent):
    """An ``epsilon``-differentially private mechanism of any kind.

    Attributes:
        epsilon: the largest absolute log-ratio of output densities that one unit can cause.
    """

    kind: ClassVar[str] = "pure"
    epsilon: float = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._keep("epsilon")


@register_event
@dataclass(frozen=True)
class ExponentialEvent(MeasurementEvent):
    """A selection by the exponential mechanism (equally, the largest score plus Gumbel noise).

    Attributes:
        epsilon: the *range* of the log-ratio of output probabilities between neighbours: for
            scores of sensitivity s and probabilities proportional to ``exp(score / scale)``,
            ``2 s / scale``; ``s / scale`` if one unit moves every score the same way.
    """

    kind: ClassVar[str] = "exponential"
    epsilon: float = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._keep("epsilon")


@register_event
@dataclass(frozen=True)
class ZeroConcentratedEvent(MeasurementEvent):
    """A ``rho``-zCDP mechanism, such as the exact discrete Gaussian.

    Attributes:
        rho: every Rényi divergence of order alpha between neighbours is at most ``alpha rho``.
    """

    kind: ClassVar[str] = "zero_concentrated"
    rho: float = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._keep("rho")


@register_event
@dataclass(frozen=True)
class ApproximateEvent(MeasurementEvent):
    """An (``epsilon``, ``delta``)-differentially private mechanism of any kind.

    Attributes:
        epsilon: with ``delta``, its guarantee.
        delta: below 1.
    """

    kind: ClassVar[str] = "approximate"
    epsilon: float = field(kw_only=True)
    delta: float = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._keep("epsilon")
        self._keep("delta", below=1.0)


@register_event
@dataclass(frozen=True)
class FailureEvent(MeasurementEvent):
    """A failure that would reveal everything, of probability at most ``delta``.

    Attributes:
        delta: below 1; adds to the delta of everything else.
    """

    kind: ClassVar[str] = "failure"
    delta: float = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._keep("delta", below=1.0)


@register_event
@dataclass(frozen=True)
class RepeatedEvent(Event):
    """One event, ``count`` times over the same positions.

    Attributes:
        event: what is repeated.
        count: how often; 0 is allowed and costs nothing.
    """

    kind: ClassVar[str] = "repeated"
    event: Event
    count: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "event", _event(self.event))
        valid = not isinstance(self.count, bool) and hasattr(self.count, "__index__")
        if not valid or self.count < 0:
            raise ConfigurationError(
                f"count of a repeated event is {self.count!r}; it must be an integer from 0"
            )
        object.__setattr__(self, "count", operator.index(self.count))

    def to_json(self) -> dict[str, object]:
        """See ``Event.to_json``."""
        return {"kind": self.kind, "event": self.event.to_json(), "count": self.count}


@register_event
@dataclass(frozen=True)
class ComposedEvent(Event):
    """Several events, charged as one: all of them or none.

    Attributes:
        events: what is composed.
    """

    kind: ClassVar[str] = "composed"
    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", tuple(_event(event) for event in self.events))

    def to_json(self) -> dict[str, object]:
        """See ``Event.to_json``."""
        return {"kind": self.kind, "events": [event.to_json() for event in self.events]}


def _event(part: object) -> Event:
    """A part of a larger event, which is a description while JSON is being read."""
    if isinstance(part, Event):
        return part
    if isinstance(part, Mapping):
        return event_from_json(cast("Mapping[str, object]", part))
    raise ConfigurationError(f"{part!r} is no privacy event")
