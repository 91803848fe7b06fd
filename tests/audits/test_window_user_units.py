"""A user's records spread over blocks: every fit that one of them reaches pays its own slack."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from dpstream.domain.domain import Domain
from dpstream.learners.window.block_learner import BlockLearner
from dpstream.learners.window.continual_release import ContinualRelease
from dpstream.learners.window.multi_resolution import MultiResolutionRelease
from dpstream.learners.window.sliding_window import SlidingWindowRelease
from dpstream.losses.logistic import LogisticLoss
from dpstream.privacy.budget import Budget
from dpstream.privacy.event import GaussianEvent, PureEvent
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.solvers.output_perturbation import minimiser_sensitivity

CAP, BLOCKS, RECORDS = 40, 64, 50


def learners(neighbours: Neighbours, noise: str) -> list[BlockLearner]:
    settings: dict[str, Any] = {
        "domain": Domain.vectors(60, norm_bound=1.0, target_bound=1.0),
        "budget": Budget(epsilon=0.5, delta=1e-6),
        "unit": Unit(kind="user", cap=CAP, column="id"),
        "neighbours": neighbours,
        "horizon": BLOCKS,
        "loss": LogisticLoss(),
        "block_records": RECORDS,
        "ridge": 1.0,
        "radius": 5.0,
        "noise": noise,
    }
    return [
        SlidingWindowRelease(window_records=RECORDS, **settings),
        SlidingWindowRelease(window_records=7 * RECORDS, refresh=None, **settings),
        MultiResolutionRelease(levels=4, **settings),
        ContinualRelease(base=2, **settings),
    ]


def largest_shift(learner: BlockLearner, size: int, held: int) -> tuple[float, float]:
    """What ``held`` records can move one fit's minimiser, and the scale of its noise."""
    plan = learner.solver.plan(size, learner.ridge)
    problem = replace(learner.solver.problem(size), unit=Unit())
    exact, slack = (
        minimiser_sensitivity(problem, modulus=plan.modulus, tolerance=tolerance, exponent=exponent)
        for tolerance, exponent in ((0.0, None), (plan.tolerance, plan.noise.exponent))
    )
    return held * exact + (slack - exact), plan.noise.scale


@pytest.mark.parametrize("noise", ["gaussian", "spherical_laplace"])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_a_user_pays_no_more_than_the_claim_wherever_its_records_stand(
    neighbours: Neighbours, noise: str
) -> None:
    """The tolerance and the rounding of a fit do not shrink with the records a user has in it."""
    places = {
        "one block": [3] * CAP,
        "all blocks": list(range(CAP)),
        "two blocks": [3] * (CAP - 1) + [9],
        "every other block": [2 * index for index in range(BLOCKS // 2)],
    }
    for learner in learners(neighbours, noise):
        (event,) = learner.opening_events()
        for name, held in places.items():
            records = Counter(held)
            total = 0.0
            for closed in range(1, BLOCKS + 1):
                for fit in learner.rule.step(closed).fits:
                    inside = sum(records[block] for block in range(fit.start, fit.end))
                    if inside:
                        shift, scale = largest_shift(learner, fit.size, inside)
                        total += (shift / scale) ** (2 if noise == "gaussian" else 1)
            if isinstance(event, GaussianEvent):
                assert total <= event.mu**2, (learner.name, name)
            else:
                assert isinstance(event, PureEvent)
                assert total <= event.epsilon, (learner.name, name)
