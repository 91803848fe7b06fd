"""The store's tables, version by version.

A new store is an empty file migrated to the newest version, so every step that an old store
takes is a step that every new store has taken. Steps are append-only.
"""

import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager

from dpstream.errors import StoreMismatch

APPLICATION_ID = 0x64707374
"""Marks an SQLite file as one of ours ("dpst")."""


def _stream_and_log(connection: sqlite3.Connection) -> None:
    _execute(
        connection,
        "CREATE TABLE stream (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
        "CREATE TABLE state (id INTEGER PRIMARY KEY CHECK (id = 1), sequence INTEGER NOT NULL,"
        " content BLOB NOT NULL)",
        "CREATE TABLE ledger (number INTEGER PRIMARY KEY, content TEXT NOT NULL)",
        "CREATE TABLE release (tick INTEGER PRIMARY KEY, line BLOB NOT NULL, digest BLOB NOT NULL)",
        "CREATE TABLE measurement (number INTEGER PRIMARY KEY, tick INTEGER NOT NULL,"
        " address TEXT NOT NULL UNIQUE, exponent INTEGER NOT NULL, value BLOB NOT NULL)",
        "CREATE TABLE lease (id INTEGER PRIMARY KEY CHECK (id = 1), token INTEGER NOT NULL,"
        " holder TEXT, expires REAL NOT NULL)",
        "INSERT INTO lease VALUES (1, 0, NULL, 0)",
    )


def _contributions(connection: sqlite3.Connection) -> None:
    _execute(
        connection,
        "CREATE TABLE contribution (unit BLOB NOT NULL, tick INTEGER NOT NULL,"
        " records INTEGER NOT NULL, PRIMARY KEY (unit, tick)) WITHOUT ROWID",
        "CREATE INDEX contribution_tick ON contribution (tick)",
    )


def _execute(connection: sqlite3.Connection, *statements: str) -> None:
    for statement in statements:
        connection.execute(statement)


STEPS: tuple[Callable[[sqlite3.Connection], None], ...] = (_stream_and_log, _contributions)
"""Step ``i`` leads from version ``i`` to version ``i + 1``."""

SCHEMA_VERSION = len(STEPS)


@contextmanager
def _one_view(connection: sqlite3.Connection) -> Generator[None, None, None]:
    """Read everything as of one moment, also while another process makes the tables."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


def stored_version(connection: sqlite3.Connection, *, name: str) -> int:
    """The version of a store's tables; 0 for an empty file.

    Raises:
        StoreMismatch: if the file is no store, or a newer version made it.
    """
    with _one_view(connection):
        tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    if application != APPLICATION_ID and (tables or version):
        raise StoreMismatch(f"{name} is an SQLite file but no dpstream store; choose another path")
    if version > SCHEMA_VERSION:
        raise StoreMismatch(
            f"{name} has store version {version}; this dpstream reads up to version "
            f"{SCHEMA_VERSION}: upgrade dpstream"
        )
    return version


def migrate(connection: sqlite3.Connection, *, name: str) -> None:
    """Bring the tables to the newest version, inside the caller's transaction."""
    version = stored_version(connection, name=name)
    for step in STEPS[version:]:
        step(connection)
    if version < SCHEMA_VERSION:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
