"""The index of the largest score plus Gumbel noise: exactly a draw from the softmax.

float64 leaves one candidate nearly always; several within the certified error of each other
are compared by enclosures from further bits of the same uniforms. See ``gumbel.proof.md``.
"""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Final

import numpy as np

from dpstream.arrays import IntArray, WordArray
from dpstream.errors import ConfigurationError
from dpstream.randomness import refinement
from dpstream.randomness.exponential import exponential, standard_exponentials
from dpstream.randomness.source import KeyStream, NoiseSource, Part

SMALLEST_SCALE: Final = 2.0**-20
LARGEST_SCALE: Final = 2.0**60
LARGEST_SCORE: Final = 1 << 61

ERROR_BOUND: Final = 2.0**-44
"""Certified bound of a float64 Gumbel's error: the exponential's relative error and the
logarithm's rounding, doubled. Perturbed scores add ``ROUNDING`` of their size."""

ROUNDING: Final = 2.0**-50


def gumbel_argmax(
    source: NoiseSource, address: Iterable[Part], digest: bytes, scores: IntArray, scale: float
) -> int:
    """The index that maximises ``scores_i + scale * Gumbel_i``, for ideal Gumbel noise.

    Guaranteed: index ``i`` has probability exactly ``exp(scores_i / scale)`` over the sum of
    these, given uniform words.

    Args:
        source: the noise source.
        address: what the noise is for.
        digest: of the exact scores (``source.bind``).
        scores: integers on some lattice, at most 2**61 in absolute value.
        scale: the Gumbel's scale in lattice units, in [2**-20, 2**60].

    Raises:
        ConfigurationError: if there are no scores, one is too large or the scale is out of
            range.
    """
    if scores.ndim != 1 or scores.size == 0:
        raise ConfigurationError(
            f"scores have shape {scores.shape}; there must be a row of at least one"
        )
    if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
        raise ConfigurationError(
            f"Gumbel scale is {scale} lattice units; it must lie in [2**-20, 2**60]"
        )
    if scores.min() < -LARGEST_SCORE or scores.max() > LARGEST_SCORE:
        raise ConfigurationError(
            "a score exceeds 2**61 lattice units; choose a coarser lattice or tighter bounds"
        )
    purpose = ("gumbel argmax", float(scale).hex())
    return draw(source.stream(address, digest, purpose=purpose), scores, float(scale))


def draw(stream: KeyStream, scores: IntArray, scale: float, *, slack: float = 1.0) -> int:
    """The index of a fresh stream; ``slack >= 1`` widens the bound and changes nothing."""
    words = stream.words(scores.size)
    waits = standard_exponentials(words, stream, np.arange(scores.size))
    # Differences of integers are exact, and only they matter.
    deficits = (scores - scores.max()) / scale
    gumbels = -np.log(waits)
    perturbed = deficits + gumbels
    error = slack * (ERROR_BOUND + ROUNDING * (np.abs(deficits) + np.abs(gumbels)))
    candidates = np.flatnonzero(perturbed + error >= np.max(perturbed - error))
    if candidates.size == 1:
        return int(candidates[0])
    return _refined(stream, words, scores, Fraction(scale), candidates.tolist())


def _refined(
    stream: KeyStream, words: WordArray, scores: IntArray, scale: Fraction, candidates: list[int]
) -> int:
    """The best of the candidates, from as many bits as the comparison needs."""

    def attempt(more: int) -> int | None:
        lows: dict[int, int] = {}
        highs: dict[int, int] = {}
        for index in candidates:
            wait = exponential(stream, index, int(words[index]), more)
            if wait is None:
                return None
            noise = refinement.gumbel(wait)
            score = math.floor(int(scores[index]) / scale * (1 << noise.places))
            lows[index] = score + noise.low
            highs[index] = score + 1 + noise.high
        best = max(candidates, key=lambda index: lows[index])
        rivals = (highs[index] for index in candidates if index != best)
        return best if all(lows[best] > rival for rival in rivals) else None

    return refinement.decide(attempt)
