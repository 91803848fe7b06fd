"""``PublicScaler``: columns from their public bounds to one interval."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.column import Numeric
from dpstream.domain.domain import Domain
from dpstream.errors import ConfigurationError
from dpstream.estimators.bounds import Bounded, interval_bounds, stated_bounds
from dpstream.estimators.transformer import PublicTransformer


@dataclass(kw_only=True, eq=False, repr=False)
class PublicScaler(PublicTransformer):
    """Clip every column to its public bounds and map them to ``feature_range``.

    scikit-learn's ``MinMaxScaler``, with bounds in place of the records' own minimum and maximum.

    Attributes:
        bounds: ``(lower, upper)`` for all columns, two lists, or ``{name: (lower, upper)}``; None
            if the step before hands them on.
        feature_range: the interval that bounds are mapped to.
    """

    bounds: Any = None
    feature_range: tuple[float, float] = (-1.0, 1.0)

    def _declare(self, data: Any, names: list[str]) -> tuple[Domain, Bounded]:
        owner = type(self).__name__
        low, high = interval_bounds(self.feature_range, name="feature_range", owner=owner)
        given = stated_bounds(data, names, self.bounds, None, owner=owner)
        for column in given.columns:
            if not isinstance(column, Numeric) or column.lower is None:
                raise ConfigurationError(
                    f"{owner} needs (lower, upper) for column {column.name!r}; use PublicOneHot "
                    "for categories"
                )
        columns = tuple(Numeric(name, low, high) for name in names)
        provenance = {
            column.name: f"{owner} from [{column.lower:g}, {column.upper:g}], "
            + given.provenance.get(column.name, "declared before any record was read")
            for column in given.columns
            if isinstance(column, Numeric)
        }
        domain = Domain([Numeric(n, c.lower, c.upper) for n, c in _intervals(names, given)])
        return domain, Bounded(columns=columns, provenance=provenance)

    def _map(self, values: FloatArray) -> FloatArray:
        low, high = (float(end) for end in self.feature_range)
        mapping = self._domain.feature_map
        share = (values - mapping.lower) / (mapping.upper - mapping.lower)
        # Rounding must not leave the interval that is handed on.
        return np.clip(low + share * (high - low), low, high)


def _intervals(names: list[str], given: Bounded) -> list[tuple[str, Numeric]]:
    found = [column for column in given.columns if isinstance(column, Numeric)]
    return list(zip(names, found, strict=True))
