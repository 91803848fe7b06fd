"""The compiled loop of ``quantise``; imported at the first batch, for numba is slow to load."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import numba
import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.batch import GRID

Function = TypeVar("Function", bound=Callable[..., Any])

_ONE = float(GRID)
_LIMIT = _ONE * _ONE
_RADIUS = _ONE * (1.0 - 2.0**-48)
_HUGE = 2.0**1000
_EXACT_SUM: dict[str, Any] = {"fastmath": {"reassoc", "nsz"}}


def compiled(flags: Mapping[str, Any] | None = None) -> Callable[[Function], Function]:
    """Compile a loop at its first call; keeps the machine code where there is a folder for it."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", **(flags or {})}

    def compile_(function: Function) -> Function:
        try:
            loop = numba.njit(function, cache=True, **options)
        except RuntimeError:  # there is no folder to keep compiled code in
            loop = numba.njit(function, **options)
        return cast("Function", loop)

    return compile_


# Reassociation is safe here and only here: of integer-valued coordinates, a sum of squares of at
# most 2**53 is exact in every order, and a larger one exceeds 2**40 in every order.
@compiled(_EXACT_SUM)
def _integer_norm_squared(rows: FloatArray, i: int, start: int, stop: int) -> float:
    total = 0.0
    for j in range(start, stop):
        total += rows[i, j] * rows[i, j]
    return total


@compiled()
def _clipped(value: float, lower: float, upper: float) -> float:
    # Comparisons are written so that NaN passes through.
    raised = lower if value < lower else value
    return upper if raised > upper else raised


@compiled()
def _norm_squared(rows: FloatArray, i: int, start: int, stop: int) -> float:
    # Four partial sums in a fixed order: the same on every machine, and quicker than one.
    first = second = third = fourth = 0.0
    aligned = stop - (stop - start) % 4
    for j in range(start, aligned, 4):
        first += rows[i, j] * rows[i, j]
        second += rows[i, j + 1] * rows[i, j + 1]
        third += rows[i, j + 2] * rows[i, j + 2]
        fourth += rows[i, j + 3] * rows[i, j + 3]
    for j in range(aligned, stop):
        first += rows[i, j] * rows[i, j]
    return (first + second) + (third + fourth)


# Rare, and apart because its loops slow the caller when they stand in it.
@compiled()
def _rescale(
    records: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    centre: FloatArray,
    scale: FloatArray,
    rows: FloatArray,
    i: int,
    start: int,
    stop: int,
) -> float:
    """Write coordinates whose squares overflow in units of the largest; return the shrinkage."""
    peak = 0.0
    for j in range(start, stop):
        peak = max(peak, abs(_clipped(records[i, j], lower[j], upper[j]) - centre[j]))
    for j in range(start, stop):
        value = _clipped(records[i, j], lower[j], upper[j]) - centre[j]
        rows[i, 1 + j] = value / peak * scale[j]
    return _RADIUS / np.sqrt(_norm_squared(rows, i, 1 + start, 1 + stop))


@compiled({"inline": "always"})
def _project(
    records: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    centre: FloatArray,
    scale: FloatArray,
    rows: FloatArray,
    i: int,
    start: int,
    stop: int,
) -> None:
    """Shrink the finite raw coordinates ``start`` to ``stop`` onto the sphere and truncate them."""
    for j in range(start, stop):
        rows[i, 1 + j] = (_clipped(records[i, j], lower[j], upper[j]) - centre[j]) * scale[j]
    total = _norm_squared(rows, i, 1 + start, 1 + stop)
    if total < _HUGE:
        factor = _RADIUS / max(np.sqrt(total), _ONE)
    else:
        factor = _rescale(records, lower, upper, centre, scale, rows, i, start, stop)
    for j in range(1 + start, 1 + stop):
        rows[i, j] = np.int32(rows[i, j] * factor)  # at most 2**20, and quicker than trunc
    while not _integer_norm_squared(rows, i, 1 + start, 1 + stop) <= _LIMIT:
        largest = 1 + start
        for j in range(1 + start, 1 + stop):
            if abs(rows[i, j]) > abs(rows[i, largest]):
                largest = j
        rows[i, largest] -= np.sign(rows[i, largest])


@compiled()
def quantise_rows(
    records: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    centre: FloatArray,
    scale: FloatArray,
    border: int,
    rows: FloatArray,
) -> None:
    """Fill ``rows`` with ``(1, x, y)`` in grid units, from records ``(x, y)`` with x to ``border``.

    Scales are in grid units too.
    """
    count, width = records.shape
    for i in range(count):
        rows[i, 0] = _ONE
        for j in range(width):
            clipped = _clipped(records[i, j], lower[j], upper[j])
            # The last term turns an infinity, which clipping hides, into NaN.
            rows[i, 1 + j] = np.rint((clipped - centre[j]) * scale[j]) + (
                records[i, j] - records[i, j]
            )
        norm = _integer_norm_squared(rows, i, 1, 1 + border)
        target_norm = _integer_norm_squared(rows, i, 1 + border, 1 + width)
        if norm <= _LIMIT and target_norm <= _LIMIT:
            continue
        if np.isnan(norm + target_norm):
            rows[i] = 0.0
            continue
        if norm > _LIMIT:
            _project(records, lower, upper, centre, scale, rows, i, 0, border)
        if target_norm > _LIMIT:
            _project(records, lower, upper, centre, scale, rows, i, border, width)
