"""Two processes on one stream: one writes, the other is refused, whatever happens to them."""

import multiprocessing
import os
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from dpstream.engine.session import Session
from dpstream.errors import StoreLocked
from dpstream.stores.lease import LEASE_SECONDS
from dpstream.stores.release_log import ReleaseLog
from dpstream.stores.sqlite import SqliteStore
from dpstream.stores.verification import verify_store
from dpstream.testing.crash import LOG, REFUSED, STORE, crash_stream, run_to_end, start_run
from dpstream.testing.small_stream import ArraySource, ManualClock, small_records

TICKS = 6
SIZES = (7, 25)


@pytest.fixture
def history(tmp_path: Path) -> bytes:
    plain = tmp_path / "plain"
    plain.mkdir()
    run_to_end(plain, ticks=TICKS, sizes=SIZES, insecure_seed=2)
    return (plain / LOG).read_bytes()


def wait_until_paused(process: BaseProcess) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        stat = Path(f"/proc/{process.pid}/stat").read_text()
        if stat.rpartition(")")[2].split()[0] == "T":
            return
        time.sleep(0.001)
    raise AssertionError("the process did not pause")


def paused_at(folder: Path, step: str) -> BaseProcess:
    """A writer that pauses itself the third time it reaches a step."""
    scout = folder.parent / "scout"
    scout.mkdir()
    steps = run_to_end(scout, ticks=TICKS, sizes=SIZES, insecure_seed=2)
    number = [n for n, name in enumerate(steps, 1) if name == step][2]
    process = start_run(
        folder,
        ticks=TICKS,
        sizes=SIZES,
        insecure_seed=2,
        fatal_step=number,
        fatal_signal=signal.SIGSTOP,
    )
    wait_until_paused(process)
    return process


def wake(process: BaseProcess) -> int | None:
    assert process.pid is not None
    os.kill(process.pid, signal.SIGCONT)
    process.join(30)
    return process.exitcode


@pytest.mark.parametrize("step", ["learned", "measured", "committed"])
def test_a_paused_writer_that_wakes_after_a_take_over_is_refused(
    step: str, history: bytes, tmp_path: Path
):
    folder = tmp_path / "shared"
    folder.mkdir()
    first = paused_at(folder, step)
    with pytest.raises(StoreLocked, match=f"process {first.pid} "):
        run_to_end(folder, ticks=TICKS, sizes=SIZES, insecure_seed=2)
    later = ManualClock(time.time() + LEASE_SECONDS + 1)
    store = SqliteStore(folder / STORE, clock=later)
    log = ReleaseLog(folder / LOG)
    stream = crash_stream(ticks=TICKS, insecure_seed=2)
    with Session(stream, store=store, sinks=[log]) as second:
        running = second.run(ArraySource(small_records(10 * TICKS), SIZES))
        next(running)
        # The first wakes while the second is at work.
        assert wake(first) == REFUSED
        list(running)
    assert (folder / LOG).read_bytes() == history
    assert verify_store(folder / STORE, published=folder / LOG).passed


def test_a_paused_writer_that_was_not_superseded_goes_on(history: bytes, tmp_path: Path):
    folder = tmp_path / "shared"
    folder.mkdir()
    first = paused_at(folder, "measured")
    assert wake(first) == 0
    assert (folder / LOG).read_bytes() == history


def test_a_dead_writers_lease_is_taken_over_at_once(history: bytes, tmp_path: Path):
    folder = tmp_path / "shared"
    folder.mkdir()
    first = paused_at(folder, "measured")
    with pytest.raises(StoreLocked):
        run_to_end(folder, ticks=TICKS, sizes=SIZES, insecure_seed=2)
    first.kill()
    first.join()
    run_to_end(folder, ticks=TICKS, sizes=SIZES, insecure_seed=2)
    assert (folder / LOG).read_bytes() == history


def test_writers_that_start_at_once_leave_one_history(history: bytes, tmp_path: Path):
    for number in range(4):
        folder = tmp_path / str(number)
        folder.mkdir()
        rivals = [
            start_run(folder, ticks=TICKS, sizes=sizes, insecure_seed=2)
            for sizes in (SIZES, (4,), (60,))
        ]
        for rival in rivals:
            rival.join(60)
        codes = [rival.exitcode for rival in rivals]
        assert set(codes) <= {0, REFUSED}
        assert 0 in codes
        assert (folder / LOG).read_bytes() == history
        assert verify_store(folder / STORE, published=folder / LOG).passed


def test_a_fork_of_a_writer_cannot_write_and_takes_nothing_from_it(history: bytes, tmp_path: Path):
    stream = crash_stream(ticks=TICKS, insecure_seed=2)
    store, log = SqliteStore(tmp_path / STORE), ReleaseLog(tmp_path / LOG)
    source = ArraySource(small_records(10 * TICKS), SIZES)
    with Session(stream, store=store, sinks=[log]) as session:
        running = session.run(source)
        next(running)

        def go_on() -> None:
            with session:
                try:
                    list(running)
                except StoreLocked:
                    os._exit(REFUSED)

        fork = multiprocessing.get_context("fork").Process(target=go_on)
        fork.start()
        fork.join(60)
        assert fork.exitcode == REFUSED
        closing = multiprocessing.get_context("fork").Process(target=session.close)
        closing.start()
        closing.join(60)
        assert closing.exitcode == 0
        list(running)
    assert (tmp_path / LOG).read_bytes() == history
