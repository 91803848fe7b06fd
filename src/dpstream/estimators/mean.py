"""Means and sums of columns, kept fresh: ``PrivateMean``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from dpstream.estimators.stream_estimator import Declaration, StreamEstimator
from dpstream.learners.learner import Learner
from dpstream.learners.sums.running_sum import RunningSum
from dpstream.release import Release

Model = Mapping[str, Any]

LARGEST_CALL = 1 << 16
"""At most so many records in one call without ``release_every``: it sizes integers, not noise."""


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateMean(StreamEstimator):
    """The mean of every column: ``mean_``, ``sum_``, and their standard errors by noise.

    Without ``count`` a missing value's record counts as the middle of its bounds.

    Attributes:
        count: whether to measure how many records count, which costs a part of the budget.
    """

    count: bool = False

    def _target(self, y: Any, name: str, *, rehearsed: bool) -> None:
        return None

    def _make_learner(self, declared: Declaration) -> Learner[Any]:
        count = self.count or not declared.counted
        return RunningSum(
            **declared.shared,
            horizon=declared.horizon,
            count=count,
            tick_records=self.release_every or LARGEST_CALL,
        )

    def fit(self, X: Any, y: Any = None, *, users: Any = None, timestamps: Any = None) -> Self:
        """Begin a stream with these records; spends the grant.

        Args:
            X: records: a matrix, or a pandas, polars or pyarrow table.
            y: ignored.
            users: whose record each is, with ``user_cap``.
            timestamps: the public clock of each, with ``interval``.
        """
        return self._learn(X, None, users, timestamps, begin=True, targeted=False)

    def partial_fit(
        self, X: Any, y: Any = None, *, users: Any = None, timestamps: Any = None
    ) -> Self:
        """Continue the stream with the records that follow; begins it if there is none.

        Args:
            X: the next records.
            y: ignored.
            users: whose record each is, with ``user_cap``.
            timestamps: the public clock of each, with ``interval``.
        """
        return self._learn(X, None, users, timestamps, begin=False, targeted=False)

    def _publish(self, release: Release[Model]) -> None:
        user = release.value["user"]
        self.sum_ = np.array(user["sum"], np.float64)
        self.sum_error_ = np.array(user["standard_error"], np.float64)
        records = release.value["records"] or release.value["count"]["value"]
        self.mean_ = self.sum_ / max(records, 1.0)
        self.mean_error_ = self.sum_error_ / max(records, 1.0)
