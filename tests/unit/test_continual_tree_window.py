"""The window tree against its explicit matrices: delayed publication."""

import numpy as np
import pytest

from dpstream.domain.lattice import ExactVector
from dpstream.errors import ConfigurationError
from dpstream.mechanisms.continual.strategy import Participation, Promise
from dpstream.mechanisms.continual.window_tree import EXPIRED, WindowTree, window_cover
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
    check_sensitivity,
    explicit,
    prefix_target,
)

WINDOWS = [1, 2, 3, 4, 5, 7, 8, 16, 21]
RECORD = Participation()


@pytest.mark.parametrize("window", WINDOWS)
def test_every_law(window: int) -> None:
    strategy, ticks = WindowTree(window), 4 * window + 5
    check_factorisation(strategy, prefix_target(ticks), tolerance=1e-12)
    check_moments(strategy, ticks, tolerance=1e-12)
    check_memory(strategy, ticks)
    check_code_bound(strategy, ticks)
    patterns = [range(2, ticks + 1, 3), [ticks], [window, window + 1, ticks]]
    check_lazy_release(strategy, ticks, patterns)
    increments = np.arange(ticks * 3, dtype=np.int64).reshape(ticks, 3) * 991 - 1000
    check_resume(strategy, increments)
    assert check_node_error(strategy, increments, node_exponent=-14, increment_bound=1.0) > 0.9
    for order in (1, 2):
        check_sensitivity(strategy, ticks, RECORD, order=order)
        check_expiry(strategy, ticks, RECORD, window=window, order=order)
    check_rounding_norm(strategy, ticks, RECORD)


@pytest.mark.parametrize("window", [1, 2, 3, 4, 6, 8])
@pytest.mark.parametrize(("cap", "per_tick"), [(2, 1), (2, 2), (3, 1), (3, 2), (9, 1)])
def test_users_live_records(window: int, cap: int, per_tick: int) -> None:
    if cap == 9 and window > 2:
        window = 2
    participation = Participation(cap=cap, per_tick=per_tick)
    strategy = WindowTree(window)
    attained = 1 - 1e-9 if cap == per_tick or window == 1 else 0.9
    check_expiry(strategy, 2 * window + 1, participation, window=window, attained=attained)


def test_it_delays_publication_and_has_no_horizon() -> None:
    assert WindowTree(5).promise is Promise.WHILE_LIVE
    assert WindowTree(5).horizon is None
    assert WindowTree(5).name == "window_tree"


def test_a_record_is_exact_when_its_window_is_over_and_not_before() -> None:
    window = 6
    matrices = explicit(WindowTree(window), 30)
    exact = [address[0] == EXPIRED for address in matrices.addresses]
    np.testing.assert_array_equal(matrices.weights == 0, exact)
    rows = {
        int(tick): row
        for tick, row, expired in zip(matrices.handed, matrices.code, exact, strict=True)
        if expired
    }
    for record in range(1, 20):
        published = record + window
        before = rows.get(published - 1, np.zeros(30))
        assert before[record - 1] == 0
        difference = rows[published] - before
        np.testing.assert_array_equal(difference, np.eye(30)[record - 1])


@pytest.mark.parametrize("window", [1, 2, 4, 8, 64, 100, 1000, 1024])
def test_covers_are_disjoint_small_and_reach_over_the_window(window: int) -> None:
    top = window.bit_length() - 1
    largest = 0
    for end in range(1, 4 * window + 3):
        start = max(end - window, 0)
        ticks = [
            tick
            for level, index in window_cover(start, end, top)
            for tick in range(((index - 1) << level) + 1, (index << level) + 1)
        ]
        assert ticks == list(range(start + 1, end + 1))
        largest = max(largest, sum(1 for _ in window_cover(start, end, top)))
    expected = {100: 9, 1000: 15}.get(window, window.bit_length())
    assert largest == expected


def test_claims_in_numbers() -> None:
    assert [WindowTree(window).code_bound() for window in (1, 3, 4, 9)] == [1.0, 2.0, 4.0, 8.0]
    assert [WindowTree(3).memory(tick) for tick in (0, 1, 3, 7)] == [1, 2, 4, 4]
    # Exact sums are found by this level in their addresses: it does not change between versions.
    assert EXPIRED == -1


def test_an_increment_is_copied() -> None:
    encoder = WindowTree(2).encoder(1, increment_exponent=0, node_exponent=0)
    one = ExactVector.from_integers(np.ones(1, np.int64), 0)
    encoder.absorb(one)
    one.add(one)
    assert [node.value.tolist() for node in encoder.nodes()] == [[1]]
    assert encoder.nodes() == []


def test_a_window_is_a_positive_number() -> None:
    with pytest.raises(ConfigurationError, match="window is 0"):
        WindowTree(0)
