"""PrivIncReg1 as the engine sees it: exact, resumable, public in shape, refusing what it must."""

import itertools
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from learner_run import outcomes, same

from dpstream.domain.domain import Domain
from dpstream.errors import ConfigurationError, HorizonReached, NotPrivate
from dpstream.learners.incremental.priv_inc_reg1 import PrivIncReg1
from dpstream.learners.learner import Outcome, Tick
from dpstream.mechanisms.continual.node_noise import NoiseKind
from dpstream.mechanisms.continual.window_tree import WindowTree
from dpstream.mechanisms.moments import MomentWeights
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.randomness.source import NoiseSource

RECORDS = 600


def learner(*, intercept: bool = True, targets: int = 1, **settings: object) -> PrivIncReg1:
    domain = Domain.vectors(
        3, norm_bound=2.0, target_bound=5.0, target_count=targets, intercept=intercept
    )
    given: dict[str, object] = {
        "domain": domain,
        "budget": Budget(epsilon=1.0, delta=1e-6),
        "unit": Unit(),
        "neighbours": Neighbours.ZERO_OUT,
        "horizon": 10,
    }
    return PrivIncReg1(**(given | settings))


def data(targets: int = 1, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    generator = public_generator(seed)
    x = generator.standard_normal((RECORDS, 3))
    y = x @ generator.standard_normal((3, targets)) + 1.0
    return x, y + 0.1 * generator.standard_normal((RECORDS, targets))


def run(model: PrivIncReg1, **options: Any) -> list[Outcome]:
    return outcomes(model, model.domain.admit(*data(model.domain.target_count)), **options)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("targets", [1, 2])
def test_batching_and_resuming_change_nothing(intercept: bool, targets: int) -> None:
    model = learner(intercept=intercept, targets=targets)
    late = (2, 6)
    whole = run(model, publish=late)
    cut = run(model, cuts=[1, 7, 50, 99, 101, 333, 599], publish=late)
    resumed = run(model, cuts=[130], resume_at=100, publish=late)
    again = run(model, cuts=[250], resume_at=250, publish=late)
    assert len(whole) == 2
    for other in (cut, resumed, again):
        assert all(itertools.starmap(same, zip(whole, other, strict=True)))


def test_what_is_released_does_not_depend_on_earlier_releases() -> None:
    model = learner()
    often, once = run(model), run(model, publish=(6,))
    assert often[-1].model == once[0].model


@pytest.mark.parametrize("clock", [False, True])
@pytest.mark.parametrize("targets", [1, 2])
def test_a_model_is_complete_and_json_ready(targets: int, clock: bool) -> None:
    model = run(learner(targets=targets), clock=clock)[-1].model
    assert json.loads(json.dumps(model, allow_nan=False)) == model
    assert model["records"] == (None if clock else 600)
    assert abs(model["count"]["value"] - 600) < 6 * model["count"]["standard_error"]
    for target in model["targets"]:
        for part in (target, target["user"]):
            assert len(part["coefficients"]["estimate"]) == 3
            for kind in ("noise", "total"):
                assert len(part["coefficients"][f"{kind}_interval"]) == 3
                assert part["intercept"][f"{kind}_standard_error"] > 0.0
            widths = np.diff(part["coefficients"]["total_interval"], axis=1)
            assert np.all(widths >= 0.0)
        assert 0.0 <= target["shrinkage"] <= 1.0
        assert 0.0 <= target["r_squared"] <= 1.0


def test_with_a_large_budget_it_is_least_squares_in_the_users_units() -> None:
    x, y = data()
    model = learner(budget=Budget(epsilon=1e9, delta=1e-6))
    released = run(model)[-1].model["targets"][0]["user"]
    length = np.linalg.norm(x, axis=1, keepdims=True)
    clipped = np.column_stack((np.ones(RECORDS), x * np.minimum(1.0, 2.0 / length)))
    expected = np.linalg.lstsq(clipped, np.clip(y[:, 0], -5, 5), rcond=None)[0]
    np.testing.assert_allclose(released["intercept"]["estimate"], expected[0], atol=2e-3)
    np.testing.assert_allclose(released["coefficients"]["estimate"], expected[1:], atol=5e-3)


def test_penalties_and_radius_reach_the_problem() -> None:
    rich = Budget(epsilon=1e9, delta=1e-6)
    x, y = data()
    length = np.linalg.norm(x, axis=1, keepdims=True)
    scaled, target = x * np.minimum(0.5, 1.0 / length), np.clip(y[:, 0] / 5, -1, 1)
    per_record = learner(budget=rich, penalty=0.5, ridge=7.0, intercept=False)
    found = run(per_record)[-1].model["targets"][0]["coefficients"]["estimate"]
    expected = np.linalg.solve(scaled.T @ scaled + 307.0 * np.eye(3), scaled.T @ target)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    bounded = learner(budget=rich, radius=0.05, intercept=False)
    target_part = run(bounded)[-1].model["targets"][0]
    np.testing.assert_allclose(np.linalg.norm(target_part["coefficients"]["estimate"]), 0.05)
    assert target_part["constraint_active"]
    assert target_part["interval_method"] == "bootstrap"


def test_the_implied_radius_bounds_every_ridge_solution() -> None:
    for seed in range(50):
        generator = public_generator(seed)
        penalty = float(10.0 ** generator.uniform(-2, 1))
        x = generator.standard_normal((20, 3)) * generator.uniform(0.01, 3.0, 3)
        x /= np.maximum(1.0, np.linalg.norm(x, axis=1, keepdims=True))
        y = np.sign(x @ generator.standard_normal(3))
        solution = np.linalg.solve(x.T @ x + 20 * penalty * np.eye(3), x.T @ y)
        radius = learner(penalty=penalty, intercept=False).problem.implied_radius
        assert radius is not None
        assert np.linalg.norm(solution) <= radius


def test_description_is_json_and_tells_learners_apart() -> None:
    settings: list[dict[str, object]] = [
        {},
        {"penalty": 1.0},
        {"radius": 1.0},
        {"ridge": 1.0},
        {"horizon": 11},
        {"strategy": "honaker_tree"},
        {"neighbours": Neighbours.REPLACE},
        {"budget": Budget(epsilon=2.0, delta=1e-6)},
        {"shrink": False},
        {"intervals": False},
        {"tick_records": 100},
        {"unit": Unit(kind="user", cap=3, column="id")},
    ]
    texts = {json.dumps(learner(**given).describe(), sort_keys=True) for given in settings}
    assert len(texts) == len(settings)
    assert learner().describe() == learner().describe()


def test_one_event_covers_the_whole_life() -> None:
    model = learner()
    (event,) = model.opening_events()
    assert event.to_json()["mu"] == model.sum.strength
    assert model.next_events(Tick(number=1, records=1)) == ()


def test_the_horizon_is_kept() -> None:
    model = learner(horizon=2)
    state = model.init()
    for number in (1, 2):
        model.close(state, Tick(number=number, records=0))
    with pytest.raises(HorizonReached):
        model.close(state, Tick(number=3, records=0))


@pytest.mark.parametrize("horizon", [None, 100, 100_000, 10_000_000])
@pytest.mark.parametrize("dimension", [3, 54, 500])
def test_the_default_strategy_always_has_a_lattice(dimension: int, horizon: int | None) -> None:
    # Rounding many features' nodes at a long horizon needs a fine lattice: where the usual
    # strategy has none, shorter chains take its place.
    domain = Domain.vectors(dimension, norm_bound=1.0, target_bound=1.0, intercept=True)
    model = learner(domain=domain, horizon=horizon)
    assert model.sum.strategy.name in ("blt", "chain")
    assert model.horizon == horizon
    assert model.sum.increment_bound >= 2**14


def test_the_declared_horizon_is_kept_by_a_chain_as_well() -> None:
    model = learner(horizon=1, strategy="chain")
    state = model.init()
    model.close(state, Tick(number=1, records=0))
    with pytest.raises(HorizonReached, match="1 ticks of its horizon"):
        model.close(state, Tick(number=2, records=0))


def test_a_tick_keeps_its_bound() -> None:
    model = learner(tick_records=10)
    state = model.init()
    batch = model.domain.admit(*data())
    model.learn(state, batch.slice(0, 10))
    with pytest.raises(ConfigurationError, match="public bound of 10"):
        model.learn(state, batch.slice(10, 11))
    model.close(state, Tick(number=1, records=10))
    model.learn(state, batch.slice(10, 20))


def test_an_empty_stream_releases_a_finite_model() -> None:
    model = learner()
    state = model.init()
    tick = Tick(number=1, records=0)
    model.close(state, tick)
    released = model.release(state, tick, NoiseSource.insecure(1)).model
    json.dumps(released, allow_nan=False)
    assert np.all(np.isfinite(released["targets"][0]["coefficients"]["estimate"]))


def test_the_papers_constants_need_a_reproduction() -> None:
    with pytest.raises(NotPrivate, match="reproduction=True"):
        learner(intercept=False, calibration="paper")
    printed = learner(intercept=False, calibration="paper", reproduction=True, horizon=1024)
    node = 10 * 2.0 * np.sqrt(2 * np.log(2 / 0.5e-6)) / 0.5
    assert printed.sum.sigma == pytest.approx(node, rel=1e-3)
    with pytest.raises(ConfigurationError, match="without intercept"):
        learner(calibration="paper", reproduction=True)
    # At a horizon of one tick the printed noise is zero.
    with pytest.raises(NotPrivate):
        learner(intercept=False, calibration="paper", reproduction=True, horizon=1)


def test_refusals() -> None:
    only_features = Domain.vectors(3, norm_bound=1.0)
    with pytest.raises(ConfigurationError, match="no targets"):
        learner(domain=only_features)
    with pytest.raises(ConfigurationError, match="penalty"):
        learner(penalty=-1.0)
    with pytest.raises(ConfigurationError, match="ridge"):
        learner(ridge=float("nan"))
    with pytest.raises(ConfigurationError, match="radius"):
        learner(radius=0.0)
    with pytest.raises(ConfigurationError, match="tick_records"):
        learner(tick_records=0)
    with pytest.raises(ConfigurationError, match="over a window"):
        learner(unit=Unit(kind="user", cap=2, column="id", period="window"))
    with pytest.raises(ConfigurationError, match="keeps every record secret"):
        learner(strategy=WindowTree(window=4))
    with pytest.raises(ConfigurationError, match="known running sums"):
        learner(strategy="oak")
    with pytest.raises(ConfigurationError, match="needs a horizon"):
        learner(strategy="blt", horizon=None)
    bare = MomentWeights(count=0.0, x=0.0, xx=1.0, y=0.0, xy=1.0, yy=0.0)
    with pytest.raises(ConfigurationError, match="'count'"):
        learner(weights=bare)
    with pytest.raises(ConfigurationError, match="one scale for all"):
        learner(noise=NoiseKind.SPHERICAL_LAPLACE, strategy="binary_tree")


def test_without_a_horizon_it_runs_on() -> None:
    model = learner(horizon=None)
    assert len(run(model)) == 6


def test_unmeasured_squares_leave_the_total_unknown() -> None:
    bare = MomentWeights(count=0.0, x=0.0, xx=1.0, y=0.0, xy=1.0, yy=0.0)
    model = learner(weights=bare, intercept=False)
    target = run(model)[-1].model["targets"][0]
    assert target["coefficients"]["total_interval"] is None
    assert target["residual_variance"] is None
    state = model.init()
    tick = Tick(number=1, records=None)
    model.close(state, tick)
    with pytest.raises(ConfigurationError, match="neither public nor measured"):
        model.release(state, tick, NoiseSource.insecure(1))


def test_exact_noise_costs_what_its_weaker_accounting_says() -> None:
    fast, exact = learner(), learner(noise="exact")
    assert exact.noise is NoiseKind.EXACT
    # Zero-concentrated accounting of the same shift: sqrt(2 rho) in place of mu.
    expected = fast.stream.sum.strength / math.sqrt(2.0 * exact.stream.sum.strength)
    assert exact.stream.sum.sigma / fast.stream.sum.sigma == pytest.approx(expected, rel=1e-3)
    assert 1.0 < expected < 1.1
    with pytest.raises(ConfigurationError, match="noise is 'exakt'; it must be one of gaussian"):
        learner(noise="exakt")


def test_exact_noise_and_other_strategies_serve_as_well() -> None:
    for settings in (
        {"noise": NoiseKind.EXACT},
        {"noise": "exact"},
        {"strategy": "honaker_tree"},
        {"strategy": "binary_tree"},
    ):
        model = learner(**settings)
        assert len(run(model, publish=(6,))) == 1
    assert replace(learner(), horizon=20).horizon == 20
