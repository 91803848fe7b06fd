"""The compiled loops of perturbed learners: one step per record, a chunk per call.

Imported at the first batch, for numba is slow to load. Scalar operations in a fixed order: the
iterate is the same for every chunking.
"""

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.kernel import compiled
from dpstream.losses.slope_kernel import implicit_slope, slope_at


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
