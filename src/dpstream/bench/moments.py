"""The whole path of a record, against the bare sum of its products.

Measured is a session as it runs in earnest: raw numbers are clipped, quantised and summed
exactly, every thousandth record closes a tick that is measured and solved, and the releases are
committed to an encrypted, durable store before they are handed out. The floor is what the sum
alone costs without any privacy: one BLAS ``dsyrk`` over the same rows as floats, unclipped, in
the best of several block sizes, on one thread. Both are taken in turns, best of several, in one
run.

The stream is Gaussian rows already scaled towards the unit ball: about one in ten lies outside
and is clipped. Releases of one chunk share a transaction; what a transaction of its own for every
release would cost is measured beside.
"""

import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from scipy.linalg import blas
from threadpoolctl import threadpool_limits

from dpstream.arrays import FloatArray
from dpstream.bench.history import Watch
from dpstream.domain.batch import RawChunk
from dpstream.domain.domain import Domain
from dpstream.engine.schedule import EveryRecords
from dpstream.engine.session import Session
from dpstream.engine.stream import Stream
from dpstream.learners.incremental.priv_inc_reg1 import PrivIncReg1, RegressionState
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.stores.sqlite import SqliteStore

DIMENSIONS = {10: 0.2, 54: 0.5, 90: 0.55}
"""Numbers of features, and the share of the floor's rate that is aimed at."""

TICK_RECORDS = 1000
GROUP = 64
"""Releases per transaction, and ticks per chunk."""

OUTSIDE = 0.1
"""The share of rows outside the unit ball."""

WATCHED = (
    Watch("d = */ratio", "higher"),
    Watch("d = */ratio, of processor time", "higher"),
    Watch("d = */ratio, a transaction per release", "higher"),
)

_BLOCKS = (1000, 2048, 8192)
_ROUNDS = 7
_HORIZON = 100_000
_MICROSECONDS = 1e6


def records(dimension: int, count: int, *, seed: int = 54) -> FloatArray:
    """Rows ``(x, y)``: Gaussian features, a tenth of them outside the ball, linear targets."""
    generator = public_generator(seed)
    features = generator.standard_normal((count, dimension))
    features /= np.quantile(np.linalg.norm(features, axis=1), 1.0 - OUTSIDE)
    truth = generator.standard_normal(dimension)
    truth /= np.linalg.norm(truth)
    targets = features @ truth + 0.05 * generator.standard_normal(count)
    return np.column_stack([features, np.clip(targets, -1.0, 1.0)])


def stream(dimension: int) -> Stream[RegressionState]:
    """PrivIncReg1 without intervals, released at every thousandth record."""
    learner = PrivIncReg1(
        domain=Domain.vectors(dimension, norm_bound=1.0, target_bound=1.0),
        budget=Budget(epsilon=1.0, delta=1e-6),
        unit=Unit(),
        neighbours=Neighbours.ZERO_OUT,
        horizon=_HORIZON,
        intervals=False,
    )
    return Stream(learner=learner, schedule=EveryRecords(records=TICK_RECORDS))


