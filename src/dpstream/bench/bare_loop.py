"""Online learning at its barest: compiled steps over float64 rows, nothing private about them.

Floors for the speed of online learners: plain steps, and steps that shrink and stay in a ball,
without which regret has no bound. Imported at the first use, for numba is slow to load.
"""

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.kernel import compiled


@compiled()
def plain_steps(features: FloatArray, labels: FloatArray, step: float, point: FloatArray) -> None:
    """Gradient descent on logistic losses, a step at every record."""
    width = features.shape[1]
    for i in range(features.shape[0]):
        score = 0.0
        for j in range(width):
            score += features[i, j] * point[j]
        push = step * labels[i] / (1.0 + np.exp(labels[i] * score))
        for j in range(width):
            point[j] += push * features[i, j]


@compiled()
def projected_steps(
    features: FloatArray, labels: FloatArray, step: float, radius: float, point: FloatArray
) -> None:
    """The same with steps that shrink as the root of their number, and a projection on a ball."""
    width = features.shape[1]
    for i in range(features.shape[0]):
        score = 0.0
        for j in range(width):
            score += features[i, j] * point[j]
        push = step / np.sqrt(i + 1.0) * labels[i] / (1.0 + np.exp(labels[i] * score))
        norm = 0.0
        for j in range(width):
            point[j] += push * features[i, j]
            norm += point[j] * point[j]
        if norm > radius * radius:
            shrink = radius / np.sqrt(norm)
            for j in range(width):
                point[j] *= shrink
