"""The Gaussian mechanism: an exact vector plus normal noise, rounded to the lattice.

Proof, with its assumptions, in ``gaussian.proof.md``.
"""

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.mechanisms.mechanism import Noise, checked_ratio, lattice_units, measure
from dpstream.privacy.event import GaussianEvent
from dpstream.randomness.gaussian import rounded_gaussian
from dpstream.release import Measurement


def measure_gaussian(
    value: IntArray,
    exponent: int,
    *,
    sigma: float | FloatArray,
    address: tuple[int, ...],
    noise: Noise,
) -> Measurement:
    """Measure a vector with Gaussian noise.

    Guaranteed: the output is ``value + sigma * G`` for ideal independent normals ``G``, rounded
    to the lattice; so a family of such measurements whose shifts satisfy
    ``sum ||shift / sigma||^2 <= mu^2`` for every unit is mu-Gaussian differentially private,
    chosen adaptively or not. Assumed: the caller's bound on those shifts.

    Args:
        value: integers on the lattice ``2**exponent``: secret.
        exponent: the lattice.
        sigma: the noise's standard deviation, in units of the value; one number, or one for
            each coordinate. Between 1 and 2**40 lattice steps; 2**20 is a good choice.
        address: the node's address, unique in the stream.
        noise: the noise source.

    Raises:
        ConfigurationError: if sigma does not fit the lattice, or the value the measurable range.
    """
    if isinstance(sigma, np.ndarray):
        scale = np.ldexp(sigma, -exponent)
    else:
        scale = lattice_units(sigma, exponent)

    def draw(digest: bytes) -> IntArray:
        return rounded_gaussian(noise, address, digest, value.size, scale)

    return measure(value, exponent, address=address, noise=noise, draw=draw)


def gaussian_event(
    name: str, *, sensitivity: float, sigma: float, covers: tuple[int, int] | None = None
) -> GaussianEvent:
    """What one Gaussian measurement reveals of any unit: ``mu = sensitivity / sigma``.

    Args:
        name: the mechanism's name in the ledger.
        sensitivity: the largest L2 shift that one unit can cause.
        sigma: the noise's standard deviation.
        covers: the record positions it can reveal anything about; None for all.
    """
    return GaussianEvent(name, mu=checked_ratio(sensitivity, sigma), covers=covers)
