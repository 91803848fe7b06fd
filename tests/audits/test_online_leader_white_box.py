"""The privacy of following the approximate leader, from its records to its nodes.

The map from a stream to the measured nodes is the learner's own code. Gradients are taken at
released parameters, so two neighbouring streams are compared along one transcript: the releases
are drawn once, and both streams' records are evaluated at them. The sum of squared shifts over
noise variances is then mu squared of that transcript; the claim must bound it for all of them.
"""

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.domain.target import LabelTarget
from dpstream.geometry.l2_ball import L2Ball
from dpstream.learners.learner import Tick
from dpstream.learners.online.follow_the_leader import FollowTheLeader
from dpstream.learners.online.gradient_stack import stack_sensitivity
from dpstream.losses.hinge import HingeLoss
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.softmax import SoftmaxLoss
from dpstream.mechanisms.continual.choice import sum_strategy
from dpstream.mechanisms.continual.strategy import Participation
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.randomness.source import NoiseSource

HORIZON = 9
Record = tuple[np.ndarray, float] | None
"""Features and target, or None for the null record."""


def build(neighbours: Neighbours, **settings: object) -> FollowTheLeader:
    intercept = bool(settings.pop("intercept", False))
    domain = Domain.vectors(2, norm_bound=1.0, target_bound=1.0, intercept=intercept)
    if classes := int(settings.pop("classes", 0)):
        domain = Domain(domain.columns, LabelTarget("y", range(classes)), norm_bound=1.0)
        settings["loss"] = SoftmaxLoss(classes=classes)
    given: dict[str, object] = {
        "domain": domain,
        "budget": Budget(epsilon=1.0, delta=1e-6),
        "unit": Unit(),
        "neighbours": neighbours,
        "horizon": HORIZON,
        "loss": LogisticLoss(),
        # Large models make slopes as large as they can be: the worst case is sought.
        "prior_scale": 1e4,
    }
    return FollowTheLeader(**(given | settings))


def admitted(model: FollowTheLeader, records: Sequence[Record]) -> Batch:
    x = np.array([np.full(2, np.nan) if record is None else record[0] for record in records])
    y = np.array([np.nan if record is None else record[1] for record in records])
    if model.stack.classes > 1:
        labels = ["" if np.isnan(value) else str(int(value)) for value in y]
        return model.domain.admit({"x1": x[:, 0], "x2": x[:, 1], "y": labels})
    return model.domain.admit(x, y)


def direction(angle: float) -> np.ndarray:
    return np.array([math.cos(angle), math.sin(angle)])


def crowd(model: FollowTheLeader, seed: int) -> list[list[Record]]:
    generator = public_generator(seed)
    targets = (
        (lambda: 1.0 * generator.integers(model.stack.classes))
        if (model.stack.classes > 1)
        else (lambda: float(generator.choice([-1.0, 1.0])))
    )
    return [
        [(generator.standard_normal(2) / 2, targets()) for _ in range(3)] for _ in range(HORIZON)
    ]


def transcript(model: FollowTheLeader, ticks: Sequence[Sequence[Record]], seed: int):
    """The parameters of every tick, as released on a stream."""
    state, source = model.init(), NoiseSource.insecure(seed)
    points = []
    for number, records in enumerate(ticks, start=1):
        points.append(state.point)
        model.learn(state, admitted(model, records))
        tick = Tick(number=number, records=3 * number)
        model.close(state, tick)
        model.release(state, tick, source)
    return points


def nodes(
    model: FollowTheLeader, ticks: Sequence[Sequence[Record]], points: Sequence[np.ndarray]
) -> np.ndarray:
    """All measured nodes over their noise, of a stream evaluated along a transcript."""
    state = model.init()
    parts: list[np.ndarray] = []
    noise = model.sum.sigma / model.sum.scale_vector
    for number, (records, point) in enumerate(zip(ticks, points, strict=True), start=1):
        state.point = point
        model.learn(state, admitted(model, records))
        model.close(state, Tick(number=number, records=3 * number))
        parts += [
            np.ldexp(node.value.astype(float), node.exponent) / noise / node.weight
            for node in state.sum.encoder.nodes()
            if node.weight > 0
        ]
    return np.concatenate(parts)


def worst(
    model: FollowTheLeader,
    pairs: Sequence[tuple[Record, Record]],
    places: Sequence[tuple[int, ...]] = ((0,), (1,), (4,), (HORIZON - 1,)),
    *,
    at: Callable[[np.ndarray], np.ndarray] = lambda point: point,
) -> float:
    """The largest shift found, over transcripts, places and pairs."""
    found = 0.0
    for seed in (1, 2):
        ticks = crowd(model, seed)
        points = [at(point) for point in transcript(model, ticks, seed)]
        for own, (first, second) in itertools.product(places, pairs):
            sides = []
            for record in (first, second):
                held = [list(records) for records in ticks]
                for place in own:
                    held[place].append(record)
                sides.append(nodes(model, held, points))
            found = max(found, float(np.linalg.norm(sides[0] - sides[1])))
    return found


