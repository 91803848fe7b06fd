import copy
import json
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from dpstream.domain.batch import GRID, Batch, RawChunk
from dpstream.domain.column import Numeric
from dpstream.domain.domain import Domain
from dpstream.engine.clock_schedule import EveryInterval
from dpstream.engine.memory import MemoryStore
from dpstream.engine.ports import CollectingSink, Progress, ReleaseRow
from dpstream.engine.publication import from_line, to_line
from dpstream.engine.schedule import EveryRecords, Position, Schedule, Thinning
from dpstream.engine.session import Session
from dpstream.engine.snapshot import Snapshot
from dpstream.engine.stream import Stream
from dpstream.errors import (
    BudgetExceeded,
    ConfigurationError,
    DpstreamError,
    HorizonReached,
    SchemaError,
    SourceError,
    StoreError,
    StoreMismatch,
)
from dpstream.learners.learner import Outcome, Tick
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.event import Event, GaussianEvent
from dpstream.privacy.unit import Unit
from dpstream.stores.sqlite import SqliteStore
from dpstream.testing.counting_learner import CountingLearner, CountingState
from dpstream.testing.small_stream import ArraySource, ManualClock, small_records, small_stream


def lines_of(stream: Stream[Any], sizes: Sequence[int], rows: Any) -> list[bytes]:
    sink = CollectingSink()
    with Session(stream, store=MemoryStore(), sinks=[sink]) as session:
        for _ in session.run(ArraySource(rows, sizes)):
            pass
    return list(sink.lines.values())


def test_a_release_at_every_tick_and_the_last_tick_stays_open():
    store = MemoryStore()
    with Session(small_stream(), store=store) as session:
        ticks = [release.tick for release in session.run(ArraySource(small_records(37), [8]))]
        assert ticks == [1, 2, 3]
        assert (session.records, session.tick) == (37, 4)
    with Session(small_stream(), store=store) as session:
        (release,) = session.run(ArraySource(small_records(45), [8]))
        assert release.tick == 4
        assert [r.tick for r in session.releases()] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "schedule",
    [
        EveryRecords(records=10),
        Thinning(start=3, every=20),
        EveryRecords(records=4, publish_every=3),
    ],
)
def test_any_batching_gives_the_same_bytes(schedule: Schedule):
    rows = small_records(95)
    stream = small_stream(schedule=schedule, insecure_seed=7)
    one = lines_of(stream, [1], rows)
    assert len(one) >= 5
    for sizes in ([95], [7], [10], [3, 40, 1]):
        assert lines_of(stream, sizes, rows) == one


def test_on_demand_a_release_comes_only_when_it_is_asked_for():
    rows = small_records(95)
    stream = small_stream(schedule=EveryRecords(records=10, publish_every=0), insecure_seed=7)
    store = MemoryStore()
    with Session(stream, store=store) as session:
        assert list(session.run(ArraySource(rows[:25], [8]))) == []
        session.publish_next()
        # One wish, one release: of the tick that closes next.
        assert [r.tick for r in session.run(ArraySource(rows[:75], [8]))] == [3]
        session.publish_next()
    # A wish is for the session alone; whoever opens the stream again asks again.
    with Session(stream, store=store) as session:
        assert list(session.run(ArraySource(rows[:85], [8]))) == []
        session.publish_next()
        assert [r.tick for r in session.run(ArraySource(rows, [8]))] == [9]
    assert [row.tick for row in store.releases()] == [3, 9]


def test_the_released_sum_is_the_exact_sum_plus_the_declared_noise():
    rows = small_records(4000, dimension=40)
    stream = small_stream(dimension=40, insecure_seed=3)
    last = json.loads(lines_of(stream, [500], rows)[-1])
    exact = stream.domain.admit(rows).features.sum(axis=0) / GRID
    sigma = stream.learner.describe()["sigma"] * np.sqrt(400)
    z = (np.array(last["value"]["sum"]) - exact) / sigma
    # Chi-square with 40 degrees of freedom: [12, 100] leaves out less than 1e-6 on each side.
    assert 12 < (z**2).sum() < 100


def test_each_release_states_the_guarantee_and_reads_back():
    store = MemoryStore()
    with Session(small_stream(), store=store) as session:
        (release,) = session.run(ArraySource(small_records(10), [10]))
        assert release.guarantee.epsilon == 1.0
        assert not release.guarantee.insecure_seed
        assert release.events == (session.ledger.rows[0].event.to_json(),)
        assert release.provenance["records"] == 10
        assert release.provenance["ledger_head"] == session.ledger.head
        assert from_line(to_line(release)) == release
        assert list(session.releases()) == [release]


def test_a_test_seed_marks_every_release():
    (line,) = lines_of(small_stream(insecure_seed=5), [10], small_records(10))
    assert json.loads(line)["guarantee"]["insecure_seed"] is True


def test_without_a_seed_two_streams_have_independent_noise():
    rows = small_records(10)
    assert lines_of(small_stream(), [10], rows) != lines_of(small_stream(), [10], rows)


def test_opening_events_are_charged_before_the_first_record():
    store = MemoryStore()
    with Session(small_stream(), store=store):
        pass
    assert [row.event.kind for row in store.ledger()] == ["gaussian"]


class PayingLearner(CountingLearner):
    """Pays at each release, and counts how often it was asked to draw noise."""

    mu = 0.1
    opening_mu = 0.0

    def opening_events(self) -> Sequence[Event]:
        return [GaussianEvent("opening", mu=self.opening_mu)]

    def next_events(self, tick: Tick) -> Sequence[Event]:
        return [GaussianEvent(f"tick {tick.number}", mu=self.mu)]

    def release(self, state: CountingState, tick: Tick, noise: Noise) -> Outcome:
        self.drawn = tick.number
        return super().release(state, tick, noise)


def paying_stream(**options: Any) -> Stream[CountingState]:
    stream = small_stream(**options)
    learner = PayingLearner(3, budget=stream.budget, unit=stream.unit, neighbours=stream.neighbours)
    return Stream(**{**vars(stream), "learner": learner})


def test_the_ledger_refuses_before_noise_is_drawn_and_the_stream_stops():
    stream, store = paying_stream(), MemoryStore()
    learner = stream.learner
    assert isinstance(learner, PayingLearner)
    # mu(1, 1e-6) = 0.2367: five charges of mu 0.1 compose to 0.2236, six to 0.2449.
    with Session(stream, store=store) as session:
        running = session.run(ArraySource(small_records(100), [100]))
        ticks = [next(running).tick for _ in range(5)]
        with pytest.raises(BudgetExceeded):
            next(running)
        assert ticks == [1, 2, 3, 4, 5]
        assert learner.drawn == 5
        with pytest.raises(StoreError, match="open the stream again"):
            session.checkpoint()
    with Session(stream, store=store) as session:
        assert session.records == 50
        with pytest.raises(BudgetExceeded):
            list(session.run(ArraySource(small_records(100), [100])))
    assert learner.drawn == 5
    assert len(store.ledger()) == 6


def test_charges_of_a_release_are_in_its_line():
    (line,) = lines_of(paying_stream(), [10], small_records(10))
    content = json.loads(line)
    assert [event["name"] for event in content["events"]] == ["opening", "tick 1"]
    assert content["provenance"]["ledger_rows"] == 2


def test_an_opening_beyond_the_budget_begins_and_writes_nothing(tmp_path: Path):
    stream, store = paying_stream(), MemoryStore()
    assert isinstance(stream.learner, PayingLearner)
    stream.learner.opening_mu = 0.3
    with pytest.raises(BudgetExceeded):
        Session(stream, store=store)
    assert store.identity() is None
    with pytest.raises(BudgetExceeded):
        Session(stream, store=SqliteStore(tmp_path / "store.sqlite"))
    assert list(tmp_path.iterdir()) == []


