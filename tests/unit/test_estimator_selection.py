"""Choosing settings on private records: billed in full, once, and never by a copy."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import dpstream as dp
from dpstream.errors import BudgetExceeded, ConfigurationError, SchemaError
from dpstream.estimators import (
    Grant,
    PrivateLasso,
    PrivateLogisticRegression,
    PrivateRidge,
    PrivateSelection,
    PrivateSGDClassifier,
    PrivateSGDRegressor,
    PublicScaler,
    Rehearsal,
    WindowedLinearRegression,
    WindowedLogisticRegression,
)
from dpstream.estimators.selection import _gains, _shares
from dpstream.learners.covering import covering
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.event import GaussianEvent
from dpstream.saved import load_model, save_model

GENERATOR = public_generator(11)
ROWS, HELD = 4000, 800
X = GENERATOR.uniform(-1, 1, (ROWS, 3))
Y = X @ [0.5, -0.3, 0.1] + 0.05 * GENERATOR.standard_normal(ROWS)
CALM = {"bounds": (-1, 1), "target_bounds": (-1, 1), "intervals": False}
LABELS = {"bounds": (-1, 1), "classes": [False, True]}


def grant(epsilon: float = 1.0) -> Grant:
    return Grant(epsilon=epsilon, delta=1e-6)


TRIAL = Rehearsal(epsilon=8.0, delta=1e-6)


def selection(budget: Any = None, grid: Any = None, **options: Any) -> PrivateSelection:
    return PrivateSelection(
        PrivateRidge(**CALM),
        {"alpha": [0.1, 1e6]} if grid is None else grid,
        budget=grant() if budget is None else budget,
        **options,
    )


def test_held_out_records_choose_what_is_good() -> None:
    made = rehearsed(X, Y)
    assert made.best_params_ == {"alpha": 0.1}
    assert made.score(X, Y) > 0.8
    np.testing.assert_array_equal(made.predict(X), made.best_estimator_.predict(X))
    labelled = PrivateSelection(
        PrivateLogisticRegression(**LABELS), {"alpha": [1e-3, 1e6]}, budget=TRIAL
    ).fit(X, Y > 0)
    assert labelled.best_params_ == {"alpha": 1e-3}
    assert labelled.score(X, Y > 0) > 0.85
    assert labelled.predict_proba(X).shape == (ROWS, 2)
    assert labelled.classes_.tolist() == [False, True]


KINDS: dict[str, tuple[Any, dict[str, list[Any]]]] = {
    "ridge": (PrivateRidge(**CALM), {"alpha": [0.1, 1.0, 10.0]}),
    "lasso": (PrivateLasso(**CALM), {"radius": [0.5, 1.0]}),
    "window": (
        WindowedLinearRegression(bounds=(-1, 1), target_bounds=(-1, 1), release_every=100),
        {"window": [4, 8]},
    ),
    "blocks": (
        WindowedLogisticRegression(**LABELS, release_every=200),
        {"window": [400, 800]},
    ),
    "leader": (PrivateLogisticRegression(**LABELS), {"alpha": [0.1, 1.0]}),
    "iterate": (
        PrivateSGDClassifier(**LABELS, solver="iterate", release_every=500, horizon=6),
        {"alpha": [0.1, 1.0]},
    ),
    "solvers": (
        PrivateLogisticRegression(**LABELS, alpha=0.1),
        {"solver": ["output_perturbation", "noisy_sgd"]},
    ),
    "approximate": (
        PrivateLogisticRegression(**LABELS, alpha=0.1, solver="objective_perturbation"),
        {"radius": [1.0, 2.0]},
    ),
    "losses": (PrivateSGDRegressor(bounds=(-1, 1), target_bounds=(-1, 1)), {"loss": ["huber"] * 2}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("neighbours", ["zero_out", "replace"])
def test_every_charge_of_every_candidate_is_on_the_bill(
    kind: str, neighbours: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    estimator, grid = KINDS[kind]
    tried: list[Any] = []
    made = PrivateSelection._candidate

    def remembered(self: PrivateSelection, *given: Any) -> Any:
        tried.append(made(self, *given))
        return tried[-1]

    monkeypatch.setattr(PrivateSelection, "_candidate", remembered)
    classified = hasattr(estimator, "classes")
    chosen = PrivateSelection(
        clone(estimator).set_params(neighbours=neighbours), grid, budget=grant()
    ).fit(X, Y > 0 if classified else Y)
    fitted = [each for each in tried if hasattr(each, "release_")]
    assert len(fitted) == sum(len(values) for values in grid.values())
    billed = [row.event for row in chosen.best_estimator_._rows]
    # The chosen one shows the whole bill; the others still show what their own streams charged.
    own = [row.event for each in fitted if each is not chosen.best_estimator_ for row in each._rows]
    known = [covering(event, (0, ROWS - HELD)) for event in own]
    assert all(event in billed for event in known)
    assert len(billed) - 1 == len(known) * len(fitted) // (len(fitted) - 1)
    assert billed[-1].covers == (ROWS - HELD, ROWS)
    card = chosen.privacy_
    assert (card.epsilon, card.delta) == (1.0, 1e-6)
    assert 0.9 < card.epsilon_spent <= 1.0
    assert neighbours in card.neighbours


def test_shares_of_gaussian_fits_are_larger_than_an_even_split() -> None:
    shares = list(_shares(Budget(epsilon=1.0, delta=1e-6), 9))
    # About a third each, at a ninth of delta; an even split gives a ninth.
    assert 2.5 < shares[0].epsilon * 9 < 3.5
    assert shares[-1].epsilon * 9 <= 1.0
    assert shares[-1].delta * 9 <= 1e-6
    assert len(list(_shares(Budget(epsilon=1.0, delta=0.0), 9))) == 1


def rehearsed(rows: Any, wanted: Any, **options: Any) -> PrivateSelection:
    return selection(TRIAL, **options).fit(rows, wanted)


def test_no_model_depends_on_a_held_out_record(monkeypatch: pytest.MonkeyPatch) -> None:
    tables: list[Any] = []
    monkeypatch.setattr(
        "dpstream.estimators.selection._gains",
        lambda *given: tables.append(_gains(*given)) or tables[-1],
    )
    whole = rehearsed(X, Y)
    changed, targets = X.copy(), Y.copy()
    place = ROWS - 17
    changed[place], targets[place] = [1.0, -1.0, np.nan], 1.0
    other = rehearsed(changed, targets)
    first, second = np.column_stack(tables[:2]), np.column_stack(tables[2:])
    differ = np.flatnonzero((first != second).any(axis=1))
    assert differ.tolist() == [HELD - 17]
    assert (second[HELD - 17] == 0.0).all()  # the null record gains by nobody
    assert first.min() >= 0.0
    assert first.max() <= 1.0
    if whole.best_index_ == other.best_index_:
        np.testing.assert_array_equal(whole.best_estimator_.coef_, other.best_estimator_.coef_)


@pytest.mark.parametrize("classified", [False, True])
def test_a_records_gains_depend_on_it_alone(classified: bool) -> None:
    model: Any = PrivateRidge(**CALM, budget=grant())
    wanted: Any = Y
    if classified:
        model, wanted = PrivateLogisticRegression(**LABELS, budget=grant()), Y > 0
    batch = clone(model).set_params(budget=grant()).admitted(X, wanted)
    model.set_params(budget=TRIAL).fit(X, wanted)
    whole = _gains(model, batch, X)
    assert whole.min() >= 0.0
    assert whole.max() <= 1.0
    assert whole.mean() > 0.8
    if classified:
        sure = model.predict_proba(X)[np.arange(ROWS), wanted.astype(int)]
        np.testing.assert_allclose(whole, 1.0 - (1.0 - sure) ** 2, atol=1e-12)
    for start, stop in ((0, 1), (5, 6), (7, 40), (0, ROWS - 1)):
        part = _gains(model, batch.slice(start, stop), X[start:stop])
        assert part.tobytes() == whole[start:stop].tobytes()


def test_gains_of_several_classes_are_briers() -> None:
    wanted = np.array(["low", "middle", "high"])[np.digitize(Y, [-0.2, 0.2])]
    labels = ["low", "middle", "high"]
    model: Any = PrivateLogisticRegression(bounds=(-1, 1), classes=labels, budget=grant(8.0))
    batch = clone(model).set_params(budget=grant()).admitted(X, wanted)
    model.fit(X, wanted)
    shares = model.predict_proba(X)
    hits = model.classes_[None, :] == wanted[:, None]
    expected = 1.0 - 0.5 * ((shares - hits) ** 2).sum(axis=1)
    np.testing.assert_allclose(_gains(model, batch, X), expected, atol=1e-12)
    strange = wanted.astype(object)
    strange[0] = "elsewhere"  # undeclared: the record is null
    batch = clone(model).set_params(budget=grant()).admitted(X, strange)
    assert _gains(model, batch, X)[0] == 0.0


def test_gains_without_probabilities_are_hits() -> None:
    model: Any = PrivateSGDClassifier(**LABELS, loss="hinge", budget=grant())
    batch = model.admitted(X, Y > 0)
    model.fit(X, Y > 0)
    assert (_gains(model, batch, X) == (model.predict(X) == (Y > 0))).all()


COPIES = {
    "clone": clone,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda item: pickle.loads(pickle.dumps(item)),
}


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_cannot_choose(how: str) -> None:
    original = selection()
    with pytest.raises(BudgetExceeded, match="is a copy, and copies are not funded"):
        COPIES[how](original).fit(X, Y)
    original.fit(X, Y)
    copied = COPIES[how](original)
    if how != "clone":
        np.testing.assert_array_equal(copied.predict(X), original.predict(X))
        assert copied.privacy_ == original.privacy_
    with pytest.raises(BudgetExceeded):
        copied.fit(X, Y)
    with pytest.raises(BudgetExceeded, match="PrivateSelection has spent already"):
        original.fit(X, Y)


def test_a_search_over_selections_cannot_overspend() -> None:
    original = selection()
    search = GridSearchCV(original, {"holdout": [0.1, 0.3]}, cv=2, error_score="raise")
    with pytest.raises(BudgetExceeded, match="copies are not funded"):
        search.fit(X, Y)
    assert original.budget.state == "funded"


def test_the_chosen_one_learns_no_further_without_money() -> None:
    made = selection().fit(X, Y)
    with pytest.raises(ConfigurationError, match="its stream stayed with the original"):
        made.best_estimator_.partial_fit(X, Y)
    with pytest.raises(BudgetExceeded):
        made.best_estimator_.fit(X, Y)
    onwards = clone(made.best_estimator_).set_params(budget=grant(), horizon=None)
    assert onwards.fit(X, Y).partial_fit(X, Y).release_.tick == 2
    assert onwards.alpha == made.best_params_["alpha"]


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_every_kind_of_table_is_split_alike(kind: str) -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    table = {"pandas": frame, "polars": pl.from_pandas(frame), "pyarrow": pa.table(frame)}[kind]
    made = rehearsed(table, Y)
    np.testing.assert_array_equal(made.best_estimator_.coef_, rehearsed(X, Y).best_estimator_.coef_)
    assert made.predict(table).shape == (ROWS,)
    if kind != "pyarrow":
        assert list(made.feature_names_in_) == ["a", "b", "c"]


def test_bounds_flow_through_a_pipeline_into_every_candidate() -> None:
    inner = PrivateRidge(target_bounds=(-1, 1), intervals=False)
    chooser = PrivateSelection(inner, {"alpha": [0.1, 1e6]}, budget=TRIAL)
    model = make_pipeline(PublicScaler(bounds=(-1, 1)), chooser).fit(X, Y)
    assert model.score(X, Y) > 0.8
    assert "PublicScaler" in model[-1].privacy_.bounds[0].provenance


def test_the_model_is_saved_with_the_whole_bill(tmp_path: Path) -> None:
    made = selection().fit(X, Y)
    digest = save_model(made.saved_model(), tmp_path / "chosen.dpm")
    found = load_model(tmp_path / "chosen.dpm", digest=digest)
    assert found.card == made.privacy_
    assert len(found.rows) == 3
    assert [event["kind"] for event in found.release.events] == ["gaussian"] * 2 + ["exponential"]
    np.testing.assert_array_equal(found.predict(X), made.predict(X))


def test_a_rehearsal_promises_nothing_and_repeats_itself() -> None:
    made, again = rehearsed(X, Y), rehearsed(X, Y)
    assert made.best_index_ == again.best_index_
    assert made.privacy_.promise.startswith("NOTHING is promised")
    assert made.release_.guarantee.insecure_seed


def test_malformed_records_cost_nothing_wherever_they_are() -> None:
    for place in (3, ROWS - 1):
        words = X.astype(object)
        words[place, 1] = "seven hundred"
        chooser = selection()
        with pytest.raises(SchemaError, match=f"record {place + 1} of X: column 'x1'") as told:
            chooser.fit(words, Y)
        assert "seven" not in str(told.value)
        assert chooser.budget.state == "funded"


def test_missing_values_stop_nothing() -> None:
    gaps, targets = X.copy(), Y.copy()
    gaps[::7, 1], targets[::11] = np.nan, np.inf
    assert rehearsed(gaps, targets).score(X, Y) > 0.8


def test_a_single_record_cannot_be_split() -> None:
    with pytest.raises(ConfigurationError, match="n_samples = 1"):
        selection().fit(X[:1], Y[:1])


class Elsewhere(PrivateRidge):
    """Charges more at its release than its share."""

    def _make_learner(self, declared: Any) -> Any:
        learner = super()._make_learner(declared)
        more = GaussianEvent("more", mu=5.0)

        class Costly(type(learner)):
            def next_events(self, tick: Any) -> Any:
                return (more,)

        object.__setattr__(learner, "__class__", Costly)
        return learner


def test_what_the_budget_cannot_pay_is_refused_before_anything_is_drawn() -> None:
    chooser = PrivateSelection(Elsewhere(**CALM), {"alpha": [0.1, 1.0]}, budget=grant())
    with pytest.raises(BudgetExceeded, match="would spend"):
        chooser.fit(X, Y)
    assert chooser.budget.state == "funded"
    assert not hasattr(chooser, "best_estimator_")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no estimator": ({"estimator": None}, "hand it a regression or a classifier"),
    "a transformer": ({"estimator": PublicScaler()}, "put preprocessing before it"),
    "a funded one": ({"estimator": PrivateRidge(budget=grant())}, "a budget of its own"),
    "users": ({"estimator": PrivateRidge(user_cap=3)}, "hides single records"),
    "a clock": ({"estimator": PrivateRidge(interval=60.0)}, "hides single records"),
    "no budget": ({"budget": None}, "has no budget"),
    "no grid": ({"param_grid": None}, "give lists of settings"),
    "a text grid": ({"param_grid": {"alpha": "01"}}, "give lists of settings"),
    "one setting": ({"param_grid": {"alpha": [1.0]}}, "at least two"),
    "budgets": ({"param_grid": {"budget": [grant(), grant()]}}, "pays for all candidates"),
    "target bounds": (
        {"param_grid": {"target_bounds": [(-1, 1), (0, 1)]}},
        "cannot choose target_bounds",
    ),
    "a typing error": ({"param_grid": {"alhpa": [0.1, 1.0]}}, "does not have; known: alpha"),
    "a whole holdout": ({"holdout": 1.0}, "above 0 and below 1"),
    "a text holdout": ({"holdout": "0.2"}, "above 0 and below 1"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_chosen_privately_is_refused(what: str) -> None:
    changed, message = REFUSED[what]
    chooser = selection().set_params(**changed)
    with pytest.raises(ConfigurationError, match=message):
        chooser.fit(X, Y)
    assert chooser.budget is None or chooser.budget.state == "funded"


def test_a_store_is_refused(tmp_path: Path) -> None:
    kept = Grant(epsilon=1.0, delta=1e-6, store=dp.SqliteStore(tmp_path / "stream.db"))
    with pytest.raises(ConfigurationError, match="hand it a Grant without one"):
        selection(kept).fit(X, Y)
