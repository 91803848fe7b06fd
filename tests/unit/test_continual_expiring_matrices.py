"""The block-wise expiring sum against its explicit matrices."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dpstream.domain.lattice import ExactVector
from dpstream.errors import ConfigurationError
from dpstream.mechanisms.continual.blt import standard_filter
from dpstream.mechanisms.continual.expiring import (
    EXACT,
    TICK,
    TOTAL,
    ExpiringEncoder,
    ExpiringToeplitz,
    expiring_toeplitz,
)
from dpstream.mechanisms.continual.strategy import Participation, Promise
from dpstream.mechanisms.public import public_generator
from dpstream.testing.strategy_law import (
    check_code_bound,
    check_expiry,
    check_factorisation,
    check_lazy_release,
    check_memory,
    check_moments,
    check_node_error,
    check_resume,
    check_rounding_norm,
    explicit,
    prefix_target,
)

RECORD = Participation()
SIGMA = 4.22468  # noise multiplier of (1, 1e-6)


def expiring(window: int, weight: float = 1.3) -> ExpiringToeplitz:
    response = standard_filter(64)
    return ExpiringToeplitz(
        window=window, rates=response.rates, scales=response.scales, total_weight=weight
    )


@pytest.mark.parametrize("window", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("weight", [0.5, 1.3])
def test_laws(window: int, weight: float) -> None:
    strategy = expiring(window, weight)
    check_factorisation(strategy, prefix_target(40))
    check_moments(strategy, 40)
    check_code_bound(strategy, 40)
    check_memory(strategy, 3 * window + 2)
    check_lazy_release(strategy, 30, [[7, 30], [3, 4, 5, 10, 11], [8, 9]])
    increments = public_generator(8).integers(-(2**20), 2**20, (40, 3))
    check_resume(strategy, increments)
    assert check_node_error(strategy, increments, node_exponent=-12, increment_bound=1.0) > 0.3
    assert strategy.horizon is None
    assert strategy.promise is Promise.WHILE_LIVE
    assert strategy.name == "expiring_toeplitz"


@pytest.mark.parametrize("window", [1, 2, 3, 5])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    "participation",
    [RECORD, Participation(cap=2), Participation(cap=2, per_tick=2), Participation(cap=5)],
)
def test_live_records_are_protected(window: int, order: int, participation: Participation) -> None:
    """Up to every tick, by exhaustion over all placements of a unit's live records."""
    strategy = expiring(window)
    check_expiry(strategy, 4 * window, participation, window=window, order=order)
    if participation.cap <= 2:
        check_rounding_norm(strategy, 2 * window, participation)


