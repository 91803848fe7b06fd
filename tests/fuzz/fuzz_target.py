"""What is fuzzed: each target takes any bytes and holds them against what was promised.

Promised: only errors of ``dpstream.errors`` come out; no message, and no traceback a user would
see, holds a private value; nothing that is admitted, read back or released is NaN or infinite.
A target raises ``Broken``, or whatever escaped, if that is not so.
"""

import io
import json
import math
import shutil
import sqlite3
import sys
import tempfile
import tomllib
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from fuzz_draw import MARK, Draw

from dpstream.cli.assemble import assemble_stream
from dpstream.cli.config import load_config, parse_config
from dpstream.cli.problem import assemble_batch_stream
from dpstream.connectors.delimited import Delimited
from dpstream.connectors.json_lines import JsonLines
from dpstream.connectors.released_models import LoggedModels
from dpstream.connectors.text_source import TextSource
from dpstream.domain.batch import GRID, Batch, RawChunk
from dpstream.domain.column import Boolean, Categorical, Column, Numeric
from dpstream.domain.domain import Domain
from dpstream.domain.target import IntervalTarget, LabelTarget
from dpstream.engine.memory import MemoryStore
from dpstream.engine.publication import from_line, to_line
from dpstream.engine.schedule import EveryRecords, Position
from dpstream.engine.session import Session
from dpstream.engine.snapshot import Snapshot
from dpstream.engine.stream import Stream
from dpstream.errors import DpstreamError, SchemaError, SourceError, StoreCorrupt
from dpstream.learners.incremental.priv_inc_reg1 import PrivIncReg1
from dpstream.learners.learner import Learner
from dpstream.learners.sums.running_sum import RunningSum
from dpstream.learners.window.windowed_regression import WindowedRegression
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.event import event_from_json
from dpstream.privacy.ledger import Ledger, LedgerRow
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.stores.encryption import KeyFile
from dpstream.stores.release_log import ReleaseLog
from dpstream.stores.sqlite import SqliteStore
from dpstream.stores.verification import verify_store
from dpstream.testing.small_stream import ArraySource, small_records, small_stream


class Broken(AssertionError):
    """A promise did not hold."""


def hold(condition: object, promise: str) -> None:
    """Raise ``Broken`` unless the promise held."""
    if not condition:
        raise Broken(promise)


@contextmanager
def only(*kinds: type[BaseException]) -> Generator[None, None, None]:
    """Allows these errors of ours, if nothing that a user would see of them is private."""
    try:
        yield
    except kinds as error:
        shown = "".join(traceback.format_exception(error))
        # The frames' source lines are this program's; the messages are what counts.
        messages = [line for line in shown.splitlines() if not line.startswith("    ")]
        hold(not any(MARK in line for line in messages), f"{type(error).__name__} told a secret")


def finite(value: Any) -> bool:
    """Whether every number in a released value is finite."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Mapping):
        return all(finite(item) for item in value.values())
    if isinstance(value, list | tuple):
        return all(finite(item) for item in value)
    return True


# --- templates, made once ----------------------------------------------------------------------


@cache
def folder() -> Path:
    """A folder that ends with the process, in memory where there is such a place."""
    memory = Path("/dev/shm")
    made = tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)
    _kept.append(made)
    return Path(made.name)


_kept: list[Any] = []


@cache
def template() -> Path:
    """The folder of a stream that has released three times and charged each."""
    origin = folder() / "template"
    origin.mkdir()
    stream = small_stream(unit=Unit(), horizon=6, charge_each=True, insecure_seed=1)
    store = SqliteStore(origin / "stream.db", KeyFile(origin / "store.key"))
    with Session(stream, store=store, sinks=[ReleaseLog(origin / "log")]) as session:
        hold(len(list(session.run(ArraySource(small_records(34), (9,))))) == 3, "the template")
    return origin


@cache
def lines() -> tuple[bytes, ...]:
    """The template's published lines."""
    return tuple((template() / "log").read_bytes().splitlines())


@cache
def rows() -> tuple[LedgerRow, ...]:
    """The template's ledger."""
    store = SqliteStore(template() / "stream.db", read_only=True)
    try:
        return tuple(store.ledger())
    finally:
        store.close()


