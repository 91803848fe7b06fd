"""Thresholds of long vectors: the compiled Newton passes against sorting, and their cost."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpstream.geometry import threshold, threshold_kernel
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.scalar_root import decreasing_root, mixed_power_root
from dpstream.geometry.simplex import Simplex
from dpstream.geometry.width import (
    expected_maximum,
    expected_maximum_group_norm,
    expected_maximum_modulus,
    expected_norm,
)
from dpstream.randomness.public import public_generator

LENGTH = 200_000


def vectors() -> dict[str, np.ndarray]:
    generator = public_generator(12)
    normal = generator.standard_normal(LENGTH)
    return {
        "normal": normal,
        "sorted": np.sort(normal),
        "reversed": np.sort(normal)[::-1],
        "uniform": generator.random(LENGTH),
        "heavy": generator.standard_cauchy(LENGTH),
        "sparse": np.where(generator.random(LENGTH) < 1e-4, 10.0, 1e-3 * normal),
        "constant": np.ones(LENGTH),
        "geometric": np.concatenate([2.0 ** np.arange(60), np.zeros(LENGTH - 60)]),
        "negative": -1 - np.abs(normal),
        "outlier": np.concatenate([[1e9], 1e-3 * normal[1:]]),
    }


@pytest.mark.parametrize("name", vectors())
@pytest.mark.parametrize("total", [1e-3, 1.0, 100.0, 1e4])
def test_long_vectors_agree_with_sorting(name: str, total: float) -> None:
    values = vectors()[name]
    depths = values - values.max()
    exact = threshold._sorted_threshold(depths, total)
    fast = threshold._newton_threshold(depths, total, 0.0, modulus=False)
    assert fast == pytest.approx(exact, rel=1e-11)
    exact = threshold._sorted_threshold(-depths, total)
    fast = threshold._newton_threshold(depths, total, -depths.min(), modulus=True)
    assert fast == pytest.approx(exact, rel=1e-11, abs=1e-11)
    point = Simplex(dimension=LENGTH, total=total).project(values)
    assert point.min() >= 0
    assert point.sum() == pytest.approx(total, rel=1e-8)
    inside = L1Ball(dimension=LENGTH, radius=total).project(values)
    assert np.abs(inside).sum() == pytest.approx(min(total, np.abs(values).sum()), rel=1e-8)


@pytest.mark.parametrize("name", vectors())
def test_few_passes_over_long_vectors(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Counted, not timed: full passes over the vector, besides the few that shift and clip.
    passes = 0
    real = threshold_kernel.excess_above

    def counted(values: np.ndarray, level: float, modulus: bool) -> tuple[float, int]:
        nonlocal passes
        passes += 1
        return real(values, level, modulus)

    monkeypatch.setattr(threshold_kernel, "excess_above", counted)
    values = vectors()[name]
    for total in (1e-3, 1.0, 100.0, 1e4):
        passes = 0
        threshold.project_l1(values, total)
        assert passes <= 7


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40),
    st.floats(1e-6, 1e6),
)
@settings(max_examples=300, deadline=None)
def test_short_thresholds_solve_their_equation(entries: list[float], total: float) -> None:
    values = np.array(entries)
    point = threshold.project_simplex(values, total)
    assert point.sum() == pytest.approx(total, rel=1e-9)
    # One threshold for all: kept entries lie equally far above theirs, others below it.
    level = (values - point)[point > 0]
    slack = 1e-9 * (np.abs(values).max() + total)
    assert np.ptp(level) <= slack
    assert np.all(values[point == 0] <= level.max() + slack)


def test_short_projection_inside_is_a_copy() -> None:
    values = np.array([0.1, -0.2])
    result = threshold.project_l1(values, 1.0)
    assert np.array_equal(result, values)
    assert result is not values
    long = np.full(LENGTH, 1e-9)
    assert np.array_equal(threshold.project_l1(long, 1.0), long)


@given(st.floats(0, 1e8, allow_subnormal=False), st.floats(0.02, 1.0), st.floats(-12, 12))
@settings(max_examples=300, deadline=None)
def test_mixed_power_roots(value: float, power: float, exponent: float) -> None:
    coefficient = 10.0**exponent
    x = mixed_power_root(np.array([value]), power, coefficient)[0]
    assert 0 <= x <= value
    # Roots below the smallest numbers are zero, and their powers cannot tell.
    if x > 1e-290 or value == 0:
        assert x + coefficient * x**power == pytest.approx(value, rel=1e-9)
    else:
        assert (value / coefficient) ** (1 / power) < 1e-280


def test_decreasing_root_keeps_to_its_interval() -> None:
    assert decreasing_root(lambda x: -1.0, 0.0, 1.0) == 0.0
    assert decreasing_root(lambda x: 1.0, 0.0, 1.0) == 1.0
    assert decreasing_root(lambda x: 0.25 - x, 0.0, 1.0) == pytest.approx(0.25)


def test_widths_in_closed_form() -> None:
    assert expected_norm(1) == pytest.approx(math.sqrt(2 / math.pi))
    assert expected_norm(2) == pytest.approx(math.sqrt(math.pi / 2))
    assert expected_maximum(1) == 0.0
    assert expected_maximum(2) == pytest.approx(1 / math.sqrt(math.pi))
    assert expected_maximum(3) == pytest.approx(1.5 / math.sqrt(math.pi))
    assert expected_maximum_modulus(1) == pytest.approx(math.sqrt(2 / math.pi))
    assert expected_maximum_modulus(2) == pytest.approx(2 / math.sqrt(math.pi))
    assert expected_maximum_group_norm(np.array([2.0])) == pytest.approx(expected_norm(2))
    for count in (10, 10_000, 10**8):
        assert expected_maximum(count) <= math.sqrt(2 * math.log(count))
        assert expected_maximum_modulus(count) <= math.sqrt(2 * math.log(2 * count))
    # Published to five figures (Harter 1961): the mean of the largest of 100 normals.
    assert expected_maximum(100) == pytest.approx(2.50759, abs=1e-5)


@pytest.mark.parametrize("place", [1e-200, 1e-20, 0.3])
def test_a_step_is_found_however_many_halvings_it_takes(place: float) -> None:
    """Brent's method gave up on the first, with an error that secret points could cause."""
    root = decreasing_root(lambda x: 1.0 if x < place else -1.0, 0.0, 1.0)
    assert root == pytest.approx(place, rel=1e-13, abs=0.0)
