"""Slopes of scores, and of scores after an implicit step, for compiled loops.

Imported where a loop runs, for numba is slow to load. Scalar operations in a fixed order.
"""

import numpy as np

from dpstream.domain.kernel import compiled
from dpstream.losses.loss_code import (
    HINGE,
    HUBER,
    LOGISTIC,
    POISSON,
    PSEUDO_HUBER,
    QUANTILE,
    ROOT_ACCURACY,
    SMOOTHED_HINGE,
)

_NEWTON_STEPS = 400
"""Never reached: a step is at most half of the one before the last, or halves the bracket."""


@compiled()
def slope_at(loss: int, score: float, target: float, threshold: float) -> float:
    """``l'(u, y)``; at the hinge's kink the outer slope."""
    if loss == LOGISTIC:
        margin = target * score
        if margin > 0.0:
            fading = np.exp(-margin)
            return -target * fading / (1.0 + fading)
        return -target / (1.0 + np.exp(margin))
    if loss == HINGE:
        return -target if target * score < 1.0 else 0.0
    if loss == POISSON:
        return min(np.exp(min(score, 700.0)), threshold) - target
    residual = score - target
    if loss == HUBER:
        return min(max(residual, -threshold), threshold)
    if loss == PSEUDO_HUBER:
        return residual / np.hypot(1.0, residual / threshold)
    return residual


@compiled()
def _bend_at(loss: int, score: float, target: float, threshold: float, slope: float) -> float:
    """``l''(u, y)`` for the losses whose steps are roots."""
    if loss == LOGISTIC:
        return abs(slope) * (abs(target) - abs(slope))
    if loss == POISSON:
        rate = slope + target
        return rate if rate < threshold else 0.0
    return np.hypot(1.0, (score - target) / threshold) ** -3.0


@compiled()
def implicit_slope(
    loss: int, score: float, target: float, step: float, threshold: float, clip: float
) -> float:
    """The slope at v with ``v + c clipped(l'(v)) = u``; by Newton steps or bisection.

    A Newton step that is not half of the one before the last is replaced by a bisection: inside
    their bracket alone Newton steps can go back and forth for ever, and the slope of an unfinished
    search is no proximal map's, so that the iterate would not contract.
    """
    if loss == HINGE:
        size = min(abs(target), clip)
        lack = 1.0 - target * score
        if lack <= 0.0 or target == 0.0:
            return 0.0
        full = lack / (step * abs(target))
        return -min(size, full) if target > 0.0 else min(size, full)
    if loss == SMOOTHED_HINGE:
        part = (1.0 - target * score) / (threshold + step * target * target)
        slope = -target * min(max(part, 0.0), 1.0)
        return min(max(slope, -clip), clip)
    if loss == QUANTILE:
        slope = (score - target) / step
        return min(max(slope, -min(threshold, clip)), min(1.0 - threshold, clip))
    if loss != LOGISTIC and loss != PSEUDO_HUBER and loss != POISSON:
        slope = (score - target) / (1.0 + step)
        limit = min(clip, threshold) if loss == HUBER else clip
        return min(max(slope, -limit), limit)
    start = min(max(slope_at(loss, score, target, threshold), -clip), clip)
    end = score - step * start
    lower, upper = min(score, end), max(score, end)
    value = 0.5 * (lower + upper)
    slope = start
    before = last = upper - lower
    for _ in range(_NEWTON_STEPS):
        raw = slope_at(loss, value, target, threshold)
        slope = min(max(raw, -clip), clip)
        residual = value + step * slope - score
        if abs(residual) <= step * ROOT_ACCURACY:
            break
        if residual > 0.0:
            upper = value
        else:
            lower = value
        bend = _bend_at(loss, value, target, threshold, raw) if abs(raw) < clip else 0.0
        following = value - residual / (1.0 + step * bend)
        slow = 2.0 * abs(following - value) > before
        if slow or following <= lower or following >= upper:
            following = 0.5 * (lower + upper)
        if following == value:
            break
        before, last = last, abs(following - value)
        value = following
    return slope
