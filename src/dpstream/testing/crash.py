"""Runs a small stream in a process of its own, to be killed.

A child process resumes the stream in a folder and dies by SIGKILL at a chosen step of the
protocol, or whenever its parent kills it. What it leaves in the folder is what a crash leaves.
"""

import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from dpstream.engine.session import Session
from dpstream.engine.stream import Stream
from dpstream.errors import StoreLocked
from dpstream.privacy.unit import Unit
from dpstream.stores.release_log import ReleaseLog
from dpstream.stores.sqlite import SqliteStore
from dpstream.testing.counting_learner import CountingState
from dpstream.testing.small_stream import ArraySource, small_records, small_stream

STORE = "store.sqlite"
LOG = "releases.jsonl"
REFUSED = 3
"""Exit code of a child that was refused as a second writer."""


def crash_stream(
    *, ticks: int, insecure_seed: int | None = None, charge_each: bool = True
) -> Stream[CountingState]:
    """A stream that charges at each release, so that the ledger tells what was published.

    Without ``charge_each`` it is paid for when it begins, and releases may share transactions.
    """
    return small_stream(
        unit=Unit(), horizon=ticks, charge_each=charge_each, insecure_seed=insecure_seed
    )


def run_to_end(
    folder: Path,
    *,
    ticks: int,
    sizes: Sequence[int],
    insecure_seed: int | None = None,
    group: int = 1,
    made_by: str | None = None,
    fatal_step: int | None = None,
    fatal_signal: int = signal.SIGKILL,
) -> list[str]:
    """Begin or resume the stream in a folder and run it to its end.

    Args:
        folder: holds the store, its key and the published log.
        ticks: the stream's length, ten records each.
        sizes: of the chunks.
        insecure_seed: for comparing streams that were created apart.
        group: how many releases may share a transaction.
        made_by: ``"module:function"`` that makes another stream and its records, given ``ticks``
            and ``insecure_seed``; None for the counting one.
        fatal_step: send itself a signal at this step, counted from 1.
        fatal_signal: which one: to die, or to be paused.

    Returns:
        The names of the steps, in order.
    """
    steps: list[str] = []

    def on_step(step: str) -> None:
        steps.append(step)
        if len(steps) == fatal_step:
            os.kill(os.getpid(), fatal_signal)

    stream: Stream[Any] = crash_stream(
        ticks=ticks, insecure_seed=insecure_seed, charge_each=group == 1
    )
    rows: Any = small_records(10 * ticks)
    if made_by is not None:
        module, _, function = made_by.partition(":")
        make = getattr(import_module(module), function)
        stream, rows = make(ticks=ticks, insecure_seed=insecure_seed)
    store = SqliteStore(folder / STORE, on_step=on_step)
    log = ReleaseLog(folder / LOG)
    with Session(stream, store=store, sinks=[log], group=group, on_step=on_step) as session:
        for _ in session.run(ArraySource(rows, sizes)):
            pass
    return steps


def start_run(
    folder: Path,
    *,
    ticks: int,
    sizes: Sequence[int],
    insecure_seed: int | None = None,
    group: int = 1,
    made_by: str | None = None,
    fatal_step: int | None = None,
    fatal_signal: int = signal.SIGKILL,
) -> BaseProcess:
    """Start ``run_to_end`` in a child process; returns when the child is at work."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "dpstream.testing.crash_preload"])
    ready, told = context.Pipe(duplex=False)
    options = {
        "ticks": ticks,
        "sizes": sizes,
        "insecure_seed": insecure_seed,
        "group": group,
        "made_by": made_by,
        "fatal_step": fatal_step,
        "fatal_signal": fatal_signal,
    }
    process = context.Process(target=_work, args=(told, folder, options))
    process.start()
    told.close()
    ready.recv_bytes()
    ready.close()
    return process


def _work(told: Connection, folder: Path, options: dict[str, Any]) -> None:
    told.send_bytes(b"at work")
    try:
        run_to_end(folder, **options)
    except StoreLocked:
        sys.exit(REFUSED)
