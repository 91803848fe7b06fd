"""SQLite's failures in our words."""

import sqlite3

from dpstream.errors import StoreCorrupt, StoreError, StoreLocked

_SAFE = "nothing committed was lost: resume when it is put right"

_MEANINGS: dict[int, tuple[type[StoreError], str]] = {
    sqlite3.SQLITE_FULL: (StoreError, f"the disk is full; free some space; {_SAFE}"),
    sqlite3.SQLITE_IOERR: (
        StoreError,
        f"the disk cannot be written or read (full, over a quota, or failing); {_SAFE}",
    ),
    sqlite3.SQLITE_READONLY: (StoreError, f"it may not be written; check permissions; {_SAFE}"),
    sqlite3.SQLITE_PERM: (StoreError, f"it may not be written; check permissions; {_SAFE}"),
    sqlite3.SQLITE_CANTOPEN: (
        StoreError,
        f"it cannot be opened; check that its folder exists and may be written; {_SAFE}",
    ),
    sqlite3.SQLITE_BUSY: (StoreLocked, "another process is writing it; try again"),
    sqlite3.SQLITE_LOCKED: (StoreLocked, "another connection is writing it; try again"),
    sqlite3.SQLITE_CORRUPT: (StoreCorrupt, "its contents are damaged; restore it from a copy"),
    sqlite3.SQLITE_NOTADB: (StoreCorrupt, "it is no store; choose another path"),
    sqlite3.SQLITE_CONSTRAINT: (
        StoreCorrupt,
        "a release or measurement was to be stored twice; verify the store",
    ),
}


def store_failure(error: sqlite3.Error, *, name: str) -> StoreError:
    """The error of ours that a failure of SQLite means."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if isinstance(code, int) else None
    kind, meaning = _MEANINGS.get(
        primary if primary is not None else -1,
        (StoreError, f"it cannot be used ({error}); {_SAFE}"),
    )
    return kind(f"{name}: {meaning}")
