"""How far one unit's records can move what a perturbed learner publishes.

Paper 004, section 3, with the declared shifts of the algorithms: of the last iterate or of the
average of all, for the neighbours and the cap, with what float64 may add in each of two worlds.
"""

import math
from typing import Literal

from scipy import special

from dpstream.learners.online.online_algorithm import (
    OnlineAlgorithm,
    SteppingAlgorithm,
    StepProblem,
    remembers,
    takes_steps,
)
from dpstream.losses.generalised_linear import SmoothGeneralisedLinearLoss
from dpstream.losses.loss_code import ROOT_ACCURACY
from dpstream.privacy.unit import Neighbours

Output = Literal["last", "average"]

_ROUNDED_UP = 1.0 + 2.0**-40
_UNIT_ROUNDOFF = 2.0**-53
_FAR = 1e3
"""Offsets from which the mean shift is bounded by an integral: digamma would lose its digits."""


def release_sensitivity(
    algorithm: OnlineAlgorithm,
    problem: StepProblem,
    *,
    steps: int,
    output: Output,
    neighbours: Neighbours,
    cap: int,
    width: int,
) -> float:
    """The largest L2 shift of the secret value released after ``steps`` steps.

    For one nulled record of the last iterate: the algorithm's declared shift. Of the average: the
    mean of the declared shifts, largest for the first record. A unit's records add up, and
    replacing one is nulling it twice. Then how far a computed value can be from the exact one, in
    each of two worlds.
    """
    if output == "last":
        shift = algorithm.shift(problem, steps)
    else:
        shift = _mean_shift(algorithm, problem, steps)
    changes = {Neighbours.ZERO_OUT: 1, Neighbours.REPLACE: 2}[neighbours]
    if takes_steps(algorithm):
        drift = float_drift(algorithm, problem, steps=steps, output=output, width=width)
    else:
        assert remembers(algorithm)
        drift = algorithm.inexactness(problem, steps)
    return (changes * cap * shift + 2.0 * drift) * _ROUNDED_UP


def _mean_shift(algorithm: OnlineAlgorithm, problem: StepProblem, steps: int) -> float:
    """The mean of the shifts of iterates 1 to ``steps``: declared as ``c / (t + t_0)``.

    Far out ``1 / x`` is at most its integral over a unit around it, by a relative ``x^-2 / 12``.
    """
    factor = problem.lipschitz / problem.modulus
    first = factor / algorithm.shift(problem, 1)
    if first >= _FAR:
        terms = math.log1p(steps / (first - 0.5))
    else:
        terms = float(special.digamma(steps + first)) - float(special.digamma(first))
    return factor * terms / steps * (1.0 + 1e-12)


def float_drift(
    algorithm: SteppingAlgorithm, problem: StepProblem, *, steps: int, output: Output, width: int
) -> float:
    """How far a computed release may be from the exact one, whatever the stream.

    Step s errs by at most ``e_s``; later steps contract it to ``(s + t_0) / (t + t_0) e_s``, for
    the declared shift is ``c / (t + t_0)``, so errors of ``e`` each amount to ``t - t (t - 1) / (2
    (t + t_0))`` times e: half of t, or all of it beside a large offset. A step rounds each
    coordinate a few times; the slope errs as the score does, times the second derivative and the
    step, for smooth losses; for a kink the implicit step is still non-expansive in the score's
    error along the record. A slope found as a root errs by its accuracy, whatever the clip.
    """
    radius = algorithm.radius(problem)
    products = (width + 16) * _UNIT_ROUNDOFF * radius
    rounding = algorithm.roundings(width) * _UNIT_ROUNDOFF * radius
    slope = (width + 16) * _UNIT_ROUNDOFF * problem.slope + ROOT_ACCURACY
    slopes = 2.0 * slope * problem.length / problem.modulus
    # t + t_0, by the declaration.
    reach = problem.lipschitz / problem.modulus / algorithm.shift(problem, steps)
    kept = max(0.5 * (steps + 2), steps - 0.5 * steps * (steps - 1) / reach)
    if isinstance(problem.loss, SmoothGeneralisedLinearLoss):
        drift = kept * rounding + 2.0 * problem.bend * products / problem.modulus
    else:
        drift = kept * (rounding + products)
    summing = steps * _UNIT_ROUNDOFF * radius if output == "average" else 0.0
    return drift + slopes + summing
