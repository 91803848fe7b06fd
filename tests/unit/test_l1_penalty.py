"""The L1 penalty: certified minimisers, damping that knows the penalty, and what is refused."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet, Lasso

from dpstream.cli.assemble import assemble_stream
from dpstream.cli.config import load_config
from dpstream.domain.domain import Domain
from dpstream.errors import ConfigurationError
from dpstream.estimators import Grant, PrivateRidge, WindowedLinearRegression
from dpstream.geometry.l1_ball import L1Ball
from dpstream.learners.incremental.auto import AutoIncremental
from dpstream.learners.incremental.forecast import forecast
from dpstream.learners.incremental.priv_inc_reg1 import PrivIncReg1
from dpstream.learners.learner import Tick
from dpstream.learners.window.windowed_regression import WindowedRegression
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.solvers.constrained_quadratic import minimise_quadratic
from dpstream.solvers.interval import TargetSpread, uncertainty
from dpstream.solvers.l1_penalty import L1Penalty
from dpstream.solvers.noisy_quadratic import NoisyQuadratic
from dpstream.solvers.quadratic import solve_quadratic

WIDTH, RECORDS = 6, 1500


def data(records: int = RECORDS) -> tuple[np.ndarray, np.ndarray]:
    generator = public_generator(5)
    x = generator.standard_normal((records, WIDTH)) * np.linspace(1.0, 0.3, WIDTH)
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1, keepdims=True))
    truth = np.array([0.5, -0.4, 0.3, 0.0, 0.0, 0.0])
    return x, x @ truth + 0.05 * generator.standard_normal(records)


def learner(**settings: object) -> PrivIncReg1:
    given: dict[str, object] = {
        "domain": Domain.vectors(WIDTH, norm_bound=1.0, target_bound=1.0),
        "budget": Budget(epsilon=1e9, delta=1e-6),
        "unit": Unit(),
        "neighbours": Neighbours.ZERO_OUT,
        "horizon": 1,
        "intervals": False,
    }
    return PrivIncReg1(**(given | settings))  # type: ignore[arg-type]  # by name


def released(model: PrivIncReg1 | WindowedRegression, seed: int = 0) -> dict[str, Any]:
    x, y = data()
    state = model.init()
    model.learn(state, model.domain.admit(x, y))
    tick = Tick(number=1, records=len(x))
    model.close(state, tick)
    return dict(model.release(state, tick, Noise.insecure(seed)).model["targets"][0])


def slopes(target: dict[str, Any]) -> np.ndarray:
    return np.array(target["coefficients"]["estimate"])


@pytest.mark.parametrize("dimension", [1, 3, 20, 80])
@pytest.mark.parametrize("share", [0.01, 0.2, 0.9, 1.0])
def test_the_gap_is_certified_and_small(dimension: int, share: float) -> None:
    generator = public_generator(dimension)
    root = generator.standard_normal((dimension, 2 * dimension))
    root *= np.linspace(1, 9, dimension)[:, np.newaxis]
    matrix, linear = root @ root.T, root @ generator.standard_normal(2 * dimension)
    penalty = L1Penalty(dimension=dimension, weight=share * float(np.abs(linear).max()))

    def objective(point: np.ndarray) -> float:
        return float(point @ matrix @ point / 2 - linear @ point) + penalty.cost(point)

    found = minimise_quadratic(matrix, linear, penalty)
    depth = float(linear @ np.linalg.solve(matrix, linear))
    assert 0.0 <= found.gap <= 1e-8 * depth
    # Karush, Kuhn and Tucker: the slope is the weight where the point moves, elsewhere below it.
    slope = linear - matrix @ found.point
    assert np.abs(slope).max() <= penalty.weight * (1 + 1e-3)
    np.testing.assert_allclose(
        slope[found.point != 0], penalty.weight * np.sign(found.point[found.point != 0]), rtol=1e-2
    )
    if share == 1.0:
        assert not found.point.any()
    # The certificate holds for whatever is handed back, at every number of steps.
    for steps in (1, 3, 8, 20):
        early = minimise_quadratic(matrix, linear, penalty, most_steps=steps)
        assert objective(early.point) - objective(found.point) <= early.gap + 1e-9 * depth


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("alpha", "ratio"), [(0.02, 1.0), (0.02, 0.5), (0.005, 0.2)])
def test_with_a_large_budget_it_is_the_elastic_net(
    intercept: bool, alpha: float, ratio: float
) -> None:
    x, y = data()
    model = learner(
        domain=Domain.vectors(WIDTH, norm_bound=1.0, target_bound=1.0, intercept=intercept),
        l1_penalty=2 * alpha * ratio,
        penalty=alpha * (1 - ratio),
    )
    target = released(model)
    expected = ElasticNet(
        alpha=alpha, l1_ratio=ratio, fit_intercept=intercept, tol=1e-10, max_iter=100_000
    ).fit(x, y)
    np.testing.assert_allclose(slopes(target), expected.coef_, atol=2e-4)
    assert np.count_nonzero(slopes(target)) < WIDTH or ratio < 1.0
    assert not target["constraint_active"]
    assert 0.0 <= target["optimality_gap"] < 1e-3


def test_penalties_of_a_record_and_of_the_sum_are_two_ways_to_say_it() -> None:
    x, y = data()
    whole, each = released(learner(lasso=60.0)), released(learner(l1_penalty=60.0 / RECORDS))
    np.testing.assert_allclose(slopes(whole), slopes(each), atol=1e-7)
    lasso = Lasso(alpha=60.0 / (2 * RECORDS), fit_intercept=False, tol=1e-10).fit(x, y)
    np.testing.assert_allclose(slopes(whole), lasso.coef_, atol=2e-4)
    windowed = WindowedRegression(
        domain=learner().domain,
        budget=Budget(epsilon=1e9, delta=1e-6),
        unit=Unit(),
        neighbours=Neighbours.ZERO_OUT,
        window_ticks=4,
        lasso=60.0,
    )
    np.testing.assert_allclose(slopes(released(windowed)), lasso.coef_, atol=2e-4)


def noisy(weight: float, noise: float, seed: int) -> NoisyQuadratic:
    x, y = data()
    generator = public_generator(seed)
    variance = np.full((WIDTH, WIDTH), noise**2 / 2)
    np.fill_diagonal(variance, noise**2)
    upper = np.triu(generator.standard_normal((WIDTH, WIDTH)))
    return NoisyQuadratic(
        gram=x.T @ x + (upper + np.triu(upper, 1).T) * np.sqrt(variance),
        cross=(x.T @ y + noise * generator.standard_normal(WIDTH))[:, np.newaxis],
        gram_variance=variance,
        cross_variance=np.full((WIDTH, 1), noise**2),
        constraint=L1Penalty(dimension=WIDTH, weight=weight) if weight else None,
    )


def test_damping_knows_the_penalty() -> None:
    x, y = data()
    weight = 30.0
    best = minimise_quadratic(x.T @ x, x.T @ y, L1Penalty(dimension=WIDTH, weight=weight))

    def excess(parameters: np.ndarray) -> float:
        def objective(point: np.ndarray) -> float:
            return float(point @ (x.T @ x) @ point - 2 * point @ (x.T @ y)) + 2 * weight * float(
                np.abs(point).sum()
            )

        return objective(parameters) - objective(best.point)

    def mean_excess(noise: float, *, shrink: bool) -> float:
        draws = [solve_quadratic(noisy(weight, noise, seed), shrink=shrink) for seed in range(50)]
        return float(np.mean([excess(draw.parameters[:, 0]) for draw in draws]))

    # Without noise nothing is damped: what the penalty takes is no noise.
    quiet = solve_quadratic(noisy(weight, 0.0, 0))
    np.testing.assert_allclose(quiet.parameters[:, 0], best.point, atol=1e-6)
    # With noise damping lowers the penalised excess, on average over fifty draws, and never far
    # above that of zero; with overwhelming noise zero is what is published.
    for noise, gain in ((30.0, 0.85), (500.0, 0.6)):
        damped, plain = (mean_excess(noise, shrink=shrink) for shrink in (True, False))
        assert damped <= gain * plain
        assert damped <= 1.2 * excess(np.zeros(WIDTH))
    assert not solve_quadratic(noisy(weight, 1e5, 1)).parameters.any()


def test_intervals_are_those_of_the_penalised_minimiser() -> None:
    x, y = data()
    best = minimise_quadratic(x.T @ x, x.T @ y, L1Penalty(dimension=WIDTH, weight=30.0)).point
    covered = []
    for seed in range(40):
        known = uncertainty(
            noisy(30.0, 8.0, seed),
            TargetSpread(square=float(y @ y), square_variance=100.0, count=RECORDS),
            seed=seed,
        )
        assert known.method == "bootstrap"
        interval = known.noise_interval
        covered.append((interval[:, 0] <= best + 1e-9) & (best <= interval[:, 1] + 1e-9))
    # 240 coefficients, nearly independent: below 0.8 with probability under 1e-12 at 0.95.
    assert np.mean(covered) >= 0.8


def test_the_release_is_json_and_the_penalty_is_part_of_the_identity() -> None:
    model = learner(lasso=60.0, intervals=True, budget=Budget(epsilon=5.0, delta=1e-6))
    target = released(model)
    assert target["interval_method"] == "bootstrap"
    assert json.loads(json.dumps(target, allow_nan=False)) == target
    texts = {
        json.dumps(learner(**settings).describe(), sort_keys=True)
        for settings in ({}, {"lasso": 60.0}, {"l1_penalty": 0.1})
    }
    assert len(texts) == 3


def test_the_forecast_and_the_choice_know_it() -> None:
    strict = {"budget": Budget(epsilon=0.5, delta=1e-6)}
    plain, sparse = (
        forecast(learner(**strict, l1_penalty=value), [(1, 4000)], draws=2)[0]
        for value in (0.0, 10.0)
    )
    # A penalty beyond every cross moment leaves the constant: zero.
    assert sparse.expected_error == pytest.approx(sparse.constant_error, rel=0.02)
    assert plain.expected_error < sparse.expected_error
    chosen = AutoIncremental(
        domain=learner().domain,
        budget=Budget(epsilon=1.0, delta=1e-6),
        unit=Unit(),
        neighbours=Neighbours.ZERO_OUT,
        horizon=4,
        constraint=None,
        tick_records=100,
        lasso=5.0,
    )
    assert chosen.chosen.name == "priv_inc_reg1"
    assert chosen.chosen.describe()["lasso"] == 5.0
    refused = {p.name: p.refusal for p in chosen.comparison.prospects if p.refusal}
    assert all("no L1 penalty" in str(refused[name]) for name in ("priv_inc_reg2", "priv_inc_erm"))


def test_estimators_take_it() -> None:
    x, y = data()
    model = PrivateRidge(
        budget=Grant(epsilon=1e6, delta=1e-6),
        norm_bound=1.0,
        target_bounds=(-1.0, 1.0),
        fit_intercept=False,
        alpha=0.0,
        lasso=60.0,
        intervals=False,
    ).fit(x, y)
    expected = Lasso(alpha=60.0 / (2 * RECORDS), fit_intercept=False, tol=1e-10).fit(x, y)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-3)
    for kind in (PrivateRidge, WindowedLinearRegression):
        wrong = kind(budget=Grant(epsilon=1.0, delta=1e-6), norm_bound=1.0, lasso=-1.0)
        with pytest.raises(ConfigurationError, match="lasso"):
            wrong.set_params(target_bounds=(-1.0, 1.0)).fit(x, y)


CONFIG = """
[columns.a]
lower = 0
upper = 1

