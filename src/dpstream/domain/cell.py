"""What a single cell of a raw column means, in every format: one rule per kind of column.

Each rule looks at one cell at a time. Text that cannot be read stops the batch with an error
that names the line and the column and never the content; a missing value is NaN (or code -1),
which makes the record null.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.batch import IDENTIFIER_BYTES, UnitArray
from dpstream.domain.column import level_text
from dpstream.errors import ConfigurationError, SchemaError

UnitHash: TypeAlias = Callable[[bytes], bytes]
"""From an identifier's bytes to 16 opaque bytes; keyed, by whoever holds the stream's key."""

Cells: TypeAlias = "npt.NDArray[Any] | Sequence[Any]"

MISSING_TEXTS = frozenset({"", "na", "n/a", "nan", "null", "none"})
"""Texts that mean a missing value, in any case and with spaces around."""

_LARGEST_EXACT = 2.0**53
"""From here on neighbouring integers are one and the same float."""

_TRUTH = {
    **dict.fromkeys(("true", "t", "yes", "y"), 1.0),
    **dict.fromkeys(("false", "f", "no", "n"), 0.0),
}


@dataclass(frozen=True)
class Place:
    """Where a column's cells come from, for error messages.

    Attributes:
        column: its name.
        origin: the public name of the file or stream.
        lines: the line of each record in its file, or None.
        offset: the place of the first record in its source, from 0.
    """

    column: str
    origin: str = "the batch"
    lines: Sequence[int] | None = None
    offset: int = 0

    def error(self, index: int, problem: str) -> SchemaError:
        """The error for one cell: where it is and what was declared, never what it holds."""
        if self.lines is None:
            where = f"record {self.offset + index + 1} of {self.origin}"
        else:
            where = f"line {self.lines[index]} of {self.origin}"
        return SchemaError(f"{where}: column {self.column!r} {problem}")


def is_missing(value: object) -> bool:
    """Whether a cell holds no value: None, NaN, a frame's own null, or a text that says so."""
    if value is None:
        return True
    if isinstance(value, str):
        return value.strip().casefold() in MISSING_TEXTS
    if isinstance(value, float):
        return value != value
    # pandas' nulls refuse comparison, and pandas must not be imported to recognise them.
    return type(value).__name__ in ("NAType", "NaTType")


def numeric_cells(cells: Cells, place: Place) -> FloatArray:
    """Numbers, NaN where missing.

    Raises:
        SchemaError: if a cell is neither a number, nor text that reads as one, nor missing.
    """
    if isinstance(cells, np.ndarray):
        if cells.dtype.kind in "fiub":
            return cells.astype(np.float64, copy=False)
        cells = cells.tolist()
    try:
        return np.fromiter(map(float, cells), np.float64, len(cells))
    except (TypeError, ValueError, OverflowError):
        numbers = [_number(value, index, place) for index, value in enumerate(cells)]
        return np.array(numbers, np.float64)


def _number(value: Any, index: int, place: Place) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer beyond every float, as good as infinite
        return np.inf
    except (TypeError, ValueError):
        if is_missing(value):
            return np.nan
        raise place.error(
            index, "holds something else where a number is declared; correct or remove the line"
        ) from None


def boolean_cells(cells: Cells, place: Place) -> FloatArray:
    """1 for true, 0 for false, NaN where missing; other numbers are clipped later.

    Raises:
        SchemaError: if a cell is neither a truth value nor missing.
    """
    if isinstance(cells, np.ndarray):
        if cells.dtype.kind in "fiub":
            return cells.astype(np.float64, copy=False)
        cells = cells.tolist()
    values = np.empty(len(cells))
    for index, value in enumerate(cells):
        known = _TRUTH.get(value.strip().casefold()) if isinstance(value, str) else None
        if known is not None:
            values[index] = known
            continue
        try:
            values[index] = float(value)
        except (TypeError, ValueError, OverflowError):
            if not is_missing(value):
                raise place.error(
                    index, "holds something else where true or false is declared"
                ) from None
            values[index] = np.nan
    return values


def level_codes(cells: Cells, levels: Sequence[str]) -> IntArray:
    """The position of each cell's level; ``len(levels)`` if undeclared, -1 where missing."""
    known = {level: position for position, level in enumerate(levels)}
    unknown = len(levels)
    if isinstance(cells, np.ndarray):
        if cells.dtype.kind in "iu":
            distinct, inverse = np.unique(cells, return_inverse=True)
            codes = [known.get(level_text(value), unknown) for value in distinct.tolist()]
            return np.array(codes, np.int64)[inverse] if codes else np.zeros(0, np.int64)
        cells = cells.tolist()
    # Texts only are remembered: 1, 1.0 and True are one key of a dictionary but not one level.
    seen: dict[str, int] = {}
    codes = np.empty(len(cells), np.int64)
    for index, value in enumerate(cells):
        text = value if type(value) is str else _text(value)
        code = seen.get(text) if text is not None else -1
        if code is None:
            assert text is not None
            code = known.get(text, -1 if is_missing(text) else unknown)
            seen[text] = code
        codes[index] = code
    return codes


def _text(value: object) -> str | None:
    return None if is_missing(value) else level_text(value)


def clock_cells(cells: Cells, place: Place) -> FloatArray:
    """Readings of the public clock in seconds; dates and times count from 1970 in UTC.

    Raises:
        SchemaError: if a cell is missing or neither a finite number nor an ISO 8601 time: the
            clock is public, so a record cannot be without a reading.
    """
    values = cells.tolist() if isinstance(cells, np.ndarray) else cells
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "M":
        values = cells.astype("datetime64[us]").tolist()
    readings = np.empty(len(values))
    for index, value in enumerate(values):
        reading = _reading(value)
        if not np.isfinite(reading):
            raise place.error(
                index, "is the public clock and holds neither a number of seconds nor a time"
            )
        readings[index] = reading
    return readings


def _reading(value: Any) -> float:
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            try:
                value = datetime.fromisoformat(value.strip())
            except ValueError:
                return np.nan
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if isinstance(value, datetime):
        try:
            moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
            return moment.timestamp()
        except (ValueError, OverflowError):
            return np.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def unit_cells(cells: Cells, place: Place, unit_hash: UnitHash) -> tuple[UnitArray, IntArray]:
    """Opaque identifiers in record order, and the positions of records that have none.

    Raises:
        SchemaError: if an identifier is a float that may have been another integer: of two
            users it could make one, and of one, in another batch, two with a cap each.
    """
    values = cells.tolist() if isinstance(cells, np.ndarray) else cells
    seen: dict[str, bytes] = {}
    digests: list[bytes] = []
    absent: list[int] = []
    for index, value in enumerate(values):
        if isinstance(value, float) and abs(value) >= _LARGEST_EXACT:
            raise place.error(
                index,
                "holds an identifier as a floating-point number of 2**53 or more, which no longer "
                "tells neighbours apart; hand identifiers in as integers or as text",
            )
        text = _text(value)
        if text is None:
            absent.append(index)
            digests.append(bytes(IDENTIFIER_BYTES))
            continue
        digest = seen.get(text)
        if digest is None:
            digest = unit_hash(text.encode("utf-8", "surrogatepass"))
            if len(digest) != IDENTIFIER_BYTES:
                raise ConfigurationError(f"the unit hash must give {IDENTIFIER_BYTES} bytes")
            seen[text] = digest
        digests.append(digest)
    opaque = np.frombuffer(b"".join(digests), dtype=f"V{IDENTIFIER_BYTES}")
    return opaque, np.array(absent, np.int64)
