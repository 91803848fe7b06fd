"""Audits of the catalogued learners, each over a small domain at the audit's budget.

Where gradients or minimisers are measured, losses are linear where the stream looks, so that a
record's shift is the same whatever was released before, and the worst one is known exactly.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dpstream.audit.evidence import Evidence
from dpstream.audit.learner import TICKS, learner_evidence, shortened
from dpstream.audit.solver import RADIUS
from dpstream.audit.strategy import AUDIT_BUDGET
from dpstream.domain.domain import Domain
from dpstream.geometry.l2_ball import L2Ball
from dpstream.learners.incremental.auto import AutoIncremental
from dpstream.learners.incremental.priv_inc_erm import PrivIncERM
from dpstream.learners.incremental.priv_inc_reg1 import PrivIncReg1
from dpstream.learners.incremental.priv_inc_reg2 import PrivIncReg2
from dpstream.learners.learner import Learner
from dpstream.learners.online.follow_the_leader import FollowTheLeader
from dpstream.learners.online.pigd import ImplicitGradientDescent
from dpstream.learners.online.pocp import POCP
from dpstream.learners.sums.running_sum import RunningSum
from dpstream.learners.window.basic_release import BasicRelease
from dpstream.learners.window.continual_release import ContinualRelease
from dpstream.learners.window.decayed_release import DecayedRelease
from dpstream.learners.window.multi_resolution import MultiResolutionRelease
from dpstream.learners.window.sliding_window import SlidingWindowRelease
from dpstream.learners.window.windowed_regression import WindowedRegression
from dpstream.losses.hinge import HingeLoss, SmoothedHingeLoss
from dpstream.losses.huber import HuberLoss
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.solvers.mirror_descent import MirrorDescent

TICK_RECORDS = 1 << 10
BLOCK_RECORDS = 4
BLOCKS = 8


@dataclass(frozen=True, kw_only=True)
class ShortLearner:
    """A learner at the size at which it is attacked.

    Attributes:
        make: the learner.
        ticks: how long the stream is; None for its horizon.
        adaptive: whether what it measures follows what it released before.
        factor: on the usual number of runs, for learners that measure few numbers.
        least_share: of the claim that the worst neighbours must reach.
    """

    make: Callable[[], Learner[Any]]
    ticks: int | None = None
    adaptive: bool = False
    factor: int = 1
    least_share: float = 0.95


def _declared(dimension: int = 2, **options: Any) -> dict[str, Any]:
    return {
        "domain": Domain.vectors(dimension, norm_bound=1.0, target_bound=1.0, **options),
        "budget": AUDIT_BUDGET,
        "unit": Unit(),
        "neighbours": Neighbours.REPLACE,
    }


def _running_sum() -> Learner[Any]:
    declared: dict[str, Any] = _declared() | {
        "domain": Domain.vectors(3, norm_bound=1.0),
        "unit": Unit(kind="user", column="user", cap=3),
    }
    return RunningSum(horizon=TICKS, count=True, tick_records=TICK_RECORDS, **declared)


def _regression() -> Learner[Any]:
    return PrivIncReg1(horizon=TICKS, tick_records=TICK_RECORDS, **_declared(intercept=True))


def _projected_regression() -> Learner[Any]:
    return PrivIncReg2(
        horizon=TICKS,
        tick_records=TICK_RECORDS,
        constraint=L2Ball(dimension=4, radius=1.0),
        # The first two features stay at least as long as they were.
        projection_seed=6,
        projected_dimension=2,
        **_declared(4),
    )


def _refits() -> Learner[Any]:
    return PrivIncERM(
        horizon=TICKS,
        tick_records=1,
        loss=SmoothedHingeLoss(width=0.5),
        constraint=L2Ball(dimension=2, radius=RADIUS),
        solver=MirrorDescent(steps=2),
        refit_every=3,
        **_declared(),
    )


def _chosen() -> Learner[Any]:
    return AutoIncremental(
        horizon=TICKS,
        constraint=None,
        tick_records=TICK_RECORDS,
        intervals=False,
        draws=1,
        **_declared(),
    )


def _windowed_regression() -> Learner[Any]:
    return WindowedRegression(decay=0.5, tick_records=TICK_RECORDS, **_declared())


def _leader() -> Learner[Any]:
    return FollowTheLeader(
        horizon=TICKS,
        loss=HingeLoss(),
        convex_set=L2Ball(dimension=2, radius=RADIUS),
        ridge=1.0,
        loss_weight=0.0,
        tick_records=TICK_RECORDS,
        **_declared(),
    )


def _perturbed() -> Learner[Any]:
    return POCP(
        releases=TICKS,
        algorithm=ImplicitGradientDescent(),
        loss=HingeLoss(),
        modulus=4.0,
        **_declared(),
    )


def _blocks(**options: Any) -> dict[str, Any]:
    # Residuals stay far beyond the threshold: the loss is linear there.
    declared: dict[str, Any] = {
        "horizon": BLOCKS,
        "loss": HuberLoss(threshold=0.05),
        "block_records": BLOCK_RECORDS,
        "ridge": 5.0,
        "radius": 50.0,
    }
    return _declared() | declared | options


SHORT_LEARNERS: Mapping[str, ShortLearner] = {
    "RunningSum": ShortLearner(make=_running_sum),
    "PrivIncReg1": ShortLearner(make=_regression),
    "PrivIncReg2": ShortLearner(make=_projected_regression),
    "PrivIncERM": ShortLearner(make=_refits),
    "DecayedRelease": ShortLearner(
        make=lambda: DecayedRelease(decay=0.5, **_blocks()), adaptive=True
    ),
    "AutoIncremental": ShortLearner(make=_chosen),
    "MultiResolutionRelease": ShortLearner(
        make=lambda: MultiResolutionRelease(levels=3, **_blocks())
    ),
    "ContinualRelease": ShortLearner(
        make=lambda: ContinualRelease(base=2, **_blocks()), adaptive=True
    ),
    "BasicRelease": ShortLearner(make=lambda: BasicRelease(base=2, **_blocks()), adaptive=True),
    "SlidingWindowRelease": ShortLearner(
        make=lambda: SlidingWindowRelease(
            window_records=3 * BLOCK_RECORDS, refresh=None, **_blocks(horizon=None)
        ),
        ticks=BLOCKS,
        adaptive=True,
    ),
    "WindowedRegression": ShortLearner(make=_windowed_regression),
    "FollowTheLeader": ShortLearner(make=_leader),
    "POCP": ShortLearner(make=_perturbed),
}


def _attack(short: ShortLearner) -> Callable[[int, Noise], Evidence]:
    def attack(runs: int, noise: Noise) -> Evidence:
        learner, _ = shortened(short.make())
        return learner_evidence(
            learner,
            runs=runs * short.factor,
            noise=noise,
            least_share=short.least_share,
            ticks=short.ticks,
            adaptive=short.adaptive,
        )

    return attack


LEARNER_AUDITS: Mapping[str, Callable[[int, Noise], Evidence]] = {
    name: _attack(short) for name, short in SHORT_LEARNERS.items()
}
