"""Closed forms of buffered linear filters: norms, inverses and noise without long arrays.

A buffered linear Toeplitz (BLT) filter is the rational generating function

    C(z) = 1 + sum_i omega_i z / (1 - theta_i z)
         = prod_i (1 - thetahat_i z) / (1 - theta_i z),

in words: a direct term and ``p`` buffers, each of which forgets the share ``1 - theta_i`` of
itself per tick. Its coefficients, those of ``1/C`` and those of ``A/C`` for a running or decayed
sum ``A`` are short sums of exponentials, so every norm this package needs is a sum over pairs.

Rates ``1 - theta`` are stored instead of ``theta``: for long horizons ``theta`` is within 1e-9 of
one, and its distance from one is what matters.

Glossary: ``rate`` = 1 - theta, ``scale`` = omega, ``gain`` = C(1).
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.errors import ConfigurationError

MANTISSA_BITS = 14
"""Significant bits of rates and scales: encoders multiply by them in integers."""

MOST_BUFFERS = 14
"""Encoders add one truncated term per buffer and one more."""

SMALLEST_NUMBER = 2.0**-31
LARGEST_GAIN = 2.0**19
"""Beyond these buffers could outgrow the encoders' integers before the nodes do."""

UPWARD = 1.0 + 1e-12
"""Closed forms are good to about 1e-14; sensitivities are rounded up by this factor."""


def rounded_mantissa(value: float, bits: int = MANTISSA_BITS) -> float:
    """The nearest number with at most ``bits`` significant bits."""
    fraction, exponent = math.frexp(value)
    return math.ldexp(round(math.ldexp(fraction, bits)), exponent - bits)


def mantissa(value: float, bits: int = MANTISSA_BITS) -> tuple[int, int]:
    """Integers ``(m, q)`` with ``value = m 2**-q`` and ``m < 2**bits``, for such a value."""
    fraction, exponent = math.frexp(value)
    return int(math.ldexp(fraction, bits)), bits - exponent


