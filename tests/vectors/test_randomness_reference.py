"""The samplers against a reference that shares nothing with them but the specification.

Keys by hashlib, words by ChaCha20 block for block, and every real number from 255 bits of its
uniform by mpmath at 400 bits: slow, plain, and with another chance of a wrong rounding below
2^-150 for each draw.
"""

import hashlib
import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from dpstream.randomness.discrete_gaussian import discrete_gaussian
from dpstream.randomness.gaussian import rounded_gaussian
from dpstream.randomness.gumbel import gumbel_argmax
from dpstream.randomness.source import NoiseSource
from dpstream.randomness.spherical import rounded_spherical_laplace

KEY = hashlib.sha256(b"reference").digest()
SOURCE = NoiseSource.from_key(KEY)
VALUE = np.arange(5)
DIGEST = SOURCE.bind(VALUE, exponent=-20)


def encoded(*parts: int | str) -> bytes:
    out = len(parts).to_bytes(8, "big")
    for part in parts:
        if isinstance(part, str):
            body = part.encode()
            out += b"s"
        else:
            body = part.to_bytes(part.bit_length() // 8 + 1, "big", signed=True)
            out += b"i"
        out += len(body).to_bytes(8, "big") + body
    return out


def keyed(person: bytes, data: bytes) -> bytes:
    return hashlib.blake2b(data, key=KEY, digest_size=32, person=person).digest()


class Reference:
    """The words of one stream, and the uniform number of 64 + 192 bits at each position."""

    def __init__(self, address: tuple[int | str, ...], purpose: tuple[int | str, ...]) -> None:
        length = len(DIGEST).to_bytes(8, "big")
        data = encoded(*address) + length + DIGEST + encoded(*purpose)
        self._key = keyed(b"dpstream.stream", data)

    def _bytes(self, lane: int, count: int) -> bytes:
        nonce = bytes(8) + lane.to_bytes(8, "little")
        return Cipher(ChaCha20(self._key, nonce), None).encryptor().update(bytes(count))

    def words(self, count: int) -> list[int]:
        raw = self._bytes(0, 8 * count)
        return [int.from_bytes(raw[8 * i : 8 * i + 8], "little") for i in range(count)]

    def real(self, position: int, head: int, head_bits: int) -> mpmath.mpf:
        """The middle of the uniforms that begin so, times one half."""
        further = int.from_bytes(self._bytes(1 + position, 24), "big")
        integer = (head << 192 | further) * 2 + 1
        return mpmath.mpf(integer) / mpmath.mpf(2) ** (head_bits + 192 + 2)


def normal(reference: Reference, position: int, word: int) -> mpmath.mpf:
    lower = reference.real(position, word >> 1, 63)
    size = mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * lower)
    return size if word & 1 else -size


def exponential(reference: Reference, position: int, word: int) -> mpmath.mpf:
    distance = reference.real(position, word >> 2, 62)
    return -mpmath.log(1 - distance) if word & 1 else -mpmath.log(distance)


def nearest(number: mpmath.mpf) -> int:
    return int(mpmath.floor(number + mpmath.mpf(1) / 2))


@pytest.fixture(autouse=True)
def precision():
    with mpmath.workprec(400):
        yield


def test_a_digest_is_blake2b_of_the_canonical_bytes():
    for exponent in (-20, 0):
        header = encoded("<i8", exponent, 1, 5)
        expected = keyed(b"dpstream.bind", header + VALUE.astype("<i8").tobytes())
        assert SOURCE.bind(VALUE, exponent=exponent) == expected
    assert SOURCE.bind(VALUE) == expected


def test_a_childs_key_is_blake2b_of_its_label():
    assert SOURCE.child("sums").key_bytes() == keyed(b"dpstream.child", encoded("sums"))


def test_further_bits_are_those_of_the_lane_after_the_position():
    stream = SOURCE.stream((7,), DIGEST, purpose=("law",))
    reference = Reference((7,), ("law",))
    assert stream.words(3).tolist() == reference.words(3)
    for position in (0, 5, 1 << 20):
        expected = int.from_bytes(reference._bytes(1 + position, 24), "big")
        assert stream.extension(position, 192) == expected


@pytest.mark.parametrize("scale", [1.0, 17.25, 2.0**20, 2.0**30, 2.0**40])
def test_rounded_gaussian(scale: float):
    size = 1000
    bound = keyed(b"dpstream.bind", encoded("<f8", 0, 0) + np.float64(scale).tobytes()).hex()
    reference = Reference((3, "node"), ("rounded gaussian", bound))
    expected = [
        nearest(mpmath.mpf(scale) * normal(reference, i, word))
        for i, word in enumerate(reference.words(size))
    ]
    drawn = rounded_gaussian(SOURCE, (3, "node"), DIGEST, size, scale)
    assert drawn.tolist() == expected


@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(81, 2), Fraction(2**60 + 1)])
def test_discrete_gaussian(variance: Fraction):
    size = 700
    purpose = ("discrete gaussian", variance.numerator, variance.denominator)
    reference = Reference((4,), purpose)
    scale = (
        int(mpmath.floor(mpmath.sqrt(mpmath.mpf(variance.numerator) / variance.denominator))) + 1
    )
    words = reference.words(9 * size)
    expected: list[int] = []
    for proposal in itertools.count():
        first, second = 2 * proposal, 2 * proposal + 1
        magnitude = int(mpmath.floor(scale * exponential(reference, first, words[first])))
        hurdle = (magnitude - variance / scale) ** 2 / (2 * variance)
        patience = exponential(reference, second, words[second])
        negative = bool(words[first] & 2)
        accepted = patience > mpmath.mpf(hurdle.numerator) / hurdle.denominator
        if accepted and not (negative and magnitude == 0):
            expected.append(-magnitude if negative else magnitude)
        if len(expected) == size:
            break
    assert discrete_gaussian(SOURCE, (4,), DIGEST, size, variance).tolist() == expected


@pytest.mark.parametrize(("size", "scale"), [(1, 2.0**20), (7, 1.5), (60, 2.0**20), (30, 2.0**40)])
def test_rounded_spherical_laplace(size: int, scale: float):
    for trial in range(240 // size):
        purpose = ("rounded spherical Laplace", size, scale.hex())
        reference = Reference((5, trial), purpose)
        words = reference.words(2 * size)
        radius = mpmath.fsum(exponential(reference, i, words[i]) for i in range(size))
        normals = [normal(reference, size + i, words[size + i]) for i in range(size)]
        norm = mpmath.sqrt(mpmath.fsum(number**2 for number in normals))
        expected = [nearest(mpmath.mpf(scale) * radius * number / norm) for number in normals]
        drawn = rounded_spherical_laplace(SOURCE, (5, trial), DIGEST, size, scale)
        assert drawn.tolist() == expected


@pytest.mark.parametrize("scale", [1.0, 2.0**20])
def test_gumbel_argmax(scale: float):
    scores = np.array([0, 3, 1 << 20, (1 << 20) + 2, 5])
    for trial in range(100):
        reference = Reference((6, trial), ("gumbel argmax", scale.hex()))
        perturbed = [
            int(scores[i]) / mpmath.mpf(scale) - mpmath.log(exponential(reference, i, word))
            for i, word in enumerate(reference.words(scores.size))
        ]
        expected = max(range(scores.size), key=lambda i: perturbed[i])
        assert gumbel_argmax(SOURCE, (6, trial), DIGEST, scores, scale) == expected
