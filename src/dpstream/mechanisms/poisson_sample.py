"""A secret Poisson sample: each record takes part with the same probability, by itself.

It adds no noise; it hides whether a record was looked at. Proof in ``poisson_sample.proof.md``.
"""

import math

import numpy as np

from dpstream.arrays import BoolArray
from dpstream.errors import ConfigurationError
from dpstream.mechanisms.mechanism import Noise

_WORD = 2.0**64


def poisson_sample(
    count: int, rate: float, *, address: tuple[int, ...], digest: bytes, noise: Noise
) -> BoolArray:
    """Which of ``count`` records take part.

    Guaranteed: records take part independently, each with probability ``floor(rate 2^64) /
    2^64``, hence at most ``rate``. Assumed: the sample stays secret.

    Args:
        count: number of records.
        rate: in (0, 1].
        address: of the sample, unique in the stream.
        digest: of the batch that is sampled, from ``noise.bind``.
        noise: the noise source.

    Raises:
        ConfigurationError: if the rate is out of range.
    """
    if not 0.0 < rate <= 1.0:
        raise ConfigurationError(f"sampling rate is {rate}; it must lie above 0 and at most at 1")
    if rate == 1.0:
        return np.ones(count, np.bool_)
    words = noise.stream(address, digest, purpose=("poisson sample", str(rate))).words(count)
    return words < np.uint64(math.floor(rate * _WORD))
