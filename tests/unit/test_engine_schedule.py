import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpstream.engine.clock_schedule import LONGEST_SILENCE, EveryInterval
from dpstream.engine.schedule import EveryRecords, Position, Schedule, Thinning
from dpstream.engine.schedule_declaration import schedule_from_json
from dpstream.errors import ConfigurationError, SourceError

Closed = list[tuple[int, int | None, float | None, bool]]


def closings(
    schedule: Schedule, times: np.ndarray | None, sizes: list[int], rows: int
) -> tuple[list[int], Closed, Position]:
    """Each row's tick, the ticks closed, and the last position, for one way of batching."""
    position, start, turn = Position(), 0, 0
    tick_of: list[int] = []
    closed: Closed = []
    while start < rows:
        stop = min(rows, start + sizes[turn % len(sizes)])
        turn += 1
        part = None if times is None else times[start:stop]
        expected = 0
        for segment in schedule.segments(position, stop - start, part):
            assert segment.start == expected
            expected = segment.stop
            tick_of += [position.tick] * (segment.stop - segment.start)
            if segment.closes is not None:
                tick = segment.closes
                assert tick.number == position.tick
                assert segment.after.tick == position.tick + 1
                closed.append((tick.number, tick.records, tick.time, tick.publish))
            position = segment.after
        assert expected == stop - start
        start = stop
    return tick_of, closed, position


def test_thinning_starts_dense_and_settles_on_multiples():
    schedule = Thinning(start=64, every=512)
    assert [schedule.end(k) for k in range(1, 8)] == [64, 128, 256, 512, 1024, 1536, 2048]


def test_thinning_paces_each_doubling():
    schedule = Thinning(start=64, every=512, ticks_per_doubling=4)
    ends = [schedule.end(k) for k in range(1, 20)]
    assert ends[:8] == [64 * k for k in range(1, 9)]
    assert ends[8:12] == [640, 768, 896, 1024]
    assert ends[12:16] == [1280, 1536, 1792, 2048]
    assert ends[16:] == [2560, 3072, 3584]


@given(
    start=st.integers(1, 50),
    extra=st.integers(0, 400),
    pace=st.integers(1, 5),
    n=st.integers(0, 5000),
)
def test_thinning_is_increasing_and_knows_its_horizon(start: int, extra: int, pace: int, n: int):
    schedule = Thinning(start=start, every=start + extra, ticks_per_doubling=pace)
    ends = [schedule.end(k) for k in range(1, 40)]
    lengths = np.diff([0, *ends])
    assert (lengths >= 1).all()
    assert (lengths <= start + extra).all()
    assert lengths[-1] == start + extra or ends[-1] < pace * 2 * (start + extra)
    horizon = schedule.horizon_ticks(n)
    assert (schedule.end(horizon) if horizon else 0) <= n < schedule.end(horizon + 1)


@given(st.integers(1, 40), st.integers(0, 400), st.integers(1, 7))
def test_no_tick_is_larger_than_is_said(start: int, extra: int, pace: int):
    schedule = Thinning(start=start, every=start + extra, ticks_per_doubling=pace)
    ends = [0, *(schedule.end(tick) for tick in range(1, 80))]
    assert max(np.diff(ends)) == schedule.largest_tick
    assert EveryRecords(records=start).largest_tick == start
    assert EveryInterval(seconds=1.0).largest_tick is None


def test_a_thinning_that_never_thins_is_every_so_many():
    schedule = Thinning(start=7, every=7)
    assert [schedule.end(k) for k in range(1, 5)] == [7, 14, 21, 28]


