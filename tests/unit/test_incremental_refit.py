"""PrivIncERM as the engine sees it: exact, resumable, charged refit by refit."""

import json
import math

import numpy as np
import pytest
from learner_run import outcomes, same

from dpstream.domain.domain import Domain
from dpstream.engine.memory import MemoryStore
from dpstream.engine.schedule import EveryRecords
from dpstream.engine.session import Session
from dpstream.engine.stream import Stream
from dpstream.errors import ConfigurationError, HorizonReached
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.learners.incremental.priv_inc_erm import PrivIncERM
from dpstream.learners.incremental.refit_schedule import (
    endless_total,
    harmonic_total,
    paper_interval,
    refit_fraction,
)
from dpstream.learners.learner import Outcome, Tick
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.regularised import RegularisedLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import gaussian_mu
from dpstream.privacy.event import ComposedEvent, Event, GaussianEvent, RepeatedEvent
from dpstream.privacy.ledger import Ledger
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.solvers.frank_wolfe import FrankWolfe
from dpstream.solvers.mirror_descent import MirrorDescent
from dpstream.solvers.moment_regression import MomentRegression
from dpstream.solvers.objective_perturbation import ObjectivePerturbation
from dpstream.solvers.output_perturbation import OutputPerturbation
from dpstream.testing.small_stream import ArraySource

WIDTH, TICK, HORIZON = 3, 20, 11
SOLVERS = {
    "moments": (SquaredLoss(), MomentRegression()),
    "descent": (LogisticLoss(), MirrorDescent(steps=4)),
    "selection": (LogisticLoss(), FrankWolfe(steps=3)),
    "output": (LogisticLoss(), OutputPerturbation()),
}


def learner(kind: str = "moments", **settings: object) -> PrivIncERM:
    loss, solver = SOLVERS[kind]
    given: dict[str, object] = {
        "domain": Domain.vectors(WIDTH, norm_bound=1.0, target_bound=1.0),
        "budget": Budget(epsilon=1.0, delta=1e-6),
        "unit": Unit(),
        "neighbours": Neighbours.ZERO_OUT,
        "horizon": HORIZON,
        "loss": loss,
        "constraint": L1Ball(dimension=WIDTH),
        "solver": solver,
        "tick_records": TICK,
        "refit_every": 3,
    }
    return PrivIncERM(**(given | settings))


def data() -> tuple[np.ndarray, np.ndarray]:
    generator = public_generator(2)
    features = generator.standard_normal((TICK * HORIZON, WIDTH)) / 2
    return features, np.sign(features @ np.array([0.5, -0.3, 0.1]))


def run(model: PrivIncERM, cuts: list[int], resume_at: int | None = None) -> list[Outcome]:
    records = model.domain.admit(*data())
    return outcomes(model, records, tick_records=TICK, cuts=cuts, resume_at=resume_at)


@pytest.mark.parametrize("kind", SOLVERS)
def test_batching_and_resuming_change_nothing(kind: str) -> None:
    whole = run(learner(kind), [])
    for other in (
        run(learner(kind), [1, 13, 99, 101, 219]),
        run(learner(kind), [130], resume_at=100),
    ):
        assert all(map(same, whole, other))
        assert len(whole) == len(other)


@pytest.mark.parametrize("kind", SOLVERS)
def test_refits_come_at_their_ticks_and_models_last_between(kind: str) -> None:
    outcomes = run(learner(kind), [])
    for number, outcome in enumerate(outcomes, start=1):
        assert outcome.model["refitted"] == (number % 3 == 0)
        assert outcome.model["fitted_at"] == number // 3 * 3
        assert outcome.model["ready"] == (number >= 3)
        assert bool(outcome.measurements) == (number % 3 == 0)
        if number % 3:
            before = outcomes[number - 2].model if number > 1 else None
            same = before is None or before["coefficients"] == outcome.model["coefficients"]
            assert same
        assert json.loads(json.dumps(outcome.model, allow_nan=False)) == outcome.model
    addresses = [m.address for outcome in outcomes for m in outcome.measurements]
    assert len(set(addresses)) == len(addresses)
    assert outcomes[0].model["coefficients"] == [[0.0] * WIDTH]


@pytest.mark.parametrize("shares", ["equal", "harmonic", "endless"])
@pytest.mark.parametrize("kind", SOLVERS)
def test_the_ledger_takes_every_refit_and_no_more(kind: str, shares: str) -> None:
    model = learner(kind, shares=shares)
    ledger = Ledger(model.budget, model.unit)
    for number in range(1, HORIZON + 1):
        tick = Tick(number=number, records=TICK * number)
        events = model.next_events(tick)
        assert bool(events) == (number % 3 == 0)
        for event in events:
            (covers,) = {str(c) for c in _covers(event)}
            assert covers == str((0, TICK * number))
            ledger.charge(event)
    spent = ledger.spent().epsilon(model.budget.delta)
    assert spent <= model.budget.epsilon
    if shares != "endless" and kind in ("moments", "descent", "output"):
        # Gaussian parts add exactly: the whole budget is used.
        assert spent >= 0.999 * model.budget.epsilon