def test_past_the_horizon_the_stream_stops():
    store = MemoryStore()
    stream = small_stream(horizon=3)
    with Session(stream, store=store) as session:
        assert len(list(session.run(ArraySource(small_records(30), [30])))) == 3
    with Session(stream, store=store) as session:
        with pytest.raises(HorizonReached, match="tick 3"):
            list(session.run(ArraySource(small_records(31), [30])))
        assert session.records == 30
    assert len(list(store.releases())) == 3


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"epsilon": 2.0}, "budget.epsilon was 1.0, is now 2.0"),
        ({"schedule": EveryRecords(records=11)}, "schedule.every was 10, is now 11"),
        ({"insecure_seed": 3}, "insecure_seed was null, is now 3"),
        ({"horizon": 9}, "learner.horizon was null, is now 9"),
        (
            {"unit": Unit(kind="user", cap=2, column="who")},
            r'unit.kind was "record", is now "user"',
        ),
    ],
)
def test_resume_refuses_a_changed_configuration(change: dict[str, Any], name: str):
    store = MemoryStore()
    Session(small_stream(), store=store).close()
    with pytest.raises(StoreMismatch, match=name):
        Session(small_stream(**change), store=store)
    Session(small_stream(), store=store).close()


def test_a_domain_change_is_named_by_its_place():
    store = MemoryStore()
    stream = small_stream()
    Session(stream, store=store).close()
    other = Domain([Numeric("x1"), Numeric("y"), Numeric("x3")], intercept=False, norm_bound=1.0)
    learner = CountingLearner(
        3, budget=stream.budget, unit=stream.unit, neighbours=stream.neighbours, domain=other
    )
    changed = Stream(learner=learner, schedule=stream.schedule)
    with pytest.raises(StoreMismatch, match=r'domain.columns\[1\].name was "x2", is now "y"'):
        Session(changed, store=store)


def test_a_broken_chunk_takes_nothing_and_the_session_goes_on():
    with Session(small_stream(), store=MemoryStore()) as session:
        with pytest.raises(SchemaError):
            list(session.learn(RawChunk(data=np.ones((4, 2)), offset=0, length=4)))
        assert session.records == 0
        assert len(list(session.run(ArraySource(small_records(10), [10])))) == 1


def test_a_gap_in_the_offsets_is_refused():
    with (
        Session(small_stream(), store=MemoryStore()) as session,
        pytest.raises(SourceError, match="stands at record 0"),
    ):
        list(session.learn(RawChunk(data=small_records(4), offset=3, length=4)))


def test_a_chunk_that_is_not_what_it_says_is_refused():
    with Session(small_stream(), store=MemoryStore()) as session:
        with pytest.raises(SourceError, match="announced 5 records and delivered 4"):
            list(session.learn(RawChunk(data=small_records(4), offset=0, length=5)))
        assert session.records == 0


def test_abandoning_a_run_between_releases_loses_nothing():
    rows, store = small_records(50), MemoryStore()
    stream = small_stream(insecure_seed=1)
    sink = CollectingSink()
    with Session(stream, store=store, sinks=[sink]) as session:
        next(session.run(ArraySource(rows, [50])))
        assert session.records == 10
        list(session.run(ArraySource(rows, [50])))
    assert list(sink.lines.values()) == lines_of(stream, [50], rows)


class VanishingSource(ArraySource):
    def chunks(self, offset: int):
        yield from list(super().chunks(offset))[:2]
        raise OSError(5, "Input/output error")


def test_an_iterator_of_a_closed_session_takes_nothing_more():
    store, records = MemoryStore(), ArraySource(small_records(40), [40])
    stream = small_stream(
        charge_each=True, horizon=9, schedule=EveryRecords(records=10, publish_every=2)
    )
    stale = Session(stream, store=store)
    running = stale.run(records)
    assert next(running).tick == 2
    stale.close()
    with Session(stream, store=store) as session:
        with pytest.raises(StoreError, match="has ended or failed"):
            next(running)
        assert [release.tick for release in session.run(records)] == [4]
        assert len(store.ledger()) == 2


def test_a_second_thread_is_refused_and_takes_nothing():
    told: list[str] = []
    rows = small_records(20)

    def intrude() -> None:
        for use in (lambda: next(session.learn(second)), session.checkpoint):
            try:
                use()
            except StoreError as refused:
                told.append(str(refused))

    def meanwhile(step: str) -> None:
        if step == "learned" and session.tick == 1:
            thread = Thread(target=intrude)
            thread.start()
            thread.join()

    store = MemoryStore()
    session = Session(small_stream(charge_each=True, horizon=9), store=store, on_step=meanwhile)
    first, second = ArraySource(rows, [10]).chunks(0)
    with session:
        assert [release.tick for release in session.learn(first)] == [1]
        assert len(told) == 2
        assert all("another thread is using this session" in each for each in told)
        assert [release.tick for release in session.learn(second)] == [2]
    assert len(store.ledger()) == 2


