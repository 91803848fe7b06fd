"""Exact confidence bounds, and the power of the tests that rest on them.

Nothing here assumes large samples: proportions have Clopper-Pearson bounds, normal variances
chi-squared ones. Bounds of a binomial proportion and of a variance hold at every sample size;
what small samples cost is their width, and with it the power, which is stated.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta, chi2

from dpstream.arrays import FloatArray

MISS = 1e-3
"""Power is stated for errors that are missed with at most this probability."""

_THRESHOLDS = 200


def proportion_bounds(
    successes: FloatArray, trials: int, *, level: float
) -> tuple[FloatArray, FloatArray]:
    """Clopper-Pearson bounds: each side fails with probability at most ``level``."""
    low = np.asarray(beta.ppf(level, successes, trials - successes + 1), np.float64)
    high = np.asarray(beta.isf(level, successes + 1, trials - successes), np.float64)
    return np.where(successes == 0, 0.0, low), np.where(successes == trials, 1.0, high)


def epsilon_lower_bound(
    without: FloatArray, present: FloatArray, *, delta: float, false_alarm: float
) -> float:
    """An epsilon that the mechanism surely exceeds at ``delta``; 0 if none is proved.

    For an event E, ``P(E) <= exp(epsilon) P'(E) + delta`` both ways. The event is a threshold of
    the score, chosen on the first half of the runs; the second half bounds its probabilities.
    Assumes nothing of the mechanism but that runs are independent.

    Args:
        without: scores in the world without the record; larger speaks for the record.
        present: scores with it.
        delta: of the claim.
        false_alarm: the probability that the bound is wrong.
    """
    half, other = without.size // 2, present.size // 2
    if min(half, other) < 2:
        return 0.0
    thresholds = np.quantile(
        np.concatenate([without[:half], present[:other]]), np.linspace(0.001, 0.999, _THRESHOLDS)
    )
    best, chosen = -math.inf, (1.0, float(thresholds[0]))
    for sign in (1.0, -1.0):
        bounds = _event_bounds(
            without[:half], present[:other], thresholds, sign=sign, delta=delta, level=false_alarm
        )
        index = int(np.argmax(bounds))
        if bounds[index] > best:
            best, chosen = float(bounds[index]), (sign, float(thresholds[index]))
    sign, threshold = chosen
    bound = _event_bounds(
        without[half:],
        present[other:],
        np.array([threshold]),
        sign=sign,
        delta=delta,
        level=false_alarm / 2,
    )
    return max(0.0, float(bound[0]))


def _event_bounds(
    without: FloatArray,
    present: FloatArray,
    thresholds: FloatArray,
    *,
    sign: float,
    delta: float,
    level: float,
) -> FloatArray:
    """Bounds from ``score > t`` (sign 1: likelier with the record) or ``score <= t`` (-1)."""
    likely, unlikely = (present, without) if sign > 0 else (without, present)

    def counts(scores: FloatArray) -> FloatArray:
        below = np.searchsorted(np.sort(scores), thresholds, side="right").astype(np.float64)
        return scores.size - below if sign > 0 else below

    low, _ = proportion_bounds(counts(likely), likely.size, level=level)
    _, high = proportion_bounds(counts(unlikely), unlikely.size, level=level)
    return np.log(np.maximum(low - delta, 1e-300)) - np.log(np.maximum(high, 1e-300))


@dataclass(frozen=True, kw_only=True)
class GaussianFit:
    """Gaussian differential privacy, fitted: exact shift over measured noise.

    Attributes:
        mu: the estimate.
        lower: it is at least this, but for half of the false alarm.
        upper: it is at most this, but for half of the false alarm.
        freedom: degrees of freedom of the measured variance.
    """

    mu: float
    lower: float
    upper: float
    freedom: int


def fit_gaussian(
    deviations: FloatArray, *, separation: float, freedom: int, false_alarm: float
) -> GaussianFit:
    """Fit ``mu`` from noise in units of its claimed standard deviation.

    If the noise is normal with ``f`` degrees of freedom, its sum of squares over the true
    variance is chi-squared: the interval is exact.

    Args:
        deviations: centred noise over its claimed standard deviation.
        separation: the exact shift over the claimed standard deviation.
        freedom: degrees of freedom: the numbers, less the means taken from them.
        false_alarm: the probability that the interval misses mu.
    """
    squares = float(np.sum(deviations**2))

    def at(quantile: float) -> float:
        return separation * math.sqrt(quantile / squares)

    low, high = float(chi2.ppf(false_alarm / 2, freedom)), float(chi2.isf(false_alarm / 2, freedom))
    return GaussianFit(mu=at(float(freedom)), lower=at(low), upper=at(high), freedom=freedom)


def caught_scale_error(freedom: float, *, false_alarm: float) -> float:
    """The smallest relative error of a noise scale that a two-sided variance test surely finds.

    Surely: but for probability ``MISS``, whether the scale is too small or too large by that
    much. Infinite where no error of the scale is found for certain.
    """
    if freedom < 1:
        return math.inf
    least, greatest = (
        float(chi2.ppf(false_alarm / 2, freedom)),
        float(chi2.isf(false_alarm / 2, freedom)),
    )
    too_small = 1.0 - math.sqrt(least / float(chi2.isf(MISS, freedom)))
    too_large = math.sqrt(greatest / float(chi2.ppf(MISS, freedom))) - 1.0
    return max(too_small, too_large)
