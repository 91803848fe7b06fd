"""Exactly rounded Gaussian noise: the nearest integers to ``scale * G``, G ideal."""

from collections.abc import Iterable
from typing import Final

import numpy as np
from scipy.special import ndtri

from dpstream.arrays import FloatArray, IntArray
from dpstream.errors import ConfigurationError
from dpstream.randomness import refinement
from dpstream.randomness.source import KeyStream, NoiseSource, Part

LARGEST_SCALE: Final = 2.0**40
ERROR_BOUND: Final = 2.0**-44
"""Certified bound of ``|fast normal - ideal normal|`` inside the tail cut."""
TAIL_CUT: Final = 4.5
CHUNK: Final = 1 << 14


def rounded_gaussian(
    source: NoiseSource,
    address: Iterable[Part],
    digest: bytes,
    size: int,
    scale: float | FloatArray,
) -> IntArray:
    """The nearest integers to ``scale * G_i`` for ideal independent standard normals ``G_i``.

    The law is exact given ideal words: a coordinate that float64 cannot round with certainty
    is decided in high precision from further bits of the same uniform number. Adding it to an
    integer ``v`` therefore gives ``round(v + scale * G)``: post-processing of the ideal
    Gaussian mechanism.

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
    purpose = ("rounded-gaussian", size, scales.tobytes().hex())
    return draw(source.stream(address, digest, purpose=purpose), size, scales)


def checked_scale(scale: float | FloatArray, size: int) -> FloatArray:
    """A validated scale: an array of no dimension, or one entry per integer."""
    if size < 0:
        raise ConfigurationError(f"noise size is {size}; it must not be negative")
    scales = np.asarray(scale, np.float64)
    if scales.ndim and scales.shape != (size,):
        raise ConfigurationError(
            f"noise scale has shape {scales.shape}; it must be one number or have shape ({size},)"
        )
    if not np.all((scales >= 1.0) & (scales <= LARGEST_SCALE)):
        raise ConfigurationError(
            "noise scale is outside [1, 2**40] lattice units; choose the lattice so that the "
            "standard deviation is about 2**20 of its units"
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
    """The integers of a stream; every bound that is honest gives the same ones."""
    result = np.empty(size, np.int64)
    for start in range(0, size, CHUNK):
        stop = min(start + CHUNK, size)
        words = stream.words(stop - start)
        scale = scales[start:stop] if scales.ndim else scales
        tail = (words >> np.uint64(1)).view(np.int64)
        lower = tail.astype(np.float64)
        lower += 0.5
        lower *= 2.0**-64
        normal = ndtri(lower, out=lower)
        uncertain = normal < -tail_cut
        normal *= scale
        nearest = np.rint(normal)
        normal -= nearest
        np.abs(normal, out=normal)
        uncertain |= normal > 0.5 - error_bound * scale
        integers = nearest.astype(np.int64)
        for index in np.flatnonzero(uncertain).tolist():
            integers[index] = _refined(
                stream,
                start + index,
                int(tail[index]),
                float(scale[index] if scale.ndim else scale),
            )
        sign = (words & np.uint64(1)).view(np.int64)
        np.multiply(integers, 1 - 2 * sign, out=result[start:stop])
    return result


def _refined(stream: KeyStream, index: int, tail: int, scale: float) -> int:
    """One coordinate from as many bits as its rounding needs."""
    for integer, bits in refinement.prefixes(stream, index, tail, 63):
        # Half of a uniform number: one binary place further down.
        normal = refinement.normal_quantile(integer, bits + 1)
        nearest = None if normal is None else refinement.nearest_integer(normal * scale)
        if nearest is not None:
            return nearest
    raise refinement.exhausted()
