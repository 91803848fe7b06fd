"""When a tick closes: public arithmetic, never a function of what records hold.

A tick is one opportunity to publish. Ticks close by count (after a public number of records,
null records included) or by a public clock. A schedule sees how many records came, or when;
it never sees a record.

What is public here: by count, the number of records; by clock, the readings of the clock. If
the readings come from a column of the records, that column is public by declaration: a
neighbouring stream may change anything of a record but its time, and which ticks have closed tells
when records came. With the time of day a record can be added or removed without moving any other,
so ``zero_out`` also hides arrival, as long as the source is read at public times.

The tick that is open when the stream ends is not published: it stays open, and a later run that
continues the stream goes on filling it.

Every schedule publishes in one of three ways: at every tick (``publish_every=1``), at every n-th,
or only when asked (``publish_every=0`` and ``Session.publish_next``). What a release costs is the
learner's: continual sums are paid for at every tick, published or not; perturbed learners pay for
releases alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

from dpstream.arrays import FloatArray
from dpstream.errors import ConfigurationError
from dpstream.learners.learner import Tick


@dataclass(frozen=True)
class Position:
    """Where a stream stands, in public numbers.

    Attributes:
        tick: the number of the open tick, from 1.
        records: records admitted so far, null ones included.
        origin: the clock reading at which tick 1 opened; None by count or before any reading.
    """

    tick: int = 1
    records: int = 0
    origin: float | None = None


@dataclass(frozen=True)
class Segment:
    """Consecutive rows of one chunk that belong to one tick.

    Attributes:
        start: first row.
        stop: one past the last row; ``start == stop`` for a tick that closes without rows.
        closes: the tick that these rows complete, or None if it stays open.
        after: the position after the segment.
    """

    start: int
    stop: int
    closes: Tick | None
    after: Position


class Schedule(Protocol):
    """A public rule that cuts a stream into ticks."""

    @property
    def wall_clock(self) -> bool:
        """Whether it reads the time of day rather than the records' own."""
        ...

    @property
    def time_column(self) -> str | None:
        """The column its clock reads, or None."""
        ...

    def describe(self) -> dict[str, Any]:
        """Its public parameters, JSON-ready; ``schedule_from_json`` reads them back."""
        ...

    @property
    def largest_tick(self) -> int | None:
        """The most records that a tick can hold; None if nothing here bounds them."""
        ...

    def horizon_ticks(self, records: int) -> int | None:
        """Ticks that close within ``records`` records; None if a clock decides that."""
        ...

    def segments(
        self, position: Position, rows: int, times: FloatArray | None
    ) -> Iterator[Segment]:
        """Cut the next ``rows`` rows at tick boundaries.

        ``times`` holds one reading per row, or, for the time of day, one reading for all.
        """
        ...


class Uncounted:
    """The answers of a schedule whose ticks no number of records decides."""

    @property
    def largest_tick(self) -> None:
        """As many records as come may fall in a tick."""
        return

    def horizon_ticks(self, records: int) -> None:
        """The clock or the caller, not the number of records, decides how many ticks there are."""
        return


