"""What public transformers share: nothing is fitted but the form of the table.

Every parameter is public and chosen before records are read. ``transform`` treats each row by
itself, enforces the bounds it states, and hands them on with its output (``BoundedArray``), so that
the estimator behind it needs none of its own and its privacy card says where they come from. A
row with a missing value comes out as a row of NaN, which is the null record.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dpstream.arrays import FloatArray
from dpstream.domain.domain import Domain
from dpstream.errors import ConfigurationError
from dpstream.estimators.bounds import Bounded, BoundedArray
from dpstream.estimators.records import column_names, columns, table


def require_seed(seed: object, *, owner: str) -> None:
    """Refuse a seed that is no whole number from 0.

    Raises:
        ConfigurationError: if it is not.
    """
    whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if not whole or int(cast("int", seed)) < 0:
        raise ConfigurationError(f"{owner} has seed={seed!r}; it must be a whole number from 0")


@dataclass(kw_only=True, eq=False, repr=False)
class PublicTransformer(TransformerMixin, BaseEstimator):
    """A row-wise map with public parameters."""

    @abstractmethod
    def _declare(self, data: Any, names: list[str]) -> tuple[Domain, Bounded]:
        """How rows are read, and what is known of the output's; from the table's form alone."""

    @abstractmethod
    def _map(self, values: FloatArray) -> FloatArray:
        """The output's rows, from raw encoded ones with NaN where a value is missing."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Note the columns' number and names; no value is read.

        Args:
            X: any table of the same form.
            y: ignored.
        """
        rows = table(X, owner=type(self).__name__)
        validate_data(self, X=rows, skip_check_array=True, reset=True)
        self._names = column_names(rows)
        # What comes before in a pipeline hands on bounds with its output, not with its form.
        self._domain, self.bounded_ = self._declare(X, self._names)
        return self

    def transform(self, X: Any) -> FloatArray:
        """The mapped rows, which carry their bounds.

        Args:
            X: rows of the same columns.
        """
        check_is_fitted(self, "bounded_")
        rows = table(X, owner=type(self).__name__)
        validate_data(self, X=rows, skip_check_array=True, reset=False)
        raw = self._domain.features(columns(rows, self._names))
        mapping = self._domain.feature_map
        values = raw / mapping.scale + mapping.centre
        values[~np.isfinite(values).all(axis=1)] = np.nan
        return BoundedArray.of(self._map(values), self.bounded_)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray[Any, Any]:
        """Names of the output's columns.

        Args:
            input_features: the input's names, which must be those it was fitted with.
        """
        check_is_fitted(self, "bounded_")
        known = getattr(self, "feature_names_in_", None)
        if input_features is not None:
            given = list(input_features)
            if known is not None and given != list(known):
                raise ValueError("input_features is not equal to feature_names_in_")
            if len(given) != len(self._names):
                raise ValueError(
                    "input_features should have length equal to number of features "
                    f"({len(self._names)}), got {len(given)}"
                )
        return np.array([column.name for column in self.bounded_.columns], dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "bounded_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
