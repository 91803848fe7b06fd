"""From a closed tick to a release that readers see: charged, measured, chained, then shown.

The publisher holds what only publishing needs: the ledger, the noise, the log's last digest and
the sinks. What is durable, and when, is the session's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import dpstream
from dpstream.engine.identity import identity_digest
from dpstream.engine.ports import OnStep, Publication, Sink, Store
from dpstream.engine.publication import FIRST_DIGEST, Model, chained, to_line
from dpstream.engine.stream import Stream
from dpstream.engine.uncopyable import Uncopyable
from dpstream.learners.learner import Tick
from dpstream.privacy.ledger import Ledger, LedgerRow
from dpstream.release import Release

State = TypeVar("State")


@dataclass(frozen=True)
class Ready:
    """A release that was charged and measured, and is not durable yet.

    Attributes:
        release: what will be shown.
        charged: the ledger's rows for it.
        publication: its line of the log, with what was measured for it.
    """

    release: Release[Model]
    charged: Sequence[LedgerRow]
    publication: Publication


class Publisher(Uncopyable, Generic[State]):
    """Makes a stream's releases, one after the other, on an open store.

    Args:
        stream: the declaration.
        identity: its public parameters.
        store: the stream's memory, held by the session.
        ledger: what was charged so far.
        sinks: readers of the log.
        on_step: told each step of the protocol.
    """

    def __init__(
        self,
        stream: Stream[State],
        *,
        identity: Mapping[str, Any],
        store: Store,
        ledger: Ledger,
        sinks: Sequence[Sink],
        on_step: OnStep,
    ) -> None:
        self._learner = stream.learner
        self._store = store
        self._ledger = ledger
        self._sinks = sinks
        self._on_step = on_step
        self._charges = len(ledger.rows)
        self._identity_digest = identity_digest(identity)
        self._noise = stream.noise(store)
        self._guarantee = stream.guarantee(insecure_seed=self._noise.is_insecure)
        self._opening = tuple(event.to_json() for event in stream.learner.opening_events())
        last = store.last_release()
        self._log_digest = last.digest if last else FIRST_DIGEST

    def send_again(self) -> None:
        """Show the sinks what they miss of the log."""
        for sink in self._sinks:
            for row in self._store.releases(after=sink.last_tick(self._logged_line)):
                sink.publish(row)
                self._on_step("sent again")

    def _logged_line(self, tick: int) -> bytes | None:
        row = self._store.release(tick)
        return None if row is None else row.line

    def measure(self, state: State, tick: Tick) -> Ready:
        """Charge a closed tick, and make its release.

        Raises:
            BudgetExceeded: before any noise is drawn, if the budget does not allow it.
        """
        charged = [self._ledger.charge(event) for event in self._learner.next_events(tick)]
        self._charges += len(charged)
        self._on_step("charged")
        outcome = self._learner.release(state, tick, self._noise)
        self._on_step("measured")
        release = Release[Model](
            tick=tick.number,
            value=outcome.model,
            guarantee=self._guarantee,
            events=(*self._opening, *(row.event.to_json() for row in charged)),
            provenance=self._provenance(tick),
        )
        row = chained(
            to_line(release),
            tick=tick.number,
            measurements=outcome.measurements,
            previous=self._log_digest,
        )
        self._log_digest = row.digest
        return Ready(release, charged, Publication(row=row, measurements=outcome.measurements))

    def _provenance(self, tick: Tick) -> dict[str, object]:
        return {
            "learner": self._learner.name,
            "identity": self._identity_digest,
            "records": tick.records,
            "time": tick.time,
            "ledger_rows": self._charges,
            "ledger_head": self._ledger.head,
            "version": dpstream.__version__,
        }

    def show(self, item: Ready) -> None:
        """Hand a durable release to every sink."""
        for sink in self._sinks:
            sink.publish(item.publication.row)
            self._on_step("published")
