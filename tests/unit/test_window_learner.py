"""Learners of blocks: the contract, the ledger of their fits, and what they refuse."""

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from block_settings import block_settings

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.domain.column import Numeric
from dpstream.domain.domain import Domain
from dpstream.domain.target import LabelTarget
from dpstream.engine.memory import MemoryStore
from dpstream.engine.schedule import EveryRecords, Thinning
from dpstream.engine.session import Session
from dpstream.engine.stream import Stream
from dpstream.errors import ConfigurationError, HorizonReached, NotPrivate
from dpstream.learners.learner import Outcome, Tick
from dpstream.learners.window.basic_release import BasicRelease
from dpstream.learners.window.block_learner import BlockLearner, BlockState
from dpstream.learners.window.continual_release import ContinualRelease
from dpstream.learners.window.decayed_release import DecayedRelease
from dpstream.learners.window.forecast import longest_history
from dpstream.learners.window.multi_resolution import MultiResolutionRelease
from dpstream.learners.window.sliding_window import SlidingWindowRelease
from dpstream.losses.hinge import HingeLoss
from dpstream.losses.huber import HuberLoss
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.softmax import SoftmaxLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.event import GaussianEvent, PureEvent
from dpstream.privacy.ledger import Ledger
from dpstream.privacy.unit import Unit
from dpstream.solvers.permuted_sgd import PermutedSGD
from dpstream.testing.small_stream import ArraySource

DOMAIN = Domain.vectors(3, norm_bound=1.0, target_bound=1.0, intercept=True)
RECORDS = 10
COMMON = block_settings(DOMAIN, block_records=RECORDS, loss=LogisticLoss(), radius=3.0)


def changed(**changes: Any) -> dict[str, Any]:
    return COMMON | changes


def learners(**changes: Any) -> list[BlockLearner]:
    settings: dict[str, Any] = COMMON | changes
    return [
        MultiResolutionRelease(levels=3, **settings),
        MultiResolutionRelease(**settings),
        ContinualRelease(base=2, **settings),
        BasicRelease(base=2, **settings),
        SlidingWindowRelease(window_records=7 * RECORDS, refresh=None, **settings),
        SlidingWindowRelease(window_records=8 * RECORDS, refresh=None, **settings),
        SlidingWindowRelease(window_records=5 * RECORDS, **settings),
        DecayedRelease(decay=0.8, **settings),
    ]


IDS = [
    "levels",
    "all levels",
    "continual",
    "basic",
    "chains of 7",
    "chains of 8",
    "refitted",
    "decayed",
    "chains by descent",
]
LEARNERS = [
    *learners(),
    SlidingWindowRelease(
        window_records=5 * RECORDS,
        refresh=None,
        base_solver=PermutedSGD(batch_size=4, epochs=2),
        **COMMON,
    ),
]


def records(count: int, seed: int = 3) -> Batch:
    draw = public_generator(seed)
    return DOMAIN.admit(draw.normal(size=(count, 3)), draw.uniform(-1, 1, count))


def tick(number: int) -> Tick:
    return Tick(number=number, records=number * RECORDS)


def outcomes(
    learner: BlockLearner,
    batch: Batch,
    *,
    cuts: Sequence[int] = (),
    resume_at: Sequence[int] = (),
    publish: Sequence[int] | None = None,
) -> tuple[list[Outcome], BlockState]:
    state, noise, found = learner.init(), Noise.insecure(7), list[Outcome]()
    size = learner.block_records
    edges = sorted({0, len(batch), *cuts, *range(0, len(batch), size)})
    for start, end in pairwise(edges):
        learner.learn(state, batch.slice(start, end))
        if end in resume_at:
            arrays = learner.snapshot(state)
            state = learner.restore({key: np.array(value) for key, value in arrays.items()})
        if end % size == 0:
            number = end // size
            learner.close(state, tick(number))
            if publish is None or number in publish:
                found.append(learner.release(state, tick(number), noise))
    return found, state


def flat(found: Sequence[Outcome]) -> list[tuple[tuple[int, ...], int, bytes]]:
    return [
        (m.address, m.exponent, m.value.tobytes())
        for outcome in found
        for m in outcome.measurements
    ]