def test_a_vanished_source_is_one_clear_line_and_loses_nothing():
    rows, store = small_records(60), MemoryStore()
    stream = small_stream(insecure_seed=1)
    sink = CollectingSink()
    with (
        Session(stream, store=store, sinks=[sink]) as session,
        pytest.raises(SourceError, match="Input/output error") as caught,
    ):
        list(session.run(VanishingSource(rows, [15])))
    assert "\n" not in str(caught.value)
    assert len(sink.lines) == 3
    with Session(stream, store=store, sinks=[sink]) as session:
        list(session.run(ArraySource(rows, [15])))
    assert list(sink.lines.values()) == lines_of(stream, [15], rows)


def test_progress_is_told_after_each_chunk():
    told: list[Progress] = []
    with Session(small_stream(), store=MemoryStore(), on_progress=told.append) as session:
        list(session.run(ArraySource(small_records(25), [20])))
    assert told == [
        Progress(records=20, ticks=2, releases=2),
        Progress(records=25, ticks=2, releases=2),
    ]


def test_learning_runs_on_one_thread():
    seen: list[int] = []

    class Watching(CountingLearner):
        def learn(self, state: CountingState, batch: Batch) -> None:
            seen.extend(library["num_threads"] for library in threadpool_info())
            super().learn(state, batch)

    stream = small_stream()
    learner = Watching(3, budget=stream.budget, unit=stream.unit, neighbours=stream.neighbours)
    lines_of(Stream(**{**vars(stream), "learner": learner}), [10], small_records(10))
    assert seen
    assert set(seen) == {1}


def test_a_session_cannot_be_copied():
    with (
        Session(small_stream(), store=MemoryStore()) as session,
        pytest.raises(DpstreamError, match="budget belongs to one stream"),
    ):
        copy.deepcopy(session)


def test_clock_ticks_close_without_records_and_hide_the_count():
    domain = Domain([Numeric("x", -1, 1)], intercept=False)
    base = small_stream(dimension=1, schedule=EveryInterval(seconds=10, time_column="t"))
    learner = CountingLearner(
        1, budget=base.budget, unit=base.unit, neighbours=base.neighbours, domain=domain
    )
    stream = Stream(learner=learner, schedule=base.schedule)
    rows = [{"x": 1.0, "t": t} for t in (3.0, 4.0, 35.0, 20.0, 41.0)]
    with Session(stream, store=MemoryStore()) as session:
        releases = list(session.run(ArraySource(rows, [2])))
    assert [release.tick for release in releases] == [1, 2, 3, 4]
    assert [release.provenance["time"] for release in releases] == [10, 20, 30, 40]
    assert all(release.provenance["records"] is None for release in releases)


def test_the_wall_clock_ticks_on_heartbeats():
    clock = ManualClock(1000.0)
    stream = small_stream(schedule=EveryInterval(seconds=10))
    with Session(stream, store=MemoryStore(), clock=clock) as session:

        def beat(rows: int) -> list[int]:
            data = small_records(rows)
            chunk = RawChunk(data=data, offset=session.records, length=rows)
            return [release.tick for release in session.learn(chunk)]

        assert beat(5) == []
        clock.reading = 1012.0
        assert beat(0) == [1]
        clock.reading = 1005.0
        assert beat(3) == []
        clock.reading = 990.0
        with pytest.raises(SourceError, match="runs backwards"):
            beat(4)
        assert session.records == 8
        clock.reading = 1040.0
        assert beat(2) == [2, 3, 4]
        assert session.records == 10


