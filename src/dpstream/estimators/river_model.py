"""River: records one by one or many at a time, into any of our estimators.

``RiverRegressor`` and ``RiverClassifier`` hold an estimator and hand it records in ticks of its
``release_every``. The budget stays a grant: ``clone``, ``copy`` and pickling give unfunded models,
and a copy leaves behind the records that wait for their tick.

A record is a dictionary; one that lacks a declared column is null, and others are ignored. Which
columns there are is therefore declared by name in the estimator's ``bounds``.
"""

from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any, Self, cast

import numpy as np
import pandas as pd
from river import base
from sklearn.base import clone as sklearn_clone

from dpstream.errors import ConfigurationError, require_kind
from dpstream.estimators.grant import Rehearsal
from dpstream.estimators.linear import PrivateLinearRegression
from dpstream.estimators.scores import LabelEstimator, PrivateLogisticRegression
from dpstream.estimators.scoring import NumberEstimator, ScoringEstimator

Record = Mapping[Any, Any]


class _Feed:
    """Records that wait for their tick, in the estimator's columns."""

    def __init__(self, estimator: ScoringEstimator) -> None:
        self._estimator = estimator
        self._rows: list[tuple[Any, ...]] = []
        self._targets: list[Any] = []
        self.names: list[Any] | None = None
        bounds = estimator.bounds
        if isinstance(bounds, Mapping):
            self.names = list(cast("Mapping[Any, Any]", bounds))

    def _require_names(self, x: Record) -> list[Any]:
        if self.names is None:
            if not isinstance(self._estimator.budget, Rehearsal):
                raise ConfigurationError(
                    "which columns the first record has is private; declare them by name: "
                    "bounds={'column': (lower, upper), ...}"
                )
            self.names = sorted(x, key=str)
        return self.names

    def learn(self, x: Record, y: Any) -> None:
        """Take a record; learn when it completes a tick."""
        require_kind(x, Mapping, "a record", "River's are mappings: {'column': value}")
        names = self._require_names(x)
        self._rows.append(tuple(x.get(name) for name in names))
        self._targets.append(y)
        if len(self._rows) >= cast("int", self._estimator.release_every):
            frame = pd.DataFrame(self._rows, columns=[str(name) for name in names], dtype=object)
            wanted = np.array(self._targets, dtype=object)
            self._rows, self._targets = [], []
            # Both regressions and classifiers have it; what they share does not say so.
            cast("NumberEstimator", self._estimator).partial_fit(frame, wanted)

    def columns(self, x: Record) -> dict[str, list[Any]]:
        """A record to predict for, as a table of one row."""
        return {str(name): [x.get(name)] for name in self.names or ()}


def _records(X: pd.DataFrame) -> Iterator[Record]:
    names = list(X.columns)
    for row in X.itertuples(index=False, name=None):
        yield dict(zip(names, row, strict=True))


class _Adapter:
    """What both models share."""

    estimator: Any

    def __init__(self, estimator: ScoringEstimator, kind: type[ScoringEstimator]) -> None:
        name = type(self).__name__
        if not isinstance(estimator, kind):
            given = type(estimator).__name__
            raise ConfigurationError(
                f"{name} got {given}; hand it a dpstream "
                f"{'classifier' if kind is LabelEstimator else 'regression'}"
            )
        if estimator.release_every is None:
            raise ConfigurationError(
                f"{name} learns record by record, and {type(estimator).__name__} has no "
                "release_every: it would release at every record; give it, such as "
                "release_every=100"
            )
        if estimator.user_cap is not None or estimator.interval is not None:
            raise ConfigurationError(
                f"{name} has no users and no timestamps for its records; use partial_fit of "
                f"{type(estimator).__name__}"
            )
        self.estimator = estimator
        self._feed = _Feed(estimator)

    def learn_one(self, x: Record, y: Any) -> None:
        """Take a record; a release follows when it completes a tick."""
        self._feed.learn(x, y)

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        """Take several: the same as one after the other.

        Raises:
            ConfigurationError: if there is not one target for each.
        """
        if len(X) != len(y):
            raise ConfigurationError(
                f"learn_many got {len(X)} records and {len(y)} targets; it needs one for each"
            )
        for x, target in zip(_records(X), y.tolist(), strict=True):
            self._feed.learn(x, target)

    def clone(self, new_params: Any = None, include_attributes: bool = False) -> Self:
        """A model that has learned nothing, with an unfunded estimator."""
        params: dict[str, Any] = {**(new_params or {})}
        params.setdefault("estimator", sklearn_clone(self.estimator))
        return type(self)(**params)

    @property
    def _released(self) -> bool:
        return hasattr(self.estimator, "release_")

    def __getstate__(self) -> dict[str, Any]:
        # Waiting records are private, and belong to the original's stream.
        estimator = copy(self.estimator)
        feed = _Feed(estimator)
        feed.names = self._feed.names
        return {**vars(self), "estimator": estimator, "_feed": feed}


