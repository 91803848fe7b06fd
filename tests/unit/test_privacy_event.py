import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from dpstream.errors import ConfigurationError, StoreCorrupt, StoreMismatch
from dpstream.privacy.bounds import curve_of, parts_of
from dpstream.privacy.curve import PrivacyCurve
from dpstream.privacy.event import (
    ApproximateEvent,
    ComposedEvent,
    Event,
    ExponentialEvent,
    FailureEvent,
    GaussianEvent,
    PureEvent,
    RepeatedEvent,
    ZeroConcentratedEvent,
    event_from_json,
    register_event,
)
from dpstream.privacy.unit import Unit

SINGLES = [
    (GaussianEvent("g", mu=0.3, covers=(0, 7)), PrivacyCurve.gaussian(0.3)),
    (PureEvent("p", epsilon=0.1), PrivacyCurve.pure(0.1)),
    (ExponentialEvent("e", epsilon=0.2), PrivacyCurve.exponential(0.2)),
    (ZeroConcentratedEvent("z", rho=0.02), PrivacyCurve.zcdp(0.02)),
    (ApproximateEvent("a", epsilon=0.4, delta=1e-7), PrivacyCurve.approximate(0.4, 1e-7)),
    (FailureEvent("f", delta=1e-9), PrivacyCurve.failure(1e-9)),
]
EVERY = ComposedEvent((RepeatedEvent(SINGLES[0][0], 3), *(event for event, _ in SINGLES)))


@pytest.mark.parametrize(("event", "curve"), SINGLES)
def test_each_event_has_its_curve(event, curve):
    assert curve_of(event) == curve
    assert list(parts_of(event)) == [(curve, event.covers)]


def test_repetition_and_composition_reach_the_parts():
    gaussian, curve = SINGLES[0]
    assert curve_of(RepeatedEvent(gaussian, 5)) == curve.repeat(5)
    assert list(parts_of(RepeatedEvent(gaussian, 5))) == [(curve.repeat(5), (0, 7))]
    total = PrivacyCurve.none()
    for part, _ in parts_of(EVERY):
        total = total.compose(part)
    assert curve_of(EVERY) == total
    assert len(list(parts_of(EVERY))) == 7


def test_json_survives_text():
    text = json.dumps(EVERY.to_json(), allow_nan=False)
    assert event_from_json(json.loads(text)) == EVERY


def test_kinds_do_not_change_between_versions():
    # Stored events must be read for ever: these names are part of the format.
    kinds = [event.to_json()["kind"] for event, _ in SINGLES]
    assert kinds == [
        *("gaussian", "pure", "exponential", "zero_concentrated", "approximate", "failure"),
    ]
    repeated = EVERY.events[0]
    assert (EVERY.to_json()["kind"], repeated.to_json()["kind"]) == ("composed", "repeated")


def test_numbers_become_plain():
    event = GaussianEvent("g", mu=np.float32(0.5), covers=(np.int64(1), np.int64(3)))
    assert type(event.mu) is float
    assert [type(position) for position in event.covers] == [int, int]
    assert json.loads(json.dumps(event.to_json()))["covers"] == [1, 3]
    assert type(RepeatedEvent(event, np.int64(2)).count) is int


@pytest.mark.parametrize(
    "make",
    [
        lambda: GaussianEvent("", mu=1.0),
        lambda: GaussianEvent(3, mu=1.0),
        lambda: GaussianEvent("g", mu=-1.0),
        lambda: GaussianEvent("g", mu=float("inf")),
        lambda: GaussianEvent("g", mu=float("nan")),
        lambda: GaussianEvent("g", mu=True),
        lambda: GaussianEvent("g", mu="1"),
        lambda: PureEvent("p", epsilon=-0.1),
        lambda: ExponentialEvent("e", epsilon=float("inf")),
        lambda: ZeroConcentratedEvent("z", rho=-1),
        lambda: ApproximateEvent("a", epsilon=1, delta=1.0),
        lambda: FailureEvent("f", delta=-1e-9),
        lambda: PureEvent("p", epsilon=1, covers=(3, 3)),
        lambda: PureEvent("p", epsilon=1, covers=(-1, 3)),
        lambda: PureEvent("p", epsilon=1, covers=(1, 2, 3)),
        lambda: PureEvent("p", epsilon=1, covers=(1.5, 3)),
        lambda: PureEvent("p", epsilon=1, covers=7),
        lambda: RepeatedEvent(SINGLES[0][0], -1),
        lambda: RepeatedEvent(SINGLES[0][0], True),
        lambda: RepeatedEvent(SINGLES[0][0], 2.0),
        lambda: RepeatedEvent("event", 2),
        lambda: ComposedEvent((1,)),
    ],
)
def test_wrong_declarations_are_refused(make):
    with pytest.raises(ConfigurationError):
        make()


