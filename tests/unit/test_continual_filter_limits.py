"""What filters and their integer encoders admit and claim, to the last number."""

import math
import re
from fractions import Fraction

import numpy as np
import pytest

from dpstream.domain.lattice import ExactVector
from dpstream.errors import ConfigurationError
from dpstream.mechanisms.continual.blt import BufferedToeplitz, toeplitz_sensitivity
from dpstream.mechanisms.continual.recurrence import (
    LOW_BITS,
    BufferBank,
    RefreshedBank,
    _scaling,
    recurrence_node_error,
    state_guard_bits,
)
from dpstream.mechanisms.continual.response import LARGEST_GAIN, BufferedFilter
from dpstream.mechanisms.continual.strategy import Node, Participation, Promise
from dpstream.mechanisms.continual.toeplitz import SquareRootToeplitz

ONE = BufferedFilter((0.5,), (0.25,))
"""Coefficients 1, 1/4, 1/8, ..., which add up to 3/2."""


def vector(value: int, exponent: int) -> ExactVector:
    return ExactVector.from_integers(np.array([value], np.int64), exponent)


def test_sensitivities_are_rounded_up_and_hardly() -> None:
    record = Participation()
    total = toeplitz_sensitivity(ONE, None, record, order=1)
    assert 1.5 * (1 + 5e-13) < total < 1.5 * (1 + 1.5e-12)
    # The squares 1/16, 1/64, ... add up to a twelfth.
    energy = Fraction(toeplitz_sensitivity(ONE, None, record, order=2)) ** 2
    assert Fraction(13, 12) < energy < Fraction(13, 12) * (1 + Fraction(3, 10**12))


def test_as_many_buffers_as_are_admitted_and_no_more() -> None:
    rates = tuple(2.0**-power for power in range(15, 0, -1))
    scales = (2.0**-20,) * 15
    assert len(BufferedFilter(rates[:14], scales[:14]).rates) == 14
    with pytest.raises(ConfigurationError, match=r"equally many \(at most 14\)"):
        BufferedFilter(rates, scales)


def test_the_smallest_numbers_and_the_largest_gain_are_admitted() -> None:
    assert BufferedFilter((0.5,), (2.0**-31,)).gain == 1.0 + 2.0**-30
    with pytest.raises(ConfigurationError, match="none below"):
        BufferedFilter((0.5,), (2.0**-32,))
    scales = ((2.0**19 - 64) * 2.0**-25, 63 * 2.0**-10)
    assert BufferedFilter((2.0**-25, 2.0**-10), scales).gain == LARGEST_GAIN == 2.0**19


@pytest.mark.parametrize(
    ("rates", "scales"),
    [((1.0,), (0.25,)), ((1.5,), (0.25,)), ((0.5,), (1.0,)), ((0.25, 0.25), (0.125, 0.125))],
)
def test_rates_and_scales_lie_below_one_and_rates_increase(
    rates: tuple[float, ...], scales: tuple[float, ...]
) -> None:
    with pytest.raises(ConfigurationError, match=r"and increase, lie in \(0, 1\)"):
        BufferedFilter(rates, scales)


def test_the_error_of_a_node_in_steps() -> None:
    # A half, a 32nd for each of five buffers and two more, and an eighth.
    assert recurrence_node_error(5, 0) == 0.5 + 7 / 32 + 1 / 8
    assert recurrence_node_error(5, -3) == recurrence_node_error(5, 0) / 8
    for gain in (1.5, 4.0, 1000.0):
        assert 1 / 16 < gain * 2.0 ** -state_guard_bits(gain) <= 1 / 8


def test_factors_in_integers() -> None:
    assert _scaling(0.75, shift=3, nearest=False) == (3 << 12, 17, 0)
    assert _scaling(0.75, shift=3, nearest=True) == (3 << 12, 17, 1 << 16)


def test_increments_finer_than_the_buffers_are_rounded_to_nearest() -> None:
    bank = BufferBank(ONE, 1, increment_exponent=-6, node_exponent=0)
    # The buffers' lattice is 2^-4, four times as coarse.
    lifted = [bank.lifted(vector(value, -6)).ravel().tolist() for value in (1, 2, 5, 6, 7)]
    assert lifted == [[0, 0], [0, 1], [0, 1], [0, 2], [0, 2]]


def test_bits_of_an_increment_that_may_be_lost() -> None:
    BufferBank(ONE, 1, increment_exponent=-4 - LOW_BITS, node_exponent=0)
    with pytest.raises(ConfigurationError, match=r"more than 48 bits of every increment"):
        BufferBank(ONE, 1, increment_exponent=-5 - LOW_BITS, node_exponent=0)


def test_nodes_have_61_bits() -> None:
    def step(value: int) -> int:
        bank = BufferBank(ONE, 1, increment_exponent=0, node_exponent=0)
        return int(bank.step(vector(value, 0))[0])

    assert step(2**61 - 1) == 2**61 - 1
    assert step(2**44 - 2**61) == 2**44 - 2**61
    message = "the increments' public bound is too large for the node lattice; take a coarser "
    message += "lattice or fewer records per tick"
    with pytest.raises(OverflowError, match=f"{re.escape(message)}$"):
        step(2**61)


def test_nodes_have_room_for_twice_the_gain() -> None:
    assert state_guard_bits(ONE.gain) == 4
    assert BufferedToeplitz(horizon=3, rates=ONE.rates, scales=ONE.scales).code_bound() == 3.0


