"""The optimiser against jax-privacy's, and the shipped table against the optimiser."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from dpstream.errors import ConfigurationError
from dpstream.mechanisms.continual.blt import standard_filter
from dpstream.mechanisms.continual.blt_optimum import (
    filter_loss,
    objective,
    optimal_filter,
    optimal_loss,
)
from dpstream.mechanisms.continual.blt_table import FILTERS, SHORTEST_STANDARD
from dpstream.mechanisms.continual.chain import LATER_EPOCHS, endless_chain
from dpstream.mechanisms.continual.response import BufferedFilter, rounded_mantissa

DATA = json.loads(Path(__file__).with_name("blt_vectors.json").read_text())
SIGMA = 4.22468  # noise multiplier of (1, 1e-6)


@pytest.mark.parametrize(
    "vector", DATA["vectors"], ids=lambda vector: f"{vector['horizon']}-{vector['buffers']}"
)
def test_the_optimum_is_jax_privacys(vector: dict) -> None:
    horizon, buffers = vector["horizon"], vector["buffers"]
    own = optimal_filter(horizon=horizon, buffers=buffers)
    loss = filter_loss(own, horizon)
    # Theirs descends with penalties and stops at a tolerance: it cannot be far below ours.
    assert loss == pytest.approx(math.sqrt(vector["loss"]), rel=1e-7)
    assert loss <= math.sqrt(vector["loss"]) * (1 + 1e-8)
    # Where the optimum is, not only how high; flat directions leave a few digits less.
    assert np.array(own.rates) == pytest.approx(1 - np.array(vector["theta"]), rel=2e-3)
    assert np.array(own.scales) == pytest.approx(np.array(vector["omega"]), rel=2e-3)


@pytest.mark.parametrize(
    ("horizon", "buffers", "largest"),
    [
        (10**3, 2, 14.0),
        (10**6, 3, 24.4),
        (10**4, 5, 16.9),
        (10**5, 5, 20.0),
        (10**6, 5, 23.2),
        (10**7, 5, 26.4),
    ],
)
def test_the_optimum_has_the_known_noise(horizon: int, buffers: int, largest: float) -> None:
    loss = SIGMA * optimal_loss(horizon=horizon, buffers=buffers)
    assert loss == pytest.approx(largest, abs=0.051)


@pytest.mark.parametrize(("horizon", "buffers"), [(1024, 5), (4096, 5)])
def test_the_table_is_optimal(horizon: int, buffers: int) -> None:
    check_optimal(horizon, buffers)


@pytest.mark.slow
@pytest.mark.parametrize(("horizon", "buffers"), sorted(FILTERS))
def test_the_whole_table_is_optimal(horizon: int, buffers: int) -> None:
    check_optimal(horizon, buffers)


def check_optimal(horizon: int, buffers: int) -> None:
    least = optimal_loss(horizon=horizon, buffers=buffers)
    # Rounding to encodable numbers costs below 1e-8.
    assert filter_loss(FILTERS[horizon, buffers], horizon) == pytest.approx(least, rel=1e-8)


@pytest.mark.parametrize(("horizon", "buffers"), sorted(FILTERS))
def test_no_number_of_the_table_can_be_moved_for_the_better(horizon: int, buffers: int) -> None:
    """By 2 % either way; the losses of ``filter_loss`` are right to 1e-9."""
    kept = FILTERS[horizon, buffers]
    if horizon == LATER_EPOCHS[0]:
        assert endless_chain().epochs[-1] == (horizon, kept.rates, kept.scales)
    else:
        assert standard_filter(horizon) is kept
    least = filter_loss(kept, horizon)
    assert len(kept.rates) == len(kept.scales) == buffers
    for factor in (0.98, 1.02):
        for place in range(buffers):
            rates, scales = list(kept.rates), list(kept.scales)
            rates[place] = rounded_mantissa(factor * rates[place])
            scales[place] = rounded_mantissa(factor * scales[place])
            assert filter_loss(BufferedFilter(tuple(rates), kept.scales), horizon) > least
            assert filter_loss(BufferedFilter(kept.rates, tuple(scales)), horizon) > least


def test_the_table_has_every_standard_horizon() -> None:
    standards = [2**power for power in range(6, 25)]
    assert sorted(FILTERS) == [*((ticks, 5) for ticks in standards), (2**30, 8)]
    assert SHORTEST_STANDARD == 64
    for ticks in standards:
        assert standard_filter(ticks) is standard_filter(ticks // 2 + 1) is FILTERS[ticks, 5]


def test_a_wrong_table_would_show() -> None:
    least = optimal_loss(horizon=1024, buffers=5)
    assert filter_loss(FILTERS[2048, 5], 1024) > least * (1 + 1e-5)


def test_horizons_between_standards_take_the_next_filter() -> None:
    assert standard_filter(1) is FILTERS[64, 5]
    assert standard_filter(64) is FILTERS[64, 5]
    assert standard_filter(65) is FILTERS[128, 5]
    assert standard_filter(2**24) is FILTERS[2**24, 5]
    with pytest.raises(ConfigurationError, match="16777217 ticks"):
        standard_filter(2**24 + 1)
    for horizon in (1500, 40_000):
        least = optimal_loss(horizon=horizon, buffers=5)
        assert filter_loss(standard_filter(horizon), horizon) < least * 1.002


def test_gradients_are_those_of_the_objective() -> None:
    point = np.array([math.log(1e-4), 0.3, 0.1, -0.4, 0.2, 0.5])
    value, gradient = objective(point, 5000)
    assert value > 0
    for place in range(len(point)):
        step = np.zeros_like(point)
        step[place] = 1e-5
        slope = (objective(point + step, 5000)[0] - objective(point - step, 5000)[0]) / 2e-5
        assert gradient[place] == pytest.approx(slope, abs=1e-8)


def test_leaps_beyond_floating_point_are_turned_down() -> None:
    value, gradient = objective(np.array([0.0, 5.0, 800.0]), 1000)
    assert value == 1e6
    assert not gradient.any()


def test_one_buffer_beats_none_and_more_buffers_never_hurt() -> None:
    losses = [optimal_loss(horizon=4096, buffers=buffers) for buffers in (1, 2, 4)]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] < math.sqrt(4096)


def test_optimal_filters_are_encodable() -> None:
    response = optimal_filter(horizon=500, buffers=4)
    for number in (*response.rates, *response.scales):
        assert number == rounded_mantissa(number)
