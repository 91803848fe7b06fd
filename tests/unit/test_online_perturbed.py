"""Perturbed learners as the engine sees them, their prices, and the papers' thin forms."""

import json
import math
from typing import Any

import numpy as np
import pytest
from learner_run import outcomes, same
from scipy import optimize

from dpstream.domain.domain import Domain
from dpstream.engine.memory import MemoryStore
from dpstream.engine.schedule import EveryRecords
from dpstream.engine.session import Session
from dpstream.engine.stream import Stream
from dpstream.errors import ConfigurationError, HorizonReached, NotPrivate
from dpstream.geometry.l2_ball import L2Ball
from dpstream.geometry.nuclear_ball import NuclearBall
from dpstream.learners.learner import Outcome, Tick
from dpstream.learners.online.exact_leader import ExactLeader
from dpstream.learners.online.pgiga import GradientAscent
from dpstream.learners.online.pigd import ImplicitGradientDescent
from dpstream.learners.online.pocp import POCP
from dpstream.learners.online.pqftl import pqftl, pqftl_radius
from dpstream.learners.online.release_price import ReleasePrice
from dpstream.learners.online.wdp_cocol import wdp_cocol
from dpstream.learners.online.wdp_cocop import wdp_cocop
from dpstream.losses.hinge import HingeLoss
from dpstream.losses.huber import HuberLoss, PseudoHuberLoss
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.continual.node_noise import NoiseKind
from dpstream.mechanisms.continual.strategy import Promise
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.randomness.source import NoiseSource
from dpstream.testing.small_stream import ArraySource

RECORDS = 600
BUDGET = Budget(epsilon=1.0, delta=1e-6)
RICH = Budget(epsilon=1e9, delta=1e-6)


def learner(*, intercept: bool = False, **settings: object) -> POCP:
    given: dict[str, object] = {
        "domain": Domain.vectors(3, norm_bound=1.0, target_bound=1.0, intercept=intercept),
        "budget": BUDGET,
        "unit": Unit(),
        "neighbours": Neighbours.ZERO_OUT,
        "releases": 10,
        "algorithm": ImplicitGradientDescent(),
        "loss": LogisticLoss(),
        "modulus": 0.1,
    }
    return POCP(**(given | settings))


def data(records: int = RECORDS) -> tuple[np.ndarray, np.ndarray]:
    generator = public_generator(1)
    x = generator.standard_normal((records, 3)) / 2
    scores = x @ np.array([2.0, -1.0, 0.5])
    return x, np.where(generator.uniform(size=records) < 1 / (1 + np.exp(-scores)), 1.0, -1.0)


def run(model: POCP, **options: Any) -> list[Outcome]:
    return outcomes(model, model.domain.admit(*data()), **options)


VARIANTS: dict[str, dict[str, object]] = {
    "pigd": {},
    "pgiga": {"algorithm": GradientAscent()},
    "average": {"output": "average"},
    "hinge": {"loss": HingeLoss(), "intercept": True},
    "huber": {"loss": HuberLoss(threshold=0.5), "releases": None},
    "squared": {"loss": SquaredLoss(), "slope_clip": 1.0, "schedule": "uniform"},
    "leader": {"algorithm": ExactLeader(), "intercept": True},
    "regularised leader": {
        "algorithm": ExactLeader(weight=20.0),
        "modulus": 0.0,
        "loss": PseudoHuberLoss(),
        "schedule": "uniform",
    },
    "set": {"convex_set": L2Ball(dimension=3, radius=0.5), "intercept": True},
}


@pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS.keys())
def test_batching_and_resuming_change_nothing(settings: dict[str, object]) -> None:
    model = learner(**settings)
    whole = run(model, publish=(2, 5))
    for other in (
        run(model, cuts=(1, 7, 99, 101, 599), publish=(2, 5)),
        run(model, cuts=(250,), resume_at=250, publish=(2, 5)),
    ):
        assert all(map(same, whole, other))
        assert len(whole) == len(other)
    assert json.loads(json.dumps(whole[0].model, allow_nan=False)) == whole[0].model
    assert json.loads(json.dumps(model.describe(), allow_nan=False)) == model.describe()


def test_releases_lie_in_the_set() -> None:
    ball = L2Ball(dimension=3, radius=0.5)
    for outcome in run(learner(convex_set=ball)):
        assert ball.contains(np.array(outcome.model["coefficients"][0]))


@pytest.mark.parametrize("algorithm", [ImplicitGradientDescent(), GradientAscent()])
@pytest.mark.parametrize(
    ("loss", "clip"),
    [
        (LogisticLoss(), None),
        (LogisticLoss(), 0.4),
        (SquaredLoss(), 5.0),
        (HuberLoss(threshold=0.3), None),
    ],
)
def test_the_iterate_approaches_the_best_fixed_point(
    algorithm: ImplicitGradientDescent | GradientAscent, loss: LogisticLoss, clip: float | None
) -> None:
    # On a stationary stream the last of T steps is within about 1/sqrt(alpha^2 T) of the leader.
    x, y = data(20_000)
    model = learner(loss=loss, modulus=0.3, slope_clip=clip, algorithm=algorithm)
    batch, state = model.domain.admit(x, y), model.init()
    model.learn(state, batch)
    features, targets = batch.scaled_features, batch.scaled_targets[:, 0]
    limit = math.inf if clip is None else clip

    def gradient(point: np.ndarray) -> np.ndarray:
        slopes = np.clip(loss.derivative(features @ point, targets), -limit, limit)
        return slopes @ features / len(features) + 0.3 * point

    best = optimize.root(gradient, np.zeros(3), tol=1e-12).x
    np.testing.assert_allclose(state.point, best, atol=0.03)
    np.testing.assert_allclose(state.total / state.steps, best, atol=0.03)


