import pytest

from dpstream.errors import ConfigurationError
from dpstream.learners.covering import covering
from dpstream.privacy.event import ComposedEvent, Event, GaussianEvent, RepeatedEvent


def test_an_event_is_given_the_positions_that_its_part_was_handed() -> None:
    event = GaussianEvent("sum", mu=1.0)
    moved = covering(event, (3, 5))
    assert moved == GaussianEvent("sum", mu=1.0, covers=(3, 5))
    assert covering(RepeatedEvent(event, 3), (3, 5)) == RepeatedEvent(moved, 3)
    assert covering(ComposedEvent((event,)), (3, 5)) == ComposedEvent((moved,))


def test_positions_of_its_own_are_kept() -> None:
    narrow = GaussianEvent("sum", mu=1.0, covers=(0, 2))
    assert covering(narrow, (0, 5)) == narrow
    assert covering(ComposedEvent((narrow,)), (0, 5)) == ComposedEvent((narrow,))


class _Odd(Event):
    kind = "odd"


def test_an_unknown_kind_of_event_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'odd' cannot be given record positions"):
        covering(_Odd(), (0, 1))
