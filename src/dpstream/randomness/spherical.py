"""Exactly rounded spherical Laplace noise: density proportional to ``exp(-||v|| / scale)``.

The norm is Gamma(d, scale), a sum of ``d`` exponentials; the direction is a normal vector's.
float64 decides the nearest integer of nearly every coordinate; if one is too close to call,
the vector is enclosed again from further bits of the same uniforms.
See ``spherical.proof.md``.
"""

import math
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from dpstream.arrays import FloatArray, IntArray, WordArray
from dpstream.errors import ConfigurationError
from dpstream.randomness import gaussian, refinement
from dpstream.randomness.exponential import RELATIVE_ERROR, exponential, standard_exponentials
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


def _refined(
    stream: KeyStream, waits: WordArray, words: WordArray, scale: float, undecided: IntArray
) -> list[int]:
    """The undecided coordinates' nearest integers, from as many bits as they need."""

    def attempt(more: int) -> list[int] | None:
        radius: Any = 0
        for position, word in enumerate(waits.tolist()):
            wait = exponential(stream, position, word, more)
            if wait is None:
                return None
            radius += wait
        normals: list[Any] = []
        for position, word in enumerate(words.tolist(), start=waits.size):
            lower = gaussian.lower_normal(stream, position, word, more)
            if lower is None:
                return None
            normals.append(-lower if word & 1 else lower)
        norm = refinement.square_root(sum(normal * normal for normal in normals))
        nearest = [
            refinement.nearest_integer(scale * radius * normals[index] / norm)
            for index in undecided.tolist()
        ]
        return None if None in nearest else [found for found in nearest if found is not None]

    return refinement.decide(attempt)
