"""The tree strategies against their explicit matrices."""

import math

import numpy as np
import pytest

from dpstream.domain.lattice import ExactVector
from dpstream.errors import ConfigurationError, HorizonReached
from dpstream.mechanisms.continual.dyadic import (
    DyadicStrategy,
    LevelReach,
    cover,
    dyadic_node_error,
    dyadic_rounding_norm,
    dyadic_sensitivity,
)
from dpstream.mechanisms.continual.honaker import HonakerTree
from dpstream.mechanisms.continual.hybrid import Hybrid
from dpstream.mechanisms.continual.strategy import Participation, Promise
from dpstream.mechanisms.continual.tree import (
    EXACT_CAP,
    BinaryTree,
    tree_levels,
    tree_sensitivity,
)
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

TREES = [BinaryTree, HonakerTree]
RECORD = Participation()


def increments(ticks: int, dimension: int = 5) -> np.ndarray:
    return np.arange(ticks * dimension, dtype=np.int64).reshape(ticks, dimension) * 12345 - 10**6


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("ticks", [1, 2, 3, 4, 7, 8, 9, 31, 32, 33, 64, 127, 128, 130])
def test_factorisation_moments_and_memory(tree: type[BinaryTree | HonakerTree], ticks: int) -> None:
    check_factorisation(tree(ticks), prefix_target(ticks), tolerance=1e-12)
    check_moments(tree(ticks), ticks, tolerance=1e-12)
    check_memory(tree(ticks), ticks)
    check_code_bound(tree(ticks), ticks)
    assert tree(ticks).horizon == ticks
    assert tree(ticks).promise is Promise.FOREVER


@pytest.mark.parametrize("tree", TREES)
def test_one_record_shifts_the_code_by_the_root_of_its_nodes(
    tree: type[BinaryTree | HonakerTree],
) -> None:
    for ticks in range(1, 70):
        nodes = ticks.bit_length()
        assert tree(ticks).sensitivity(RECORD, order=2) == pytest.approx(math.sqrt(nodes))
        assert tree(ticks).sensitivity(RECORD, order=1) == nodes
        check_sensitivity(tree(ticks), ticks, RECORD)
        check_sensitivity(tree(ticks), ticks, RECORD, order=1)


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("ticks", [1, 2, 3, 5, 6, 7, 8, 11])
def test_users_worst_case_is_exact(tree: type[BinaryTree | HonakerTree], ticks: int) -> None:
    for cap in (2, 3, 4):
        for per_tick in range(1, cap + 1):
            participation = Participation(cap=cap, per_tick=per_tick)
            check_sensitivity(tree(ticks), ticks, participation)
            check_sensitivity(tree(ticks), ticks, participation, order=1)


@pytest.mark.parametrize("ticks", [16, 37, 64])
def test_users_with_many_records_in_long_trees(ticks: int) -> None:
    for tree in TREES:
        check_sensitivity(tree(ticks), ticks, Participation(cap=3, per_tick=1))


@pytest.mark.parametrize("cap", [1, 2, 8, 64])
def test_aligned_records_attain_the_closed_form_over_all_nodes(cap: int) -> None:
    ticks = 4096
    levels, log_cap = 13, cap.bit_length() - 1
    squared = cap * (2 * cap - 1) + cap**2 * (levels - 1 - log_cap)
    participation = Participation(cap=cap)
    assert HonakerTree(ticks).sensitivity(participation, order=2) ** 2 == pytest.approx(squared)
    # The cover's nodes alone: every other node below the cap's level is never measured.
    odd = squared - cap * (cap - 1) // 2
    assert BinaryTree(ticks).sensitivity(participation, order=2) ** 2 == pytest.approx(odd)
    crowded = Participation(cap=cap, per_tick=cap)
    for tree in TREES:
        assert tree(ticks).sensitivity(crowded, order=2) ** 2 == pytest.approx(cap**2 * levels)


