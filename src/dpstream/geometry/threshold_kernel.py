"""Compiled passes over long vectors, for thresholds.

Sums may be reassociated by the compiler: they enter post-processing only, never a measured
value, so their last bits need not be the same on every machine.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

from dpstream.arrays import FloatArray

Function = TypeVar("Function", bound=Callable[..., Any])


def _compiled(function: Function) -> Function:
    decorate = numba.njit(cache=True, fastmath={"reassoc", "nsz", "contract"}, nogil=True)
    return cast("Function", decorate(function))


@_compiled
def excess_above(values: FloatArray, threshold: float, modulus: bool) -> tuple[float, int]:
    """The summed excess over the threshold, and how many entries (or moduli) exceed it."""
    total = 0.0
    count = 0.0
    if modulus:
        for index in range(values.size):
            excess = abs(values[index]) - threshold
            total += max(excess, 0.0)
            count += 1.0 if excess > 0.0 else 0.0
    else:
        for index in range(values.size):
            excess = values[index] - threshold
            total += max(excess, 0.0)
            count += 1.0 if excess > 0.0 else 0.0
    return total, int(count)


@_compiled
def shrink(values: FloatArray, threshold: float) -> FloatArray:
    """``sign(values) max(|values| - threshold, 0)``."""
    result = np.empty_like(values)
    for index in range(values.size):
        entry = values[index]
        result[index] = entry - min(max(entry, -threshold), threshold)
    return result