[columns.b]
lower = 0
upper = 1

[targets.y]
lower = 0
upper = 1

[privacy]
epsilon = 1.0
delta = 1e-6
neighbours = "zero_out"

[schedule]
every = 100
records = 1000

[learner]
name = "{name}"
{options}
"""


@pytest.mark.parametrize("name", ["PrivIncReg1", "auto", "WindowedRegression"])
def test_a_configuration_takes_it_in_one_line(name: str, tmp_path: Path) -> None:
    window = "window_ticks = 3" if name == "WindowedRegression" else ""
    path = tmp_path / "config.toml"
    path.write_text(CONFIG.format(name=name, options=f"l1_penalty = 0.01\nridge = 2.0\n{window}"))
    described = assemble_stream(load_config(path)).learner.describe()
    assert (described["l1_penalty"], described["ridge"]) == (0.01, 2.0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"l1_penalty": -1.0}, "l1_penalty is -1.0; it must be finite and at least 0"),
        ({"lasso": math.nan}, "lasso is nan; it must be finite and at least 0"),
        ({"lasso": math.inf}, "lasso is inf"),
        ({"lasso": "much"}, "lasso came as str; give a number"),
        ({"lasso": 1.0, "radius": 1.0}, "lasso and a set both hold .* leave one"),
        ({"l1_penalty": 1.0, "constraint": L1Ball(dimension=WIDTH)}, "l1_penalty and a set"),
        ({"lasso": 1.0, "solver": "averaged_gradient"}, "averaged_gradient"),
    ],
)
def test_refusals(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        learner(**settings)
