"""A budget cannot be duplicated, whatever scikit-learn does with an estimator."""

import copy
import os
import pickle
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import BaggingRegressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import dpstream as dp
from dpstream.errors import (
    BudgetExceeded,
    ConfigurationError,
    SchemaError,
    StoreLocked,
    StoreMismatch,
)
from dpstream.estimators import (
    Grant,
    PrivateLogisticRegression,
    PrivateMean,
    PrivateRidge,
    PublicScaler,
    Rehearsal,
    WindowedLogisticRegression,
)
from dpstream.mechanisms.public import public_generator

GENERATOR = public_generator(0)
X = GENERATOR.uniform(-1, 1, (200, 3))
Y = X @ [0.5, -0.3, 0.2] + 0.1 * GENERATOR.standard_normal(200)


def grant() -> Grant:
    return Grant(epsilon=1.0, delta=1e-6)


def ridge(budget: Any = None, **options: Any) -> PrivateRidge:
    return PrivateRidge(
        budget=grant() if budget is None else budget,
        bounds=(-1, 1),
        target_bounds=(-1, 1),
        intervals=False,
        **options,
    )


COPIES = {
    "clone": clone,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda item: pickle.loads(pickle.dumps(item)),
    "clone of a pipeline": lambda item: clone(make_pipeline(PublicScaler(), item))[-1],
}


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_is_not_funded_and_says_why(how: str) -> None:
    original = ridge()
    copied = COPIES[how](original)
    with pytest.raises(BudgetExceeded, match="is a copy, and copies are not funded") as told:
        copied.fit(X, Y)
    assert "Rehearsal" in str(told.value)
    assert "set_params(budget=Grant(" in str(told.value)
    # The copying took nothing from the original, which still pays once.
    original.fit(X, Y)


@pytest.mark.parametrize("how", [name for name in COPIES if "clone" not in name])
def test_a_copy_of_a_fitted_estimator_predicts_and_cannot_learn(how: str) -> None:
    original = ridge().fit(X, Y)
    copied = COPIES[how](original)
    np.testing.assert_array_equal(copied.predict(X), original.predict(X))
    assert copied.privacy_ == original.privacy_
    assert copied.release_ == original.release_
    with pytest.raises(ConfigurationError, match="its stream stayed with the original"):
        copied.partial_fit(X, Y)
    with pytest.raises(BudgetExceeded):
        copied.fit(X, Y)
    # The original goes on.
    assert original.partial_fit(X, Y).release_.tick == 2


def test_a_grant_pays_for_one_fit_and_names_who_spent_it() -> None:
    money = grant()
    first = ridge(money).fit(X, Y)
    with pytest.raises(BudgetExceeded, match="PrivateRidge has spent already"):
        first.fit(X, Y)
    with pytest.raises(BudgetExceeded, match="PrivateRidge has spent already"):
        PrivateMean(budget=money, bounds=(-1, 1)).fit(X)
    # What was fitted stays fitted.
    assert first.predict(X).shape == (200,)
    first.set_params(budget=grant()).fit(X, Y)
    assert first.release_.tick == 1


def test_grid_search_cannot_overspend() -> None:
    original = ridge()
    search = GridSearchCV(original, {"alpha": [0.1, 1.0]}, cv=3, error_score="raise")
    with pytest.raises(BudgetExceeded, match="copies are not funded"):
        search.fit(X, Y)
    # Every one of its fits is refused, the refit of the best included.
    lenient = GridSearchCV(original, {"alpha": [0.1, 1.0]}, cv=3)
    with pytest.raises(ValueError, match="All the 6 fits failed"):
        lenient.fit(X, Y)
    assert original.budget.state == "funded"
    assert not hasattr(original, "release_")


def test_a_grid_of_grants_pays_for_nothing_either() -> None:
    grants = [grant(), Grant(epsilon=2.0, delta=1e-6)]
    search = GridSearchCV(ridge(), {"budget": grants}, cv=3, error_score="raise")
    with pytest.raises(BudgetExceeded, match="copies are not funded"):
        search.fit(X, Y)
    assert [item.state for item in grants] == ["funded", "funded"]


def test_cross_validation_and_ensembles_cannot_overspend() -> None:
    original = ridge()
    with pytest.raises(BudgetExceeded, match="copies are not funded"):
        cross_val_score(original, X, Y, error_score="raise")
    with pytest.raises(ValueError, match="All the 5 fits failed"):
        cross_val_score(original, X, Y)
    with pytest.raises(BudgetExceeded, match="copies are not funded"):
        BaggingRegressor(original, n_estimators=2).fit(X, Y)
    assert original.budget.state == "funded"


def test_another_process_is_not_funded() -> None:
    original = ridge()
    joblib.dump(original, "estimator.joblib")
    try:
        loaded = joblib.load("estimator.joblib")
    finally:
        os.unlink("estimator.joblib")
    with pytest.raises(BudgetExceeded, match="is a copy"):
        loaded.fit(X, Y)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            original.fit(X, Y)
            os.write(write, b"spent")
        except BudgetExceeded as refused:
            os.write(write, b"refused" if "is a copy" in str(refused) else b"other")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 16) == b"refused"
    original.fit(X, Y)


