"""The spherical Laplace mechanism: density proportional to ``exp(-||noise||_2 / scale)``.

Pure differential privacy for vectors bounded in the L2 norm. Independent Laplace noise on the
coordinates would need the L1 norm, ``sqrt(d)`` times as large. Proof in
``spherical_laplace.proof.md``.
"""

from dpstream.arrays import IntArray
from dpstream.mechanisms.mechanism import Noise, checked_ratio, lattice_units, measure
from dpstream.privacy.event import PureEvent
from dpstream.randomness.spherical import LARGEST_DIMENSION, rounded_spherical_laplace
from dpstream.release import Measurement

MOST_COORDINATES = LARGEST_DIMENSION
"""Of one measurement: longer vectors have no sampler."""


def measure_spherical_laplace(
    value: IntArray, exponent: int, *, scale: float, address: tuple[int, ...], noise: Noise
) -> Measurement:
    """Measure a vector with spherical Laplace noise.

    Guaranteed: the output is ``value + v`` rounded to the lattice, where ``v`` has an ideal
    Gamma(d, scale) norm and an independent uniform direction; a shift of L2 norm at most ``s``
    costs ``s / scale`` of pure epsilon. Assumed: the caller's bound on the shift.

    Args:
        value: integers on the lattice ``2**exponent``: secret.
        exponent: the lattice.
        scale: the noise's scale, in units of the value, between 1 and 2**40 lattice steps. A
            coordinate's standard deviation is about ``scale * sqrt(d)``; 2**20 steps of it
            are a good choice, and many more in high dimension are slow.
        address: the node's address, unique in the stream.
        noise: the noise source.

    Raises:
        ConfigurationError: if the scale does not fit the lattice, or the value the measurable
            range.
    """
    steps = lattice_units(scale, exponent)

    def draw(digest: bytes) -> IntArray:
        return rounded_spherical_laplace(noise, address, digest, value.size, steps)

    return measure(value, exponent, address=address, noise=noise, draw=draw)


def spherical_laplace_event(
    name: str, *, sensitivity: float, scale: float, covers: tuple[int, int] | None = None
) -> PureEvent:
    """What one measurement reveals of any unit: ``epsilon = sensitivity / scale``.

    Args:
        name: the mechanism's name in the ledger.
        sensitivity: the largest L2 shift that one unit can cause.
        scale: the noise's scale.
        covers: the record positions it can reveal anything about; None for all.
    """
    return PureEvent(name, epsilon=checked_ratio(sensitivity, scale), covers=covers)
