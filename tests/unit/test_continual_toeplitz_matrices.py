"""Square-root, decayed and sliding Toeplitz strategies against their explicit matrices."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpstream.domain.lattice import ExactVector
from dpstream.errors import ConfigurationError, HorizonReached
from dpstream.mechanisms.continual.blt import buffered_toeplitz, standard_filter
from dpstream.mechanisms.continual.blt_optimum import optimal_loss
from dpstream.mechanisms.continual.blt_table import FILTERS
from dpstream.mechanisms.continual.decayed import DecayedToeplitz, decayed_toeplitz
from dpstream.mechanisms.continual.response import MANTISSA_BITS, rounded_mantissa
from dpstream.mechanisms.continual.sliding import SlidingToeplitz, sliding_toeplitz
from dpstream.mechanisms.continual.strategy import Participation, Promise
from dpstream.mechanisms.continual.toeplitz import SquareRootToeplitz, root_coefficients
from dpstream.mechanisms.public import public_generator
from dpstream.testing.strategy_law import (
    check_code_bound,
    check_factorisation,
    check_lazy_release,
    check_memory,
    check_moments,
    check_node_error,
    check_resume,
    check_rounding_norm,
    check_sensitivity,
    decay_target,
    prefix_target,
    window_target,
)

RECORD = Participation()
USER = Participation(cap=3, per_tick=2)
SIGMA = 4.22468  # noise multiplier of (1, 1e-6)


def increments(ticks: int) -> np.ndarray:
    return public_generator(4).integers(-(2**20), 2**20, (ticks, 3))


@pytest.mark.parametrize("ticks", [1, 2, 5, 20, 33])
def test_square_root(ticks: int) -> None:
    strategy = SquareRootToeplitz(horizon=ticks)
    check_factorisation(strategy, prefix_target(ticks))
    check_moments(strategy, ticks)
    check_memory(strategy, ticks)
    check_code_bound(strategy, ticks)
    check_lazy_release(strategy, ticks, [[ticks], [max(1, ticks // 2)]])
    check_resume(strategy, increments(ticks))
    assert strategy.promise is Promise.FOREVER
    assert strategy.name == "square_root_toeplitz"


@pytest.mark.parametrize("ticks", [1, 2, 3, 6, 9])
@pytest.mark.parametrize("participation", [RECORD, Participation(cap=3), USER])
def test_square_root_sensitivity(ticks: int, participation: Participation) -> None:
    strategy = SquareRootToeplitz(horizon=ticks)
    for order in (1, 2):
        check_sensitivity(strategy, ticks, participation, order=order)
    check_rounding_norm(strategy, ticks, participation)


def test_square_root_is_its_own_decoder() -> None:
    exact = np.array([1.0, 1 / 2, 3 / 8, 5 / 16, 35 / 128])
    assert np.array_equal(root_coefficients(5), exact)
    strategy = SquareRootToeplitz(horizon=2000)
    assert np.abs(strategy.decoding - strategy.coefficients).max() < 2.0**-19
    assert np.all(np.diff(strategy.coefficients) <= 0)


def test_square_root_nodes_are_exact_over_many_chunks() -> None:
    """More ticks than one chunk of the integer product, with increments near the limit."""
    strategy = SquareRootToeplitz(horizon=2100)
    encoder = strategy.encoder(2, increment_exponent=0, node_exponent=-20)
    rows = public_generator(6).integers(-(2**40), 2**40, (2100, 2))
    scaled = [int(value) for value in np.ldexp(strategy.coefficients, 20)]
    for tick, row in enumerate(rows, start=1):
        encoder.absorb(ExactVector.from_integers(row, 0))
        node = encoder.nodes()[0]
        if tick in (1, 1024, 1025, 2100):
            for column in range(2):
                exact = sum(int(rows[tick - 1 - k, column]) * scaled[k] for k in range(tick))
                assert int(node.value[column]) == exact
    assert strategy.node_error(increment_bound=1.0, increment_exponent=0, node_exponent=-20) == 0.0


def test_square_root_nodes_round_once() -> None:
    strategy = SquareRootToeplitz(horizon=40)
    share = check_node_error(strategy, increments(40), node_exponent=-12, increment_bound=1.0)
    assert 0.5 < share <= 1.0


def test_square_root_refuses_what_it_cannot_hold() -> None:
    encoder = SquareRootToeplitz(horizon=1).encoder(1, increment_exponent=0, node_exponent=0)
    with pytest.raises(OverflowError, match="exceeds 59 bits"):
        encoder.absorb(ExactVector.from_integers(np.array([1 << 60]), 0))
    encoder.absorb(ExactVector.from_integers(np.array([1]), 0))
    with pytest.raises(HorizonReached, match="calibrated for 1 ticks"):
        encoder.absorb(ExactVector.from_integers(np.array([1]), 0))
    for horizon in (0, 2**15 + 1):
        with pytest.raises(ConfigurationError, match="keeps every increment"):
            SquareRootToeplitz(horizon=horizon)


@pytest.mark.parametrize(("ticks", "largest", "average"), [(1000, 13.8, 13.1), (10**4, 16.9, 16.2)])
def test_square_root_noise(ticks: int, largest: float, average: float) -> None:
    strategy = SquareRootToeplitz(horizon=ticks)
    scale = SIGMA * strategy.sensitivity(RECORD, order=2)
    variances = np.array([strategy.variance(tick) for tick in range(1, ticks + 1)])
    assert scale * math.sqrt(variances.max()) == pytest.approx(largest, abs=0.06)
    assert scale * math.sqrt(variances.mean()) == pytest.approx(average, abs=0.06)
    # The best buffered filter cannot beat it by much, nor lose to it by more.
    ratio = SIGMA * optimal_loss(horizon=ticks, buffers=5) / (scale * math.sqrt(variances[-1]))
    assert ratio == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("decay", [0.5, 0.8, 0.95, 0.999])
def test_decayed_sum(decay: float) -> None:
    strategy = decayed_toeplitz(decay=decay)
    check_factorisation(strategy, decay_target(60, decay))
    check_moments(strategy, 60)
    check_memory(strategy, 10)
    check_code_bound(strategy, 60)
    check_lazy_release(strategy, 30, [[7, 30], [4, 5]])
    check_resume(strategy, increments(30))
    check_node_error(strategy, increments(60), node_exponent=-12, increment_bound=1.0)
    assert strategy.horizon is None
    assert strategy.promise is Promise.FOREVER
    assert strategy.name == "decayed_toeplitz"


def test_decayed_sum_across_refreshed_buffers() -> None:
    """Exact, with every closed form right, while banks hand over: the period is 80 ticks."""
    strategy = decayed_toeplitz(decay=0.5)
    assert strategy.period == 80
    check_factorisation(strategy, decay_target(250, 0.5))
    check_rounding_norm(strategy, 250, RECORD)
    check_moments(strategy, 90)


@pytest.mark.parametrize("participation", [RECORD, Participation(cap=2), USER])
def test_decayed_sensitivity(participation: Participation) -> None:
    strategy = decayed_toeplitz(decay=0.5)
    for order in (1, 2):
        check_sensitivity(strategy, 25, participation, order=order, attained=1 - 1e-6)


@pytest.mark.parametrize(("decay", "largest"), [(0.99, 9.03), (0.999, 12.1), (0.9999, 15.2)])
def test_decayed_noise_for_ever(decay: float, largest: float) -> None:
    strategy = decayed_toeplitz(decay=decay)
    assert SIGMA * strategy.loss < largest
    stated = strategy.sensitivity(RECORD, order=2) * math.sqrt(strategy.variance(10**9))
    assert stated == pytest.approx(strategy.loss, rel=1e-9)
    # The root of 1/(1 - decay z) is the best Toeplitz factorisation: squares sum to a bound.
    steps = np.arange(1, int(20 / (1 - decay)))
    root = np.concatenate([[1.0], np.cumprod((1 - 0.5 / steps) * decay)])
    assert 1.0 <= strategy.loss / float(root @ root) < 1.002


@pytest.mark.parametrize("decay", [0.5, 0.7, 0.99, 1 - 2.0**-15, 1 - 2.0**-22])
def test_discounted_rates_are_rounded_upwards(decay: float) -> None:
    strategy = decayed_toeplitz(decay=decay)
    # Which shipped filter it is shows in the scales, which are rounded to nearest.
    response = next(
        shipped
        for shipped in FILTERS.values()
        if strategy.scales == tuple(rounded_mantissa(decay * scale) for scale in shipped.scales)
    )
    for rate, own in zip(strategy.rates, response.rates, strict=True):
        exact = 1 - Fraction(decay) * (1 - Fraction(own))
        assert exact <= Fraction(rate) <= exact * (1 + Fraction(2) ** (2 - MANTISSA_BITS))


def test_a_decayed_sum_holds_two_banks_for_two_periods_and_every_node_fits() -> None:
    strategy = decayed_toeplitz(decay=0.9)
    assert strategy.memory(7) == 2 * len(strategy.rates)
    for cap in (1, 3):
        nodes = 2 * strategy.period * cap
        assert strategy.rounding_norm(Participation(cap=cap), order=1) == nodes
        assert strategy.rounding_norm(Participation(cap=cap), order=2) == math.sqrt(nodes)
    for each in (strategy, buffered_toeplitz(horizon=100), sliding_toeplitz(window=5)):
        # Rounding may carry a node past the gain, but not past twice the gain.
        gain = each.filter.gain * (1.5 if each.name == "sliding_toeplitz" else 1.0)
        assert each.code_bound() == 2.0 * gain


@pytest.mark.parametrize("decay", [0.4999, 1.0, 1 - 2.0**-23])
def test_decays_out_of_range_are_refused(decay: float) -> None:
    with pytest.raises(ConfigurationError, match="must lie between"):
        decayed_toeplitz(decay=decay)


def test_extreme_decays_have_filters() -> None:
    for decay in (0.5, 0.75, 1 - 2.0**-10, 1 - 2.0**-22):
        assert decayed_toeplitz(decay=decay).loss > 1.0


@pytest.mark.parametrize("decay", [0.0, 1.0, 0.9])
def test_buffers_slower_than_the_decay_are_refused(decay: float) -> None:
    response = standard_filter(64)
    with pytest.raises(ConfigurationError, match="forget faster"):
        DecayedToeplitz(decay=decay, rates=response.rates, scales=response.scales)


@pytest.mark.parametrize("slowest", [0.25, 0.5])
def test_one_buffer_no_faster_than_the_decay_is_enough_to_be_refused(slowest: float) -> None:
    with pytest.raises(ConfigurationError, match=f"rate {slowest}; decay must lie in"):
        DecayedToeplitz(decay=0.5, rates=(slowest, 0.75), scales=(0.0625, 0.0625))


@pytest.mark.parametrize("window", [1, 2, 5, 16])
def test_sliding_sum(window: int) -> None:
    strategy = sliding_toeplitz(window=window)
    check_factorisation(strategy, window_target(60, window))
    check_moments(strategy, 60)
    check_memory(strategy, 3 * window)
    check_code_bound(strategy, 60)
    check_lazy_release(strategy, 30, [[7, 30], [4, 5]])
    check_resume(strategy, increments(3 * window + 2))
    check_node_error(strategy, increments(60), node_exponent=-12, increment_bound=1.0)
    assert strategy.horizon is None
    assert strategy.promise is Promise.FOREVER
    assert strategy.name == "sliding_toeplitz"


def short_sliding(window: int) -> SlidingToeplitz:
    """With fast buffers, so that their whole life fits an explicit matrix."""
    return SlidingToeplitz(window=window, rates=(0.5,), scales=(0.25,))


def test_sliding_sum_across_refreshed_buffers() -> None:
    strategy = short_sliding(3)
    assert strategy.period == 83
    check_factorisation(strategy, window_target(180, 3))
    check_rounding_norm(strategy, 180, RECORD)
    check_moments(strategy, 90)


def test_sliding_variance_settles() -> None:
    strategy = short_sliding(2)
    assert strategy.variance(10**6) == pytest.approx(strategy.variance(200), rel=1e-12)
    assert strategy.covariance(10**6, 10**6) == pytest.approx(strategy.variance(10**6), rel=1e-12)
    assert strategy.covariance(10**6, 10**6 + 10**5) == pytest.approx(0.0, abs=1e-12)
    # At every tick on the way, the first without a coefficient of its own included.
    variance = np.array([strategy.variance(tick) for tick in range(1, 200)])
    assert (np.diff(variance) >= -1e-12).all()
    for ahead in (1, 2, 3, 7):
        early = strategy.covariance(400, 400 + ahead)
        assert strategy.covariance(10**6, 10**6 + ahead) == pytest.approx(early, rel=1e-12)


def test_sliding_claims_in_numbers() -> None:
    strategy = short_sliding(3)
    # The filter's coefficients are 1, 1/4, 1/8, ... and add up to 3/2.
    assert strategy.filter.gain == 1.5
    for cap in (1, 3):
        unit = Participation(cap=cap)
        assert strategy.sensitivity(unit, order=1) == pytest.approx(cap * 1.5 * 1.5, rel=1e-9)
        # Two periods of 83 ticks and the window, for each record.
        assert strategy.rounding_norm(unit, order=1) == cap * (2 * 83 + 3)
        assert strategy.rounding_norm(unit, order=2) == math.sqrt(cap * (2 * 83 + 3))
    # With a factor of two for the rounding.
    assert strategy.code_bound() == 1.5 * 1.5 * 2.0
    assert strategy.memory(17) == 2 + 3


def test_sliding_sensitivity() -> None:
    # Exact for one record; for more, cap times that: an upper bound, attained in one tick.
    check_sensitivity(short_sliding(3), 60, RECORD)
    check_sensitivity(short_sliding(3), 40, Participation(cap=2, per_tick=2))
    check_sensitivity(short_sliding(3), 40, Participation(cap=2), attained=0.7)
    check_sensitivity(short_sliding(3), 40, RECORD, order=1, attained=0.8)


@pytest.mark.parametrize(("window", "largest"), [(1000, 16.2), (10**4, 20.2), (10**5, 24.3)])
def test_sliding_noise_for_ever(window: int, largest: float) -> None:
    strategy = sliding_toeplitz(window=window)
    scale = SIGMA * strategy.sensitivity(RECORD, order=2)
    assert scale * math.sqrt(strategy.variance(100 * window)) < largest
    # The root of A has the mean of |A| over the circle for its squared norm: the least possible.
    angles = (np.arange(64 * window) + 0.5) * (2 * math.pi / (64 * window))
    least = np.abs(np.sin(window * angles / 2) / np.sin(angles / 2)).mean()
    assert 1.0 < scale / SIGMA * math.sqrt(strategy.variance(100 * window)) / least < 1.02


@pytest.mark.parametrize("window", [0, 2**24 + 1])
def test_windows_out_of_range_are_refused(window: int) -> None:
    with pytest.raises(ConfigurationError):
        sliding_toeplitz(window=window)
    with pytest.raises(ConfigurationError, match="at least 1 tick"):
        SlidingToeplitz(window=0, rates=(0.5,), scales=(0.25,))


@pytest.mark.parametrize("strategy", [decayed_toeplitz(decay=0.9), sliding_toeplitz(window=3)])
def test_nodes_of_endless_sums_are_numbered_from_one(strategy: DecayedToeplitz) -> None:
    encoder = strategy.encoder(1, increment_exponent=-20, node_exponent=-20)
    assert encoder.snapshot()["tick"].tolist() == [0]
    for _ in range(4):
        encoder.absorb(ExactVector.from_integers(np.array([5]), -20))
    assert [node.address for node in encoder.nodes()] == [(1,), (2,), (3,), (4,)]


def test_sliding_moments_are_there_at_every_tick_however_late() -> None:
    strategy = short_sliding(2)
    variances = [strategy.variance(tick) for tick in range(1, 300)]
    assert variances == sorted(variances)
    assert variances[-1] == strategy.variance(10**9)
    for later in range(1, 300):
        for earlier in (1, 2, 3):
            bound = math.sqrt(strategy.variance(earlier) * strategy.variance(earlier + later))
            assert abs(strategy.covariance(earlier, earlier + later)) <= bound * (1 + 1e-12)
