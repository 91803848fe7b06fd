"""Exactly rounded Gaussian noise: the nearest integers to ``scale * G``, for ideal normal G.

A word gives a sign (its lowest bit) and the first 63 bits of a uniform number ``u``; the
normal is ``Phi^-1(u / 2)`` with that sign, so that no digits cancel near the centre. float64
decides nearly every coordinate; the rest are decided from further bits of the same ``u``.
See ``gaussian.proof.md`` for the bound and the law.
"""

from collections.abc import Iterable
from functools import partial
from typing import Final

import numpy as np
from scipy.special import ndtri

from dpstream.arrays import FloatArray, IntArray, WordArray
from dpstream.errors import ConfigurationError
from dpstream.randomness import refinement
from dpstream.randomness.refinement import FixedPoint
from dpstream.randomness.source import KeyStream, NoiseSource, Part

LARGEST_SCALE: Final = 2.0**40
"""Largest standard deviation in lattice units."""

TAIL_CUT: Final = 4.5
"""Normals beyond it (7 in a million) are always refined: 63 bits are too few for them."""

ERROR_BOUND: Final = 2.0**-43
"""Certified bound of the float64 normal's distance from the ideal one, up to ``TAIL_CUT``.

28 times the sum of its parts: the quantile function's error (2^-49.3 at worst, measured), the
uniform number's further bits (2^-49.1), its rounding to float64 (2^-51.6) and that of the
product with the scale (2^-50.8).
"""

_HEAD_BITS: Final = 63
# Small enough that a chunk's arrays stay in a core's second-level cache.
_CHUNK: Final = 1 << 14


def rounded_gaussian(
    source: NoiseSource,
    address: Iterable[Part],
    digest: bytes,
    size: int,
    scale: float | FloatArray,
) -> IntArray:
    """The nearest integers to ``scale * G_i`` for ideal independent standard normals ``G_i``.

    Guaranteed: the law is that of real normals, rounded, given uniform words. Adding such a
    draw to an integer ``v`` gives ``round(v + scale * G)``, a function of the continuous
    Gaussian mechanism's output, so that mechanism's analysis applies without a correction.

    Args:
        source: the noise source.
        address: what the noise is for.
        digest: of the exact value it covers (``source.bind``).
        size: how many integers.
        scale: standard deviation in lattice units, one or one per integer, in [1, 2**40].

    Raises:
        ConfigurationError: if the size is negative or a scale is out of range.
    """
    scales = checked_scale(scale, size)
    # Two scales must never share noise: their difference would reveal it.
    purpose = ("rounded gaussian", source.bind(scales).hex())
    return draw(source.stream(address, digest, purpose=purpose), size, scales)


def checked_scale(scale: float | FloatArray, size: int) -> FloatArray:
    """A validated scale: an array without dimensions, or with one entry per integer.

    Raises:
        ConfigurationError: if the size is negative or a scale is out of range.
    """
    if size < 0:
        raise ConfigurationError(f"noise size is {size}; it must not be negative")
    scales = np.asarray(scale, np.float64)
    if scales.ndim and scales.shape != (size,):
        raise ConfigurationError(
            f"noise scale has shape {scales.shape}; it must be one number or have shape ({size},)"
        )
    wrong = ~((scales >= 1.0) & (scales <= LARGEST_SCALE))
    if np.any(wrong):
        raise ConfigurationError(
            f"noise scale is {scales[wrong].flat[0]} lattice units; it must lie in [1, 2**40]: "
            "choose the lattice so that the scale is about 2**20"
        )
    return scales


def draw(
    stream: KeyStream,
    size: int,
    scales: FloatArray,
    *,
    error_bound: float = ERROR_BOUND,
    tail_cut: float = TAIL_CUT,
) -> IntArray:
    """The integers of a fresh stream; any honest bounds give the same ones."""
    result = np.empty(size, np.int64)
    for start in range(0, size, _CHUNK):
        stop = min(start + _CHUNK, size)
        scale = scales[start:stop] if scales.ndim else scales
        words = stream.words(stop - start)
        lower = _lower_normals(words)
        uncertain = lower < -tail_cut
        lower *= scale
        nearest = np.rint(lower)
        lower -= nearest
        np.abs(lower, out=lower)
        uncertain |= lower > 0.5 - error_bound * scale
        integers = nearest.astype(np.int64)
        each = np.broadcast_to(scale, words.shape)
        for index in np.flatnonzero(uncertain).tolist():
            integers[index] = _refined(stream, start + index, int(words[index]), float(each[index]))
        np.multiply(integers, signs(words), out=result[start:stop])
    return result


def _refined(stream: KeyStream, position: int, word: int, scale: float) -> int:
    """The integer nearest to ``scale`` times one lower normal, from as many bits as it needs."""

    def attempt(more: int) -> int | None:
        lower = lower_normal(stream, position, word, more)
        return None if lower is None else lower.nearest_multiple(scale)

    return refinement.decide(attempt)


def standard_normals(stream: KeyStream, size: int) -> tuple[WordArray, FloatArray]:
    """The next words, and their normals within ``ERROR_BOUND``, tails included."""
    first = stream.position
    words = stream.words(size)
    lower = _lower_normals(words)
    for index in np.flatnonzero(lower < -TAIL_CUT).tolist():
        attempt = partial(lower_normal, stream, first + index, int(words[index]))
        lower[index] = refinement.decide(attempt).middle()
    return words, lower * signs(words)


def lower_normal(stream: KeyStream, position: int, word: int, more: int) -> FixedPoint | None:
    """Encloses the ideal normal of a word, without its sign: never positive.

    Args:
        stream: the stream the word came from.
        position: the word's position in it.
        word: the word.
        more: how many further bits to use.

    Returns:
        The enclosure, or None if the bits are too few for a normal so far out.
    """
    head = refinement.prefix(stream, position, word >> 1, more)
    # Half of a uniform number: one binary place further down.
    return refinement.normal_quantile(head, _HEAD_BITS + more + 1)


def signs(words: WordArray) -> IntArray:
    """The signs of the words' normals."""
    return 1 - 2 * (words & np.uint64(1)).view(np.int64)


def _lower_normals(words: WordArray) -> FloatArray:
    """``Phi^-1(u / 2)``, never positive, for the uniforms in the words' upper 63 bits."""
    # A view as signed integers: their conversion to float64 is a vector instruction.
    lower = (words >> np.uint64(1)).view(np.int64).astype(np.float64)
    # The middle of the interval of the uniforms that begin with these bits.
    lower += 0.5
    lower *= 2.0**-64
    return ndtri(lower, out=lower)
