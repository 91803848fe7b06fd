"""The whole learner's privacy, from its records to its nodes: neither more nor less than claimed.

The map from a stream to the measured nodes is the learner's own code, run without noise; the
noise of node j is ``weight_j sigma / scale``. For neighbouring streams the sum of squared shifts
over noise variances is the Gaussian privacy parameter mu squared, to be compared with the event
that the learner is charged for.
"""

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.learners.incremental.priv_inc_reg1 import PrivIncReg1
from dpstream.learners.learner import Tick
from dpstream.mechanisms.moments import MomentWeights, moment_sensitivity
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.randomness.source import NoiseSource

HORIZON = 11
BUDGET = Budget(epsilon=1.0, delta=1e-6)
Record = tuple[np.ndarray, float] | None
"""Features and target, or None for the null record."""


def build(neighbours: Neighbours, **settings: object) -> PrivIncReg1:
    domain = Domain.vectors(
        2, norm_bound=1.0, target_bound=1.0, intercept=bool(settings.pop("intercept", False))
    )
    given: dict[str, object] = {
        "domain": domain,
        "budget": BUDGET,
        "unit": Unit(),
        "neighbours": neighbours,
        "horizon": HORIZON,
    }
    return PrivIncReg1(**(given | settings))


def admitted(model: PrivIncReg1, records: Sequence[Record]) -> Batch:
    x = np.array([np.full(2, np.nan) if record is None else record[0] for record in records])
    y = np.array([np.nan if record is None else record[1] for record in records])
    return model.domain.admit(x, y)


def nodes(model: PrivIncReg1, ticks: Sequence[Sequence[Record]]) -> np.ndarray:
    """All measured nodes over their noise, of a stream given by ticks."""
    state = model.init()
    parts: list[np.ndarray] = []
    noise = model.sum.sigma / model.layout.scales
    for number, records in enumerate(ticks, start=1):
        if records:
            model.learn(state, admitted(model, records))
        model.close(state, Tick(number=number, records=None))
        for node in state.sum.encoder.nodes():
            assert node.weight > 0.0
            parts.append(np.ldexp(node.value.astype(float), node.exponent) / noise / node.weight)
    return np.concatenate(parts)


def shift(
    model: PrivIncReg1, first: Sequence[Sequence[Record]], second: Sequence[Sequence[Record]]
) -> float:
    return float(np.linalg.norm(nodes(model, first) - nodes(model, second)))


def stream(seed: int, place: int, records: Sequence[Record]) -> list[list[Record]]:
    """Random records, with the unit's own records in one tick."""
    generator = public_generator(seed)
    ticks: list[list[Record]] = [
        [(generator.standard_normal(2) / 2, float(generator.uniform(-1, 1))) for _ in range(2)]
        for _ in range(HORIZON)
    ]
    ticks[place] += list(records)
    return ticks


def direction(angle: float) -> np.ndarray:
    return np.array([math.cos(angle), math.sin(angle)])


def worst_record(
    model: PrivIncReg1, candidates: Sequence[tuple[Record, Record]], places: Sequence[int]
) -> float:
    return max(
        shift(model, stream(5, place, [first]), stream(5, place, [second]))
        for place, (first, second) in itertools.product(places, candidates)
    )


SHARED = {
    "plain": {},
    "intercept": {"intercept": True},
    "equal blocks": {"weights": MomentWeights(count=0, x=0, xx=1, y=0, xy=1, yy=0)},
    "loud squares": {"weights": MomentWeights(count=0.3, x=0.1, xx=1, y=0.1, xy=0.4, yy=0.3)},
    "honaker": {"strategy": "honaker_tree"},
    "tree": {"strategy": "binary_tree"},
}


@pytest.mark.parametrize("settings", SHARED.values(), ids=SHARED.keys())
def test_a_record_against_null(settings: dict[str, object]) -> None:
    model = build(Neighbours.ZERO_OUT, **settings)
    candidates: list[tuple[Record, Record]] = [
        ((length * direction(angle), target), None)
        for angle in (0.0, 0.6, 2.0)
        for length, target in ((1.0, 1.0), (1.0, -1.0), (0.9, 1.0), (5.0, 9.0))
    ]
    found = worst_record(model, candidates, (0, 1, 4, HORIZON - 1))
    assert found <= model.sum.strength
    assert found >= 0.995 * model.sum.strength


@pytest.mark.parametrize("settings", SHARED.values(), ids=SHARED.keys())
def test_a_record_against_another(settings: dict[str, object]) -> None:
    # Search over the cosine between the features and the sign of the targets. With equal blocks
    # the maximum is at cosine 1/2 and opposite targets: neither at x' = -x nor at a right angle.
    model = build(Neighbours.REPLACE, **settings)
    fixed: Record = (direction(0.0), 1.0)
    candidates: list[tuple[Record, Record]] = [
        (fixed, (direction(angle), target))
        for angle in np.linspace(0.0, math.pi, 37)
        for target in (-1.0, 1.0, 0.0)
    ]
    candidates.append((fixed, None))
    found = worst_record(model, candidates, (0,))
    assert found <= model.sum.strength
    # One target with loud squares cannot reach every cosine that the sensitivity allows for.
    loud = model.layout.weights.yy > 0.25
    assert found >= (0.95 if loud else 0.98) * model.sum.strength


