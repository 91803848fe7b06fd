"""Privacy-loss distributions of mixtures, through dp-accounting and nothing else of it.

Each part has a *dominating pair*: two distributions whose hockey-stick divergence H bounds that
of the mechanism on any neighbours, at every epsilon. The product of the parts' pairs dominates
their adaptive composition (Zhu, Dong and Wang 2022), so privacy losses add as independent
variables. The parts' H at g:

* Gaussian: ``gaussian_delta``;
* pure epsilon: randomised response, ``(e^epsilon - e^g) / (1 + e^epsilon)`` on
  [-epsilon, epsilon] (Kairouz, Oh and Viswanath 2015);
* exponential mechanism of range epsilon: ``(1 - e^((g-epsilon)/2))^2 / (1 - e^-epsilon)`` on
  [-epsilon, epsilon]. A loss of range epsilon lies in some [t - epsilon, t] with t in
  [0, epsilon], where the two-point pair on the ends is the worst (Dong, Durfee and Rogers 2020):
  it has ``H(g) = (e^-t - e^-epsilon)(e^t - e^g) / (1 - e^-epsilon)``, largest at
  ``t = (g + epsilon) / 2``. Being the maximum of convex functions of e^g, this is the H of a pair
  of its own, so t may differ from step to step, adaptively.

H is discretised by connecting dots (Doroshenko et al. 2022), which never lowers it. Only
dp-accounting's arithmetic on distributions is used, not its accountants.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, cast

import numpy as np

from dpstream.privacy.gaussian import gaussian_delta

Steps = tuple[tuple[float, int], ...]

# The grid resolves the standard deviation S of the total loss of N steps by S / (256 sqrt N):
# connecting dots a distance h apart adds at most h^2/4 to a step's variance, so 4e-6 to S^2.
# A Gaussian part that is small beside large pure steps still shapes the curve between their
# losses, so its own deviation is resolved too.
_RESOLUTION = 256.0
_GAUSSIAN_RESOLUTION = 64.0
_LARGEST_GRID = 2**19
_DOTS = 4000
_GAUSSIAN_REACH = 9.5
_RANGE_DOTS = 1000
# What Fourier transforms may get wrong, summed over absolute errors of all masses, in units of
# 2^-52. Measured against exact convolutions: at most 236 for convolving two parts (the widest
# grid), and 4 per step for powers of one part (up to a million steps). Delta itself, in which the
# errors cancel, was wrong by at most 1 unit per part or step.
_ROUND_OFF_PER_PART = 512
_ROUND_OFF_PER_STEP = 16


class _Distribution(Protocol):
    """The part of dp-accounting's distributions that is relied on."""

    def self_compose(self, num_times: int) -> "_Distribution": ...

    def to_dense_pmf(self) -> "_Distribution": ...

    def compose(self, other: "_Distribution") -> "_Distribution": ...

    def get_delta_for_epsilon(self, epsilon: float) -> float: ...


@dataclass(frozen=True)
class LossDistribution:
    """A composition's privacy loss, discretised so that its delta is never too small."""

    distribution: _Distribution
    round_off: float

    def delta(self, epsilon: float) -> float:
        """An upper bound on the composition's hockey-stick divergence at ``epsilon``."""
        value = float(self.distribution.get_delta_for_epsilon(epsilon))
        return max(value, 0.0) + self.round_off


@lru_cache(maxsize=32)
def loss_distribution(mu: float, pure: Steps, exponential: Steps) -> LossDistribution:
    """The privacy-loss distribution of a composition.

    Args:
        mu: of all Gaussian parts together; 0 for none.
        pure: pairs of a pure part's positive epsilon and its number of repetitions.
        exponential: the same of exponential mechanisms and their ranges.
    """
    steps = int(mu > 0.0) + sum(count for _, count in pure + exponential)
    spacing = _spacing(mu, pure, exponential, steps)
    parts = [
        _connected(spacing, _range_dots(epsilon, spacing, 2), _pure_divergence(epsilon), count)
        for epsilon, count in pure
    ]
    parts += [
        _connected(
            spacing,
            _range_dots(epsilon, spacing, _RANGE_DOTS),
            _exponential_divergence(epsilon),
            count,
        )
        for epsilon, count in exponential
    ]
    if mu > 0.0:
        reach = _GAUSSIAN_REACH * mu + 0.5 * mu * mu
        dots = _range_dots(reach, spacing, _DOTS)
        parts.append(_connected(spacing, dots, _gaussian_divergence(mu), 1))
    total = parts[0]
    for part in parts[1:]:
        total = total.compose(part)
    units = _ROUND_OFF_PER_PART * len(parts) + _ROUND_OFF_PER_STEP * steps
    return LossDistribution(total, units * 2.0**-52)


