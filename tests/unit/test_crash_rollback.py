"""A store that was copied or set back to an older copy, and goes on with the same or other records.

Guaranteed: the same value at the same address gets the same noise, so that a replay shows nothing
new; another value gets independent noise, so that no difference shows another one's records.
"""

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpstream.arrays import IntArray
from dpstream.domain.domain import Domain
from dpstream.engine.schedule import EveryRecords
from dpstream.engine.session import Session
from dpstream.engine.stream import Stream
from dpstream.errors import StoreCorrupt, StoreMismatch
from dpstream.learners.sums.running_sum import RunningSum
from dpstream.mechanisms.continual.tree import BinaryTree
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.stores.release_log import ReleaseLog
from dpstream.stores.sqlite import SqliteStore
from dpstream.stores.verification import verify_store
from dpstream.testing.small_stream import ArraySource, small_records

DIMENSION = 6
STORE, LOG, KEY = "stream.db", "releases.jsonl", "store.key"
ROWS = small_records(32, dimension=DIMENSION) / 10.0
OTHER = ROWS.copy()
OTHER[9, 0] += 0.5  # in tick 3 of four records each


def stream() -> Stream[Any]:
    learner = RunningSum(
        domain=Domain.vectors(DIMENSION, norm_bound=1.0),
        budget=Budget(epsilon=4.0, delta=1e-6),
        unit=Unit(),
        neighbours=Neighbours.REPLACE,
        horizon=8,
        strategy=BinaryTree(8),
        tick_records=4,
    )
    return Stream(learner=learner, schedule=EveryRecords(records=4))


def goes_on(folder: Path, rows: np.ndarray, *, log: bool = True) -> None:
    sinks = [ReleaseLog(folder / LOG)] if log else []
    with Session(stream(), store=SqliteStore(folder / STORE), sinks=sinks) as session:
        list(session.run(ArraySource(rows, (5,))))


def measured(folder: Path) -> dict[tuple[int, ...], IntArray]:
    store = SqliteStore(folder / STORE, read_only=True)
    found = {measurement.address: measurement.value for _, measurement in store.measurements()}
    store.close()
    return found


@pytest.fixture
def copies(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders of one stream that stands behind its second tick."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    goes_on(first, ROWS[:8])
    shutil.copytree(first, second)
    return first, second


def test_the_same_records_give_the_same_history(copies: tuple[Path, Path]) -> None:
    for folder, sizes in zip(copies, ((5,), (3, 7)), strict=True):
        with Session(
            stream(), store=SqliteStore(folder / STORE), sinks=[ReleaseLog(folder / LOG)]
        ) as session:
            list(session.run(ArraySource(ROWS, sizes)))
    first, second = copies
    assert (first / LOG).read_bytes() == (second / LOG).read_bytes()
    assert (first / LOG).read_bytes().count(b"\n") == 8


def test_other_records_get_independent_noise(copies: tuple[Path, Path]) -> None:
    first, second = copies
    goes_on(first, ROWS)
    goes_on(second, OTHER)
    one, other = measured(first), measured(second)
    assert one.keys() == other.keys()
    # Ticks 3 and 4 and the sums over them saw the other record; nodes without it are the same.
    changed = [address for address in one if (one[address] != other[address]).any()]
    same = [address for address in one if address not in changed]
    assert len(same) >= 4
    assert len(changed) >= 3
    # The record moved one coordinate of each of them by the same number. With shared noise that
    # is all that would be seen, and the differences would be one another's equals.
    gaps = np.array([one[address] - other[address] for address in changed])
    assert (gaps[:, 1:] != 0).all()
    assert len(np.unique(gaps[:, 0])) == len(changed)


def test_the_published_log_finds_the_store_that_was_set_back(copies: tuple[Path, Path]) -> None:
    first, second = copies
    goes_on(first, ROWS)
    shutil.copy(first / LOG, second / LOG)
    with pytest.raises(StoreMismatch, match="another release at tick 3"):
        goes_on(second, OTHER)
    # Nothing but the release that differs was shown, and that one neither.
    assert (second / LOG).read_bytes() == (first / LOG).read_bytes()
    shown = verify_store(second / STORE, published=second / LOG)
    assert not shown.passed


def test_a_log_that_was_set_back_too_tells_nothing_but_its_head_does(
    copies: tuple[Path, Path],
) -> None:
    first, second = copies
    goes_on(first, ROWS)
    goes_on(second, OTHER)
    newest, older = (verify_store(folder / STORE, published=folder / LOG) for folder in copies)
    assert newest.passed
    assert older.passed
    assert newest.log_heads[:2] == older.log_heads[:2]
    assert not set(newest.log_heads[2:]) & set(older.log_heads)
    assert newest.heads == older.heads


def test_a_state_of_another_time_is_not_taken_for_this_one(copies: tuple[Path, Path]) -> None:
    """Only the whole store can be set back: a row of it is bound to its place."""
    first, second = copies
    goes_on(first, ROWS)
    for table, columns in (("state", "content"), ("stream", "value")):
        source = sqlite3.connect(second / STORE)
        where = "" if table == "state" else " WHERE key = 'secret'"
        (old,) = source.execute(f"SELECT {columns} FROM {table}{where}").fetchone()
        source.close()
        target = sqlite3.connect(first / STORE)
        (now,) = target.execute(f"SELECT {columns} FROM {table}{where}").fetchone()
        target.execute(f"UPDATE {table} SET {columns} = ?{where}", (old,))
        target.commit()
        if table == "state":
            with pytest.raises(StoreCorrupt):
                goes_on(first, ROWS)
            target.execute(f"UPDATE {table} SET {columns} = ?{where}", (now,))
            target.commit()
        else:
            # The secret never changes: the copy's is this store's own.
            assert old == now
        target.close()
    goes_on(first, ROWS)
