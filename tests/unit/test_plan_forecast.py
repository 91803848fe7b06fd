"""Predictions made before any data, against what then happens."""

import math

import numpy as np
import pytest

from dpstream.bench.sums import prepared, simulated_ratio
from dpstream.domain.column import Boolean, Categorical, Numeric
from dpstream.domain.domain import Domain
from dpstream.domain.target import IntervalTarget
from dpstream.errors import ConfigurationError
from dpstream.learners.incremental.forecast import forecast
from dpstream.learners.incremental.priv_inc_reg1 import PrivIncReg1
from dpstream.learners.learner import Tick
from dpstream.mechanisms.continual.choice import alternatives, prefix_strategy, sum_strategy
from dpstream.mechanisms.continual.prediction import (
    largest_standard_deviation,
    most_memory,
    revealing_ticks,
    standard_deviations,
)
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.solvers.synthetic import synthetic_columns


def learner(domain: Domain, epsilon: float, **options: float) -> PrivIncReg1:
    return PrivIncReg1(
        domain=domain,
        budget=Budget(epsilon=epsilon, delta=1e-6),
        unit=Unit(),
        neighbours=Neighbours.ZERO_OUT,
        horizon=64,
        tick_records=1000,
        **options,
    )


DOMAIN = Domain(
    [Numeric("a", 0, 10), Boolean("b"), Categorical("c", ["x", "y"])], IntervalTarget("t", -5, 15)
)


def test_the_forecast_shrinks_with_records_and_with_epsilon_towards_the_best_model() -> None:
    ticks = [(tick, 1000 * tick) for tick in (1, 8, 64)]
    strict, loose = (forecast(learner(DOMAIN, epsilon), ticks) for epsilon in (0.5, 5.0))
    for found in (strict, loose):
        errors = [item.expected_error for item in found]
        assert errors[0] > errors[1] > errors[2] > found[0].best_error
    assert all(a.expected_error > b.expected_error for a, b in zip(strict, loose, strict=True))
    # A quarter of the interval's length, and half of that variance.
    assert strict[0].constant_error == pytest.approx(20 / 4)
    assert strict[0].best_error == pytest.approx(20 / 4 * math.sqrt(0.5))


def test_the_forecast_meets_what_the_learner_then_does() -> None:
    domain = Domain.vectors(3, norm_bound=2.0, target_bound=1.0, intercept=True)
    model = learner(domain, 1.0)
    (promised,) = forecast(model, [(64, 64_000)], draws=200)
    generator = public_generator(9)
    excess = []
    for seed in range(40):
        features = np.array(list(synthetic_columns(domain, 4096, generator).values())).T
        truth = generator.standard_normal(3)
        truth *= 0.5 * math.sqrt(0.5) / np.sqrt(np.mean((features @ truth) ** 2))
        batch = domain.admit(features, features @ truth)
        design = np.column_stack([np.ones(len(features)), batch.scaled_features])
        state = model.init()
        for number in range(1, 65):
            model.learn(state, batch.slice(0, 1000))
            model.close(state, Tick(number=number, records=1000 * number))
        released = model.release(state, Tick(number=64, records=64_000), Noise.insecure(seed))
        target = released.model["targets"][0]
        found = [target["intercept"]["estimate"], *target["coefficients"]["estimate"]]
        best = np.linalg.lstsq(design[:1000], batch.scaled_targets[:1000, 0], rcond=None)[0]
        gap = design[:1000] @ (np.array(found) - best)
        excess.append(float(np.mean(gap**2)))
    predicted = promised.expected_error**2 - promised.best_error**2
    # Both are means of heavy-tailed chi-squares; forty and two hundred draws agree within a factor
    # of two unless something is wrong by more (each mean's relative error is below 0.15).
    assert 0.5 < np.mean(excess) / predicted < 2.0


def test_a_radius_caps_the_made_up_truth() -> None:
    (found,) = forecast(learner(DOMAIN, 5.0, radius=1e-3), [(64, 64_000)])
    assert found.expected_error < 1.01 * found.constant_error


def test_made_up_records_lie_within_the_bounds() -> None:
    columns = synthetic_columns(DOMAIN, 500, public_generator(1))
    assert 0 <= columns["a"].min() < 1 < 9 < columns["a"].max() <= 10
    assert set(columns["b"].tolist()) == {True, False}
    assert set(columns["c"]) == {"x", "y"}
    loose = synthetic_columns(Domain.vectors(4, norm_bound=3.0), 2000, public_generator(2))
    norms = np.linalg.norm(np.array(list(loose.values())), axis=0)
    assert 2.0 < np.sqrt(np.mean(norms**2)) < 4.0


