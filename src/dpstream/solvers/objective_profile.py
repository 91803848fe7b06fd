"""How much a perturbed objective reveals: exact one-dimensional bounds for linear learners.

Proof in ``objective_profile.proof.md``. Two numbers say everything: the *shift*, the largest
gradient of a record over the noise's standard deviation, and the *bend*, the largest second
derivative of a record's loss over the objective's modulus.
"""

import math
from functools import lru_cache

import numpy as np
from scipy import special

from dpstream.arrays import FloatArray
from dpstream.errors import NotPrivate
from dpstream.privacy.gaussian import gaussian_delta
from dpstream.privacy.unit import Neighbours

_POINTS = 1024
_BISECTIONS = 60
_HALVINGS = 200
_LARGEST_SHIFT = 8.0
_ROUNDED_UP = 1.0 + 1e-9


def objective_delta(shift: float, *, bend: float, epsilon: float, neighbours: Neighbours) -> float:
    """An upper bound on the delta of the exact minimiser, at ``epsilon``.

    Args:
        shift: the largest length of one record's gradient over the standard deviation.
        bend: the largest second derivative of one record over the modulus.
        epsilon: at least 0.
        neighbours: what a record is hidden against.
    """
    if shift == 0.0:
        return 0.0
    if neighbours is Neighbours.ZERO_OUT:
        return max(absence_delta(shift, epsilon), presence_delta(shift, bend, epsilon))
    return replacement_delta(2.0 * shift, bend, epsilon)


def absence_delta(shift: float, epsilon: float) -> float:
    """How far outputs without the record exceed ``e^epsilon`` times those with it.

    ``2 delta_shift(epsilon)`` where ``epsilon >= shift^2 / 2``: a folded normal, and no price
    for curvature.
    """
    if epsilon >= shift**2 / 2.0:
        return min(1.0, 2.0 * gaussian_delta(shift, epsilon))
    left = 1.0 - 2.0 * math.exp(epsilon) * float(special.ndtr(-shift))
    return min(1.0, left * _ROUNDED_UP)


def presence_delta(shift: float, bend: float, epsilon: float) -> float:
    """How far outputs with the record exceed ``e^epsilon`` times those without it.

    Equal to the Gaussian mechanism's delta while the bend is small.
    """
    if bend == 0.0:
        return gaussian_delta(shift, epsilon)
    room = epsilon - math.log1p(bend)
    if room < shift**2 / 2.0:
        return 1.0
    # Up to this level it pays to bend in the middle of the region, beyond it at its border.
    level = math.sqrt(epsilon / (1.0 / bend + 0.5))
    levels = min(shift, level) * np.arange(1, _POINTS + 1) / _POINTS
    # The integrand increases: its values at right ends bound the integral from above.
    inner = float(np.sum(_best_bend(levels, bend, epsilon))) * float(levels[0]) / bend
    outer = 0.0
    if shift > level:
        outer = max(gaussian_delta(shift, epsilon) - gaussian_delta(level, epsilon), 0.0)
    return min(1.0, (inner + outer) * _ROUNDED_UP + 1e-11 * gaussian_delta(shift, epsilon))


def _best_bend(levels: FloatArray, bend: float, epsilon: float) -> FloatArray:
    """``max over x of (1 + bend) phi(x - r) - e^epsilon phi(x)`` for each level r.

    At the maximum ``q(x) = -ln(1 - r / x)`` for ``q = ln(1 + bend) + r x - r^2 / 2 - epsilon``,
    which has one root beyond r: the difference of the two sides increases.
    """
    room = epsilon - math.log1p(bend)
    zero = room / levels + levels / 2.0  # q is 0 there
    lower, upper = zero, zero + 2.0 / levels * math.log1p(bend) + 2.0
    for _ in range(_BISECTIONS):
        middle = 0.5 * (lower + upper)
        below = levels * (middle - zero) < -np.log1p(-levels / middle)
        lower, upper = np.where(below, middle, lower), np.where(below, upper, middle)
    point = 0.5 * (lower + upper)
    excess = np.exp(epsilon - 0.5 * point**2) * levels / (point - levels)
    return excess / math.sqrt(2.0 * math.pi) * _ROUNDED_UP


def replacement_delta(shift: float, bend: float, epsilon: float) -> float:
    """Delta for two records in place of one another; ``shift`` is of both together.

    ``2 delta_shift(epsilon - ln(1 + bend))``: folded, with the whole price of curvature.
    """
    room = epsilon - math.log1p(bend)
    if room < shift**2 / 2.0:
        return 1.0
    convex = (room / shift) ** 2 - shift**2 / 4.0 >= 1.0
    return min(1.0, (2.0 if convex else 4.0) * gaussian_delta(shift, room))


@lru_cache(maxsize=4096)
def largest_shift(*, bend: float, epsilon: float, delta: float, neighbours: Neighbours) -> float:
    """The largest shift that keeps (epsilon, delta), rounded down.

    Raises:
        NotPrivate: if there is none: delta is 0, or the modulus too small for the curvature.
    """
    lower, upper = 0.0, _LARGEST_SHIFT
    for _ in range(_HALVINGS):
        middle = 0.5 * (lower + upper)
        held = objective_delta(middle, bend=bend, epsilon=epsilon, neighbours=neighbours) <= delta
        lower, upper = (middle, upper) if held else (lower, middle)
        if upper - lower <= 1e-6 * upper:
            break
    if lower == 0.0:
        raise NotPrivate(
            f"no perturbation of the objective gives epsilon={epsilon:g} with delta={delta:g} at "
            f"a curvature of {bend:g} of the modulus; it needs delta > 0 and a curvature below "
            f"{math.expm1(epsilon):g}: raise the ridge"
        )
    return lower * (1.0 - 1e-9)