def require_count(name: str, value: object, *, least: int = 1) -> None:
    """Refuse a schedule's number that is no whole number from ``least`` on."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigurationError(f"schedule: {name} is {value!r}; it must be an integer >= {least}")


def publishes(tick: int, publish_every: int) -> bool:
    """Whether a tick publishes by its number: every so many do, or none does for 0."""
    return publish_every > 0 and tick % publish_every == 0


@dataclass(frozen=True, kw_only=True)
class EveryRecords:
    """A tick after every so many records.

    Attributes:
        records: the length of a tick.
        publish_every: publish at every so many ticks, the others close in silence; 0 to publish
            only when asked.
    """

    records: int
    publish_every: int = 1
    wall_clock: bool = False
    time_column: None = None

    def __post_init__(self) -> None:
        require_count("every", self.records)
        require_count("publish_every", self.publish_every, least=0)

    def describe(self) -> dict[str, Any]:
        """Its public parameters."""
        return {"every": self.records, "publish_every": self.publish_every}

    @property
    def largest_tick(self) -> int:
        """The length of every tick."""
        return self.records

    def end(self, tick: int) -> int:
        """The number of records at which ``tick`` closes."""
        return tick * self.records

    def horizon_ticks(self, records: int) -> int:
        """Ticks that close within ``records`` records."""
        return records // self.records

    def segments(
        self, position: Position, rows: int, times: FloatArray | None
    ) -> Iterator[Segment]:
        """Cut at every so many records."""
        return _count_segments(self, position, rows)


@dataclass(frozen=True, kw_only=True)
class Thinning:
    """Dense ticks at first, then ever longer ones, then one every so many records.

    Ticks of ``start`` records, doubled in length each time the stream has doubled, until they
    would reach ``every``; from there on a tick closes at each multiple of ``every``. With
    ``start=64, every=512`` and one tick per doubling: 64, 128, 256, 512, 1024, 1536, ...

    Attributes:
        start: the length of the first ticks.
        every: the length of the last ones.
        ticks_per_doubling: how many ticks close while the stream doubles.
        publish_every: publish at every so many ticks; 0 to publish only when asked.
    """

    start: int
    every: int
    ticks_per_doubling: int = 1
    publish_every: int = 1
    wall_clock: bool = False
    time_column: None = None

    def __post_init__(self) -> None:
        require_count("start", self.start)
        require_count("every", self.every)
        require_count("ticks_per_doubling", self.ticks_per_doubling)
        require_count("publish_every", self.publish_every, least=0)
        if self.start > self.every:
            raise ConfigurationError(
                f"schedule: start is {self.start} and every is {self.every}; "
                "the first ticks must be the shorter ones"
            )

    def describe(self) -> dict[str, Any]:
        """Its public parameters."""
        return {
            "start": self.start,
            "every": self.every,
            "ticks_per_doubling": self.ticks_per_doubling,
            "publish_every": self.publish_every,
        }

    @property
    def largest_tick(self) -> int:
        """The length of the last ones."""
        return self.every

    @property
    def _doublings(self) -> int:
        return ((self.every - 1) // self.start).bit_length()

    def end(self, tick: int) -> int:
        """The number of records at which ``tick`` closes."""
        pace, doublings = self.ticks_per_doubling, self._doublings
        dense = pace * (doublings + 1) if doublings else 0
        if tick > dense:
            settled = self.end(dense) // self.every if dense else 0
            return (settled + tick - dense) * self.every
        if tick <= 2 * pace:
            return tick * self.start
        octave, step = divmod(tick - 1, pace)
        length = self.start << (octave - 1)
        return (pace + step + 1) * length

    def horizon_ticks(self, records: int) -> int:
        """Ticks that close within ``records`` records."""
        # One tick, the first that ends at a multiple of ``every``, may be shorter than start.
        low, high = 0, records // self.start + 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.end(middle) <= records else (low, middle)
        return low

    def segments(
        self, position: Position, rows: int, times: FloatArray | None
    ) -> Iterator[Segment]:
        """Cut at the thinning boundaries."""
        return _count_segments(self, position, rows)


def _count_segments(
    schedule: EveryRecords | Thinning, position: Position, rows: int
) -> Iterator[Segment]:
    start = 0
    while start < rows:
        stop = start + schedule.end(position.tick) - position.records
        if stop > rows:
            after = replace(position, records=position.records + rows - start)
            yield Segment(start, rows, None, after)
            return
        records = position.records + stop - start
        tick = Tick(
            number=position.tick,
            records=records,
            publish=publishes(position.tick, schedule.publish_every),
        )
        position = replace(position, tick=position.tick + 1, records=records)
        yield Segment(start, stop, tick, position)
        start = stop
