"""Learners over blocks and windows, killed: the history stays the same, and what expired is gone.

Fits are deferred, centred on earlier releases and erase their records: a resumed stream must make
the same fits of the same records around the same models.
"""

import signal
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpstream.arrays import FloatArray
from dpstream.domain.batch import RawChunk
from dpstream.engine.clock_schedule import EveryInterval
from dpstream.engine.memory import MemoryStore
from dpstream.engine.schedule import EveryRecords
from dpstream.engine.session import Session
from dpstream.engine.snapshot import Snapshot
from dpstream.engine.stream import Stream
from dpstream.errors import ConfigurationError, SourceError
from dpstream.stores.encryption import default_key
from dpstream.stores.sqlite import SqliteStore
from dpstream.stores.verification import verify_store
from dpstream.testing.crash import LOG, STORE, run_to_end, start_run
from dpstream.testing.small_stream import ArraySource, ManualClock, small_records
from dpstream.testing.small_window import BLOCK, DOMAIN, chains, decayed, resolutions, sparse

TICKS = 9
SEED = 5
MADE = "dpstream.testing.small_window:"
QUICK = ("chains", "decayed")
SLOW = ("sparse", "cumulative", "basic", "resolutions", "regression", "users")


@pytest.mark.parametrize("kind", [*QUICK, *(pytest.param(k, marks=pytest.mark.slow) for k in SLOW)])
def test_a_killed_window_goes_on_to_the_same_history(kind: str, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    steps = run_to_end(plain, ticks=TICKS, sizes=(7, 25), insecure_seed=SEED, made_by=MADE + kind)
    history = (plain / LOG).read_bytes()
    assert history.count(b"\n") == steps.count("committed") > 3
    measured = [number for number, name in enumerate(steps, 1) if name == "measured"]
    durable = [number for number, name in enumerate(steps, 1) if name == "durable"]
    closed = [number for number, name in enumerate(steps, 1) if name == "closed"]
    folder = tmp_path / "killed"
    folder.mkdir()
    # Ever later in the stream: within a fit's tick, after its commit, between two releases.
    for fatal in (measured[-3], durable[1], closed[1]):
        process = start_run(
            folder,
            ticks=TICKS,
            sizes=(11,),
            insecure_seed=SEED,
            made_by=MADE + kind,
            fatal_step=fatal,
        )
        process.join()
        assert process.exitcode in (-signal.SIGKILL, 0)
        shown = (folder / LOG).read_bytes() if (folder / LOG).exists() else b""
        assert history.startswith(shown)
    run_to_end(folder, ticks=TICKS, sizes=(4, 9), insecure_seed=SEED, made_by=MADE + kind)
    assert (folder / LOG).read_bytes() == history
    found = verify_store(folder / STORE, published=folder / LOG, keys=default_key(folder))
    assert found.passed, found.checks
    assert found.spent == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize(
    ("make", "kept"), [(chains, 4), (decayed, 0), (resolutions, 3), (sparse, 3)]
)
def test_stored_state_holds_no_record_that_no_rule_needs(
    make: Any, kept: int, tmp_path: Path
) -> None:
    """Every record is told apart by its number; what the store holds is decrypted and searched."""
    ticks = 21
    stream, _ = make(ticks=ticks, insecure_seed=SEED)
    numbers = np.arange(1, ticks * BLOCK + 1)
    rows = np.column_stack([numbers / 1000.0, np.zeros(len(numbers)), np.ones(len(numbers))])
    marks = DOMAIN.admit(rows[:, :2], rows[:, 2]).rows[:, 1]
    assert len(set(marks.tolist())) == len(marks)
    with Session(stream, store=SqliteStore(tmp_path / STORE)) as session:
        assert list(session.run(ArraySource(rows, [13])))
    store = SqliteStore(tmp_path / STORE, read_only=True, keys=default_key(tmp_path))
    arrays = Snapshot.from_bytes(store.state()).arrays
    store.close()
    held = np.concatenate([np.asarray(value, np.float64).ravel() for value in arrays.values()])
    found = np.flatnonzero(np.isin(marks, held))
    assert set(found.tolist()) <= set(range((ticks - kept) * BLOCK, ticks * BLOCK))
    # And it could have been found: what a later fit needs is there.
    needed = stream.learner.rule.keep_from(ticks - ticks % 2 if make is sparse else ticks, None)
    assert set(found.tolist()) == set(range(needed * BLOCK, ticks * BLOCK))


def test_empty_and_late_blocks_by_a_clock() -> None:
    """A silent clock closes empty blocks; set back a little, records count in the open one."""
    stream, _ = chains(ticks=1, insecure_seed=SEED)
    told = Stream(learner=stream.learner, schedule=EveryInterval(seconds=10.0), insecure_seed=SEED)
    clock = ManualClock(100.0)
    rows = np.linspace(-1, 1, 12).reshape(4, 3)
    with Session(told, store=MemoryStore(), clock=clock) as session:
        assert not list(session.run(ArraySource(rows, [4])))
        clock.reading = 171.0
        found = list(session.learn(read_at(4, rows[:0])))
        # Seven blocks are closed: the first holds records, the others none; no count is told.
        assert [release.tick for release in found] == [1, 2, 3, 4, 5, 6, 7]
        assert [release.value["ready"] for release in found] == [False] * 4 + [True] * 3
        assert all(release.value["records"] is None for release in found)
        clock.reading = 90.0
        with pytest.raises(SourceError, match="runs backwards"):
            list(session.learn(read_at(4, rows)))
        assert session.tick == 8
        assert len(session.ledger.rows) == 1
        clock.reading = 165.0
        assert not list(session.learn(read_at(4, rows)))
        assert session.tick == 8
        clock.reading = 180.0
        (late,) = session.learn(read_at(8, rows[:0]))
        assert late.value["fitted"][0]["blocks"][1] == 8
        # A block by a clock still holds at most its public number of records.
        with pytest.raises(ConfigurationError, match="more than block_records = 10"):
            list(session.learn(read_at(8, np.zeros((BLOCK + 1, 3)))))


def read_at(offset: int, rows: FloatArray) -> RawChunk:
    return RawChunk(data=rows, offset=offset, length=len(rows), origin="a clock")


def test_what_is_erased_is_gone_from_the_file_too(tmp_path: Path) -> None:
    """The sealed state of an earlier time, which held more and other records, is overwritten."""
    size, ticks = 400, 14
    learner = replace(
        chains(ticks=1, insecure_seed=SEED)[0].learner,
        block_records=size,
        window_records=5 * size,
    )
    stream = Stream(learner=learner, schedule=EveryRecords(records=size), insecure_seed=SEED)
    rows = small_records(size * ticks)
    earlier: list[bytes] = []
    for end in (10 * size - 1, ticks * size):
        with Session(stream, store=SqliteStore(tmp_path / STORE)) as session:
            assert list(session.run(ArraySource(rows[:end], [size])))
        connection = sqlite3.connect(tmp_path / STORE)
        (sealed,) = connection.execute("SELECT content FROM state").fetchone()
        connection.close()
        earlier.append(sealed)
    assert len(earlier[0]) > 4 * size * 16
    held = b"".join(path.read_bytes() for path in tmp_path.glob(f"{STORE}*"))
    pieces = range(0, len(earlier[0]) - 64, 2048)
    assert not [start for start in pieces if earlier[0][start : start + 64] in held]
    assert [start for start in pieces if earlier[1][start : start + 64] in held]
