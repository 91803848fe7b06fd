"""Claims against the worst neighbours that a search finds: never exceeded, nearly attained."""

import itertools
import math

import numpy as np
import pytest

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.lattice import ExactVector
from dpstream.mechanisms.discrete_gaussian import discrete_gaussian_event
from dpstream.mechanisms.exponential import (
    exponential_event,
    rounded_scores,
    score_sensitivity,
)
from dpstream.mechanisms.gaussian import gaussian_event
from dpstream.mechanisms.held_out import (
    EXPONENT,
    held_out_event,
    held_out_range,
    held_out_scale,
    held_out_totals,
)
from dpstream.mechanisms.mechanism import bounded_sum_sensitivity
from dpstream.mechanisms.spherical_laplace import spherical_laplace_event
from dpstream.privacy.bounds import curve_of
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours
from dpstream.randomness.public import public_generator

GENERATOR = public_generator(3)
DIMENSION = 4
BOUND = 66  # in steps of the fine lattice: every record's integer norm is at most this
STEP_BITS = 4


def records() -> list[IntArray]:
    """Admissible records: corners, axes, the null record and random directions."""
    diagonal = [
        np.array(signs) * (BOUND // 2) for signs in itertools.product((-1, 1), repeat=DIMENSION)
    ]
    axes = [
        sign * BOUND * np.eye(DIMENSION, dtype=np.int64)[i] for i in range(4) for sign in (-1, 1)
    ]
    directions = GENERATOR.normal(size=(20, DIMENSION))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    found = [*diagonal, *axes, *np.trunc(BOUND * directions).astype(np.int64)]
    assert all(int(record @ record) <= BOUND**2 for record in found)
    return [np.zeros(DIMENSION, np.int64), *found]


def rounded(total: IntArray, rounding: bool) -> IntArray:
    if not rounding:
        return total
    return ExactVector.from_integers(total, 0).rounded(STEP_BITS) << STEP_BITS


@pytest.mark.parametrize("rounding", [False, True])
@pytest.mark.parametrize("cap", [1, 3])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_bounded_sums_shift_by_at_most_their_sensitivity(
    neighbours: Neighbours, cap: int, rounding: bool
):
    sensitivity = bounded_sum_sensitivity(
        float(BOUND),
        neighbours=neighbours,
        cap=cap,
        rounding_step=float(1 << STEP_BITS) if rounding else 0.0,
        dimension=DIMENSION,
    )
    sigma = 50.0
    claimed = gaussian_event("sum", sensitivity=sensitivity, sigma=sigma).mu
    units = records()
    changes = units
    if neighbours is Neighbours.REPLACE:
        changes = [first - second for first in units for second in units]
    worst = 0.0
    # Rounding is worst when the sum of the others lies next to a border in every coordinate.
    for others in itertools.product((0, 7, 8, 9), repeat=DIMENSION) if rounding else [(0,) * 4]:
        base = np.array(others)
        without = rounded(base, rounding)
        for change in changes[:: 7 if rounding and len(changes) > 99 else 1]:
            shift = (rounded(base + cap * change, rounding) - without) / sigma
            worst = max(worst, float(np.linalg.norm(shift)))
    # A diagonal pair of corners is the worst of all; the grid above always holds one.
    corner = np.full(DIMENSION, BOUND // 2)
    factor = cap * (2 if neighbours is Neighbours.REPLACE else 1)
    for start in range(16 if rounding else 1):
        base = np.full(DIMENSION, start)
        shift = rounded(base + factor * corner, rounding) - rounded(base, rounding)
        worst = max(worst, float(np.linalg.norm(shift)) / sigma)
    assert worst**2 <= claimed**2
    assert worst**2 >= 0.9 * claimed**2


def test_spherical_laplace_loses_at_most_its_epsilon():
    scale, shift = 0.7, np.array([0.3, -1.1, 0.4])
    claimed = spherical_laplace_event(
        "sum", sensitivity=float(np.linalg.norm(shift)), scale=scale
    ).epsilon
    outputs = np.concatenate([GENERATOR.normal(size=(2000, 3)) * 3, np.outer([-9, 9], shift)])
    loss = (np.linalg.norm(outputs - shift, axis=1) - np.linalg.norm(outputs, axis=1)) / scale
    assert np.abs(loss).max() <= claimed
    assert np.abs(loss).max() >= 0.999 * claimed


@pytest.mark.parametrize("shift", [1, 3])
@pytest.mark.parametrize("sigma", [0.4, 1.0, 5.0])
def test_discrete_gaussian_divergences_are_within_its_zcdp(sigma: float, shift: int):
    claimed = discrete_gaussian_event("sum", sensitivity=float(shift), sigma=sigma).rho
    support = np.arange(-400.0, 401.0)
    exponent = -(support**2) / (2 * sigma**2)
    mass = np.exp(exponent)
    worst = 0.0
    for order in (1.01, 1.5, 2.0, 3.0, 8.0):
        # Of P against P shifted: sum P^order Q^(1 - order), in logarithms.
        shifted = -((support - shift) ** 2) / (2 * sigma**2)
        terms = order * exponent + (1 - order) * shifted
        top = terms.max()
        log_sum = top + math.log(np.exp(terms - top).sum()) - math.log(mass.sum())
        worst = max(worst, log_sum / (order - 1) / order)
    assert worst <= claimed * (1 + 1e-9)
    assert worst >= 0.98 * claimed


def log_softmax(scores: FloatArray, scale: float) -> FloatArray:
    scaled = scores / scale
    return scaled - np.logaddexp.reduce(scaled)


def test_selection_has_the_range_it_claims_after_rounding():
    shift, exponent, scale = 0.6, -3, 0.8
    sensitivity = score_sensitivity(shift, exponent=exponent)
    claimed = exponential_event("select", sensitivity=sensitivity, scale=scale).epsilon
    worst = 0.0
    step = 2.0**exponent
    for _ in range(3000):
        scores = step * (GENERATOR.integers(-8, 8, 4) + 0.5 + GENERATOR.uniform(-0.01, 0.01, 4))
        moved = scores + shift * GENERATOR.choice([-1.0, 1.0], 4)
        ends = [rounded_scores(each, exponent) * step for each in (scores, moved)]
        loss = log_softmax(ends[0], scale) - log_softmax(ends[1], scale)
        worst = max(worst, float(np.ptp(loss)))
    assert worst <= claimed
    # 0.6 is 4.8 steps: rounding makes 5 of them, of the 5.8 allowed for.
    assert worst >= 0.86 * claimed
    exact = exponential_event("select", sensitivity=shift, scale=scale).epsilon
    loss = log_softmax(np.array([0.0, 0.0]), scale) - log_softmax(np.array([shift, -shift]), scale)
    assert 0.999 * exact <= np.ptp(loss) <= exact


ODD_GAINS = (0.0, 1.0, 0.5, 1.0 / 3.0, -7.0, 1e300, math.inf, -math.inf, math.nan, 1.0 + 2.0**-52)


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_no_held_out_record_moves_candidates_further_apart_than_claimed(neighbours: Neighbours):
    candidates, scale = 3, 0.8
    rows = [np.array(row) for row in itertools.product(ODD_GAINS, repeat=candidates)]
    null = np.zeros(candidates)
    others = GENERATOR.uniform(-0.5, 1.5, (50, candidates))
    befores = [null] if neighbours is Neighbours.ZERO_OUT else rows[::7]
    claimed = held_out_event("choice", neighbours=neighbours, scale=scale).epsilon
    worst = 0.0
    for before in befores:
        start = held_out_totals(np.vstack([others, before]))
        for after in rows:
            change = held_out_totals(np.vstack([others, after])) - start
            worst = max(worst, float(np.ptp(change)) * 2.0**EXPONENT)
            if neighbours is Neighbours.ZERO_OUT:
                assert (change >= 0).all()  # all one way: half the range of a replacement
    assert worst == held_out_range(neighbours)  # attained, and never exceeded
    totals = np.array([[0, 0, 0], [worst, 0, 0 if worst == 1.0 else worst / 2]])
    loss = log_softmax(totals[1], scale) - log_softmax(totals[0], scale)
    assert 0.999 * claimed <= np.ptp(loss) <= claimed


def test_held_out_totals_are_the_same_in_any_order():
    gains = GENERATOR.uniform(-0.1, 1.1, (5000, 4))
    gains[::9] = np.nan
    whole = held_out_totals(gains)
    np.testing.assert_array_equal(held_out_totals(gains[::-1]), whole)
    parts = [held_out_totals(part) for part in np.array_split(gains, 7)]
    np.testing.assert_array_equal(sum(parts), whole)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_held_out_choice_spends_its_budget(neighbours: Neighbours, delta: float):
    budget = Budget(epsilon=0.7, delta=delta)
    event = held_out_event(
        "choice", neighbours=neighbours, scale=held_out_scale(budget, neighbours)
    )
    assert 0.999 * 0.7 <= curve_of(event).epsilon(delta) <= 0.7
