"""The incremental learners compared before any data, and the best of them run."""

import json

import numpy as np
import pytest

from dpstream.domain.domain import Domain
from dpstream.domain.subset import SparseSubset
from dpstream.engine.memory import MemoryStore
from dpstream.engine.schedule import EveryRecords
from dpstream.engine.session import Session
from dpstream.engine.stream import Stream
from dpstream.errors import ConfigurationError, StoreMismatch
from dpstream.geometry.convex_set import ConvexSet
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.learners.incremental import auto
from dpstream.learners.incremental.auto import AutoIncremental
from dpstream.learners.incremental.population import made_up
from dpstream.learners.incremental.priv_inc_reg1 import PrivIncReg1
from dpstream.learners.incremental.prospect import prospect
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.testing.small_stream import ArraySource

WIDTH, TICK, HORIZON = 6, 50, 12


def learner(**settings: object) -> AutoIncremental:
    given: dict[str, object] = {
        "domain": Domain.vectors(WIDTH, norm_bound=1.0, target_bound=1.0),
        "budget": Budget(epsilon=1.0, delta=1e-6),
        "unit": Unit(),
        "neighbours": Neighbours.ZERO_OUT,
        "horizon": HORIZON,
        "constraint": L1Ball(dimension=WIDTH),
        "tick_records": TICK,
        "projection_seed": 3,
        "draws": 2,
        "intervals": False,
    }
    return AutoIncremental(**(given | settings))


def test_the_least_predicted_excess_is_taken_and_said_in_every_release() -> None:
    model = learner()
    found = model.comparison
    assert {item.name for item in found.prospects} == {
        "priv_inc_reg1",
        "priv_inc_reg2",
        "priv_inc_erm",
    }
    worst = [item.worst for item in found.prospects]
    assert worst == sorted(worst)
    assert model.chosen.name == found.best.name
    assert json.loads(json.dumps(found.describe(), allow_nan=False))["take"] == found.best.name
    rows = public_generator(1).normal(size=(TICK * HORIZON, WIDTH + 1)) / 3
    stream = Stream(learner=model, schedule=EveryRecords(records=TICK), insecure_seed=1)

    def released(stops: list[int]) -> list[object]:
        store = MemoryStore()
        for stop in stops:
            with Session(stream, store=store) as session:
                list(session.run(ArraySource(rows[:stop], [33])))
                values = [release.value for release in session.releases()]
        other = Stream(
            learner=learner(budget=Budget(epsilon=0.5, delta=1e-6)),
            schedule=EveryRecords(records=TICK),
            insecure_seed=1,
        )
        with pytest.raises(StoreMismatch):
            Session(other, store=store)
        return values

    whole = released([len(rows)])
    assert len(whole) == HORIZON
    assert all(value["chosen"]["reason"] == found.reason for value in whole)
    assert released([70, 333, len(rows)]) == whole


def test_predictions_follow_the_budget_and_the_choice_follows_predictions() -> None:
    strict, loose = (
        learner(budget=Budget(epsilon=epsilon, delta=1e-6)).comparison.best.worst
        for epsilon in (0.2, 20.0)
    )
    assert loose < strict / 3
    # One refit at the stream's end: a single measurement needs no continual sum.
    once = learner(horizon=1, tick_records=5000)
    assert once.comparison.prospects[0].worst <= min(p.worst for p in once.comparison.prospects)


def test_predictions_do_not_depend_on_who_else_is_compared() -> None:
    model = learner()
    population = made_up(model.domain, public_generator(0))
    alone = prospect(
        PrivIncReg1(
            domain=model.domain,
            budget=model.budget,
            unit=model.unit,
            neighbours=model.neighbours,
            horizon=HORIZON,
            constraint=model.constraint,
            tick_records=TICK,
        ),
        population,
        last=HORIZON,
        tick_records=TICK,
        draws=2,
    )
    (same,) = (p for p in model.comparison.prospects if p.name == "priv_inc_reg1")
    assert alone.excess == same.excess


def refusals(model: AutoIncremental) -> dict[str, str]:
    return {p.name: p.refusal for p in model.comparison.prospects if p.refusal is not None}


@pytest.mark.parametrize(
    ("settings", "left_out"),
    [
        ({"projection_seed": None}, {}),
        ({"counted": False}, {"priv_inc_erm": "by count"}),
        ({"constraint": None}, {"priv_inc_reg2": "a constraint", "priv_inc_erm": "a constraint"}),
        ({"penalty": 0.1}, {"priv_inc_reg2": "per record", "priv_inc_erm": "penalty"}),
    ],
)
def test_learners_that_cannot_take_the_stream_are_left_out(
    settings: dict[str, object], left_out: dict[str, str]
) -> None:
    found = refusals(learner(**settings))
    assert found.keys() == left_out.keys()
    assert all(words in found[name] for name, words in left_out.items())


def test_moments_that_are_too_large_leave_the_projection(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two projected features have ten entries, six have thirty-six.
    monkeypatch.setattr(auto, "LARGEST_ENTRIES", 12)
    with pytest.raises(ConfigurationError, match="project the features"):
        learner(projection_seed=None)


@pytest.mark.parametrize("constraint", [L1Ball(dimension=WIDTH), L2Ball(dimension=WIDTH)])
def test_sparse_records_and_endless_streams(constraint: ConvexSet) -> None:
    model = learner(
        horizon=None, sparsity=2, subset=SparseSubset(largest_count=2), constraint=constraint
    )
    assert model.horizon is None
    assert np.isfinite(model.comparison.best.worst)
    rows = made_up(model.domain, public_generator(2), sparsity=2).rows[:, 1:]
    assert (np.count_nonzero(rows, axis=1) == 2).all()
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)


def test_refusals() -> None:
    for settings, words in (
        ({"tick_records": 0}, "tick_records is 0"),
        ({"draws": 0}, "draws is 0"),
        ({"sparsity": 7}, "sparsity is 7"),
        ({"domain": Domain.vectors(WIDTH, norm_bound=1.0)}, "no targets"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            learner(**settings)


def test_longer_ticks_than_declared_are_refused_before_anything_is_charged() -> None:
    model = learner()
    assert Stream(learner=model, schedule=EveryRecords(records=TICK)).learner is model
    with pytest.raises(ConfigurationError, match=f"calibrated for at most {TICK} in one"):
        Stream(learner=model, schedule=EveryRecords(records=TICK + 1))
