"""When a batch solver is run on the history, and what each run may cost: public numbers.

Paper 000, section 3 (PrivIncERM): a refit every tau, all refits together within one budget. The
first record is in every refit, so what it pays is the sum of their shares.
"""

import math
from functools import cache
from typing import Literal

from dpstream.errors import ConfigurationError
from dpstream.losses.loss import SmoothLoss
from dpstream.solvers.problem import Problem

Shares = Literal["equal", "harmonic", "endless"]

PaperInterval = Literal["convex", "strongly_convex", "low_width"]

_TERMS = 1 << 16
_ROUNDED_UP = 1.0 + 2.0**-30


@cache
def endless_total() -> float:
    """An upper bound of the sum of ``1 / ((j + 1) ln(j + 1)^2)`` over j from 1 on: 2.11.

    The terms decrease: those after the N-th sum to at most the integral from N on,
    ``1 / ln(N + 1)``.
    """
    head = math.fsum(1.0 / ((j + 1) * math.log(j + 1) ** 2) for j in range(1, _TERMS + 1))
    return (head + 1.0 / math.log(_TERMS + 1)) * _ROUNDED_UP


@cache
def harmonic_total(count: int) -> float:
    """``1 + 1/2 + ... + 1/count``, rounded up."""
    return math.fsum(1.0 / j for j in range(1, count + 1)) * _ROUNDED_UP


def refit_fraction(shares: Shares, index: int, count: int | None) -> float:
    """The share of the budget of refit ``index``, from 1; the shares of all sum to at most 1.

    ``"equal"``: ``1 / l``. ``"harmonic"``: ``1 / (j H_l)``, under which the noise of every refit,
    summed over its records, is within ``sqrt(H_l)`` of what that refit would have if all were
    equally many records' (strongly convex problems). ``"endless"``: proportional to
    ``1 / (j ln(j)^2)``, j from 2 on, for streams without end.

    Args:
        shares: the rule.
        index: j.
        count: l, the number of refits, or None without an end.
    """
    if shares == "endless":
        return 1.0 / (endless_total() * (index + 1) * math.log(index + 1) ** 2)
    if count is None:
        raise ConfigurationError(
            f"shares={shares!r} divide a budget among a known number of refits; declare a "
            "horizon, or take shares='endless'"
        )
    if count == 1:
        # The whole budget: also for solvers whose calls do not compose by shares.
        return 1.0
    if shares == "equal":
        return 1.0 / (count * _ROUNDED_UP)
    return 1.0 / (index * harmonic_total(count))


def paper_interval(choice: PaperInterval, problem: Problem, epsilon: float) -> int:
    """The paper's three choices of tau, in records (000, theorem 3.1), corrected.

    ``"convex"``: ``(T d)^(1/3) / epsilon^(2/3)``. ``"strongly_convex"``:
    ``sqrt(d L / (nu |C|)) / epsilon``. ``"low_width"``: ``sqrt(T w) Gamma^(1/4) / (epsilon^(1/2)
    L^(1/4) |C|^(3/4))``, where the paper prints ``(L |C|)^(1/4)`` below, which changes when
    parameters are rescaled.

    Args:
        choice: which of them.
        problem: of the whole stream: T records, L, nu, the set.
        epsilon: the whole budget's.

    Raises:
        ConfigurationError: if the problem is not strongly convex, or not smooth, as needed.
    """
    slope, chosen = problem.lipschitz.l2, problem.convex_set
    reach = chosen.l2_radius()
    if choice == "convex":
        wanted = (problem.records * problem.dimension) ** (1.0 / 3.0) / epsilon ** (2.0 / 3.0)
    elif choice == "strongly_convex":
        if problem.strong_convexity == 0.0:
            raise ConfigurationError(
                "refit_every='strongly_convex' needs a strongly convex problem; take a "
                "RegularisedLoss, or refit_every='convex'"
            )
        wanted = math.sqrt(problem.dimension * slope / (problem.strong_convexity * reach)) / epsilon
    else:
        smooth = problem.smooth_loss
        assert isinstance(smooth, SmoothLoss)
        bend = smooth.curvature(problem.record_bound, chosen)
        wanted = (
            math.sqrt(problem.records * chosen.gaussian_width())
            * bend**0.25
            / (math.sqrt(epsilon) * slope**0.25 * reach**0.75)
        )
    return max(1, math.ceil(wanted))
