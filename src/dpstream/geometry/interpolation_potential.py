"""A potential for the L1/L2 interpolation ball.

Paper 001, section 3.2, asserts one of range O(1), which cannot be at the L1 end. For any t in
(0, 1), Cauchy's inequality gives ``N(v)^2 <= (1-a)^2 |v|_1^2 / t + a^2 |v|_2^2 / (1-t)`` for the
norm ``N = (1-a) |.|_1 + a |.|_2``; adding the potentials that are 1-strongly convex in L1 and in
L2 with those factors makes one that is 1-strongly convex in N.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import optimize

from dpstream.arrays import FloatArray
from dpstream.geometry.convex_set import Gauged
from dpstream.geometry.p_norm_potential import (
    half_square_gradient,
    l1_exponent,
    l1_weight,
    q_norm,
)
from dpstream.geometry.scalar_root import (
    decreasing_root,
    mixed_power_root,
    positive_decreasing_root,
)


@dataclass(frozen=True, kw_only=True)
class InterpolationPotential:
    """``Psi(y) = (A |y|_q^2 + B |y|_2^2) / 2`` on the interpolation ball.

    ``A = (1-a)^2 c / t`` with the L1 potential's weight c and exponent q, ``B = a^2 / (1-t)``,
    and the t that makes the range smallest; the range is at most ``(c + 1) / 2`` times the
    squared radius.

    Attributes:
        ball: the unit ball of the interpolation norm.
        mix: a, strictly between 0 and 1.
        radius: of the set.
    """

    ball: Gauged
    mix: float
    radius: float

    @property
    def exponent(self) -> float:
        """q, as for the L1 ball."""
        return l1_exponent(self.ball.dimension)

    @cached_property
    def _weights(self) -> tuple[float, float, float]:
        l1 = l1_weight(self.ball.dimension, self.exponent)
        # On the unit ball let x = (1-a)|y|_1 and z = a|y|_2. Then x + z <= 1 and Psi is at most
        # (c x^2 / t + z^2 / (1-t)) / 2, convex on the segment of possible z / x: its ends count.
        lowest = self.mix / (1 - self.mix) / math.sqrt(self.ball.dimension)
        highest = self.mix / (1 - self.mix)

        def half_range(t: float) -> float:
            return max(
                (l1 / t + ratio**2 / (1 - t)) / (1 + ratio) ** 2 / 2 for ratio in (lowest, highest)
            )

        t = float(optimize.minimize_scalar(half_range, bounds=(1e-9, 1 - 1e-9), method="bounded").x)
        return (1 - self.mix) ** 2 * l1 / t, self.mix**2 / (1 - t), half_range(t)

    @property
    def modulus(self) -> float:
        """At least 1, in the interpolation norm."""
        return 1.0

    def potential_range(self) -> float:
        """An upper bound, by the extremes of ``|y|_2 / |y|_1``."""
        return self._weights[2] * self.radius**2

    def value(self, point: FloatArray) -> float:
        """``(A |y|_q^2 + B |y|_2^2) / 2``."""
        first, second, _ = self._weights
        return (first * q_norm(point, self.exponent) ** 2 + second * float(point @ point)) / 2

    def gradient(self, point: FloatArray) -> FloatArray:
        """``A`` times the q-norm's half-square gradient, plus ``B`` times the point."""
        first, second, _ = self._weights
        return first * half_square_gradient(point, self.exponent) + second * point

    def start(self) -> FloatArray:
        """The origin."""
        return np.zeros(self.ball.dimension)

    def step(self, state: FloatArray, direction: FloatArray) -> FloatArray:
        """Two nested scalar roots: the norm bound's multiplier, and the scale of the answer."""
        dual = self.gradient(state) - direction
        moduli = np.abs(dual)
        ratio = self.mix / (1 - self.mix)

        def sizes(shrinkage: float) -> FloatArray:
            return self._penalised(np.maximum(moduli - shrinkage, 0.0), ratio * shrinkage)

        def norm(point: FloatArray) -> float:
            return self.ball.gauge(point)

        shrinkage = decreasing_root(
            lambda s: norm(sizes(s)) - self.radius, 0.0, float(moduli.max())
        )
        result = np.copysign(sizes(shrinkage), dual)
        excess = norm(result) / self.radius
        return result / excess if excess > 1 else result

    def point(self, state: FloatArray) -> FloatArray:
        """The state itself."""
        return state

    def _penalised(self, dual: FloatArray, penalty: float) -> FloatArray:
        """``argmin Psi(y) + penalty |y|_2 - <dual, y>`` for a nonnegative dual.

        Optimality reads ``k y_i^(q-1) + b y_i = dual_i`` with ``k = A |y|_q^(2-q)`` and
        ``b = B + penalty / |y|_2``. With ``y = u x`` and ``x^(q-1) + x = dual / w`` it becomes
        ``u = w / (A |x|_q^(2-q))`` and one equation in w.
        """
        first, second, _ = self._weights
        length = float(np.linalg.norm(dual))
        if length <= penalty:
            return np.zeros_like(dual)
        if self.exponent == 2:
            return dual * ((1 - penalty / length) / (first + second))

        def shape(w: float) -> tuple[FloatArray, float]:
            x = mixed_power_root(dual / w, self.exponent - 1, 1.0)
            spread = q_norm(x, self.exponent) ** (2 - self.exponent)
            return x, w / max(first * spread, 1e-300)

        def excess(w: float) -> float:
            x, unit = shape(w)
            return 1 - (second * unit + penalty / max(float(np.linalg.norm(x)), 1e-300)) / w

        x, unit = shape(positive_decreasing_root(excess, float(dual.max())))
        return unit * x