@pytest.mark.parametrize("learner", LEARNERS, ids=IDS)
def test_batching_and_resuming_change_nothing(learner: BlockLearner) -> None:
    batch = records(14 * RECORDS)
    whole, _ = outcomes(learner, batch)
    cut, _ = outcomes(learner, batch, cuts=(1, 7, 33, 64, 65), resume_at=(7, 33, 40, 65, 90, 120))
    assert flat(whole) == flat(cut)
    assert [outcome.model for outcome in whole] == [outcome.model for outcome in cut]


@pytest.mark.parametrize("learner", LEARNERS, ids=IDS)
def test_ticks_that_do_not_publish_only_defer_their_fits(learner: BlockLearner) -> None:
    batch = records(14 * RECORDS)
    whole, _ = outcomes(learner, batch)
    thinned, _ = outcomes(learner, batch, publish=(3, 4, 9, 14))
    assert flat(whole) == flat(thinned)
    assert whole[-1].model == thinned[-1].model


@pytest.mark.parametrize("learner", LEARNERS, ids=IDS)
def test_addresses_are_unique_and_models_appear_when_the_rule_says(learner: BlockLearner) -> None:
    found, _ = outcomes(learner, records(20 * RECORDS))
    addresses = [address for address, _, _ in flat(found)]
    assert len(set(addresses)) == len(addresses)
    for number, outcome in enumerate(found, start=1):
        assert outcome.model["ready"] == (number >= learner.rule.first)
        assert bool(outcome.measurements) == (number >= learner.rule.first)


@pytest.mark.parametrize("kind", ["gaussian", "spherical_laplace"])
@pytest.mark.parametrize("tilt", [0.0, 0.5])
def test_the_worst_record_of_a_horizon_pays_the_opening_event(kind: str, tilt: float) -> None:
    blocks = 24
    for learner in learners(noise=kind, tilt=tilt, horizon=blocks):
        found, _ = outcomes(learner, records(blocks * RECORDS))
        paid: dict[int, list[float]] = defaultdict(list)
        for outcome in found:
            for measurement in outcome.measurements:
                _, start, end = measurement.address
                noise = learner.solver.plan(end - start, learner.ridge).noise
                event = noise.event("fit")
                price = event.mu**2 if isinstance(event, GaussianEvent) else event.epsilon
                for block in range(start, end):
                    paid[block].append(price)
        worst = max(math.fsum(prices) for prices in paid.values())
        (opening,) = learner.opening_events()
        claimed = opening.mu**2 if isinstance(opening, GaussianEvent) else opening.epsilon
        assert isinstance(opening, GaussianEvent if kind == "gaussian" else PureEvent)
        assert worst <= claimed
        assert worst == pytest.approx(claimed, rel=1e-9)
        Ledger(learner.budget, learner.unit).charge(opening)


def test_history_is_erased_when_no_later_fit_needs_it() -> None:
    learner = SlidingWindowRelease(window_records=7 * RECORDS, refresh=None, **COMMON)
    _, state = outcomes(learner, records(40 * RECORDS))
    assert len(state.history) == 6
    assert len(learner.snapshot(state)["history"]) == 6 * RECORDS
    assert len(state.stack) <= 7
    # A horizon tells that no base follows the one of 8 blocks, and no step the last.
    ending = changed(horizon=13)
    kept = [
        len(outcomes(ContinualRelease(base=2, **ending), records(count * RECORDS))[1].history)
        for count in range(6, 14)
    ]
    assert kept == [6, 7, 0, 1, 2, 3, 0, 0]
    levels = MultiResolutionRelease(levels=3, **COMMON)
    assert all(
        len(outcomes(levels, records(count * RECORDS))[1].history) < 4 for count in range(1, 12)
    )


@pytest.mark.parametrize("every", [1, 2, 3, 5])
def test_the_longest_history_is_the_one_that_is_foretold(every: int) -> None:
    blocks = 60
    for learner in [*learners()[:1], *learners()[4:], *learners(horizon=blocks)]:
        state, noise, longest = learner.init(), Noise.insecure(7), 0
        batch = records(blocks * RECORDS)
        for number in range(1, blocks + 1):
            learner.learn(state, batch.slice((number - 1) * RECORDS, number * RECORDS))
            learner.close(state, tick(number))
            if number % every == 0:
                learner.release(state, tick(number), noise)
            longest = max(longest, len(state.history))
        assert longest == longest_history(learner, publish_every=every)
    assert longest_history(learners()[4], publish_every=0) is None
    assert longest_history(learners()[2]) is None
    assert longest_history(learners(horizon=9)[4], publish_every=0) == 9


