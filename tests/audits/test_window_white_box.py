"""The worst neighbours of block learners, found by search: shifts against every fit's noise."""

from typing import Any

import numpy as np
import pytest
from watched_fits import watched_fits

from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.learners.window.basic_release import BasicRelease
from dpstream.learners.window.block_learner import BlockLearner
from dpstream.learners.window.continual_release import ContinualRelease
from dpstream.learners.window.decayed_release import DecayedRelease
from dpstream.learners.window.fit import FitPlan
from dpstream.learners.window.multi_resolution import MultiResolutionRelease
from dpstream.learners.window.sliding_window import SlidingWindowRelease
from dpstream.losses.huber import HuberLoss
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.event import GaussianEvent, PureEvent
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.solvers.minimiser import Target, minimise

DOMAIN = Domain.vectors(3, norm_bound=1.0, target_bound=1.0)
RECORDS = 4
BLOCKS = 14


def learners(neighbours: Neighbours, noise: str) -> list[BlockLearner]:
    settings: dict[str, Any] = {
        "domain": DOMAIN,
        "budget": Budget(epsilon=2.0, delta=1e-6),
        "unit": Unit(),
        "neighbours": neighbours,
        "horizon": BLOCKS,
        "loss": HuberLoss(threshold=0.05),
        "block_records": RECORDS,
        "ridge": 5.0,
        "radius": 50.0,
        "noise": noise,
    }
    return [
        MultiResolutionRelease(levels=3, **settings),
        ContinualRelease(base=2, **settings),
        ContinualRelease(base=2, updates="refit", **settings),
        BasicRelease(base=2, **settings),
        SlidingWindowRelease(window_records=5 * RECORDS, refresh=None, **settings),
        SlidingWindowRelease(window_records=4 * RECORDS, refresh=None, **settings),
        SlidingWindowRelease(window_records=3 * RECORDS, **settings),
        DecayedRelease(decay=0.5, **settings),
    ]


def paid(
    learner: BlockLearner,
    fits: list[tuple[FitPlan, int, Any]],
    first: Batch,
    second: Batch,
    position: int,
) -> float:
    """The total cost of the difference of two streams, given the same released centres."""
    total = 0.0
    for plan, start, centre in fits:
        if not start <= position // RECORDS < start + plan.size:
            continue
        target = Target(
            problem=learner.solver.problem(plan.size), modulus=plan.modulus, centre=centre
        )
        span = slice(start * RECORDS, (start + plan.size) * RECORDS)
        ends = [
            minimise(target, Batch(batch.rows[span].copy(), 3), tolerance=plan.tolerance).point
            for batch in (first, second)
        ]
        ratio = float(np.linalg.norm(ends[0] - ends[1])) / plan.noise.scale
        total += ratio**2 if plan.noise.kind == "gaussian" else ratio
    return total


@pytest.mark.parametrize("noise", ["gaussian", "spherical_laplace"])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_window_worst_neighbours_pay_the_claim_and_no_more(
    neighbours: Neighbours, noise: str
) -> None:
    draw = public_generator(4)
    for learner in learners(neighbours, noise):
        (event,) = learner.opening_events()
        claim = event.mu**2 if isinstance(event, GaussianEvent) else None
        if isinstance(event, PureEvent):
            claim = event.epsilon
        assert claim is not None
        rows = draw.normal(size=(BLOCKS * RECORDS, 3))
        batch = DOMAIN.admit(rows, draw.uniform(-1, 1, len(rows)))
        fits = watched_fits(learner, batch)
        worst = 0.0
        for block in range(BLOCKS):
            position = block * RECORDS + 1
            for attempt in range(6):
                # A record with a large residual, the null record, or the opposite one.
                direction = draw.normal(size=3)
                direction *= 1.0 / np.linalg.norm(direction)
                one, other = batch.rows.copy(), batch.rows.copy()
                opposite = neighbours is Neighbours.REPLACE and attempt
                target = 1.0 if attempt % 2 else -1.0
                pair = DOMAIN.admit(
                    np.array([direction, -direction]), np.array([target, target])
                ).rows
                one[position] = pair[0]
                other[position] = pair[1] if opposite else 0.0
                worst = max(worst, paid(learner, fits, Batch(one, 3), Batch(other, 3), position))
        assert worst <= claim
        # The slack: certificates, rounding, and gradients bounded a little above the threshold.
        assert worst >= 0.97 * claim
