"""From what users hand in to matrices of raw numbers, one row per record.

Every format ends in the same rules per cell (``cell``), so that a stream reads the same from
CSV, JSON lines, Parquet, frames and matrices.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.batch import RawChunk, UnitArray
from dpstream.domain.cell import (
    Cells,
    Place,
    UnitHash,
    boolean_cells,
    clock_cells,
    level_codes,
    numeric_cells,
    unit_cells,
)
from dpstream.domain.column import Boolean, Categorical, Column, Numeric
from dpstream.domain.target import IntervalTarget, LabelTarget, Target
from dpstream.errors import ColumnAbsent, ConfigurationError, SchemaError


@dataclass(frozen=True)
class Schema:
    """What admission reads of a domain.

    Attributes:
        columns: the features, in order.
        targets: the targets, in order; none when rows are read for prediction.
        intercept: whether a categorical column's first level has no indicator.
    """

    columns: tuple[Column, ...]
    targets: tuple[Target, ...]
    intercept: bool

    @property
    def names(self) -> list[str]:
        """Names of the columns and targets, in the order of a matrix's columns."""
        return [item.name for item in (*self.columns, *self.targets)]

    @property
    def plain(self) -> bool:
        """Whether a numeric matrix needs no encoding."""
        return not any(isinstance(column, Categorical) for column in self.columns) and not any(
            isinstance(target, LabelTarget) for target in self.targets
        )


@dataclass(frozen=True)
class Records:
    """Raw numbers of consecutive records, NaN where missing. Secret.

    Attributes:
        values: ``(n, d + k)``: features with categories as indicators, then targets with
            labels as -1, 0, 1.
        units: opaque identifiers, or None.
        times: the public clock, or None.
    """

    values: FloatArray
    units: UnitArray | None = None
    times: FloatArray | None = None


@dataclass(frozen=True)
class _Table:
    columns: Mapping[str, Cells]
    length: int


def read_records(
    schema: Schema,
    data: Any,
    targets: Any,
    *,
    unit_column: str | None = None,
    unit_hash: UnitHash | None = None,
    time_column: str | None = None,
) -> Records:
    """Read records of any supported form.

    Raises:
        SchemaError: if the batch does not have the declared columns or types.
        ConfigurationError: if a unit column comes without a hash.
    """
    if unit_column is not None and unit_hash is None:
        raise ConfigurationError(
            f"unit column {unit_column!r} needs a keyed hash; identifiers are never kept as read"
        )
    try:
        return _read(schema, data, targets, unit_column, unit_hash, time_column)
    except (SchemaError, ConfigurationError, MemoryError):
        raise
    except Exception as error:  # a value that fails when it is looked at may say what it holds
        raise SchemaError(
            f"the batch cannot be read ({type(error).__name__}); hand in numbers, texts and nulls"
        ) from None


def _read(
    schema: Schema,
    data: Any,
    targets: Any,
    unit_column: str | None,
    unit_hash: UnitHash | None,
    time_column: str | None,
) -> Records:
    chunk = data if isinstance(data, RawChunk) else None
    raw = chunk.data if chunk else data
    if chunk and targets is None and schema.targets:
        targets = chunk.targets
    apart = targets is not None
    extra = [name for name in (unit_column, time_column) if name is not None]
    if isinstance(raw, np.ndarray) and schema.plain and not extra:
        matrix = _matrix(schema, raw, targets if apart else None)
        if matrix is not None:
            return Records(matrix)
    table = _table(schema, raw, apart, extra, chunk)
    if apart:
        table = _join(schema, table, targets)
    origin = chunk.origin if chunk else "the batch"
    wanted = [*schema.names, *extra]
    absent = [name for name in wanted if name not in table.columns]
    if absent:
        names = ", ".join(repr(name) for name in dict.fromkeys(absent))
        raise ColumnAbsent(f"{origin} has no column {names}; the domain declares it")
    lines = chunk.lines if chunk else None
    offset = chunk.offset if chunk else 0

    def cells(name: str) -> tuple[Cells, Place]:
        return table.columns[name], Place(name, origin, lines, offset)

    features = [_feature(item, *cells(item.name), schema.intercept) for item in schema.columns]
    encoded = [_target(item, *cells(item.name)) for item in schema.targets]
    values = _stack([*features, *encoded], table.length)
    units = times = None
    if unit_column is not None and unit_hash is not None:
        units, absent_units = unit_cells(*cells(unit_column), unit_hash)
        values[absent_units] = np.nan
    if time_column is not None:
        times = clock_cells(*cells(time_column))
    return Records(values, units, times)


