"""``PublicOneHot``: categories of a public vocabulary as indicators."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, cast

from dpstream.arrays import FloatArray
from dpstream.domain.column import Categorical, Numeric
from dpstream.domain.domain import Domain
from dpstream.errors import ConfigurationError
from dpstream.estimators.bounds import Bounded
from dpstream.estimators.transformer import PublicTransformer


@dataclass(kw_only=True, eq=False, repr=False)
class PublicOneHot(PublicTransformer):
    """One indicator for each declared category of every column, and one for any other.

    scikit-learn's ``OneHotEncoder``, with a declared vocabulary in place of the records' own. A
    row has one 1 per column: its length is known, and is handed on as its bound.

    Attributes:
        categories: one list for all columns, a list of lists, or ``{name: [...]}``.
    """

    categories: Any = None

    def _declare(self, data: Any, names: list[str]) -> tuple[Domain, Bounded]:
        columns = [Categorical(n, c) for n, c in zip(names, self._lists(names), strict=True)]
        # Without a constant every level has its own indicator.
        domain = Domain(columns, intercept=False)
        provenance = {
            name: f"{type(self).__name__}: an indicator of a vocabulary declared before any "
            "record was read"
            for name in domain.feature_names
        }
        free = tuple(Numeric(name) for name in domain.feature_names)
        return domain, Bounded(columns=free, norm=sqrt(len(names)), provenance=provenance)

    def _lists(self, names: list[str]) -> list[Sequence[Any]]:
        owner, given = type(self).__name__, self.categories
        if given is None or isinstance(given, str):
            raise ConfigurationError(
                f"{owner} has categories={given!r}; the vocabulary is public and never learned "
                "from the records: give one list for all columns, a list of lists, or "
                "{column: [...]}"
            )
        if isinstance(given, Mapping):
            stated = cast("Mapping[str, Sequence[Any]]", given)
            absent = [name for name in names if name not in stated]
            extra = [str(name) for name in stated if name not in names]
            if absent or extra:
                raise ConfigurationError(
                    f"{owner} has categories for {list(stated)}, but the columns are {names}; "
                    "declare a list for each"
                )
            return [stated[name] for name in names]
        if not isinstance(given, Sequence):
            raise ConfigurationError(
                f"{owner} has categories={given!r}; give one list for all columns, a list of "
                "lists, or {column: [...]}"
            )
        items = list(cast("Sequence[Any]", given))
        nested = bool(items) and all(
            isinstance(item, Sequence) and not isinstance(item, str) for item in items
        )
        if not nested:
            return [items] * len(names)
        if len(items) != len(names):
            raise ConfigurationError(
                f"{owner} has {len(items)} lists of categories for {len(names)} columns; give one "
                "for each"
            )
        return items

    def _map(self, values: FloatArray) -> FloatArray:
        return values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags
