"""The exact discrete Gaussian on the integers: mass proportional to ``exp(-y^2 / (2 s^2))``.

The rejection sampler of Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential
Privacy" (2020), Algorithm 3: a discrete Laplace proposal of scale ``t = floor(s) + 1``,
accepted with probability ``exp(-(|y| - s^2/t)^2 / (2 s^2))``. Their coins of probability
``exp(-g)`` are tossed by comparing an exponential with ``g``, decided from as many bits as it
takes, instead of by their loops over small fractions: the same coins, vectorised, without
128-bit arithmetic. See ``discrete_gaussian.proof.md``.
"""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Final

import numpy as np

from dpstream.arrays import BoolArray, FloatArray, IntArray
from dpstream.errors import ConfigurationError
from dpstream.randomness import refinement
from dpstream.randomness.exponential import RELATIVE_ERROR, exponential, standard_exponentials
from dpstream.randomness.source import KeyStream, NoiseSource, Part

SMALLEST_VARIANCE: Final = Fraction(1, 1 << 20)
LARGEST_VARIANCE: Final = 1 << 80

_CHUNK: Final = 1 << 14
_WORDS_PER_PROPOSAL: Final = 2


def discrete_gaussian(
    source: NoiseSource,
    address: Iterable[Part],
    digest: bytes,
    size: int,
    variance: Fraction | int,
) -> IntArray:
    """Independent discrete Gaussians of parameter ``s^2 = variance``.

    Guaranteed: the mass function is exact, given uniform words. The law's variance is at most
    ``s^2``, and for ``s >= 1`` below it by less than one part in 10**14.

    Args:
        source: the noise source.
        address: what the noise is for.
        digest: of the exact value it covers (``source.bind``).
        size: how many integers.
        variance: ``s^2`` in squared lattice units: a rational in [2**-20, 2**80].

    Raises:
        ConfigurationError: if the size is negative or the variance out of range.
    """
    if size < 0:
        raise ConfigurationError(f"noise size is {size}; it must not be negative")
    if not SMALLEST_VARIANCE <= variance <= LARGEST_VARIANCE:
        raise ConfigurationError(
            f"noise variance is {variance} squared lattice units; it must lie in [2**-20, 2**80]"
        )
    exact = Fraction(variance)
    purpose = ("discrete gaussian", exact.numerator, exact.denominator)
    return draw(source.stream(address, digest, purpose=purpose), size, exact)


def draw(
    stream: KeyStream, size: int, variance: Fraction, *, relative_error: float = RELATIVE_ERROR
) -> IntArray:
    """The integers of a fresh stream; any honest bound gives the same ones."""
    result = np.empty(size, np.int64)
    filled = 0
    while filled < size:
        # Three quarters of the proposals are accepted; what a chunk lacks, the next one brings.
        proposals = min(_CHUNK, (size - filled) * 4 // 3 + 8)
        accepted = _accepted(stream, proposals, variance, relative_error)[: size - filled]
        result[filled : filled + accepted.size] = accepted
        filled += accepted.size
    return result


def _accepted(
    stream: KeyStream, proposals: int, variance: Fraction, relative_error: float
) -> IntArray:
    """The accepted ones among the next proposals, in order."""
    scale = math.isqrt(variance.numerator // variance.denominator) + 1
    first = stream.position
    words = stream.words(_WORDS_PER_PROPOSAL * proposals).reshape(proposals, -1)
    positions = first + np.arange(words.size).reshape(words.shape)
    magnitude = standard_exponentials(words[:, 0].copy(), stream, positions[:, 0])
    patience = standard_exponentials(words[:, 1].copy(), stream, positions[:, 1])

    # The floor of scale * E is geometric: the discrete Laplace's magnitude.
    magnitude *= scale
    uncertain: BoolArray = np.abs(magnitude - np.rint(magnitude)) <= 2 * relative_error * magnitude
    integers = np.floor(magnitude).astype(np.int64)
    for index in np.flatnonzero(uncertain).tolist():
        integers[index] = _magnitude(stream, int(positions[index, 0]), int(words[index, 0]), scale)

    hurdle = _hurdle(integers, scale, variance)
    accept = patience > hurdle
    uncertain = np.abs(patience - hurdle) <= 4 * relative_error * (1 + hurdle)
    for index in np.flatnonzero(uncertain).tolist():
        accept[index] = _accepts(
            stream,
            int(positions[index, 1]),
            int(words[index, 1]),
            _exact_hurdle(int(integers[index]), scale, variance),
        )

    negative = (words[:, 0] & np.uint64(2)).astype(np.bool_)
    # Zero would otherwise be proposed under both signs.
    accept &= ~(negative & (integers == 0))
    return np.where(negative, -integers, integers)[accept]


def _hurdle(magnitude: IntArray, scale: int, variance: Fraction) -> FloatArray:
    """``(y - s^2/t)^2 / (2 s^2)`` in float64, within ``2^-49 (1 + itself)``."""
    excess = magnitude - float(variance / scale)
    return excess * excess * float(1 / (2 * variance))


def _exact_hurdle(magnitude: int, scale: int, variance: Fraction) -> Fraction:
    return (magnitude - variance / scale) ** 2 / (2 * variance)


def _magnitude(stream: KeyStream, position: int, word: int, scale: int) -> int:
    def attempt(more: int) -> int | None:
        enclosure = exponential(stream, position, word, more)
        return None if enclosure is None else enclosure.floor_multiple(scale)

    return refinement.decide(attempt)


def _accepts(stream: KeyStream, position: int, word: int, hurdle: Fraction) -> bool:
    def attempt(more: int) -> bool | None:
        enclosure = exponential(stream, position, word, more)
        return None if enclosure is None else enclosure.exceeds(hurdle)

    return refinement.decide(attempt)