@cache
def configurations() -> tuple[bytes, ...]:
    """The examples' configurations, small enough to be assembled often."""
    found = sorted((Path(__file__).parents[2] / "examples" / "flights").glob("*.toml"))
    return tuple(path.read_bytes() for path in found)


# --- targets -----------------------------------------------------------------------------------


def release_line(data: bytes) -> None:
    """A published line, any bytes or a true line edited: a finite release, or StoreCorrupt."""
    draw = Draw(data)
    kind = draw.below(3)
    if kind == 0:
        line = draw.rest
    elif kind == 1:
        line = draw.edited(draw.choice(lines()))
    else:
        content = json.loads(draw.choice(lines()))
        place: Any = content
        for _ in range(draw.below(3)):
            inner = place[draw.choice(sorted(place))]
            if not isinstance(inner, dict) or not inner:
                break
            place = inner
        place[draw.choice(sorted(place))] = draw.json()
        line = json.dumps(content).encode("utf-8", "surrogatepass")
    with only(StoreCorrupt):
        release = from_line(line)
        hold(finite(release.value), "a release that is read back is finite")
        again = from_line(to_line(release))
        hold(to_line(again) == to_line(release), "a release is the same line for ever")


def state_bytes(data: bytes) -> None:
    """A stored state, any bytes or a true one edited: arrays of numbers, or StoreCorrupt."""
    draw = Draw(data)
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.array([True]), "c": np.zeros(0, np.int64)}
    whole = Snapshot(Position(records=5, tick=2), arrays).to_bytes()
    content = draw.rest if draw.below(4) == 0 else draw.edited(whole)
    with only(StoreCorrupt):
        again = Snapshot.from_bytes(content)
        hold(all(a.dtype.kind in "biuf" for a in again.arrays.values()), "state is numbers")
        hold(type(again.position.records) is int and again.position.records >= 0, "a position")


def ledger_row(data: bytes) -> None:
    """A ledger row or an event, edited: read, verified and added up, or refused."""
    draw = Draw(data)
    if draw.below(3) == 0:
        with only(DpstreamError):
            content = draw.json(4)
            event_from_json(content if isinstance(content, dict) else {"kind": draw.text()})
        return
    content = json.loads(json.dumps([row.to_json() for row in rows()]))
    for _ in range(1 + draw.below(2)):
        place: Any = draw.choice(content)
        if draw.below(2) and place.get("event") and isinstance(place["event"], dict):
            place = place["event"]
        place[draw.choice(sorted(place))] = draw.json()
    with only(DpstreamError):
        read = [LedgerRow.from_json(row) for row in content]
        budget = Budget(epsilon=1.0, delta=1e-6)
        ledger = Ledger.from_rows(read, budget=budget, unit=Unit())
        hold(ledger.rows == rows(), "an altered ledger does not verify")


def configuration(data: bytes) -> None:
    """A configuration, edited as text or as tables: a stream, or ConfigurationError."""
    draw = Draw(data)
    base = draw.choice(configurations())
    with only(DpstreamError):
        if draw.below(2):
            path = folder() / "edited.toml"
            path.write_bytes(draw.rest if draw.below(8) == 0 else draw.edited(base))
            assembled(load_config(path))
        else:
            tables = tomllib.loads(base.decode())
            for _ in range(1 + draw.below(3)):
                place: Any = tables
                while isinstance(place, dict) and place and draw.below(3):
                    key = draw.choice(sorted(place))
                    if not isinstance(place[key], dict):
                        place[key] = draw.json(2)
                    place = place[key]
                if isinstance(place, dict):
                    place[draw.choice(KEYS)] = draw.json(2)
            assembled(parse_config(tables, name="edited.toml"))


KEYS = (
    "a",
    "lower",
    "upper",
    "labels",
    "categories",
    "epsilon",
    "delta",
    "every",
    "interval",
    "horizon",
    "records",
    "name",
    "strategy",
    "loss",
    "constraint",
    "cap",
    "kind",
    "batch",
    "schedule",
)


def assembled(config: Any) -> None:
    """Assemble what was accepted; long horizons and large domains are left to the plans' tests."""
    ticks = config.schedule
    sizes = [
        len(config.columns),
        *(len(column.categories or ()) for column in config.columns.values()),
    ]
    numbers = [ticks.horizon, ticks.records, ticks.start] if ticks else [config.batch.records]
    if max(sizes) > 40 or any(number and number > 10**6 for number in numbers):
        return
    if config.batch is None:
        assemble_stream(config).identity()
    else:
        assemble_batch_stream(config, config.batch).identity()