@pytest.mark.parametrize("kind", ["telepathy", None, 3, ["gaussian"]])
def test_an_unknown_kind_names_itself_and_the_known_ones(kind):
    with pytest.raises(StoreMismatch, match=r"unknown to this version, which knows .*gaussian"):
        event_from_json({"kind": kind, "name": "g"})


def test_an_unknown_kind_inside_is_a_mismatch_too():
    inside = {"kind": "repeated", "event": {"kind": "telepathy"}, "count": 2}
    with pytest.raises(StoreMismatch, match="telepathy"):
        event_from_json(inside)


@pytest.mark.parametrize(
    "description",
    [
        {"kind": "gaussian", "name": "g"},
        {"kind": "gaussian", "name": "g", "mu": -1, "covers": None},
        {"kind": "gaussian", "name": "g", "mu": 1, "covers": None, "more": 1},
        {"kind": "gaussian", "name": "g", "mu": None, "covers": None},
        {"kind": "composed", "events": 3},
        {"kind": "composed", "events": [3]},
    ],
)
def test_a_description_that_does_not_fit_its_kind_is_corrupt(description):
    with pytest.raises(StoreCorrupt, match="does not verify"):
        event_from_json(description)


def test_a_new_kind_needs_a_name_of_its_own_and_a_bound():
    @dataclass(frozen=True)
    class Impostor(Event):
        kind: ClassVar[str] = "gaussian"

    with pytest.raises(ConfigurationError, match="already registered"):
        register_event(Impostor)
    with pytest.raises(ConfigurationError, match="no privacy bound is known for Impostor"):
        curve_of(Impostor())
    with pytest.raises(ConfigurationError, match="Impostor"):
        list(parts_of(Impostor()))
    assert register_event(GaussianEvent) is GaussianEvent


@pytest.mark.parametrize(
    "arguments",
    [
        {"kind": "household"},
        {"period": "year", "kind": "user", "column": "id"},
        {"cap": 0},
        {"cap": True},
        {"cap": 1.5, "kind": "user", "column": "id"},
        {"cap": 2},
        {"column": "id"},
        {"period": "window"},
        {"kind": "user", "cap": 2},
    ],
)
def test_wrong_units_are_refused(arguments):
    with pytest.raises(ConfigurationError):
        Unit(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "person"}, "unit kind is 'person'; it must be one of record, user"),
        ({"period": "day"}, "unit period is 'day'; it must be one of life, window"),
        ({"kind": "user"}, "a user unit needs the column that identifies the user"),
        ({"kind": "user", "column": ""}, "a user unit needs the column that identifies the user"),
        ({"kind": "user", "column": 3}, "a user unit needs the column that identifies the user"),
    ],
)
def test_wrong_units_are_named(arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        Unit(**arguments)


def test_units():
    assert Unit().cap == 1
    assert Unit(kind="user", cap=3, column="id", period="window").column == "id"


@pytest.mark.parametrize(
    "kind",
    [
        GaussianEvent,
        PureEvent,
        ExponentialEvent,
        ZeroConcentratedEvent,
        ApproximateEvent,
        FailureEvent,
    ],
)
def test_numbers_and_positions_are_named_never_meant_by_their_place(kind) -> None:
    with pytest.raises(TypeError):
        kind("sum", 0.5)
    named = dict.fromkeys(
        (name for name in ("mu", "epsilon", "rho", "delta") if name in kind.__dataclass_fields__),
        0.5,
    )
    assert kind("sum", covers=(0, 1), **named).covers == (0, 1)
    with pytest.raises(TypeError):
        kind("sum", (0, 1), **named)
    for name in named:
        others = {key: value for key, value in named.items() if key != name}
        with pytest.raises(TypeError):
            kind("sum", 0.5, **others)


def test_the_kinds_in_stored_ledgers_stay_for_ever() -> None:
    kinds = {
        GaussianEvent: "gaussian",
        PureEvent: "pure",
        ExponentialEvent: "exponential",
        ZeroConcentratedEvent: "zero_concentrated",
        ApproximateEvent: "approximate",
        FailureEvent: "failure",
        RepeatedEvent: "repeated",
        ComposedEvent: "composed",
    }
    assert {kind: kind.kind for kind in kinds} == kinds


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf"), "0.5", True])
def test_every_number_of_an_event_is_checked(wrong) -> None:
    with pytest.raises(ConfigurationError, match="epsilon of event"):
        ApproximateEvent("a", epsilon=wrong, delta=0.1)
    for kind, others in ((ApproximateEvent, {"epsilon": 1.0}), (FailureEvent, {})):
        for delta in (wrong, 1.0, 1.5):
            with pytest.raises(ConfigurationError, match="delta of event"):
                kind("f", delta=delta, **others)