def test_each_record_is_exact_as_soon_as_its_block_is_expired() -> None:
    """The promise ends: what is published in the end holds every old record, exactly."""
    matrices = explicit(expiring(4), 40)
    for record in range(32):
        handed = (record // 4 + 2) * 4
        exact = (matrices.weights == 0) & (matrices.code[:, record] == 1.0)
        assert matrices.handed[exact].tolist() == [handed]
        assert handed - (record + 1) >= 4


def test_an_early_exact_sum_is_caught() -> None:
    """Negative control: a block published exactly one block too soon."""

    class Hasty(ExpiringEncoder):
        def absorb(self, increment: ExactVector) -> None:
            self._live = self._total
            super().absorb(increment)

    class HastyToeplitz(ExpiringToeplitz):
        def encoder(
            self, dimension: int, *, increment_exponent: int, node_exponent: int
        ) -> ExpiringEncoder:
            return Hasty(self, dimension, increment_exponent, node_exponent)

    honest = expiring(3)
    hasty = HastyToeplitz(
        window=3, rates=honest.rates, scales=honest.scales, total_weight=honest.total_weight
    )
    check_expiry(honest, 12, RECORD, window=3)
    with pytest.raises(AssertionError, match="live record is exact"):
        check_expiry(hasty, 12, RECORD, window=3)


def test_exact_sums_carry_no_noise_and_nothing_else() -> None:
    strategy = expiring(2)
    encoder = strategy.encoder(1, increment_exponent=-4, node_exponent=-4)
    for value in (1, 10, 100, 1000):
        encoder.absorb(ExactVector.from_integers(np.array([value]), -4))
    exact = [node for node in encoder.nodes() if node.address[2] == EXACT]
    assert [(node.address, node.value.tolist(), node.weight) for node in exact] == [
        ((0, 2, EXACT), [11], 0.0)
    ]
    # Noise is found by these addresses: they do not change between versions.
    assert (TICK, TOTAL, EXACT) == (0, 1, 2)


@pytest.mark.parametrize(("cap", "blocks"), [(1, 1), (2, 2), (5, 2)])
def test_roundings_of_two_blocks_and_their_totals_at_most(cap: int, blocks: int) -> None:
    strategy = expiring(3, 0.5)
    unit = Participation(cap=cap)
    assert strategy.rounding_norm(unit, order=1) == pytest.approx(blocks * (3 + 1 / 0.5))
    squared = blocks * (3 + (1 / 0.5) ** 2)
    assert strategy.rounding_norm(unit, order=2) == pytest.approx(math.sqrt(squared))


def test_the_total_and_the_block_share_one_records_squared_shift() -> None:
    strategy = expiring(5, 0.7)
    inside = strategy.block.sensitivity(RECORD, order=2) / strategy.sensitivity(RECORD, order=2)
    assert strategy.total_share == pytest.approx(1.0 - inside**2, rel=1e-9)
    assert strategy.memory(9) == len(strategy.rates) + 2


@pytest.mark.parametrize(("window", "largest"), [(10**3, 17.4), (10**4, 20.6), (10**5, 23.8)])
def test_noise_at_epsilon_one(window: int, largest: float) -> None:
    strategy = expiring_toeplitz(window=window)
    assert SIGMA * strategy.loss < largest
    scale = SIGMA * strategy.sensitivity(RECORD, order=2)
    # The worst tick is the last before a block expires.
    worst = scale * math.sqrt(strategy.variance(3 * window - 1))
    assert worst == pytest.approx(SIGMA * strategy.loss)
    for tick in (1, window - 1, window, window + 1, 2 * window, 2 * window + window // 2):
        assert scale * math.sqrt(strategy.variance(tick)) <= worst
    assert 0.1 < strategy.total_share < 0.25


def test_the_split_is_the_best() -> None:
    best = expiring_toeplitz(window=1000)
    losses = [
        ExpiringToeplitz(
            window=1000, rates=best.rates, scales=best.scales, total_weight=weight
        ).loss
        for weight in np.geomspace(0.25, 4.0, 400)
    ]
    assert best.loss == pytest.approx(min(losses), rel=1e-3)


@pytest.mark.parametrize("weight", [0.0, -1.0, math.inf])
def test_totals_without_noise_are_refused(weight: float) -> None:
    with pytest.raises(ConfigurationError, match="would publish live records"):
        expiring(3, weight)


@pytest.mark.parametrize("window", [0, 2**24 + 1])
def test_windows_out_of_range_are_refused(window: int) -> None:
    with pytest.raises(ConfigurationError, match="horizon is"):
        expiring_toeplitz(window=window)


def test_nodes_say_of_which_block_and_kind_they_are() -> None:
    strategy = expiring_toeplitz(window=2)
    encoder = strategy.encoder(1, increment_exponent=-20, node_exponent=-20)
    for _ in range(4):
        encoder.absorb(ExactVector.from_integers(np.array([5]), -20))
    ticks_and_total = [(0, 1, 0), (0, 2, 0), (0, 2, 1), (1, 1, 0), (1, 2, 0), (1, 2, 1)]
    assert [node.address for node in encoder.nodes()] == [*ticks_and_total, (0, 2, 2)]
    assert strategy.decoder(1).snapshot()["complete"].tolist() == [0]


@pytest.mark.parametrize("window", [3, 200])
def test_the_standard_split_is_the_best_sixteenth_of_an_octave(window: int) -> None:
    strategy = expiring_toeplitz(window=window)
    step = 16 * math.log2(strategy.total_weight)
    assert step == pytest.approx(round(step), abs=1e-9)
    for other in (step - 1, step + 1):
        neighbour = replace(strategy, total_weight=2.0 ** (other / 16))
        if abs(other) <= 32:
            assert neighbour.loss > strategy.loss
        else:
            # Beyond the two octaves that are tried little is gained, by the shortest windows.
            assert neighbour.loss > strategy.loss * (1 - 1e-3)
    assert (strategy.total_weight == 4.0) is (window == 3)
    assert strategy.memory(7) == len(strategy.rates) + 2
    for cap, blocks in ((1, 1), (2, 2), (5, 2)):
        inside, total = window, 1 / strategy.total_weight
        participation = Participation(cap=cap)
        first = strategy.rounding_norm(participation, order=1)
        assert first == pytest.approx(blocks * (inside + total), rel=1e-12)
        second = strategy.rounding_norm(participation, order=2)
        assert second**2 == pytest.approx(blocks * (inside + total**2), rel=1e-12)
