"""Power potentials of spectra, on group and nuclear balls.

A *spectrum* is the vector of nonnegative sizes a norm sums up: the L2 norms of groups, the
singular values of a matrix. On the ball of radius R the potential is
``R^2 (weight / M) sum (s_j / R)^M`` with an exponent M a little above 1.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.geometry.convex_set import Gauged
from dpstream.geometry.scalar_root import decreasing_root

SpectrumMap = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, kw_only=True)
class PowerPotential(ABC):
    """What the two power potentials share.

    Attributes:
        ball: the unit ball of the summed norm.
        radius: of the set, in that norm.
    """

    ball: Gauged
    radius: float

    @property
    @abstractmethod
    def exponent(self) -> float:
        """M."""

    @property
    @abstractmethod
    def weight(self) -> float:
        """The factor before the sum, times M."""

    @abstractmethod
    def spectrum(self, point: FloatArray) -> FloatArray:
        """The point's nonnegative sizes."""

    @abstractmethod
    def map_spectrum(self, point: FloatArray, function: SpectrumMap) -> FloatArray:
        """The point with its spectrum replaced by a function of it, directions kept."""

    @property
    def modulus(self) -> float:
        """At least 1 on the set; see the class for what is known to be exact."""
        return 1.0

    def potential_range(self) -> float:
        """``R^2 weight / M``, attained where the spectrum has one entry."""
        return self.radius**2 * self.weight / self.exponent

    def value(self, point: FloatArray) -> float:
        """``R^2 (weight / M) sum (s_j / R)^M``."""
        sizes = self.spectrum(point) / self.radius
        return self.potential_range() * float(np.sum(sizes**self.exponent))

    def gradient(self, point: FloatArray) -> FloatArray:
        """The point with spectrum ``R weight (s_j / R)^(M-1)``."""
        return self.map_spectrum(
            point, lambda s: self.radius * self.weight * (s / self.radius) ** (self.exponent - 1)
        )

    def start(self) -> FloatArray:
        """The origin."""
        return np.zeros(self.ball.dimension)

    def step(self, state: FloatArray, direction: FloatArray) -> FloatArray:
        """The dual's spectrum, shrunk by the multiplier of the radius and mapped back."""
        return self.map_spectrum(self.gradient(state) - direction, self._primal)

    def point(self, state: FloatArray) -> FloatArray:
        """The state itself."""
        return state

    def _primal(self, dual: FloatArray) -> FloatArray:
        scaled = dual / (self.radius * self.weight)

        def sizes(multiplier: float) -> FloatArray:
            return np.maximum(scaled - multiplier, 0.0) ** (1 / (self.exponent - 1))

        largest = float(scaled.max(initial=0.0))
        # No size exceeds the radius, so neither does a shrunk entry 1: no overflow in powers.
        lower = max(largest - 1.0, 0.0)
        result = sizes(decreasing_root(lambda m: float(sizes(m).sum()) - 1.0, lower, largest))
        return self.radius * result / max(1.0, float(result.sum()))