def _columns(draw: Draw) -> list[Column]:
    made: list[Column] = []
    for number in range(1 + draw.below(3)):
        name, kind = f"c{number}", draw.below(5)
        if kind == 0:
            made.append(Boolean(name))
        elif kind == 1:
            made.append(Categorical(name, tuple(draw.text() for _ in range(1 + draw.below(3)))))
        elif kind == 2:
            made.append(Numeric(name))
        elif kind == 3:
            made.append(Numeric(name, draw.number(), draw.number()))
        else:
            made.append(Numeric(name, -1.0, 1.0))
    return made


def _domain(draw: Draw) -> Domain:
    columns = _columns(draw)
    kind = draw.below(4)
    targets: Any = ()
    if kind == 1:
        targets = (IntervalTarget("y", -1.0, 1.0),)
    elif kind == 2:
        targets = (IntervalTarget("y", draw.number(), draw.number()), IntervalTarget("z", 0.0, 1.0))
    elif kind == 3:
        targets = LabelTarget("y", tuple(draw.text() for _ in range(2 + draw.below(2))))
    return Domain(
        columns,
        targets,
        intercept=bool(draw.below(2)),
        record_bound="max" if draw.below(4) == 0 else "l2",
        norm_bound=None if draw.below(2) else draw.number(),
    )


@cache
def easy_domain() -> Domain:
    """One column of every kind, for cases whose declaration was refused."""
    columns = [Numeric("c0", -1.0, 1.0), Categorical("c1", ("a", "b")), Boolean("c2")]
    return Domain(columns, IntervalTarget("y", -1.0, 1.0))


def bounded(batch: Batch) -> None:
    """What admission guarantees of every row."""
    admitted = batch.rows
    hold(np.isfinite(admitted).all(), "admitted rows are finite")
    hold((admitted == np.rint(admitted)).all(), "admitted rows are on the grid")
    hold(np.isin(admitted[:, 0], (0.0, float(GRID))).all(), "the constant is 1 or 0")
    hold(not admitted[batch.null].any(), "a null record is zero")
    # Integer norms, exact in Python's integers.
    for row in admitted.astype(np.int64).tolist():
        split = 1 + batch.dimension
        hold(sum(v * v for v in row[1:split]) <= GRID * GRID, "the x part is in the unit ball")
        hold(sum(v * v for v in row[split:]) <= GRID * GRID, "the y part is in the unit ball")


def _data(draw: Draw, domain: Domain, extra: list[str]) -> Any:
    names = [item.name for item in (*domain.columns, *domain.targets)] + extra
    count = draw.below(5)
    kind = draw.below(8)
    cells = [[draw.cell() for _ in names] for _ in range(count)]
    if kind == 0:
        return {name: [row[j] for row in cells] for j, name in enumerate(names)}
    if kind == 1:
        return [dict(zip(names, row, strict=True)) for row in cells]
    if kind == 2:
        return cells
    if kind == 3:
        return np.array([[draw.number() for _ in names] for _ in range(count)]).reshape(
            count, len(names)
        )
    if kind == 4:
        made = np.empty((count, len(names)), object)
        for i, row in enumerate(cells):
            for j, value in enumerate(row):
                made[i, j] = value
        return made
    if kind == 5:
        texts = [[draw.text() for _ in names] for _ in range(count)]
        return {name: tuple(row[j] for row in texts) for j, name in enumerate(names)}
    if kind == 6:
        return [{name: draw.cell() for name in names if draw.below(8)} for _ in range(count)]
    return draw.choice((None, 3, MARK, [MARK], {"c0": MARK}, {"c0": 1}, [[1], [2, 3]], {MARK: []}))