def test_an_implicit_step_solves_its_problem() -> None:
    # Against the definition: the gradient of the step's objective is zero at its result.
    generator = public_generator(4)
    for loss in (LogisticLoss(), SquaredLoss(), HuberLoss(threshold=0.2)):
        model = learner(loss=loss, modulus=0.05, slope_clip=50.0)
        state = model.init()
        state.point[:] = generator.standard_normal(3) * 10
        for _ in range(30):
            before, step = state.point.copy(), state.steps + 1
            batch = model.domain.admit(
                generator.standard_normal((1, 3)), generator.uniform(-1, 1, (1, 1))
            )
            model.learn(state, batch)
            z, y = batch.scaled_features[0], batch.scaled_targets[0]
            slope = loss.derivative(np.array([z @ state.point]), y)[0]
            rest = state.point - before + (slope * z + 0.05 * state.point) / (0.05 * step)
            np.testing.assert_allclose(rest, 0.0, atol=1e-9)


def test_the_engine_runs_it_for_as_many_releases_as_were_priced() -> None:
    x, y = data(250)
    stream = Stream(learner=learner(releases=4), schedule=EveryRecords(records=50), insecure_seed=5)
    source = ArraySource(np.column_stack((x, y)), [30, 70])
    seen: list[object] = []
    with Session(stream, store=MemoryStore()) as session, pytest.raises(HorizonReached, match="4"):
        seen.extend(session.run(source))
    assert len(seen) == 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"modulus": 0.0}, "strong convexity"),
        ({"loss": PseudoHuberLoss()}, "no compiled step"),
        ({"loss": SquaredLoss()}, "slope_clip"),
        ({"loss": HingeLoss(), "algorithm": GradientAscent()}, "not smooth"),
        ({"loss": HingeLoss(), "algorithm": ExactLeader()}, "not smooth"),
        ({"algorithm": ExactLeader(), "slope_clip": 0.5}, "minimises the loss as it is"),
        ({"algorithm": ExactLeader(), "loss": SquaredLoss()}, "slope of the squared loss"),
        ({"algorithm": ExactLeader(), "modulus": 0.0}, "strong convexity is zero"),
        ({"algorithm": ExactLeader(), "modulus": -1.0}, "at least 0"),
        ({"algorithm": ExactLeader(), "output": "average"}, "output"),
        ({"algorithm": ExactLeader(), "constant_scale": 0.3}, "constant of size 1"),
        (
            {
                "algorithm": ExactLeader(),
                "domain": Domain.vectors(3, norm_bound=1.0, target_bound=1.0, record_bound="max"),
            },
            "record_bound",
        ),
        ({"output": "middle"}, "output"),
        ({"schedule": "endless"}, "endless"),
        ({"schedule": "other"}, "schedule"),
        ({"schedule": "doubling"}, "Algorithm 7.* has no bound"),
        ({"releases": 0}, "releases"),
        ({"releases": 2.5}, "whole number"),
        ({"releases": None, "head_start": math.nan}, "whole number"),
        ({"modulus": 1e-300}, "larger modulus"),
        ({"modulus": math.nan}, "move the iterate without bound"),
        ({"slope_clip": math.inf}, "sensitivity would be"),
        ({"releases": None, "schedule": "uniform"}, "uniform"),
        ({"head_start": 0}, "head_start"),
        ({"convex_set": NuclearBall(rows=3, columns=1)}, None),
        ({"convex_set": L2Ball(dimension=2)}, "dimension"),
        ({"unit": Unit(kind="user", cap=2, column="id", period="window")}, "window"),
    ],
)
def test_declarations_that_cannot_hold_are_refused(
    settings: dict[str, object], message: str | None
) -> None:
    if message is None:
        learner(**settings)
        return
    with pytest.raises(ConfigurationError, match=message):
        learner(**settings)


def test_pure_privacy_and_clocks_are_refused() -> None:
    with pytest.raises(NotPrivate):
        learner(budget=Budget(epsilon=1.0, delta=0.0))
    model = learner()
    with pytest.raises(ConfigurationError, match="close by count"):
        model.close(model.init(), Tick(number=1, records=None))
    with pytest.raises(ConfigurationError, match="ball_radius"):
        GradientAscent(ball_radius=0.0)
    with pytest.raises(ConfigurationError, match="weight"):
        ExactLeader(weight=-1.0)


