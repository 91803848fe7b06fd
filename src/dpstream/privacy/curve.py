"""The algebra of composition.

A privacy curve says, for every epsilon, a delta that can be promised. It is kept as the
multiset of parts it was composed of, in exact integers, so that composition is commutative
and associative to the bit and ``repeat(n)`` equals n composes for every kind of part.

Several theorems bound the delta of a mixture. All of them hold, so their minimum does:

* Gaussian parts alone: mu squared adds, exactly (Dong, Roth and Su 2022, section 3.2);
* pure and exponential parts: epsilons add, and the other parts are read at what is left of
  epsilon (basic composition);
* any parts: Rényi divergences of order alpha add (Mironov 2017), with ``alpha mu^2 / 2`` for
  Gaussian parts, ``alpha rho`` for zCDP ones, and ``min(epsilon, alpha r^2 / 8)`` for losses of
  range r, which is epsilon for exponential parts and 2 epsilon for pure ones. (For a loss L of
  range r, ``K(s) = ln E_Q exp(s L)`` has K(0) = K(1) = 0 and, being the variance of a variable
  of range r, K'' <= r^2/4; so K(alpha) <= alpha (alpha - 1) r^2 / 8, and the divergence is
  K(alpha) / (alpha - 1). Bun and Steinke 2016 for pure, Cesar and Rogers 2021 for range);
* parts without zCDP: the product of dominating pairs, see ``loss_distribution``. It is the
  smallest for most mixtures; Rényi divergences win for many exponential parts, whose pairs allow
  for a different worst range at every epsilon, and for a delta near the rounding allowance.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.errors import ConfigurationError
from dpstream.privacy.gaussian import gaussian_delta
from dpstream.privacy.loss_distribution import Steps, loss_distribution
from dpstream.privacy.renyi import renyi_delta

# Additive amounts are integers in units of 2^-256, rounded up once, when a part is made.
_UNIT_BITS = 256
_SMALLEST_STEP = 2.0**-64  # smaller epsilons are rounded up to it
_EPSILON_ACCURACY = 1e-12
_LARGEST_EPSILON = 2.0**62
# Each distinct step costs a Fourier transform; beyond this many the Rényi bound must do.
_MOST_DISTINCT_STEPS = 64


@dataclass(frozen=True)
class PrivacyCurve:
    """What a composition of mechanisms reveals of one unit.

    Build it with the class methods and combine with ``compose`` and ``repeat``. Equality is of
    the parts, so equal curves promise the same, whatever the order of composition.

    Attributes:
        squared_shift: the sum of the Gaussian parts' mu squared, in units of 2^-256.
        concentration: the sum of the zCDP parts' rho, in the same units.
        failure_mass: the sum of the failure probabilities, in the same units.
        pure_steps: pairs of a pure part's epsilon and how often it occurs, sorted.
        exponential_steps: the same of exponential mechanisms and their ranges.
    """

    squared_shift: int = 0
    concentration: int = 0
    failure_mass: int = 0
    pure_steps: Steps = ()
    exponential_steps: Steps = ()

    @classmethod
    def none(cls) -> "PrivacyCurve":
        """Nothing released: the neutral element."""
        return _NONE

    @classmethod
    def gaussian(cls, mu: float) -> "PrivacyCurve":
        """Gaussian measurements of total shift over standard deviation ``mu``."""
        return cls(squared_shift=_units(_public("mu", mu) ** 2))

    @classmethod
    def pure(cls, epsilon: float) -> "PrivacyCurve":
        """A purely ``epsilon``-private mechanism."""
        return cls(pure_steps=_step(epsilon))

    @classmethod
    def exponential(cls, epsilon: float) -> "PrivacyCurve":
        """An exponential mechanism of range ``epsilon``."""
        return cls(exponential_steps=_step(epsilon))

    @classmethod
    def zcdp(cls, rho: float) -> "PrivacyCurve":
        """A ``rho``-zCDP mechanism."""
        return cls(concentration=_units(_public("rho", rho)))

    @classmethod
    def approximate(cls, epsilon: float, delta: float) -> "PrivacyCurve":
        """An (``epsilon``, ``delta``)-private mechanism.

        It is a purely private one that fails with probability delta (Kairouz, Oh and Viswanath
        2015, theorem 3.1).
        """
        return cls.pure(epsilon).compose(cls.failure(delta))

    @classmethod
    def failure(cls, delta: float) -> "PrivacyCurve":
        """A failure of probability at most ``delta`` that reveals everything."""
        return cls(failure_mass=_units(_public("delta", delta)))

    @property
    def mu(self) -> float:
        """The Gaussian parts' total shift over standard deviation, rounded up."""
        return 0.0 if not self.squared_shift else _root_up(self.squared_shift)

    @property
    def rho(self) -> float:
        """The zCDP parts' total rho, rounded up."""
        return _float_up(self.concentration)

    @property
    def pure_epsilon(self) -> float:
        """The sum of the pure and exponential parts' epsilons, as the nearest float."""
        steps = self.pure_steps + self.exponential_steps
        return float(sum((Fraction(epsilon) * count for epsilon, count in steps), Fraction()))

    @property
    def is_pure(self) -> bool:
        """Whether it promises some epsilon with delta 0."""
        return not (self.squared_shift or self.concentration or self.failure_mass)

    def compose(self, other: "PrivacyCurve") -> "PrivacyCurve":
        """Both, adaptively: the second may depend on what the first released."""
        if self is _NONE or other is _NONE:
            return other if self is _NONE else self
        return PrivacyCurve(
            self.squared_shift + other.squared_shift,
            self.concentration + other.concentration,
            self.failure_mass + other.failure_mass,
            _merged(self.pure_steps, other.pure_steps),
            _merged(self.exponential_steps, other.exponential_steps),
        )

    def repeat(self, count: int) -> "PrivacyCurve":
        """Composed with itself ``count`` times; 0 times is nothing.

        Raises:
            ConfigurationError: if ``count`` is negative.
        """
        if count < 0:
            raise ConfigurationError(f"a curve cannot be repeated {count} times; count from 0")
        return PrivacyCurve(
            self.squared_shift * count,
            self.concentration * count,
            self.failure_mass * count,
            tuple((epsilon, times * count) for epsilon, times in self.pure_steps if count),
            tuple((epsilon, times * count) for epsilon, times in self.exponential_steps if count),
        )

    def envelope(self, other: "PrivacyCurve") -> "PrivacyCurve":
        """The part-wise maximum: reveals no less than either, and is one of them if comparable."""
        if self is other or other is _NONE:
            return self
        if self is _NONE:
            return other
        return PrivacyCurve(
            max(self.squared_shift, other.squared_shift),
            max(self.concentration, other.concentration),
            max(self.failure_mass, other.failure_mass),
            _maximum(self.pure_steps, other.pure_steps),
            _maximum(self.exponential_steps, other.exponential_steps),
        )

    def delta(self, epsilon: float) -> float:
        """A delta with which ``epsilon`` holds: the smallest that the theorems give.

        Raises:
            ConfigurationError: if ``epsilon`` is negative or NaN.
        """
        return min(1.0, _sum_up(min(self._bounds(epsilon)), _float_up(self.failure_mass)))

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon that holds with ``delta``, to a relative 1e-12, rounded up.

        Infinite if none does: pure differential privacy of Gaussian noise, or a ``delta`` below
        the probability of failure.

        Raises:
            ConfigurationError: if ``delta`` is not in [0, 1].
        """
        if not 0.0 <= delta <= 1.0:
            raise ConfigurationError(f"delta is {delta!r}; it must be in [0, 1]")
        lower, upper = 0.0, 1.0
        if self.holds(0.0, delta):
            return 0.0
        if self.squared_shift or self.concentration:
            while not self.holds(upper, delta):
                upper *= 2.0
                if upper > _LARGEST_EPSILON:
                    return math.inf
        else:
            upper = self.pure_epsilon
            if not self.holds(upper, delta):
                return math.inf
        while upper - lower > _EPSILON_ACCURACY * upper:
            middle = 0.5 * (lower + upper)
            if self.holds(middle, delta):
                upper = middle
            else:
                lower = middle
        return upper

    def holds(self, epsilon: float, delta: float) -> bool:
        """Whether (``epsilon``, ``delta``) is proved: ``delta(epsilon) <= delta``, cheaper.

        Raises:
            ConfigurationError: if ``epsilon`` is negative or NaN.
        """
        failure = _float_up(self.failure_mass)
        bounds = self._bounds(epsilon)
        if delta <= failure:
            # Of the bounds only the sum of pure epsilons, which comes first, is ever 0.
            bounds = islice(bounds, 1)
        return any(min(1.0, _sum_up(bound, failure)) <= delta for bound in bounds)

    def _bounds(self, epsilon: float) -> Iterator[float]:
        """Proved bounds on delta without the failures, the cheapest first."""
        if not epsilon >= 0.0:
            raise ConfigurationError(f"epsilon is {epsilon!r}; it must be at least 0")
        steps = self.pure_steps + self.exponential_steps
        mu, rho = self.mu, self.rho
        left = epsilon - self.pure_epsilon
        yield _unbounded_delta(mu, rho, left) if left >= 0.0 else 1.0
        if not steps:
            return  # Gaussian parts alone are exact; zCDP parts have no other bound.
        yield renyi_delta(self._divergence, epsilon)
        if not rho and len(steps) <= _MOST_DISTINCT_STEPS:
            yield loss_distribution(mu, self.pure_steps, self.exponential_steps).delta(epsilon)

    def _divergence(self, orders: FloatArray) -> FloatArray:
        total = orders * (0.5 * self.mu**2 + self.rho)
        for steps, squared_range in ((self.pure_steps, 4.0), (self.exponential_steps, 1.0)):
            if steps:
                epsilons, counts = np.array(steps).T
                capped = np.minimum(
                    epsilons, np.multiply.outer(orders, squared_range * epsilons**2 / 8.0)
                )
                total = total + capped @ counts
        return total


_NONE = PrivacyCurve()


def _unbounded_delta(mu: float, rho: float, epsilon: float) -> float:
    """Delta of the Gaussian and zCDP parts alone."""
    if rho:
        return renyi_delta(lambda orders: orders * (0.5 * mu * mu + rho), epsilon)
    return gaussian_delta(mu, epsilon)


def _public(name: str, value: float) -> Fraction:
    if not 0.0 <= value < math.inf:
        raise ConfigurationError(f"{name} is {value!r}; it must be finite and at least 0")
    return Fraction(value)


def _units(amount: Fraction) -> int:
    return -((-amount.numerator << _UNIT_BITS) // amount.denominator)


def _float_up(units: int) -> float:
    """The smallest float that is at least ``units``; infinity past the largest."""
    try:
        nearest = units / (1 << _UNIT_BITS)
    except OverflowError:
        return math.inf
    numerator, denominator = nearest.as_integer_ratio()
    below = numerator << _UNIT_BITS < units * denominator
    return math.nextafter(nearest, math.inf) if below else nearest


def _root_up(units: int) -> float:
    return math.nextafter(math.sqrt(_float_up(units)), math.inf)


def _sum_up(first: float, second: float) -> float:
    total = first + second
    exact = total - first == second and total - second == first
    return total if exact else math.nextafter(total, math.inf)


def _step(epsilon: float) -> Steps:
    _public("epsilon", epsilon)
    return ((max(float(epsilon), _SMALLEST_STEP), 1),) if epsilon else ()


def _merged(first: Steps, second: Steps) -> Steps:
    if not first or not second:
        return first or second
    counts = dict(first)
    for epsilon, count in second:
        counts[epsilon] = counts.get(epsilon, 0) + count
    return tuple(sorted(counts.items()))


def _maximum(first: Steps, second: Steps) -> Steps:
    if not first or not second:
        return first or second
    counts = dict(first)
    for epsilon, count in second:
        counts[epsilon] = max(counts.get(epsilon, 0), count)
    return tuple(sorted(counts.items()))
