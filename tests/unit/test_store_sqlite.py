import os
import resource
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from dpstream.domain.batch import GRID
from dpstream.engine.memory import MemoryStore
from dpstream.engine.ports import Commit, Contribution
from dpstream.engine.session import Session
from dpstream.errors import (
    DpstreamError,
    StoreCorrupt,
    StoreError,
    StoreLocked,
    StoreMismatch,
)
from dpstream.stores.encryption import KEY_VARIABLE, EnvironmentKey, KeyFile, default_key
from dpstream.stores.migration import SCHEMA_VERSION
from dpstream.stores.release_log import ReleaseLog
from dpstream.stores.sqlite import SqliteStore
from dpstream.stores.verification import Verification, verify, verify_store
from dpstream.testing.small_stream import ArraySource, ManualClock, small_records, small_stream


def run(folder: Path, rows: np.ndarray, *, dimension: int = 3, log: bool = True) -> None:
    """Begin or resume a small stream in a folder."""
    sinks = [ReleaseLog(folder / "releases.jsonl")] if log else []
    store = SqliteStore(folder / "store.sqlite")
    with Session(small_stream(dimension=dimension), store=store, sinks=sinks) as session:
        for _ in session.run(ArraySource(rows, [16])):
            pass


def edit(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


@contextmanager
def clear_error(kind: type[DpstreamError], match: str) -> Iterator[None]:
    with pytest.raises(kind, match=match) as caught:
        yield
    assert "\n" not in str(caught.value)


# --- encryption ------------------------------------------------------------------------------


def test_the_key_file_and_the_store_are_their_owners_alone(tmp_path: Path):
    run(tmp_path, small_records(20))
    for name in ("store.key", "store.sqlite"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.glob(".store.key*")] == []


def test_a_key_file_open_to_others_is_refused(tmp_path: Path):
    run(tmp_path, small_records(20))
    (tmp_path / "store.key").chmod(0o640)
    with clear_error(StoreError, "chmod 600"):
        run(tmp_path, small_records(30))


def test_a_missing_key_is_never_replaced_for_an_old_store(tmp_path: Path):
    run(tmp_path, small_records(20))
    (tmp_path / "store.key").unlink()
    with clear_error(StoreError, "is missing"):
        run(tmp_path, small_records(30))
    assert not (tmp_path / "store.key").exists()


def test_another_key_is_named_as_such(tmp_path: Path):
    run(tmp_path, small_records(20))
    (tmp_path / "store.key").write_text("ab" * 32)
    with clear_error(StoreMismatch, "another key"):
        run(tmp_path, small_records(30))


@pytest.mark.parametrize("text", ["", "zz" * 32, "ab" * 31, "YWJj"])
def test_what_is_no_key_is_refused(text: str, tmp_path: Path):
    path = tmp_path / "key"
    path.write_text(text)
    path.chmod(0o600)
    with clear_error(StoreError, "holds no key"):
        KeyFile(path).key(create=False)


def test_the_environment_can_hold_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(KEY_VARIABLE, "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=")
    assert EnvironmentKey().key(create=False) == bytes(range(1, 33))
    run(tmp_path, small_records(20))
    assert not (tmp_path / "store.key").exists()
    monkeypatch.setenv(KEY_VARIABLE, "00" * 32)
    with clear_error(StoreMismatch, KEY_VARIABLE):
        run(tmp_path, small_records(30))
    with clear_error(StoreError, "holds no key"):
        EnvironmentKey("DPSTREAM_UNSET").key(create=True)


def test_secrets_do_not_lie_in_the_file(tmp_path: Path):
    store = SqliteStore(tmp_path / "store.sqlite")
    store.acquire()
    state = b"a state that nobody may read" * 10
    store.create({}, Commit(state=state))
    secret = store.secret()
    store.close()
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert state[:28] not in content
    assert secret not in content


def test_the_same_state_is_sealed_anew_every_time(tmp_path: Path):
    store = SqliteStore(tmp_path / "store.sqlite")
    store.acquire()
    store.create({}, Commit(state=b"same"))
    seen: set[bytes] = set()
    for _ in range(50):
        store.commit(Commit(state=b"same"))
        reader = sqlite3.connect(tmp_path / "store.sqlite")
        seen.add(reader.execute("SELECT content FROM state").fetchone()[0][:12])
        reader.close()
    store.close()
    assert len(seen) == 50


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE state SET sequence = sequence + 1",
        "UPDATE state SET content = (SELECT value FROM stream WHERE key = 'secret')",
        "UPDATE state SET content = x'00'",
        "DELETE FROM ledger",
        "UPDATE stream SET value = x'" + "00" * 60 + "' WHERE key = 'secret'",
    ],
)
def test_a_sealed_row_is_bound_to_its_place(change: str, tmp_path: Path):
    run(tmp_path, small_records(20))
    edit(tmp_path / "store.sqlite", change)
    with clear_error(StoreCorrupt, "does not verify"):
        store = SqliteStore(tmp_path / "store.sqlite", read_only=True)
        store.state()
        store.secret()
    store.close()


