"""Standard exponentials ``E = -ln u``: float64 with a certified bound, and refinable.

A word's lowest bit chooses the half of (0, 1) that ``u`` lies in, its second bit is left to
the caller, its upper 62 bits begin the distance ``v < 1/2`` of ``u`` from the end of that
half: ``E = -ln v`` or ``E = -ln(1 - v)``. So a small ``E`` is as accurate, relatively, as a
large one.
"""

from functools import partial
from typing import Final

import numpy as np

from dpstream.arrays import FloatArray, IntArray, WordArray
from dpstream.randomness import refinement
from dpstream.randomness.refinement import FixedPoint
from dpstream.randomness.source import KeyStream

RELATIVE_ERROR: Final = 2.0**-45
"""Certified bound of the relative error of a float64 exponential.

28 times the worst found by measurement (2^-49.8) for ``v >= NEAR_END``, of which the uniform
number's further bits make 2^-50, its rounding 2^-52 and the logarithm the rest. Below
``NEAR_END`` (one in 8,000) exponentials are refined.
"""

NEAR_END: Final = 2.0**-14
_HEAD_BITS: Final = 62


def standard_exponentials(words: WordArray, stream: KeyStream, positions: IntArray) -> FloatArray:
    """The exponentials of some words, each within ``RELATIVE_ERROR``.

    Args:
        words: words of the stream's main lane.
        stream: the stream they came from.
        positions: their positions in it.
    """
    distance = (words >> np.uint64(2)).view(np.int64).astype(np.float64)
    distance += 0.5
    distance *= 2.0**-63
    upper = (words & np.uint64(1)).astype(np.bool_)
    exponentials = -np.where(upper, np.log1p(-distance), np.log(distance))
    for index in np.flatnonzero(distance < NEAR_END).tolist():
        attempt = partial(exponential, stream, int(positions[index]), int(words[index]))
        exponentials[index] = refinement.decide(attempt).middle()
    return exponentials


def exponential(stream: KeyStream, position: int, word: int, more: int) -> FixedPoint | None:
    """Encloses the ideal exponential of a word.

    Args:
        stream: the stream the word came from.
        position: the word's position in it.
        word: the word.
        more: how many further bits to use.

    Returns:
        The enclosure, or None if the bits are too few for a uniform so near its end.
    """
    head = refinement.prefix(stream, position, word >> 2, more)
    if head.bit_length() < refinement.LEAST_DIGITS:
        return None
    # Half of a uniform number: one binary place further down.
    bits = _HEAD_BITS + more + 1
    return refinement.negative_logarithm((1 << bits) - 1 - head if word & 1 else head, bits)
