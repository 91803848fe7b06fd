"""Ticks that close when the caller hands in records: for fits, and for whoever paces by hand."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from dpstream.arrays import FloatArray
from dpstream.engine.schedule import Position, Segment, Uncounted
from dpstream.learners.learner import Tick


@dataclass(frozen=True)
class EveryCall(Uncounted):
    """A tick at the end of every chunk that holds records.

    What is public here: how many records each chunk held. The caller must hand them in for
    reasons that are public too, never for what a record says.

    Attributes:
        publish_every: every tick publishes.
        wall_clock: False.
        time_column: None.
    """

    publish_every: int = 1
    wall_clock: bool = False
    time_column: None = None

    def describe(self) -> dict[str, Any]:
        """Its public parameters: none."""
        return {"every_call": True}

    def segments(
        self, position: Position, rows: int, times: FloatArray | None
    ) -> Iterator[Segment]:
        """All rows in one tick, which they close; nothing for a chunk without rows."""
        if rows:
            records = position.records + rows
            after = replace(position, tick=position.tick + 1, records=records)
            tick = Tick(number=position.tick, records=records, publish=True)
            yield Segment(0, rows, tick, after)