@pytest.mark.parametrize("came", [{8.0: 3}, {35.0: 3}, {35.0: 3, 61.0: 1}, {61.0: 1}, {}])
def test_by_the_time_of_day_no_release_tells_when_records_came_or_whether(came: dict[float, int]):
    """A source that is read every second, from 7 to 87 s: ticks close at 10, 20, ..., 80 s."""
    clock = ManualClock()

    class Feeding(ArraySource):
        def chunks(self, offset: int):
            clock.reading = 8.0
            while clock.reading < 87.0:
                rows = came.get(clock.reading, 0)
                yield RawChunk(data=small_records(rows), offset=offset, length=rows)
                offset += rows
                clock.reading += 1.0

    clock.reading = 7.0
    stream = small_stream(schedule=EveryInterval(seconds=10))
    with Session(stream, store=MemoryStore(), clock=clock) as session:
        releases = list(session.run(Feeding(small_records(1), [1])))
        assert session.records == sum(came.values())
    assert [release.tick for release in releases] == list(range(1, 9))
    assert [release.provenance["time"] for release in releases] == [10.0 * t for t in range(1, 9)]


def test_the_time_of_day_is_read_as_a_source_begins_and_as_it_ends_and_before_admission():
    clock = ManualClock(15.0)

    class Silent(ArraySource):
        def chunks(self, offset: int):
            clock.reading = 29.0
            yield RawChunk(data=small_records(2), offset=0, length=2)
            clock.reading = 52.0

    counted_in: list[int] = []

    def slow(step: str) -> None:
        if step == "admitted" and clock.reading == 29.0:
            clock.reading = 31.0
        if step == "learned":
            counted_in.append(session.tick)

    stream = small_stream(schedule=EveryInterval(seconds=10))
    with Session(stream, store=MemoryStore(), clock=clock, on_step=slow) as session:
        releases = list(session.run(Silent(small_records(1), [1])))
    assert [release.provenance["time"] for release in releases] == [20.0, 30.0, 40.0, 50.0]
    assert counted_in == [2]


def test_the_size_of_a_state_does_not_tell_the_number_of_records():
    arrays = {"sum": np.zeros(3)}
    sizes = {
        len(Snapshot(Position(tick=9, records=10**power, origin=0.0), arrays).to_bytes())
        for power in range(19)
    }
    assert len(sizes) == 1


class WatchingCounts(CountingLearner):
    """Keeps, for the test, which records of each tick counted."""

    def __init__(self, stream: Stream[CountingState]) -> None:
        super().__init__(
            1,
            budget=stream.budget,
            unit=stream.unit,
            neighbours=stream.neighbours,
            domain=Domain([Numeric("x", -1, 1)], intercept=False),
            window=stream.window,
        )
        self.counted: list[bool] = []

    def learn(self, state: CountingState, batch: Batch) -> None:
        self.counted += (~batch.null).tolist()
        super().learn(state, batch)


def user_stream(unit: Unit, *, window: int | None = None, every: int = 3) -> Stream[CountingState]:
    stream = small_stream(
        dimension=1, unit=unit, schedule=EveryRecords(records=every), window=window
    )
    return Stream(learner=WatchingCounts(stream), schedule=stream.schedule)


def counted(stream: Stream[CountingState]) -> list[bool]:
    assert isinstance(stream.learner, WatchingCounts)
    return stream.learner.counted


def visits(text: str) -> list[dict[str, Any]]:
    """One record per letter, of the user of that letter; ``-`` has no user, capitals no value."""
    return [
        {"who": None if user == "-" else user.lower(), "x": None if user.isupper() else 1.0}
        for user in text
    ]


@pytest.mark.parametrize("sizes", [[1], [2], [100], [5, 1]])
def test_over_the_cap_records_become_null_and_keep_their_place(sizes: list[int]):
    stream = user_stream(Unit(kind="user", cap=2, column="who"))
    store = MemoryStore()
    with Session(stream, store=store) as session:
        releases = list(session.run(ArraySource(visits("abaab-Bbbca"), sizes)))
    expected = [True, True, True, False, True, False, False, False, False, True, False]
    assert counted(stream) == expected
    assert len(releases) == 3


def test_records_that_are_null_anyway_use_up_the_cap():
    # Otherwise replacing one by the null record would let a later one of the same user count.
    stream = user_stream(Unit(kind="user", cap=2, column="who"))
    with Session(stream, store=MemoryStore()) as session:
        list(session.run(ArraySource(visits("AaaAa-b"), [5])))
    assert counted(stream) == [False, True, False, False, False, False, True]