def admission(data: bytes) -> None:
    """Any declaration and any records: bounded integers, or an error that tells nothing."""
    draw = Draw(data)
    domain = easy_domain()
    if draw.below(4):
        with only(DpstreamError):
            domain = _domain(draw)
    unit = "who" if draw.below(3) == 0 else None
    clock = "when" if draw.below(3) == 0 else None
    extra = [name for name in (unit, clock) if name]
    records = _data(draw, domain, extra)
    targets = None
    if domain.targets and draw.below(6) == 0:
        targets = [draw.cell() for _ in range(draw.below(5))]
    lines = list(range(2, 40)) if draw.below(2) else None
    length = draw.below(5)
    if draw.below(2):
        records = RawChunk(data=records, offset=0, length=max(1, length), lines=lines)
    with only(SchemaError):
        bounded(
            domain.admit(
                records,
                targets,
                unit_column=unit,
                unit_hash=(lambda text: text.ljust(16, b"\0")[:16]) if unit else None,
                time_column=clock,
            )
        )
    with only(SchemaError):
        seen = domain.features(records.data if isinstance(records, RawChunk) else records)
        hold(seen.shape[1] == domain.dimension, "features to predict from have the domain's width")


def text_records(data: bytes) -> None:
    """Any bytes as CSV or JSON lines: admitted, or an error that names a line and no content."""
    draw = Draw(data)
    domain = easy_domain()
    chunk_rows = 1 + draw.below(5)
    form: Any = JsonLines() if draw.below(2) else Delimited()
    if draw.below(3) == 0:
        content = draw.rest
    elif isinstance(form, JsonLines):
        names = [item.name for item in (*domain.columns, *domain.targets)]
        content = b"\n".join(
            json.dumps({name: draw.json(1) for name in names}).encode("utf-8", "surrogatepass")
            for _ in range(draw.below(4))
        )
    else:
        content = draw.edited(b"c0,c1,c2,y\n0.5,a,true,1\n," + MARK.encode() + b",0,1\n1,b,f,-1\n")
    before = sys.stdin
    # Standard input as a pipe that is read to its end: the same lines as of a file.
    sys.stdin = SimpleNamespace(buffer=io.BytesIO(content))
    try:
        with only(SourceError, SchemaError):
            for chunk in TextSource("-", form, chunk_rows=chunk_rows).chunks(draw.below(3)):
                bounded(domain.admit(chunk))
    finally:
        sys.stdin = before


def _edit_tables(draw: Draw, path: Path) -> None:
    """Change cells of the store as somebody with an editor would."""
    connection = sqlite3.connect(path)
    try:
        for _ in range(1 + draw.below(2)):
            table, column = draw.choice(PLACES)
            value: Any = draw.choice(
                (draw.integer(), draw.number(), draw.text(), draw.take(draw.below(40)), None)
            )
            if draw.below(2):
                found = connection.execute(f"SELECT {column} FROM {table}").fetchall()
                if found:
                    known = draw.choice(found)[0]
                    if isinstance(known, str):
                        value = draw.edited(known.encode()).decode("utf-8", "replace")
                    elif isinstance(known, bytes):
                        value = draw.edited(known)
            with suppress(sqlite3.Error, OverflowError, UnicodeEncodeError):
                where = f" WHERE rowid = {1 + draw.below(3)}" if table in ROWIDS else ""
                if draw.below(6) == 0:
                    connection.execute(f"DELETE FROM {table}{where}")
                else:
                    connection.execute(f"UPDATE {table} SET {column} = ?{where}", (value,))
        connection.commit()
    finally:
        connection.close()


PLACES = (
    ("stream", "value"),
    ("stream", "key"),
    ("state", "content"),
    ("state", "sequence"),
    ("ledger", "content"),
    ("ledger", "number"),
    ("release", "line"),
    ("release", "digest"),
    ("release", "tick"),
    ("measurement", "value"),
    ("measurement", "address"),
    ("measurement", "exponent"),
    ("measurement", "tick"),
    ("lease", "token"),
    ("lease", "holder"),
    ("lease", "expires"),
)
ROWIDS = ("ledger", "release", "measurement")


@cache
def _case_folder() -> Path:
    made = folder() / "case"
    made.mkdir()
    return made