# --- writers ---------------------------------------------------------------------------------


def begun(path: Path, **options: object) -> SqliteStore:
    store = SqliteStore(path, **options)
    store.acquire()
    if store.identity() is None:
        store.create({}, Commit(state=b"opening"))
    return store


def test_a_silent_writer_can_be_superseded_and_is_fenced_off(tmp_path: Path):
    clock = ManualClock(100.0)
    path = tmp_path / "store.sqlite"
    first = begun(path, clock=clock, lease_seconds=10)
    clock.reading = 109.0
    with clear_error(StoreLocked, "being written by process"):
        begun(path, clock=clock, lease_seconds=10)
    clock.reading = 110.5
    second = begun(path, clock=clock, lease_seconds=10)
    for attempt in (first.renew, lambda: first.commit(Commit(state=b"late"))):
        with clear_error(StoreLocked, "taken over"):
            attempt()
    second.commit(Commit(state=b"mine"))
    first.close()
    second.commit(Commit(state=b"still mine"))
    assert second.state() == b"still mine"
    second.close()


def test_a_writer_that_says_it_is_alive_keeps_its_lease(tmp_path: Path):
    clock = ManualClock(0.0)
    path = tmp_path / "store.sqlite"
    first = begun(path, clock=clock, lease_seconds=10)
    for _ in range(10):
        clock.reading += 5
        first.renew()
    with clear_error(StoreLocked, "being written"):
        begun(path, clock=clock, lease_seconds=10)
    first.close()


def test_a_writer_that_was_refused_holds_nothing_and_may_try_again(tmp_path: Path):
    path = tmp_path / "store.sqlite"
    first, second = begun(path), SqliteStore(path)
    with clear_error(StoreLocked, "being written"):
        second.acquire()
    first.commit(Commit(state=b"untouched"))
    first.close()
    second.acquire()
    assert second.state() == b"untouched"
    second.close()


def test_two_superseded_writers_are_both_fenced(tmp_path: Path):
    clock = ManualClock(0.0)
    stores: list[SqliteStore] = []
    for _ in range(3):
        stores.append(begun(tmp_path / "store.sqlite", clock=clock, lease_seconds=1))
        clock.reading += 2
    for store in stores[:2]:
        with clear_error(StoreLocked, "taken over"):
            store.commit(Commit(state=b""))
    stores[2].commit(Commit(state=b""))
    for store in stores:
        store.close()


def test_a_session_that_was_superseded_publishes_nothing(tmp_path: Path):
    clock = ManualClock(0.0)
    path, log = tmp_path / "store.sqlite", tmp_path / "releases.jsonl"
    rows = small_records(60)

    def session() -> Session[object]:
        store = SqliteStore(path, clock=clock, lease_seconds=10)
        return Session(small_stream(), store=store, sinks=[ReleaseLog(log)])

    first = session()
    running = first.run(ArraySource(rows, [60]))
    next(running)
    clock.reading = 20.0
    second = session()
    assert second.records == 10
    next(second.run(ArraySource(rows, [60])))
    with clear_error(StoreLocked, "taken over"):
        next(running)
    assert len(log.read_bytes().splitlines()) == 2
    with clear_error(StoreError, "open the stream again"):
        list(first.run(ArraySource(rows, [60])))
    assert len(list(second.run(ArraySource(rows, [60])))) == 4
    first.close()
    second.close()
    assert verify_store(path, published=log).passed


