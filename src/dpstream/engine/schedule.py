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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Protocol, cast

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.errors import ConfigurationError, SourceError
from dpstream.learners.learner import Tick

LONGEST_SILENCE = 1_000_000
"""A clock that jumps ahead by more empty ticks than this is taken for a wrong unit of time."""


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


def _checked(name: str, value: object, *, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigurationError(f"schedule: {name} is {value!r}; it must be an integer >= {least}")


def _publishes(tick: int, publish_every: int) -> bool:
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
        _checked("every", self.records)
        _checked("publish_every", self.publish_every, least=0)

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
        _checked("start", self.start)
        _checked("every", self.every)
        _checked("ticks_per_doubling", self.ticks_per_doubling)
        _checked("publish_every", self.publish_every, least=0)
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
            publish=_publishes(position.tick, schedule.publish_every),
        )
        position = replace(position, tick=position.tick + 1, records=records)
        yield Segment(start, stop, tick, position)
        start = stop


@dataclass(frozen=True, kw_only=True)
class EveryInterval:
    """A tick at every interval of a public clock, whether or not records came.

    Tick 1 is the interval, aligned to whole multiples of its length, that holds the first
    reading. A reading in a later interval closes every tick before it. A record whose own time
    lies before the open tick, or is missing, is late and belongs to the open tick. The time of
    day may be set back a little, by less than the tick before the open one; a clock that runs
    back further is wrong now or was before, and is refused.

    Attributes:
        seconds: the length of a tick.
        time_column: the column with the clock's readings; None for the time of day at which a
            chunk is read.
        publish_every: publish at every so many ticks; 0 to publish only when asked.
    """

    seconds: float
    time_column: str | None = None
    publish_every: int = 1

    def __post_init__(self) -> None:
        number = isinstance(self.seconds, int | float | np.number) and self.seconds is not True  # pyright: ignore[reportUnnecessaryIsInstance]
        if not number or not (self.seconds > 0 and np.isfinite(self.seconds)):
            raise ConfigurationError(
                f"schedule: interval is {self.seconds!r}; it must be a positive number of seconds"
            )
        _checked("publish_every", self.publish_every, least=0)
        column = cast("object", self.time_column)
        if column is not None and not (column and isinstance(column, str)):
            raise ConfigurationError(
                f"schedule: time_column is {self.time_column!r}; name the column with the clock's "
                "readings, or leave it out for the time of day"
            )

    @property
    def wall_clock(self) -> bool:
        """Whether it reads the time of day rather than the records' own."""
        return self.time_column is None

    def describe(self) -> dict[str, Any]:
        """Its public parameters."""
        return {
            "interval": float(self.seconds),
            "clock": self.time_column,
            "publish_every": self.publish_every,
        }

    @property
    def largest_tick(self) -> None:
        """As many records as come may fall in an interval."""
        return

    def horizon_ticks(self, records: int) -> None:
        """A clock, not the number of records, decides how many ticks there are."""
        return None  # noqa: RET501  (the protocol's answer, not the lack of one)

    def segments(
        self, position: Position, rows: int, times: FloatArray | None
    ) -> Iterator[Segment]:
        """Cut where the clock passes the end of an interval."""
        if rows == 0 and not self.wall_clock:
            return
        if times is None:
            raise SourceError(
                "the schedule follows a clock but the records carry no times; "
                "declare the time column in the domain, or tick by count"
            )
        readings = np.asarray(times, np.float64)
        if not self.wall_clock and readings.shape != (rows,):
            raise SourceError(f"{rows} records came with {readings.size} clock readings")
        known = readings[np.isfinite(readings)]
        if position.origin is None:
            if known.size == 0:
                yield Segment(0, rows, None, _with_records(position, rows))
                return
            first = float(known[0])
            position = replace(
                position, origin=float(np.floor(first / self.seconds)) * self.seconds
            )
        self._refuse_backwards(position, known)
        intervals = self._interval(position, readings)
        jump = int(intervals.max(initial=position.tick)) - position.tick
        if jump > LONGEST_SILENCE:
            raise SourceError(
                f"the clock jumps ahead by {jump} ticks of {self.seconds:g} s; "
                "check that its readings are in seconds"
            )
        start = 0
        values, firsts = np.unique(intervals, return_index=True)
        for value, first_row in zip(values.tolist(), firsts.tolist(), strict=True):
            while position.tick < value:
                position = _with_records(position, first_row - start)
                after = replace(position, tick=position.tick + 1)
                yield Segment(start, first_row, self._tick(position), after)
                position, start = after, first_row
        if start < rows:
            yield Segment(start, rows, None, _with_records(position, rows - start))

    def _refuse_backwards(self, position: Position, known: FloatArray) -> None:
        assert position.origin is not None
        opened = position.origin + (position.tick - 1) * self.seconds
        if self.wall_clock and known.size and float(known[0]) < opened - self.seconds:
            raise SourceError(
                f"the clock reads {opened - float(known[0]):g} s before tick {position.tick}, the "
                "open one, began: it runs backwards, or was ahead; set it right and read on from "
                "the same record (nothing was taken)"
            )

    def _interval(self, position: Position, readings: FloatArray) -> FloatArray:
        assert position.origin is not None
        with np.errstate(invalid="ignore", over="ignore"):
            numbers = np.floor((readings - position.origin) / self.seconds) + 1
        late = ~(numbers > position.tick) | ~np.isfinite(readings)
        return np.maximum.accumulate(np.where(late, position.tick, numbers))

    def _tick(self, position: Position) -> Tick:
        assert position.origin is not None
        return Tick(
            number=position.tick,
            records=None,
            time=position.origin + position.tick * self.seconds,
            publish=_publishes(position.tick, self.publish_every),
        )