def _covers(event: Event) -> list[object]:
    if isinstance(event, RepeatedEvent):
        return _covers(event.event)
    if isinstance(event, ComposedEvent):
        return [cover for part in event.events for cover in _covers(part)]
    return [event.covers]


def test_gaussian_shares_add_up_to_the_budget() -> None:
    for shares in ("equal", "harmonic"):
        model = learner(shares=shares)
        squares = []
        for number in (3, 6, 9):
            (event,) = model.next_events(Tick(number=number, records=TICK * number))
            assert isinstance(event, GaussianEvent)
            squares.append(event.mu**2)
        whole = gaussian_mu(model.budget) ** 2
        assert math.fsum(squares) == pytest.approx(whole, rel=1e-7)
        assert math.fsum(squares) <= whole


def test_shares_sum_to_one_and_never_exceed_it() -> None:
    for count in (1, 2, 7, 1000):
        for shares in ("equal", "harmonic"):
            total = math.fsum(refit_fraction(shares, j, count) for j in range(1, count + 1))
            assert 1 - 1e-8 < total <= 1.0
    head = math.fsum(refit_fraction("endless", j, None) for j in range(1, 200_000))
    assert 0.95 < head < 1.0
    # The tail beyond N is about 1 / ln N of the total.
    tail = 1 / math.log(200_000) / endless_total()
    assert head + tail == pytest.approx(1.0, abs=1e-6)
    assert endless_total() == pytest.approx(2.10974, abs=1e-4)
    assert harmonic_total(4) == pytest.approx(25 / 12)


def test_histories_are_kept_only_where_they_are_needed() -> None:
    batch = learner().domain.admit(*data())
    for kind, kept in (("moments", 0), ("descent", len(batch))):
        model = learner(kind)
        state = model.init()
        model.learn(state, batch)
        snapshot = model.snapshot(state)
        assert len(snapshot["rows"]) == kept
        assert snapshot["rows"].dtype == np.int64


def test_with_a_large_budget_refits_minimise_the_risk_of_the_history() -> None:
    rich = Budget(epsilon=1e8, delta=1e-6)
    model = learner(budget=rich, constraint=L2Ball(dimension=WIDTH, radius=5.0))
    last = run(model, [])[8].model
    features, targets = data()
    seen = slice(0, 9 * TICK)
    batch = model.domain.admit(features, targets)
    expected = np.linalg.lstsq(batch.scaled_features[seen], targets[seen], rcond=None)[0]
    np.testing.assert_allclose(last["coefficients"][0], expected, atol=1e-4)


def test_a_ridge_and_its_centre_reach_the_moments() -> None:
    rich = Budget(epsilon=1e8, delta=1e-6)
    centre = np.array([0.2, 0.1, -0.1])
    model = learner(
        budget=rich,
        loss=RegularisedLoss(loss=SquaredLoss(), ridge=0.3, centre=centre),
        constraint=L2Ball(dimension=WIDTH, radius=5.0),
    )
    found = np.array(run(model, [])[8].model["coefficients"][0])
    batch = model.domain.admit(*data())
    x, y = batch.scaled_features[: 9 * TICK], batch.scaled_targets[: 9 * TICK, 0]
    n = len(x)
    expected = np.linalg.solve(x.T @ x + 0.3 * n * np.eye(WIDTH), x.T @ y + 0.3 * n * centre)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_bounded_columns_and_a_constant_reach_the_moments() -> None:
    rich = Budget(epsilon=1e8, delta=1e-6)
    domain = Domain.vectors(
        WIDTH, norm_bound=1.0, target_bound=2.0, intercept=True, record_bound="max"
    )
    model = learner(budget=rich, domain=domain, constraint=L2Ball(dimension=WIDTH + 1, radius=9.0))
    features, _ = data()
    clipped = np.clip(features, -1, 1)
    targets = clipped @ np.array([0.3, -0.2, 0.4]) + 0.5
    state = model.init()
    model.learn(state, domain.admit(features, targets))
    tick = Tick(number=3, records=len(features))
    user = model.release(state, tick, Noise.insecure(1)).model["user"]
    np.testing.assert_allclose(user["coefficients"][0], [0.3, -0.2, 0.4], atol=1e-3)
    np.testing.assert_allclose(user["intercept"][0], 0.5, atol=1e-3)


