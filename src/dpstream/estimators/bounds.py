"""Public bounds of an estimator's columns: declared, or handed on by public preprocessing.

Nothing here is computed from a record. What is taken from the data is their form: how many columns
a matrix has, and what a frame calls them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np

from dpstream.domain.column import Boolean, Categorical, Column, Numeric
from dpstream.errors import ConfigurationError
from dpstream.report.card import DECLARED

_REMEDY = (
    "bounds are public and never learned from the records: give bounds=(lower, upper) for all "
    "columns, two lists with one number for each, or {column: (lower, upper) or [categories] or "
    "'boolean'}"
)


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """What is known of the rows of a table before it is read.

    Attributes:
        columns: what of each column counts.
        norm: a bound on every row's L2 norm, in the columns' own units, or None.
        provenance: where a column's bounds come from, if not declared by the estimator.
    """

    columns: tuple[Column, ...]
    norm: float | None = None
    provenance: Mapping[str, str]


class BoundedArray(np.ndarray[Any, Any]):
    """A matrix that remembers the public bounds its maker enforced.

    The next step of a pipeline reads them. Any slice or computation is a plain matrix again: its
    columns may be others.
    """

    bounded: Bounded | None

    @classmethod
    def of(cls, values: np.ndarray[Any, Any], bounded: Bounded) -> Self:
        """The matrix with its bounds."""
        found = values.view(cls)
        found.bounded = bounded
        return found

    def __array_finalize__(self, obj: object) -> None:
        self.bounded = None

    def __reduce__(self) -> Any:
        # Sent to another process it is a plain matrix: there bounds must be declared.
        return np.asarray(self).__reduce__()


def stated_bounds(
    data: object,
    names: Sequence[str],
    bounds: object,
    norm_bound: float | None,
    *,
    owner: str,
) -> Bounded:
    """The bounds of an estimator's records: its own if it has any, else the pipeline's.

    Args:
        data: what was handed in; its values are not read.
        names: of its columns.
        bounds: the estimator's parameter, or None.
        norm_bound: the estimator's parameter, or None.
        owner: the estimator's name, for messages.

    Raises:
        ConfigurationError: if there are none, or they do not fit the columns.
    """
    handed = data.bounded if isinstance(data, BoundedArray) else None
    if bounds is None and handed is not None:
        norm = handed.norm if norm_bound is None else norm_bound
        if norm is None:
            return handed
        # A bound on the whole row is what its maker proved; columns need none of their own.
        free = tuple(Numeric(column.name) for column in handed.columns)
        return Bounded(columns=free, norm=norm, provenance=handed.provenance)
    if bounds is None:
        if norm_bound is None:
            raise ConfigurationError(
                f"{owner} does not know the bounds of its columns; {_REMEDY}, or norm_bound="
                "... for the length of a row, or put PublicScaler, PublicOneHot or PublicHashing "
                "before it"
            )
        columns = tuple(Numeric(name) for name in names)
    else:
        columns = declared_columns(names, bounds, owner=owner)
    return Bounded(columns=columns, norm=norm_bound, provenance={})


def declared_columns(names: Sequence[str], bounds: object, *, owner: str) -> tuple[Column, ...]:
    """A column for each name, from any form of declaration.

    Raises:
        ConfigurationError: if a column has no bounds, or bounds have no column.
    """
    if isinstance(bounds, Mapping):
        stated = cast("Mapping[str, Any]", bounds)
        absent = [name for name in names if name not in stated]
        if absent:
            raise ConfigurationError(
                f"{owner} has no bounds for {_quoted(absent)}; declare them in bounds, or drop "
                "these columns"
            )
        extra = [str(name) for name in stated if name not in names]
        if extra:
            raise ConfigurationError(
                f"{owner} has bounds for {_quoted(extra)}, but the records have only "
                f"{_quoted(list(names))}"
            )
        return tuple(_column(name, stated[name], owner) for name in names)
    lower, upper = _pair(bounds, owner)
    width = len(names)
    try:
        if {lower.shape, upper.shape} - {(), (width,)}:
            raise ValueError
        lows = np.broadcast_to(lower, (width,)).tolist()
        highs = np.broadcast_to(upper, (width,)).tolist()
    except ValueError:
        raise ConfigurationError(
            f"{owner} has bounds for {max(lower.size, upper.size)} columns, but the records have "
            f"{width}: {_quoted(list(names))}"
        ) from None
    return tuple(
        Numeric(name, low, high) for name, low, high in zip(names, lows, highs, strict=True)
    )


def interval_bounds(bounds: object, *, name: str, owner: str) -> tuple[float, float]:
    """One interval, as for a target.

    Raises:
        ConfigurationError: if it is none.
    """
    if bounds is None:
        raise ConfigurationError(
            f"{owner} has no {name}; give the public interval that the target lies in, such as "
            f"{name}=(0, 100): it is never learned from the records"
        )
    lower, upper = _pair(bounds, f"{owner}, {name}")
    if lower.size != 1 or upper.size != 1:
        raise ConfigurationError(f"{owner} has {name}={bounds!r}; give one pair (lower, upper)")
    return float(lower.reshape(())), float(upper.reshape(()))


def _column(name: str, stated: Any, owner: str) -> Column:
    if isinstance(stated, Numeric | Boolean | Categorical):
        return stated
    if stated == "boolean":
        return Boolean(name)
    if isinstance(stated, Sequence) and not isinstance(stated, str) and len(stated):
        items = list(cast("Sequence[Any]", stated))
        if all(isinstance(item, str) for item in items):
            return Categorical(name, items)
        lower, upper = _pair(stated, f"{owner}, column {name!r}")
        return Numeric(name, float(lower), float(upper))
    raise ConfigurationError(
        f"{owner} has bounds {stated!r} for column {name!r}; give (lower, upper), a list of "
        "categories, or 'boolean'"
    )


def _pair(bounds: object, owner: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    try:
        lower, upper = cast("Sequence[Any]", bounds)
        if isinstance(lower, str) or isinstance(upper, str):
            raise TypeError
        return np.asarray(lower, np.float64), np.asarray(upper, np.float64)
    except (TypeError, ValueError):
        raise ConfigurationError(
            f"{owner} has bounds {bounds!r}, which are no pair of numbers; {_REMEDY}"
        ) from None


def _quoted(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def provenance_of(bounded: Bounded) -> dict[str, str]:
    """Where each column's bounds come from."""
    return {
        column.name: bounded.provenance.get(column.name, DECLARED) for column in bounded.columns
    }
