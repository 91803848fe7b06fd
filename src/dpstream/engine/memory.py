"""A store that lives as long as its process: for notebooks and tests.

It keeps every promise of a store but durability. It cannot be copied or pickled, and a fork of its
process cannot write to its copy: a copy would be a second stream on one budget.
"""

import os
import secrets
from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar
from weakref import WeakSet

from dpstream.engine.ports import Commit, Contribution, OnStep, ReleaseRow, ignore_step
from dpstream.engine.uncopyable import Uncopyable
from dpstream.errors import StoreCorrupt, StoreError, StoreLocked, StoreMismatch
from dpstream.privacy.ledger import LedgerRow
from dpstream.release import Measurement

_SECRET_BYTES = 32


class MemoryStore(Uncopyable):
    """A stream's memory in this process, lost when the process ends; for trials and tests.

    A stream whose budget must hold beyond this process belongs into a ``SqliteStore``: begun anew
    in another ``MemoryStore``, it spends its budget again.

    A stream that was closed can be opened again from the same object. ``acquire`` supersedes an
    earlier writer of the same object only after that writer closed.

    Args:
        on_step: told each step of a commit.
    """

    _all: ClassVar["WeakSet[MemoryStore]"] = WeakSet()

    def __init__(self, *, on_step: OnStep = ignore_step) -> None:
        self._on_step = on_step
        self._process = os.getpid()
        self._held = False
        self._identity: dict[str, Any] | None = None
        self._stream_id = secrets.token_hex(16)
        self._secret = secrets.token_bytes(_SECRET_BYTES)
        self._state = b""
        self._ledger: list[LedgerRow] = []
        self._releases: dict[int, ReleaseRow] = {}
        self._measurements: dict[tuple[int, ...], tuple[int, Measurement]] = {}
        self._contributions: dict[tuple[bytes, int], int] = {}
        self._all.add(self)

    @property
    def name(self) -> str:
        """Its name in messages."""
        return "the store in memory"

    def acquire(self) -> None:
        """Become the only writer."""
        self._require_home()
        if self._held:
            raise StoreLocked(
                f"{self.name} is being written by another session; close that one first"
            )
        self._held = True

    def renew(self) -> None:
        """Nothing to do: a process knows that it is alive."""
        self._require_writer()

    def close(self) -> None:
        """Give up the lease; the contents stay."""
        self._held = False

    def identity(self) -> Mapping[str, Any] | None:
        """The public description of the stream, or None while the store is empty."""
        return deepcopy(self._identity)

    def others(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Streams in this process's memory, as long as their stores are held."""
        if self._identity is None:
            for other in list(self._all):
                if other._identity is not None:
                    yield other.name, deepcopy(other._identity)

    def create(self, identity: Mapping[str, Any], opening: Commit) -> None:
        """Give an empty store its stream and its first commit."""
        if self._identity is not None:
            raise StoreMismatch(f"{self.name} already holds a stream")
        self.commit(opening)
        self._identity = deepcopy(dict(identity))

    def stream_id(self) -> str:
        """The stream's random public name."""
        self._require_stream()
        return self._stream_id

    def secret(self) -> bytes:
        """32 random bytes given at creation."""
        self._require_stream()
        return self._secret

    def state(self) -> bytes:
        """The state of the last commit."""
        self._require_stream()
        return self._state

    def commit(self, commit: Commit) -> None:
        """Take a commit; all of it or nothing."""
        self._require_writer()
        self._on_step("begun")
        made = [
            (publication.row.tick, measurement)
            for publication in commit.publications
            for measurement in publication.measurements
        ]
        ticks = [publication.row.tick for publication in commit.publications]
        addresses = [measurement.address for _, measurement in made]
        if _clash(addresses, self._measurements) or _clash(ticks, self._releases):
            raise StoreCorrupt(
                f"{self.name}: a release or measurement was to be stored twice; verify the store"
            )
        self._state = commit.state
        self._ledger += commit.ledger
        self._releases |= {item.row.tick: item.row for item in commit.publications}
        self._measurements |= {item.address: (tick, item) for tick, item in made}
        for row in commit.contributions:
            key = row.unit, row.tick
            self._contributions[key] = self._contributions.get(key, 0) + row.records
        self._contributions = {
            (unit, tick): records
            for (unit, tick), records in self._contributions.items()
            if tick == 0 or tick >= commit.forget_before
        }
        self._on_step("durable")

    def ledger(self) -> list[LedgerRow]:
        """All ledger rows, in order."""
        return list(self._ledger)

    def releases(self, *, after: int = 0) -> Iterator[ReleaseRow]:
        """The log's releases at later ticks than ``after``, in order."""
        for tick in [tick for tick in self._releases if tick > after]:
            yield self._releases[tick]

    def release(self, tick: int) -> ReleaseRow | None:
        """The log's release at a tick."""
        return self._releases.get(tick)

    def last_release(self) -> ReleaseRow | None:
        """The last release of the log."""
        return self._releases[max(self._releases)] if self._releases else None

    def measurements(self) -> Iterator[tuple[int, Measurement]]:
        """All measurements with the tick of their release, in the order they were made."""
        yield from list(self._measurements.values())

    def contributions(self, units: Sequence[bytes]) -> list[Contribution]:
        """What is known of these units' contributions."""
        wanted = set(units)
        return [
            Contribution(unit=unit, tick=tick, records=records)
            for (unit, tick), records in self._contributions.items()
            if unit in wanted
        ]

    def _require_stream(self) -> None:
        if self._identity is None:
            raise StoreError(f"{self.name} holds no stream yet")

    def _require_home(self) -> None:
        if os.getpid() != self._process:
            raise StoreLocked(
                f"{self.name} belongs to the process that made it, and this one is a fork of it; "
                "open streams after forking, and each in one process"
            )

    def _require_writer(self) -> None:
        self._require_home()
        if not self._held:
            raise StoreLocked(f"{self.name} was closed; acquire it before writing")


def _clash(keys: Sequence[Hashable], known: Mapping[Any, Any]) -> bool:
    return len(set(keys)) < len(keys) or any(key in known for key in keys)
