"""Killed at every step of the protocol and at random, the published history stays the same."""

import shutil
import signal
import time
from pathlib import Path

import pytest

from dpstream.mechanisms.public import public_generator
from dpstream.stores.encryption import default_key
from dpstream.stores.sqlite import SqliteStore
from dpstream.stores.verification import verify_store
from dpstream.testing.crash import LOG, STORE, run_to_end, start_run

TICKS = 6
SIZES = (7, 25)

STEPS = [
    "admitted",
    "capped",
    "learned",
    "closed",
    "charged",
    "measured",
    "begun",
    "ledger written",
    "state written",
    "measurements written",
    "release written",
    "contributions written",
    "durable",
    "committed",
    "published",
]
OPENING_STEPS = [
    "opening charged",
    "ledger written",
    "state written",
    "contributions written",
    "created",
]


def begin(folder: Path, ticks: int) -> Path:
    """Leave in a folder a stream that has begun and released once."""
    # Five steps to begin, then the steps of the first tick, whose records come in two chunks.
    fatal = len(OPENING_STEPS) + len(STEPS) + 3
    process = start_run(folder, ticks=ticks, sizes=SIZES, fatal_step=fatal)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert len((folder / LOG).read_bytes().splitlines()) == 1
    return folder


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return begin(tmp_path_factory.mktemp("begun"), TICKS)


@pytest.fixture(scope="module")
def uninterrupted(begun: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], bytes]:
    """The steps of a run without a kill, and the history it publishes."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    steps = run_to_end(copied(begun, folder), ticks=TICKS, sizes=SIZES)
    assert set(STEPS) <= set(steps)
    history = (folder / LOG).read_bytes()
    assert history.count(b"\n") == TICKS
    return steps, history


@pytest.fixture(scope="module")
def expected(uninterrupted: tuple[list[str], bytes]) -> bytes:
    return uninterrupted[1]


def copied(origin: Path, folder: Path) -> Path:
    shutil.copytree(origin, folder, dirs_exist_ok=True)
    return folder


def check_after_kill(folder: Path, expected: bytes) -> None:
    """What was shown is a part of the history, whole, and was paid for."""
    shown = (folder / LOG).read_bytes() if (folder / LOG).exists() else b""
    assert expected.startswith(shown)
    store = SqliteStore(folder / STORE, read_only=True)
    if (folder / STORE).exists() and shown:
        assert len(store.ledger()) >= shown.count(b"\n")
    store.close()


def check_finished(folder: Path, expected: bytes, *, ticks: int = TICKS) -> None:
    assert (folder / LOG).read_bytes() == expected
    found = verify_store(folder / STORE, published=folder / LOG, keys=default_key(folder))
    assert found.passed, found.checks
    assert found.releases == ticks
    assert found.spent == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_step_the_history_is_the_uninterrupted_one(
    step: str, begun: Path, uninterrupted: tuple[list[str], bytes], tmp_path: Path
):
    steps, expected = uninterrupted
    folder = copied(begun, tmp_path / "killed")
    # The step is reached once for each tick; kill at its last time but one, from where it began.
    fatal = [number for number, name in enumerate(steps, 1) if name == step][-2]
    process = start_run(folder, ticks=TICKS, sizes=SIZES, fatal_step=fatal)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    check_after_kill(folder, expected)
    run_to_end(folder, ticks=TICKS, sizes=(11,))
    check_finished(folder, expected)


@pytest.mark.parametrize("number", range(1, len(OPENING_STEPS) + 1))
def test_killed_while_beginning_the_stream_begins_once(number: int, tmp_path: Path):
    plain, killed = tmp_path / "plain", tmp_path / "killed"
    plain.mkdir()
    killed.mkdir()
    steps = run_to_end(plain, ticks=TICKS, sizes=SIZES, insecure_seed=4)
    assert steps[: len(OPENING_STEPS)] == OPENING_STEPS
    process = start_run(killed, ticks=TICKS, sizes=SIZES, insecure_seed=4, fatal_step=number)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    run_to_end(killed, ticks=TICKS, sizes=SIZES, insecure_seed=4)
    check_finished(killed, (plain / LOG).read_bytes())


def test_half_a_published_line_is_repaired(begun: Path, expected: bytes, tmp_path: Path):
    folder = copied(begun, tmp_path / "half")
    run_to_end(folder, ticks=TICKS, sizes=SIZES)
    whole = (folder / LOG).read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for cut in (0, 1, 20, last, last + 1, len(whole) - 1):
        (folder / LOG).write_bytes(whole[:cut])
        run_to_end(folder, ticks=TICKS, sizes=SIZES)
        check_finished(folder, expected)
    (folder / LOG).write_bytes(whole[:last] + bytes(100) + b"\n" + bytes(30))
    run_to_end(folder, ticks=TICKS, sizes=SIZES)
    check_finished(folder, expected)


def random_kills(folder: Path, *, kills: int, ticks: int, longest: float, seed: int) -> list[int]:
    """Kill runs at random moments; returns how many lines were published at each kill."""
    generator = public_generator(seed)
    start = folder / "start"
    start.mkdir()
    begin(start, ticks)
    plain = copied(start, folder / "plain")
    run_to_end(plain, ticks=ticks, sizes=SIZES)
    expected = (plain / LOG).read_bytes()
    published: list[int] = []
    stream = 0
    while len(published) < kills:
        stream += 1
        here = copied(start, folder / str(stream))
        finished = False
        while not finished and len(published) < kills:
            sizes = [int(size) for size in generator.integers(1, 40, size=3)]
            process = start_run(here, ticks=ticks, sizes=sizes)
            time.sleep(float(generator.uniform(0, longest)))
            process.kill()
            process.join()
            finished = process.exitcode == 0
            if not finished:
                assert process.exitcode == -signal.SIGKILL
                published.append((here / LOG).read_bytes().count(b"\n"))
            check_after_kill(here, expected)
        run_to_end(here, ticks=ticks, sizes=SIZES)
        check_finished(here, expected, ticks=ticks)
    return published


def test_a_few_random_kills(tmp_path: Path):
    published = random_kills(tmp_path, kills=8, ticks=20, longest=0.1, seed=5)
    assert len(published) == 8


@pytest.mark.slow
def test_two_hundred_random_kills(tmp_path: Path):
    published = random_kills(tmp_path, kills=200, ticks=30, longest=0.25, seed=200)
    assert len(published) == 200
    assert len(set(published)) > 10  # the kills fell all over the stream
