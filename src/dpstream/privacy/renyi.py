"""From Rényi divergences to delta.

A mechanism whose Rényi divergences of order alpha > 1 between neighbours are at most R(alpha)
is (epsilon, delta)-differentially private with, for *any* such alpha,
``delta = exp((alpha-1)(R(alpha)-epsilon)) (1-1/alpha)^alpha / (alpha-1)``
(Canonne, Kamath and Steinke 2020, section 2.3). With R(alpha) = alpha rho this is the
conversion of rho-zCDP. Every order gives a valid bound, so the search below need not be exact.
"""

import math
from collections.abc import Callable

import numpy as np

from dpstream.arrays import FloatArray

Divergence = Callable[[FloatArray], FloatArray]

_LOGARITHMIC_RANGE = (math.log(1e-4), math.log(1e13))
_POINTS = 201
_ROUNDS = 6
# The exponent has a few terms of at most some 1e3, each rounded once.
_RELATIVE_ERROR = 4e-12


def renyi_delta(divergence: Divergence, epsilon: float) -> float:
    """The smallest delta found over orders: an upper bound at every order tried.

    Never 0: where the bound underflows, the smallest positive float is returned.

    Args:
        divergence: an upper bound on the Rényi divergence at each order of an array.
        epsilon: at least 0.
    """
    lower, upper = _LOGARITHMIC_RANGE
    best = 0.0
    for _ in range(_ROUNDS):
        grid = np.linspace(lower, upper, _POINTS)
        exponents = _log_delta(divergence, epsilon, np.exp(grid))
        at = int(np.argmin(exponents))
        best = min(best, float(exponents[at]))
        lower, upper = grid[max(at - 1, 0)], grid[min(at + 1, _POINTS - 1)]
    return max(math.exp(best) * (1.0 + _RELATIVE_ERROR), math.ulp(0.0))


def _log_delta(divergence: Divergence, epsilon: float, above_one: FloatArray) -> FloatArray:
    orders = 1.0 + above_one
    # (1-1/alpha)^alpha / (alpha-1) = (1-1/alpha)^(alpha-1) / alpha
    return above_one * (divergence(orders) - epsilon - np.log1p(1.0 / above_one)) - np.log1p(
        above_one
    )
