"""Noise belongs to an address and to the value it covers, for every mechanism that adds it.

Correlations are judged at 5.4 standard errors: false alarm below 1e-7 for each of them.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest

from dpstream.arrays import IntArray
from dpstream.mechanisms.discrete_gaussian import measure_discrete_gaussian
from dpstream.mechanisms.gaussian import measure_gaussian
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.spherical_laplace import measure_spherical_laplace
from dpstream.release import Measurement

NOISE = Noise.insecure(41)
SCALE = 2.0**20
SIZE = 20_000

Measure = Callable[[IntArray, tuple[int, ...], Noise, float, int], Measurement]


def gaussian(value: IntArray, address: tuple[int, ...], noise: Noise, scale: float, exponent: int):
    return measure_gaussian(value, exponent, sigma=scale, address=address, noise=noise)


def discrete(value: IntArray, address: tuple[int, ...], noise: Noise, scale: float, exponent: int):
    return measure_discrete_gaussian(value, exponent, sigma=scale, address=address, noise=noise)


def spherical(value: IntArray, address: tuple[int, ...], noise: Noise, scale: float, exponent: int):
    # A coordinate's deviation is about scale * sqrt(size): a step of the same relative size.
    steps = scale / 2.0**7
    return measure_spherical_laplace(value, exponent, scale=steps, address=address, noise=noise)


MECHANISMS: list[Measure] = [gaussian, discrete, spherical]


def noise_of(
    measure: Measure,
    value: IntArray,
    address: tuple[int, ...] = (1, 2),
    noise: Noise = NOISE,
    scale: float = SCALE,
    exponent: int = 0,
) -> IntArray:
    return measure(value, address, noise, scale, exponent).value - value


def independent(first: IntArray, second: IntArray) -> bool:
    correlation = np.corrcoef(first, second)[0, 1]
    return bool(abs(correlation) < 5.4 / math.sqrt(first.size))


@pytest.mark.parametrize("measure", MECHANISMS)
def test_the_same_value_at_the_same_address_has_the_same_noise(measure: Measure):
    value = np.arange(SIZE)
    first = measure(value, (1, 2), NOISE, SCALE, 0)
    again = measure(value.copy(), (1, 2), Noise.from_key(NOISE.key_bytes()), SCALE, 0)
    assert np.array_equal(first.value, again.value)


@pytest.mark.parametrize("measure", MECHANISMS)
def test_whatever_differs_makes_the_noise_independent(measure: Measure):
    value = np.arange(SIZE)
    reference = noise_of(measure, value)
    smallest_change = value.copy()
    smallest_change[-1] += 1
    others = {
        "value": noise_of(measure, smallest_change),
        "address": noise_of(measure, value, address=(1, 3)),
        "longer address": noise_of(measure, value, address=(1, 2, 0)),
        "child": noise_of(measure, value, noise=NOISE.child("a")),
        "key": noise_of(measure, value, noise=Noise.insecure(42)),
        "scale": noise_of(measure, value, scale=SCALE * (1 + 2.0**-52)),
        "lattice": noise_of(measure, value, exponent=1, scale=2 * SCALE),
    }
    for name, noise in others.items():
        assert independent(reference, noise), name
    # The test can fail: shared noise is seen, however small a part of the whole.
    assert not independent(reference, reference + 3 * others["value"])


def test_mechanisms_share_no_noise():
    value = np.arange(SIZE)
    drawn = [noise_of(measure, value) for measure in MECHANISMS]
    for index, first in enumerate(drawn):
        for second in drawn[index + 1 :]:
            assert independent(first, second)


@pytest.mark.parametrize("measure", MECHANISMS)
def test_sums_and_differences_over_neighbouring_values_reveal_nothing_exactly(measure: Measure):
    # Were noise bound to the address alone, the difference of two measurements would be the
    # difference of the values.
    value = np.zeros(50, np.int64)
    changed = value.copy()
    changed[7] = 1
    difference = (
        measure(changed, (9,), NOISE, SCALE, 0).value - measure(value, (9,), NOISE, SCALE, 0).value
    )
    assert not np.array_equal(difference, changed)
    # 50 differences of deviation 2^20.5 all within 2^10 have chance below 1e-100.
    assert np.abs(difference).max() > 1 << 10
