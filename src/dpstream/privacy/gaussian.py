"""The privacy curve of Gaussian noise, in floating point that never claims too little.

The pair N(0, 1), N(mu, 1) has the hockey-stick divergence
``delta_mu(epsilon) = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu)``
(Balle and Wang 2018, theorem 8; Dong, Roth and Su 2022, corollary 1).
"""

import math
import sys

import numpy as np
from scipy import special

# With m = epsilon/mu, h = mu/2, a = h - m and the Mills ratio R(x) = (1 - Phi(x)) / phi(x):
#     delta = Phi(a) - phi(a) R(m + h) = phi(a) (R(m - h) - R(m + h))
#           = 2 phi(a) * integral over s > 0 of exp(-m s - s^2/2) sinh(h s) ds.
# The first forms lose digits when their terms are close; the last has a positive integrand and
# loses none, so it is used there. Measured against 60-digit arithmetic over mu in [1e-4, 100]
# and epsilon in [0, 500], the relative error stays below 4e-13 (the rounding of a^2/2 in the
# exponent, at most 745, dominates); the bound returned is raised by ten times that.
RELATIVE_ERROR = 4e-12

_SMALLEST = sys.float_info.min
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(64)  # on [-1, 1]
_NEGLIGIBLE_EXPONENT = 46.0


def gaussian_delta(mu: float, epsilon: float) -> float:
    """An upper bound on ``delta_mu(epsilon)``, within ``RELATIVE_ERROR`` of it.

    Never 0 for positive ``mu``, since Gaussian noise is never purely private: below the smallest
    normal float, where digits are lost, that float is returned.

    Args:
        mu: shift over standard deviation, at least 0.
        epsilon: at least 0.
    """
    if mu == 0.0:
        return 0.0
    value = _gaussian_delta(mu, epsilon) * (1.0 + RELATIVE_ERROR)
    return min(1.0, max(value, _SMALLEST))


def _gaussian_delta(mu: float, epsilon: float) -> float:
    half = 0.5 * mu
    middle = epsilon / mu
    argument = half - middle
    if argument < -40.0:
        return 0.0
    density = math.exp(-0.5 * argument * argument) / math.sqrt(2.0 * math.pi)
    above = _mills(middle + half)
    if argument > 5.0:
        return float(special.ndtr(argument)) - density * above
    below = _mills(-argument)
    if above < 0.5 * below:
        return density * (below - above)
    # exp(-m s - s^2/2) sinh(h s) < exp(-46) beyond the positive root of
    # s^2/2 + (m - h) s = 46: what is cut off is below the rounding of what is kept.
    reach = argument + math.sqrt(argument * argument + 2.0 * _NEGLIGIBLE_EXPONENT)
    points = 0.5 * reach * (1.0 + _POINTS)
    integrand = np.exp(-(middle + 0.5 * points) * points) * np.sinh(half * points)
    return density * reach * float(np.dot(_WEIGHTS, integrand))


def _mills(x: float) -> float:
    return math.sqrt(0.5 * math.pi) * float(special.erfcx(x * math.sqrt(0.5)))
