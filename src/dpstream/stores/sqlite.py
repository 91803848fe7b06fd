"""The embedded store: one SQLite file per stream.

Write-ahead log with ``synchronous=FULL``: a commit that returned survives a power cut. One
transaction holds a release's state, offset, measurements, ledger rows and line, or those of
several releases in a row with the state after the last. Every transaction checks the writer's
fencing token inside itself (``lease.py``); secret rows are sealed (``encryption.py``); the log,
the ledger and the measurements are public and plain.
"""

import hashlib
import json
import secrets
import sqlite3
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dpstream.engine.clock import SystemClock
from dpstream.engine.ports import (
    Clock,
    Commit,
    Contribution,
    KeyProvider,
    OnStep,
    Publication,
    ReleaseRow,
    ignore_step,
)
from dpstream.engine.uncopyable import Uncopyable
from dpstream.errors import (
    ConfigurationError,
    DpstreamError,
    StoreCorrupt,
    StoreError,
    StoreLocked,
    StoreMismatch,
    require_kind,
    require_path,
)
from dpstream.privacy.ledger import LedgerRow
from dpstream.release import Measurement
from dpstream.stores.connection import open_reader, open_writer
from dpstream.stores.encryption import KEY_BYTES, Vault, default_key
from dpstream.stores.failure import store_failure
from dpstream.stores.lease import LEASE_SECONDS, Holder, take_lease
from dpstream.stores.migration import migrate
from dpstream.stores.stored_value import StoredValues

_LOOKUP = 500


