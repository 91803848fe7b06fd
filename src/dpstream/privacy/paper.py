"""The papers' own constants, for reproduction and comparison only.

Each function returns what a paper prints and raises ``NotPrivate`` where the printed constant
does not deliver the claim made for it. Where a paper writes ``log`` without a base, the base is
an argument. Nothing that is released to anyone should be calibrated here: ``calibrate`` is exact,
valid everywhere, and never noisier.
"""

import math

from dpstream.errors import ConfigurationError, NotPrivate
from dpstream.privacy.budget import Budget
from dpstream.privacy.curve import PrivacyCurve


def textbook_noise_multiplier(budget: Budget, *, numerator: float = 2.0) -> float:
    """The textbook Gaussian noise per unit of sensitivity, ``sqrt(2 ln(numerator/delta))/epsilon``.

    Printed with numerator 2 by Kasiviswanathan, Nissim and Jin (2017, theorem A.2), and with
    1.25 by Dwork and Roth (2014, theorem A.1), who prove it for epsilon < 1.

    Args:
        budget: the claim made for the noise.
        numerator: of the logarithm's argument, at least 1.

    Raises:
        NotPrivate: if this noise does not keep the budget: at delta = 1e-6, above epsilon 9.7
            (numerator 2) and 8.8 (numerator 1.25); for every epsilon if delta is 0.
    """
    if budget.delta == 0.0:
        raise NotPrivate("Gaussian noise of any scale needs delta > 0; delta is 0")
    if not numerator >= 1.0:
        raise ConfigurationError(f"numerator is {numerator!r}; the papers print 2 and 1.25")
    multiplier = math.sqrt(2.0 * math.log(numerator / budget.delta)) / budget.epsilon
    if not PrivacyCurve.gaussian(1.0 / multiplier).holds(budget.epsilon, budget.delta):
        raise NotPrivate(
            f"the textbook constant sqrt(2 ln({numerator:g}/delta))/epsilon does not give "
            f"epsilon={budget.epsilon:g} at delta={budget.delta:g}; use the tight calibration"
        )
    return multiplier


def advanced_composition_budget(budget: Budget, *, count: int) -> Budget:
    """The budget of each of ``count`` mechanisms, as the papers split one by advanced composition.

    ``epsilon' = epsilon / (2 sqrt(2 count ln(2/delta)))``, ``delta' = delta / (2 count)``
    (Kasiviswanathan, Nissim and Jin 2017, step 1 of PrivIncERM and the proof of theorem 3.1).

    Raises:
        NotPrivate: if the split does not add up to the budget: it needs
            ``epsilon <= 2 ln(2/delta)``, ``epsilon' <= 1`` and ``delta > 0``.
    """
    if budget.delta == 0.0:
        raise NotPrivate("advanced composition needs delta > 0; delta is 0")
    if count < 1:
        raise ConfigurationError(f"count is {count}; a budget is split into at least one part")
    limit = 2.0 * math.log(2.0 / budget.delta)
    epsilon = budget.epsilon / (2.0 * math.sqrt(2.0 * count * math.log(2.0 / budget.delta)))
    if budget.epsilon > limit or epsilon > 1.0:
        raise NotPrivate(
            f"the paper's split of epsilon={budget.epsilon:g} into {count} parts is proved only "
            f"for epsilon <= 2 ln(2/delta) = {limit:g} and parts of epsilon at most 1 "
            f"(here {epsilon:g}); compose curves instead"
        )
    return Budget(epsilon=epsilon, delta=budget.delta / (2.0 * count))


def logarithm(value: float, *, base: float) -> float:
    """``log`` of a paper that names no base.

    Args:
        value: positive.
        base: 2 or ``math.e`` in every reading we know; above 1.
    """
    if not base > 1.0:
        raise ConfigurationError(f"the logarithm's base is {base!r}; it must exceed 1")
    return math.log2(value) if base == 2.0 else math.log(value) / math.log(base)


def tree_noise_scale(budget: Budget, *, horizon: int, sensitivity: float, base: float) -> float:
    """TreeMech's noise per node as printed: ``log(T) sensitivity sqrt(2 ln(2/delta)) / epsilon``.

    Kasiviswanathan, Nissim and Jin (2017, appendix D, step 8 of TreeMech). A record touches
    ``floor(log2 T) + 1`` nodes, one more than the logarithm counts, and the proof composes
    (epsilon, delta) pairs without dividing delta; the noise is large enough for most horizons
    all the same, but not for the shortest.

    Raises:
        NotPrivate: if this noise on every node does not keep the budget, as at horizons 1 and 2.
    """
    if budget.delta == 0.0:
        raise NotPrivate("Gaussian noise of any scale needs delta > 0; delta is 0")
    scale = (
        logarithm(horizon, base=base)
        * sensitivity
        * math.sqrt(2.0 * math.log(2.0 / budget.delta))
        / budget.epsilon
    )
    nodes = horizon.bit_length()
    kept = scale > 0.0 and PrivacyCurve.gaussian(math.sqrt(nodes) * sensitivity / scale).holds(
        budget.epsilon, budget.delta
    )
    if not kept:
        raise NotPrivate(
            f"TreeMech's printed noise (logarithm to base {base:g}) at horizon {horizon} does "
            f"not give epsilon={budget.epsilon:g} at delta={budget.delta:g}; use the tight "
            "calibration"
        )
    return scale
