"""Records handed in as lists: no cell of one record decides how another's is read.

numpy makes one type of a whole list: beside a text 1.0 becomes the text "1.0", which is not the
level 1, and beside a fraction True becomes 1.0. One record could so have emptied all others.
"""

from typing import Any

import numpy as np
import polars as pl
import pytest

from dpstream.errors import SchemaError
from dpstream.estimators import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PublicHashing,
    PublicOneHot,
    Rehearsal,
)
from dpstream.estimators.records import table, targets

NUMBERS: list[Any] = [0, 1, 7, 0.0, 1.0, 0.5, 2**53 + 1, 2**63, -1, 10**40, np.float32(1.0)]
OTHERS: list[Any] = [True, False, "0", "1.0", "1\0", "text", "", None, float("nan"), float("inf")]
CELLS = [*NUMBERS, *OTHERS]
FUNDS = Rehearsal(epsilon=1.0, delta=1e-6)
LEVELS = ["0", "1", "7", "True", "1.0", "1\0", str(2**53 + 1), str(2**63), "-1"]


def number() -> PrivateLinearRegression:
    return PrivateLinearRegression(budget=FUNDS, bounds={"x0": LEVELS}, target_bounds=(-9, 9))


def label() -> PrivateLogisticRegression:
    return PrivateLogisticRegression(budget=FUNDS, bounds=(-9, 9), classes=LEVELS)


def by_features(cells: list[Any]) -> np.ndarray[Any, Any]:
    rows = [[cell] for cell in cells]
    return number().admitted(table(rows, owner="x"), targets([0.5] * len(rows), owner="x")).rows


def by_targets(cells: list[Any]) -> np.ndarray[Any, Any]:
    rows = [[0.5]] * len(cells)
    return label().admitted(table(rows, owner="x"), targets(cells, owner="x")).rows


def by_numbers(cells: list[Any]) -> np.ndarray[Any, Any]:
    estimator = PrivateLinearRegression(budget=FUNDS, bounds=(-9, 9), target_bounds=(-9, 9))
    rows = [[cell] for cell in cells]
    return estimator.admitted(table(rows, owner="x"), targets(cells, owner="x")).rows


def by_indicators(cells: list[Any]) -> np.ndarray[Any, Any]:
    rows = [[cell] for cell in cells]
    return np.asarray(PublicOneHot(categories=LEVELS).fit_transform(rows))


def by_hashes(cells: list[Any]) -> np.ndarray[Any, Any]:
    rows = [[cell] for cell in cells]
    return np.asarray(PublicHashing(n_features=64).fit_transform(rows))


READERS = [by_features, by_targets, by_numbers, by_indicators, by_hashes]


@pytest.mark.parametrize("read", READERS, ids=[read.__name__ for read in READERS])
def test_a_record_of_a_list_is_read_the_same_beside_any_other(read: Any) -> None:
    pairs = 0
    for cell in CELLS:
        seen: list[bytes] = []
        for other in CELLS:
            try:
                # Twice, so that beside itself the list is of one type.
                seen.append(read([cell, cell, other])[:2].tobytes())
            except SchemaError:
                assert read in (by_numbers,)  # text where a number is declared stops the batch
                assert any(isinstance(each, str) and each != "" for each in (cell, other))
        pairs += len(seen)
        assert len(set(seen)) <= 1, cell
    assert pairs > len(CELLS) ** 2 / 2


def test_integer_targets_with_gaps_are_not_made_fractions() -> None:
    large = 2**53 + 1
    labels = pl.Series([large, None, 0])
    estimator = PrivateLogisticRegression(budget=FUNDS, bounds=(-1, 1), classes=[0, large])
    rows = estimator.admitted(np.zeros((3, 1)), targets(labels, owner="x")).rows
    assert rows[:, 0].tolist() == [2.0**20, 0.0, 2.0**20]
