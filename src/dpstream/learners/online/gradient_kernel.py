"""The compiled loop of gradient stacks: one pass over a chunk of records, sums in integers.

Imported at the first batch, for numba is slow to load. Integer sums whose partial sums stay below
2^53 are exact in float64 in every order, so they alone may be reordered; what is done to a row is
scalar and in a fixed order, so a row's part is the same in every chunk.
"""

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.kernel import compiled
from dpstream.losses.loss_code import HINGE, HUBER, LOGISTIC
from dpstream.losses.slope_kernel import slope_at

_GRID = 2.0**20


@compiled({"fastmath": {"reassoc", "nsz"}})
def _integer_product(features: FloatArray, factors: FloatArray) -> float:
    total = 0.0
    for j in range(features.shape[0]):
        total += features[j] * factors[j]
    return total


@compiled()
def _value_and_slope(
    loss: int, score: float, target: float, threshold: float
) -> tuple[float, float]:
    """``l(u, y)`` and its slope."""
    if loss == LOGISTIC:
        # Both share one exponential.
        margin = target * score
        fading = np.exp(-abs(margin))
        value = np.log(1.0 + fading)
        if margin > 0.0:
            return value, -target * fading / (1.0 + fading)
        return value - margin, -target / (1.0 + fading)
    slope = slope_at(loss, score, target, threshold)
    if loss == HINGE:
        return max(1.0 - target * score, 0.0), slope
    residual = abs(score - target)
    if loss == HUBER and residual > threshold:
        return threshold * (residual - 0.5 * threshold), slope
    return 0.5 * residual * residual, slope


@compiled()
def add_rows(
    rows: FloatArray,
    first: int,
    integers: FloatArray,
    unit: float,
    target_column: int,
    loss: int,
    threshold: float,
    limit: float,
    loss_bound: float,
    gradient: FloatArray,
    squares: FloatArray,
    extras: FloatArray,
) -> None:
    """Add the stack of rows, few enough that every sum stays below 2^53.

    Args:
        rows: admitted rows: presence, features, targets.
        first: the first column that has a parameter.
        integers: the parameters' integers.
        unit: what one unit of row times parameter is worth as a score.
        target_column: where the target is.
        loss: its code.
        threshold: of a Huber loss.
        limit: the slopes' bound in grid units.
        loss_bound: of the measured loss.
        gradient: takes ``sum q z``.
        squares: takes ``sum z^2``, or is empty.
        extras: takes the sum of the losses' shares, and the count.
    """
    width = gradient.shape[0]
    wanted = squares.shape[0] > 0
    measured = loss_bound > 0.0
    inner = limit * (1.0 - 2.0**-40)
    for i in range(rows.shape[0]):
        present = rows[i, 0]
        if present == 0.0:
            continue
        features = rows[i][first : first + width]
        score = _integer_product(features, integers) * unit
        target = rows[i, target_column] * (1.0 / _GRID)
        if measured:
            value, slope = _value_and_slope(loss, score, target, threshold)
            share = np.floor(min(max(value, 0.0), loss_bound) * (_GRID / loss_bound))
            if not 0.0 <= share <= _GRID:
                share = _GRID
            extras[0] += share * present
        else:
            slope = slope_at(loss, score, target, threshold)
        quantised = np.trunc(min(max(slope * _GRID, -inner), inner))
        # A theorem on integers: whatever floats did, a slope past its bound counts for nothing.
        if not abs(quantised) <= limit:
            quantised = 0.0
        for j in range(width):
            gradient[j] += quantised * features[j]
        if wanted:
            for j in range(width):
                squares[j] += features[j] * features[j]
        extras[1] += present * present