def test_the_papers_intervals_as_corrected() -> None:
    problem = learner("descent").problem(10_000)
    convex = paper_interval("convex", problem, 0.5)
    assert convex == math.ceil((10_000 * WIDTH) ** (1 / 3) / 0.5 ** (2 / 3))
    ridge = learner("descent", loss=RegularisedLoss(loss=LogisticLoss(), ridge=0.25))
    strong = ridge.problem(10_000)
    slope = strong.lipschitz.l2
    expected = math.ceil(math.sqrt(WIDTH * slope / 0.25) / 0.5)
    assert paper_interval("strongly_convex", strong, 0.5) == expected
    with pytest.raises(ConfigurationError, match="strongly convex problem"):
        paper_interval("strongly_convex", problem, 0.5)
    # A doubled set (and halved features) is the same problem: so is its interval.
    small = learner().problem(10_000)
    slope, bend = (
        small.lipschitz.l2,
        small.smooth_loss.curvature(small.record_bound, small.convex_set),
    )
    width = small.convex_set.gaussian_width()
    tau = paper_interval("low_width", small, 1.0)
    assert tau == math.ceil(math.sqrt(10_000 * width) * bend**0.25 / slope**0.25)
    for c in (2.0, 10.0):
        scaled = math.sqrt(10_000 * c * width) * bend**0.25 / ((slope / c) ** 0.25 * c**0.75)
        assert math.ceil(scaled) == tau
        printed = math.sqrt(10_000 * c * width) * bend**0.25 / (slope**0.25)
        assert math.ceil(printed) != tau


def test_auto_minimises_the_prediction() -> None:
    model = learner(
        "descent", horizon=4000, refit_every="auto", tick_records=10, solver=MirrorDescent()
    )
    trials = [*range(1, 20), 50, 500, 4000]
    best = model.predicted_excess(model.interval)
    assert all(best <= model.predicted_excess(trial) * (1 + 1e-9) for trial in trials)
    assert 1 < model.interval < 4000
    assert best < 0.8 * max(model.predicted_excess(trial) for trial in trials)
    assert learner("descent", horizon=400, refit_every="convex").interval >= 1


def test_without_a_horizon_it_goes_on() -> None:
    model = learner("descent", horizon=None)
    assert model.division == "endless"
    state = model.init()
    batch = model.domain.admit(*data())
    model.learn(state, batch)
    for number in (3, 3_000_000):
        assert model.next_events(Tick(number=number, records=len(batch)))
        assert model.release(state, Tick(number=number, records=len(batch)), Noise.insecure(1))


def test_a_session_runs_charges_and_resumes_it() -> None:
    features, targets = data()
    model = learner("descent")
    rows = np.column_stack([features, targets])
    stream = Stream(learner=model, schedule=EveryRecords(records=TICK), insecure_seed=7)

    def released(stops: list[int]) -> list[object]:
        store = MemoryStore()
        for stop in stops:
            with Session(stream, store=store) as session:
                for _ in session.run(ArraySource(rows[:stop], [33])):
                    pass
                found = [release.value for release in session.releases()]
                spent = session.ledger.spent().epsilon(1e-6)
        assert 0.99 < spent <= 1.0
        return found

    whole = released([len(rows)])
    assert len(whole) == HORIZON
    assert released([50, 70, 199, len(rows)]) == whole


def test_refusals() -> None:
    for interval in (0, HORIZON + 1):
        with pytest.raises(ConfigurationError, match="refit_every is"):
            learner(refit_every=interval)
    with pytest.raises(ConfigurationError, match="give a number of ticks"):
        learner(refit_every="often")
    with pytest.raises(ConfigurationError, match="declare a horizon"):
        learner(refit_every="auto", horizon=None)
    with pytest.raises(ConfigurationError, match="known number of refits"):
        learner(shares="equal", horizon=None)
    with pytest.raises(ConfigurationError, match="it must be 'equal'"):
        learner(shares="all")
    with pytest.raises(ConfigurationError, match="tick_records is 0"):
        learner(tick_records=0)
    with pytest.raises(ConfigurationError, match="over a window"):
        learner(unit=Unit(kind="user", cap=2, column="id", period="window"))
    with pytest.raises(ConfigurationError, match="do not compose by shares"):
        learner("descent", solver=ObjectivePerturbation())
    with pytest.raises(ConfigurationError, match="squared loss alone"):
        learner(loss=LogisticLoss())
    with pytest.raises(ConfigurationError, match="close ticks by count"):
        learner().next_events(Tick(number=3, records=None))
    with pytest.raises(ConfigurationError, match="2 encoded targets"):
        learner(domain=Domain.vectors(WIDTH, norm_bound=1.0, target_bound=1.0, target_count=2))
    model = learner(horizon=3)
    state = model.init()
    for number in (1, 2, 3):
        model.close(state, Tick(number=number, records=0))
    with pytest.raises(HorizonReached):
        model.close(state, Tick(number=4, records=0))