def test_the_cap_holds_across_a_restart_and_names_are_not_stored(tmp_path: Path):
    unit = Unit(kind="user", cap=3, column="who")
    stream = user_stream(unit)
    users = ["anna", "anna", "ben", "anna", "anna", "ben", "ben", "ben", "anna"]
    rows = [{"who": user, "x": 1.0} for user in users]
    for end in (2, 4, 9):
        with Session(stream, store=SqliteStore(tmp_path / "s.sqlite")) as session:
            list(session.run(ArraySource(rows[:end], [2])))
    assert counted(stream) == [True, True, True, True, False, True, True, False, False]
    for file in tmp_path.iterdir():
        assert b"anna" not in file.read_bytes()


def test_the_cap_survives_a_crash_between_commits():
    unit = Unit(kind="user", cap=2, column="who")
    rows = visits("aabbaaab")
    store = MemoryStore()
    stream = user_stream(unit)
    running = Session(stream, store=store)
    next(running.run(ArraySource(rows, [8])))
    store.close()
    resumed = user_stream(unit)
    with Session(resumed, store=store) as session:
        assert session.records == 3
        list(session.run(ArraySource(rows, [8])))
    assert counted(resumed) == [True, False, False, False, False]


def test_a_cap_per_window_frees_itself_as_the_window_moves():
    unit = Unit(kind="user", cap=2, column="who", period="window")
    rows = visits("aaaaaaaaaaaa")
    for sizes in ([12], [1], [5]):
        stream = user_stream(unit, window=2, every=3)
        with Session(stream, store=MemoryStore()) as session:
            list(session.run(ArraySource(rows, sizes)))
        per_tick = np.array(counted(stream)).reshape(4, 3).sum(axis=1)
        assert per_tick.tolist() == [2, 0, 2, 0]


def test_any_window_holds_at_most_the_cap():
    unit = Unit(kind="user", cap=3, column="who", period="window")
    letters = np.array(list("abc"))[
        np.abs(small_records(120, dimension=1)[:, 0] * 10).astype(int) % 3
    ]
    stream = user_stream(unit, window=4, every=5)
    with Session(stream, store=MemoryStore()) as session:
        list(session.run(ArraySource(visits("".join(letters)), [17])))
    ticks = np.arange(120) // 5
    for user in "abc":
        mine = np.bincount(ticks[(letters == user) & np.array(counted(stream))], minlength=24)
        sums = np.convolve(mine, np.ones(4, int))
        assert sums.max() == 3


def test_a_windowed_cap_needs_the_windows_length():
    windowed = Unit(kind="user", cap=2, column="who", period="window")
    for unit, window in ((windowed, None), (windowed, 0)):
        with pytest.raises(ConfigurationError, match="window"):
            small_stream(unit=unit, window=window)


def test_a_user_unit_needs_the_users_column():
    stream = user_stream(Unit(kind="user", cap=2, column="who"))
    with Session(stream, store=MemoryStore()) as session, pytest.raises(SchemaError, match="who"):
        list(session.run(ArraySource([{"x": 1.0}], [1])))


class FullSink(CollectingSink):
    """A sink that cannot take one of the releases."""

    full = True

    def publish(self, row: ReleaseRow) -> None:
        if self.full and row.tick == 2:
            raise StoreError("no room")
        super().publish(row)


def test_a_sink_that_failed_ends_the_session_and_misses_nothing_later():
    store, sink, stream, rows = MemoryStore(), FullSink(), small_stream(), small_records(50)
    with Session(stream, store=store, sinks=[sink]) as session:
        with pytest.raises(StoreError, match="no room"):
            list(session.run(ArraySource(rows, [10])))
        # Going on would publish tick 3 to a sink that has no tick 2.
        with pytest.raises(StoreError, match="ended or failed"):
            session.checkpoint()
    sink.full = False
    with Session(stream, store=store, sinks=[sink]) as session:
        list(session.run(ArraySource(rows, [10])))
    assert sorted(sink.lines) == [1, 2, 3, 4, 5]