def test_short_and_empty_blocks_are_filled_up_with_null_records() -> None:
    learner = SlidingWindowRelease(window_records=2 * RECORDS, **COMMON)
    batch = records(RECORDS)
    keep = np.arange(RECORDS) >= 4
    states = [learner.init(), learner.init()]
    learner.learn(states[0], batch.slice(0, 4))
    learner.learn(states[1], batch.nullify(keep))
    for state in states:
        learner.close(state, tick(1))
        learner.close(state, tick(2))
    results = [learner.release(state, tick(2), Noise.insecure(1)) for state in states]
    assert flat(results[:1]) == flat(results[1:])


def test_a_class_that_was_not_declared_makes_its_record_null() -> None:
    """An error would tell that such a record came; its place stays, and nothing else of it."""
    names = [Numeric("a"), Numeric("b")]
    domain = Domain(names, LabelTarget("y", ["p", "q", "r"]), intercept=False, norm_bound=1.0)
    learner = SlidingWindowRelease(
        window_records=2 * RECORDS,
        **changed(domain=domain, loss=SoftmaxLoss(classes=3)),
    )
    rows = public_generator(8).normal(size=(2 * RECORDS, 2))
    labels = np.array(["p", "q", "r", "q"] * 5)
    with_other, with_none = labels.astype(object), labels.astype(object)
    with_other[3], with_none[3] = "s", None
    found = [
        flat(outcomes(learner, domain.admit(rows, column))[0])
        for column in (with_other, with_none, labels.astype(object))
    ]
    assert found[0] == found[1] != found[2]
    with pytest.raises(ConfigurationError, match="declare its classes"):
        ContinualRelease(base=2, **changed(domain=domain, loss=SoftmaxLoss(classes=4)))


def test_more_records_than_a_block_holds_are_refused_whole() -> None:
    learner = LEARNERS[0]
    state = learner.init()
    with pytest.raises(ConfigurationError, match="more than block_records = 10"):
        learner.learn(state, records(RECORDS + 1))
    assert not state.open


def test_the_horizon_ends_the_stream() -> None:
    learner = ContinualRelease(base=2, **changed(horizon=3))
    _, state = outcomes(learner, records(3 * RECORDS))
    with pytest.raises(HorizonReached, match="3 blocks"):
        learner.close(state, tick(4))


@pytest.mark.parametrize(
    ("loss", "targets"),
    [
        (SquaredLoss(), 1),
        (HuberLoss(threshold=0.3), 1),
        (LogisticLoss(), 1),
        (SoftmaxLoss(classes=11), 11),
    ],
)
def test_losses_learn_with_little_noise(loss: Any, targets: int) -> None:
    draw = public_generator(5)
    rows = draw.normal(size=(2000, 12))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    truth = draw.normal(size=(targets, 12))
    scores = rows @ truth.T
    names = [Numeric(f"x{j}") for j in range(12)]
    if targets > 1:
        labels = scores.argmax(axis=1)
        domain = Domain(names, LabelTarget("y", list(range(11))), intercept=False, norm_bound=1.0)
        answers: FloatArray = labels
    else:
        domain = Domain.vectors(12, norm_bound=1.0, target_bound=1.0)
        answers = np.clip(scores[:, 0], -1, 1)
        if loss.name == "logistic":
            answers = np.sign(answers)
    settings: dict[str, Any] = COMMON | {
        "domain": domain,
        "budget": Budget(epsilon=1000.0, delta=1e-6),
        "loss": loss,
        "block_records": 250,
        "ridge": 0.01,
        "radius": 20.0,
    }
    learner = SlidingWindowRelease(window_records=1000, **settings)
    found, _ = outcomes(learner, domain.admit(rows, answers))
    coefficients = np.array(found[-1].model["user"]["coefficients"])
    guess = rows @ coefficients.T
    if targets > 1:
        assert (guess.argmax(axis=1) == labels).mean() > 0.75
    else:
        assert np.corrcoef(guess[:, 0], answers)[0, 1] > 0.75