def test_optimal_prices_have_the_least_total_noise() -> None:
    def total_noise(schedule: str) -> float:
        price = ReleasePrice(schedule=schedule, releases=1000)
        return sum(1 / j / math.sqrt(price.price(j)) for j in range(1, 1001))

    assert total_noise("optimal") < 0.75 * total_noise("uniform")
    exact = sum(j ** (-2 / 3) for j in range(1, 1001)) ** 1.5
    assert total_noise("optimal") == pytest.approx(exact, rel=1e-6)
    with pytest.raises(ConfigurationError, match="no price"):
        ReleasePrice(schedule="uniform", releases=3).price(4)


def test_the_radius_of_pqftl_bounds_every_leader() -> None:
    generator = public_generator(6)
    for alpha in (0.01, 0.1, 0.25, 1.0, 10.0):
        for records in (1, 2, 50):
            x = generator.standard_normal((records, 3))
            x /= np.linalg.norm(x, axis=1, keepdims=True)
            x[:] = x[0]
            y = np.ones(records)
            leader = np.linalg.solve(x.T @ x + records * alpha * np.eye(3), x.T @ y)
            assert np.linalg.norm(leader) <= pqftl_radius(alpha) * (1 + 1e-12)
    # Attained where the records' curvature equals the penalty.
    assert pqftl_radius(1.0) == 0.5


def test_pqftl_is_the_regression_with_a_penalty_per_record() -> None:
    model = pqftl(
        domain=Domain.vectors(3, norm_bound=1.0, target_bound=1.0),
        budget=RICH,
        unit=Unit(),
        neighbours=Neighbours.ZERO_OUT,
        horizon=4,
        alpha=0.2,
    )
    assert model.penalty == 0.2
    assert model.radius == pqftl_radius(0.2)
    batch, state = model.domain.admit(*data()), model.init()
    model.learn(state, batch)
    tick = Tick(number=1, records=RECORDS)
    model.close(state, tick)
    released = model.release(state, tick, NoiseSource.insecure(1)).model["targets"][0]
    x, y = batch.scaled_features, batch.scaled_targets[:, 0]
    expected = np.linalg.solve(x.T @ x + 0.2 * RECORDS * np.eye(3), x.T @ y)
    np.testing.assert_allclose(released["coefficients"]["estimate"], expected, atol=1e-4)
    with pytest.raises(ConfigurationError, match="alpha"):
        pqftl(
            domain=model.domain,
            budget=RICH,
            unit=Unit(),
            neighbours=Neighbours.ZERO_OUT,
            horizon=4,
            alpha=0.0,
        )


@pytest.mark.parametrize("make", [wdp_cocop, wdp_cocol])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"window": 0}, "window is 0"),
        ({"window": -4}, "window is -4"),
        ({"window": 2.5}, "whole number"),
        ({"window": 4, "strategy": "chain"}, "has no window"),
        ({"modulus": 0.0}, "needs strong convexity"),
        ({"modulus": math.nan}, "needs strong convexity"),
        ({"noise": NoiseKind.SPHERICAL_LAPLACE, "strategy": "auto"}, None),
        (
            {"domain": Domain.vectors(3, norm_bound=1.0, target_bound=1.0, intercept=True)},
            "sensitivity",
        ),
    ],
)
def test_expiring_declarations_that_cannot_hold_are_refused(
    make: object, settings: dict[str, object], message: str | None
) -> None:
    given: dict[str, object] = {
        "domain": Domain.vectors(3, norm_bound=1.0, target_bound=1.0),
        "budget": BUDGET,
        "unit": Unit(),
        "neighbours": Neighbours.REPLACE,
        "loss": SquaredLoss(),
        "window": 4,
        "modulus": 0.5,
        "convex_set": L2Ball(dimension=3, radius=1.0),
    }
    with pytest.raises(ConfigurationError, match=message):
        make(**(given | settings))


@pytest.mark.parametrize("make", [wdp_cocop, wdp_cocol])
@pytest.mark.parametrize("noise", [NoiseKind.GAUSSIAN, NoiseKind.SPHERICAL_LAPLACE])
def test_the_papers_expiring_learners_say_so(make: object, noise: NoiseKind) -> None:
    delta = 1e-6 if noise is NoiseKind.GAUSSIAN else 0.0
    model = make(
        domain=Domain.vectors(3, norm_bound=1.0, target_bound=1.0),
        budget=Budget(epsilon=1.0, delta=delta),
        unit=Unit(),
        neighbours=Neighbours.REPLACE,
        loss=SquaredLoss(),
        window=4,
        modulus=0.5,
        convex_set=L2Ball(dimension=3, radius=1.0),
        noise=noise,
    )
    assert model.promise is Promise.WHILE_LIVE
    assert model.window == 4
    assert model.stack.slope == 2.0
    state = model.init()
    model.learn(state, model.domain.admit(*data(50)))
    tick = Tick(number=1, records=50)
    model.close(state, tick)
    released = model.release(state, tick, NoiseSource.insecure(1)).model
    assert "then its contribution" in released["promise"]
    assert np.linalg.norm(released["coefficients"]) <= 1.0 + 1e-9