@dataclass(frozen=True, eq=False)
class ExponentialSum:
    """The sequence ``k -> sum_i weights[i] (1 - rates[i])**k``.

    Attributes:
        rates: in ``[0, 1)``; a rate of 0 is a constant.
        weights: one per rate.
    """

    rates: FloatArray
    weights: FloatArray

    @cached_property
    def _logs(self) -> FloatArray:
        return np.log1p(-self.rates)

    def values(self, count: int) -> FloatArray:
        """The first ``count`` terms, from ``k = 0``."""
        steps = np.arange(count, dtype=np.float64)
        total = np.zeros(count)
        for log, weight in zip(self._logs, self.weights, strict=True):
            total += weight * np.exp(log * steps)
        return total

    def at(self, index: int) -> float:
        """The term at ``k = index``."""
        return math.fsum(self.weights * np.exp(self._logs * index))

    def total(self, count: int | None) -> float:
        """The sum of the first ``count`` terms, or of all of them."""
        return math.fsum(self.weights * _geometric(self.rates, self._logs, count))

    @cached_property
    def _squares(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        rate = self.rates[:, None] + self.rates - self.rates[:, None] * self.rates
        log = self._logs[:, None] + self._logs
        return np.outer(self.weights, self.weights), rate, log

    def energy(self, count: int) -> float:
        """``sum_{k < count} self[k]^2``; what does not depend on ``count`` is computed once."""
        weights, rate, log = self._squares
        return math.fsum((weights * _geometric(rate, log, count)).ravel().tolist())

    def inner(
        self,
        other: "ExponentialSum",
        count: int | None,
        *,
        start: int = 0,
        other_start: int = 0,
    ) -> float:
        """``sum_{k < count} self[k + start] other[k + other_start]``; all terms if None."""
        left = self.weights * np.exp(self._logs * start)
        right = other.weights * np.exp(other._logs * other_start)
        rate = self.rates[:, None] + other.rates - self.rates[:, None] * other.rates
        log = self._logs[:, None] + other._logs
        return math.fsum((left[:, None] * right * _geometric(rate, log, count)).ravel())


def _geometric(rate: FloatArray, log: FloatArray, count: int | None) -> FloatArray:
    """``(1 - (1 - rate)**count) / rate``, with its limits at rate 0 and infinite count."""
    if count is None:
        return 1.0 / rate
    constant = rate == 0.0
    return np.where(constant, float(count), -np.expm1(count * log) / np.where(constant, 1.0, rate))


@dataclass(frozen=True)
class BufferedFilter:
    """A rational filter ``C(z) = 1 + sum_i scales[i] z / (1 - (1 - rates[i]) z)``.

    Its coefficients ``c_0 = 1, c_k = sum_i scales[i] (1 - rates[i])**(k - 1)`` are positive and
    never increase, and the coefficients of ``1/C`` after the first are negative: both follow
    from what the constructor checks.

    Attributes:
        rates: increasing, in (0, 1), with at most ``MANTISSA_BITS`` significant bits.
        scales: positive, with at most ``MANTISSA_BITS`` significant bits.
    """

    rates: tuple[float, ...]
    scales: tuple[float, ...]

    def __post_init__(self) -> None:
        numbers = (*self.rates, *self.scales)
        increasing = all(a < b for a, b in zip(self.rates, self.rates[1:], strict=False))
        if not (
            0 < len(self.rates) == len(self.scales) <= MOST_BUFFERS
            and increasing
            and all(0.0 < value < 1.0 and value == rounded_mantissa(value) for value in numbers)
            and min(numbers) >= SMALLEST_NUMBER
        ):
            raise ConfigurationError(
                f"buffer rates {self.rates} and scales {self.scales} must be equally many (at "
                f"most {MOST_BUFFERS}) and increase, lie in (0, 1) with at most {MANTISSA_BITS} "
                f"significant bits and none below {SMALLEST_NUMBER}"
            )
        # This is C(z) -> 1 - (sum) as z -> infinity: below 1 every zero 1/thetahat is positive,
        # and it bounds c_1 = sum(scales) by c_0 = 1.
        if math.fsum(s / (1.0 - r) for r, s in zip(self.rates, self.scales, strict=True)) >= 1.0:
            raise ConfigurationError(
                f"buffer scales {self.scales} are too large for rates {self.rates}: the filter's "
                "inverse would alternate; take smaller scales"
            )
        if self.gain > LARGEST_GAIN:
            raise ConfigurationError(
                f"the filter's gain is {self.gain:g}, above {LARGEST_GAIN:g}: its buffers would "
                "outgrow their integers; take faster rates"
            )

    @property
    def gain(self) -> float:
        """``C(1)``: the sum of all coefficients."""
        return 1.0 + math.fsum(s / r for r, s in zip(self.rates, self.scales, strict=True))

    @cached_property
    def tail(self) -> ExponentialSum:
        """The coefficients after the first: ``tail[k] = c_{k+1}``."""
        return ExponentialSum(np.array(self.rates), np.array(self.scales))

    def coefficients(self, count: int) -> FloatArray:
        """The first ``count`` coefficients."""
        return np.concatenate([[1.0], self.tail.values(count - 1)])

    def total(self, count: int | None) -> float:
        """The sum of the first ``count`` coefficients, or of all of them."""
        return 1.0 + self.tail.total(None if count is None else count - 1)

    def energy(self, count: int | None) -> float:
        """The sum of squares of the first ``count`` coefficients, or of all of them."""
        return 1.0 + self.tail.inner(self.tail, None if count is None else count - 1)

    def correlation(self, shift: int) -> float:
        """``sum_k c_k c_{k + shift}`` over all k, for ``shift >= 1``."""
        return self.tail.at(shift - 1) + self.tail.inner(self.tail, None, other_start=shift)

    def run_energies(self, counts: list[int], length: int | None) -> list[float]:
        """Squared norms of ``sum_{i <= a} counts[i] C_{i+1}`` for ``a = 1, 2, ...``.

        ``C_1, C_2, ...`` are the columns of the lower-triangular Toeplitz matrix of the filter,
        ``length`` nodes high (or without end).
        """
        keep = 1.0 - np.array(self.rates)
        scales = np.array(self.scales)
        buffers = np.zeros(len(scales))
        head = 0.0
        energies: list[float] = []
        for place, count in enumerate(counts, start=1):
            head += (count + float(scales @ buffers)) ** 2
            buffers = keep * buffers + count
            rest = ExponentialSum(self.tail.rates, scales * buffers)
            energies.append(head + rest.inner(rest, None if length is None else length - place))
        return energies

    @cached_property
    def inverse(self) -> ExponentialSum:
        """The numbers ``omegahat_i``, ``1 - thetahat_i`` of ``1/C``.

        ``1/C(z) = 1 - sum_i omegahat_i z / (1 - thetahat_i z)``; the rates of the inverse
        interlace those of the filter and are the roots of ``sum_i scale_i/(x - rate_i) = 1``.
        """
        rates, scales = np.array(self.rates), np.array(self.scales)
        roots = np.empty_like(rates)
        weights = np.empty_like(rates)
        for index, rate in enumerate(rates):
            # Distance of the root from its left neighbour, so that nothing cancels.
            offsets = rates - rate
            reach = offsets[index + 1] if index + 1 < len(rates) else float(np.sum(scales))
            distance = _secular_root(offsets, scales, index, reach)
            roots[index] = rate + distance
            weights[index] = 1.0 / math.fsum(scales / (distance - offsets) ** 2)
        return ExponentialSum(roots, weights)

    def decoding(self, decay_rate: float = 0.0) -> ExponentialSum:
        """The coefficients of ``1 / ((1 - (1 - decay_rate) z) C(z))``.

        They are what the noise of one node does to later sums: all positive. ``decay_rate`` is
        0 for a running sum, and must be below every rate of the filter.
        """
        inverse = self.inverse
        constant = 1.0 / (
            1.0
            + math.fsum(s / (r - decay_rate) for r, s in zip(self.rates, self.scales, strict=True))
        )
        # At the pole, C's argument is z = 1/(1 - decay_rate).
        return ExponentialSum(
            np.concatenate([[decay_rate], inverse.rates]),
            np.concatenate([[constant], inverse.weights / (inverse.rates - decay_rate)]),
        )


def _secular_root(offsets: FloatArray, scales: FloatArray, index: int, reach: float) -> float:
    """The root of ``sum_i scales[i] / (x - offsets[i]) = 1`` in ``(0, reach]``, by bisection.

    The left side falls from plus infinity at 0 to at most 1 at ``reach``. Bisection of the
    logarithm gives full relative accuracy wherever the root lies.
    """
    high = math.log(reach)
    low = high - 60.0
    others = np.arange(len(scales)) != index
    for _ in range(80):
        middle = 0.5 * (low + high)
        point = math.exp(middle)
        rest = math.fsum(scales[others] / (point - offsets[others]))
        if scales[index] / point + rest > 1.0:
            low = middle
        else:
            high = middle
    return math.exp(0.5 * (low + high))