def store_file(data: bytes) -> None:
    """A store whose file or rows were edited: verified, read and resumed, or refused."""
    draw = Draw(data)
    case = _case_folder()
    for left in case.iterdir():
        left.unlink()
    for name in ("stream.db", "log", "store.key"):
        shutil.copyfile(template() / name, case / name)
    kind = draw.below(4)
    if kind == 0:
        path = case / "stream.db"
        path.write_bytes(draw.edited(path.read_bytes()))
    elif kind == 1:
        path = case / draw.choice(("log", "store.key"))
        path.write_bytes(draw.edited(path.read_bytes()))
    else:
        _edit_tables(draw, case / "stream.db")
    keys = KeyFile(case / "store.key")
    with only(DpstreamError):
        found = verify_store(case / "stream.db", published=case / "log", keys=keys)
        hold(found.checks, "verification says what it looked at")
    if draw.below(4):
        return
    expected = lines()
    with only(DpstreamError):
        stream = small_stream(unit=Unit(), horizon=6, charge_each=True, insecure_seed=1)
        store = SqliteStore(case / "stream.db", keys)
        with Session(stream, store=store, sinks=[ReleaseLog(case / "log")]) as session:
            for release in session.run(ArraySource(small_records(48), (9,))):
                hold(finite(release.value), "what is released is finite")
        hold(
            (case / "log").read_bytes().splitlines()[:3] == list(expected),
            "a store that was edited and accepted says what it said before",
        )


def released_model(data: bytes) -> None:
    """The log of a source stream: a finite model of the domain's shape, or SourceError."""
    draw = Draw(data)
    path = folder() / "models"
    domain = Domain.vectors(2, norm_bound=1.0)
    value: Any = draw.json(3)
    kind = draw.below(4)
    if kind == 0:
        content = draw.rest
    elif kind == 1:
        content = json.dumps(value).encode("utf-8", "surrogatepass")
    else:
        model: dict[str, Any] = {"tick": 3, "coefficients": [[0.5, 1.0]], "intercept": [0.0]}
        if draw.below(2):
            model[draw.choice(sorted(model))] = value
        if draw.below(4) == 0:
            model["ready"] = value
        content = draw.edited(json.dumps({"value": model}).encode("utf-8", "surrogatepass"))
    path.write_bytes(content + b"\n")
    with only(SourceError):
        found = LoggedModels(path, domain=domain).newest()
        if found is not None:
            hold(np.isfinite(found.coefficients).all(), "a source's model is finite")
            hold(found.coefficients.shape[1] == 2, "a source's model has the domain's shape")


@cache
def learners() -> tuple[tuple[Domain, Learner[Any]], ...]:
    """Small calibrated learners over hostile records."""
    plain = Domain.vectors(2, norm_bound=1.0)
    pairs = easy_domain()
    shared: dict[str, Any] = {"unit": Unit(), "neighbours": Neighbours.REPLACE}
    tight: dict[str, Any] = shared | {"budget": Budget(epsilon=1e-3, delta=1e-9)}
    loose: dict[str, Any] = shared | {"budget": Budget(epsilon=8.0, delta=1e-6)}
    return (
        (plain, RunningSum(domain=plain, horizon=4, count=True, **tight)),
        (plain, RunningSum(domain=plain, horizon=None, tick_records=8, **loose)),
        (pairs, PrivIncReg1(domain=pairs, horizon=4, tick_records=8, **tight)),
        (pairs, PrivIncReg1(domain=pairs, horizon=4, tick_records=8, **loose)),
        (pairs, WindowedRegression(domain=pairs, window_ticks=2, tick_records=8, **tight)),
    )


def stream_of_records(data: bytes) -> None:
    """Whatever the records are, a stream stops with an error of ours or releases finite numbers."""
    draw = Draw(data)
    domain, learner = draw.choice(learners())
    stream = Stream(learner=learner, schedule=EveryRecords(records=2), insecure_seed=draw.below(9))
    with only(DpstreamError), Session(stream, store=MemoryStore()) as session:
        for _ in range(1 + draw.below(3)):
            records = _data(draw, domain, [])
            try:
                length = len(next(iter(records.values())) if isinstance(records, dict) else records)
            except (TypeError, StopIteration):
                length = 1
            for release in session.learn(
                RawChunk(data=records, offset=session.records, length=length)
            ):
                hold(finite(release.value), "what is released is finite")


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    function.__name__: function
    for function in (
        release_line,
        state_bytes,
        ledger_row,
        configuration,
        admission,
        text_records,
        store_file,
        released_model,
        stream_of_records,
    )
}


def cases(name: str, seed: int) -> Iterator[bytes]:
    """Reproducible random cases for a target, short and long."""
    generator = public_generator(int.from_bytes(name.encode(), "big") % (1 << 32) + seed)
    while True:
        length = (8, 32, 128, 400)[int(generator.integers(0, 4))]
        yield generator.integers(0, 256, size=length).astype(np.uint8).tobytes()
