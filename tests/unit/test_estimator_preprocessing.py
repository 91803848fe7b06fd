"""Public preprocessing: nothing is fitted on records, and bounds flow through to the card."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from dpstream.errors import ConfigurationError
from dpstream.estimators import (
    Grant,
    PrivateLogisticRegression,
    PrivateRidge,
    PublicHashing,
    PublicOneHot,
    PublicRandomProjection,
    PublicScaler,
    Rehearsal,
)
from dpstream.estimators.bounds import BoundedArray
from dpstream.mechanisms.public import public_generator

GENERATOR = public_generator(3)
ROWS = 300
X = GENERATOR.uniform(-5, 25, (ROWS, 3))
WORDS = pd.DataFrame(
    {
        "region": GENERATOR.choice(["north", "south", "nowhere"], ROWS),
        "size": GENERATOR.choice(["s", "m", "l"], ROWS),
    }
)
Y = GENERATOR.uniform(-1, 1, ROWS)


def ridge(**options: Any) -> PrivateRidge:
    rehearsed = Rehearsal(epsilon=1.0, delta=1e-6)
    settings: dict[str, Any] = {"budget": rehearsed, "target_bounds": (-1, 1), "intervals": False}
    return PrivateRidge(**settings | options)


STEPS = {
    "scaler": (lambda: PublicScaler(bounds=(0, 20)), X),
    "one hot": (lambda: PublicOneHot(categories=[["north", "south"], ["s", "m"]]), WORDS),
    "hashing": (lambda: PublicHashing(n_features=16), WORDS),
    "projection": (lambda: PublicRandomProjection(n_components=2, bounds=(0, 20)), X),
}


@pytest.mark.parametrize("name", STEPS)
def test_nothing_is_learned_from_the_records(name: str) -> None:
    make, data = STEPS[name]
    shuffled = data[::-1] if isinstance(data, np.ndarray) else data.iloc[::-1]
    fitted, other = make().fit(data), make().fit(shuffled[:1])
    np.testing.assert_array_equal(fitted.transform(data), other.transform(data))


@pytest.mark.parametrize("name", STEPS)
def test_a_row_is_mapped_by_itself(name: str) -> None:
    make, data = STEPS[name]
    whole = make().fit(data).transform(data)
    rows = data if isinstance(data, np.ndarray) else data.reset_index(drop=True)
    for place in (0, 17, ROWS - 1):
        alone = make().fit(data).transform(rows[place : place + 1])
        np.testing.assert_array_equal(np.asarray(alone)[0], np.asarray(whole)[place])


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 16, 63, 1000, 8192])
def test_any_batching_gives_the_same_bytes(name: str, rows: int) -> None:
    # Wide enough for matrix products to change their order of summation with a table's shape.
    generator = public_generator(rows)
    if name in ("scaler", "projection"):
        data: Any = generator.uniform(-5, 25, (max(rows, 2), 97))
        step = STEPS[name][0]()
        if name == "projection":
            step.set_params(n_components=33)
    else:
        words = generator.choice(["north", "south", "s", "m", "nowhere"], (max(rows, 2), 9))
        data = pd.DataFrame(words, columns=[f"w{place}" for place in range(9)])
        step = PublicHashing(n_features=16)
        if name == "one hot":
            step = PublicOneHot(categories=["north", "south", "s", "m"])
    whole = np.asarray(step.fit(data).transform(data))
    for start, stop in ((0, 1), (rows // 2, rows // 2 + 1), (0, rows), (1, min(rows, 6) + 1)):
        part = data[start:stop] if isinstance(data, np.ndarray) else data.iloc[start:stop]
        assert np.asarray(step.transform(part)).tobytes() == whole[start:stop].tobytes()
        turned = np.asfortranarray(part) if isinstance(part, np.ndarray) else part
        assert np.asarray(step.transform(turned)).tobytes() == whole[start:stop].tobytes()


@pytest.mark.parametrize("name", STEPS)
def test_what_comes_out_keeps_the_bounds_that_are_handed_on(name: str) -> None:
    make, data = STEPS[name]
    wild = data * 1e6 if isinstance(data, np.ndarray) else data
    found = make().fit(data).transform(wild)
    bounded = found.bounded
    assert bounded is not None
    assert len(bounded.columns) == found.shape[1]
    for place, column in enumerate(bounded.columns):
        if column.lower is not None:
            assert column.lower <= found[:, place].min()
            assert found[:, place].max() <= column.upper
    if bounded.norm is not None:
        assert np.linalg.norm(found, axis=1).max() <= bounded.norm * (1 + 1e-12)


@pytest.mark.parametrize("name", STEPS)
def test_bounds_flow_through_a_pipeline_and_onto_the_card(name: str) -> None:
    make, data = STEPS[name]
    model = make_pipeline(make(), ridge()).fit(data, Y)
    card = model[-1].privacy_
    features = [item for item in card.bounds if item.name not in ("target", "the whole record")]
    assert len(features) == model[-1].n_features_in_
    assert all(type(model[0]).__name__ in item.provenance for item in features)
    assert model.predict(data).shape == (ROWS,)


def test_steps_follow_one_another() -> None:
    model = make_pipeline(
        PublicScaler(bounds=([0, 0, -5], [20, 10, 25])),
        PublicRandomProjection(n_components=2),
        ridge(),
    ).fit(X, Y)
    domain = model[-1].saved_model().scores.domain
    assert domain.norm_bound == pytest.approx(np.sqrt(3))
    onwards = make_pipeline(
        PublicOneHot(categories={"region": ["north", "south"], "size": ["s", "m", "l"]}),
        PrivateLogisticRegression(budget=Rehearsal(epsilon=1.0, delta=1e-6), classes=[False, True]),
    ).fit(WORDS, Y > 0)
    # One indicator of each column is 1: the record's length is the root of their number.
    assert onwards[-1].saved_model().scores.domain.norm_bound == pytest.approx(np.sqrt(2))


def test_a_scaler_maps_bounds_to_its_range() -> None:
    scaler = PublicScaler(bounds=(0, 20), feature_range=(0, 1)).fit(X)
    found = np.asarray(scaler.transform([[0.0, 20.0, 10.0], [-7.0, 99.0, 5.0]]))
    np.testing.assert_array_equal(found, [[0.0, 1.0, 0.5], [0.0, 1.0, 0.25]])


def test_indicators_are_of_the_declared_vocabulary() -> None:
    encoder = PublicOneHot(categories=["north", "south"]).fit(WORDS[["region"]])
    found = np.asarray(encoder.transform(pd.DataFrame({"region": ["south", "mars"]})))
    assert list(encoder.get_feature_names_out()) == ["region=north", "region=south", "region=other"]
    np.testing.assert_array_equal(found, [[0, 1, 0], [0, 0, 1]])


def test_hashes_are_public_and_stable() -> None:
    table = pd.DataFrame({"region": ["north", "south"]})
    found = np.asarray(PublicHashing(n_features=4, seed=1).fit(table).transform(table))
    again = np.asarray(
        PublicHashing(n_features=4, seed=1).fit(table).transform(pl.from_pandas(table))
    )
    np.testing.assert_array_equal(found, again)
    np.testing.assert_array_equal(np.abs(found).sum(axis=1), [1.0, 1.0])
    other = np.asarray(PublicHashing(n_features=64, seed=2).fit(table).transform(table))
    assert np.argmax(np.abs(other[0])) != np.argmax(np.abs(other[1]))


def test_a_missing_value_makes_the_whole_row_null() -> None:
    gaps = X.copy()
    gaps[3, 1] = np.nan
    gaps[5, 0] = np.inf
    for step in (
        PublicScaler(bounds=(0, 20)),
        PublicRandomProjection(n_components=2, bounds=(0, 20)),
    ):
        found = np.asarray(step.fit(X).transform(gaps))
        assert np.isnan(found[3]).all()
        assert np.isfinite(np.delete(found, [3, 5], axis=0)).all()
    words = WORDS.copy()
    words.loc[2, "size"] = None
    for step in (PublicOneHot(categories=["north", "s"]), PublicHashing(n_features=8)):
        found = np.asarray(step.fit(WORDS).transform(words))
        assert np.isnan(found[2]).all()
        assert np.isfinite(np.delete(found, 2, axis=0)).all()


def test_bounds_are_lost_by_whatever_may_break_them() -> None:
    handed = PublicScaler(bounds=(0, 20)).fit(X).transform(X)
    assert isinstance(handed, BoundedArray)
    for changed in (handed * 5, handed[:, ::-1], handed + 1, handed.copy(), handed.T):
        assert getattr(changed, "bounded", None) is None
    with pytest.raises(ConfigurationError, match="does not know the bounds"):
        ridge().fit(handed * 5, Y)
    assert ridge().fit(handed, Y).predict(X).shape == (ROWS,)


def test_an_estimators_own_bounds_come_first() -> None:
    model = make_pipeline(PublicScaler(bounds=(0, 20)), ridge(bounds=(-0.5, 0.5))).fit(X, Y)
    stated = {item.name: item.stated for item in model[-1].privacy_.bounds}
    assert stated["x0"] == "a number, clipped to [-0.5, 0.5]"


def test_names_come_out_as_they_should() -> None:
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    scaler = PublicScaler(bounds=(0, 20)).fit(table)
    assert list(scaler.get_feature_names_out()) == ["a", "b", "c"]
    projection = PublicRandomProjection(n_components=2, bounds=(0, 20)).fit(table)
    assert list(projection.get_feature_names_out()) == ["projection0", "projection1"]
    model = make_pipeline(scaler, clone(projection)).fit(table)
    assert list(model.get_feature_names_out()) == ["projection0", "projection1"]


def test_a_funded_pipeline_spends_once() -> None:
    money = Grant(epsilon=1.0, delta=1e-6)
    model = make_pipeline(PublicScaler(bounds=(0, 20)), ridge(budget=money)).fit(X, Y)
    assert money.state == "spent"
    assert model[-1].privacy_.epsilon_spent <= 1.0


def test_what_cannot_be_bounded_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="use PublicOneHot for categories"):
        PublicScaler(bounds={"region": ["north"], "size": ["s"]}).fit(WORDS)
    with pytest.raises(ConfigurationError, match="put PublicOneHot or PublicHashing before it"):
        PublicRandomProjection(bounds={"region": ["north"], "size": ["s"]}).fit(WORDS)
    with pytest.raises(ConfigurationError, match="vocabulary is public"):
        PublicOneHot().fit(WORDS)
    with pytest.raises(ConfigurationError, match="does not know the bounds"):
        PublicScaler().fit(X)
