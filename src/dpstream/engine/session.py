"""One stream's run: the only place where admission, learning, charging and publishing meet.

At every published tick, in this order: the ledger is charged, and refuses before any noise is
drawn; the learner measures; one transaction makes the state, the source's offset, the
measurements, the ledger rows and the release durable; only then is the release shown, from the
log. A crash at any point loses at most work: what was charged stays charged, what was shown
stays shown, and the same records give the same releases again.

A fast stream may let several releases of one chunk share a transaction (``group``): each is
charged and measured in its turn, all are made durable at once, and only then are they shown, in
order. Releases that cost something of their own never share one, for the ledger may refuse the
next. The published bytes are the same for every group.

Which tick a record belongs to, when something is published and how much noise it gets are
functions of public values alone. The tick that is open when a source ends stays open, unpublished,
and the next run goes on filling it.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Generic, Self, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from dpstream.domain.batch import Batch, RawChunk
from dpstream.engine.clock import SystemClock
from dpstream.engine.feed import feed
from dpstream.engine.identity import check_same
from dpstream.engine.lookahead import Lookahead
from dpstream.engine.one_thread import OneThread
from dpstream.engine.participation import Participation
from dpstream.engine.ports import (
    Clock,
    Commit,
    OnProgress,
    OnStep,
    Progress,
    Publication,
    Sink,
    Source,
    Store,
    ignore_progress,
    ignore_step,
)
from dpstream.engine.publication import Model, from_line
from dpstream.engine.publisher import Publisher, Ready
from dpstream.engine.schedule import Position, Segment
from dpstream.engine.snapshot import Snapshot
from dpstream.engine.stream import Stream
from dpstream.engine.uncopyable import Uncopyable
from dpstream.errors import (
    ConfigurationError,
    HorizonReached,
    SourceError,
    StoreError,
    require_able,
    require_kind,
)
from dpstream.learners.learner import Tick
from dpstream.privacy.ledger import Ledger, LedgerRow
from dpstream.release import Release

State = TypeVar("State")


class Session(Uncopyable, Generic[State]):
    """A running stream: records in, releases out. For one thread at a time; a second is refused.

    ``with Session(stream, store=SqliteStore("stream.db")) as session:`` and within it ``for release
    in session.run(source):`` is the whole use of it.

    Opening it on an empty store begins the stream and charges the learner's opening events;
    on a store that holds the same stream it resumes after the last commit, and re-sends to the
    sinks what they miss of the log. The session owns the store's lease and the sinks until
    ``close``.

    Args:
        stream: the declaration.
        store: the stream's memory.
        sinks: readers of the log.
        clock: the time of day, for schedules that follow it.
        group: how many releases may share a transaction, and wait for each other; 1 shows each
            as soon as it can be.
        on_step: told each step of the protocol.
        on_progress: told after each chunk.

    Raises:
        StoreLocked: if another writer is alive.
        StreamChanged: if the store holds a stream of another declaration.
        ConfigurationError: if the stream names a draw (``projection_seed``) that another has.
        BudgetExceeded: if the opening events alone exceed the budget.
    """

    def __init__(
        self,
        stream: Stream[State],
        *,
        store: Store,
        sinks: Sequence[Sink] = (),
        clock: Clock | None = None,
        group: int = 1,
        on_step: OnStep = ignore_step,
        on_progress: OnProgress = ignore_progress,
    ) -> None:
        require_kind(stream, Stream, "stream", "give Stream(learner=..., schedule=...)")
        require_able(
            store, "acquire", "store", "give MemoryStore(), or SqliteStore('stream.db') to keep it"
        )
        require_kind(sinks, (list, tuple), "sinks", "give a list: [ReleaseLog('releases.jsonl')]")
        for sink in sinks:
            require_able(sink, "publish", "a sink", "give ReleaseLog('releases.jsonl')")
        require_kind(group, int, "group", "give how many releases may share a transaction, from 1")
        if group < 1:
            raise ConfigurationError(f"group is {group}; a transaction holds at least 1 release")
        self._stream = stream
        self._group = group
        self._store = store
        self._sinks = tuple(sinks)
        self._clock = clock or SystemClock()
        self._on_step = on_step
        self._on_progress = on_progress
        self._threads = ThreadpoolController()
        self._alone = OneThread()
        self._failed = False
        self._asked = False
        self._batch: Batch | None = None
        self._published = 0
        # What cannot be afforded is refused before anything is written.
        self._ledger = Ledger(stream.budget, stream.unit)
        for event in stream.learner.opening_events():
            self._ledger.charge(event)
        on_step("opening charged")
        stream.require_own_draw(store)
        store.acquire()
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        store = self._store
        stored = store.identity()
        stream = self._stream = self._stream.own(stored)
        identity = stream.identity()
        if stored is None:
            self._begin(identity)
        else:
            check_same(stored, identity, store=store.name)
            self._resume()
        self._publisher = Publisher(
            stream,
            identity=identity,
            store=store,
            ledger=self._ledger,
            sinks=self._sinks,
            on_step=self._on_step,
        )
        self._participation = Participation(
            stream.unit,
            window=stream.window,
            store=store,
            key=hashlib.blake2b(
                key=store.secret(), person=b"dpstream.units", digest_size=32
            ).digest(),
        )
        self._publisher.send_again()

    def _begin(self, identity: Mapping[str, Any]) -> None:
        self._state = self._stream.learner.init()
        self._position = self._committed = Position()
        self._store.create(identity, Commit(state=self._snapshot(), ledger=self._ledger.rows))
        self._on_step("created")

    def _resume(self) -> None:
        self._ledger = Ledger.from_rows(
            self._store.ledger(), budget=self._stream.budget, unit=self._stream.unit
        )
        snapshot = Snapshot.from_bytes(self._store.state())
        self._position = self._committed = snapshot.position
        self._state = self._stream.learner.restore(snapshot.arrays)

    # --- what others may see -----------------------------------------------------------------

    @property
    def stream(self) -> Stream[State]:
        """The declaration, with the public draws that are this stream's own."""
        return self._stream

    @property
    def records(self) -> int:
        """Records read so far: the offset of the next one. Secret if ticks follow a clock."""
        return self._position.records

    @property
    def tick(self) -> int:
        """The number of the open tick."""
        return self._position.tick

    @property
    def ledger(self) -> Ledger:
        """What was charged."""
        return self._ledger

    def releases(self) -> Iterator[Release[Model]]:
        """Every release of the stream so far, from the log."""
        for row in self._store.releases():
            yield from_line(row.line)

    # --- running -----------------------------------------------------------------------------

    def run(self, source: Source) -> Iterator[Release[Model]]:
        """Read a source to its end; yields each release after it is durable and shown.

        By the time of day ticks close as the source begins, at each of its chunks, and as it ends.
        At the end the open tick's records are made durable too, so that they need not be read
        again. Stopping early is safe: whatever is not durable is read again.

        Raises:
            SourceError: if the source cannot be read.
            HorizonReached: at the first record after the learner's last tick.
            BudgetExceeded: at the first release that the budget does not allow.
        """
        self._require_usable()
        require_able(
            source, "chunks", "source", "give MemorySource(records), or open_source('records.csv')"
        )
        yield from self._beat(source)
        for chunk in feed(source, self._position.records):
            yield from self.learn(chunk)
        yield from self._beat(source)
        self.checkpoint()

    def _beat(self, source: Source) -> Iterator[Release[Model]]:
        """Let the time of day close ticks where a source begins and ends: at public times."""
        if self._stream.schedule.wall_clock:
            records = self._position.records
            yield from self.learn(RawChunk(data=(), offset=records, length=0, origin=source.name))

    def learn(self, chunk: RawChunk) -> Iterator[Release[Model]]:
        """Take the stream's next records; yields each release after it is durable and shown.

        The records are taken as the iterator advances.

        Raises:
            SchemaError: if the records do not fit the domain; none of the chunk was taken.
        """
        require_kind(chunk, RawChunk, "chunk", "hand records to run, in MemorySource(records)")
        with self._alone:
            batch, segments = self._opened(chunk)
        while segments.peek() is not None:
            with self._alone:
                releases = self._next_releases(batch, segments)
            yield from releases
        self._batch = None
        self._on_progress(
            Progress(
                records=self._position.records,
                ticks=self._position.tick - 1,
                releases=self._published,
            )
        )

    def _opened(self, chunk: RawChunk) -> tuple[Batch, Lookahead[Segment]]:
        """A chunk's admitted records, and the ticks they lie in."""
        self._require_usable()
        if chunk.offset != self._position.records:
            raise SourceError(
                f"{chunk.origin} continues at record {chunk.offset} but the stream stands at "
                f"record {self._position.records}; read it from there"
            )
        self._store.renew()
        stream = self._stream
        # Before the records are looked at: how long that takes must not decide on a tick.
        now = self._clock.now() if stream.schedule.wall_clock else None
        with self._single_thread():
            batch = stream.admit(chunk, unit_hash=self._participation.hash)
        self._participation.open_chunk(batch)
        self._batch = batch
        self._on_step("admitted")
        times = batch.times if now is None else np.array([now])
        return batch, Lookahead(stream.schedule.segments(self._position, len(batch), times))

    def _next_releases(self, batch: Batch, segments: Lookahead[Segment]) -> list[Release[Model]]:
        """Take records up to and including the next transaction's releases, or all of them."""
        if batch is not self._batch:
            raise SourceError(
                "other records were taken while these were half taken, and taking the rest would "
                "count them twice; advance one iterator of releases to its end before the next"
            )
        self._require_usable()
        ready: list[Ready] = []
        with self._single_thread():
            while (segment := segments.peek(safe=bool(ready))) is not None:
                if ready and self._may_be_refused(segment):
                    break
                self._require_horizon()
                # From here the state in memory may be ahead of itself; only success clears this.
                self._failed = True
                segments.drop()
                measured = self._take(batch, segment)
                if measured is not None:
                    ready.append(measured)
                self._failed = bool(ready)
                if len(ready) == self._group:
                    break
            if ready:
                self._publish(ready)
        return [item.release for item in ready]

    def _may_be_refused(self, segment: Segment) -> bool:
        """Whether the horizon or the ledger could refuse what this segment leads to."""
        tick = self._closing(segment)
        paying = tick is not None and tick.publish and self._stream.learner.next_events(tick)
        return self._past_horizon() or bool(paying)

    def _take(self, batch: Batch, segment: Segment) -> Ready | None:
        learner, tick = self._stream.learner, self._closing(segment)
        if segment.stop > segment.start:
            part = self._participation.admit(
                batch, segment.start, segment.stop, tick=self._position.tick
            )
            self._on_step("capped")
            learner.learn(self._state, part)
            self._on_step("learned")
        self._position = segment.after
        if tick is None:
            return None
        learner.close(self._state, tick)
        self._on_step("closed")
        if not tick.publish:
            return None
        self._asked = False
        return self._publisher.measure(self._state, tick)

    def _closing(self, segment: Segment) -> Tick | None:
        """The tick that a segment completes, published if the schedule says so or it is asked."""
        tick = segment.closes
        return replace(tick, publish=True) if tick is not None and self._asked else tick

    def _publish(self, ready: Sequence[Ready]) -> None:
        """Make releases durable in one transaction, then show them."""
        self._commit(
            ledger=[row for item in ready for row in item.charged],
            publications=[item.publication for item in ready],
        )
        # A sink that failed would miss a release if the next one came: reopening sends it again.
        self._failed = True
        self._on_step("committed")
        for item in ready:
            self._publisher.show(item)
            self._published += 1
        self._failed = False

    def publish_next(self) -> None:
        """Publish at the next tick that closes, whatever the schedule says of it.

        It must be asked for public reasons, such as a request for a fresh model: never for what a
        record says. The release costs what the learner's releases cost, and the ledger may refuse
        it. The wish is kept in memory alone: whoever opens the stream again asks again.
        """
        self._require_usable()
        self._asked = True

    def checkpoint(self) -> None:
        """Make everything read so far durable, the open tick included, without a release."""
        with self._alone:
            self._require_usable()
            if self._position != self._committed:
                self._commit()
                self._on_step("checkpointed")

    def _commit(
        self,
        *,
        ledger: Sequence[LedgerRow] = (),
        publications: Sequence[Publication] = (),
    ) -> None:
        self._failed = True
        self._store.commit(
            Commit(
                state=self._snapshot(),
                ledger=ledger,
                publications=publications,
                contributions=self._participation.pending(),
                forget_before=self._participation.forget_before(self._position.tick),
            )
        )
        self._participation.committed()
        self._committed = self._position
        self._failed = False

    def close(self) -> None:
        """Give up the store's lease and the sinks; safe to call twice."""
        self._failed = True
        self._store.close()
        for sink in self._sinks:
            sink.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    # --- within ------------------------------------------------------------------------------

    def _past_horizon(self) -> bool:
        horizon = self._stream.learner.horizon
        return horizon is not None and self._position.tick > horizon

    def _require_horizon(self) -> None:
        learner = self._stream.learner
        if self._past_horizon():
            raise HorizonReached(
                f"the stream goes on after tick {learner.horizon}, the last that {learner.name} "
                "was calibrated for; start a new stream with its own budget, or plan a longer "
                "horizon from the start"
            )

    def _snapshot(self) -> bytes:
        return Snapshot(self._position, self._stream.learner.snapshot(self._state)).to_bytes()

    def _single_thread(self) -> AbstractContextManager[object]:
        # Two BLAS threads on busy cores are many times slower than one.
        return self._threads.limit(limits=1)

    def _require_usable(self) -> None:
        if self._failed:
            raise StoreError(
                "this session has ended or failed; open the stream again: it resumes after its "
                "last commit"
            )
