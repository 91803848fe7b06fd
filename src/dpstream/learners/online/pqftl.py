"""PQFTL: quadratic losses by following the exact leader of private moments (paper 004, section 4).

The problem is PrivIncReg1's with a penalty per record, and so is the learner: one stacked sum of
moments in place of two private sums at half the budget each. Its proof is
``incremental/priv_inc_reg1.proof.md``, which says what of Algorithm 4 was changed.
"""

import math

from dpstream.domain.domain import Domain
from dpstream.geometry.declaration import require_positive
from dpstream.learners.incremental.priv_inc_reg1 import PrivIncReg1
from dpstream.mechanisms.continual.choice import AUTO
from dpstream.mechanisms.continual.strategy import Strategy
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit


def pqftl_radius(alpha: float) -> float:
    """A bound on every leader for records and targets in the unit ball.

    The leader ``(t alpha I + V)^{-1} u`` is at most ``|u| / (t alpha) <= 1 / alpha``; and with
    ``u = X' y``, ``|(X' X + t alpha I)^{-1} X'| <= 1 / (2 sqrt(t alpha))`` and ``|y| <= sqrt(t)``
    give ``1 / (2 sqrt(alpha))``. (For bounds R and Y: ``min(R Y / alpha, Y / (2 sqrt(alpha)))``;
    the printed ``2 R / alpha`` is false in general.)
    """
    return min(1.0 / alpha, 0.5 / math.sqrt(alpha))


def pqftl(
    *,
    domain: Domain,
    budget: Budget,
    unit: Unit,
    neighbours: Neighbours,
    horizon: int | None,
    alpha: float,
    strategy: str | Strategy = AUTO,
    intervals: bool = True,
) -> PrivIncReg1:
    """The learner of Algorithm 4, on ``(y - <v, x>)^2 / 2 + (alpha / 2) |x|^2`` per record.

    Args:
        domain: what of a record counts, with at least one target.
        budget: of everything published.
        unit: whose contribution is hidden.
        neighbours: what it is hidden against.
        horizon: how many ticks may be closed, or None for a stream without end.
        alpha: the penalty per record.
        strategy: of the continual sum of moments.
        intervals: whether releases carry standard errors and intervals, which take most of a
            release's time where the leader is restricted.
    """
    require_positive("alpha", alpha, otherwise="the leader needs strong convexity")
    return PrivIncReg1(
        domain=domain,
        budget=budget,
        unit=unit,
        neighbours=neighbours,
        horizon=horizon,
        strategy=strategy,
        penalty=alpha,
        radius=None if domain.intercept else pqftl_radius(alpha),
        intervals=intervals,
    )
