"""Gaussian measurement of a bounded vector on a lattice."""

from dpstream.arrays import FloatArray, IntArray
from dpstream.mechanisms.mechanism import Noise
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
    """Measure ``value * 2**exponent`` with Gaussian noise of standard deviation ``sigma``."""
    scale = sigma / 2.0**exponent
    digest = noise.bind(value, exponent=exponent)
    added = rounded_gaussian(noise, address, digest, value.size, scale)
    return Measurement(address=address, exponent=exponent, value=value + added)
