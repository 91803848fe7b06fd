"""Estimators whose releases are scores: what regressions and classifiers share."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dpstream.arrays import FloatArray
from dpstream.domain.target import IntervalTarget
from dpstream.errors import ConfigurationError
from dpstream.estimators.bounds import interval_bounds
from dpstream.estimators.records import columns, table
from dpstream.estimators.stream_estimator import StreamEstimator
from dpstream.release import Release
from dpstream.saved.model_file import save_model
from dpstream.saved.saved_model import SavedModel
from dpstream.saved.score_model import ScoreModel

Model = Mapping[str, Any]


@dataclass(kw_only=True, eq=False, repr=False)
class ScoringEstimator(StreamEstimator):
    """An estimator that predicts by scores."""

    def _publish(self, release: Release[Model]) -> None:
        self.model_ = ScoreModel.of_release(release.value, self._domain)

    @property
    def coefficient_names_(self) -> tuple[str, ...]:
        """Names of the columns of ``coef_``: a category's indicator is ``column=level``."""
        check_is_fitted(self, "release_")
        return self.model_.domain.feature_names

    def saved_model(self) -> SavedModel:
        """The newest release with its ledger and card: for ``save_model`` and ``export_onnx``."""
        check_is_fitted(self, "release_")
        known = getattr(self, "classes_", None)
        return SavedModel.of_release(
            self.release_,
            domain=self._domain,
            rows=self._rows,
            provenance=self._provenance,
            classes=None if known is None else known.tolist(),
        )

    def save(self, path: str | os.PathLike[str]) -> str:
        """Write the newest release to one file; see ``dpstream.saved.load_model``.

        Args:
            path: of the file, replaced if it is there.

        Returns:
            The model's digest.
        """
        return save_model(self.saved_model(), path)

    def _scores(self, X: Any) -> FloatArray:
        """Scores of rows that are not private: of somebody who asks for a prediction."""
        check_is_fitted(self, "release_")
        rows = table(X, owner=self._name)
        validate_data(self, X=rows, skip_check_array=True, reset=False)
        return self.model_.scores(columns(rows, self._names))


@dataclass(kw_only=True, eq=False, repr=False)
class NumberEstimator(RegressorMixin, ScoringEstimator):
    """What regressions share.

    Attributes:
        target_bounds: the public interval of the target; values beyond it are clipped.
    """

    target_bounds: tuple[float, float] | None = None

    def _target(self, y: Any, name: str, *, rehearsed: bool) -> IntervalTarget:
        bounds = interval_bounds(self.target_bounds, name="target_bounds", owner=self._name)
        return IntervalTarget(name, *bounds)

    def fit(self, X: Any, y: Any, *, users: Any = None, timestamps: Any = None) -> Self:
        """Begin a stream with these records; spends the grant.

        Args:
            X: records: a matrix, or a pandas, polars or pyarrow table.
            y: a target for each.
            users: whose record each is, with ``user_cap``.
            timestamps: the public clock of each, with ``interval``.
        """
        return self._learn(X, y, users, timestamps, begin=True)

    def partial_fit(self, X: Any, y: Any, *, users: Any = None, timestamps: Any = None) -> Self:
        """Continue the stream with the records that follow; begins it if there is none.

        Args:
            X: the next records.
            y: a target for each.
            users: whose record each is, with ``user_cap``.
            timestamps: the public clock of each, with ``interval``.
        """
        return self._learn(X, y, users, timestamps, begin=False)

    def _publish(self, release: Release[Model]) -> None:
        super()._publish(release)
        self.coef_ = self.model_.coefficients[0]
        self.intercept_ = float(self.model_.intercepts[0])

    def predict(self, X: Any) -> FloatArray:
        """Predictions for rows; values beyond the bounds count as the bounds, as in training.

        A missing value counts as the middle of its bounds.

        Args:
            X: rows of the declared columns.
        """
        scores = self._scores(X)
        return self.model_.values(scores)[:, 0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # At any epsilon worth having, some hundred records are mostly noise.
        tags.regressor_tags.poor_score = True
        return tags


def positive(name: str, value: Any, owner: str, *, zero: bool = False) -> float:
    """A parameter that must be a finite number above 0, or from 0.

    Raises:
        ConfigurationError: if it is not.
    """
    number = isinstance(value, int | float | np.integer | np.floating)
    if isinstance(value, bool) or not number or not np.isfinite(value):
        raise ConfigurationError(f"{owner} has {name}={value!r}; it must be a finite number")
    if value < 0 or (value == 0 and not zero):
        raise ConfigurationError(
            f"{owner} has {name}={value!r}; it must be {'at least 0' if zero else 'above 0'}"
        )
    return float(value)
