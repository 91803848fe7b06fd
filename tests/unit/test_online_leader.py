"""Follow the approximate leader as the engine sees it, and the points it finds."""

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
from learner_run import outcomes, same
from scipy import stats

from dpstream.domain.batch import Batch
from dpstream.domain.column import Numeric
from dpstream.domain.domain import Domain
from dpstream.domain.target import IntervalTarget, LabelTarget
from dpstream.engine.memory import MemoryStore
from dpstream.engine.schedule import EveryRecords
from dpstream.engine.session import Session
from dpstream.engine.stream import Stream
from dpstream.errors import ConfigurationError, HorizonReached
from dpstream.geometry.box import Box
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.geometry.nuclear_ball import NuclearBall
from dpstream.geometry.simplex import Simplex
from dpstream.learners.description import described_scores
from dpstream.learners.learner import Outcome, Tick
from dpstream.learners.online.follow_the_leader import FollowTheLeader
from dpstream.learners.online.leader import Quadratic, Restriction, projected_minimiser
from dpstream.losses.hinge import HingeLoss
from dpstream.losses.huber import HuberLoss
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.softmax import SoftmaxLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.continual.choice import sum_strategy
from dpstream.mechanisms.continual.node_noise import NoiseKind
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.randomness.source import NoiseSource
from dpstream.testing.small_stream import ArraySource

RECORDS = 600
RICH = Budget(epsilon=1e9, delta=1e-6)


def domain(*, classes: int = 0, intercept: bool = False) -> Domain:
    plain = Domain.vectors(3, norm_bound=1.0, target_bound=1.0, intercept=intercept)
    if not classes:
        return plain
    return Domain(
        plain.columns, LabelTarget("y", range(classes)), intercept=intercept, norm_bound=1.0
    )


def learner(*, classes: int = 0, intercept: bool = False, **settings: object) -> FollowTheLeader:
    given: dict[str, object] = {
        "domain": domain(classes=classes, intercept=intercept),
        "budget": Budget(epsilon=1.0, delta=1e-6),
        "unit": Unit(),
        "neighbours": Neighbours.ZERO_OUT,
        "horizon": 10,
        "loss": SoftmaxLoss(classes=classes) if classes else LogisticLoss(),
    }
    return FollowTheLeader(**(given | settings))


def batch(model: FollowTheLeader, records: int = RECORDS, seed: int = 1) -> Batch:
    generator = public_generator(seed)
    x = generator.standard_normal((records, 3)) / 2
    scores = x @ np.array([2.0, -1.0, 0.5])
    if model.stack.classes > 1:
        labels = np.digitize(scores, np.linspace(-1, 1, model.stack.classes - 1))
        columns = {f"x{j + 1}": x[:, j] for j in range(3)}
        return model.domain.admit(columns | {"y": labels.astype(str)})
    y = np.where(generator.uniform(size=records) < 1 / (1 + np.exp(-scores)), 1.0, -1.0)
    y[::7] = np.nan
    return model.domain.admit(x, y)


def run(model: FollowTheLeader, **options: Any) -> list[Outcome]:
    return outcomes(model, batch(model), **options)


VARIANTS: dict[str, dict[str, object]] = {
    "full": {},
    "intercept": {"intercept": True},
    "diagonal": {"curvature": "diagonal", "intercept": True},
    "plain": {"curvature": "none", "convex_set": L2Ball(dimension=3, radius=4.0)},
    "strongly convex": {"ridge": 0.1, "prior_scale": math.inf},
    "huber": {"loss": HuberLoss(threshold=0.5)},
    "hinge": {"loss": HingeLoss(), "bend": 0.3},
    "softmax": {"classes": 4, "intercept": True},
    "oracle": {"update": "linear_oracle", "convex_set": L1Ball(dimension=3, radius=2.0)},
    "simplex": {"update": "linear_oracle", "ridge": 0.5, "convex_set": Simplex(dimension=3)},
    "chain": {"horizon": None},
    "decayed": {
        "strategy": sum_strategy("decayed_toeplitz", horizon=None, window=None, decay=0.9),
    },
    "expiring": {
        "strategy": sum_strategy("expiring_toeplitz", horizon=None, window=2, decay=None),
    },
}


@pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS.keys())
def test_batching_and_resuming_change_nothing(settings: dict[str, object]) -> None:
    model = learner(**settings)
    whole = run(model, publish=(2, 3, 6))
    for other in (
        run(model, cuts=(1, 7, 50, 99, 101, 333, 599), publish=(2, 3, 6)),
        run(model, cuts=(250,), resume_at=250, publish=(2, 3, 6)),
        run(model, cuts=(130,), resume_at=100, publish=(2, 3, 6)),
    ):
        assert all(itertools.starmap(same, zip(whole, other, strict=True)))


@pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS.keys())
def test_a_model_is_json_ready_and_says_what_it_promises(settings: dict[str, object]) -> None:
    model = learner(**settings)
    released = run(model)[-1].model
    assert json.loads(json.dumps(released, allow_nan=False)) == released
    assert json.loads(json.dumps(model.describe(), allow_nan=False)) == model.describe()
    assert released["promise"] == model.promise.value
    assert np.shape(released["coefficients"]) == (model.stack.classes, 3)
    loss = released["progressive_loss"]
    assert abs(loss["mean"]) < 4.0 + 6 * loss["noise_standard_error"]


def test_a_second_release_at_a_tick_repeats_the_first() -> None:
    for settings in VARIANTS.values():
        model = learner(**settings)
        state, source = model.init(), NoiseSource.insecure(1)
        model.learn(state, batch(model, 100))
        tick = Tick(number=1, records=100)
        model.close(state, tick)
        first = model.release(state, tick, source)
        second = model.release(state, tick, source)
        assert not second.measurements
        assert first.model == second.model


def test_gradients_are_taken_at_released_parameters() -> None:
    # Two ticks, the first not published: the second must still be measured at the first model.
    model = learner(budget=RICH, intercept=True)
    records = batch(model, 200)
    state = model.init()
    for number in (1, 2):
        model.learn(state, records.slice(100 * number - 100, 100 * number))
        model.close(state, Tick(number=number, records=100 * number))
        assert np.all(state.point == 0.0)
    model.release(state, Tick(number=2, records=200), NoiseSource.insecure(1))
    assert np.any(state.point != 0.0)
    once = model.stack.zeros()
    model.stack.add(once, records, np.zeros((1, 4)))
    expected = LogisticLoss().gradient_sum(
        np.zeros(3), records.scaled_features, records.scaled_targets[:, 0]
    )
    np.testing.assert_allclose(once.to_float()[1:4], expected, atol=200 * 2.0**-20)


def test_without_noise_equal_ticks_of_squared_losses_give_least_squares() -> None:
    # The tangents' common curvature is then every tick's own, and the approximation exact.
    model = learner(loss=SquaredLoss(), budget=RICH, slope_clip=8.0, prior_scale=1e6)
    records, state = batch(model, 100), model.init()
    expected = np.linalg.lstsq(records.scaled_features, records.scaled_targets[:, 0], rcond=None)[0]
    for number in range(1, 5):
        model.learn(state, records)
        tick = Tick(number=number, records=100 * number)
        model.close(state, tick)
        released = model.release(state, tick, NoiseSource.insecure(2)).model
        np.testing.assert_allclose(released["coefficients"][0], expected, atol=1e-4)


def test_without_noise_cocop_is_the_regularised_leader_of_linear_losses() -> None:
    model = learner(
        budget=RICH,
        ridge=0.2,
        prior_scale=math.inf,
        convex_set=L2Ball(dimension=3, radius=0.5),
    )
    state, source, records = model.init(), NoiseSource.insecure(1), batch(model)
    gradient, point, ball = np.zeros(3), np.zeros(3), L2Ball(dimension=3, radius=0.5)
    for number in range(1, 7):
        part = records.slice(100 * number - 100, 100 * number)
        model.learn(state, part)
        tick = Tick(number=number, records=100 * number)
        model.close(state, tick)
        model.release(state, tick, source)
        gradient += LogisticLoss().gradient_sum(
            point, part.scaled_features, part.scaled_targets[:, 0]
        )
        point = ball.project(-gradient / (0.2 * 100 * number))
        np.testing.assert_allclose(state.point[0], point, atol=1e-3)