class _Steps:
    """Adds up the time between the session's steps, under the name of the step that ends it."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.last = 0.0

    def __call__(self, step: str) -> None:
        now = perf_counter()
        self.seconds[step] += now - self.last
        self.last = now


def _run(session: Session[Any], rows: FloatArray) -> tuple[float, float]:
    """Seconds on the wall, and of the processor."""
    started, busy = perf_counter(), process_time()
    chunk = RawChunk(data=rows, offset=session.records, length=len(rows))
    for _ in session.learn(chunk):
        pass
    return perf_counter() - started, process_time() - busy


def _floor(rows: FloatArray, block: int) -> float:
    width = rows.shape[1]
    total = np.zeros((width, width), order="F")
    started = perf_counter()
    for start in range(0, len(rows), block):
        part = rows[start : start + block].T
        blas.dsyrk(1.0, part, beta=1.0, c=total, overwrite_c=1, lower=1)
    return perf_counter() - started


def _best(action: Callable[[], object], repeats: int) -> float:
    times = [perf_counter()]
    for _ in range(repeats):
        action()
        times.append(perf_counter())
    return min(after - before for before, after in pairwise(times))


_PARTS = {
    "admitted": "clip and quantise",
    "learned": "sum products",
    "closed": "encode",
    "measured": "noise, decode, solve",
    "begun": "snapshot",
    "durable": "force to disk",
}


def _parts(steps: _Steps, ticks: int) -> dict[str, float]:
    """Microseconds per release of each part of the last pass; ``steps`` begins anew."""
    parts: dict[str, float] = defaultdict(float)
    for step, seconds in steps.seconds.items():
        name = "write rows" if step.endswith("written") else _PARTS.get(step, "line, hash, rest")
        parts[name] += _MICROSECONDS * seconds / ticks
    steps.seconds.clear()
    return parts


def measure(dimension: int, folder: Path) -> dict[str, Any]:
    """One dimension's figures."""
    rows = records(dimension, GROUP * TICK_RECORDS)
    bare = np.column_stack([np.ones(len(rows)), rows])
    grouped: list[float] = []
    busy: list[float] = []
    single: list[float] = []
    floors: list[float] = []
    steps = _Steps()
    with (
        Session(
            stream(dimension),
            store=SqliteStore(folder / "grouped" / "store.sqlite", on_step=steps),
            group=GROUP,
            on_step=steps,
        ) as session,
        Session(stream(dimension), store=SqliteStore(folder / "single" / "store.sqlite")) as alone,
    ):
        _run(session, rows)  # compiled loops are loaded, and noise has settled
        steps.seconds.clear()
        parts: dict[str, float] = {}
        for _ in range(_ROUNDS):
            with threadpool_limits(limits=1):
                floors += [_floor(bare, block) for block in _BLOCKS]
            steps.last = perf_counter()
            wall, processor = _run(session, rows)
            found = _parts(steps, GROUP)
            parts = {name: min(parts.get(name, taken), taken) for name, taken in found.items()}
            grouped.append(wall)
            busy.append(processor)
            single.append(_run(alone, rows[: len(rows) // 4])[0] * 4)
    gram = bare.T @ bare
    with threadpool_limits(limits=1):
        eigen = _best(lambda: np.linalg.eigh(gram[:-1, :-1]), 50) * _MICROSECONDS
    floor, best = min(floors), min(grouped)
    inevitable = parts["clip and quantise"] + parts["sum products"] + eigen
    floor_part = _MICROSECONDS * floor / GROUP
    return {
        "records per second": len(rows) / best,
        "releases per second": GROUP / best,
        "floor, records per second": len(rows) / floor,
        "ratio": floor / best,
        "target": DIMENSIONS.get(dimension),
        "ratio, of processor time": floor / min(busy),
        "ratio, a transaction per release": floor / min(single),
        "releases per second, a transaction per release": GROUP / min(single),
        "microseconds per release": {"all": _MICROSECONDS * best / GROUP, **parts},
        "microseconds of the floor per release": floor_part,
        "microseconds of one eigendecomposition": eigen,
        "ratio if only admission, sum and eigendecomposition took time": floor_part / inevitable,
    }


def transaction_seconds(folder: Path, *, repeats: int = 50) -> float:
    """The median time of a durable transaction that holds next to nothing."""
    connection = sqlite3.connect(folder / "bare.sqlite", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE item (number INTEGER)")
    times: list[float] = []
    for number in range(repeats):
        started = perf_counter()
        connection.execute("INSERT INTO item VALUES (?)", (number,))
        times.append(perf_counter() - started)
    connection.close()
    return float(np.median(times))


def run() -> dict[str, Any]:
    """All dimensions, and what a durable transaction costs here."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures: dict[str, Any] = {
            "microseconds of a durable transaction": _MICROSECONDS * transaction_seconds(folder),
            "releases per transaction": GROUP,
            "rows outside the ball": OUTSIDE,
        }
        for dimension in DIMENSIONS:
            place = folder / str(dimension)
            (place / "grouped").mkdir(parents=True)
            (place / "single").mkdir()
            figures[f"d = {dimension}"] = measure(dimension, place)
    return figures
