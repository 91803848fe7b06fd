"""Quadratics over an L2 ball about the origin, exactly: the secular equation.

In the eigenbasis of the curvature the minimiser of ``sum h_j t_j^2 / 2 - z_j t_j`` over
``|t| <= radius`` is ``z_j / (h_j + m)``, with the multiplier ``m = 0`` if that lies inside, or else
the one root of ``|z / (h + m)| = radius``: the left side decreases in m.
"""

import numpy as np
from scipy.optimize import brentq

from dpstream.arrays import FloatArray


def ball_minimum(stiffness: FloatArray, seen: FloatArray, radius: float) -> tuple[FloatArray, bool]:
    """The minimiser in rotated parameters, and whether the ball keeps it from the free one.

    Args:
        stiffness: ``(p,)`` h, at least 0.
        seen: ``(p,)`` z.
        radius: of the ball.
    """
    size = float(np.linalg.norm(seen))
    if size == 0.0:
        return np.zeros_like(seen), False
    least, largest = float(stiffness.min()), float(stiffness.max())
    if least > 1e-300:
        free = seen / stiffness
        if float(np.linalg.norm(free)) <= radius:
            return free, False

    def surplus(multiplier: float) -> float:
        return float(np.linalg.norm(seen / (stiffness + multiplier))) - radius

    # |z| / (largest + m) <= |z / (h + m)| <= |z| / m; the margins outdo rounding.
    upper = size / radius * (1.0 + 1e-12)
    lower = max(size / radius * (1.0 - 1e-12) - largest, 1e-15 * upper)
    multiplier = lower
    if surplus(lower) > 0.0:
        multiplier = brentq(surplus, lower, upper, xtol=1e-15 * upper, rtol=1e-12)
    inside = seen / (stiffness + multiplier)
    return inside * min(1.0, radius / float(np.linalg.norm(inside))), True
