"""From what a scikit-learn user hands in to the session's chunks: form is checked, values are not.

A value that is missing or beyond its bounds never stops a fit: the domain clips it, or makes its
record null, and nobody learns that it was there. Errors here are about shapes, names and types.

Every cell is read as it was handed in. Of a list in which one cell is text numpy would make texts
of all of them, and of one with a fraction fractions: one record would decide how the others read.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np
from scipy import sparse
from sklearn.exceptions import DataConversionWarning

from dpstream.domain.batch import RawChunk
from dpstream.errors import ConfigurationError, SchemaError
from dpstream.estimators.bounds import BoundedArray

_FAITHFUL = {float: "f", np.float64: "f", int: "i", np.int64: "i", bool: "b", np.bool_: "b"}
"""Types of cells, and of the arrays that hold each of them as it is. Texts lose a zero at their
end, and integers beyond 64 bits become floats."""


def table(X: Any, *, owner: str) -> Any:
    """The features as a matrix, or the frame itself.

    Raises:
        TypeError: for sparse matrices.
        ValueError: for another number of dimensions, complex numbers, or nothing in it.
    """
    if sparse.issparse(X):
        raise TypeError(
            f"Sparse data was passed to {owner}, which takes dense records; use X.toarray(), or "
            "PublicHashing for wide ones"
        )
    if is_frame(X):
        _check_shape(X.shape, owner)
        return X
    if X is None or isinstance(X, str | bytes):
        raise ConfigurationError(
            f"{owner} got {type(X).__name__} in place of records; hand in a matrix or a table, "
            "such as pandas.read_csv(...) makes"
        )
    matrix = X if isinstance(X, np.ndarray) else _array(X)
    if matrix.dtype.kind == "c":
        raise ValueError(f"Complex data not supported by {owner}; hand in real numbers")
    if matrix.ndim != 2:
        raise ValueError(
            f"{owner} expects a 2D array of records, got {matrix.ndim} dimensions. Reshape your "
            "data: X.reshape(-1, 1) if it has one column, X.reshape(1, -1) if it is one record"
        )
    _check_shape(matrix.shape, owner)
    return matrix


def _check_shape(shape: tuple[int, ...], owner: str) -> None:
    for count, what in zip(shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required "
                f"by {owner}."
            )


def is_frame(X: Any) -> bool:
    """Whether it is a data frame or table in memory."""
    return nw.dependencies.is_into_dataframe(X)


def part(X: Any, start: int, stop: int) -> Any:
    """Consecutive records of a ``table``, of the same kind and with the bounds it carries.

    Args:
        X: of ``table``.
        start: the first record.
        stop: one past the last.
    """
    if is_frame(X):
        return nw.from_native(X, eager_only=True)[start:stop].to_native()
    rows = np.asarray(X)[start:stop]
    bounded = X.bounded if isinstance(X, BoundedArray) else None
    return rows if bounded is None else BoundedArray.of(rows, bounded)


def column_names(X: Any) -> list[str]:
    """A frame's own names, or ``x0``, ``x1``, ..."""
    if is_frame(X):
        return [str(name) for name in nw.from_native(X, eager_only=True).columns]
    return [f"x{place}" for place in range(X.shape[1])]


def targets(y: Any, *, owner: str) -> Any:
    """The targets as one column.

    Raises:
        ValueError: if there are none, or several columns.
    """
    if y is None:
        raise ValueError(
            f"{owner} requires y to be passed, but the target y is None; hand in one target per "
            "record"
        )
    if sparse.issparse(y):
        raise TypeError(f"sparse targets were passed to {owner}; hand in a dense vector")
    column = y if isinstance(y, np.ndarray) else _vector(y)
    if column.ndim == 2 and column.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape "
            "of y to (n_samples,), for example using ravel().",
            DataConversionWarning,
            stacklevel=4,
        )
        column = column[:, 0]
    if column.ndim != 1:
        raise ValueError(
            f"{owner} expects y as one column, got an array of shape {column.shape}; fit one "
            "estimator, with a budget of its own, for each target"
        )
    if column.dtype.kind == "c":
        raise ValueError(f"Complex data not supported by {owner}; hand in real numbers")
    return column


def _vector(values: Any) -> np.ndarray[Any, Any]:
    if is_frame(values):
        return np.asarray(nw.from_native(values, eager_only=True).to_numpy())
    try:
        series = nw.from_native(values, series_only=True)
    except TypeError:
        return _array(values)
    if series.dtype.is_integer() and series.is_null().any():
        # With gaps frames make floats of them all, and of large labels other ones.
        return np.array(series.to_list(), dtype=object)
    return np.asarray(series.to_numpy())


def _array(values: Any) -> np.ndarray[Any, Any]:
    """A list as numpy reads it if that changes no cell of any such list, else cell by cell."""
    if not isinstance(values, list | tuple):
        return np.asarray(values)
    cells = np.asarray(values, dtype=object)
    kinds = {type(cell) for cell in cells.flat}
    if len(kinds) == 1:
        alike = np.asarray(values)
        if alike.dtype.kind == _FAITHFUL.get(kinds.pop()):
            return alike
    return cells


def chunk(
    X: Any,
    y: Any,
    *,
    names: Sequence[str],
    target: str,
    offset: int,
    extra: dict[str, Any],
    owner: str,
) -> RawChunk:
    """Consecutive records for the session.

    Args:
        X: of ``table``.
        y: of ``targets``, or None for learners without.
        names: the columns' names.
        target: the target's name.
        offset: of the first record in the stream.
        extra: further columns by name: users, timestamps.
        owner: for messages.

    Raises:
        SchemaError: if the parts have different lengths.
    """
    length = int(X.shape[0])
    parts = {"y": y, **extra}
    for name, values in parts.items():
        if values is not None and len(values) != length:
            raise SchemaError(
                f"Found input variables with inconsistent numbers of samples: X has {length} "
                f"records and {name} has {len(values)}; {owner} needs one for each record"
            )
    if not extra and not is_frame(X):
        data: Any = np.asarray(X)
    else:
        data = _by_place(X, names)
        data |= {name: _cells(values) for name, values in extra.items()}
    return RawChunk(
        data=data,
        targets=None if y is None else {target: y},
        offset=offset,
        length=length,
        origin="X",
    )


def columns(X: Any, names: Sequence[str]) -> Any:
    """The features in a form the domain reads: by name from a frame, by place from a matrix."""
    return _by_place(X, names) if is_frame(X) else np.asarray(X)


def _by_place(X: Any, names: Sequence[str]) -> dict[str, Any]:
    if is_frame(X):
        frame = nw.from_native(X, eager_only=True)
        return {name: frame[:, place].to_native() for place, name in enumerate(names)}
    matrix = np.asarray(X)
    return {name: matrix[:, place] for place, name in enumerate(names)}


def _cells(values: Any) -> Any:
    return values if isinstance(values, np.ndarray | list | tuple) else _vector(values)
