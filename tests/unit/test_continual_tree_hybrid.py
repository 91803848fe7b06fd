"""The hybrid strategy against its explicit matrices, and its split."""

import math

import numpy as np
import pytest

from dpstream.errors import ConfigurationError
from dpstream.mechanisms.continual.hybrid import (
    Hybrid,
    best_split,
    epoch_of,
    max_variance,
    mean_variance,
)
from dpstream.mechanisms.continual.strategy import Participation, Promise
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
    explicit,
    prefix_target,
)


@pytest.mark.parametrize("split", [0.1, 0.7])
@pytest.mark.parametrize("ticks", [1, 2, 3, 4, 5, 8, 9, 16, 31, 32, 33, 64, 127, 128, 130])
def test_factorisation_moments_and_memory(split: float, ticks: int) -> None:
    hybrid = Hybrid(split)
    check_factorisation(hybrid, prefix_target(ticks), tolerance=1e-12)
    check_moments(hybrid, ticks, tolerance=1e-12)
    check_memory(hybrid, ticks)
    check_code_bound(hybrid, ticks)


def test_it_has_no_horizon_and_protects_for_ever() -> None:
    assert Hybrid().name == "hybrid"
    assert Hybrid().horizon is None
    assert Hybrid().promise is Promise.FOREVER


@pytest.mark.parametrize("split", [0.1, 0.5, 0.9])
def test_every_completed_epoch_costs_its_first_record_exactly_one(split: float) -> None:
    ticks = 128
    norms = np.linalg.norm(explicit(Hybrid(split), ticks).scaled_code, axis=0)
    assert norms.max() <= 1 + 1e-12
    firsts = [0, 1, 2, 4, 8, 16, 32, 64]
    np.testing.assert_allclose(norms[firsts], 1.0, rtol=1e-12)


@pytest.mark.parametrize(
    ("cap", "per_tick", "attained"),
    [
        (1, 1, 1 - 1e-9),
        (2, 2, 1 - 1e-9),
        (3, 3, 1 - 1e-9),
        (2, 1, 0.95),
        (3, 2, 0.93),
    ],
)
def test_users_sensitivity(cap: int, per_tick: int, attained: float) -> None:
    # Consecutive records reach the bound only in the limit of late epochs.
    participation = Participation(cap=cap, per_tick=per_tick)
    check_sensitivity(Hybrid(), 32, participation, attained=attained)
    check_rounding_norm(Hybrid(), 32, participation, orders=(2,))


def test_pure_noise_has_no_bound() -> None:
    for claim in (Hybrid().sensitivity, Hybrid().rounding_norm):
        with pytest.raises(ConfigurationError, match="no finite sensitivity of order 1"):
            claim(Participation(), order=1)


def test_release_pattern_and_resume() -> None:
    check_lazy_release(Hybrid(), 70, [range(3, 71, 3), [70], [1, 2, 4, 8, 16, 32, 64], [7, 69]])
    increments = np.arange(70 * 4, dtype=np.int64).reshape(70, 4) * 987 - 10**5
    check_resume(Hybrid(), increments)
    assert check_node_error(Hybrid(), increments, node_exponent=-14, increment_bound=1.0) > 0.9


def test_epochs_partition_the_ticks() -> None:
    for tick in range(1, 200):
        assert epoch_of(0, tick) == math.ceil(math.log2(tick))
    assert epoch_of(3, 2) == 4
    assert epoch_of(3, 1) is None


@pytest.mark.parametrize("ticks", [1, 2, 3, 7, 8, 100, 257])
def test_closed_forms_of_the_errors(ticks: int) -> None:
    hybrid = Hybrid(0.3)
    variance = [hybrid.variance(tick) for tick in range(1, ticks + 1)]
    assert max_variance(hybrid, ticks) == pytest.approx(max(variance), rel=1e-12)
    assert mean_variance(hybrid, ticks) == pytest.approx(np.mean(variance), rel=1e-12)


def test_the_largest_error_is_found_at_every_length() -> None:
    hybrid = Hybrid(0.3)
    largest = 0.0
    for ticks in range(1, 260):
        largest = max(largest, hybrid.variance(ticks))
        assert max_variance(hybrid, ticks) == pytest.approx(largest, rel=1e-12)


def test_one_vector_for_each_node_of_the_open_epoch() -> None:
    assert [Hybrid().memory(tick) for tick in range(9)] == [0, 1, 0, 1, 0, 1, 1, 2, 0]


def test_one_tick_has_a_split_too() -> None:
    assert 0.0 < best_split(1) < 1.0


@pytest.mark.parametrize("objective", ["rms", "max"])
def test_best_split_is_a_minimum(objective: str) -> None:
    measure = {"rms": mean_variance, "max": max_variance}[objective]
    best = best_split(3000, objective=objective)
    for other in (best - 0.03, best + 0.03):
        assert measure(Hybrid(best), 3000) < measure(Hybrid(other), 3000)


def test_default_split_is_close_to_the_best_from_a_thousand_ticks_on() -> None:
    for ticks in (10**3, 10**4, 10**5, 10**6, 10**7):
        best = mean_variance(Hybrid(best_split(ticks)), ticks)
        assert mean_variance(Hybrid(), ticks) < 1.002 * best


@pytest.mark.parametrize("split", [0.0, 1.0, -1.0, math.nan])
def test_impossible_splits_are_refused(split: float) -> None:
    with pytest.raises(ConfigurationError, match="hybrid split"):
        Hybrid(split)


def test_impossible_optimisations_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="'median'"):
        best_split(10, objective="median")
    with pytest.raises(ConfigurationError, match="0 ticks"):
        best_split(0)


def test_splits_of_the_shortest_streams() -> None:
    for objective in ("rms", "max"):
        for ticks in (1, 2, 3, 4, 5):
            assert 0.0 < best_split(ticks, objective=objective) < 1.0
    # Of the third tick's epoch the total is never used: its share is as small as it may be.
    assert best_split(3) == pytest.approx(1e-3, abs=1e-5)
