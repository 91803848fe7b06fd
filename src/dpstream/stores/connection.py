"""Connections to a store's file: the writer's, and a reader's that never changes it."""

import os
import sqlite3
from pathlib import Path

from dpstream.errors import StoreError, StoreMismatch
from dpstream.stores.migration import SCHEMA_VERSION, stored_version

_PAGE_BYTES = 8192
_CACHE_KILOBYTES = 1024
"""Pages kept in memory: a writer appends, and seldom reads what it wrote long ago."""

_BUSY_SECONDS = 5.0


def open_writer(path: Path) -> sqlite3.Connection:
    """A connection that may write; makes the file, for its owner alone, if it is missing."""
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    connection = _connect(str(path), uri=False)
    try:
        stored_version(connection, name=str(path))
        connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KILOBYTES}")
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(path: Path) -> sqlite3.Connection:
    """A connection that reads only.

    Raises:
        StoreError: if there is no file.
        StoreMismatch: if another version made it.
    """
    if not path.is_file():
        what = "is no file" if path.exists() else "does not exist"
        raise StoreError(
            f"{path} {what}; nothing was ever stored there: name a store, such as stream.db"
        )
    try:
        return _open_reader(path, "mode=ro")
    except sqlite3.OperationalError:
        # SQLite needs to write a shared index to read a live log. Where it may not, and no log
        # is left beside the file, there is no writer either: the file can be read as it lies.
        if Path(f"{path}-wal").exists():
            raise
        return _open_reader(path, "mode=ro&immutable=1")


def _open_reader(path: Path, options: str) -> sqlite3.Connection:
    connection = _connect(f"{path.absolute().as_uri()}?{options}", uri=True)
    try:
        version = stored_version(connection, name=str(path))
        if version < SCHEMA_VERSION:
            raise StoreMismatch(
                f"{path} has store version {version}; resume its stream once to bring it to "
                f"version {SCHEMA_VERSION}"
            )
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(path: str, *, uri: bool) -> sqlite3.Connection:
    return sqlite3.connect(
        path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=uri
    )
