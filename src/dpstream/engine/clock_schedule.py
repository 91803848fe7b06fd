"""Ticks by a public clock: the records' own, or the time of day."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.engine.schedule import Position, Segment, Uncounted, publishes, require_count
from dpstream.errors import ConfigurationError, SourceError
from dpstream.learners.learner import Tick

LONGEST_SILENCE = 1_000_000
"""A clock that jumps ahead by more empty ticks than this is taken for a wrong unit of time."""


@dataclass(frozen=True, kw_only=True)
class EveryInterval(Uncounted):
    """A tick at every interval of a public clock, whether or not records came.

    Tick 1 is the interval, aligned to whole multiples of its length, that holds the first
    reading, whether or not records came with it. A reading in a later interval closes every tick
    before it. A record whose own time lies before the open tick, or is missing, is late and belongs
    to the open tick. The time of day may be set back a little, by less than the tick before the
    open one; a clock that runs back further is wrong now or was before, and is refused.

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
        given = cast("object", self.seconds)
        number = isinstance(given, int | float | np.number) and given is not True
        if not number or not (self.seconds > 0 and np.isfinite(self.seconds)):
            raise ConfigurationError(
                f"schedule: interval is {self.seconds!r}; it must be a positive number of seconds"
            )
        require_count("publish_every", self.publish_every, least=0)
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
            if rows == 0:
                # Were it not kept, tick 1 would begin when the first record comes.
                yield Segment(0, 0, None, position)
                return
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
            publish=publishes(position.tick, self.publish_every),
        )


def _with_records(position: Position, rows: int) -> Position:
    return replace(position, records=position.records + rows)