def reach(model: FollowTheLeader) -> float:
    """The share of a first record's column that a stream of so few ticks sees."""
    state, strategy = model.sum.init(), model.sum.strategy
    total = 0.0
    for tick in range(HORIZON):
        increment = model.stack.zeros()
        increment.high[0] = (tick == 0) << 20
        model.sum.absorb(state, increment)
        for node in state.encoder.nodes():
            total += float(np.ldexp(float(node.value[0]), node.exponent) / node.weight) ** 2
    unit = 2.0**12
    return math.sqrt(total) / unit / strategy.sensitivity(Participation(), order=2)


def far(point: np.ndarray) -> np.ndarray:
    """A released model that is confident everywhere: an adversary may steer the stream there."""
    return np.full(point.shape, -2e3) * np.arange(1, len(point) + 1)[:, None] + point


PLAIN: dict[str, dict[str, object]] = {
    "full": {},
    "intercept": {"intercept": True},
    "diagonal": {"curvature": "diagonal"},
    "gradients alone": {"curvature": "none", "loss_weight": 0.0},
    "counted": {"count": True},
    "clipped": {"slope_clip": 0.5},
    "hinge": {"loss": HingeLoss(), "bend": 0.2},
    "honaker": {"strategy": "honaker_tree"},
    "tree": {"strategy": "binary_tree"},
    "chain": {"horizon": None},
    "decayed": {"strategy": sum_strategy("decayed_toeplitz", horizon=None, window=None, decay=0.9)},
    "ridge": {"ridge": 0.2, "convex_set": L2Ball(dimension=2, radius=3.0)},
}


@pytest.mark.parametrize("settings", PLAIN.values(), ids=PLAIN.keys())
def test_a_record_against_null(settings: dict[str, object]) -> None:
    model = build(Neighbours.ZERO_OUT, **settings)
    pairs: list[tuple[Record, Record]] = [
        ((length * direction(angle), target), None)
        for angle in (0.0, 1.5)
        for length, target in ((1.0, 1.0), (7.0, -1.0), (0.9, 1.0))
    ]
    found = worst(model, pairs, at=far)
    assert found <= model.sum.strength
    assert found >= 0.99 * reach(model) * model.sum.strength


@pytest.mark.parametrize("settings", PLAIN.values(), ids=PLAIN.keys())
def test_a_record_against_another(settings: dict[str, object]) -> None:
    model = build(Neighbours.REPLACE, **settings)
    # All wrong and confident gradients lie in one half-space: two of them are nearly opposite if
    # their records are nearly at right angles to the model, one on each side.
    middle = math.atan2(-1.0, -1.0)
    pairs: list[tuple[Record, Record]] = [
        ((direction(middle + turn), 1.0), (direction(middle - turn), 1.0))
        for turn in (math.pi / 2 + 0.02, 2.0, math.pi / 4)
    ]
    pairs += [((direction(0.0), 1.0), (direction(0.0), -1.0)), ((direction(0.0), 1.0), None)]
    found = worst(model, pairs, ((0,),), at=far)
    assert found <= model.sum.strength
    assert found >= (0.9 if model.domain.intercept else 0.97) * reach(model) * model.sum.strength


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_softmax(neighbours: Neighbours) -> None:
    model = build(neighbours, classes=3, intercept=False)
    records: list[Record] = [
        (sign * direction(0.0), label) for sign in (-1, 1) for label in (0.0, 1.0, 2.0)
    ]
    pairs: list[tuple[Record, Record]] = [(first, None) for first in records]
    if neighbours is Neighbours.REPLACE:
        pairs = list(itertools.product(records, records))
    found = worst(model, pairs, ((0,),), at=far)
    assert found <= model.sum.strength
    # The domain has an intercept, whose gradients cannot be opposite like the features'.
    assert found >= (0.9 if neighbours is Neighbours.ZERO_OUT else 0.6) * model.sum.strength


def test_a_user_with_several_records() -> None:
    model = build(Neighbours.ZERO_OUT, unit=Unit(kind="user", cap=3, column="id"))
    record: Record = (direction(0.4), 1.0)
    found = worst(model, [(record, None)], ((0, 0, 0), (0, 1, 2), (0, 0, 1)), at=far)
    assert 0.99 * model.sum.strength <= found <= model.sum.strength