# --- encoding ----------------------------------------------------------------------------------


def _feature(column: Column, cells: Cells, place: Place, intercept: bool) -> FloatArray:
    match column:
        case Numeric():
            return numeric_cells(cells, place)
        case Boolean():
            return boolean_cells(cells, place)
        case Categorical():
            codes = level_codes(cells, column.categories)
            coded = column.coded_levels(intercept)
            first = len(column.levels) - len(coded)
            indicators = (codes[:, None] == np.arange(first, len(column.levels))).astype(np.float64)
            indicators[codes < 0] = np.nan
            return indicators


def _target(target: Target, cells: Cells, place: Place) -> FloatArray:
    match target:
        case IntervalTarget():
            return numeric_cells(cells, place)
        case LabelTarget(labels=labels):
            codes = level_codes(cells, labels)
            if target.width == 1:
                encoded = (2 * codes - 1).astype(np.float64)[:, None]
            else:
                encoded = (codes[:, None] == np.arange(len(labels))).astype(np.float64)
            encoded[(codes < 0) | (codes == len(labels))] = np.nan
            return encoded


def _stack(parts: Sequence[FloatArray], length: int) -> FloatArray:
    widths = [1 if part.ndim == 1 else int(part.shape[1]) for part in parts]
    stacked = np.empty((length, sum(widths)))
    start = 0
    for part, width in zip(parts, widths, strict=True):
        stacked[:, start : start + width] = part[:, None] if part.ndim == 1 else part
        start += width
    return stacked


# --- forms of data -----------------------------------------------------------------------------


def _check_width(schema: Schema, raw: np.ndarray[Any, Any], apart: bool) -> None:
    expected = len(schema.columns) + (0 if apart else len(schema.targets))
    if raw.ndim != 2:
        raise SchemaError(
            f"the array has {raw.ndim} dimensions; records are the rows of a matrix with "
            f"{expected} columns"
        )
    if raw.shape[1] != expected:
        names = schema.names if not apart else [column.name for column in schema.columns]
        raise SchemaError(
            f"the matrix has {raw.shape[1]} columns; the domain declares {expected}: "
            + ", ".join(repr(name) for name in names)
        )


def _table(
    schema: Schema, raw: Any, apart: bool, extra: Sequence[str], chunk: RawChunk | None
) -> _Table:
    names = [column.name for column in schema.columns]
    if not apart:
        names += [target.name for target in schema.targets]
    if isinstance(raw, Mapping):
        return _from_mapping(raw, [*names, *extra])
    if isinstance(raw, list | tuple):
        if all(isinstance(row, Mapping) for row in raw):
            return _from_rows(raw, [*names, *extra], chunk)
        try:
            raw = np.array(raw, dtype=object)
        except ValueError:
            raise SchemaError(
                f"the rows have different lengths; the domain declares {len(names)} columns"
            ) from None
    if isinstance(raw, np.ndarray):
        _check_width(schema, raw, apart)
        if extra:
            raise SchemaError(
                f"a matrix has no column {extra[0]!r}; hand in a data frame or a mapping of columns"
            )
        return _Table({name: raw[:, j] for j, name in enumerate(names)}, int(raw.shape[0]))
    return _from_frame(raw, [*names, *extra])


def _from_mapping(raw: Mapping[str, Any], names: Sequence[str]) -> _Table:
    columns: dict[str, Cells] = {}
    for name in dict.fromkeys(names):
        if name in raw:
            columns[name] = _cells(raw[name])
    lengths = {len(cells) for cells in columns.values()}
    if len(lengths) > 1:
        raise SchemaError("the columns of the batch have different lengths")
    return _Table(columns, lengths.pop() if lengths else 0)


