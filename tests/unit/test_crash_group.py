"""Releases that share a transaction: killed at every step, the history stays the same."""

import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpstream.domain.batch import Batch, RawChunk
from dpstream.engine.clock_schedule import EveryInterval
from dpstream.engine.memory import MemoryStore
from dpstream.engine.ports import CollectingSink
from dpstream.engine.schedule import EveryRecords
from dpstream.engine.session import Session
from dpstream.engine.stream import Stream
from dpstream.errors import (
    BudgetExceeded,
    ConfigurationError,
    HorizonReached,
    SourceError,
    StoreError,
)
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.stores.encryption import default_key
from dpstream.stores.sqlite import SqliteStore
from dpstream.stores.verification import verify_store
from dpstream.testing.counting_learner import CountingLearner, CountingState
from dpstream.testing.crash import LOG, STORE, run_to_end, start_run
from dpstream.testing.small_stream import ArraySource, ManualClock, small_records, small_stream

TICKS = 8
SIZES = (7, 35)
GROUP = 3
SEED = 11


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], bytes]:
    folder = tmp_path_factory.mktemp("uninterrupted")
    steps = run_to_end(folder, ticks=TICKS, sizes=SIZES, insecure_seed=SEED, group=GROUP)
    return steps, (folder / LOG).read_bytes()


def test_releases_share_transactions(uninterrupted: tuple[list[str], bytes]):
    steps, history = uninterrupted
    assert history.count(b"\n") == steps.count("measured") == steps.count("published") == TICKS
    # Chunks end behind records 7, 42, 49, 80: their ticks commit in groups of at most three.
    assert steps.count("committed") == 4
    assert steps.count("durable") == 4
    for place, step in enumerate(steps):
        if step == "published":
            assert steps[:place].count("release written") >= steps[: place + 1].count("published")


@pytest.mark.parametrize("group", [1, 2, 50])
def test_any_group_gives_the_same_bytes(
    group: int, uninterrupted: tuple[list[str], bytes], tmp_path: Path
):
    _, expected = uninterrupted
    lines = CollectingSink()
    stream = small_stream(unit=Unit(), horizon=TICKS, insecure_seed=SEED)
    with Session(stream, store=MemoryStore(), sinks=[lines], group=group) as session:
        seen = [r.tick for r in session.run(ArraySource(small_records(10 * TICKS), [80]))]
    assert seen == list(range(1, TICKS + 1))
    assert b"".join(line + b"\n" for line in lines.lines.values()) == expected


def test_killed_at_any_step_the_history_is_the_uninterrupted_one(
    uninterrupted: tuple[list[str], bytes], tmp_path: Path
):
    steps, expected = uninterrupted
    # Every step at its last time in the first three quarters, where groups are of three.
    opened = steps.index("admitted")
    fatal = {s: n for n, s in enumerate(steps[: -len(steps) // 4], 1) if n > opened}
    assert "release written" in fatal
    for step, number in fatal.items():
        folder = tmp_path / f"killed {step}"
        folder.mkdir()
        process = start_run(
            folder, ticks=TICKS, sizes=SIZES, insecure_seed=SEED, group=GROUP, fatal_step=number
        )
        process.join()
        assert process.exitcode == -signal.SIGKILL
        shown = (folder / LOG).read_bytes() if (folder / LOG).exists() else b""
        assert expected.startswith(shown)
        durable = SqliteStore(folder / STORE, read_only=True)
        assert len(list(durable.releases())) >= shown.count(b"\n")
        durable.close()
        run_to_end(folder, ticks=TICKS, sizes=(11, 80), insecure_seed=SEED, group=2)
        assert (folder / LOG).read_bytes() == expected
        found = verify_store(folder / STORE, published=folder / LOG, keys=default_key(folder))
        assert found.passed, found.checks
        shutil.rmtree(folder)


def test_what_the_horizon_allows_is_shown_before_the_refusal():
    stream = small_stream(horizon=4)
    ticks: list[int] = []
    with Session(stream, store=MemoryStore(), group=50) as session:
        with pytest.raises(HorizonReached):
            ticks.extend(r.tick for r in session.run(ArraySource(small_records(70), [70])))
        assert [r.tick for r in session.releases()] == [1, 2, 3, 4]


class Spending(CountingLearner):
    """Pays at each release more than its horizon has."""

    def next_events(self, tick: Any) -> Any:
        return [self._event()]

    def opening_events(self) -> Any:
        return []


def test_what_the_budget_allows_is_shown_before_the_refusal():
    learner = Spending(
        3,
        budget=Budget(epsilon=1.0, delta=1e-6),
        unit=Unit(),
        neighbours=Neighbours.ZERO_OUT,
        horizon=3,
        charge_each=True,
    )
    learner.horizon = 9
    stream = Stream(learner=learner, schedule=EveryRecords(records=10))
    store = MemoryStore()
    with Session(stream, store=store, group=50) as session:
        with pytest.raises(BudgetExceeded):
            list(session.run(ArraySource(small_records(70), [70])))
        assert [r.tick for r in session.releases()] == [1, 2, 3]
    assert len(store.ledger()) == 3


def test_a_clock_that_jumps_is_refused_after_what_came_before():
    clock = ManualClock(0.0)
    stream = small_stream(schedule=EveryInterval(seconds=1.0))
    with Session(stream, store=MemoryStore(), clock=clock, group=50) as session:
        chunk = RawChunk(data=small_records(5), offset=0, length=5)
        assert not list(session.learn(chunk))
        clock.reading = 1e9
        with pytest.raises(SourceError):
            list(session.learn(RawChunk(data=small_records(5), offset=5, length=5)))


class Breaking(CountingLearner):
    """Cannot take its third batch."""

    calls = 0

    def learn(self, state: CountingState, batch: Batch) -> None:
        self.calls += 1
        if self.calls == 3:
            raise ConfigurationError("this tick is too long")
        super().learn(state, batch)


def test_an_error_within_a_group_shows_nothing_of_it_and_ends_the_session():
    def stream(kind: type[CountingLearner]) -> Stream[CountingState]:
        learner = kind(
            3, budget=Budget(epsilon=1.0, delta=1e-6), unit=Unit(), neighbours=Neighbours.ZERO_OUT
        )
        return Stream(learner=learner, schedule=EveryRecords(records=10), insecure_seed=1)

    store, sink = MemoryStore(), CollectingSink()
    rows = small_records(50)
    with Session(stream(Breaking), store=store, sinks=[sink], group=50) as session:
        with pytest.raises(ConfigurationError):
            list(session.run(ArraySource(rows, [50])))
        with pytest.raises(StoreError, match="ended or failed"):
            session.checkpoint()
    assert not sink.lines
    with Session(stream(CountingLearner), store=store, sinks=[sink]) as session:
        assert len(list(session.run(ArraySource(rows, [50])))) == 5
    alone = CollectingSink()
    with Session(stream(CountingLearner), store=MemoryStore(), sinks=[alone]) as session:
        list(session.run(ArraySource(rows, [50])))
    assert np.array_equal(list(alone.lines.values()), list(sink.lines.values()))


def test_a_group_of_nothing_is_refused():
    with pytest.raises(ConfigurationError, match="group is 0"):
        Session(small_stream(), store=MemoryStore(), group=0)
