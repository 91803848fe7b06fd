"""The discrete Gaussian mechanism: an exact vector plus integer noise with an exact law.

Proof, with its assumptions, in ``discrete_gaussian.proof.md``.
"""

from fractions import Fraction

from dpstream.arrays import IntArray
from dpstream.mechanisms.mechanism import Noise, checked_ratio, lattice_units, measure
from dpstream.privacy.event import ZeroConcentratedEvent
from dpstream.randomness.discrete_gaussian import discrete_gaussian
from dpstream.release import Measurement


def measure_discrete_gaussian(
    value: IntArray, exponent: int, *, sigma: float, address: tuple[int, ...], noise: Noise
) -> Measurement:
    """Measure a vector with discrete Gaussian noise on its own lattice.

    Guaranteed: independent noise of mass proportional to ``exp(-y^2 / (2 sigma^2))`` on the
    lattice points ``y``; a shift of L2 norm at most ``s`` costs ``s^2 / (2 sigma^2)`` of zCDP.
    Assumed: the caller's bound on the shift.

    Args:
        value: integers on the lattice ``2**exponent``: secret.
        exponent: the lattice.
        sigma: the noise's parameter, in units of the value; between 2**-10 and 2**40 steps.
        address: the node's address, unique in the stream.
        noise: the noise source.

    Raises:
        ConfigurationError: if sigma does not fit the lattice, or the value the measurable range.
    """
    checked_ratio(0.0, sigma)
    # A float64 is a rational number; its square is exact.
    variance = Fraction(lattice_units(sigma, exponent)) ** 2

    def draw(digest: bytes) -> IntArray:
        return discrete_gaussian(noise, address, digest, value.size, variance)

    return measure(value, exponent, address=address, noise=noise, draw=draw)


def discrete_gaussian_event(
    name: str, *, sensitivity: float, sigma: float, covers: tuple[int, int] | None = None
) -> ZeroConcentratedEvent:
    """What one measurement reveals of any unit: ``rho = sensitivity^2 / (2 sigma^2)``.

    Args:
        name: the mechanism's name in the ledger.
        sensitivity: the largest L2 shift that one unit can cause.
        sigma: the noise's parameter.
        covers: the record positions it can reveal anything about; None for all.
    """
    ratio = checked_ratio(sensitivity, sigma)
    return ZeroConcentratedEvent(name, rho=ratio * ratio / 2, covers=covers)
