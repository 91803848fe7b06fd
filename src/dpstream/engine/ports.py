"""What a session needs from outside: a source, a store, a clock, a key, and readers.

Adapters live in the layers above; the session knows these protocols alone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from dpstream.domain.batch import RawChunk
from dpstream.privacy.ledger import LedgerRow
from dpstream.release import Measurement

OnStep = Callable[[str], None]
"""Told the name of each step of the protocol as it is reached: for tests and tracing.

It is handed public step names alone; an exception it raises stops the session there.
"""


def ignore_step(step: str) -> None:
    """The listener that listens to nothing."""


class Source(Protocol):
    """A stream of raw records that can be read again from any record on.

    Guaranteed by the adapter: the record at an offset is the same at every reading. If a
    source breaks that, releases stay private (changed data meets independent noise) but a
    resumed history may differ from the one an uninterrupted run would have published.
    """

    @property
    def name(self) -> str:
        """Its public name, for messages."""
        ...

    def chunks(self, offset: int) -> Iterator[RawChunk]:
        """The records from ``offset`` on (0 is the stream's first), in order, without gaps.

        A chunk without records is a heartbeat: it lets a wall clock tick.

        Raises:
            SourceError: if it cannot be read, or ends before ``offset``.
        """
        ...


class Clock(Protocol):
    """The time of day, in seconds since the epoch."""

    def now(self) -> float:
        """The present reading."""
        ...


class KeyProvider(Protocol):
    """Where the key that encrypts a store comes from."""

    @property
    def name(self) -> str:
        """Where it looks, for messages."""
        ...

    def key(self, *, create: bool) -> bytes:
        """The 32-byte key; ``create`` allows a fresh one if there is none yet."""
        ...


@dataclass(frozen=True, kw_only=True)
class ReleaseRow:
    """One published line, as it stands in the log for ever.

    Attributes:
        tick: its tick.
        line: the release as one line of JSON, without the line's end.
        digest: binds the line to every line before it.
    """

    tick: int
    line: bytes
    digest: bytes


@dataclass(frozen=True, kw_only=True)
class Publication:
    """A release and what was measured for it.

    Attributes:
        row: the line to be published.
        measurements: new noisy statistics.
    """

    row: ReleaseRow
    measurements: Sequence[Measurement] = ()


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """Records of one unit that count, to be added to what the store knows.

    Attributes:
        unit: the unit's keyed hash.
        tick: the tick they count in; 0 if the cap is over the stream's life.
        records: how many.
    """

    unit: bytes
    tick: int
    records: int


@dataclass(frozen=True, kw_only=True)
class Commit:
    """Everything one transaction makes durable, or nothing of it.

    Attributes:
        state: the whole session state, the source's offset included: secret.
        ledger: new ledger rows.
        publications: new releases, in order; none for a checkpoint.
        contributions: what units contributed since the last commit.
        forget_before: contributions of ticks before this one no longer matter.
    """

    state: bytes
    ledger: Sequence[LedgerRow] = ()
    publications: Sequence[Publication] = ()
    contributions: Sequence[Contribution] = ()
    forget_before: int = 0


class Store(Protocol):
    """One stream's durable memory: its secret state and its public log.

    Guaranteed by every adapter: ``commit`` is atomic and durable; of all writers that ever
    opened a store only the last to ``acquire`` can commit; everything read was committed.
    """

    @property
    def name(self) -> str:
        """Its public name, for messages."""
        ...

    def acquire(self) -> None:
        """Become the only writer.

        Raises:
            StoreLocked: if another writer is alive.
        """
        ...

    def renew(self) -> None:
        """Say that this writer is alive; cheap, called between commits.

        Raises:
            StoreLocked: if another writer has taken over.
        """
        ...

    def close(self) -> None:
        """Give up the lease and all resources; safe to call twice."""
        ...

    def identity(self) -> Mapping[str, Any] | None:
        """The public description of the stream it holds, or None while it is empty."""
        ...

    def others(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Names and identities of streams kept beside this one; none once it holds a stream.

        What the adapter can find, and no more: it is a help against slips.
        """
        ...

    def create(self, identity: Mapping[str, Any], opening: Commit) -> None:
        """Give an empty store its stream and its first commit, in one transaction."""
        ...

    def stream_id(self) -> str:
        """A random public name, given at creation and kept for life."""
        ...

    def secret(self) -> bytes:
        """32 random bytes given at creation, for deriving keys; never shown."""
        ...

    def state(self) -> bytes:
        """The state of the last commit."""
        ...

    def commit(self, commit: Commit) -> None:
        """Make a commit durable; all of it or nothing.

        Raises:
            StoreLocked: if another writer has taken over.
            StoreError: if it cannot be written; the last commit then still stands.
        """
        ...

    def ledger(self) -> list[LedgerRow]:
        """All ledger rows, in order."""
        ...

    def releases(self, *, after: int = 0) -> Iterator[ReleaseRow]:
        """The log's releases at later ticks than ``after``, in order."""
        ...

    def last_release(self) -> ReleaseRow | None:
        """The last release of the log."""
        ...

    def release(self, tick: int) -> ReleaseRow | None:
        """The log's release at a tick."""
        ...

    def measurements(self) -> Iterator[tuple[int, Measurement]]:
        """All measurements with the tick of their release, in the order they were made."""
        ...

    def contributions(self, units: Sequence[bytes]) -> list[Contribution]:
        """What is known of these units' contributions."""
        ...


class Sink(Protocol):
    """A reader of the log. Delivery is at least once; the sink makes it once."""

    def last_tick(self, log: Callable[[int], bytes | None]) -> int:
        """The last tick it holds, 0 if none; repairs what a crash left half-done.

        Args:
            log: the store's line of a tick, or None if the store has none.

        Raises:
            StoreMismatch: if it holds something the log contradicts.
        """
        ...

    def publish(self, row: ReleaseRow) -> None:
        """Take one release; one that it holds already changes nothing."""
        ...

    def close(self) -> None:
        """Give up its resources."""
        ...


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a session is, in numbers that are public.

    Attributes:
        records: records read from the source, for showing to the operator.
        ticks: ticks closed.
        releases: releases published in this session.
    """

    records: int
    ticks: int
    releases: int


OnProgress = Callable[[Progress], None]


def ignore_progress(progress: Progress) -> None:
    """The listener that listens to nothing."""


@dataclass(kw_only=True)
class CollectingSink:
    """Keeps the lines in memory: for notebooks and tests.

    Attributes:
        lines: the lines by tick.
    """

    lines: dict[int, bytes] = field(default_factory=dict[int, bytes])

    def last_tick(self, log: Callable[[int], bytes | None]) -> int:
        """The last tick it holds."""
        return max(self.lines, default=0)

    def publish(self, row: ReleaseRow) -> None:
        """Take one release."""
        self.lines[row.tick] = row.line

    def close(self) -> None:
        """Nothing to give up."""
