"""ContinualSum: calibration, lattice, measurements, state."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from dpstream.domain.lattice import ExactVector
from dpstream.errors import ConfigurationError, HorizonReached, NotPrivate
from dpstream.mechanisms.continual.choice import prefix_strategy
from dpstream.mechanisms.continual.dyadic import DyadicEncoder
from dpstream.mechanisms.continual.honaker import HonakerTree
from dpstream.mechanisms.continual.hybrid import Hybrid
from dpstream.mechanisms.continual.node_noise import NoiseKind
from dpstream.mechanisms.continual.strategy import Node, Participation, Promise, Strategy
from dpstream.mechanisms.continual.sum import (
    LARGEST_ROUNDING,
    LARGEST_SCALE_BITS,
    LAST_ROUNDING,
    REFINED_PER_STEP,
    RESOLUTION_BITS,
    ContinualSum,
)
from dpstream.mechanisms.continual.tree import BinaryTree
from dpstream.mechanisms.continual.window_tree import WindowTree
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.bounds import curve_of
from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import gaussian_mu
from dpstream.privacy.event import GaussianEvent, PureEvent, ZeroConcentratedEvent

RECORD = Participation()
BUDGET = Budget(epsilon=1.0, delta=1e-6)
PURE = Budget(epsilon=1.0, delta=0.0)
STRATEGIES: list[Strategy] = [BinaryTree(40), HonakerTree(40), Hybrid(), WindowTree(7)]
KINDS = list(NoiseKind)


def continual_sum(strategy: Strategy, kind: NoiseKind = NoiseKind.GAUSSIAN, **changes):
    parameters = {
        "strategy": strategy,
        "dimension": 6,
        "increment_exponent": -40,
        "increment_bound": 1.0,
        "record_shift": 1.0,
        "participation": RECORD,
        "kind": kind,
        "strength": 1.0,
    }
    return ContinualSum(**(parameters | changes))


def increment(tick: int, dimension: int = 6) -> ExactVector:
    steps = np.arange(dimension, dtype=np.int64) * 123_456_789_012 + tick * 7_777_777_777
    return ExactVector.from_integers(steps % (1 << 40), -40)


def play(mechanism: ContinualSum, noise: Noise, ticks: Sequence[int], last: int):
    state = mechanism.init()
    history = []
    for tick in range(1, last + 1):
        mechanism.absorb(state, increment(tick, mechanism.dimension))
        if tick in ticks:
            history.append((tick, *mechanism.release(state, noise)))
    return history


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_noise_spends_the_budget_and_the_lattice_hardly_any(strategy: Strategy) -> None:
    mechanism = ContinualSum.calibrated(
        strategy,
        budget=BUDGET,
        kind=NoiseKind.GAUSSIAN,
        dimension=500,
        increment_exponent=-40,
        increment_bound=1.0,
        record_shift=2.0,
        participation=RECORD,
    )
    event = mechanism.event()
    assert isinstance(event, GaussianEvent)
    assert event.mu == gaussian_mu(BUDGET)
    assert curve_of(event).epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)
    exact = 2.0 * strategy.sensitivity(RECORD, order=2)
    total = mechanism.sensitivity(mechanism.node_exponent)
    assert exact < total <= exact * (1 + LARGEST_ROUNDING)
    assert total / mechanism.sigma <= event.mu
    assert total / mechanism.sigma == pytest.approx(event.mu, rel=1e-9)
    steps = mechanism.sigma * 2.0**-mechanism.node_exponent
    assert 2.0**RESOLUTION_BITS <= steps < 2.0**LARGEST_SCALE_BITS


@pytest.mark.parametrize(
    ("name", "horizon", "dimension"),
    [("chain", None, 1_600), ("chain", None, 20_500), ("blt", 10**6, 126_000)],
)
def test_many_coordinates_trade_noise_for_quick_sampling(
    name: str, horizon: int | None, dimension: int
) -> None:
    """Moments of 54, 200 and 500 features: rounding costs what refinement does, no more."""
    mechanism = continual_sum(
        prefix_strategy(name, horizon),
        dimension=dimension,
        increment_bound=1024.0,
        strength=gaussian_mu(BUDGET),
    )
    exact = mechanism.strategy.sensitivity(RECORD, order=2)
    rounding = mechanism.sensitivity(mechanism.node_exponent) / exact - 1.0
    steps = mechanism.sigma * 2.0**-mechanism.node_exponent
    assert rounding <= LAST_ROUNDING
    assert rounding <= max(LARGEST_ROUNDING, 1.01 * REFINED_PER_STEP * steps)
    coarser = mechanism.sensitivity(mechanism.node_exponent + 1) / exact - 1.0
    assert coarser > max(LARGEST_ROUNDING, 0.99 * REFINED_PER_STEP * steps / 2)
    assert steps < 2.0**LARGEST_SCALE_BITS


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_accounted_in_its_own_measure(kind: NoiseKind) -> None:
    budget = PURE if kind is NoiseKind.SPHERICAL_LAPLACE else BUDGET
    mechanism = ContinualSum.calibrated(
        BinaryTree(100),
        budget=budget,
        kind=kind,
        dimension=6,
        increment_exponent=0,
        increment_bound=1.0,
        record_shift=1.0,
        participation=RECORD,
    )
    # Increments are coarser than the nodes' lattice: there is nothing to round.
    event = mechanism.event()
    if kind is NoiseKind.GAUSSIAN:
        assert isinstance(event, GaussianEvent)
        assert event.mu == pytest.approx(math.sqrt(7) / mechanism.sigma, rel=1e-9)
    elif kind is NoiseKind.EXACT:
        assert isinstance(event, ZeroConcentratedEvent)
        assert event.rho == pytest.approx(7 / mechanism.sigma**2 / 2, rel=1e-9)
    else:
        assert isinstance(event, PureEvent)
        assert event.epsilon == pytest.approx(7 / mechanism.sigma, rel=1e-9)
    epsilon = curve_of(event).epsilon(budget.delta)
    assert epsilon <= 1.0
    assert epsilon == pytest.approx(1.0, rel=1e-5)


def test_white_box_shift_of_a_rounded_sum_is_within_the_claim_and_near_it() -> None:
    # Two streams that differ in one record of norm 1, just across rounding boundaries.
    mechanism = continual_sum(BinaryTree(16), dimension=3, strength=0.5)
    step = mechanism.node_exponent + 40
    assert step > 0
    half = 1 << (step - 1)
    base = np.array([half - 1, half - 1, half - 1], np.int64)
    record = np.floor(np.array([0.6, 0.8, 0.0]) * 2.0**40).astype(np.int64)
    record += np.array([1, 1, 1])
    shifts = []
    for first in (base, base + record):
        encoder = mechanism.init().encoder
        nodes: dict[tuple[int, ...], np.ndarray] = {}
        for tick in range(1, 17):
            value = first if tick == 1 else np.zeros(3, np.int64)
            encoder.absorb(ExactVector.from_integers(value, -40))
            nodes |= {node.address: node.value for node in encoder.nodes()}
        shifts.append(nodes)
    squared = sum(
        float(np.sum((shifts[0][address] - shifts[1][address]).astype(float) ** 2))
        for address in shifts[0]
    )
    measured = math.sqrt(squared) * 2.0**mechanism.node_exponent / mechanism.sigma
    assert 0.999 * mechanism.strength < measured <= mechanism.strength


@pytest.mark.parametrize("kind", [NoiseKind.GAUSSIAN, NoiseKind.EXACT])
def test_scales_divide_the_noise_and_enter_the_lattice(kind: NoiseKind) -> None:
    plain = continual_sum(BinaryTree(40), kind)
    scaled = continual_sum(BinaryTree(40), kind, scales=(1.0, 1.0, 2.0, 2.0, 100.0, 0.5))
    assert scaled.node_exponent <= plain.node_exponent - 6
    np.testing.assert_allclose(
        scaled.variance(7) * np.array([1, 1, 4, 4, 1e4, 0.25]),
        plain.variance(7),
        rtol=1e-3,
    )
    measured = play(scaled, Noise.insecure(1), [40], 40)
    assert measured[0][2].shape == (6,)


def test_equal_scales_are_one_scale() -> None:
    plain = continual_sum(BinaryTree(40))
    scaled = continual_sum(BinaryTree(40), scales=(4.0,) * 6, record_shift=4.0)
    np.testing.assert_allclose(scaled.variance(7), plain.variance(7), rtol=1e-3)
    assert [m.address for _, ms, _ in play(scaled, Noise.insecure(1), [5], 5) for m in ms]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dimension", [1, 6])
def test_what_is_drawn_has_the_deviation_that_is_claimed(kind: NoiseKind, dimension: int) -> None:
    scaled = continual_sum(BinaryTree(40), kind, dimension=dimension, scales=(4.0,) * dimension)
    assert scaled._noise_scale == scaled.sigma / 4.0
    assert play(scaled, Noise.insecure(1), [5], 5)[0][2].shape == (dimension,)
    assert not scaled.scale_vector.flags.writeable
    each = (scaled.sigma / 4.0 * kind.spread(dimension)) ** 2
    np.testing.assert_allclose(scaled.variance(7), 3 * each, rtol=1e-12)


def test_rounding_moves_two_neighbours_by_half_a_step_each_in_every_coordinate() -> None:
    scales = (1.0, 1.0, 2.0, 2.0, 3.0, 0.5)
    mechanism = continual_sum(BinaryTree(40), scales=scales, record_shift=3.0)
    for exponent in (mechanism.node_exponent, -20):
        # A record lies in at most six nodes.
        rounding = 2.0**exponent * math.sqrt(sum(scale**2 for scale in scales)) * math.sqrt(6)
        claim = mechanism.sensitivity(exponent) - 3.0 * math.sqrt(6)
        assert claim == pytest.approx(rounding, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strength", [0.3, 1.0, 1.7])
def test_a_lattice_that_rounds_nothing_has_2_to_the_20_steps(
    kind: NoiseKind, strength: float
) -> None:
    mechanism = continual_sum(
        BinaryTree(40), kind, increment_exponent=0, dimension=600, strength=strength
    )
    steps = math.ldexp(mechanism.sigma * kind.spread(600), -mechanism.node_exponent)
    assert 2.0**20 <= steps < 2.0**21


def test_the_lattice_costs_what_is_documented_and_no_more() -> None:
    assert continual_sum(BinaryTree(8)).sigma > 0
    assert LARGEST_ROUNDING == 2.0**-11 < 0.0005
    assert LAST_ROUNDING == 2.0**-7 < 0.008
    # Within 2^-43 of the scale on either side of a boundary.
    assert REFINED_PER_STEP == 2 * 2.0**-43


def test_promises_say_for_how_long_and_nodes_have_the_whole_noise() -> None:
    assert Promise.FOREVER.value.endswith("is protected for the stream's whole life")
    assert Promise.WHILE_LIVE.value.endswith("to the sum is published exactly")
    assert Node((1,), np.zeros(1, np.int64), 0).weight == 1.0


def test_scales_may_spread_by_17_bits_and_no_more() -> None:
    # 2^20 steps at the largest scale, less than 2^38 at the smallest.
    integers = {"increment_exponent": 0}
    mechanism = continual_sum(BinaryTree(40), scales=(1.0,) * 5 + (2.0**-17,), **integers)
    steps = mechanism.sigma * np.ldexp(1.0 / mechanism.scale_vector, -mechanism.node_exponent)
    assert steps.min() >= 2.0**20
    assert 2.0**37 <= steps.max() < 2.0**38
    with pytest.raises(ConfigurationError, match="no lattice suits"):
        continual_sum(BinaryTree(40), scales=(1.0,) * 5 + (2.0**-18,), **integers)


def test_quick_sampling_is_weighed_by_every_coordinates_own_steps() -> None:
    mechanism = continual_sum(
        prefix_strategy("chain", None),
        dimension=20_500,
        scales=(1.0,) * 10_250 + (1.0 / 16.0,) * 10_250,
        increment_bound=1024.0,
        strength=gaussian_mu(BUDGET),
    )
    exact = mechanism.strategy.sensitivity(RECORD, order=2)
    steps = 8.5 * mechanism.sigma * 2.0**-mechanism.node_exponent
    rounding = mechanism.sensitivity(mechanism.node_exponent) / exact - 1.0
    coarser = mechanism.sensitivity(mechanism.node_exponent + 1) / exact - 1.0
    assert LARGEST_ROUNDING < rounding <= 1.01 * REFINED_PER_STEP * steps
    assert coarser > 0.99 * REFINED_PER_STEP * steps / 2


@pytest.mark.parametrize("kind", KINDS)
def test_the_noise_is_never_less_than_its_event_says(kind: NoiseKind) -> None:
    for number in range(1, 40):
        mechanism = continual_sum(BinaryTree(40), kind, strength=number / 17.0)
        shift = Fraction(mechanism.sensitivity(mechanism.node_exponent))
        ratio = shift / Fraction(mechanism.sigma)
        spent = ratio**2 / 2 if kind is NoiseKind.EXACT else ratio
        assert spent <= Fraction(mechanism.strength)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_estimates_follow_the_sum_and_the_claimed_variance(
    strategy: Strategy, kind: NoiseKind
) -> None:
    if strategy.name == "hybrid" and kind.order == 1:
        with pytest.raises(ConfigurationError, match="order 1"):
            continual_sum(strategy, kind)
        return
    mechanism = continual_sum(strategy, kind, strength=1e5, address=(3,))
    exact = np.zeros(6)
    for tick, measurements, estimate in play(mechanism, Noise.insecure(7), range(1, 41), 40):
        exact += increment(tick).to_float()
        # 240 standard normals (or heavier, spherical ones) stay within 10 deviations.
        assert np.all(np.abs(estimate - exact) <= 10 * np.sqrt(mechanism.variance(tick)))
        assert all(measurement.address[0] == 3 for measurement in measurements)
        np.testing.assert_array_equal(mechanism.covariance(tick, tick), mechanism.variance(tick))


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_replay_measures_the_same_and_any_schedule_the_same_nodes(strategy: Strategy) -> None:
    mechanism = continual_sum(strategy)
    noise = Noise.insecure(3)
    full = play(mechanism, noise, range(1, 41), 40)
    again = play(mechanism, noise, range(1, 41), 40)
    lazy = play(mechanism, noise, [3, 17, 40], 40)
    estimates = {tick: estimate for tick, _, estimate in full}
    for tick, _, estimate in [*again, *lazy]:
        np.testing.assert_array_equal(estimate, estimates[tick])
    addresses = [m.address for _, measurements, _ in full for m in measurements]
    assert len(set(addresses)) == len(addresses)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_snapshot_and_resume_continue_to_the_bit(strategy: Strategy) -> None:
    mechanism = continual_sum(strategy, scales=(1.0, 1.0, 1.0, 3.0, 3.0, 3.0))
    noise = Noise.insecure(4)
    expected = {tick: (m, e) for tick, m, e in play(mechanism, noise, range(2, 41, 2), 40)}
    state = mechanism.init()
    for tick in range(1, 41):
        mechanism.absorb(state, increment(tick))
        state = mechanism.restore(mechanism.snapshot(state))
        if tick % 2 == 0:
            measurements, estimate = mechanism.release(state, noise)
            for ours, theirs in zip(measurements, expected[tick][0], strict=True):
                assert ours.address == theirs.address
                np.testing.assert_array_equal(ours.value, theirs.value)
            np.testing.assert_array_equal(estimate, expected[tick][1])
            state = mechanism.restore(mechanism.snapshot(state))
            # Nothing is measured twice.
            repeated, same = mechanism.release(state, noise)
            assert repeated == []
            np.testing.assert_array_equal(same, estimate)


def test_before_the_first_tick_the_sum_is_zero_and_costs_nothing() -> None:
    mechanism = continual_sum(BinaryTree(3))
    measurements, estimate = mechanism.release(mechanism.init(), Noise.insecure(0))
    assert measurements == []
    np.testing.assert_array_equal(estimate, np.zeros(6))


def test_past_the_horizon_it_stops() -> None:
    mechanism = continual_sum(HonakerTree(3))
    assert mechanism.horizon == 3
    state = mechanism.init()
    for tick in (1, 2, 3):
        mechanism.absorb(state, increment(tick))
    with pytest.raises(HorizonReached, match="for 3 ticks"):
        mechanism.absorb(state, increment(4))
    assert state.tick == 3


def test_a_sum_without_horizon_stops_before_its_integers_overflow() -> None:
    bound = 2.0**30
    for strategy in (Hybrid(), WindowTree(4)):
        mechanism = continual_sum(strategy, increment_bound=bound)
        last = mechanism.horizon
        assert last is not None
        assert last == int(2.0 ** (61 + mechanism.node_exponent) / bound)
        assert continual_sum(strategy, increment_bound=math.inf).horizon is None

    @dataclass(frozen=True)
    class Bounded(Hybrid):
        horizon: int = 5

    assert continual_sum(Bounded()).horizon == 5
    with pytest.raises(ConfigurationError, match="exceed 61 bits"):
        continual_sum(Bounded(), increment_bound=2.0**62)


def test_the_largest_increments_are_those_that_61_bits_hold() -> None:
    # The largest node sums 32 increments.
    largest = math.ldexp(1.0, 61 - 5 + continual_sum(BinaryTree(40)).node_exponent)
    assert continual_sum(BinaryTree(40), increment_bound=largest).increment_bound == largest
    with pytest.raises(ConfigurationError, match="exceed 61 bits"):
        continual_sum(BinaryTree(40), increment_bound=math.nextafter(largest, math.inf))


def test_past_its_own_horizon_it_absorbs_nothing() -> None:
    bound = math.ldexp(1.0, 61 + continual_sum(Hybrid()).node_exponent) / 3.5
    mechanism = continual_sum(Hybrid(), increment_bound=bound)
    assert mechanism.horizon == 3
    state = mechanism.init()
    for tick in (1, 2, 3):
        mechanism.absorb(state, increment(tick))
    with pytest.raises(HorizonReached, match="continual sum by hybrid was calibrated for 3 ticks"):
        mechanism.absorb(state, increment(4))
    assert state.tick == 3


def test_without_a_bound_or_horizon_it_goes_on() -> None:
    mechanism = continual_sum(Hybrid(), increment_bound=math.inf)
    history = play(mechanism, Noise.insecure(2), [1, 70], 70)
    assert [tick for tick, _, _ in history] == [1, 70]


def test_what_it_is_can_be_written_down() -> None:
    mechanism = continual_sum(BinaryTree(9), scales=(1.0, 2.0, 1.0, 1.0, 1.0, 1.0), address=(1,))
    description = json.loads(json.dumps(mechanism.describe()))
    assert description == {
        "strategy": {"name": "binary_tree", "horizon": 9},
        "dimension": 6,
        "increment_exponent": -40,
        "increment_bound": 1.0,
        "record_shift": 1.0,
        "cap": 1,
        "per_tick": 1,
        "noise": "gaussian",
        "strength": 1.0,
        "scales": [1.0, 2.0, 1.0, 1.0, 1.0, 1.0],
        "address": [1],
        "node_exponent": mechanism.node_exponent,
        "sigma": mechanism.sigma,
    }
    unbounded = replace(mechanism, scales=None, increment_bound=math.inf)
    assert unbounded.describe()["increment_bound"] is None
    assert unbounded.describe()["scales"] is None
    assert mechanism.promise is Promise.FOREVER
    assert mechanism.memory(7) == 3


@dataclass(frozen=True)
class Leaky(BinaryTree):
    """A strategy that hands out an exact sum in spite of its promise."""

    def encoder(self, dimension: int, *, increment_exponent: int, node_exponent: int):
        class LeakyEncoder(DyadicEncoder):
            def nodes(self):
                return [replace(node, weight=0.0) for node in super().nodes()]

        return LeakyEncoder(self, dimension, increment_exponent, node_exponent)


def test_an_exact_sum_under_a_lifelong_promise_is_refused() -> None:
    mechanism = continual_sum(Leaky(4))
    state = mechanism.init()
    mechanism.absorb(state, increment(1))
    assert isinstance(state.encoder.nodes()[0], Node)
    mechanism.absorb(state, increment(2))
    with pytest.raises(NotPrivate, match="exact sum"):
        mechanism.release(state, Noise.insecure(0))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dimension": 0}, "dimension is 0"),
        ({"increment_bound": 0.0}, "increment_bound is 0"),
        ({"record_shift": math.inf}, "record_shift is inf"),
        ({"strength": math.nan}, "strength is nan"),
        ({"scales": (1.0,)}, "1 scales for 6"),
        ({"scales": (1.0, 1.0, 1.0, 1.0, 1.0, 0.0)}, "every scale"),
        ({"scales": (1.0, 1.0, 1.0, 1.0, 1.0, math.inf)}, "every scale"),
        ({"kind": NoiseKind.SPHERICAL_LAPLACE, "scales": (1.0,) * 5 + (2.0,)}, "one scale"),
        ({"scales": (1.0,) * 5 + (1e-9,)}, "no lattice suits"),
        ({"increment_bound": 2.0**60}, "exceed 61 bits"),
    ],
)
def test_impossible_declarations_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        continual_sum(BinaryTree(40), **changes)


@dataclass(frozen=True)
class Coarse(BinaryTree):
    """A strategy whose floats err far too much for any lattice."""

    def node_error(self, **_: object) -> float:
        return 1.0


def test_a_strategy_too_coarse_for_any_lattice_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no lattice suits"):
        continual_sum(Coarse(4))


def test_the_noises_law_is_taken_by_its_name() -> None:
    for kind in NoiseKind:
        assert NoiseKind.of(kind) is kind
        assert NoiseKind.of(kind.value) is kind
    with pytest.raises(ConfigurationError, match="one of gaussian, exact, spherical_laplace"):
        NoiseKind.of("loud")


def test_kinds_of_noise_are_spread_and_written_down_as_they_are() -> None:
    assert [kind.value for kind in NoiseKind] == ["gaussian", "exact", "spherical_laplace"]
    # A vector of norm Gamma(3, 1) has squared norm 3 * 4, a third of it in each coordinate.
    assert [kind.spread(3) for kind in NoiseKind] == [1.0, 1.0, 2.0]
