"""The compiled loops of perturbed learners: one step per record, a chunk per call.

Imported at the first batch, for numba is slow to load. Scalar operations in a fixed order: the
iterate is the same for every chunking.
"""

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.kernel import compiled
from dpstream.losses.slope_kernel import implicit_slope, slope_at


@compiled()
def _product(first: FloatArray, second: FloatArray) -> float:
    # Four partial sums in a fixed order: the same on every machine, and quicker than one.
    size = second.shape[0]
    aligned = size - size % 4
    one = two = three = four = 0.0
    for j in range(0, aligned, 4):
        one += first[j] * second[j]
        two += first[j + 1] * second[j + 1]
        three += first[j + 2] * second[j + 2]
        four += first[j + 3] * second[j + 3]
    for j in range(aligned, size):
        one += first[j] * second[j]
    return (one + two) + (three + four)


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
    """GIGA: ``x <- P(x - grad f_t(x) / (alpha (t + offset)))`` onto the ball of ``radius``.

    An infinite radius leaves the projection out.
    """
    width = point.shape[0]
    features = np.empty(width)
    for i in range(rows.shape[0]):
        number = float(steps + i + 1 + offset)
        for j in range(width):
            features[j] = rows[i, j] * scales[j]
        raw = slope_at(
            loss, _product(features, point), rows[i, target_column] * scales[width], threshold
        )
        slope = min(max(raw, -clip), clip)
        push = slope / (modulus * number)
        keep = (number - 1.0) / number
        # The null record has no features: whatever its slope, it pushes nowhere.
        if radius == np.inf:
            for j in range(width):
                point[j] = keep * point[j] - push * features[j]
                total[j] += point[j]
            continue
        for j in range(width):
            point[j] = keep * point[j] - push * features[j]
        norm = _product(point, point)
        if norm > radius * radius:
            shrink = radius / np.sqrt(norm)
            for j in range(width):
                point[j] *= shrink
        for j in range(width):
            total[j] += point[j]