def test_beyond_the_exact_cap_the_bound_counts_all_nodes() -> None:
    exact = tree_sensitivity(1 << 14, Participation(cap=EXACT_CAP), order=2)
    bound = tree_sensitivity(1 << 14, Participation(cap=EXACT_CAP + 1), order=2)
    assert exact < bound < 1.1 * exact
    # Up to 1024 records the ticks are searched, and from 1025 on the claim is the bound itself.
    searched, counted = Participation(cap=1024), Participation(cap=1025)
    levels = tree_levels(1 << 14)
    assert tree_sensitivity(1 << 14, searched, order=2) < 0.99 * dyadic_sensitivity(
        levels, searched, order=2
    )
    assert tree_sensitivity(1 << 14, counted, order=2) == dyadic_sensitivity(
        levels, counted, order=2
    )


@pytest.mark.parametrize("tree", TREES)
def test_rounding_reaches_no_further_than_claimed(tree: type[BinaryTree | HonakerTree]) -> None:
    for ticks in (1, 5, 8, 13):
        for cap in (1, 2, 3):
            check_rounding_norm(tree(ticks), ticks, Participation(cap=cap))


@pytest.mark.parametrize("tree", TREES)
def test_lattice_error_is_half_a_step_and_nothing_on_a_finer_lattice(
    tree: type[BinaryTree | HonakerTree],
) -> None:
    for node_exponent in (-22, -20, -14, -3):
        reached = check_node_error(
            tree(40), increments(40), node_exponent=node_exponent, increment_bound=4.0
        )
        assert reached > 0.9 or node_exponent <= -20


@pytest.mark.parametrize("tree", TREES)
def test_release_pattern_changes_nothing(tree: type[BinaryTree | HonakerTree]) -> None:
    patterns = [range(3, 41, 3), [40], [1, 2, 4, 8, 16, 32], [7, 39], range(1, 41)]
    check_lazy_release(tree(40), 40, patterns)


@pytest.mark.parametrize("tree", TREES)
def test_resume_continues_to_the_bit(tree: type[BinaryTree | HonakerTree]) -> None:
    check_resume(tree(37), increments(37))


def test_the_plain_tree_measures_one_node_per_tick_and_honaker_all() -> None:
    assert len(explicit(BinaryTree(100), 100).addresses) == 100
    assert len(explicit(HonakerTree(100), 100).addresses) == sum(100 >> h for h in range(7))
    lazy = explicit(BinaryTree(64), 64, released=[64])
    assert lazy.addresses == ((6, 1),)


def test_honaker_is_the_best_linear_unbiased_estimate() -> None:
    ticks = 45
    matrices = explicit(HonakerTree(ticks), ticks)
    for tick in (1, 6, 16, 31, 45):
        code = matrices.code[matrices.handed <= tick][:, :tick]
        best = np.ones(tick) @ np.linalg.pinv(code.T @ code) @ np.ones(tick)
        assert HonakerTree(ticks).variance(tick) == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("tree", TREES)
def test_past_the_horizon_nothing_is_absorbed(tree: type[BinaryTree | HonakerTree]) -> None:
    encoder = tree(3).encoder(1, increment_exponent=0, node_exponent=0)
    one = ExactVector.from_integers(np.ones(1, np.int64), 0)
    for _ in range(3):
        encoder.absorb(one)
    before = {key: value.tolist() for key, value in encoder.snapshot().items()}
    with pytest.raises(HorizonReached, match="3 ticks"):
        encoder.absorb(one)
    assert {key: value.tolist() for key, value in encoder.snapshot().items()} == before


@pytest.mark.parametrize("tree", TREES)
def test_a_horizon_is_a_positive_number(tree: type[BinaryTree | HonakerTree]) -> None:
    with pytest.raises(ConfigurationError, match="horizon is 0"):
        tree(0)


@pytest.mark.parametrize(("cap", "per_tick"), [(0, 0), (1, 2), (2, 0)])
def test_impossible_participation_is_refused(cap: int, per_tick: int) -> None:
    with pytest.raises(ConfigurationError, match="participation"):
        Participation(cap=cap, per_tick=per_tick)


