"""Resident memory of a long stream: the same after ten million records as after a hundred thousand.

A session runs in a process of its own, over chunks made one by one, with the encrypted store on
disk. Its resident memory is read when the stream is warm and again at its end; what grows with
the stream must lie in the store.
"""

import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.bench.history import Watch
from dpstream.domain.batch import RawChunk
from dpstream.domain.domain import Domain
from dpstream.engine.schedule import EveryRecords
from dpstream.engine.session import Session
from dpstream.engine.stream import Stream
from dpstream.learners.incremental.priv_inc_reg1 import PrivIncReg1
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.stores.release_log import ReleaseLog
from dpstream.stores.sqlite import SqliteStore

WATCHED = (Watch("growth", "lower"),)

DIMENSION = 10
TICK_RECORDS = 5_000
CHUNK = 10_000
GROUP = 2
WARM = 100_000
END = 10_000_000
ALLOWED = 1.05
"""The most that memory may grow, as a factor."""


class SyntheticSource:
    """Made-up records, the same at every reading, made chunk by chunk."""

    name = "made-up records"

    def __init__(self, records: int) -> None:
        self._records = records

    def chunks(self, offset: int) -> Iterator[RawChunk]:
        """The records from ``offset`` on; chunks begin at multiples of their length."""
        while offset < self._records:
            start = offset % CHUNK
            data = self._chunk(offset // CHUNK)[start : start + self._records - offset]
            yield RawChunk(data=data, offset=offset, length=len(data), origin=self.name)
            offset += len(data)

    def _chunk(self, number: int) -> FloatArray:
        rows = public_generator(number).standard_normal((CHUNK, DIMENSION + 1)) * 0.25
        return np.ascontiguousarray(rows)


def resident_bytes() -> int:
    """Physical memory of this process, without pages shared with files."""
    fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")


def trace(folder: Path, *, end: int = END, warm: int = WARM) -> dict[int, int]:
    """Run the stream; resident bytes after ``warm`` records and at ever more up to ``end``."""
    learner = PrivIncReg1(
        domain=Domain.vectors(DIMENSION, norm_bound=1.0, target_bound=1.0),
        budget=Budget(epsilon=1.0, delta=1e-6),
        unit=Unit(),
        neighbours=Neighbours.ZERO_OUT,
        horizon=None,
        intervals=False,
    )
    stream = Stream(learner=learner, schedule=EveryRecords(records=TICK_RECORDS))
    found: dict[int, int] = {}
    wanted = warm
    store, log = SqliteStore(folder / "store.sqlite"), ReleaseLog(folder / "releases.jsonl")
    with Session(stream, store=store, sinks=[log], group=GROUP) as session:
        for _ in session.run(SyntheticSource(end)):
            if session.records >= wanted:
                gc.collect()
                found[session.records] = resident_bytes()
                wanted = min(2 * session.records, end) if session.records < end else 2 * end
    return found


def run() -> dict[str, Any]:
    """Resident memory along the stream, from a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        finished = subprocess.run(
            [sys.executable, "-m", __name__, folder], check=True, capture_output=True, text=True
        )
    found = {int(records): size for records, size in json.loads(finished.stdout).items()}
    first, last = found[min(found)], found[max(found)]
    return {
        "megabytes after records": {f"{n:,}": size / 1e6 for n, size in found.items()},
        "growth": last / first,
        "largest growth allowed": ALLOWED,
        "flat": last <= ALLOWED * first,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(trace(Path(sys.argv[1]))))