def _from_rows(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], chunk: RawChunk | None
) -> _Table:
    columns: dict[str, Cells] = {}
    for name in dict.fromkeys(names):
        try:
            columns[name] = [row[name] for row in rows]
        except KeyError:
            index = next(index for index, row in enumerate(rows) if name not in row)
            place = Place(name, chunk.origin, chunk.lines, chunk.offset) if chunk else Place(name)
            raise place.error(index, "is absent; write null where a value is missing") from None
    return _Table(columns, len(rows))


def _from_frame(raw: Any, names: Sequence[str]) -> _Table:
    import narwhals as nw

    try:
        frame = nw.from_native(raw, eager_only=True)
    except TypeError:
        raise SchemaError(
            f"records came as {type(raw).__name__}; hand in a matrix, a mapping of columns, "
            "mappings of one record each, or a pandas, polars or pyarrow table in memory"
        ) from None
    known = set(frame.columns)
    columns: dict[str, Cells] = {}
    for name in dict.fromkeys(names):
        if name in known:
            try:
                columns[name] = _series_cells(frame[name])
            except Exception as error:  # frames quote the value they choke on
                raise SchemaError(
                    f"column {name!r} of the frame cannot be read ({type(error).__name__}); hand "
                    "it in as numbers or text"
                ) from None
    return _Table(columns, len(frame))


def _series_cells(series: Any) -> Cells:
    import narwhals as nw

    if series.dtype.is_integer():
        # With gaps frames would make floats of them all: identifiers beyond 2**53 would change,
        # or the frame would refuse and name one.
        return series.to_list() if series.is_null().any() else np.asarray(series.to_numpy())
    if series.dtype.is_numeric():
        return np.asarray(series.cast(nw.Float64).to_numpy(), np.float64)
    return series.to_list()


def _cells(values: Any) -> Cells:
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise SchemaError(f"a column has {values.ndim} dimensions; it must have one")
        return values
    if isinstance(values, list | tuple):
        return cast("Sequence[Any]", values)
    if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
        raise SchemaError(f"a column came as {type(values).__name__}; it must be a sequence")
    import narwhals as nw

    try:
        series = nw.from_native(values, series_only=True)
    except TypeError:
        return list(values)
    try:
        return _series_cells(series)
    except Exception as error:  # frames quote the value they choke on
        raise SchemaError(
            f"a column cannot be read ({type(error).__name__}); hand it in as numbers or text"
        ) from None


def _matrix(schema: Schema, raw: np.ndarray[Any, Any], targets: Any) -> FloatArray | None:
    """Numbers that need no encoding, in one copy; None for what is read column by column."""
    if raw.dtype.kind not in "fiub":
        return None
    if targets is None:
        _check_width(schema, raw, apart=False)
        return raw.astype(np.float64, copy=False)
    beside = isinstance(targets, np.ndarray) and targets.dtype.kind in "fiub"
    if not beside or targets.ndim not in (1, 2):
        return None
    _check_width(schema, raw, apart=True)
    columns = targets[:, None] if targets.ndim == 1 else targets
    if columns.shape != (raw.shape[0], len(schema.targets)):
        return None  # refused where columns are joined, in the same words for every form
    return np.concatenate([raw, columns], axis=1, dtype=np.float64)


def _join(schema: Schema, table: _Table, targets: Any) -> _Table:
    """The table with the targets that came apart from it."""
    names = [target.name for target in schema.targets]
    if isinstance(targets, np.ndarray) and targets.ndim == 2:
        if targets.shape[1] != len(names):
            raise SchemaError(
                f"the targets have {targets.shape[1]} columns; the domain declares {len(names)}"
            )
        found: dict[str, Cells] = {name: targets[:, j] for j, name in enumerate(names)}
    elif isinstance(targets, Mapping):
        found = dict(_from_mapping(targets, names).columns)
    elif hasattr(targets, "columns"):
        found = dict(_from_frame(targets, names).columns)
    elif len(names) == 1:
        found = {names[0]: _cells(targets)}
    else:
        raise SchemaError(
            f"one target came, the domain declares {len(names)}: "
            + ", ".join(repr(name) for name in names)
        )
    if any(len(cells) != table.length for cells in found.values()):
        raise SchemaError(f"the targets do not have one row for each of {table.length} records")
    return _Table({**table.columns, **found}, table.length)