def test_an_expiring_sum_protects_for_the_window_and_publishes_after_it() -> None:
    window = 4
    for name in ("window_tree", "expiring_toeplitz"):
        strategy = sum_strategy(name, horizon=None, window=window, decay=None)
        model = build(Neighbours.ZERO_OUT, strategy=strategy, ridge=0.1)
        ticks, others = crowd(model, 1), crowd(model, 1)
        ticks[0].append((direction(0.0), 1.0))
        others[0].append(None)
        points = [far(point) for point in transcript(model, ticks, 1)]
        # While the record is live: all noisy nodes of the ticks before its expiry.
        state, other = model.init(), model.init()
        shift, noise = 0.0, model.sum.sigma / model.sum.scale_vector
        exact: np.ndarray | None = None
        for number in range(1, HORIZON + 1):
            for held, records in ((state, ticks), (other, others)):
                held.point = points[number - 1]
                model.learn(held, admitted(model, records[number - 1]))
                model.close(held, Tick(number=number, records=3 * number))
            for first, second in zip(
                state.sum.encoder.nodes(), other.sum.encoder.nodes(), strict=True
            ):
                moved = np.ldexp((first.value - second.value).astype(float), first.exponent)
                if first.weight > 0 and number <= window:
                    shift += float(np.sum((moved / noise / first.weight) ** 2))
                elif first.weight == 0 and np.any(moved):
                    assert number > window
                    exact = moved if exact is None else exact
        assert math.sqrt(shift) <= model.sum.strength
        assert exact is not None
        # What is published then is the record's gradient, to the bit of the lattice.
        gradient = model.stack.gradient(exact)[0]
        np.testing.assert_allclose(np.linalg.norm(gradient), 1.0, atol=1e-3)


def test_a_wrong_claim_is_seen_both_ways() -> None:
    for factor in (0.5, 2.0):
        model = build(Neighbours.ZERO_OUT)
        object.__setattr__(model.sum, "sigma", model.sum.sigma * factor)
        found = worst(model, [((direction(0.0), 1.0), None)], ((0,),), at=far)
        assert not 0.99 * model.sum.strength <= found <= model.sum.strength


def test_gradients_at_unreleased_models_would_break_the_claim() -> None:
    # The negative control of the adaptivity rule: evaluate both streams' records along their own
    # noiseless paths, as a learner would that steps on secret iterates. One record then moves
    # every later gradient too, and the shift exceeds the claim.
    model = build(Neighbours.ZERO_OUT, budget=Budget(epsilon=1.0, delta=1e-6))
    crowd_ticks = [[(direction(0.3), 1.0), (direction(0.3), -1.0)] * 20 for _ in range(HORIZON)]
    sides = []
    for extra in ((direction(0.3), 1.0), None):
        ticks = [list(records) for records in crowd_ticks]
        ticks[0].append(extra)
        total, points = np.zeros(2), []
        for records in ticks:
            point = -50.0 * total
            points.append(point[None].copy())
            batch = admitted(model, records)
            stack = model.stack.zeros()
            model.stack.add(stack, batch, model.stack.published(point[None]))
            total += model.stack.gradient(stack.to_float())[0]
        sides.append(nodes(model, ticks, points))
    assert float(np.linalg.norm(sides[0] - sides[1])) > 2.0 * model.sum.strength


def test_the_sensitivity_is_the_stacks() -> None:
    model = build(Neighbours.REPLACE, intercept=True)
    assert model.sum.record_shift == stack_sensitivity(
        slope=1.0,
        length=math.hypot(1.0, 0.3),
        moments=0.3,
        loss=0.05,
        count=0.0,
        neighbours=Neighbours.REPLACE,
    )


def test_stacks_of_adversarial_records_obey_the_sensitivity() -> None:
    # Random corners of the record space, at confident models: no pair exceeds the bound.
    generator = public_generator(7)
    for neighbours, classes in itertools.product(Neighbours, (0, 3)):
        model = build(neighbours, classes=classes, curvature="diagonal")
        scales = np.array(model.stack.scales)
        largest = 0.0
        for _ in range(100):
            point = model.stack.published(
                generator.standard_normal((model.stack.classes, model.stack.width)) * 1e3
            )
            sides = []
            for _ in range(2):
                label = (
                    float(generator.integers(3)) if classes else float(generator.choice([-1, 1]))
                )
                record: Record = (3 * direction(generator.uniform(0, 7)), label)
                total = model.stack.zeros()
                model.stack.add(total, admitted(model, [record]), point)
                sides.append(total.to_float() * scales)
            if neighbours is Neighbours.ZERO_OUT:
                sides[1] = np.zeros_like(sides[1])
            largest = max(largest, float(np.linalg.norm(sides[0] - sides[1])))
        bound = model.stack.sensitivity(neighbours)
        assert 0.6 * bound <= largest <= bound
