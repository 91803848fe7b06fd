"""From a budget to noise: the largest shift over noise that keeps the promise.

Everything returned here is lower than the largest admissible value by the relative ``HEADROOM``.
That is the only slack in the accounting: the ledger itself tolerates nothing. It pays for the
rounding of what callers compute from the result, such as a noise scale and back, or the square
root of a share of it, so that the parts of a budget are always chargeable.
"""

import math
from collections.abc import Callable

from dpstream.errors import ConfigurationError, NotPrivate
from dpstream.privacy.budget import Budget
from dpstream.privacy.curve import PrivacyCurve

HEADROOM = 1e-9
_ACCURACY = 1e-12
_SMALLEST_SCALE = 2.0**-100
_LARGEST_SCALE = 2.0**60


def gaussian_mu(budget: Budget) -> float:
    """The largest total shift over standard deviation for Gaussian noise.

    The analytic calibration: ``delta_mu(epsilon) <= delta`` (Balle and Wang 2018, theorem 8;
    in reverse, Dong, Roth and Su 2022, corollary 1), rounded down.

    Raises:
        NotPrivate: if the budget's delta is 0.
    """
    return calibrate(PrivacyCurve.gaussian, budget)


def gaussian_noise_multiplier(budget: Budget) -> float:
    """The smallest standard deviation per unit of L2 sensitivity: ``1 / gaussian_mu``."""
    return 1.0 / gaussian_mu(budget)


def zcdp_rho(budget: Budget) -> float:
    """The largest total rho of zero-concentrated mechanisms, rounded down.

    Raises:
        NotPrivate: if the budget's delta is 0.
    """
    return calibrate(PrivacyCurve.zcdp, budget)


def pure_epsilon(budget: Budget) -> float:
    """The largest total epsilon of purely private mechanisms, by basic composition."""
    return budget.epsilon * (1.0 - HEADROOM)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon of Gaussian noise of total shift ``mu``, at ``delta``, rounded up."""
    return PrivacyCurve.gaussian(mu).epsilon(delta)


def calibrate(curve_of_scale: Callable[[float], PrivacyCurve], budget: Budget) -> float:
    """The largest scale whose curve the budget admits, less the headroom.

    Args:
        curve_of_scale: a curve that reveals more at every larger scale.
        budget: what to keep.

    Returns:
        A scale that is admitted, within a relative ``HEADROOM`` of the largest that is.

    Raises:
        NotPrivate: if no positive scale is admitted, as for Gaussian noise and delta 0.
        ConfigurationError: if every scale is admitted: the curve does not depend on it.
    """

    def admitted(scale: float) -> bool:
        return curve_of_scale(scale).holds(budget.epsilon, budget.delta)

    lower = upper = 1.0
    while not admitted(lower):
        upper, lower = lower, 0.5 * lower
        if lower < _SMALLEST_SCALE:
            raise NotPrivate(
                f"no amount of this noise gives epsilon={budget.epsilon:g} with "
                f"delta={budget.delta:g}; Gaussian and zero-concentrated noise need delta > 0"
            )
    while admitted(upper):
        lower, upper = upper, 2.0 * upper
        if upper > _LARGEST_SCALE:
            raise ConfigurationError(
                f"epsilon={budget.epsilon:g} with delta={budget.delta:g} allows any noise, however "
                "small; declare a budget that asks for some"
            )
    while upper - lower > _ACCURACY * lower:
        middle = 0.5 * (lower + upper)
        lower, upper = (middle, upper) if admitted(middle) else (lower, middle)
    return math.nextafter(lower * (1.0 - HEADROOM), 0.0)