# --- faults ----------------------------------------------------------------------------------


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_one_clear_line_and_loses_nothing(tmp_path: Path):
    rows = small_records(400)
    whole = tmp_path / "whole"
    whole.mkdir()
    run(whole, rows[:10])
    short = tmp_path / "short"
    shutil.copytree(whole, short)
    run(whole, rows)
    with largest_file(150_000), clear_error(StoreError, "full.*nothing committed was lost"):
        run(short, rows)
    shown = (short / "releases.jsonl").read_bytes()
    expected = (whole / "releases.jsonl").read_bytes()
    assert expected.startswith(shown)
    assert 1 <= shown.count(b"\n") < 40
    run(short, rows)
    assert (short / "releases.jsonl").read_bytes() == expected
    assert verify_store(short / "store.sqlite", published=short / "releases.jsonl").passed


def test_a_full_disk_under_the_published_log_is_repaired_later(tmp_path: Path):
    rows = small_records(100)
    log = ReleaseLog(tmp_path / "releases.jsonl")
    store = MemoryStore()
    with (
        largest_file(1000),
        clear_error(StoreError, "keeps every release"),
        Session(small_stream(), store=store, sinks=[log]) as session,
    ):
        list(session.run(ArraySource(rows, [100])))
    assert len(list(store.releases())) == 2
    assert (tmp_path / "releases.jsonl").read_bytes().count(b"\n") == 1
    log = ReleaseLog(tmp_path / "releases.jsonl")
    with Session(small_stream(), store=store, sinks=[log]) as session:
        list(session.run(ArraySource(rows, [100])))
    assert verify(store, published=tmp_path / "releases.jsonl").passed


@pytest.fixture
def read_only_folder() -> Iterator[Path]:
    """A folder this process may read and not write, whoever runs it."""
    folder = Path(tempfile.mkdtemp())
    root = os.geteuid() == 0
    if root:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    yield folder
    if root:
        os.seteuid(0)
    folder.chmod(0o700)
    shutil.rmtree(folder)


def test_a_read_only_folder_is_one_clear_line(read_only_folder: Path):
    read_only_folder.chmod(0o500)
    with clear_error(StoreError, "Permission denied"):
        run(read_only_folder, small_records(20))
    assert list(read_only_folder.iterdir()) == []


def test_a_folder_that_became_read_only_is_one_clear_line_and_verifies(read_only_folder: Path):
    run(read_only_folder, small_records(20))
    for path in (*read_only_folder.iterdir(), read_only_folder):
        path.chmod(0o500)
    with clear_error(StoreError, "may not be written|cannot be opened"):
        run(read_only_folder, small_records(30))
    found = verify_store(
        read_only_folder / "store.sqlite",
        published=read_only_folder / "releases.jsonl",
        keys=default_key(read_only_folder),
    )
    assert found.passed


def test_a_missing_folder_is_one_clear_line(tmp_path: Path):
    with clear_error(StoreError, "No such file"):
        run(tmp_path / "absent", small_records(20))
    with clear_error(StoreError, "does not exist"):
        verify_store(tmp_path / "store.sqlite")


