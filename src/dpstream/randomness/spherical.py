"""Exactly rounded spherical Laplace noise: density proportional to ``exp(-||v|| / scale)``.

The norm is Gamma(d, scale), a sum of ``d`` exponentials; the direction is a normal vector's.
float64 decides the nearest integer of nearly every coordinate; if one is too close to call,
the vector is enclosed again from further bits of the same uniforms.
See ``spherical.proof.md``.
"""

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from dpstream.arrays import FloatArray, IntArray, WordArray
from dpstream.errors import ConfigurationError
from dpstream.randomness import gaussian, refinement
from dpstream.randomness.exponential import RELATIVE_ERROR, exponential, standard_exponentials
from dpstream.randomness.refinement import FixedPoint
from dpstream.randomness.source import KeyStream, NoiseSource, Part

LARGEST_SCALE: Final = 2.0**40
LARGEST_DIMENSION: Final = 1 << 20

# The largest relative error of the normal vector's norm for which first order is enough.
_LARGEST_NORM_ERROR: Final = 2.0**-10


def rounded_spherical_laplace(
    source: NoiseSource, address: Iterable[Part], digest: bytes, size: int, scale: float
) -> IntArray:
    """The nearest integers to ``scale * R * G / ||G||``, R Gamma(size, 1), G normal, both ideal.

    Guaranteed: the law is that of real numbers, rounded, given uniform words. So
    ``v + noise`` is a function of the ideal mechanism's output and costs
    ``||shift||_2 / scale`` of pure epsilon, as that does.

    Args:
        source: the noise source.
        address: what the noise is for.
        digest: of the exact value it covers (``source.bind``).
        size: the dimension.
        scale: in lattice units, in [1, 2**40].

    Raises:
        ConfigurationError: if the size or the scale is out of range.
    """
    if not 0 <= size <= LARGEST_DIMENSION:
        raise ConfigurationError(f"noise size is {size}; it must lie in [0, 2**20]")
    if not 1.0 <= scale <= LARGEST_SCALE:
        raise ConfigurationError(
            f"noise scale is {scale} lattice units; it must lie in [1, 2**40]: "
            "choose the lattice so that the scale is about 2**20"
        )
    purpose = ("rounded spherical Laplace", size, float(scale).hex())
    return draw(source.stream(address, digest, purpose=purpose), size, float(scale))


def draw(stream: KeyStream, size: int, scale: float, *, slack: float = 1.0) -> IntArray:
    """The integers of a fresh stream; ``slack >= 1`` widens the bound and changes nothing."""
    if size == 0:
        return np.empty(0, np.int64)
    waits = stream.words(size)
    exponentials = standard_exponentials(waits, stream, np.arange(size))
    words, normals = gaussian.standard_normals(stream, size)
    noise, error = _product(exponentials, normals, scale)
    nearest = np.rint(noise)
    undecided = np.flatnonzero(np.abs(noise - nearest) > 0.5 - slack * error)
    integers = nearest.astype(np.int64)
    if undecided.size:
        integers[undecided] = _refined(stream, waits, words, scale, undecided)
    return integers


def _product(
    exponentials: FloatArray, normals: FloatArray, scale: float
) -> tuple[FloatArray, FloatArray]:
    """The real noise in float64, and a certified bound of each coordinate's error.

    Both sums are exactly rounded, so the bound is the inputs' errors to first order; it
    doubles them to cover the second order and the few roundings of the formula itself.
    """
    radius = scale * math.fsum(exponentials.tolist())
    norm = math.sqrt(math.fsum((normals * normals).tolist()))
    norm_error = gaussian.ERROR_BOUND * math.sqrt(normals.size) / norm if norm else math.inf
    if norm_error > _LARGEST_NORM_ERROR:
        # All normals next to zero: nothing is known of the direction.
        return np.zeros_like(normals), np.full_like(normals, math.inf)
    noise = radius * (normals / norm)
    error = 2.0 * (
        np.abs(noise) * (RELATIVE_ERROR + norm_error) + radius / norm * gaussian.ERROR_BOUND
    )
    return noise, error


class _Vector(NamedTuple):
    """Enclosures of one draw: the Gamma radius, the normals' absolute values, their norm."""

    radius: FixedPoint
    lengths: list[FixedPoint]
    norm: FixedPoint

    def nearest(self, index: int, scale: float) -> int | None:
        """The integer nearest to a coordinate's absolute value; None if there are several."""
        numerator, denominator = scale.as_integer_ratio()
        length = self.lengths[index]
        low = _nearest(
            numerator * self.radius.low * length.low,
            denominator * self.norm.high << self.radius.places,
        )
        high = _nearest(
            numerator * self.radius.high * length.high,
            denominator * self.norm.low << self.radius.places,
        )
        return low if low == high else None


def _refined(
    stream: KeyStream, waits: WordArray, words: WordArray, scale: float, undecided: IntArray
) -> IntArray:
    """The undecided coordinates' nearest integers, from as many bits as they need."""

    def attempt(more: int) -> list[int] | None:
        vector = _enclosed(stream, waits, words, more)
        if vector is None:
            return None
        nearest = [vector.nearest(index, scale) for index in undecided.tolist()]
        return None if None in nearest else [found for found in nearest if found is not None]

    # Lengths are lower normals turned around.
    lower = -np.array(refinement.decide(attempt), np.int64)
    return lower * gaussian.signs(words[undecided])


def _enclosed(stream: KeyStream, waits: WordArray, words: WordArray, more: int) -> _Vector | None:
    """The draw from ``more`` further bits of each word, or None if they are too few."""
    radii = [exponential(stream, at, word, more) for at, word in enumerate(waits.tolist())]
    lowers = [
        gaussian.lower_normal(stream, at, word, more)
        for at, word in enumerate(words.tolist(), start=waits.size)
    ]
    found = [radius for radius in radii if radius is not None]
    # A lower normal is never positive: turned around, it is a length.
    lengths = [
        FixedPoint(max(-lower.high, 0), -lower.low, lower.places)
        for lower in lowers
        if lower is not None
    ]
    square = sum(length.low**2 for length in lengths)
    if len(found) < len(radii) or len(lengths) < len(lowers) or square == 0:
        return None
    return _Vector(
        FixedPoint(
            sum(radius.low for radius in found),
            sum(radius.high for radius in found),
            found[0].places,
        ),
        lengths,
        FixedPoint(
            math.isqrt(square),
            math.isqrt(sum(length.high**2 for length in lengths)) + 1,
            lengths[0].places,
        ),
    )


def _nearest(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)