def test_a_session_publishes_resumes_and_charges_once() -> None:
    rows = public_generator(2).normal(size=(9 * RECORDS, 4))
    learner = SlidingWindowRelease(window_records=4 * RECORDS, refresh=2, **COMMON)
    stream = Stream(learner=learner, schedule=EveryRecords(records=RECORDS), insecure_seed=4)
    store = MemoryStore()
    with Session(stream, store=store) as session:
        list(session.run(ArraySource(rows[: 5 * RECORDS + 3], [17])))
    with Session(stream, store=store) as session:
        list(session.run(ArraySource(rows, [17])))
        assert len(session.ledger.rows) == 1
        parts = list(session.releases())
    with Session(stream, store=MemoryStore()) as session:
        assert [r.value for r in session.run(ArraySource(rows, [90]))] == [r.value for r in parts]


@pytest.mark.parametrize("wrong", [1.5, 10.0, math.nan, True, "2", np.int64(20)])
def test_counts_that_are_no_whole_numbers_are_refused(wrong: Any) -> None:
    """A base of nan would have made every fit's share the whole budget."""
    for make in (
        lambda: BasicRelease(base=wrong, **COMMON),
        lambda: ContinualRelease(base=wrong, **COMMON),
        lambda: ContinualRelease(base=wrong, updates="refit", **COMMON),
        lambda: MultiResolutionRelease(levels=wrong, **COMMON),
        lambda: SlidingWindowRelease(window_records=wrong, **COMMON),
        lambda: SlidingWindowRelease(window_records=70, refresh=wrong, **COMMON),
        lambda: DecayedRelease(decay=0.5, **changed(block_records=wrong)),
        lambda: DecayedRelease(decay=0.5, **changed(horizon=wrong)),
    ):
        with pytest.raises(ConfigurationError, match="must be a whole number"):
            make()


def test_ticks_longer_than_a_block_are_refused_before_anything_is_charged() -> None:
    learner = LEARNERS[0]
    assert Stream(learner=learner, schedule=Thinning(start=3, every=RECORDS))
    for schedule in (
        EveryRecords(records=RECORDS + 1),
        Thinning(start=3, every=RECORDS + 1, ticks_per_doubling=2),
    ):
        with pytest.raises(ConfigurationError, match="ticks of up to 11 records"):
            Stream(learner=learner, schedule=schedule)


def test_bad_declarations_are_refused_before_anything_is_charged() -> None:
    with pytest.raises(ConfigurationError, match="whole number of blocks"):
        SlidingWindowRelease(window_records=25, **COMMON)
    with pytest.raises(ConfigurationError, match="ridge"):
        ContinualRelease(base=2, **changed(ridge=0.0))
    with pytest.raises(ConfigurationError, match="declare its classes"):
        ContinualRelease(base=2, **changed(loss=SoftmaxLoss(classes=4)))
    with pytest.raises(ConfigurationError, match="no Lipschitz gradient"):
        ContinualRelease(base=2, **changed(loss=HingeLoss()))
    with pytest.raises(ConfigurationError, match="base is 0"):
        BasicRelease(base=0, **COMMON)
    with pytest.raises(ConfigurationError, match="the first model needs 7"):
        SlidingWindowRelease(window_records=70, **changed(horizon=6))
    with pytest.raises(ConfigurationError, match="tilt is 1"):
        BasicRelease(base=2, **changed(tilt=1.0))
    with pytest.raises(ConfigurationError, match="updates is"):
        ContinualRelease(base=2, **changed(updates="never"))
    user = Unit(kind="user", cap=2, column="id", period="window")
    with pytest.raises(ConfigurationError, match="counts over a window"):
        BasicRelease(base=2, **changed(unit=user))
    with pytest.raises(ConfigurationError, match=r"update_ridge is 0\.0; .* a record moves"):
        BasicRelease(base=2, update_ridge=0.0, **COMMON)
    for learner in (MultiResolutionRelease, ContinualRelease, BasicRelease):
        extra: dict[str, Any] = {} if learner is MultiResolutionRelease else {"base": 2}
        with pytest.raises(NotPrivate, match="grows without bound"):
            learner(sampling=True, **extra, **COMMON)
    with pytest.raises(NotPrivate, match="delta"):
        BasicRelease(base=2, **changed(budget=Budget(epsilon=1.0, delta=0.0)))
    pure: dict[str, Any] = {"budget": Budget(epsilon=1.0, delta=0.0), "noise": "spherical_laplace"}
    assert BasicRelease(base=2, **changed(**pure)).opening_events()
    with pytest.raises(NotPrivate, match="no bound"):
        ContinualRelease(base=2, updates="refit", **changed(**pure))
