"""A store edited by somebody who recomputes every digest: what its own declaration still tells."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpstream.engine.publication import FIRST_DIGEST, chained, from_line, to_line
from dpstream.engine.session import Session
from dpstream.errors import DpstreamError, StoreCorrupt
from dpstream.privacy.budget import Budget
from dpstream.privacy.ledger import opening_digest
from dpstream.privacy.unit import Unit
from dpstream.stores.sqlite import SqliteStore
from dpstream.stores.verification import Verification, verify_store
from dpstream.testing.small_stream import ArraySource, small_records, small_stream

NAME = "stream.db"
HUGE = 10**400


@pytest.fixture
def store(tmp_path: Path) -> Path:
    stream = small_stream(unit=Unit(), horizon=3, charge_each=True)
    with Session(stream, store=SqliteStore(tmp_path / NAME)) as session:
        assert len(list(session.run(ArraySource(small_records(20), (20,))))) == 2
    return tmp_path / NAME


def rewritten(path: Path, change: Callable[[dict[str, Any]], None]) -> Verification:
    """Verify after changing every line and making the chain of digests anew."""
    reader = SqliteStore(path, read_only=True)
    measured = list(reader.measurements())
    digest, rows = FIRST_DIGEST, []
    for row in reader.releases():
        content = json.loads(row.line)
        change(content)
        line = json.dumps(
            content, sort_keys=True, separators=(",", ":"), ensure_ascii=False
        ).encode()
        own = [measurement for tick, measurement in measured if tick == row.tick]
        made = chained(line, tick=row.tick, measurements=own, previous=digest)
        digest = made.digest
        rows.append((line, digest, row.tick))
    reader.close()
    connection = sqlite3.connect(path)
    connection.executemany("UPDATE release SET line = ?, digest = ? WHERE tick = ?", rows)
    connection.commit()
    connection.close()
    return verify_store(path)


def test_a_chain_made_anew_without_a_change_verifies(store: Path) -> None:
    assert rewritten(store, lambda content: None).passed


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("guarantee", "epsilon"), 0.5, "states another budget"),
        (("guarantee", "neighbours"), "replace", "states another budget, unit or neighbours"),
        (
            ("guarantee", "unit"),
            {"kind": "user", "cap": 1, "column": "who", "period": "life"},
            "states another budget, unit or neighbours",
        ),
        (("guarantee", "insecure_seed"), True, "or another seed"),
        (("provenance", "identity"), "0" * 32, "belongs to another declaration"),
        (("provenance", "identity"), None, "belongs to another declaration"),
        (("events", 0, "mu"), 1e-9, "never charged"),
        (("provenance", "ledger_rows"), 0, "rests on another ledger"),
        (("provenance", "ledger_rows"), None, "rests on another ledger"),
        (("provenance", "ledger_rows"), True, "rests on another ledger"),
        (("value", "extra"), float("inf"), "cannot be read"),
        (("tick",), 7, "does not match its digest"),
        (("tick",), "1", "cannot be read"),
        (("guarantee", "epsilon"), "1.0", "cannot be read"),
        (("guarantee", "insecure_seed"), 0, "cannot be read"),
        (("events",), {}, "cannot be read"),
        (("format",), 2, "has format 2"),
        (("format",), "2", "cannot be read"),
    ],
)
def test_what_a_release_states_must_be_what_the_store_declares(
    place: tuple[Any, ...], value: Any, said: str, store: Path
) -> None:
    def change(content: dict[str, Any]) -> None:
        inner: Any = content
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = value

    found = rewritten(store, change)
    assert not found.passed
    (wrong,) = [check for check in found.checks if not check.passed]
    assert wrong.name == "release log"
    assert said in wrong.detail


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("domain", "norm_bound"), 1000.0),
        (("domain", "columns", 0, "name"), "other"),
        (("learner", "horizon"), None),
        (("schedule", "every"), 1),
        (("insecure_seed",), 7),
        (("window",), 3),
    ],
)
def test_a_declaration_that_was_altered_is_not_that_of_the_releases(
    place: tuple[Any, ...], value: Any, store: Path
) -> None:
    reader = SqliteStore(store, read_only=True)
    identity: Any = json.loads(json.dumps(reader.identity()))
    reader.close()
    inner = identity
    for key in place[:-1]:
        inner = inner[key]
    assert inner[place[-1]] != value
    inner[place[-1]] = value
    connection = sqlite3.connect(store)
    connection.execute(
        "UPDATE stream SET value = ? WHERE key = 'identity'", (json.dumps(identity).encode(),)
    )
    connection.commit()
    connection.close()
    (wrong,) = [check for check in verify_store(store).checks if not check.passed]
    assert wrong.name == "release log"
    assert "seed" in wrong.detail or "belongs to another declaration" in wrong.detail


def test_a_release_rests_on_no_event_that_was_charged_after_it(store: Path) -> None:
    opening = opening_digest(Budget(epsilon=1.0, delta=1e-6), Unit())

    def change(content: dict[str, Any]) -> None:
        content["provenance"] |= {"ledger_rows": 0, "ledger_head": opening}

    (wrong,) = [check for check in rewritten(store, change).checks if not check.passed]
    assert "tick 1 rests on an event never charged" in wrong.detail


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE ledger SET content = 'null' WHERE number = 0", "damaged"),
        ("UPDATE ledger SET content = 7", "damaged"),
        ("UPDATE ledger SET content = '[]'", "damaged"),
        ("UPDATE measurement SET address = '7' WHERE number = 1", "damaged"),
        ("UPDATE measurement SET address = '[1.5]' WHERE number = 1", "damaged"),
        ("UPDATE measurement SET exponent = 'x'", "damaged"),
        ("UPDATE measurement SET tick = 'x'", "damaged"),
        ("UPDATE measurement SET value = x'00'", "damaged"),
        ("UPDATE release SET digest = 3", "damaged"),
        ("UPDATE stream SET value = x'5b5d' WHERE key = 'identity'", "damaged"),
        ("UPDATE stream SET value = x'7b7d' WHERE key = 'identity'", "no budget and unit"),
        ("UPDATE state SET content = 'text'", "damaged"),
    ],
)
def test_a_damaged_row_is_said_to_be_damaged(statement: str, said: str, store: Path) -> None:
    connection = sqlite3.connect(store)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute(statement)
    connection.commit()
    connection.close()
    try:
        found = verify_store(store, keys=None)
        details = [check.detail for check in found.checks if not check.passed]
    except DpstreamError as error:
        details = [str(error)]
    if "state" in statement:
        reader = SqliteStore(store, read_only=True)
        with pytest.raises(StoreCorrupt, match=said):
            reader.state()
        reader.close()
    else:
        assert any(said in detail for detail in details), details


def test_a_number_beyond_every_float_is_damage(store: Path) -> None:
    connection = sqlite3.connect(store)
    (text,) = connection.execute("SELECT content FROM ledger WHERE number = 0").fetchone()
    row = json.loads(text)
    row["event"]["mu"] = HUGE
    connection.execute("UPDATE ledger SET content = ? WHERE number = 0", (json.dumps(row),))
    connection.commit()
    ledger = next(check for check in verify_store(store).checks if not check.passed)
    assert (ledger.name, "damaged" in ledger.detail) == ("ledger chain", True)
    declared = {"budget": {"epsilon": HUGE, "delta": 1e-6}, "unit": {"kind": "record"}}
    connection.execute(
        "UPDATE stream SET value = ? WHERE key = 'identity'", (json.dumps(declared).encode(),)
    )
    connection.commit()
    connection.close()
    with pytest.raises(StoreCorrupt, match="no budget and unit"):
        verify_store(store)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM lease",
        "UPDATE lease SET token = 'x'",
        "UPDATE lease SET expires = 'soon'",
    ],
)
def test_a_damaged_lease_lets_nobody_write(statement: str, store: Path) -> None:
    connection = sqlite3.connect(store)
    connection.execute(statement)
    connection.commit()
    connection.close()
    writer = SqliteStore(store)
    with pytest.raises(StoreCorrupt, match="damaged"):
        writer.acquire()
    writer.close()


def test_a_holder_that_cannot_be_read_is_waited_for(store: Path) -> None:
    connection = sqlite3.connect(store)
    connection.execute("UPDATE lease SET holder = 'nobody', expires = 1e12")
    connection.commit()
    connection.close()
    writer = SqliteStore(store)
    with pytest.raises(DpstreamError, match="is being written by process 0 on unknown"):
        writer.acquire()
    writer.close()


def test_a_line_reads_back_only_as_it_was_written(store: Path) -> None:
    reader = SqliteStore(store, read_only=True)
    (line, _) = [row.line for row in reader.releases()]
    reader.close()
    assert to_line(from_line(line)) == line
    for other in (
        line + b" ",
        line.replace(b'"format":1', b'"format": 1'),
        line.replace(b'"format":1', b'"format":1,"format":1'),
        line.decode().encode("utf-16"),
        b"[" * 100_000,
    ):
        with pytest.raises(StoreCorrupt):
            from_line(other)
