"""The strategies' laws find strategies that are wrong in one respect each."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from dpstream.mechanisms.continual.dyadic import DyadicDecoder, DyadicEncoder
from dpstream.mechanisms.continual.honaker import HonakerTree
from dpstream.mechanisms.continual.strategy import Participation
from dpstream.mechanisms.continual.tree import BinaryTree
from dpstream.mechanisms.continual.window_tree import WindowTree
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
    decay_target,
    explicit,
    prefix_target,
    window_target,
    worst_shift,
)

TICKS = 11
RECORD = Participation()
INCREMENTS = np.arange(TICKS * 3, dtype=np.int64).reshape(TICKS, 3) * 54321


class Encoder(DyadicEncoder):
    """An encoder whose nodes can be tampered with."""

    tamper: Callable = staticmethod(lambda nodes: nodes)

    def nodes(self):
        return self.tamper(list(super().nodes()))


@dataclass(frozen=True)
class Tampered(BinaryTree):
    """A binary tree whose nodes are tampered with on their way out."""

    tamper: Callable

    def encoder(self, dimension: int, *, increment_exponent: int, node_exponent: int):
        encoder = Encoder(self, dimension, increment_exponent, node_exponent)
        encoder.tamper = self.tamper
        return encoder


def test_the_targets_are_what_they_say() -> None:
    np.testing.assert_array_equal(prefix_target(3), [[1, 0, 0], [1, 1, 0], [1, 1, 1]])
    np.testing.assert_array_equal(window_target(3, 2), [[1, 0, 0], [1, 1, 0], [0, 1, 1]])
    np.testing.assert_array_equal(decay_target(3, 0.5), [[1, 0, 0], [0.5, 1, 0], [0.25, 0.5, 1]])


def test_a_wrong_sum_is_found() -> None:
    with pytest.raises(AssertionError, match="B C differs"):
        check_factorisation(BinaryTree(TICKS), window_target(TICKS, 4))
    check_factorisation(WindowTree(4), prefix_target(TICKS))


def test_a_node_without_noise_is_found() -> None:
    bare = Tampered(TICKS, lambda nodes: [replace(node, weight=0.0) for node in nodes])
    with pytest.raises(AssertionError, match="without noise"):
        check_factorisation(bare, prefix_target(TICKS))


def test_an_address_used_twice_is_found() -> None:
    again = Tampered(TICKS, lambda nodes: [replace(node, address=(0, 1)) for node in nodes])
    with pytest.raises(AssertionError, match="twice"):
        explicit(again, TICKS)


@dataclass(frozen=True)
class Early(WindowTree):
    """Calls a window one tick longer than it is."""

    @property
    def name(self) -> str:
        return "early"


def test_early_publication_and_loose_or_broken_claims_of_expiry_are_found() -> None:
    with pytest.raises(AssertionError, match="live record is exact"):
        check_expiry(Early(4), TICKS, RECORD, window=5)

    @dataclass(frozen=True)
    class Low(WindowTree):
        factor: float = 0.9

        def sensitivity(self, participation: Participation, *, order: int) -> float:
            return self.factor * super().sensitivity(participation, order=order)

    with pytest.raises(AssertionError, match="live records shift"):
        check_expiry(Low(4), TICKS, RECORD, window=4)
    with pytest.raises(AssertionError, match="loose"):
        check_expiry(Low(4, 1.1), TICKS, RECORD, window=4)


def test_values_and_weights_that_depend_on_the_schedule_are_found() -> None:
    def shrink(nodes):
        return [replace(node, value=node.value // len(nodes)) for node in nodes]

    def lighten(nodes):
        return [replace(node, weight=1.0 / len(nodes)) for node in nodes]

    for tamper, message in ((shrink, "values"), (lighten, "weights")):
        with pytest.raises(AssertionError, match=message):
            check_lazy_release(Tampered(TICKS, tamper), TICKS, [[7], [TICKS]])


class Forgetful(DyadicDecoder):
    """A decoder whose estimate depends on how often it was asked."""

    asked = 0

    def estimate(self, tick: int):
        self.asked += 1
        return super().estimate(tick) * (1 + 0.01 * self.asked)


@dataclass(frozen=True)
class Moody(HonakerTree):
    """A tree with a forgetful decoder."""

    def decoder(self, dimension: int):
        return Forgetful(self, dimension)


def test_estimates_that_depend_on_the_schedule_or_on_restarts_are_found() -> None:
    with pytest.raises(AssertionError, match="earlier releases"):
        check_lazy_release(Moody(TICKS), TICKS, [[3, TICKS]])
    with pytest.raises(AssertionError, match="resume differs"):
        check_resume(Moody(TICKS), INCREMENTS)


@dataclass(frozen=True)
class Boastful(BinaryTree):
    """A tree that claims other numbers than its own."""

    factor: float = 0.9

    def sensitivity(self, participation: Participation, *, order: int) -> float:
        return self.factor * super().sensitivity(participation, order=order)

    def rounding_norm(self, participation: Participation, *, order: int) -> float:
        return self.factor * super().rounding_norm(participation, order=order)

    def node_error(self, **lattices) -> float:
        return self.factor * super().node_error(**lattices)

    def code_bound(self) -> float:
        return self.factor * super().code_bound()

    def memory(self, tick: int) -> int:
        return super().memory(tick) - 1

    def variance(self, tick: int) -> float:
        return self.factor * super().variance(tick)


@dataclass(frozen=True)
class Independent(HonakerTree):
    """A tree that takes different releases for independent."""

    def covariance(self, earlier: int, later: int) -> float:
        return super().covariance(earlier, later) if earlier == later else 0.0


def test_claims_that_do_not_hold_are_found() -> None:
    boastful = Boastful(TICKS)
    with pytest.raises(AssertionError, match="shifts the code"):
        check_sensitivity(boastful, TICKS, RECORD)
    with pytest.raises(AssertionError, match="loose"):
        check_sensitivity(Boastful(TICKS, 1.01), TICKS, RECORD)
    with pytest.raises(AssertionError, match="rounding of order 1"):
        check_rounding_norm(boastful, TICKS, RECORD)
    with pytest.raises(AssertionError, match="a node is off"):
        check_node_error(boastful, INCREMENTS, node_exponent=-14, increment_bound=2.0)
    with pytest.raises(AssertionError, match="a node sums"):
        check_code_bound(boastful, TICKS)
    with pytest.raises(AssertionError, match="vectors held"):
        check_memory(boastful, TICKS)
    with pytest.raises(AssertionError, match=r"variance\(1\)"):
        check_moments(boastful, TICKS)
    with pytest.raises(AssertionError, match=r"covariance\(1, 2\)"):
        check_moments(Independent(TICKS), TICKS)
    with pytest.raises(AssertionError, match="exceed their bound"):
        check_node_error(boastful, INCREMENTS, node_exponent=-14, increment_bound=1.0)
    # Nodes on the increments' own lattice are exact, and the claim is zero.
    assert check_node_error(boastful, INCREMENTS, node_exponent=-20, increment_bound=2.0) == 0


def test_the_search_tries_opposite_shifts_where_columns_disagree() -> None:
    code = np.array([[1.0, -1.0], [0.0, 1.0]])
    pair = Participation(cap=2)
    assert worst_shift(code, pair, order=2) == pytest.approx(np.hypot(2, 1))
    assert worst_shift(np.abs(code), pair, order=2) == pytest.approx(np.hypot(2, 1))
    assert worst_shift(code, pair, order=1) == pytest.approx(3)
