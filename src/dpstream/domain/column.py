"""Public declarations of the columns a model uses."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeAlias, cast

import numpy as np

from dpstream.errors import ConfigurationError

_LEVELS = (str, int, float, bool, np.generic)

OTHER = "other"
"""The level of every category that was not declared."""


def check_name(name: object, what: str) -> None:
    """Refuse a name that cannot identify a column."""
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"a {what} is named {name!r}; it needs a non-empty text as name")
    _check_text(name, name)


def _check_text(name: str, text: str) -> None:
    """Refuse a text that no release could say: half of a surrogate pair, for instance."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(
            f"column {name!r}: {text!r} is no Unicode text and cannot be published"
        ) from None


def check_interval(name: str, lower: object, upper: object) -> None:
    """Refuse bounds that are not a finite interval of positive length."""
    if not (_is_number(lower) and _is_number(upper)):
        raise ConfigurationError(
            f"column {name!r} has bounds [{lower!r}, {upper!r}]; give two public numbers, lower "
            "and upper"
        )
    lower, upper = float(cast("float", lower)), float(cast("float", upper))
    if not (isfinite(lower) and isfinite(upper)):
        raise ConfigurationError(
            f"column {name!r} has bounds [{lower}, {upper}]; give two finite public numbers"
        )
    if not lower < upper or not isfinite(upper - lower):
        raise ConfigurationError(
            f"column {name!r} has bounds [{lower}, {upper}]; the lower must be below the upper"
        )


def _is_number(value: object) -> bool:
    return hasattr(value, "__float__") and not isinstance(value, bool)


def level_text(value: object) -> str:
    """The text under which a category, label or identifier is known in every format.

    An integer-valued float reads as the integer, so that 7, 7.0 and "7" are one level
    whether they come from Parquet, from pandas with gaps, or from text.
    """
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def check_levels(name: str, levels: Sequence[object], what: str) -> tuple[str, ...]:
    """The levels as texts; refuse duplicates."""
    if isinstance(levels, str):
        raise ConfigurationError(f"column {name!r}: give its {what} as a list, not as one text")
    given = cast("object", levels)
    if not isinstance(given, Iterable) or isinstance(given, bytes | Mapping):
        raise ConfigurationError(
            f"column {name!r} has {what} {given!r}; list them, such as ['a', 'b']"
        )
    for level in levels:
        if not isinstance(level, _LEVELS) or level != level:
            raise ConfigurationError(
                f"column {name!r} has {level!r} among its {what}; list texts, numbers or truth "
                "values: a missing value is never one"
            )
    texts = tuple(level_text(level) for level in levels)
    for text in texts:
        _check_text(name, text)
    if len(set(texts)) != len(texts):
        raise ConfigurationError(f"column {name!r} declares the same of its {what} twice")
    return texts


@dataclass(frozen=True)
class Numeric:
    """A number within public bounds.

    Values outside the bounds are clipped to them. Without bounds (both None) the record's
    norm bound alone limits the column: such a column is taken as it is, not shifted or scaled
    on its own, and the domain must then have the L2 record bound and a ``norm_bound``.

    Attributes:
        name: the column.
        lower: the least value that counts.
        upper: the largest value that counts.
    """

    name: str
    lower: float | None = None
    upper: float | None = None

    def __post_init__(self) -> None:
        check_name(self.name, "numeric column")
        if (self.lower is None) != (self.upper is None):
            raise ConfigurationError(
                f"column {self.name!r} has one bound; give both, or neither and a norm bound"
            )
        if self.lower is not None and self.upper is not None:
            check_interval(self.name, self.lower, self.upper)
            object.__setattr__(self, "lower", float(self.lower))
            object.__setattr__(self, "upper", float(self.upper))

    def to_json(self) -> dict[str, Any]:
        """Its public description."""
        return {"kind": "numeric", "name": self.name, "lower": self.lower, "upper": self.upper}


@dataclass(frozen=True)
class Boolean:
    """True or false; 1 or 0; in text also yes/no, t/f, y/n, in any case.

    Attributes:
        name: the column.
    """

    name: str

    def __post_init__(self) -> None:
        check_name(self.name, "boolean column")

    def to_json(self) -> dict[str, Any]:
        """Its public description."""
        return {"kind": "boolean", "name": self.name}


@dataclass(frozen=True, init=False)
class Categorical:
    """One of a public vocabulary; anything else is the level ``"other"``.

    In a domain with an intercept the first category is the reference: its records have zero in
    all indicators of the column, and the coefficients of the other levels are differences to it.
    Without an intercept every level has its own indicator.

    Attributes:
        name: the column.
        categories: the vocabulary, without ``"other"``, which is always there.
    """

    name: str
    categories: tuple[str, ...]

    def __init__(self, name: str, categories: Sequence[object]) -> None:
        check_name(name, "categorical column")
        levels = check_levels(name, categories, "categories")
        if not levels:
            raise ConfigurationError(f"column {name!r} declares no categories; list at least one")
        if OTHER in levels:
            raise ConfigurationError(
                f"column {name!r} declares the category {OTHER!r}; leave it out, it is always there"
            )
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "categories", levels)

    @property
    def levels(self) -> tuple[str, ...]:
        """The vocabulary, then ``"other"``."""
        return (*self.categories, OTHER)

    def coded_levels(self, intercept: bool) -> tuple[str, ...]:
        """The levels with an indicator: all, but the reference if there is an intercept."""
        return self.levels[1:] if intercept else self.levels

    def to_json(self) -> dict[str, Any]:
        """Its public description."""
        return {"kind": "categorical", "name": self.name, "categories": list(self.categories)}


Column: TypeAlias = Numeric | Boolean | Categorical


def column_from_json(description: Mapping[str, Any]) -> Column:
    """The column of a public description.

    Raises:
        ConfigurationError: if the kind is not known.
    """
    match description.get("kind"):
        case "numeric":
            return Numeric(description["name"], description["lower"], description["upper"])
        case "boolean":
            return Boolean(description["name"])
        case "categorical":
            return Categorical(description["name"], description["categories"])
        case kind:
            raise ConfigurationError(
                f"column kind is {kind!r}; known kinds: numeric, boolean, categorical"
            )