@pytest.mark.parametrize("name", ["binary_tree", "honaker_tree", "blt", "chain", "hybrid"])
def test_the_ticks_looked_at_hold_the_largest_noise(name: str) -> None:
    for last in (700, 1000, 1023):
        strategy = prefix_strategy(name, None if name in ("chain", "hybrid") else last)
        every = standard_deviations(strategy, np.arange(1, last + 1))
        few = revealing_ticks(last, most=64)
        assert len(few) < 250
        sampled = standard_deviations(strategy, few).max()
        # The hybrid's epochs have interior maxima: a sample may miss them by little.
        assert sampled >= every.max() * (0.99 if name == "hybrid" else 1 - 1e-12)
        assert largest_standard_deviation(strategy, last)[0] == every.max()


def test_memory_is_the_most_along_the_way_and_not_that_of_the_last_tick() -> None:
    # A million has seven binary ones, 524,287 has nineteen: so many nodes cover it.
    tree = prefix_strategy("binary_tree", 1_000_000)
    assert tree.memory(1_000_000) == 7
    assert most_memory(tree, 1_000_000) == 19
    for name in ("binary_tree", "honaker_tree", "blt", "hybrid"):
        strategy = prefix_strategy(name, None if name == "hybrid" else 5000)
        every = max(strategy.memory(tick) for tick in range(1, 5001))
        assert most_memory(strategy, 5000) == every


@pytest.mark.parametrize(
    ("name", "horizon", "window", "ticks"),
    [("blt", 300, None, 300), ("chain", None, None, 200), ("expiring_toeplitz", None, 50, 150)],
)
def test_the_real_mechanism_is_as_noisy_as_predicted(
    name: str, horizon: int | None, window: int | None, ticks: int
) -> None:
    strategy = sum_strategy(name, horizon=horizon, window=window, decay=None)
    sigma = prepared(strategy).sigma
    largest, tick = largest_standard_deviation(strategy, ticks, scale=sigma)
    assert largest == pytest.approx(float(prepared(strategy).variance(tick)[0]) ** 0.5)
    found = simulated_ratio(strategy, [tick], Noise.insecure(77), coordinates=16_384)
    # A chi with 16,384 degrees leaves 2.8 % with chance 4e-7 (two-sided, 5.1 deviations).
    assert found == pytest.approx(1.0, rel=0.028)
    for wrong in (0.94, 1.06):  # the check sees noise that is off by 6 %, either way
        assert wrong * found != pytest.approx(1.0, rel=0.028)


def test_alternatives_keep_the_promise() -> None:
    known = {s.name for s in alternatives(prefix_strategy("blt", 100), horizon=100)}
    assert known == {
        "blt",
        "honaker_tree",
        "binary_tree",
        "square_root_toeplitz",
        "chain",
        "hybrid",
    }
    long = {s.name for s in alternatives(prefix_strategy("blt", 10**6), horizon=10**6)}
    assert long == known - {"square_root_toeplitz"}
    endless = {s.name for s in alternatives(prefix_strategy("chain", None), horizon=None)}
    assert endless == {"chain", "hybrid"}
    window = sum_strategy("window_tree", horizon=None, window=8, decay=None)
    assert {s.name for s in alternatives(window, horizon=None)} == {
        "window_tree",
        "expiring_toeplitz",
    }
    sliding = sum_strategy("auto", horizon=None, window=8, decay=None)
    assert alternatives(sliding, horizon=None) == [sliding]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "window_tree"}, "needs a window"),
        ({"name": "blt", "window": 3}, "has no window"),
        ({"name": "decayed_toeplitz"}, "needs decay"),
        ({"name": "blt", "decay": 0.5}, "does not decay"),
        ({"name": "blt"}, "needs a horizon"),
        ({"name": "bltt", "horizon": 3}, "known running sums"),
    ],
)
def test_names_that_do_not_fit_are_refused(options: dict[str, object], message: str) -> None:
    given: dict[str, object] = {"horizon": None, "window": None, "decay": None}
    with pytest.raises(ConfigurationError, match=message):
        sum_strategy(**(given | options))
