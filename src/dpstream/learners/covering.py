"""Which record positions an event of a part that was handed some records alone can reveal."""

from dataclasses import replace
from functools import singledispatch

from dpstream.errors import ConfigurationError
from dpstream.privacy.event import (
    ComposedEvent,
    Event,
    Interval,
    MeasurementEvent,
    RepeatedEvent,
)


@singledispatch
def covering(event: Event, covers: Interval) -> Event:
    """The event, with the record positions that it can reveal anything about.

    Guaranteed: nothing but positions changes, and an event that has positions of its own, counted
    from the same first record, keeps them. Assumed: what the event describes read no record
    outside ``covers``.

    Raises:
        ConfigurationError: for a kind of event that is not registered here.
    """
    raise ConfigurationError(
        f"an event of kind {event.kind!r} cannot be given record positions; register it with "
        "covering"
    )


@covering.register
def _(event: MeasurementEvent, covers: Interval) -> Event:
    return event if event.covers is not None else replace(event, covers=covers)


@covering.register
def _(event: RepeatedEvent, covers: Interval) -> Event:
    return replace(event, event=covering(event.event, covers))


@covering.register
def _(event: ComposedEvent, covers: Interval) -> Event:
    return replace(event, events=tuple(covering(part, covers) for part in event.events))