def test_inverses_of_rates_closer_than_their_scales() -> None:
    response = BufferedFilter((0.25, 0.265625, 0.28125), (0.0625, 0.25, 0.125))
    series = np.concatenate([[1.0], -response.inverse.values(39)])
    product = np.convolve(series, response.coefficients(40))[:40]
    assert np.abs(product - np.eye(1, 40)[0]).max() < 1e-12


def test_a_buffer_forgets_its_share_to_nearest() -> None:
    bank = BufferBank(ONE, 1, increment_exponent=0, node_exponent=0)
    bank.restore("x", {"x_high": np.zeros((1, 1), np.int64), "x_low": np.ones((1, 1), np.int64)})
    bank.advance(bank.lifted(vector(0, 0)))
    assert bank.snapshot("x")["x_low"].tolist() == [[0]]


@pytest.mark.parametrize(
    ("response", "increment", "exponent", "state"),
    [
        # 6.5 sixteenths: half a step less for what a truncated term loses on average.
        (ONE, 6, -4, 2),
        (BufferedFilter((0.125,), (0.375,)), 13, -5, 0),
    ],
)
def test_terms_of_a_node_are_truncated(
    response: BufferedFilter, increment: int, exponent: int, state: int
) -> None:
    bank = BufferBank(response, 1, increment_exponent=exponent, node_exponent=0)
    low = np.full((1, 1), state, np.int64)
    bank.restore("x", {"x_high": np.zeros((1, 1), np.int64), "x_low": low})
    assert bank.step(vector(increment, exponent)).tolist() == [0]


def test_nodes_weigh_one_and_promises_are_words() -> None:
    assert Participation(cap=2).cap == 2
    assert Node((1,), np.zeros(1, np.int64), 0).weight == 1.0
    assert Promise.FOREVER.value == "every record is protected for the stream's whole life"
    assert Promise.WHILE_LIVE.value.startswith("delayed publication: a record is protected for W ")
    assert Promise.WHILE_LIVE.value.endswith("sum is published exactly")


@pytest.mark.parametrize("buffers", [1, 2, 5])
def test_half_of_what_a_nodes_terms_lose_is_added_back(buffers: int) -> None:
    response = BufferedFilter(
        tuple(2.0**-power for power in range(buffers, 0, -1)), (2.0**-20,) * buffers
    )
    # On the buffers' lattice, 1/16; one half is rounded up to 1, and the terms lose up to 1 each.
    last = 7 - (buffers + 1) // 2
    for increment, node in ((last, 0), (last + 1, 1)):
        bank = BufferBank(response, 1, increment_exponent=-4, node_exponent=0)
        assert bank.step(vector(increment, -4)).tolist() == [node]


@pytest.mark.parametrize(("increment_exponent", "largest"), [(0, 2**60 - 2), (-4, 2**63 - 2)])
def test_the_largest_increments_that_buffers_take(increment_exponent: int, largest: int) -> None:
    bank = BufferBank(ONE, 1, increment_exponent=increment_exponent, node_exponent=0)

    def lifted(high: int) -> int:
        limbs = bank.lifted(
            ExactVector(np.array([high]), np.zeros(1, np.int64), increment_exponent)
        )
        return (int(limbs[0, 0]) << LOW_BITS) + int(limbs[1, 0])

    assert lifted(largest) == largest << 32 + 4 + increment_exponent
    with pytest.raises(OverflowError, match="public bound"):
        lifted(largest + 1)


@pytest.mark.parametrize(
    ("period", "nodes"), [(1, [16, 4, 0, 0, 0]), (2, [16, 4, 2, 1, 0]), (3, [16, 4, 2, 1, 1])]
)
def test_refreshed_buffers_hand_over_after_every_period(period: int, nodes: list[int]) -> None:
    bank = RefreshedBank(ONE, 1, period=period, increment_exponent=0, node_exponent=0)
    found = [int(bank.step(vector(16 * (tick == 0), 0))[0]) for tick in range(5)]
    assert found == nodes


def test_the_square_roots_increments_have_59_bits() -> None:
    strategy = SquareRootToeplitz(horizon=2)
    encoder = strategy.encoder(1, increment_exponent=0, node_exponent=0)
    with pytest.raises(OverflowError, match="exceeds 59 bits"):
        encoder.absorb(vector(2**59, 0))
    encoder.absorb(vector(2**59 - 1, 0))
    assert encoder.nodes()[0].value.tolist() == [2**59 - 1]


def test_the_square_roots_public_bound_is_half_of_that() -> None:
    def error(bound: float) -> float:
        return SquareRootToeplitz(horizon=2).node_error(
            increment_bound=bound, increment_exponent=-3, node_exponent=0
        )

    assert error(2.0**55) == error(math.inf) == 0.5
    with pytest.raises(ConfigurationError, match=r"square root takes at most 3.60288e\+16: allow"):
        error(2.0**55 * (1 + 2.0**-52))


@pytest.mark.parametrize("stop", [2, 4, 7])
def test_refreshed_buffers_are_taken_up_with_those_that_take_over(stop: int) -> None:
    def fresh() -> RefreshedBank:
        return RefreshedBank(ONE, 1, period=3, increment_exponent=0, node_exponent=0)

    rows = [vector(100_003 * (tick + 1), 0) for tick in range(14)]
    bank, plain = fresh(), fresh()
    expected = [plain.step(row).tolist() for row in rows]
    for row in rows[:stop]:
        bank.step(row)
    again = fresh()
    again.restore("bank", bank.snapshot("bank"))
    assert [again.step(row).tolist() for row in rows[stop:]] == expected[stop:]