class SqliteStore(Uncopyable):
    """A stream's durable memory in one file, for one writer at a time and any readers.

    Args:
        path: the file; made with owner-only permissions by the first ``acquire``.
        keys: where the encryption key comes from; by default ``DPSTREAM_KEY`` or the file
            ``store.key`` beside the store. Never needed for the public part.
        read_only: never write, not even to make the file.
        clock: for the lease's politeness alone.
        lease_seconds: silence after which a writer that still runs may be superseded.
        on_step: told each step of a commit.
    """

    def __init__(
        self,
        path: Path | str,
        keys: KeyProvider | None = None,
        *,
        read_only: bool = False,
        clock: Clock | None = None,
        lease_seconds: float = LEASE_SECONDS,
        on_step: OnStep = ignore_step,
    ) -> None:
        self._path = require_path(path, "path", "name a file, such as 'stream.db'")
        require_kind(lease_seconds, (int, float), "lease_seconds", "give seconds, above 0")
        if not lease_seconds > 0:
            raise ConfigurationError(f"lease_seconds is {lease_seconds}; give seconds, above 0")
        self._read = StoredValues(self.name)
        self._keys = keys or default_key(self._path.parent)
        self._read_only = read_only
        self._clock = clock or SystemClock()
        self._lease_seconds = lease_seconds
        self._on_step = on_step
        self._opened: sqlite3.Connection | None = None
        self._holder: Holder | None = None
        self._token = 0
        self._renewed = 0.0
        self._known_vault: Vault | None = None

    @property
    def name(self) -> str:
        """Its path."""
        return str(self._path)

    # --- writing -----------------------------------------------------------------------------

    def acquire(self) -> None:
        """Become the only writer; brings an older store to the present version."""
        if not self._path.exists():
            # A key that is none is refused before a file is made that would have needed it.
            self._keys.key(create=True)
        connection = self._connection
        holder = Holder.this()
        try:
            with self._guard():
                connection.execute("BEGIN IMMEDIATE")
                try:
                    migrate(connection, name=self.name)
                    now = self._clock.now()
                    self._token = take_lease(
                        connection, holder, reading=self._read, now=now, seconds=self._lease_seconds
                    )
                    self._renewed = now
                    connection.execute("COMMIT")
                except BaseException:
                    _roll_back(connection)
                    raise
        except BaseException:
            holder.retire()
            if self._holder is None:
                self.close()  # Whoever was refused holds nothing, not even the open file.
            raise
        self._holder = holder

    def renew(self) -> None:
        """Say that this writer is alive, at most three times per lease."""
        if abs(self._clock.now() - self._renewed) >= self._lease_seconds / 3:
            with self._transaction():
                pass

    def others(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Streams in the same folder, and in files of the same name in the folders beside it."""
        if self._path.exists():
            return
        folder = self._path.absolute().parent
        beside = [folder.glob(f"*{self._path.suffix}"), folder.parent.glob(f"*/{self._path.name}")]
        for path in sorted({found for paths in beside for found in paths}):
            try:
                with closing(SqliteStore(path, read_only=True)) as other:
                    identity = other.identity()
            except (DpstreamError, OSError):
                continue  # no store, or none that can be read: nothing is known of it
            if identity is not None:
                yield other.name, identity

    def create(self, identity: Mapping[str, Any], opening: Commit) -> None:
        """Give an empty store its stream and its first commit."""
        if self.identity() is not None:
            raise StoreMismatch(f"{self.name} already holds a stream")
        stream_id = secrets.token_hex(16)
        vault = Vault(self._keys.key(create=True), stream_id=stream_id, name=self.name)
        secret = vault.seal(secrets.token_bytes(KEY_BYTES), row="secret")
        with self._transaction() as connection:
            connection.executemany(
                "INSERT INTO stream VALUES (?, ?)",
                [
                    ("identity", json.dumps(identity, sort_keys=True).encode()),
                    ("id", stream_id.encode()),
                    ("key_check", vault.check),
                    ("secret", secret),
                ],
            )
            self._known_vault = vault
            self._write(connection, opening)

    def commit(self, commit: Commit) -> None:
        """Make a commit durable; all of it or nothing."""
        with self._transaction() as connection:
            self._on_step("begun")
            self._write(connection, commit)
        self._on_step("durable")

    def _write(self, connection: sqlite3.Connection, commit: Commit) -> None:
        number = _scalar(connection, "SELECT coalesce(max(number), -1) FROM ledger") + 1
        connection.executemany(
            "INSERT INTO ledger VALUES (?, ?)",
            [(number + i, json.dumps(row.to_json())) for i, row in enumerate(commit.ledger)],
        )
        self._on_step("ledger written")
        sequence = _scalar(connection, "SELECT coalesce(max(sequence), 0) FROM state") + 1
        sealed = self._vault.seal(commit.state, row=_state_row(connection, sequence))
        connection.execute("INSERT OR REPLACE INTO state VALUES (1, ?, ?)", (sequence, sealed))
        self._on_step("state written")
        for publication in commit.publications:
            self._write_publication(connection, publication)
        connection.executemany(
            "INSERT INTO contribution VALUES (?, ?, ?)"
            " ON CONFLICT DO UPDATE SET records = records + excluded.records",
            [(row.unit, row.tick, row.records) for row in commit.contributions],
        )
        if commit.forget_before:
            connection.execute(
                "DELETE FROM contribution WHERE tick BETWEEN 1 AND ?", (commit.forget_before - 1,)
            )
        self._on_step("contributions written")

    def _write_publication(self, connection: sqlite3.Connection, publication: Publication) -> None:
        row = publication.row
        connection.executemany(
            "INSERT INTO measurement (tick, address, exponent, value) VALUES (?, ?, ?, ?)",
            [
                (
                    row.tick,
                    json.dumps(measurement.address),
                    measurement.exponent,
                    measurement.value.astype("<i8", copy=False).tobytes(),
                )
                for measurement in publication.measurements
            ],
        )
        self._on_step("measurements written")
        connection.execute("INSERT INTO release VALUES (?, ?, ?)", (row.tick, row.line, row.digest))
        self._on_step("release written")

    def close(self) -> None:
        """Give up the lease and the file."""
        connection, holder = self._opened, self._holder
        self._opened, self._holder, self._known_vault = None, None, None
        if connection is None or (holder is not None and holder.is_elsewhere()):
            return  # A fork leaves the lease, and the locks on the file, to whom they belong.
        try:
            if holder is not None:
                holder.retire()
                connection.execute(
                    "UPDATE lease SET holder = NULL, expires = 0 WHERE token = ?", (self._token,)
                )
        except sqlite3.Error:
            pass  # A lease that cannot be given back runs out, or is seen to be a dead writer's.
        finally:
            connection.close()

    # --- reading -----------------------------------------------------------------------------

    def identity(self) -> Mapping[str, Any] | None:
        """The public description of the stream, or None while the store is empty."""
        stored = self._stream("identity")
        return None if stored is None else self._read.mapping(stored)

    def stream_id(self) -> str:
        """The stream's random public name."""
        return self._require("id").decode("ascii", "replace")

    def secret(self) -> bytes:
        """32 random bytes given at creation."""
        return self._vault.unseal(self._require("secret"), row="secret")

    def state(self) -> bytes:
        """The state of the last commit."""
        with self._guard():
            found = self._connection.execute("SELECT sequence, content FROM state").fetchone()
            if found is None:
                raise StoreCorrupt(f"{self.name} has no state; restore it from a copy")
            row = _state_row(self._connection, found[0])
        return self._vault.unseal(self._read.content(found[1]), row=row)

    def ledger(self) -> list[LedgerRow]:
        """All ledger rows, in order."""
        with self._guard():
            rows = self._connection.execute("SELECT content FROM ledger ORDER BY number").fetchall()
        try:
            return [LedgerRow.from_json(self._read.mapping(row[0])) for row in rows]
        except OverflowError:  # an integer beyond every float
            raise self._read.damaged() from None

    def releases(self, *, after: int = 0) -> Iterator[ReleaseRow]:
        """The log's releases at later ticks than ``after``, in order."""
        yield from self._select_releases("WHERE tick > ? ORDER BY tick", after)

    def release(self, tick: int) -> ReleaseRow | None:
        """The log's release at a tick."""
        return next(self._select_releases("WHERE tick = ?", tick), None)

    def last_release(self) -> ReleaseRow | None:
        """The last release of the log."""
        return next(self._select_releases("ORDER BY tick DESC LIMIT 1"), None)

    def _select_releases(self, clause: str, *values: int) -> Iterator[ReleaseRow]:
        query = f"SELECT tick, line, digest FROM release {clause}"
        for tick, line, digest in self._rows(query, *values):
            yield ReleaseRow(
                tick=self._read.integer(tick),
                line=self._read.content(line),
                digest=self._read.content(digest),
            )

    def measurements(self) -> Iterator[tuple[int, Measurement]]:
        """All measurements with the tick of their release, in the order they were made."""
        query = "SELECT tick, address, exponent, value FROM measurement ORDER BY number"
        for tick, address, exponent, value in self._rows(query):
            content = self._read.content(value)
            if len(content) % 8:
                raise self._read.damaged()
            integers = np.frombuffer(content, "<i8").astype(np.int64)
            parts = self._read.json(address)
            if not isinstance(parts, list) or not all(type(part) is int for part in parts):
                raise self._read.damaged()
            measured = Measurement(
                address=tuple(parts), exponent=self._read.integer(exponent), value=integers
            )
            yield self._read.integer(tick), measured

    def contributions(self, units: Sequence[bytes]) -> list[Contribution]:
        """What is known of these units' contributions."""
        found: list[Contribution] = []
        for start in range(0, len(units), _LOOKUP):
            part = units[start : start + _LOOKUP]
            marks = ",".join("?" * len(part))
            query = f"SELECT unit, tick, records FROM contribution WHERE unit IN ({marks})"
            found += [
                Contribution(unit=unit, tick=tick, records=records)
                for unit, tick, records in self._rows(query, *part)
            ]
        return found

    # --- within ------------------------------------------------------------------------------

    @property
    def _connection(self) -> sqlite3.Connection:
        if self._opened is None:
            with self._guard():
                opening = open_reader if self._read_only else open_writer
                self._opened = opening(self._path)
        return self._opened

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection, None, None]:
        if self._holder is not None and self._holder.is_elsewhere():
            raise StoreLocked(
                f"{self.name} belongs to the process that opened it, and this one is a fork of it; "
                "open streams after forking, and each in one process"
            )
        connection = self._connection
        with self._guard():
            connection.execute("BEGIN IMMEDIATE")
            try:
                now = self._clock.now()
                changed = connection.execute(
                    "UPDATE lease SET expires = ? WHERE token = ?",
                    (now + self._lease_seconds, self._token),
                )
                if self._holder is None or changed.rowcount != 1:
                    raise StoreLocked(
                        f"{self.name} was taken over by another writer; this one wrote nothing "
                        "and must stop"
                    )
                yield connection
                connection.execute("COMMIT")
                self._renewed = now
            except BaseException:
                _roll_back(connection)
                raise

    @contextmanager
    def _guard(self) -> Generator[None, None, None]:
        try:
            yield
        except sqlite3.Error as error:
            raise store_failure(error, name=self.name) from error
        except OSError as error:
            raise StoreError(
                f"{self.name} cannot be used ({error.strerror}); nothing was lost"
            ) from error
        except UnicodeDecodeError:  # the file's own text, a table's name, say
            raise self._read.damaged() from None

    def _rows(self, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
        with self._guard():
            cursor = self._connection.execute(query, values)
        while True:
            with self._guard():
                rows = cursor.fetchmany(256)
            if not rows:
                return
            yield from rows

    def _stream(self, key: str) -> bytes | None:
        found = next(self._rows("SELECT value FROM stream WHERE key = ?", key), None)
        return None if found is None else self._read.content(found[0])

    def _require(self, key: str) -> bytes:
        value = self._stream(key)
        if value is None:
            raise StoreError(f"{self.name} holds no stream yet")
        return value

    @property
    def _vault(self) -> Vault:
        if self._known_vault is None:
            stream_id, check = self.stream_id(), self._require("key_check")
            vault = Vault(self._keys.key(create=False), stream_id=stream_id, name=self.name)
            vault.require(check)
            self._known_vault = vault
        return self._known_vault


def _state_row(connection: sqlite3.Connection, sequence: int) -> str:
    """What a sealed state is bound to: its place and the ledger it was committed with."""
    last = connection.execute("SELECT content FROM ledger ORDER BY number DESC LIMIT 1").fetchone()
    # Whatever else an edited row holds is bound as it prints; no sealed state is bound to that.
    head = hashlib.blake2b(str(last[0] if last else "").encode(), digest_size=16).hexdigest()
    return f"state {sequence} {head}"


def _scalar(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")
