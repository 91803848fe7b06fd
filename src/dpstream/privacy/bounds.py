"""What each event reveals: from events to curves, one function per kind of event.

Open dispatch: a new kind of event registers its own curve and its own parts and touches
nothing here. No function sees a count; repetition belongs to the curve.
"""

from collections.abc import Iterator
from functools import singledispatch

from dpstream.errors import ConfigurationError
from dpstream.privacy.curve import PrivacyCurve
from dpstream.privacy.event import (
    ApproximateEvent,
    ComposedEvent,
    Event,
    ExponentialEvent,
    FailureEvent,
    GaussianEvent,
    Interval,
    MeasurementEvent,
    PureEvent,
    RepeatedEvent,
    ZeroConcentratedEvent,
)

Part = tuple[PrivacyCurve, Interval | None]


@singledispatch
def curve_of(event: Event) -> PrivacyCurve:
    """What an event reveals of a unit that every part of it can reach.

    Raises:
        ConfigurationError: if no bound is known for this kind of event.
    """
    raise ConfigurationError(
        f"no privacy bound is known for {type(event).__name__}; register one with curve_of"
    )


@curve_of.register
def _(event: GaussianEvent) -> PrivacyCurve:
    return PrivacyCurve.gaussian(event.mu)


@curve_of.register
def _(event: PureEvent) -> PrivacyCurve:
    return PrivacyCurve.pure(event.epsilon)


@curve_of.register
def _(event: ExponentialEvent) -> PrivacyCurve:
    return PrivacyCurve.exponential(event.epsilon)


@curve_of.register
def _(event: ZeroConcentratedEvent) -> PrivacyCurve:
    return PrivacyCurve.zcdp(event.rho)


@curve_of.register
def _(event: ApproximateEvent) -> PrivacyCurve:
    return PrivacyCurve.approximate(event.epsilon, event.delta)


@curve_of.register
def _(event: FailureEvent) -> PrivacyCurve:
    return PrivacyCurve.failure(event.delta)


@curve_of.register
def _(event: RepeatedEvent) -> PrivacyCurve:
    return curve_of(event.event).repeat(event.count)


@curve_of.register
def _(event: ComposedEvent) -> PrivacyCurve:
    total = PrivacyCurve.none()
    for part in event.events:
        total = total.compose(curve_of(part))
    return total


@singledispatch
def parts_of(event: Event) -> Iterator[Part]:
    """The event's curves with the positions each can reach; None for every position."""
    yield curve_of(event), None


@parts_of.register
def _(event: MeasurementEvent) -> Iterator[Part]:
    yield curve_of(event), event.covers


@parts_of.register
def _(event: RepeatedEvent) -> Iterator[Part]:
    for curve, covers in parts_of(event.event):
        yield curve.repeat(event.count), covers


@parts_of.register
def _(event: ComposedEvent) -> Iterator[Part]:
    for part in event.events:
        yield from parts_of(part)
