"""The buffered factorisation against its explicit matrices and against exact fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpstream.domain.lattice import ExactVector
from dpstream.errors import ConfigurationError, HorizonReached
from dpstream.mechanisms.continual.blt import (
    BufferedToeplitz,
    buffered_toeplitz,
    packed_counts,
    standard_filter,
)
from dpstream.mechanisms.continual.blt_optimum import filter_loss
from dpstream.mechanisms.continual.blt_table import FILTERS
from dpstream.mechanisms.continual.pending import PendingNodes
from dpstream.mechanisms.continual.recurrence import (
    HIGH_LIMIT,
    LOW_BITS,
    NODE_GUARD_BITS,
    BufferBank,
    RefreshedBank,
    recurrence_node_error,
    state_guard_bits,
)
from dpstream.mechanisms.continual.response import (
    LARGEST_GAIN,
    MANTISSA_BITS,
    BufferedFilter,
    mantissa,
    rounded_mantissa,
)
from dpstream.mechanisms.continual.strategy import Participation, Promise
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
    prefix_target,
)

RECORD = Participation()
USERS = [RECORD, Participation(cap=2), Participation(cap=3, per_tick=2), Participation(cap=4)]
SIGMA = 4.22468  # noise multiplier of (1, 1e-6)
SMALL = standard_filter(64)


@pytest.mark.parametrize("ticks", [1, 2, 3, 7, 20, 64, 130])
def test_factorisation_moments_and_memory(ticks: int) -> None:
    strategy = buffered_toeplitz(horizon=ticks)
    check_factorisation(strategy, prefix_target(ticks))
    check_moments(strategy, ticks)
    check_memory(strategy, ticks)
    check_code_bound(strategy, ticks)
    check_lazy_release(strategy, ticks, [[ticks], range(2, ticks + 1, 3) or [1]])
    assert strategy.promise is Promise.FOREVER
    assert strategy.name == "blt"


@pytest.mark.parametrize("participation", USERS)
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("ticks", [1, 2, 3, 7, 9])
def test_sensitivity_is_the_worst_case(
    ticks: int, order: int, participation: Participation
) -> None:
    strategy = buffered_toeplitz(horizon=ticks)
    check_sensitivity(strategy, ticks, participation, order=order)
    check_rounding_norm(strategy, ticks, participation)


def test_a_smaller_claim_is_refused() -> None:
    class Boastful(BufferedToeplitz):
        def sensitivity(self, participation: Participation, *, order: int) -> float:
            return 0.99 * super().sensitivity(participation, order=order)

    strategy = Boastful(horizon=7, rates=SMALL.rates, scales=SMALL.scales)
    with pytest.raises(AssertionError, match="shifts the code"):
        check_sensitivity(strategy, 7, RECORD)


def test_resume_and_nodes() -> None:
    strategy = buffered_toeplitz(horizon=30)
    increments = public_generator(5).integers(-(2**20), 2**20, (30, 3))
    check_resume(strategy, increments)
    for exponent in (-30, -21, -10, 0):
        share = check_node_error(strategy, increments, node_exponent=exponent, increment_bound=1.0)
        assert share > 0.3  # the claim is not idle


def test_horizon_is_the_end() -> None:
    encoder = buffered_toeplitz(horizon=2).encoder(1, increment_exponent=0, node_exponent=-10)
    one = ExactVector.from_integers(np.ones(1, np.int64), 0)
    encoder.absorb(one)
    encoder.absorb(one)
    with pytest.raises(HorizonReached, match="calibrated for 2 ticks"):
        encoder.absorb(one)
    assert [node.address for node in encoder.nodes()] == [(1,), (2,)]


@pytest.mark.parametrize("horizon", [0, 2**24 + 1])
def test_horizons_out_of_range_are_refused(horizon: int) -> None:
    with pytest.raises(ConfigurationError, match="horizon is"):
        buffered_toeplitz(horizon=horizon)


@pytest.mark.parametrize(
    ("ticks", "largest"),
    [(10**3, 13.80), (10**4, 16.90), (10**5, 20.02), (10**6, 23.2), (10**7, 26.5)],
)
def test_noise_at_epsilon_one(ticks: int, largest: float) -> None:
    strategy = buffered_toeplitz(horizon=ticks)
    assert SIGMA * filter_loss(strategy.filter, ticks) < largest
    stated = strategy.sensitivity(RECORD, order=2) * math.sqrt(strategy.variance(ticks))
    assert stated == pytest.approx(filter_loss(strategy.filter, ticks), rel=1e-9)


def exact_nodes(response: BufferedFilter, increments: list[list[int]]) -> list[list[Fraction]]:
    """The code by the recursion in fractions: rates and scales are dyadic, so nothing rounds."""
    width = len(increments[0])
    buffers = [[Fraction(0)] * width for _ in response.rates]
    nodes: list[list[Fraction]] = []
    for row in increments:
        nodes.append(
            [
                row[j]
                + sum(Fraction(s) * b[j] for s, b in zip(response.scales, buffers, strict=True))
                for j in range(width)
            ]
        )
        for rate, buffer in zip(response.rates, buffers, strict=True):
            for j in range(width):
                buffer[j] = (1 - Fraction(rate)) * buffer[j] + row[j]
    return nodes


@pytest.mark.parametrize("key", [(64, 5), (2**24, 5), (2**30, 8)])
@pytest.mark.parametrize(
    ("increment_exponent", "node_exponent"), [(-40, -30), (-40, 0), (0, -35), (-3, -3), (-60, -14)]
)
def test_nodes_are_the_code_within_the_stated_error(
    key: tuple[int, int], increment_exponent: int, node_exponent: int
) -> None:
    response = FILTERS[key]
    bank = BufferBank(
        response, 4, increment_exponent=increment_exponent, node_exponent=node_exponent
    )
    bits = min(55, 55 + node_exponent - increment_exponent - math.ceil(math.log2(response.gain)))
    rows = public_generator(3).integers(-(2 ** max(bits, 1)), 2 ** max(bits, 1), (120, 4))
    rows[:40] = np.abs(rows[:40])
    claim = Fraction(recurrence_node_error(len(response.rates), node_exponent))
    worst = Fraction(0)
    unit, step = Fraction(2) ** increment_exponent, Fraction(2) ** node_exponent
    for row, exact in zip(rows, exact_nodes(response, rows.tolist()), strict=True):
        node = bank.step(ExactVector.from_integers(row, increment_exponent))
        errors = [abs(int(a) * step - b * unit) for a, b in zip(node, exact, strict=True)]
        worst = max(worst, *errors)
    assert claim / 4 < worst <= claim < step


@pytest.mark.parametrize("key", sorted(FILTERS))
def test_integers_hold_whatever_nodes_of_61_bits_need(key: tuple[int, int]) -> None:
    """The largest admissible increments for ever: buffers reach bound / rate."""
    response = FILTERS[key]
    pairs = zip(response.rates, response.scales, strict=True)
    gain = 1 + sum(Fraction(scale) / Fraction(rate) for rate, scale in pairs)
    assert float(gain) == pytest.approx(response.gain, rel=1e-14)
    bound = Fraction(2**61) / (2 * gain)  # in steps of the nodes' lattice
    guard = state_guard_bits(response.gain)
    for rate in response.rates:
        assert bound / Fraction(rate) * 2**guard < HIGH_LIMIT << LOW_BITS
    assert guard - NODE_GUARD_BITS + mantissa(min(response.scales))[1] <= 62
    # And by the arithmetic itself, in the steady state that such increments approach.
    bank = BufferBank(response, 1, increment_exponent=0, node_exponent=0)
    state = [int(bound / Fraction(rate) * 2**guard) for rate in response.rates]
    bank.restore(
        "x",
        {
            "x_high": np.array([[value >> LOW_BITS] for value in state]),
            "x_low": np.array([[value & ((1 << LOW_BITS) - 1)] for value in state]),
        },
    )
    node = bank.step(ExactVector.from_integers(np.array([int(bound)]), 0))
    assert abs(int(node[0]) - 2**60) < 4


@pytest.mark.parametrize(
    ("increment", "exponent"), [((1 << 62) - 1, 0), (1 << 52, 11), (-(1 << 61), 0), (1, 66)]
)
def test_too_large_increments_are_refused(increment: int, exponent: int) -> None:
    bank = BufferBank(standard_filter(2**24), 1, increment_exponent=exponent, node_exponent=-20)
    with pytest.raises(OverflowError, match="public bound"):
        bank.step(ExactVector.from_integers(np.array([increment]), exponent))


def test_growing_buffers_and_nodes_are_refused() -> None:
    full = ((1 << 47) - 1) << 48

    def bank_at(value: int, response: BufferedFilter) -> BufferBank:
        bank = BufferBank(response, 1, increment_exponent=0, node_exponent=0)
        high = np.full((len(response.rates), 1), value >> LOW_BITS, np.int64)
        bank.restore("x", {"x_high": high, "x_low": np.zeros_like(high)})
        return bank

    one = ExactVector.from_integers(np.array([1]), 0)
    with pytest.raises(OverflowError, match="public bound"):
        bank_at(full, SMALL).step(one)
    slow = BufferedFilter((2.0**-31,), (2.0**-31,))
    limit = (HIGH_LIMIT - 1) << LOW_BITS
    bank = bank_at(limit, slow)
    with pytest.raises(OverflowError, match="public bound"):
        bank.advance(bank.lifted(ExactVector.from_integers(np.array([(1 << 62) - 1]), 0)))


def test_increments_much_finer_than_nodes_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="take coarser increments"):
        BufferBank(SMALL, 1, increment_exponent=-100, node_exponent=0)


def test_refreshed_buffers_forget_to_the_last_bit() -> None:
    """Two streams that differ in one record are equal for good after two periods.

    Without refreshing, a rest that rounds to no decrement stays for ever.
    """
    response = BufferedFilter((2.0**-3,), (2.0**-2,))
    lattices = {"increment_exponent": 0, "node_exponent": -2}
    refreshed = [RefreshedBank(response, 1, period=50, **lattices) for _ in range(2)]
    plain = [BufferBank(response, 1, **lattices) for _ in range(2)]
    different: list[int] = []
    for tick in range(400):
        both = [ExactVector.from_integers(np.array([(tick == 7) * i]), 0) for i in range(2)]
        nodes = [bank.step(value) for bank, value in zip(refreshed, both, strict=True)]
        if nodes[0] != nodes[1]:
            different.append(tick)
        for bank, value in zip(plain, both, strict=True):
            bank.step(value)
    assert min(different) == 7
    assert max(different) < 7 + 2 * 50
    states = [bank.snapshot("s") for bank in plain]
    assert states[0]["s_low"] != states[1]["s_low"]


def test_refreshed_buffers_agree_with_plain_ones() -> None:
    lattices = {"increment_exponent": -10, "node_exponent": -10}
    period = math.ceil(40 / SMALL.rates[0])
    rows = public_generator(2).integers(-1000, 1000, (3 * period // 50, 2))
    refreshed = RefreshedBank(SMALL, 2, period=period // 50, **lattices)
    faithful = RefreshedBank(SMALL, 2, period=period, **lattices)
    plain = BufferBank(SMALL, 2, **lattices)
    lost = 0
    for row in rows:
        value = ExactVector.from_integers(row, -10)
        expected = plain.step(value)
        assert np.array_equal(faithful.step(value), expected)
        lost = max(lost, int(np.abs(refreshed.step(value) - expected).max()))
    assert lost > 1  # a period much too short shows


def test_closed_forms_equal_long_sums() -> None:
    count = 3000
    for response in (SMALL, standard_filter(1000), BufferedFilter((0.25,), (0.5,))):
        coefficients = response.coefficients(count)
        assert response.total(count) == pytest.approx(coefficients.sum(), rel=1e-12)
        assert response.energy(count) == pytest.approx((coefficients**2).sum(), rel=1e-12)
        assert np.all(np.diff(coefficients) <= 0)
        assert coefficients.min() >= 0
        inverse = response.inverse
        series = np.concatenate([[1.0], -inverse.values(count - 1)])
        product = np.convolve(series, coefficients)[:count]
        assert np.abs(product - np.eye(1, count)[0]).max() < 1e-12
        decoding = response.decoding()
        assert np.allclose(decoding.values(count), np.cumsum(series), rtol=1e-11)
        assert decoding.at(17) == pytest.approx(decoding.values(18)[17], rel=1e-13)
        assert decoding.total(count) == pytest.approx(np.cumsum(series).sum(), rel=1e-11)
    long = 20_000
    coefficients = SMALL.coefficients(long)
    assert SMALL.gain == pytest.approx(coefficients.sum(), rel=1e-12)
    assert SMALL.total(None) == pytest.approx(SMALL.gain, rel=1e-12)
    assert SMALL.energy(None) == pytest.approx((coefficients**2).sum(), rel=1e-12)
    shifted = coefficients[:-9] @ coefficients[9:]
    assert SMALL.correlation(9) == pytest.approx(shifted, rel=1e-12)


def test_numbers_keep_their_bits() -> None:
    for value in (0.1, 0.9999999, 3e-9, 0.5):
        kept = rounded_mantissa(value)
        factor, shift = mantissa(kept)
        assert kept == pytest.approx(value, rel=2.0**-MANTISSA_BITS)
        assert math.ldexp(factor, -shift) == kept
        assert factor <= 2**MANTISSA_BITS


@pytest.mark.parametrize(
    ("rates", "scales", "reason"),
    [
        ((), (), "equally many"),
        ((0.5,), (0.25, 0.25), "equally many"),
        ((0.5, 0.25), (0.125, 0.125), "increase"),
        ((0.1,), (0.5,), "significant bits"),
        ((0.5,), (0.0,), "lie in"),
        ((2.0**-40,), (0.5,), "none below"),
        ((0.5,), (0.5,), "alternate"),
        ((2.0**-25,), (0.5,), "outgrow"),
    ],
)
def test_filters_out_of_range_are_refused(
    rates: tuple[float, ...], scales: tuple[float, ...], reason: str
) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        BufferedFilter(rates, scales)
    assert LARGEST_GAIN == 2.0**19


def test_pending_nodes_keep_their_order() -> None:
    pending = PendingNodes(-3)
    pending.add((2, 1), np.array([4, 5]), 0.5)
    pending.add((1, 7), np.array([6, 7]))
    other = PendingNodes(-3)
    other.restore(pending.snapshot())
    for nodes in (pending.take(), other.take()):
        assert [node.address for node in nodes] == [(2, 1), (1, 7)]
        assert [node.weight for node in nodes] == [0.5, 1.0]
        assert [node.exponent for node in nodes] == [-3, -3]
        assert [node.value.tolist() for node in nodes] == [[4, 5], [6, 7]]
    assert pending.take() == []


def test_a_units_records_are_packed_without_an_empty_tick() -> None:
    assert packed_counts(Participation(cap=5, per_tick=2), None) == [2, 2, 1]
    assert packed_counts(Participation(cap=4, per_tick=2), None) == [2, 2]
    assert packed_counts(Participation(cap=5, per_tick=2), 2) == [2, 2]
    assert packed_counts(Participation(cap=5, per_tick=2), 1) == [2]


def reference_nodes(
    response: BufferedFilter, rows: list[int], increment_exponent: int, node_exponent: int
) -> list[int]:
    """The arithmetic that ``recurrence.proof.md`` describes, in integers of any size."""
    exponent = node_exponent - math.ceil(math.log2(response.gain)) - 3
    below = node_exponent - 4 - exponent
    lift = increment_exponent - exponent
    rates = [mantissa(rate) for rate in response.rates]
    scales = [mantissa(scale) for scale in response.scales]
    buffers = [0] * len(rates)
    nodes: list[int] = []
    for row in rows:
        lifted = row << lift if lift >= 0 else (row + (1 << (-lift - 1))) >> -lift
        terms = (
            held * factor >> (shift + below)
            for held, (factor, shift) in zip(buffers, scales, strict=True)
        )
        bias = 8 + (len(rates) + 1) // 2
        nodes.append(((lifted >> below) + sum(terms) + bias) >> 4)
        buffers = [
            held - ((held * factor + (1 << (shift - 1))) >> shift) + lifted
            for held, (factor, shift) in zip(buffers, rates, strict=True)
        ]
    return nodes


@pytest.mark.parametrize(
    "response",
    [
        standard_filter(64),
        standard_filter(4096),
        BufferedFilter((0.125, 0.5), (0.125, 0.25)),
    ],
)
@pytest.mark.parametrize("node_exponent", [-44, -40, -31, -25, -12])
def test_nodes_are_those_of_exact_integers_to_the_last_bit(
    response: BufferedFilter, node_exponent: int
) -> None:
    """Noise is bound to them: a stored stream goes on with the same noise or not at all."""
    rows = public_generator(12).integers(-(2**41), 2**41, 60).tolist()
    bank = BufferBank(response, 1, increment_exponent=-40, node_exponent=node_exponent)
    found = [int(bank.step(ExactVector.from_integers(np.array([row]), -40))[0]) for row in rows]
    assert found == reference_nodes(response, rows, -40, node_exponent)


@pytest.mark.parametrize("period", [1, 2, 5])
def test_refreshed_nodes_hold_what_is_younger_than_two_periods(period: int) -> None:
    response = BufferedFilter((0.125, 0.5), (0.125, 0.25))
    rows = public_generator(14).integers(-(2**30), 2**30, 4 * period + 3).tolist()

    def bank() -> RefreshedBank:
        lattices = {"increment_exponent": -40, "node_exponent": -36}
        return RefreshedBank(response, 1, period=period, **lattices)

    kept = bank().snapshot("bank")
    for tick, row in enumerate(rows):
        resumed = bank()
        resumed.restore("bank", kept)
        node = resumed.step(ExactVector.from_integers(np.array([row]), -40))
        kept = resumed.snapshot("bank")
        since = max(tick // period - 1, 0) * period
        assert node.tolist() == reference_nodes(response, rows[since : tick + 1], -40, -36)[-1:]


def test_truncated_terms_are_truncated_and_buffers_keep_every_bit() -> None:
    response = BufferedFilter((0.5,), (8193 * 2.0**-15,))
    # On the buffers' own lattice; what is held after one tick, times 8193, is -1 modulo 2**15.
    exponent = -state_guard_bits(response.gain)
    assert exponent == -4
    ones = -pow(8193, -1, 2**15) % 2**15
    for place in range(16):
        rows = [ones + (place << 15), 0, 1, -3, 10**6]
        bank = BufferBank(response, 1, increment_exponent=exponent, node_exponent=0)
        steps = [ExactVector.from_integers(np.array([row]), exponent) for row in rows]
        found = [int(bank.step(step)[0]) for step in steps]
        assert found == reference_nodes(response, rows, exponent, 0)
        held = 0
        for row in rows:
            held += row - ((held * 8192 + 2**13) >> 14)
        kept = bank.snapshot("bank")
        assert (int(kept["bank_high"][0, 0]) << 48) + int(kept["bank_low"][0, 0]) == held
