"""What estimators fit, from every kind of table, by every way of releasing."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn.metrics import accuracy_score
from sklearn.pipeline import make_pipeline

import dpstream as dp
from dpstream.errors import ConfigurationError, HorizonReached, SchemaError
from dpstream.estimators import (
    Grant,
    PrivateLasso,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateMean,
    PrivateProjectedLasso,
    PrivateRidge,
    PrivateSGDClassifier,
    PrivateSGDRegressor,
    PublicScaler,
    Rehearsal,
    WindowedLinearRegression,
    WindowedLogisticRegression,
)
from dpstream.mechanisms.public import public_generator

GENERATOR = public_generator(2)
ROWS = 4000
TRUTH = np.array([0.5, -0.3])
X = GENERATOR.uniform(-1, 1, (ROWS, 2))
Y = X @ TRUTH + 0.1 + 0.05 * GENERATOR.standard_normal(ROWS)
LABELS = np.where(X @ [2.0, -2.0] + 0.3 * GENERATOR.standard_normal(ROWS) > 0, "yes", "no")
FUNDS = {"epsilon": 8.0, "delta": 1e-6}


def options(**more: Any) -> dict[str, Any]:
    return {"budget": Grant(**FUNDS), "bounds": (-1, 1), "horizon": 1, **more}


def numbers(**more: Any) -> dict[str, Any]:
    return options(target_bounds=(-1, 1), **more)


REGRESSIONS = {
    "linear": lambda: PrivateLinearRegression(**numbers()),
    "ridge": lambda: PrivateRidge(**numbers(), alpha=0.1),
    "lasso": lambda: PrivateLasso(**numbers(intervals=False), radius=5.0),
    "projected": lambda: PrivateProjectedLasso(**numbers(), radius=5.0),
    "windowed": lambda: WindowedLinearRegression(**numbers() | {"horizon": None}, window=2),
    "decayed": lambda: WindowedLinearRegression(**numbers() | {"horizon": None}, decay=0.9),
    "huber": lambda: PrivateSGDRegressor(**numbers() | {"horizon": 8}, loss="huber"),
    "batch": lambda: PrivateSGDRegressor(
        **numbers(), solver="moment_regression", alpha=1e-3, radius=4.0
    ),
}


@pytest.mark.parametrize("name", REGRESSIONS)
def test_regressions_find_the_truth(name: str) -> None:
    model = REGRESSIONS[name]()
    if model.horizon == 8:
        for part in np.split(np.arange(ROWS), 8):
            model.partial_fit(X[part], Y[part])
    else:
        model.fit(X, Y)
    np.testing.assert_allclose(model.coef_, TRUTH, atol=0.12)
    assert model.intercept_ == pytest.approx(0.1, abs=0.12)
    assert model.score(X, Y) > 0.8
    np.testing.assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_, atol=1e-9)
    assert 0.9 * FUNDS["epsilon"] < model.privacy_.epsilon_spent <= FUNDS["epsilon"]


CLASSIFIERS = {
    "logistic": lambda: PrivateLogisticRegression(
        **options(classes=["no", "yes"]) | {"horizon": 8}
    ),
    "hinge": lambda: PrivateSGDClassifier(
        **options(classes=["no", "yes"]) | {"horizon": 8}, loss="hinge"
    ),
    "iterate": lambda: PrivateSGDClassifier(
        **options(classes=["no", "yes"]), solver="iterate", alpha=0.02
    ),
    "batch": lambda: PrivateLogisticRegression(
        **options(classes=["no", "yes"]), solver="output_perturbation", alpha=0.01
    ),
    "windowed": lambda: WindowedLogisticRegression(
        **options(classes=["no", "yes"]) | {"horizon": None}, window=2000, release_every=500
    ),
    "decayed": lambda: WindowedLogisticRegression(
        **options(classes=["no", "yes"]) | {"horizon": None}, decay=0.8, release_every=500
    ),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_find_the_labels(name: str) -> None:
    model = CLASSIFIERS[name]()
    if model.horizon == 8:
        for part in np.split(np.arange(ROWS), 8):
            model.partial_fit(X[part], LABELS[part])
    else:
        model.fit(X, LABELS)
    assert accuracy_score(LABELS, model.predict(X)) > 0.85
    assert model.coef_.shape == (1, 2)
    if hasattr(model, "predict_proba"):
        chances = model.predict_proba(X[:5])
        np.testing.assert_allclose(chances.sum(axis=1), 1.0)
        np.testing.assert_array_equal(model.classes_[chances.argmax(axis=1)], model.predict(X[:5]))
    else:
        assert model.loss == "hinge"


def test_the_solver_is_chosen_by_simulation_without_looking_at_records() -> None:
    model = PrivateLogisticRegression(
        **options(classes=["no", "yes"]), solver="auto", alpha=0.01
    ).fit(X[:500], LABELS[:500])
    solver = model.release_.provenance["learner"]
    assert solver == "priv_inc_erm"
    with pytest.raises(ConfigurationError, match="known: leader, iterate, auto, noisy_sgd"):
        PrivateLogisticRegression(**options(classes=["no", "yes"]), solver="lbfgs").fit(X, LABELS)


# --- tables ---------------------------------------------------------------------------------------

COLUMNS: dict[str, Any] = {
    "age": X[:, 0] * 50 + 50,
    "region": np.where(X[:, 1] > 0, "north", "south"),
    "member": X[:, 0] > X[:, 1],
}
KINDS: dict[str, Any] = {"age": (0, 100), "region": ["south", "north"], "member": "boolean"}
TABLES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
}


@pytest.mark.parametrize("kind", TABLES)
def test_every_kind_of_table_gives_the_same_fit(kind: str) -> None:
    def fitted(make: Any) -> PrivateRidge:
        rehearsed = Rehearsal(epsilon=1.0, delta=1e-6)
        return PrivateRidge(
            **numbers(intervals=False) | {"budget": rehearsed, "bounds": KINDS}
        ).fit(make(COLUMNS), Y)

    model, other = fitted(TABLES[kind]), fitted(pd.DataFrame)
    np.testing.assert_array_equal(model.coef_, other.coef_)
    assert list(model.feature_names_in_) == ["age", "region", "member"]
    assert model.coefficient_names_ == ("age", "region=north", "region=other", "member")
    table = TABLES[kind](COLUMNS)
    np.testing.assert_array_equal(model.predict(table), other.predict(pd.DataFrame(COLUMNS)))
    named = {item.name: item.stated for item in model.privacy_.bounds}
    assert named["region"] == "one of south, north, or other"


def test_targets_come_from_any_column() -> None:
    rehearsed = Rehearsal(epsilon=1.0, delta=1e-6)
    fits = [
        PrivateRidge(**numbers(intervals=False) | {"budget": rehearsed}).fit(X, y).coef_
        for y in (Y, Y.tolist(), pd.Series(Y), pl.Series(Y), pa.chunked_array([Y]))
    ]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit, fits[0])


def test_other_columns_than_before_are_refused() -> None:
    model = PrivateRidge(**numbers() | {"bounds": KINDS}).fit(pd.DataFrame(COLUMNS), Y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(pd.DataFrame(COLUMNS).rename(columns={"age": "years"}))
    with pytest.raises(ValueError, match="expecting 2 features"):
        PrivateRidge(**numbers()).fit(X, Y).predict(X[:, :1])


def test_a_missing_value_makes_its_record_null_and_stops_nothing() -> None:
    def count(values: np.ndarray[Any, Any]) -> float:
        rehearsed = Rehearsal(epsilon=8.0, delta=1e-6)
        model = PrivateMean(**options(count=True) | {"budget": rehearsed}).fit(values)
        return model.release_.value["count"]["value"]

    gaps = X.copy()
    gaps[::4, 0] = np.nan
    gaps[1::4, 1] = np.inf
    # Bound: six standard errors of each noise, of a count at epsilon 8.
    assert count(X) == pytest.approx(ROWS, abs=20)
    assert count(gaps) == pytest.approx(ROWS / 2, abs=20)


def test_values_beyond_their_bounds_count_as_the_bounds() -> None:
    def fitted(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        rehearsed = Rehearsal(epsilon=1.0, delta=1e-6)
        model = PrivateRidge(**numbers(intervals=False) | {"budget": rehearsed})
        return model.fit(values, Y).coef_

    np.testing.assert_array_equal(fitted(3 * X), fitted(np.clip(3 * X, -1, 1)))


# --- releases -------------------------------------------------------------------------------------


def test_one_stream_however_it_is_cut() -> None:
    def fitted(parts: int) -> PrivateRidge:
        model = PrivateRidge(
            **numbers(intervals=False) | {"budget": Rehearsal(epsilon=1.0, delta=1e-6)},
            release_every=500,
        )
        model.set_params(horizon=None)
        for part in np.array_split(np.arange(ROWS), parts):
            model.partial_fit(X[part], Y[part])
        return model

    one, many = fitted(1), fitted(7)
    assert one.release_ == many.release_
    assert [release.tick for release in many.releases()] == list(range(1, 9))


def test_fit_begins_anew_and_partial_fit_goes_on() -> None:
    model = PrivateRidge(
        **numbers(intervals=False) | {"budget": Rehearsal(epsilon=1.0, delta=1e-6)}
    ).set_params(horizon=None)
    first = model.fit(X, Y).release_
    second = model.partial_fit(X, Y).release_
    assert (first.provenance["records"], second.provenance["records"]) == (ROWS, 2 * ROWS)
    assert model.fit(X, Y).release_ == first


def test_more_releases_than_the_horizon_are_refused() -> None:
    model = PrivateRidge(**numbers()).fit(X, Y)
    with pytest.raises(HorizonReached, match="tick 1"):
        model.partial_fit(X, Y)
    assert model.predict(X[:1]).shape == (1,)


def test_a_single_release_has_less_noise_than_a_stream_without_end() -> None:
    def noise(horizon: int | None) -> float:
        rehearsed = Rehearsal(epsilon=1.0, delta=1e-6)
        more = {"budget": rehearsed, "horizon": horizon}
        model = PrivateLinearRegression(**numbers(intervals=False) | more).fit(X, Y)
        return model.release_.value["noise"]["standard_deviation"]

    assert 2.0 < noise(None) / noise(1) < 3.0


def test_timestamps_close_ticks_and_hide_how_many_records_came() -> None:
    times = np.arange(ROWS) * 1.0
    model = PrivateLinearRegression(**numbers() | {"horizon": None}, interval=1000.0)
    model.fit(X, Y, timestamps=times)
    # Four intervals were begun, three of them closed by a later reading.
    assert model.release_.tick == 3
    assert model.release_.provenance["records"] is None
    classifier = PrivateLogisticRegression(
        **options(classes=["no", "yes"]) | {"horizon": None}, interval=1000.0
    ).fit(X, LABELS, timestamps=times)
    assert classifier.release_.value["records"] is None
    with pytest.raises(ConfigurationError, match="needs a public number of records"):
        PrivateLogisticRegression(
            **options(classes=["no", "yes"]), interval=1000.0, solver="noisy_sgd"
        ).fit(X, LABELS, timestamps=times)


def test_users_are_capped() -> None:
    def counted(users: Any, cap: int) -> float:
        model = PrivateMean(**options(count=True, user_cap=cap)).fit(X, users=users)
        assert model.privacy_.unit.startswith("one user")
        return model.release_.value["count"]["value"]

    one = np.zeros(ROWS, int)
    # Bound: over six standard errors of a count at epsilon 8 and cap 3.
    assert counted(one, 3) == pytest.approx(3, abs=60)
    assert counted(np.arange(ROWS), 3) == pytest.approx(ROWS, abs=60)


def test_metadata_is_routed_through_a_pipeline() -> None:
    users = np.arange(ROWS) // 2
    with sklearn.config_context(enable_metadata_routing=True):
        ridge = PrivateRidge(**numbers(user_cap=2, bounds=None) | {"bounds": None})
        model = make_pipeline(PublicScaler(bounds=(-1, 1)), ridge.set_fit_request(users=True))
        model.fit(X, Y, users=users)
        assert ridge.privacy_.unit.startswith("one user")
        with pytest.raises(TypeError, match="unexpected argument"):
            model.fit(X, Y, ages=users)


def test_users_and_timestamps_must_be_declared() -> None:
    with pytest.raises(ConfigurationError, match="so that they would change nothing"):
        PrivateRidge(**numbers()).fit(X, Y, users=np.arange(ROWS))
    with pytest.raises(ConfigurationError, match=r"needs users: call fit\(X, y, users="):
        PrivateRidge(**numbers(user_cap=3)).fit(X, Y)
    with pytest.raises(ConfigurationError, match="needs timestamps"):
        PrivateRidge(**numbers(interval=60.0)).fit(X, Y)
    with pytest.raises(SchemaError, match="user has 1"):
        PrivateRidge(**numbers(user_cap=3)).fit(X, Y, users=[1])


# --- what is known of a fit -----------------------------------------------------------------------


def test_intervals_hold_the_truth() -> None:
    model = PrivateLinearRegression(**numbers()).fit(X, Y)
    known = model.intervals_
    assert known.coef.shape == (2, 2)
    # One draw; 95 % intervals widened threefold hold a coefficient but once in 10^8 draws.
    middle, half = known.coef.mean(axis=1), np.diff(known.coef, axis=1)[:, 0] / 2
    assert (np.abs(middle - TRUTH) < 3 * half).all()
    assert known.intercept is not None
    assert (known.coef_noise[:, 1] > known.coef_noise[:, 0]).all()
    bare = PrivateLinearRegression(**numbers(fit_intercept=False)).fit(X, Y)
    assert bare.intervals_.intercept is None
    assert bare.intercept_ == 0.0
    windowed = WindowedLinearRegression(**numbers() | {"horizon": None}, decay=0.9).fit(X, Y)
    with pytest.raises(AttributeError, match="knows no intervals"):
        _ = windowed.intervals_


def test_the_card_says_what_the_fit_promised() -> None:
    model = PrivateRidge(**numbers(neighbours="replace")).fit(X, Y)
    card = model.privacy_
    assert card.neighbours.startswith("replace")
    assert "(8, 1e-06)-differential privacy" in card.statement
    assert [item.name for item in card.bounds] == ["x0", "x1", "target"]


def test_means_are_known_with_their_errors() -> None:
    model = PrivateMean(**options()).fit(X)
    # Six standard errors by noise; the mean of the records themselves is what is measured.
    assert (np.abs(model.mean_ - X.mean(axis=0)) < 6 * model.mean_error_).all()
    assert (np.abs(model.sum_ - X.sum(axis=0)) < 6 * model.sum_error_).all()


def test_names_that_clash_with_our_own_are_kept_apart() -> None:
    table = pd.DataFrame({"target": X[:, 0], "user": X[:, 1]})
    model = PrivateRidge(**numbers(user_cap=1)).fit(table, Y, users=np.arange(ROWS))
    assert [item.name for item in model.privacy_.bounds] == ["target", "user", "target_"]
    assert model.release_.guarantee.unit.column == "user_"


def test_neighbours_and_whole_numbers_are_checked() -> None:
    for wrong, told in (
        ({"neighbours": "add_remove"}, "give zero_out or replace"),
        ({"horizon": 0}, "horizon=0; it must be None or a whole number from 1"),
        ({"release_every": 1.5}, "release_every=1.5; it must be None or a whole number"),
        ({"release_every": 10, "interval": 5.0}, "ticks close by one of them"),
    ):
        model = PrivateRidge(**numbers() | wrong)
        with pytest.raises(ConfigurationError, match=told):
            model.fit(X, Y, timestamps=np.arange(ROWS) if "interval" in wrong else None)
        assert model.budget.state == "funded"


def test_the_public_schedule_of_calls_closes_a_tick_for_each() -> None:
    from dpstream.engine.call_schedule import EveryCall
    from dpstream.engine.schedule import Position

    schedule = EveryCall()
    (segment,) = schedule.segments(Position(tick=3, records=10), 5, None)
    assert segment.closes is not None
    assert (segment.start, segment.stop) == (0, 5)
    assert (segment.closes.number, segment.closes.records) == (3, 15)
    assert (segment.after.tick, segment.after.records) == (4, 15)
    assert list(schedule.segments(Position(), 0, None)) == []
    assert schedule.describe() == {"every_call": True}
    assert schedule.horizon_ticks(100) is None
    assert dp.EveryRecords(records=5).describe() != schedule.describe()
