"""Checks of public declarations, with one wording for all sets."""

import math

import numpy as np
import numpy.typing as npt

from dpstream.arrays import FloatArray
from dpstream.errors import ConfigurationError

_MOST = 1 << 53


def require_positive(
    name: str, value: float, *, otherwise: str = "the set would be empty, a point or unbounded"
) -> None:
    """Refuse a size that is not a positive finite number."""
    if not (math.isfinite(value) and value > 0):
        raise ConfigurationError(f"{name} is {value}; it must be positive and finite: {otherwise}")


def require_whole(name: str, value: object, *, least: int = 1) -> None:
    """Refuse a count that is not an ``int`` from ``least`` to 2**53, which floats hold exactly."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigurationError(
            f"{name} is {value!r}; it must be a whole number: give an int of at least {least}"
        )
    if value < least:
        raise ConfigurationError(f"{name} is {value}; it must be at least {least}")
    if value > _MOST:
        raise ConfigurationError(f"{name} is beyond 2**53; nothing that is counted is so many")


def require_dimension(name: str, value: int) -> None:
    """Refuse a dimension below one."""
    if value < 1:
        raise ConfigurationError(f"{name} is {value}; a set needs at least one coordinate")


def finite_array(name: str, values: npt.ArrayLike, axes: int) -> FloatArray:
    """A read-only float copy with the given number of axes, all entries finite."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{name} is not a table of numbers; give rows of one width, numbers only"
        ) from error
    if array.ndim != axes:
        raise ConfigurationError(
            f"{name} has shape {array.shape}; it must have {axes} axes: reshape it"
        )
    if array.size == 0:
        raise ConfigurationError(f"{name} is empty; the set would have no points")
    if not np.isfinite(array).all():
        raise ConfigurationError(f"{name} has infinite or missing entries; give finite numbers")
    array.setflags(write=False)
    return array


def require_width(name: str, array: FloatArray, dimension: int) -> None:
    """Refuse an array whose last axis does not match the dimension."""
    if array.shape[-1] != dimension:
        raise ConfigurationError(
            f"{name} has width {array.shape[-1]}, but the set has dimension {dimension}; "
            "give one number per coordinate"
        )
