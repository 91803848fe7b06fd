"""The compiled loops against Python's unlimited integers, compiled and interpreted."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpstream.errors import ConfigurationError
from dpstream.mechanisms.continual import buffer_kernel
from dpstream.mechanisms.continual.recurrence import (
    HIGH_LIMIT,
    LOW_BITS,
    NODE_GUARD_BITS,
    BufferBank,
)
from dpstream.mechanisms.continual.response import BufferedFilter
from dpstream.mechanisms.public import public_generator


def forms(name: str) -> list[Callable[..., Any]]:
    """The loop as it is compiled, and as it is written."""
    loop = getattr(buffer_kernel, name)
    return [loop, getattr(loop, "py_func", loop)]


def values(count: int, bits: int, seed: int) -> list[int]:
    """Integers of up to so many bits and either sign, the extremes among them."""
    generator = public_generator(seed)
    found = [0, 1, -1, (1 << bits) - 1, -(1 << bits) + 1, 1 << max(bits - 1, 0)]
    while len(found) < count:
        size = int(generator.integers(1, bits + 1))
        parts = [int(part) for part in generator.integers(0, 1 << 31, size=4)]
        whole = sum(part << (31 * place) for place, part in enumerate(parts))
        found.append((whole % (1 << size)) * int(generator.choice([-1, 1])))
    return found


def split(numbers: list[int], bits: int) -> tuple[np.ndarray, np.ndarray]:
    return (
        np.array([number >> bits for number in numbers], np.int64),
        np.array([number & ((1 << bits) - 1) for number in numbers], np.int64),
    )


def joined(high: np.ndarray, low: np.ndarray) -> list[int]:
    assert ((low >= 0) & (low < 1 << LOW_BITS)).all()
    return [(int(up) << LOW_BITS) + int(down) for up, down in zip(high, low, strict=True)]


@pytest.mark.parametrize("bits", [0, 1, 15, 16, 17, 31, 47, 48, 49, 60])
def test_lifting_multiplies_by_a_power_of_two(bits: int) -> None:
    numbers = values(40, 93 - bits, seed=bits)
    high, low = split(numbers, 32)
    for lift in forms("lift"):
        out = np.empty((2, len(numbers)), np.int64)
        assert lift(high, low, bits, np.array([1, 0, 0], np.int64), out, 1 << 62)
        assert joined(*out) == [number << bits for number in numbers]


@pytest.mark.parametrize("shift", [1, 2, 47, 48])
@pytest.mark.parametrize("bits", [0, 3])
def test_lifting_coarsens_to_the_nearest(shift: int, bits: int) -> None:
    numbers = values(40, 80, seed=shift)
    high, low = split(numbers, 32)
    half = 1 << (shift - 1)
    for lift in forms("lift"):
        out = np.empty((2, len(numbers)), np.int64)
        assert lift(high, low, bits, np.array([1, shift, half], np.int64), out, 1 << 62)
        assert joined(*out) == [((number << bits) + half) >> shift for number in numbers]


def test_lifting_refuses_what_reaches_the_limit() -> None:
    plain, out = np.array([1, 0, 0], np.int64), np.empty((2, 1), np.int64)
    for lift in forms("lift"):
        for high, fits in ((9, True), (10, False), (-9, True), (-10, False)):
            limbs = np.array([high], np.int64), np.array([5], np.int64)
            assert lift(*limbs, 0, plain, out, 10) is fits


def columns(scalings: list[tuple[int, int, int]]) -> np.ndarray:
    return np.array(scalings, np.int64).T.copy()


SCALINGS = [(1, 0, 0), (16383, 14, 1 << 13), (8192, 40, 0), (16000, 60, 1 << 59), (9000, 48, 5)]


def test_mixing_adds_truncated_terms() -> None:
    count, guard, bias = 60, NODE_GUARD_BITS, 11
    weigh = SCALINGS[1:]
    lifted = values(count, 90, seed=3)
    held = [values(count, 92, seed=10 + i) for i in range(len(weigh))]
    buffers = np.array([split(numbers, LOW_BITS) for numbers in held]).transpose(1, 0, 2).copy()
    truncate = (12345, 33, 0)

    def exact(j: int) -> int:
        terms = [(lifted[j] * truncate[0] + truncate[2]) >> truncate[1]]
        terms += [
            (numbers[j] * factor + half) >> shift
            for numbers, (factor, shift, half) in zip(held, weigh, strict=True)
        ]
        return (sum(terms) + bias) >> guard

    expected = [exact(j) for j in range(count)]
    inside = [j for j in range(count) if abs(expected[j]) < 1 << 61]
    assert 20 < len(inside) < count
    for mix in forms("mix"):
        for j in range(count):
            node = np.empty(1, np.int64)
            fits = mix(
                np.array(split([lifted[j]], LOW_BITS)),
                buffers[:, :, j : j + 1].copy(),
                np.array(truncate, np.int64),
                columns(weigh),
                bias,
                guard,
                1 << (61 + guard - LOW_BITS),
                node,
            )
            if j in inside:
                assert fits
                assert int(node[0]) == expected[j]
            elif abs(expected[j]) > 1 << 62:
                assert not fits


def test_mixing_refuses_from_the_limit_on() -> None:
    alone = np.zeros((2, 0, 1), np.int64)
    plain, none = np.array([1, 0, 0], np.int64), np.zeros((3, 0), np.int64)
    node = np.empty(1, np.int64)
    for mix in forms("mix"):
        for high, fits in ((9, True), (10, False), (-9, True), (-10, False)):
            limbs = np.array([[high], [0]], np.int64)
            assert mix(limbs, alone, plain, none, 0, 4, 10, node) is fits


def test_forgetting_takes_the_share_and_adds_the_increment() -> None:
    rates = SCALINGS[1:]
    count = 50
    held = [values(count, 90, seed=30 + i) for i in range(len(rates))]
    added = values(count, 90, seed=40)
    expected = [
        [
            number - ((number * factor + half) >> shift) + more
            for number, more in zip(numbers, added, strict=True)
        ]
        for numbers, (factor, shift, half) in zip(held, rates, strict=True)
    ]
    for forget in forms("forget"):
        buffers = np.array([split(numbers, LOW_BITS) for numbers in held])
        buffers = buffers.transpose(1, 0, 2).copy()
        limbs = np.array(split(added, LOW_BITS))
        assert forget(limbs, buffers, columns(rates), HIGH_LIMIT)
        assert [joined(*buffers[:, i]) for i in range(len(rates))] == expected


def test_forgetting_says_when_a_buffer_reaches_the_limit() -> None:
    keep = columns([(0, 0, 0)])
    for forget in forms("forget"):
        for high, fits in ((9, True), (10, False), (-9, True), (-10, False)):
            buffers = np.zeros((2, 1, 2), np.int64)
            limbs = np.array([[0, high], [0, 0]], np.int64)
            assert forget(limbs, buffers, keep, 10) is fits
            assert buffers[0, 0].tolist() == [0, high]


def test_lattices_too_far_apart_are_refused() -> None:
    response = BufferedFilter((0.5,), (0.25,))
    for increment_exponent, fits in ((-47, True), (-60, False)):
        if fits:
            BufferBank(response, 1, increment_exponent=increment_exponent, node_exponent=0)
            continue
        with pytest.raises(ConfigurationError, match="would be lost"):
            BufferBank(response, 1, increment_exponent=increment_exponent, node_exponent=0)


@pytest.mark.parametrize("shift", [0, 1, 30, 47, 48, 49, 62])
def test_scaling_limb_by_limb_is_scaling_the_whole(shift: int) -> None:
    for factor, half in ((1, 0), (16383, 1 << max(shift - 1, 0))):
        for number in values(60, 94, seed=shift):
            high, low = number >> LOW_BITS, number & ((1 << LOW_BITS) - 1)
            for scaled in forms("_scaled"):
                upper, lower = scaled(high, low, factor, shift, half)
                assert (int(upper) << LOW_BITS) + int(lower) == (number * factor + half) >> shift
