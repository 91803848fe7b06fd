"""Admitted records: integers on a grid, inside the unit ball.

Storage. Row ``i`` is ``z_i = (1, x_i, y_i)`` in units of ``2**-20``, kept as *integer-valued
float64*: the constant is ``2**20``, and the integer norms of the x part and of the y part are
each at most ``2**20``. Such rows feed BLAS as they are, and every product of two coordinates,
and every sum of up to 8192 such products, is an integer that float64 holds exactly. The null
record is the zero row, the constant included.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpstream.arrays import BoolArray, FloatArray, IntArray

GRID_BITS = 20
"""Coordinates live on the grid ``2**-GRID_BITS``."""

GRID = 1 << GRID_BITS
"""The constant 1 in units of the grid."""

BLOCK_ROWS = 1 << (53 - 2 * GRID_BITS)
"""At most this many rows may be summed up in float64 before integers take over: 8192."""

IDENTIFIER_BYTES = 16
"""Length of an opaque unit identifier."""

UnitArray: TypeAlias = npt.NDArray[np.void]


@dataclass(frozen=True)
class Batch:
    """Consecutive admitted records of one domain, in stream order. Secret.

    Attributes:
        rows: ``(n, 1 + d + k)`` C-ordered float64 integers, see the module's text.
        dimension: d, the width of the x part.
        units: per record the 16 opaque bytes of its unit (``units[i].tobytes()``), or None if
            the unit of protection is the record.
        times: per record the public clock, in seconds, or None.
    """

    rows: FloatArray
    dimension: int
    units: UnitArray | None = None
    times: FloatArray | None = None

    def __post_init__(self) -> None:
        if not self.rows.flags.c_contiguous or self.rows.dtype != np.float64:
            raise ValueError("batch rows must be C-ordered float64")

    @classmethod
    def empty(
        cls, dimension: int, target_count: int, *, units: bool = False, times: bool = False
    ) -> "Batch":
        """A batch of no records, with empty ``units`` and ``times`` if asked for."""
        return cls(
            np.zeros((0, 1 + dimension + target_count)),
            dimension,
            np.zeros(0, f"V{IDENTIFIER_BYTES}") if units else None,
            np.zeros(0) if times else None,
        )

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    @property
    def target_count(self) -> int:
        """k, the width of the y part."""
        return int(self.rows.shape[1]) - 1 - self.dimension

    @cached_property
    def null(self) -> BoolArray:
        """Which records are null: all zero, kept for their place in the stream."""
        return self.rows[:, 0] == 0.0

    @cached_property
    def features(self) -> IntArray:
        """The x part as 64-bit integers in units of the grid, ``(n, d)``."""
        return self.rows[:, 1 : 1 + self.dimension].astype(np.int64)

    @cached_property
    def targets(self) -> IntArray:
        """The y part as 64-bit integers in units of the grid, ``(n, k)``."""
        return self.rows[:, 1 + self.dimension :].astype(np.int64)

    @cached_property
    def scaled_features(self) -> FloatArray:
        """The x part as numbers in the unit ball, exact, ``(n, d)``."""
        return self.rows[:, 1 : 1 + self.dimension] * (1.0 / GRID)

    @cached_property
    def scaled_targets(self) -> FloatArray:
        """The y part as numbers in the unit ball, exact, ``(n, k)``."""
        return self.rows[:, 1 + self.dimension :] * (1.0 / GRID)

    def slice(self, start: int, stop: int) -> "Batch":
        """Records ``start`` to ``stop`` (exclusive), without copying."""
        return Batch(
            self.rows[start:stop],
            self.dimension,
            None if self.units is None else self.units[start:stop],
            None if self.times is None else self.times[start:stop],
        )

    def nullify(self, mask: BoolArray) -> "Batch":
        """The same batch with the records under ``mask`` made null; places are kept."""
        if not mask.any():
            return self
        rows = self.rows.copy()
        rows[mask] = 0.0
        return Batch(rows, self.dimension, self.units, self.times)


@dataclass(frozen=True, kw_only=True)
class RawChunk:
    """Consecutive raw records of a source, before admission. Secret.

    Attributes:
        data: what ``Domain.admit`` takes: a mapping of columns, a sequence of mappings, a
            data frame or table that narwhals knows, or a matrix.
        offset: the place in the source of its first record, from 0.
        length: number of records.
        lines: the line number of each record in its file, from 1, or None where records have
            no lines; error messages name them and nothing else of a record.
        origin: the public name of the file or stream, for error messages.
        targets: the targets, if they come apart from the data.
    """

    data: Any
    offset: int
    length: int
    lines: Sequence[int] | None = None
    origin: str = "source"
    targets: Any = None
