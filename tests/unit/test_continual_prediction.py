"""Where the noise of a sum is largest, found without looking at every tick."""

import numpy as np
import pytest

from dpstream.mechanisms.continual.choice import prefix_strategy
from dpstream.mechanisms.continual.prediction import (
    largest_standard_deviation,
    most_memory,
    revealing_ticks,
    standard_deviations,
)
from dpstream.mechanisms.continual.tree import BinaryTree


def test_few_ticks_are_all_looked_at() -> None:
    assert revealing_ticks(5).tolist() == [1, 2, 3, 4, 5]
    assert revealing_ticks(8, most=8).tolist() == list(range(1, 9))
    assert len(revealing_ticks(4096)) == 4096
    assert len(revealing_ticks(4097)) < 4097


@pytest.mark.parametrize("last", [5000, 8191, 8192, 100_000])
def test_of_many_ticks_the_revealing_ones(last: int) -> None:
    found = revealing_ticks(last, most=64)
    assert found[0] == 1
    assert found[-1] == last
    assert (np.diff(found) > 0).all()
    assert len(found) < 64 + 64 + 4 * 18 + 66
    chosen = set(found.tolist())
    assert chosen.issuperset(range(last - 64, last + 1))
    for power in range(last.bit_length()):
        near = {(1 << power) - 1, 1 << power, (1 << power) + 1}
        assert chosen.issuperset(tick for tick in near if 1 <= tick <= last)
    for bit in range(last.bit_length()):
        if last >> bit & 1:
            assert ((last >> bit << bit) - 1) in chosen | {0, -1}
    # Nothing else but the two grids, of half as many ticks each.
    special = {last - back for back in range(65)}
    for bit in range(last.bit_length()):
        special |= {(1 << bit) + beside for beside in (-1, 0, 1)}
        if last & 1 << bit:
            special.add(last - last % (1 << bit) - 1)
    ratio = last ** (1 / 31)
    special |= {round(ratio**step) for step in range(32)}
    special |= {round(1 + (last - 1) * step / 31) for step in range(32)}
    assert chosen == {tick for tick in special if 1 <= tick <= last}
    # An even grid too: no gap is wider than its step, about.
    assert np.diff(found).max() <= last / 30


@pytest.mark.parametrize("name", ["binary_tree", "honaker_tree", "blt", "hybrid"])
@pytest.mark.parametrize("last", [5000, 6143])
def test_the_largest_is_found_among_them(name: str, last: int) -> None:
    strategy = prefix_strategy(name, last)
    every = standard_deviations(strategy, np.arange(1, last + 1), scale=2.0)
    value, tick = largest_standard_deviation(strategy, last, scale=2.0)
    assert value == pytest.approx(every.max(), rel=1e-3 if name != "binary_tree" else 1e-12)
    assert value == every[tick - 1]
    assert value == 2.0 * np.sqrt(strategy.variance(tick))


def test_the_scale_is_one_unless_told() -> None:
    tree = BinaryTree(100)
    every = np.sqrt([tree.variance(tick) for tick in range(1, 101)])
    assert standard_deviations(tree, np.arange(1, 101)).tolist() == every.tolist()
    assert largest_standard_deviation(tree, 100) == (every.max(), 1 + int(every.argmax()))


def test_the_most_memory_is_that_of_the_tick_that_needs_most() -> None:
    tree = BinaryTree(1000)
    assert most_memory(tree, 1000) == max(tree.memory(tick) for tick in range(1, 1001)) == 9
    assert most_memory(tree, 1) == 1