def test_a_newer_store_is_refused_untouched(tmp_path: Path):
    run(tmp_path, small_records(20))
    path = tmp_path / "store.sqlite"
    edit(path, f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    before = path.read_bytes()
    for attempt in (lambda: run(tmp_path, small_records(30)), lambda: verify_store(path)):
        with clear_error(StoreMismatch, f"version {SCHEMA_VERSION + 1}.*upgrade dpstream"):
            attempt()
    assert path.read_bytes() == before


def test_a_foreign_file_is_refused_untouched(tmp_path: Path):
    path = tmp_path / "store.sqlite"
    edit(path, "CREATE TABLE recipes (name TEXT)")
    before = path.read_bytes()
    with clear_error(StoreMismatch, "no dpstream store"):
        run(tmp_path, small_records(20))
    assert path.read_bytes() == before
    path.write_bytes(b"some other text, long enough to be a file of its own kind" * 10)
    before = path.read_bytes()
    with clear_error(StoreCorrupt, "is no store"):
        run(tmp_path, small_records(20))
    assert path.read_bytes() == before


def test_a_damaged_store_is_one_clear_line(tmp_path: Path):
    run(tmp_path, small_records(200))
    path = tmp_path / "store.sqlite"
    content = bytearray(path.read_bytes())
    content[8192:] = bytes(len(content) - 8192)
    path.write_bytes(content)
    with clear_error(StoreCorrupt, "damaged"):
        run(tmp_path, small_records(210))


def test_a_store_of_version_one_is_brought_up_to_date(tmp_path: Path):
    path = tmp_path / "store.sqlite"
    run(tmp_path, small_records(20))
    edit(path, "DROP TABLE contribution", "PRAGMA user_version = 1")
    with clear_error(StoreMismatch, "has store version 1"):
        verify_store(path)
    run(tmp_path, small_records(40))
    assert verify_store(path, published=tmp_path / "releases.jsonl").releases == 4
    store = begun(path)
    row = Contribution(unit=b"u" * 16, tick=0, records=2)
    store.commit(Commit(state=b"", contributions=[row]))
    assert store.contributions([b"u" * 16]) == [row]
    store.close()


def test_no_store_is_migrated_under_a_living_writer(tmp_path: Path):
    path = tmp_path / "store.sqlite"
    first = begun(path)
    edit(path, "DROP TABLE contribution", "PRAGMA user_version = 1")
    with clear_error(StoreLocked, "being written"):
        begun(path)
    reader = sqlite3.connect(path)
    assert reader.execute("PRAGMA user_version").fetchone() == (1,)
    reader.close()
    first.close()


# --- a restored old copy ---------------------------------------------------------------------


def noise_of(folder: Path, rows: np.ndarray, ticks: int) -> np.ndarray:
    """The noise of each tick, by subtracting the exact sums that the test knows."""
    dimension = rows.shape[1]
    exact = small_stream(dimension=dimension).domain.admit(rows).features
    store = SqliteStore(folder / "store.sqlite", read_only=True)
    measured = np.array([measurement.value for _, measurement in store.measurements()])
    store.close()
    sums = exact[: 10 * ticks].reshape(ticks, 10, dimension).sum(axis=1)
    return (measured[:ticks] - sums) / GRID


def test_a_restored_copy_shares_no_noise_on_other_data(tmp_path: Path):
    dimension, rows = 500, small_records(40, dimension=500)
    other = rows.copy()
    other[25] = -other[25]
    folders = [tmp_path / name for name in ("first", "second", "third")]
    folders[0].mkdir()
    run(folders[0], rows[:20], dimension=dimension, log=False)
    for folder in folders[1:]:
        shutil.copytree(folders[0], folder)
    run(folders[0], rows, dimension=dimension, log=False)
    run(folders[1], other, dimension=dimension, log=False)
    run(folders[2], rows, dimension=dimension, log=False)
    first, second = noise_of(folders[0], rows, 4), noise_of(folders[1], other, 4)
    # Ticks 1 and 2 were made before the copy; tick 4 covers the same records in both.
    for tick in (0, 1, 3):
        assert (first[tick] == second[tick]).all()
    assert (noise_of(folders[2], rows, 4) == first).all()
    # Tick 3 covers one record that differs. Independent normals: the correlation over 500
    # coordinates has standard deviation 0.0448; beyond 0.22 by chance less than once in 1e6.
    assert abs(np.corrcoef(first[2], second[2])[0, 1]) < 0.22
    # Their difference has twice the variance; chi-square with 500 degrees of freedom stays
    # within [0.70, 1.35] of its mean but for less than 1e-6.
    sigma = small_stream(dimension=dimension).learner.describe()["sigma"]
    assert 0.70 < ((first[2] - second[2]) ** 2).mean() / (2 * sigma**2) < 1.35


def test_a_restored_copy_may_replay_its_records_and_nothing_else(tmp_path: Path):
    rows = small_records(40)
    run(tmp_path, rows[:20])
    old = (tmp_path / "store.sqlite").read_bytes()
    run(tmp_path, rows)
    shown = (tmp_path / "releases.jsonl").read_bytes()
    (tmp_path / "store.sqlite").write_bytes(old)
    other = rows.copy()
    other[25] = -other[25]
    with clear_error(StoreMismatch, "restored from an older copy"):
        run(tmp_path, other)
    assert (tmp_path / "releases.jsonl").read_bytes() == shown
    (tmp_path / "store.sqlite").write_bytes(old)
    run(tmp_path, rows)
    assert (tmp_path / "releases.jsonl").read_bytes() == shown


# --- the published log -----------------------------------------------------------------------


def test_a_file_that_is_no_log_is_left_alone(tmp_path: Path):
    for content in (b"a,b\n1,2\n", b'{"a": 1}\n{"b": 2}\n', b"text"):
        (tmp_path / "releases.jsonl").write_bytes(content)
        with clear_error(StoreMismatch, "no log of releases"):
            run(tmp_path, small_records(20))
        assert (tmp_path / "releases.jsonl").read_bytes() == content


def test_the_log_of_another_stream_is_refused(tmp_path: Path):
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        run(folder, small_records(20))
    shutil.copy(one / "releases.jsonl", two / "releases.jsonl")
    with clear_error(StoreMismatch, "another stream"):
        run(two, small_records(30))


def test_lines_longer_than_a_read_are_found_again(tmp_path: Path):
    path = tmp_path / "releases.jsonl"
    lines = [b'{"tick":%d,"value":"%s"}' % (tick, b"x" * 200_000) for tick in (1, 2, 3)]
    path.write_bytes(b"\n".join(lines) + b'\n{"tick":4,"va')
    log = ReleaseLog(path)
    assert log.last_tick(lambda tick: lines[tick - 1]) == 3
    assert path.read_bytes() == b"\n".join(lines) + b"\n"
    log.close()


# --- verification ----------------------------------------------------------------------------


def verified(folder: Path) -> Verification:
    return verify_store(
        folder / "store.sqlite", published=folder / "releases.jsonl", keys=default_key(folder)
    )


def test_a_sound_store_verifies(tmp_path: Path):
    run(tmp_path, small_records(35))
    found = verified(tmp_path)
    assert found.passed
    assert [check.name for check in found.checks] == [
        "ledger chain",
        "epsilon within budget",
        "release log",
        "published log",
        "sealed state",
    ]
    assert found.spent == pytest.approx(1.0, rel=1e-6)
    assert found.releases == 3


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ("UPDATE ledger SET content = replace(content, '0.23', '0.22')", "ledger chain"),
        ("DELETE FROM ledger", "release log"),
        (
            "UPDATE stream SET value = CAST(replace(value, '1e-06', '1e-05') AS BLOB)",
            "ledger chain",
        ),
        ("UPDATE release SET line = replace(line, '\"tick\":2', '\"tick\":5')", "release log"),
        ("UPDATE release SET line = CAST(replace(line, '1e-06', '1e-07') AS BLOB)", "release log"),
        ("DELETE FROM release WHERE tick = 2", "release log"),
        ("UPDATE measurement SET exponent = -21 WHERE tick = 1", "release log"),
        ("DELETE FROM measurement WHERE tick = 3", "release log"),
        ("UPDATE state SET content = x'00'", "sealed state"),
    ],
)
def test_what_was_changed_is_found(change: str, failing: str, tmp_path: Path):
    run(tmp_path, small_records(35))
    edit(tmp_path / "store.sqlite", change)
    found = verified(tmp_path)
    assert not found.passed
    assert failing in [check.name for check in found.checks if not check.passed]


def test_a_changed_published_log_is_found(tmp_path: Path):
    run(tmp_path, small_records(35))
    path = tmp_path / "releases.jsonl"
    whole = path.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for content in (whole[:last], whole[:-1], whole.replace(b"1e-06", b"1e-07"), whole + whole):
        path.write_bytes(content)
        failed = [check.name for check in verified(tmp_path).checks if not check.passed]
        assert failed == ["published log"]


def test_an_empty_store_has_nothing_to_verify(tmp_path: Path):
    store = SqliteStore(tmp_path / "store.sqlite")
    store.acquire()
    store.close()
    with clear_error(StoreError, "nothing to verify"):
        verify_store(tmp_path / "store.sqlite")
