"""The compiled loops of perturbed learners: one step per record, a chunk per call.

Imported at the first batch, for numba is slow to load. Scalar operations in a fixed order: the
iterate is the same for every chunking.
"""

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.kernel import compiled
from dpstream.learners.online.online_algorithm import ROOT_ACCURACY

LOGISTIC, SQUARED, HUBER, HINGE = 0, 1, 2, 3
"""Losses that the loops know."""

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
    residual = score - target
    if loss == HUBER:
        return min(max(residual, -threshold), threshold)
    return residual


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
    if loss != LOGISTIC:
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
        bend = abs(raw) * (abs(target) - abs(raw)) if abs(raw) < clip else 0.0
        following = value - residual / (1.0 + step * bend)
        slow = 2.0 * abs(following - value) > before
        if slow or following <= lower or following >= upper:
            following = 0.5 * (lower + upper)
        if following == value:
            break
        before, last = last, abs(following - value)
        value = following
    return slope


@compiled()
def implicit_steps(
    rows: FloatArray,
    scales: FloatArray,
    target_column: int,
    loss: int,
    threshold: float,
    clip: float,
    modulus: float,
    steps: int,
    point: FloatArray,
    total: FloatArray,
) -> None:
    """IGD: ``x <- argmin |x' - x|^2 / 2 + f_t(x') / (alpha t)``, and the sum of the iterates."""
    width = point.shape[0]
    for i in range(rows.shape[0]):
        number = float(steps + i + 1)
        rate = 1.0 / (modulus * number)
        keep = number / (number + 1.0)
        score = square = 0.0
        for j in range(width):
            feature = rows[i, j] * scales[j]
            score += feature * point[j]
            square += feature * feature
        slope = 0.0
        if square > 0.0:
            slope = implicit_slope(
                loss,
                keep * score,
                rows[i, target_column] * scales[width],
                keep * rate * square,
                threshold,
                clip,
            )
        push = keep * rate * slope
        for j in range(width):
            point[j] = keep * point[j] - push * (rows[i, j] * scales[j])
            total[j] += point[j]


@compiled()
def gradient_steps(
    rows: FloatArray,
    scales: FloatArray,
    target_column: int,
    loss: int,
    threshold: float,
    clip: float,
    modulus: float,
    offset: int,
    radius: float,
    steps: int,
    point: FloatArray,
    total: FloatArray,
) -> None:
    """GIGA: ``x <- P(x - grad f_t(x) / (alpha (t + offset)))`` onto the ball of ``radius``."""
    width = point.shape[0]
    for i in range(rows.shape[0]):
        number = float(steps + i + 1 + offset)
        score = square = 0.0
        for j in range(width):
            feature = rows[i, j] * scales[j]
            score += feature * point[j]
            square += feature * feature
        slope = 0.0
        if square > 0.0:
            raw = slope_at(loss, score, rows[i, target_column] * scales[width], threshold)
            slope = min(max(raw, -clip), clip)
        push = slope / (modulus * number)
        keep = (number - 1.0) / number
        norm = 0.0
        for j in range(width):
            point[j] = keep * point[j] - push * (rows[i, j] * scales[j])
            norm += point[j] * point[j]
        if norm > radius * radius:
            shrink = radius / np.sqrt(norm)
            for j in range(width):
                point[j] *= shrink
        for j in range(width):
            total[j] += point[j]
