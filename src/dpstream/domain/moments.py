"""Exact sums of ``z z^T``, z = (1, x, y): one matrix for counts, means, moments and regression.

The sum is an integer matrix in units of ``2**-40``. Blocks of at most 8192 rows go through BLAS
in float64: each partial sum of products is an integer of at most ``2**53`` (Cauchy-Schwarz on
norms of at most ``2**20``), so every order of additions gives the same bits; then 64-bit integers
take over. The result does not depend on batching, thread count or machine.

BLAS is called once per block in a long loop: who runs that loop should hold BLAS to one thread.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Self

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.batch import BLOCK_ROWS, GRID_BITS, Batch
from dpstream.domain.lattice import ExactVector

MOMENT_EXPONENT = -2 * GRID_BITS
"""The lattice of sums of products: ``2**-40``."""


def packed_size(width: int) -> int:
    """Number of entries of the upper triangle of a ``width`` by ``width`` matrix."""
    return width * (width + 1) // 2


@cache
def packed_positions(width: int) -> tuple[IntArray, IntArray]:
    """Row and column of each packed entry: the upper triangle by rows, diagonal included."""
    rows, columns = np.triu_indices(width)
    rows.flags.writeable = False
    columns.flags.writeable = False
    return rows.astype(np.int64), columns.astype(np.int64)


def unpack(packed: FloatArray, width: int) -> FloatArray:
    """The full symmetric matrix of a packed upper triangle."""
    matrix = np.empty((width, width))
    rows, columns = packed_positions(width)
    matrix[rows, columns] = packed
    matrix[columns, rows] = packed
    return matrix


class MomentAccumulator:
    """The exact sum of ``z z^T`` over the rows added since it was last taken. Secret.

    Attributes:
        width: of z: ``1 + d + k``.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._exact: ExactVector | None = None
        # Fortran order: BLAS writes its lower triangle, which C order reads as the upper one.
        self._block = np.zeros((width, width), order="F")
        self._block_rows = 0
        rows, columns = packed_positions(width)
        self._flat = rows * width + columns
        self._packed = np.empty(self._flat.shape[0])

    def add(self, batch: Batch) -> None:
        """Add a batch's records; the sum is the same for every batching."""
        self.add_rows(batch.rows)

    def add_rows(self, rows: FloatArray) -> None:
        """Add rows as a batch keeps them: C-ordered integer-valued float64."""
        if rows.shape[1] != self.width:
            raise ValueError(f"rows have width {rows.shape[1]}, the sum has {self.width}")
        syrk = _syrk()
        start, count = 0, rows.shape[0]
        while start < count:
            stop = min(count, start + BLOCK_ROWS - self._block_rows)
            syrk(
                1.0,
                rows[start:stop].T,
                beta=1.0 if self._block_rows else 0.0,
                c=self._block,
                overwrite_c=1,
                lower=1,
            )
            self._block_rows += stop - start
            start = stop
            if self._block_rows == BLOCK_ROWS:
                self._flush()

    def take(self) -> ExactVector:
        """The packed sum, in units of ``2**-40``; the accumulator is empty afterwards."""
        self._flush()
        taken = self._exact
        self._exact = None
        if taken is None:
            return ExactVector.zeros(packed_size(self.width), MOMENT_EXPONENT)
        return taken

    def snapshot(self) -> dict[str, FloatArray | IntArray]:
        """The whole state as arrays; ``restore`` continues to the bit."""
        exact = self.take()
        self._exact = exact
        return {"high": exact.high.copy(), "low": exact.low.copy()}

    @classmethod
    def restore(cls, width: int, arrays: Mapping[str, Any]) -> Self:
        """The accumulator of a snapshot."""
        accumulator = cls(width)
        accumulator._exact = ExactVector(
            np.array(arrays["high"], np.int64), np.array(arrays["low"], np.int64), MOMENT_EXPONENT
        )
        return accumulator

    def _flush(self) -> None:
        if not self._block_rows:
            return
        # The transpose is C-ordered: ravel does not copy.
        np.take(self._block.T.ravel(), self._flat, out=self._packed)
        integers = self._packed.astype(np.int64)
        if self._exact is None:
            self._exact = ExactVector.from_integers(integers, MOMENT_EXPONENT)
        else:
            self._exact.add_integers(integers)
        self._block_rows = 0


@cache
def _syrk() -> Callable[..., FloatArray]:
    # scipy.linalg costs more to import than the rest of the package.
    from scipy.linalg import blas

    return blas.dsyrk