def _with_records(position: Position, rows: int) -> Position:
    return replace(position, records=position.records + rows)


_KINDS: dict[str, tuple[str, ...]] = {
    "count": ("every", "start", "ticks_per_doubling", "publish_every"),
    "clock": ("interval", "clock", "publish_every"),
}


def schedule_from_json(options: Mapping[str, Any]) -> Schedule:
    """Read a schedule from a configuration or from ``describe``.

    ``{"every": n}`` ticks by count, ``{"every": n, "start": m}`` starts dense and thins out,
    ``{"interval": seconds}`` follows the time of day and ``"clock": column`` that column.

    Raises:
        ConfigurationError: naming the key at fault.
    """
    given = {key: value for key, value in options.items() if value is not None}
    known = sorted({key for keys in _KINDS.values() for key in keys})
    for key in given:
        if key not in known:
            close = get_close_matches(str(key), known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
            raise ConfigurationError(f"schedule: unknown key {key!r}; {hint}")
    if ("every" in given) == ("interval" in given):
        raise ConfigurationError(
            "schedule: give either every (records in a tick) or interval (seconds of a clock)"
        )
    kind = "count" if "every" in given else "clock"
    for key in given:
        if key not in _KINDS[kind]:
            raise ConfigurationError(f"schedule: {key} does not apply to ticks by {kind}")
    publish_every = given.get("publish_every", 1)
    if kind == "clock":
        seconds = given["interval"]
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise ConfigurationError(f"schedule: interval is {seconds!r}; give seconds")
        column = given.get("clock")
        return EveryInterval(
            seconds=float(seconds), time_column=column, publish_every=publish_every
        )
    if "start" in given:
        return Thinning(
            start=given["start"],
            every=given["every"],
            ticks_per_doubling=given.get("ticks_per_doubling", 1),
            publish_every=publish_every,
        )
    if "ticks_per_doubling" in given:
        raise ConfigurationError("schedule: ticks_per_doubling needs start")
    return EveryRecords(records=given["every"], publish_every=publish_every)
