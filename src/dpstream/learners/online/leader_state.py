"""What a stream of follow-the-leader remembers, and its form in a snapshot."""

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.lattice import ExactVector
from dpstream.domain.moments import MOMENT_EXPONENT
from dpstream.learners.learner import Arrays
from dpstream.learners.online.progressive_loss import no_marks
from dpstream.mechanisms.continual.sum import ContinualSum, SumState


@dataclass
class LeaderState:
    """One stream's state: secret are the open tick and the sum's encoder.

    Attributes:
        open: exact stack of the open tick.
        open_records: its records, null ones included.
        sum: the continual sum's state.
        point: the released parameters, on their lattice.
        start: the parameters of the tick closed last.
        total: weighted sum of the parameters of all closed ticks.
        weight: the sum of those weights: records where their number is public, else ticks.
        records: at the last closed tick.
        marks: released sums of losses at a few ticks; see ``progressive_loss``.
    """

    open: ExactVector
    open_records: int
    sum: SumState
    point: FloatArray
    start: FloatArray
    total: FloatArray
    weight: float = 0.0
    records: int = 0
    marks: FloatArray = field(default_factory=no_marks)

    def to_arrays(self, summed: ContinualSum) -> Arrays:
        """The whole state, secret and public; ``summed`` is whose state ``sum`` is."""
        arrays: dict[str, FloatArray | IntArray] = {
            "numbers": np.array([self.open_records, self.records], np.int64),
            "weight": np.array([self.weight]),
            "point": self.point.copy(),
            "start": self.start.copy(),
            "total": self.total.copy(),
            "marks": self.marks.copy(),
            "open.high": self.open.high.copy(),
            "open.low": self.open.low.copy(),
        }
        return arrays | {f"sum.{key}": value for key, value in summed.snapshot(self.sum).items()}

    @classmethod
    def from_arrays(cls, arrays: Arrays, summed: ContinualSum) -> Self:
        """The state that ``to_arrays`` gave, to the bit."""
        held = {
            key.removeprefix("sum."): value
            for key, value in arrays.items()
            if key.startswith("sum.")
        }
        points = (np.array(arrays[name], np.float64) for name in ("point", "start", "total"))
        high, low = (np.array(arrays[f"open.{limb}"], np.int64) for limb in ("high", "low"))
        return cls(
            ExactVector(high, low, MOMENT_EXPONENT),
            int(arrays["numbers"][0]),
            summed.restore(held),
            *points,
            weight=float(arrays["weight"][0]),
            records=int(arrays["numbers"][1]),
            marks=np.array(arrays["marks"], np.float64),
        )