def test_the_joint_maximiser_has_cosine_one_half() -> None:
    model = build(Neighbours.REPLACE, **SHARED["equal blocks"])
    shifts = {
        degrees: worst_record(
            model,
            [((direction(0.0), 1.0), (direction(math.radians(degrees)), -1.0))],
            (0,),
        )
        for degrees in (0, 30, 60, 90, 120, 180)
    }
    assert max(shifts, key=lambda degrees: shifts[degrees]) == 60
    assert shifts[60] == pytest.approx(model.sum.strength, rel=2e-3)


@pytest.mark.parametrize("strategy", ["blt", "honaker_tree"])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_a_user_with_several_records(neighbours: Neighbours, strategy: str) -> None:
    cap = 3
    model = build(neighbours, unit=Unit(kind="user", cap=cap, column="id"), strategy=strategy)
    record: Record = (direction(0.4), 1.0)
    angles = np.linspace(0.0, math.pi, 13)
    others: list[Record] = [(direction(0.4 + angle), -1.0) for angle in angles]
    others = others if neighbours is Neighbours.REPLACE else [None]
    found = 0.0
    for other, places in itertools.product(others, [(0, 0, 0), (0, 1, 2), (0, 0, 1), (2, 5, 8)]):
        pair = []
        for own in (record, other):
            ticks = stream(5, 0, [])
            for place in places:
                ticks[place].append(own)
            pair.append(ticks)
        found = max(found, shift(model, *pair))
    assert found <= model.sum.strength
    assert found >= 0.95 * model.sum.strength


def test_a_wrong_sensitivity_is_seen_both_ways() -> None:
    # Negative controls: the same audit on learners whose claim is off by a factor of two.
    for factor in (0.5, 2.0):
        model = build(Neighbours.ZERO_OUT)
        object.__setattr__(model.sum, "sigma", model.sum.sigma * factor)
        found = worst_record(model, [((direction(0.0), 1.0), None)], (0,))
        passes = 0.995 * model.sum.strength <= found <= model.sum.strength
        assert not passes


def test_printed_constants_of_two_trees_are_not_tight() -> None:
    model = build(
        Neighbours.REPLACE, calibration="paper", reproduction=True, intervals=False, shrink=False
    )
    found = worst_record(
        model, [((direction(0.0), 1.0), (direction(math.radians(60)), -1.0))], (0,)
    )
    assert 0.98 * model.sum.strength <= found <= model.sum.strength * (1 + 1e-6)
    tight = build(Neighbours.REPLACE)
    assert model.sum.strength < 0.4 * tight.sum.strength


def likelihood_ratios(model: PrivIncReg1, runs: int, spoil: Callable[[np.ndarray], np.ndarray]):
    """The statistic ``<shift, measured nodes>`` of noisy releases, in units of the noise."""
    first, second = stream(5, 0, [(direction(0.0), 1.0)]), stream(5, 0, [None])
    direct, other = nodes(model, first), nodes(model, second)
    noise = model.sum.sigma / model.layout.scales
    state = model.init()
    for number, records in enumerate(first, start=1):
        model.learn(state, admitted(model, records))
        model.close(state, Tick(number=number, records=None))
    held = model.snapshot(state)
    tick = Tick(number=HORIZON, records=None)
    values = []
    for seed in range(runs):
        outcome = model.release(model.restore(held), tick, NoiseSource.insecure(seed))
        measured = np.concatenate(
            [np.ldexp(m.value.astype(float), m.exponent) / noise for m in outcome.measurements]
        )
        values.append(float((direct - other) @ (spoil(measured - direct) + direct - other)))
    return np.array(values), float(np.sum((direct - other) ** 2))


def consistent(values: np.ndarray, square: float) -> bool:
    # Mean and variance are both mu^2. Over n runs the variance estimate is chi-square with
    # relative deviation sqrt(2/n), the mean has deviation mu / sqrt(n): 5.4 deviations each way,
    # so either check fails by chance with probability below 1e-6.
    count = len(values)
    variance_holds = abs(np.var(values) / square - 1) < 5.4 * math.sqrt(2 / count)
    return bool(variance_holds and abs(np.mean(values) - square) < 5.4 * math.sqrt(square / count))


def test_released_nodes_carry_the_claimed_noise() -> None:
    model = build(Neighbours.ZERO_OUT, budget=Budget(epsilon=8.0, delta=1e-6), intervals=False)
    values, square = likelihood_ratios(model, 700, lambda noise: noise)
    assert square <= model.sum.strength**2
    assert consistent(values, square)
    for factor in (0.5, 2.0):
        spoilt, square = likelihood_ratios(model, 300, lambda noise, f=factor: f * noise)
        assert not consistent(spoilt, square)


def test_sensitivity_is_the_moments_and_the_strategys() -> None:
    model = build(Neighbours.REPLACE)
    shift_of_one = moment_sensitivity(model.layout.weights, Neighbours.REPLACE)
    assert model.sum.record_shift == shift_of_one
