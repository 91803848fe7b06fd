"""The laws of a node's noise: how each is drawn, and what it is accounted as."""

import math
from enum import Enum
from fractions import Fraction
from typing import Literal

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.errors import ConfigurationError
from dpstream.mechanisms.continual.strategy import Address
from dpstream.mechanisms.gaussian import measure_gaussian
from dpstream.mechanisms.mechanism import Noise, measure
from dpstream.mechanisms.spherical_laplace import measure_spherical_laplace
from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import gaussian_mu, pure_epsilon, zcdp_rho
from dpstream.privacy.event import Event, GaussianEvent, PureEvent, ZeroConcentratedEvent
from dpstream.randomness.discrete_gaussian import discrete_gaussian
from dpstream.release import Measurement

NoiseName = Literal["gaussian", "exact", "spherical_laplace"]
"""A kind of noise by its name."""


class NoiseKind(Enum):
    """The law of the noise, and what it is accounted as."""

    GAUSSIAN = "gaussian"
    """Real Gaussian noise, rounded to the lattice: Gaussian differential privacy, ``mu``."""

    EXACT = "exact"
    """The discrete Gaussian on the lattice: zero-concentrated privacy, ``rho``."""

    SPHERICAL_LAPLACE = "spherical_laplace"
    """Density ``exp(-|v| / scale)``, rounded: pure differential privacy, ``epsilon``."""

    @classmethod
    def of(cls, kind: "NoiseKind | NoiseName") -> "NoiseKind":
        """The kind itself, or the one of that name.

        Raises:
            ConfigurationError: if there is none.
        """
        try:
            return cls(kind)
        except ValueError:
            raise ConfigurationError(
                f"noise is {kind!r}; it must be one of {', '.join(item.value for item in cls)}"
            ) from None

    @property
    def order(self) -> int:
        """The norm in which nodes' shifts add up."""
        return 1 if self is NoiseKind.SPHERICAL_LAPLACE else 2

    def strength(self, budget: Budget) -> float:
        """The whole budget in this noise's own measure: ``mu``, ``rho`` or ``epsilon``."""
        if self is NoiseKind.GAUSSIAN:
            return gaussian_mu(budget)
        return zcdp_rho(budget) if self is NoiseKind.EXACT else pure_epsilon(budget)

    def shift_per_noise(self, strength: float) -> float:
        """The admissible total shift over noise scale, for a strength."""
        return math.sqrt(2.0 * strength) if self is NoiseKind.EXACT else strength

    def event(self, name: str, strength: float) -> Event:
        """The event of a mechanism of that strength."""
        if self is NoiseKind.GAUSSIAN:
            return GaussianEvent(name, mu=strength)
        if self is NoiseKind.EXACT:
            return ZeroConcentratedEvent(name, rho=strength)
        return PureEvent(name, epsilon=strength)

    def spread(self, dimension: int) -> float:
        """Standard deviation of a coordinate of the noise, for scale 1."""
        # A vector of norm Gamma(d, 1) has squared norm d (d + 1) in the mean.
        return math.sqrt(dimension + 1.0) if self is NoiseKind.SPHERICAL_LAPLACE else 1.0

    def measure(
        self,
        value: IntArray,
        exponent: int,
        *,
        scale: float | FloatArray,
        address: Address,
        noise: Noise,
    ) -> Measurement:
        """Measure ``value * 2**exponent`` with noise of one scale, or one per coordinate.

        Spherical noise takes one scale only.
        """
        if self is NoiseKind.GAUSSIAN:
            return measure_gaussian(value, exponent, sigma=scale, address=address, noise=noise)
        if self is NoiseKind.SPHERICAL_LAPLACE:
            return measure_spherical_laplace(
                value, exponent, scale=float(scale), address=address, noise=noise
            )
        steps = np.ldexp(np.broadcast_to(scale, value.shape), -exponent)

        def draw(digest: bytes) -> IntArray:
            # The sampler's stream depends on its parameter: the groups are independent.
            added = np.zeros(value.size, np.int64)
            for parameter in np.unique(steps).tolist():
                chosen = steps == parameter
                size = int(chosen.sum())
                added[chosen] = discrete_gaussian(
                    noise, address, digest, size, Fraction(parameter) ** 2
                )
            return added

        return measure(value, exponent, address=address, noise=noise, draw=draw)