class RiverRegressor(_Adapter, base.MiniBatchRegressor):
    """A River regressor over a dpstream regression.

    Args:
        estimator: with ``release_every``, and ``bounds`` that name every column.
    """

    def __init__(self, estimator: NumberEstimator) -> None:
        super().__init__(estimator, NumberEstimator)

    def predict_one(self, x: Record) -> float:
        """The newest release's prediction; the middle of the target's bounds before there is one.

        A missing value counts as the middle of its bounds.
        """
        if not self._released:
            low, high = self.estimator.target_bounds
            return float(low + (high - low) / 2)
        model = self.estimator.model_
        return float(model.values(model.scores(self._feed.columns(x)))[0, 0])

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Predictions for several."""
        return pd.Series([self.predict_one(x) for x in _records(X)], index=X.index, dtype=float)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {
            "estimator": PrivateLinearRegression(
                budget=Rehearsal(epsilon=5.0, delta=1e-4),
                bounds=(-100.0, 100.0),
                target_bounds=(0.0, 100.0),
                release_every=20,
                intervals=False,
            )
        }


class RiverClassifier(_Adapter, base.MiniBatchClassifier):
    """A River classifier over a dpstream classifier.

    Args:
        estimator: with ``classes``, ``release_every``, and ``bounds`` that name every column.
    """

    def __init__(self, estimator: LabelEstimator) -> None:
        super().__init__(estimator, LabelEstimator)
        if estimator.classes is None:
            raise ConfigurationError(
                f"{type(estimator).__name__} has no classes; one record does not tell them, and "
                "they are public: give classes=[False, True]"
            )

    @property
    def _labels(self) -> list[Any]:
        return np.unique(np.asarray(self.estimator.classes)).tolist()

    @property
    def _multiclass(self) -> bool:
        return len(self._labels) > 2

    def predict_proba_one(self, x: Record, **kwargs: Any) -> dict[Any, float]:
        """The newest release's probabilities; equal ones before there is one.

        A missing value counts as the middle of its bounds.

        Raises:
            NotImplementedError: if the estimator's loss gives no probabilities.
        """
        labels = self._labels
        if not self._released:
            return dict.fromkeys(labels, 1.0 / len(labels))
        model = self.estimator.model_
        if model.link == "sign":
            raise NotImplementedError(
                f"{type(self.estimator).__name__} gives no probabilities; take loss='log_loss'"
            )
        chances = model.chances(model.scores(self._feed.columns(x)))[0]
        return dict(zip(labels, chances.tolist(), strict=True))

    def predict_one(self, x: Record, **kwargs: Any) -> Any:
        """The newest release's label; None before there is one."""
        if not self._released:
            return None
        model = self.estimator.model_
        return self._labels[int(model.choices(model.scores(self._feed.columns(x)))[0])]

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """Probabilities for several."""
        rows = [self.predict_proba_one(x) for x in _records(X)]
        return pd.DataFrame(rows, index=X.index, columns=self._labels)

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Labels for several."""
        return pd.Series([self.predict_one(x) for x in _records(X)], index=X.index, dtype=object)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {
            "estimator": PrivateLogisticRegression(
                budget=Rehearsal(epsilon=5.0, delta=1e-4),
                bounds=(-1.0, 1.0),
                classes=(False, True),
                release_every=20,
            )
        }