@given(
    every=st.integers(1, 20),
    rows=st.integers(0, 120),
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=4),
)
def test_count_ticks_do_not_depend_on_batching(every: int, rows: int, sizes: list[int]):
    schedule = EveryRecords(records=every)
    tick_of, closed, position = closings(schedule, None, sizes, rows)
    assert tick_of == [1 + row // every for row in range(rows)]
    assert closed == [(k, k * every, None, True) for k in range(1, rows // every + 1)]
    assert (position.tick, position.records) == (rows // every + 1, rows)
    assert schedule.horizon_ticks(rows) == len(closed)


@given(
    times=st.lists(st.one_of(st.floats(0, 300), st.just(float("nan"))), max_size=60),
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=4),
)
def test_clock_ticks_do_not_depend_on_batching(times: list[float], sizes: list[int]):
    schedule = EveryInterval(seconds=10, time_column="t")
    readings = np.array(times, np.float64)
    one = closings(schedule, readings, [1], len(times))
    assert closings(schedule, readings, sizes, len(times)) == one


def test_clock_ticks_close_without_records_and_take_late_ones_in_the_open_tick():
    schedule = EveryInterval(seconds=10, time_column="t")
    times = np.array([1003.0, 1009.0, 1041.0, 1002.0, np.nan, 1040.0, 1050.0])
    tick_of, closed, position = closings(schedule, times, [100], len(times))
    assert tick_of == [1, 1, 5, 5, 5, 5, 6]
    assert [tick for tick, *_ in closed] == [1, 2, 3, 4, 5]
    assert [time for _, _, time, _ in closed] == [1010, 1020, 1030, 1040, 1050]
    assert all(records is None for _, records, _, _ in closed)
    assert position == Position(tick=6, records=7, origin=1000.0)


def test_wall_clock_ticks_on_heartbeats_without_records():
    schedule = EveryInterval(seconds=60)
    (first,) = schedule.segments(Position(), 2, np.array([125.0]))
    assert first.closes is None
    assert first.after == Position(1, 2, 120.0)
    beats = list(schedule.segments(first.after, 0, np.array([305.0])))
    assert [beat.closes.number for beat in beats if beat.closes] == [1, 2, 3]
    assert beats[-1].after == Position(4, 2, 120.0)
    # Set back by less than a tick: the open one goes on.
    (late,) = schedule.segments(beats[-1].after, 2, np.array([245.0]))
    assert late.closes is None
    assert late.after.tick == 4
    assert list(schedule.segments(beats[-1].after, 0, np.array([240.0]))) == []


def test_the_first_heartbeat_opens_the_first_tick():
    schedule = EveryInterval(seconds=60)
    (beat,) = schedule.segments(Position(), 0, np.array([125.0]))
    assert (beat.start, beat.stop, beat.closes, beat.after) == (0, 0, None, Position(1, 0, 120.0))
    closed = list(schedule.segments(beat.after, 2, np.array([305.0])))
    assert [each.closes.number for each in closed if each.closes] == [1, 2, 3]


def test_a_clock_that_runs_backwards_is_refused_before_anything_is_taken():
    schedule = EveryInterval(seconds=60)
    for reading in (239.9, 100.0, -1e9):
        with pytest.raises(SourceError, match="runs backwards"):
            list(schedule.segments(Position(4, 2, 120.0), 2, np.array([reading])))
    # A record's own time may be late by anything.
    (late,) = EveryInterval(seconds=60, time_column="t").segments(
        Position(4, 2, 120.0), 1, np.array([-1e9])
    )
    assert late.closes is None


def test_a_clock_in_the_wrong_unit_is_refused():
    schedule = EveryInterval(seconds=1, time_column="t")
    with pytest.raises(SourceError, match="jumps ahead"):
        list(schedule.segments(Position(), 2, np.array([0.0, LONGEST_SILENCE + 2.0])))


def test_a_clock_needs_readings():
    with pytest.raises(SourceError, match="no times"):
        list(EveryInterval(seconds=1, time_column="t").segments(Position(), 2, None))


def test_publishing_at_every_so_many_ticks():
    _, closed, _ = closings(EveryRecords(records=2, publish_every=3), None, [5], 14)
    assert [publish for *_, publish in closed] == [False, False, True, False, False, True, False]


@pytest.mark.parametrize(
    "options",
    [
        {"every": 500, "publish_every": 1},
        {"every": 500, "publish_every": 0},
        {"every": 512, "start": 64, "ticks_per_doubling": 2, "publish_every": 1},
        {"interval": 3600.0, "clock": "time", "publish_every": 2},
        {"interval": 1.5, "clock": None, "publish_every": 1},
    ],
)
def test_descriptions_read_back(options: dict[str, object]):
    schedule = schedule_from_json(options)
    assert schedule.describe() == options
    assert schedule_from_json(schedule.describe()) == schedule


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "either every"),
        ({"every": 5, "interval": 3}, "either every"),
        ({"evry": 5}, "did you mean 'every'"),
        ({"every": 0}, "every is 0"),
        ({"every": 2.5}, "every is 2.5"),
        ({"every": True}, "every is True"),
        ({"every": 5, "start": 6}, "shorter"),
        ({"every": 5, "clock": "t"}, "clock does not apply"),
        ({"interval": -1}, "interval is -1"),
        ({"interval": "1h"}, "give seconds"),
        ({"interval": float("inf")}, "positive number"),
        ({"every": 5, "ticks_per_doubling": 2}, "needs start"),
    ],
)
def test_wrong_schedules_are_one_clear_line(options: dict[str, object], message: str):
    with pytest.raises(ConfigurationError, match=message) as caught:
        schedule_from_json(options)
    assert "\n" not in str(caught.value)
