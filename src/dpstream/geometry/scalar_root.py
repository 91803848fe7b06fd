"""Roots of monotone scalar functions: every dual problem here has a single multiplier."""

import math
from collections.abc import Callable

import numpy as np
from scipy import optimize

from dpstream.arrays import FloatArray

_BRENT_STEPS = 300


def decreasing_root(function: Callable[[float], float], lower: float, upper: float) -> float:
    """The root of a continuous decreasing function, by Brent's method to the last bits.

    Where rounding leaves both ends on one side, the end nearer to the root is returned. It raises
    nothing for finite values: secret points are projected by it, and an error would tell of them.
    """
    if function(lower) <= 0:
        return lower
    if function(upper) >= 0:
        return upper
    root, found = optimize.brentq(
        function,
        lower,
        upper,
        xtol=1e-300,
        rtol=1e-14,
        maxiter=_BRENT_STEPS,
        full_output=True,
        disp=False,
    )
    if found.converged:
        return float(root)
    # Halving ends at neighbouring floats, whatever the function.
    while lower < (middle := lower / 2 + upper / 2) < upper:
        lower, upper = (middle, upper) if function(middle) > 0 else (lower, middle)
    return lower / 2 + upper / 2


def positive_decreasing_root(function: Callable[[float], float], guess: float) -> float:
    """The positive root of a function of ``log x`` that decreases from plus to minus."""
    lower = upper = math.log(guess)
    width = 1.0
    while function(math.exp(lower)) < 0:
        upper = lower
        lower -= width
        width *= 2
    width = 1.0
    while function(math.exp(upper)) > 0:
        lower = upper
        upper += width
        width *= 2
    return math.exp(decreasing_root(lambda x: function(math.exp(x)), lower, upper))


def mixed_power_root(values: FloatArray, power: float, coefficient: float) -> FloatArray:
    """The ``x >= 0`` with ``x + coefficient x**power = value`` by entry, ``0 < power <= 1``.

    Newton's method in ``s = (x / value)**power``, where the equation ``s**(1/power) + c s = 1``
    is increasing and convex: from the right it decreases monotonically to the root.
    """
    result = np.zeros_like(values)
    with np.errstate(divide="ignore", over="ignore"):
        slopes = coefficient * values ** (power - 1)
    # Where the coefficient overflows, the root is zero to all digits.
    kept = slopes < 1e250
    slope = slopes[kept]
    s = np.minimum(1.0, 1 / np.maximum(slope, 1e-300))
    for _ in range(200):
        linear = s ** (1 / power)
        change = (linear + slope * s - 1) / (linear / (power * s) + slope)
        s = s - change
        if not np.any(change > 1e-15 * s):
            break
    result[kept] = values[kept] * s ** (1 / power)
    return result