@pytest.mark.parametrize(
    "convex_set",
    [L1Ball(dimension=3, radius=0.3), Simplex(dimension=3), Box(half_widths=np.full(3, 0.2))],
    ids=["l1", "simplex", "box"],
)
def test_oracle_and_projection_find_the_same_leader(convex_set: object) -> None:
    shared = {"budget": RICH, "ridge": 0.3, "convex_set": convex_set}
    by_projection = run(learner(**shared))[-1].model["coefficients"]
    by_oracle = run(learner(**shared, update="linear_oracle", oracle_count=200))[-1].model
    np.testing.assert_allclose(by_oracle["coefficients"], by_projection, atol=5e-3)


def test_the_projected_minimiser_beats_every_other_point_of_the_ball() -> None:
    generator = public_generator(2)
    basis = np.linalg.qr(generator.standard_normal((3, 3)))[0]
    quadratic = Quadratic(
        basis=basis, curvatures=np.array([1.0, 5.0, 90.0]), linear=np.array([[3.0, -8.0, 40.0]])
    )
    ball = L2Ball(dimension=3, radius=0.4)
    found = projected_minimiser(quadratic, Restriction(convex_set=ball, first=0), np.zeros((1, 3)))

    def value(point: np.ndarray) -> float:
        return float(point @ quadratic.product(point[None])[0] / 2 - quadratic.linear[0] @ point)

    others = generator.standard_normal((4000, 3))
    others *= 0.4 / np.linalg.norm(others, axis=1, keepdims=True)
    assert ball.contains(found[0])
    assert value(found[0]) <= min(map(value, others)) + 1e-9


def test_a_clock_needs_a_private_count() -> None:
    with pytest.raises(ConfigurationError, match="count=True"):
        run(learner(), clock=True)
    model = learner(count=True)
    released = run(model, clock=True)[-1].model
    assert released["records"] is None
    # The count is measured: its mean loss differs from the one with public records.
    assert released["progressive_loss"] != run(learner())[-1].model["progressive_loss"]


def test_with_a_large_budget_the_progressive_loss_is_the_mean_loss() -> None:
    model = learner(budget=RICH)
    records, state, total = batch(model), model.init(), 0.0
    for number in range(1, 7):
        part = records.slice(100 * number - 100, 100 * number)
        scores = part.scaled_features @ state.point[0]
        losses = np.logaddexp(0.0, -part.scaled_targets[:, 0] * scores)
        total += float(losses[~part.null].sum())
        model.learn(state, part)
        tick = Tick(number=number, records=100 * number)
        model.close(state, tick)
        outcome = model.release(state, tick, NoiseSource.insecure(4))
    assert outcome.model["progressive_loss"]["mean"] == pytest.approx(total / 600, abs=1e-3)


def progressive(model: FollowTheLeader, x: np.ndarray, y: np.ndarray, seed: int):
    """The last release's progressive loss, and the true losses of each of 16 ticks."""
    records, state, source = model.domain.admit(x, y), model.init(), NoiseSource.insecure(seed)
    size, losses, told = len(records) // 16, [], []
    for number in range(1, 17):
        part = records.slice(size * (number - 1), size * number)
        margins = part.scaled_targets[:, 0] * (part.scaled_features @ state.point[0])
        losses.append(float(np.minimum(np.logaddexp(0.0, -margins), model.loss_bound).sum()))
        model.learn(state, part)
        tick = Tick(number=number, records=size * number)
        model.close(state, tick)
        told.append(model.release(state, tick, source).model["progressive_loss"])
    return told, np.array(losses)