def test_a_fork_of_a_running_stream_learns_nothing() -> None:
    original = ridge().partial_fit(X, Y)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            original.partial_fit(-X, Y)
            os.write(write, b"spent")
        except StoreLocked as refused:
            os.write(write, b"refused" if "is a fork of it" in str(refused) else b"other")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 16) == b"refused"
    assert original.partial_fit(X, Y).release_.tick == 2


def test_a_search_on_public_records_runs_on_a_rehearsal_and_promises_nothing() -> None:
    rehearsed = ridge(Rehearsal(epsilon=1.0, delta=1e-6))
    search = GridSearchCV(rehearsed, {"alpha": [0.1, 1.0]}, cv=3, error_score="raise").fit(X, Y)
    best = search.best_estimator_
    assert best.release_.guarantee.insecure_seed
    assert best.privacy_.promise.startswith("NOTHING is promised")
    # The same fit again gives the same noise; a grant's is its own.
    np.testing.assert_array_equal(best.coef_, clone(best).fit(X, Y).coef_)
    paid = best.set_params(budget=grant()).fit(X, Y)
    assert not paid.release_.guarantee.insecure_seed
    assert not paid.privacy_.rehearsal


def test_a_pipeline_fits_its_own_last_step() -> None:
    model = make_pipeline(PublicScaler(bounds=(-1, 1)), ridge())
    assert model.fit(X, Y).predict(X).shape == (200,)
    with pytest.raises(BudgetExceeded, match="has spent already"):
        model.fit(X, Y)


def test_what_fails_before_a_record_is_taken_costs_nothing() -> None:
    estimator = ridge()
    words = X.astype(object)
    words[7, 1] = "seven hundred"
    with pytest.raises(SchemaError, match="record 8 of X: column 'x1'") as told:
        estimator.fit(words, Y)
    assert "seven" not in str(told.value)
    assert estimator.budget.state == "funded"
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        estimator.fit(X, Y[:-1])
    with pytest.raises(ConfigurationError, match="bounds for"):
        estimator.set_params(bounds=([0, 0], [1, 1])).fit(X, Y)
    assert estimator.set_params(bounds=(-1, 1)).fit(X, Y).budget.state == "spent"


def test_what_fails_later_is_spent() -> None:
    estimator = ridge().fit(X, Y)
    words = X.astype(object)
    words[7, 1] = "seven"
    with pytest.raises(SchemaError):
        estimator.partial_fit(words, Y)
    assert estimator.budget.state == "spent"
    assert estimator.partial_fit(X, Y).release_.tick == 2


def test_a_fit_that_would_release_nothing_is_refused_before_it_costs() -> None:
    estimator = ridge(release_every=500)
    with pytest.raises(ConfigurationError, match="fill no tick"):
        estimator.fit(X, Y)
    assert estimator.budget.state == "funded"
    estimator.partial_fit(X, Y)
    assert not hasattr(estimator, "release_")
    estimator.partial_fit(X, Y).partial_fit(X, Y)
    assert estimator.release_.tick == 1
    assert estimator.release_.provenance["records"] == 500


def test_a_stream_in_a_store_goes_on_in_another_process_for_the_same_budget(
    tmp_path: Any,
) -> None:
    path = tmp_path / "stream.db"

    def opened() -> PrivateRidge:
        return ridge(Grant(epsilon=1.0, delta=1e-6, store=dp.SqliteStore(path)))

    first = opened().fit(X, Y)
    first.close()
    later = opened().partial_fit(X, Y)
    assert later.release_.tick == 2
    later.close()
    whole = opened()
    with pytest.raises(ConfigurationError, match="already holds a stream"):
        whole.fit(X, Y)
    other = ridge(Grant(epsilon=9.0, delta=1e-6, store=dp.SqliteStore(path)))
    with pytest.raises(StoreMismatch, match="another configuration"):
        other.partial_fit(X, Y)


def test_no_estimator_takes_a_budget_that_anybody_can_copy() -> None:
    with pytest.raises(ConfigurationError, match="a pair of numbers that anybody can copy"):
        ridge(dp.Budget(epsilon=1.0, delta=1e-6)).fit(X, Y)
    unfunded = PrivateRidge(bounds=(-1, 1), target_bounds=(-1, 1))
    with pytest.raises(ConfigurationError, match="has no budget"):
        unfunded.fit(X, Y)


def test_bounds_and_classes_are_never_learned() -> None:
    with pytest.raises(ConfigurationError, match="does not know the bounds of its columns"):
        PrivateRidge(budget=grant(), target_bounds=(-1, 1)).fit(X, Y)
    with pytest.raises(ConfigurationError, match="no target_bounds"):
        PrivateRidge(budget=grant(), bounds=(-1, 1)).fit(X, Y)
    for kind in (PrivateLogisticRegression, WindowedLogisticRegression):
        with pytest.raises(ConfigurationError, match="does not know its classes"):
            kind(budget=grant(), bounds=(-1, 1), release_every=10).fit(X, Y > 0)


def test_two_grants_give_two_noises_and_one_grant_one_ledger() -> None:
    one, two = (PrivateMean(budget=grant(), bounds=(-1, 1)).fit(X) for _ in range(2))
    assert not np.array_equal(one.sum_, two.sum_)
    assert 0.99 < one.privacy_.epsilon_spent <= 1.0
    one.partial_fit(X)
    assert 0.99 < one.privacy_.epsilon_spent <= 1.0