@pytest.mark.parametrize(
    ("tree", "ticks", "largest", "rms"),
    [
        (BinaryTree, 1000, 40.1, 29.7),
        (BinaryTree, 10_000, 57.0, 40.2),
        (HonakerTree, 1000, 30.8, 22.6),
        (HonakerTree, 10_000, 42.7, 30.1),
    ],
)
def test_noise_at_epsilon_one(
    tree: type[BinaryTree | HonakerTree], ticks: int, largest: float, rms: float
) -> None:
    # One unit of sensitivity at epsilon 1 and delta 1e-6 needs sigma 4.22468.
    strategy = tree(ticks)
    sigma = 4.22468 * strategy.sensitivity(RECORD, order=2)
    variance = np.array([strategy.variance(tick) for tick in range(1, ticks + 1)])
    assert sigma * math.sqrt(variance.max()) == pytest.approx(largest, abs=0.06)
    assert sigma * math.sqrt(variance.mean()) == pytest.approx(rms, abs=0.06)


def test_levels_of_a_tree_add_up_by_their_weights() -> None:
    # Three nodes of 2 ticks with half the noise, one node of 8 ticks with thrice the noise.
    levels = [LevelReach(2, 3, weight=0.5), LevelReach(8, 1, weight=3.0)]
    five = Participation(cap=5)
    # Under the first level's nodes lie 2, 2 and 1 of the records, under the second's all five.
    assert dyadic_sensitivity(levels, five, order=1) == pytest.approx(5 / 0.5 + 5 / 3)
    squares = (4 + 4 + 1) / 0.25 + 25 / 9
    assert dyadic_sensitivity(levels, five, order=2) == pytest.approx(math.sqrt(squares))
    assert dyadic_rounding_norm(levels, five, order=1) == pytest.approx(3 / 0.5 + 1 / 3)
    reach = 3 / 0.25 + 1 / 9
    assert dyadic_rounding_norm(levels, five, order=2) == pytest.approx(math.sqrt(reach))


def test_nodes_on_the_increments_own_lattice_are_exact() -> None:
    for node_exponent, error in ((-11, 0.0), (-10, 0.0), (-9, 2.0**-10), (-4, 2.0**-5)):
        found = dyadic_node_error(increment_exponent=-10, node_exponent=node_exponent)
        assert found == error


@pytest.mark.parametrize("strategy", [BinaryTree(70), HonakerTree(70), Hybrid()])
def test_a_decoder_keeps_the_nodes_of_the_current_cover_alone(strategy: DyadicStrategy) -> None:
    encoder = strategy.encoder(1, increment_exponent=0, node_exponent=0)
    decoder = strategy.decoder(1)
    one = ExactVector.from_integers(np.ones(1, np.int64), 0)
    for tick in range(1, 71):
        encoder.absorb(one)
        for node in encoder.nodes():
            decoder.observe(node.address, node.value.astype(np.float64))
        assert decoder.estimate(tick).tolist() == [tick]
        held = [tuple(place) for place in decoder.snapshot()["places"].tolist()]
        assert held == sorted(cover(tick))


def test_nodes_are_handed_out_as_they_were_completed() -> None:
    encoder = HonakerTree(6).encoder(1, increment_exponent=0, node_exponent=0)
    for _ in range(6):
        encoder.absorb(ExactVector.from_integers(np.ones(1, np.int64), 0))
    order = [(0, 1), (0, 2), (1, 1), (0, 3), (0, 4), (1, 2), (2, 1), (0, 5), (0, 6), (1, 3)]
    assert [node.address for node in encoder.nodes()] == order


@pytest.mark.parametrize(("ticks", "largest"), [(1, 1), (2, 2), (3, 2), (4, 4), (40, 32)])
@pytest.mark.parametrize("tree", TREES)
def test_the_largest_node_is_the_largest_power_of_two_within_the_horizon(
    tree: type[BinaryTree | HonakerTree], ticks: int, largest: int
) -> None:
    assert tree(ticks).code_bound() == largest