@pytest.mark.parametrize("strategy", ["auto", "binary_tree", "chain"])
def test_the_recent_loss_is_true_within_its_error(strategy: str) -> None:
    horizon = None if strategy == "chain" else 16
    model = learner(horizon=horizon, strategy=strategy)
    generator = public_generator(9)
    x = generator.standard_normal((800, 3)) / 2
    y = generator.choice([-1.0, 1.0], 800)
    squares, runs = 0.0, 60
    for seed in range(runs):
        told, losses = progressive(model, x, y, seed)
        assert "recent" not in told[0]
        recent = told[-1]["recent"]
        since = recent["since_tick"]
        assert 4 <= since <= 8
        true = losses[since:].sum() / (50 * (16 - since))
        squares += ((recent["mean"] - true) / recent["noise_standard_error"]) ** 2
    # Chi-square with 60 degrees of freedom, beyond both limits with probability below 1e-6. The
    # error told leaves out the noise that the two sums share, less than a third of theirs here.
    assert 0.67 * stats.chi2.ppf(5e-7, runs) < squares < stats.chi2.isf(5e-7, runs)
    summed = model.sum
    pairs = [(a, b) for b in range(2, 17) for a in range(1, b)]
    assert min(float(summed.covariance(a, b)[0]) for a, b in pairs) >= 0.0


def test_a_drift_shows_in_the_recent_loss() -> None:
    model = learner(horizon=16, budget=Budget(epsilon=50.0, delta=1e-6))
    generator = public_generator(9)
    x = generator.standard_normal((16_000, 3)) / 2
    y = np.where(x @ np.array([6.0, -3.0, 2.0]) > 0, 1.0, -1.0)
    steady = progressive(model, x, y, 1)[0][-1]
    y[8000:] *= -1.0
    told = progressive(model, x, y, 1)[0][-1]
    assert steady["recent"]["mean"] < steady["mean"]
    error = told["recent"]["noise_standard_error"] + told["noise_standard_error"]
    assert told["recent"]["mean"] > told["mean"] + 5.0 * error