def _spacing(mu: float, pure: Steps, exponential: Steps, steps: int) -> float:
    if not (mu or exponential) and len(pure) == 1:
        return pure[0][0]  # randomised response alone lives on the multiples of its epsilon
    squares = math.fsum(
        [mu * mu]
        + [count * epsilon**2 for epsilon, count in pure]
        + [count * epsilon**2 / 4.0 for epsilon, count in exponential]
    )
    deviation = math.sqrt(squares)
    reach = mu * (_GAUSSIAN_REACH + 0.5 * mu) + math.fsum(
        min(
            count * epsilon, count * epsilon**2 / 2.0 + _GAUSSIAN_REACH * math.sqrt(count) * epsilon
        )
        for epsilon, count in pure + exponential
    )
    finest = deviation / (_RESOLUTION * math.sqrt(steps))
    if mu:
        finest = min(finest, mu / _GAUSSIAN_RESOLUTION)
    spacing = max(finest, 2.0 * reach / _LARGEST_GRID)
    smallest = min((epsilon for epsilon, _ in pure + exponential), default=spacing)
    # A spacing that divides the smallest range puts its ends on the grid exactly.
    return smallest / math.ceil(smallest / spacing) if smallest > spacing else spacing


def _range_dots(reach: float, spacing: float, number: int) -> list[int]:
    """Grid points from -reach to reach: about ``number`` of them, and the ends from both sides."""
    end = math.ceil(reach / spacing)
    stride = max(1, 2 * end // number)
    return sorted({*range(-end, end, stride), -end + 1, end - 1, end})


def _connected(
    spacing: float, dots: list[int], divergence: Callable[[float], float], count: int
) -> _Distribution:
    # Imported here: it takes a second, and no stream of Gaussian noise alone needs it.
    from dp_accounting.pld import pld_pmf

    values = np.array([divergence(dot * spacing) for dot in dots])
    # Rounding may leave a value below its right neighbour, which no divergence is: raise it.
    values = np.maximum.accumulate(values[::-1])[::-1]
    with np.errstate(over="ignore"):
        part = cast(
            "_Distribution", pld_pmf.create_pmf_pessimistic_connect_dots(spacing, dots, values)
        )
    dense = part.to_dense_pmf()
    return dense if count == 1 else dense.self_compose(count)


def _pure_divergence(epsilon: float) -> Callable[[float], float]:
    def divergence(at: float) -> float:
        if abs(at) > epsilon:
            return max(0.0, -math.expm1(at))
        return -math.expm1(at - epsilon) / (1.0 + math.exp(-epsilon))

    return divergence


def _exponential_divergence(epsilon: float) -> Callable[[float], float]:
    def divergence(at: float) -> float:
        if abs(at) > epsilon:
            return max(0.0, -math.expm1(at))
        return math.expm1(0.5 * (at - epsilon)) ** 2 / -math.expm1(-epsilon)

    return divergence


def _gaussian_divergence(mu: float) -> Callable[[float], float]:
    def divergence(at: float) -> float:
        if at >= 0.0:
            return gaussian_delta(mu, at)
        # The pair is symmetric: H(g) = 1 - e^g + e^g H(-g).
        return min(1.0, -math.expm1(at) + math.exp(at) * gaussian_delta(mu, -at))

    return divergence


def sampled_gaussian_delta(mu: float, rate: float, count: int, epsilon: float) -> float:
    """Delta of ``count`` adaptive Gaussian measurements of Poisson samples, an upper bound.

    Each measurement includes every record independently with probability ``rate``, unknown to
    the observer; neighbours differ by one record that is null in one of them. With
    ``P = (1 - rate) N(0, 1) + rate N(mu, 1)`` and ``Q = N(0, 1)``, the pairs (P, Q) and (Q, P)
    dominate the two directions (Zhu, Dong and Wang 2022, theorem 11), where

    * ``H_g(P, Q) = rate H_h`` of the Gaussian pair, ``e^h = (e^g - 1 + rate) / rate``, and
      ``1 - e^g`` where that is not positive;
    * ``H_g(Q, P) = 1 - e^g + e^g H_-g(P, Q)``.

    Args:
        mu: shift over standard deviation of one measurement that includes the record.
        rate: in (0, 1].
        count: of measurements, at least 1.
        epsilon: at least 0.
    """
    gaussian = _gaussian_divergence(mu)

    def joined(at: float) -> float:
        odds = 1.0 + math.expm1(at) / rate
        return rate * gaussian(math.log(odds)) if odds > 0.0 else -math.expm1(at)

    def left(at: float) -> float:
        return min(1.0, max(0.0, -math.expm1(at) + math.exp(at) * joined(-at)))

    deviation = rate * math.sqrt(math.expm1(mu * mu))
    single = math.log1p(rate * math.expm1(_GAUSSIAN_REACH * mu + 0.5 * mu * mu))
    total = min(
        count * single,
        single + count * deviation**2 + _GAUSSIAN_REACH * math.sqrt(count) * deviation,
    )
    spacing = max(deviation / _RESOLUTION, 2.0 * total / _LARGEST_GRID)
    dots = _range_dots(single, spacing, _DOTS)
    round_off = (_ROUND_OFF_PER_PART + _ROUND_OFF_PER_STEP * count) * 2.0**-52
    return max(
        LossDistribution(_connected(spacing, dots, divergence, count), round_off).delta(epsilon)
        for divergence in (joined, left)
    )
