"""The compiled loop of ``quantise``; imported at the first batch, for numba is slow to load."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.batch import GRID

Function = TypeVar("Function", bound=Callable[..., Any])

_ONE = float(GRID)
_LIMIT = _ONE * _ONE
_RADIUS = _ONE * (1.0 - 2.0**-48)
_HUGE = 2.0**1000


def _compiled(**flags: Any) -> Callable[[Function], Function]:
    def compile_(function: Function) -> Function:
        try:
            return numba.njit(cache=True, nogil=True, error_model="numpy", **flags)(function)
        except RuntimeError:  # there is no folder to keep compiled code in
            return numba.njit(nogil=True, error_model="numpy", **flags)(function)

    return compile_


# Reassociation is safe here and only here: of integer-valued coordinates, a sum of squares of at
# most 2**53 is exact in every order, and a larger one exceeds 2**40 in every order.
@_compiled(fastmath={"reassoc", "nsz"})
def _integer_norm_squared(row: FloatArray, start: int, stop: int) -> float:
    total = 0.0
    for j in range(start, stop):
        total += row[j] * row[j]
    return total


@_compiled()
def _clipped(value: float, lower: float, upper: float) -> float:
    # Comparisons are written so that NaN passes through.
    raised = lower if value < lower else value
    return upper if raised > upper else raised


@_compiled()
def _project(
    raw: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    centre: FloatArray,
    scale: FloatArray,
    row: FloatArray,
    start: int,
) -> bool:
    """Shrink a part onto the sphere and truncate; False if it is not finite."""
    width = scale.shape[0]
    peak = 0.0
    total = 0.0
    for j in range(width):
        value = raw[j]
        if value - value != 0.0:
            return False
        value = _clipped(value, lower[j], upper[j]) - centre[j]
        peak = max(peak, abs(value))
        value *= scale[j]
        row[start + j] = value
        total += value * value
    if not total < _HUGE:  # squares overflow: measure in units of the largest coordinate
        total = 0.0
        for j in range(width):
            value = (_clipped(raw[j], lower[j], upper[j]) - centre[j]) / peak * scale[j]
            row[start + j] = value
            total += value * value
        factor = _RADIUS / np.sqrt(total)
    else:
        factor = _RADIUS / max(np.sqrt(total), _ONE)
    stop = start + width
    for j in range(start, stop):
        row[j] = np.trunc(row[j] * factor)
    while not _integer_norm_squared(row, start, stop) <= _LIMIT:
        largest = start
        for j in range(start, stop):
            if abs(row[j]) > abs(row[largest]):
                largest = j
        row[largest] -= np.sign(row[largest])
    return True


@_compiled()
def quantise_rows(
    features: FloatArray,
    feature_lower: FloatArray,
    feature_upper: FloatArray,
    feature_centre: FloatArray,
    feature_scale: FloatArray,
    targets: FloatArray,
    target_lower: FloatArray,
    target_upper: FloatArray,
    target_centre: FloatArray,
    target_scale: FloatArray,
    rows: FloatArray,
) -> None:
    """Fill ``rows`` with ``(1, x, y)`` in grid units; scales are in grid units too."""
    count, width = features.shape
    target_width = targets.shape[1]
    border = 1 + width
    end = border + target_width
    for i in range(count):
        raw = features[i]
        row = rows[i]
        row[0] = _ONE
        for j in range(width):
            value = raw[j]
            clipped = _clipped(value, feature_lower[j], feature_upper[j])
            # value - value turns an infinity, which clipping hides, into NaN.
            row[1 + j] = np.rint((clipped - feature_centre[j]) * feature_scale[j]) + (value - value)
        for j in range(target_width):
            value = targets[i, j]
            clipped = _clipped(value, target_lower[j], target_upper[j])
            row[border + j] = np.rint((clipped - target_centre[j]) * target_scale[j]) + (
                value - value
            )
        finite = True
        if not _integer_norm_squared(row, 1, border) <= _LIMIT:
            finite = _project(
                raw, feature_lower, feature_upper, feature_centre, feature_scale, row, 1
            )
        if not _integer_norm_squared(row, border, end) <= _LIMIT:
            finite &= _project(
                targets[i],
                target_lower,
                target_upper,
                target_centre,
                target_scale,
                row,
                border,
            )
        if not finite:
            row[:] = 0.0