def test_the_engine_runs_it() -> None:
    model = learner(intercept=True)
    generator = public_generator(1)
    rows = np.column_stack(
        (generator.standard_normal((250, 3)), np.sign(generator.standard_normal(250)))
    )
    stream = Stream(learner=model, schedule=EveryRecords(records=50), insecure_seed=5)
    with Session(stream, store=MemoryStore()) as session:
        assert len(list(session.run(ArraySource(rows, [30, 70])))) == 5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": SquaredLoss()}, "slope_clip"),
        ({"loss": HingeLoss()}, "bend"),
        ({"ridge": -1.0}, "ridge"),
        ({"prior_scale": 0.0}, "prior_scale"),
        ({"curvature": "none", "prior_scale": math.inf}, "step size"),
        ({"curvature": "other"}, "curvature"),
        ({"update": "other"}, "update"),
        ({"update": "linear_oracle"}, "linear oracle"),
        (
            {
                "update": "linear_oracle",
                "intercept": True,
                "convex_set": L1Ball(dimension=3, radius=1.0),
            },
            "intercept",
        ),
        ({"convex_set": L2Ball(dimension=4)}, "dimension 4"),
        ({"loss": SoftmaxLoss(classes=3)}, "targets"),
        (
            {
                "loss": SoftmaxLoss(classes=3),
                "domain": Domain.vectors(3, norm_bound=1.0, target_bound=1.0, target_count=3),
            },
            "indicators of 3 labels",
        ),
        ({"slope_clip": 1e6}, "slope_clip"),
        ({"loss_weight": -1.0}, "loss_weight"),
        ({"moment_weight": 0.0}, "moment_weight"),
        ({"tick_records": 0}, "tick_records"),
        ({"oracle_count": 0}, "oracle_count"),
        ({"unit": Unit(kind="user", cap=2, column="id", period="window")}, "window"),
        (
            {"strategy": sum_strategy("auto", horizon=None, window=4, decay=None)},
            "sliding",
        ),
        ({"noise": NoiseKind.SPHERICAL_LAPLACE}, "scales"),
    ],
)
def test_declarations_that_cannot_hold_are_refused(
    settings: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        learner(**settings)


def test_pure_noise_serves_gradients_alone() -> None:
    model = learner(
        budget=Budget(epsilon=1.0, delta=0.0),
        noise=NoiseKind.SPHERICAL_LAPLACE,
        strategy=sum_strategy("window_tree", horizon=None, window=4, decay=None),
        ridge=0.1,
        loss_weight=0.0,
    )
    assert "delayed publication" in run(model)[-1].model["promise"]
    assert model.window == 4


class _WrongOracle(NuclearBall):
    def minimize_linear(self, gradient: np.ndarray) -> np.ndarray:
        return 3.0 * super().minimize_linear(gradient)


def test_an_oracle_outside_its_set_is_refused() -> None:
    wrong = _WrongOracle(rows=3, columns=1, radius=1.0)
    model = learner(update="linear_oracle", convex_set=wrong, ridge=0.1)
    with pytest.raises(ConfigurationError, match="outside its set"):
        run(model)


def test_the_horizon_and_the_ticks_bound_are_kept() -> None:
    model = learner(horizon=2, tick_records=100)
    state = model.init()
    with pytest.raises(ConfigurationError, match="100 records"):
        model.learn(state, batch(model, 101))
    for number in (1, 2):
        model.close(state, Tick(number=number, records=0))
    with pytest.raises(HorizonReached, match="2 ticks"):
        model.close(state, Tick(number=3, records=0))


def test_parameters_in_the_users_units_score_the_users_records() -> None:
    generator = public_generator(3)
    columns = [Numeric("a", 10.0, 20.0), Numeric("b", -1.0, 3.0)]
    target = IntervalTarget("y", 100.0, 300.0)
    for intercept in (True, False):
        declared = Domain(columns, target, intercept=intercept)
        points = generator.standard_normal((1, 3 if intercept else 2))
        found = described_scores(declared, points, loss=SquaredLoss())["user"]
        expected = declared.to_user(
            points[0, 1:] if intercept else points[0], points[0, 0] if intercept else 0.0
        )
        np.testing.assert_allclose(found["coefficients"][0], expected[0])
        np.testing.assert_allclose(found["intercept"][0], expected[1])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"curvature": "diagonal", "count": True},
        {"loss": HuberLoss(threshold=0.3), "loss_weight": 0.0},
        {"loss": HingeLoss(), "bend": 0.2, "slope_clip": 0.5},
        {"loss": SquaredLoss(), "slope_clip": 0.7},
    ],
)
def test_the_compiled_pass_adds_what_the_losses_say(settings: dict[str, object]) -> None:
    # An independent sum, with the losses' own slopes and values, one record after the other.
    model = learner(intercept=True, **settings)
    stack, records = model.stack, batch(model, 200)
    point = stack.published(np.array([[0.3, 4.0, -2.0, 1.5]]))
    total = stack.zeros()
    stack.add(total, records, point)
    found = total.to_float()
    gradient, loss, count = np.zeros(4), 0.0, 0
    for x, y, null in zip(
        records.scaled_features, records.scaled_targets[:, 0], records.null, strict=True
    ):
        if null:
            continue
        z = np.append(1.0, x)
        score, target = np.array([z @ point[0]]), np.array([y])
        slope = float(np.clip(model.loss.derivative(score, target)[0], -stack.slope, stack.slope))
        gradient += slope * z
        loss += min(float(model.loss.link(score, target)[0]), model.loss_bound)
        count += 1
    np.testing.assert_allclose(stack.gradient(found)[0], gradient, atol=200 * 2.0**-19)
    if stack.loss_weight > 0:
        assert stack.loss_sum(found) == pytest.approx(loss, abs=200 * 4 * 2.0**-19)
    if stack.count_weight > 0:
        assert stack.record_count(found) == count
