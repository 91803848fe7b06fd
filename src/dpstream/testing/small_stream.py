"""A small stream and the pieces around it, for tests of the engine and the stores."""

from collections.abc import Iterator, Sequence
from typing import Any

from dpstream.arrays import FloatArray
from dpstream.domain.batch import RawChunk
from dpstream.engine.schedule import EveryRecords, Schedule
from dpstream.engine.stream import Stream
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.testing.counting_learner import CountingLearner, CountingState


def small_stream(
    *,
    dimension: int = 3,
    schedule: Schedule | None = None,
    epsilon: float = 1.0,
    unit: Unit | None = None,
    neighbours: Neighbours = Neighbours.ZERO_OUT,
    horizon: int | None = None,
    window: int | None = None,
    insecure_seed: int | None = None,
    charge_each: bool = False,
) -> Stream[CountingState]:
    """A running sum of vectors, published every ten records."""
    return Stream(
        learner=CountingLearner(
            dimension,
            budget=Budget(epsilon=epsilon, delta=1e-6),
            unit=unit or Unit(),
            neighbours=neighbours,
            horizon=horizon,
            charge_each=charge_each,
            window=window,
        ),
        schedule=schedule or EveryRecords(records=10),
        insecure_seed=insecure_seed,
    )


def small_records(count: int, *, dimension: int = 3, seed: int = 1) -> FloatArray:
    """Reproducible public records for a small stream."""
    return public_generator(seed).normal(size=(count, dimension))


class ArraySource:
    """A source over rows in memory, cut into chunks of the given sizes, over and over.

    Args:
        rows: an array, or a sequence of mappings.
        sizes: the chunks' sizes.
    """

    name = "rows in memory"

    def __init__(self, rows: FloatArray | Sequence[dict[str, Any]], sizes: Sequence[int]) -> None:
        self._rows = rows
        self._sizes = sizes

    def chunks(self, offset: int) -> Iterator[RawChunk]:
        """The rows from ``offset`` on."""
        turn = 0
        while offset < len(self._rows):
            data = self._rows[offset : offset + self._sizes[turn % len(self._sizes)]]
            yield RawChunk(data=data, offset=offset, length=len(data), origin=self.name)
            offset += len(data)
            turn += 1


class ManualClock:
    """A clock that shows what it is told.

    Attributes:
        reading: seconds since the epoch.
    """

    def __init__(self, reading: float = 0.0) -> None:
        self.reading = reading

    def now(self) -> float:
        """The present reading."""
        return self.reading
