"""The compiled loop of a pass of implicit steps over an L2 ball.

Imported where a pass runs, for numba is slow to load. Scalar operations in a fixed order.
"""

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.kernel import compiled
from dpstream.losses.slope_kernel import implicit_slope


@compiled()
def implicit_pass(
    features: FloatArray,
    targets: FloatArray,
    order: IntArray,
    loss: int,
    threshold: float,
    step_sizes: FloatArray,
    shrinks: FloatArray,
    weights: FloatArray,
    centre: FloatArray,
    radius: float,
    point: FloatArray,
    total: FloatArray,
) -> None:
    """Steps over the records in order, each projected on the ball; adds the weighted ends."""
    width = point.shape[0]
    for step in range(order.shape[0]):
        row, shrink = order[step], shrinks[step]
        score = square = 0.0
        for j in range(width):
            feature = features[row, j]
            point[j] = shrink * point[j] + (1.0 - shrink) * centre[j]
            score += feature * point[j]
            square += feature * feature
        push = 0.0
        if square > 0.0:
            length = step_sizes[step] * shrink
            push = length * implicit_slope(
                loss, score, float(targets[row]), length * square, threshold, np.inf
            )
        norm = 0.0
        for j in range(width):
            point[j] -= push * features[row, j]
            norm += point[j] * point[j]
        norm = np.sqrt(norm)
        factor = radius / norm if norm > radius else 1.0
        for j in range(width):
            point[j] *= factor
            total[j] += weights[step + 1] * point[j]
