"""Bounds read from a sample that its owner declares to be public, never from the stream."""

import math
from pathlib import Path

from dpstream.cli.config import nearest
from dpstream.cli.template import Declared
from dpstream.connectors.column_names import column_names, column_values
from dpstream.connectors.opening import open_source
from dpstream.errors import ConfigurationError

MOST_CATEGORIES = 50


def bounds_of_sample(sample: Path, name: str) -> Declared:
    """An interval, rounded outwards, if the sample's column holds numbers; else its values.

    Raises:
        ConfigurationError: if the column is missing, empty, or has too many values.
        SourceError: if the sample cannot be read.
    """
    values: set[str] = set()
    for chunk in open_source(str(sample)).chunks(0):
        known = column_names(chunk)
        if name not in known:
            raise ConfigurationError(
                f"the public sample {sample} has no column {name!r}{nearest(name, known)}"
            )
        values |= {str(value).strip() for value in column_values(chunk, name)}
    values -= {"", "None", "nan"}
    if not values:
        raise ConfigurationError(f"column {name!r} of the public sample {sample} is empty")
    numbers = [_number(value) for value in values]
    if None not in numbers:
        found = [number for number in numbers if number is not None]
        lower, upper = rounded_outwards(min(found), max(found))
        return Declared(name=name, lower=lower, upper=upper, sampled=True)
    if not 2 <= len(values) <= MOST_CATEGORIES:
        raise ConfigurationError(
            f"column {name!r} of the public sample {sample} has {len(values)} different values; a "
            f"category needs 2 to {MOST_CATEGORIES}: list those that matter, {name}=A,B"
        )
    return Declared(name=name, values=tuple(sorted(values)), sampled=True)


def rounded_outwards(low: float, high: float) -> tuple[float, float]:
    """An interval that holds both, with ends of at most two digits."""
    if low == high:
        low, high = low - 0.5, high + 0.5
    step = 10.0 ** (math.floor(math.log10(high - low)) - 1)
    return math.floor(low / step) * step, math.ceil(high / step) * step


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
