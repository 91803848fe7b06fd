"""Small streams of the learners that have no window, each with its records, to be killed.

Losses are curved and noise is moderate, so that what is released depends on everything before.
"""

from typing import Any

from dpstream.domain.domain import Domain
from dpstream.engine.schedule import EveryRecords
from dpstream.engine.stream import Stream
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
from dpstream.losses.logistic import LogisticLoss
from dpstream.mechanisms.continual.window_tree import WindowTree
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.solvers.mirror_descent import MirrorDescent
from dpstream.testing.small_stream import small_records
from dpstream.testing.small_window import Made

TICK = 10
_SETTINGS: dict[str, Any] = {
    "domain": Domain.vectors(2, norm_bound=1.0, target_bound=1.0),
    "budget": Budget(epsilon=1.0, delta=1e-6),
    "unit": Unit(),
    "neighbours": Neighbours.ZERO_OUT,
}


def _stream(
    learner: Learner[Any],
    ticks: int,
    insecure_seed: int | None,
    *,
    dimension: int = 3,
) -> Made:
    stream = Stream(
        learner=learner, schedule=EveryRecords(records=TICK), insecure_seed=insecure_seed
    )
    return stream, small_records(TICK * ticks, dimension=dimension)


def sums(*, ticks: int, insecure_seed: int | None) -> Made:
    """Running sums for ever."""
    settings: dict[str, Any] = _SETTINGS | {"domain": Domain.vectors(3, norm_bound=1.0)}
    learner = RunningSum(horizon=None, count=True, tick_records=TICK, **settings)
    return _stream(learner, ticks, insecure_seed)


def expiring(*, ticks: int, insecure_seed: int | None) -> Made:
    """Sums whose records are published exactly once they are old."""
    settings: dict[str, Any] = _SETTINGS | {"domain": Domain.vectors(3, norm_bound=1.0)}
    learner = RunningSum(horizon=None, strategy=WindowTree(3), tick_records=TICK, **settings)
    return _stream(learner, ticks, insecure_seed)


def regression(*, ticks: int, insecure_seed: int | None) -> Made:
    """Regression on one continual sum of moments."""
    learner = PrivIncReg1(horizon=ticks, tick_records=TICK, **_SETTINGS)
    return _stream(learner, ticks, insecure_seed)


def projected(*, ticks: int, insecure_seed: int | None) -> Made:
    """Regression on randomly projected features."""
    settings: dict[str, Any] = _SETTINGS | {
        "domain": Domain.vectors(6, norm_bound=1.0, target_bound=1.0)
    }
    learner = PrivIncReg2(
        horizon=ticks,
        tick_records=TICK,
        constraint=L2Ball(dimension=6, radius=1.0),
        projection_seed=6,
        projected_dimension=3,
        **settings,
    )
    return _stream(learner, ticks, insecure_seed, dimension=7)


def refits(*, ticks: int, insecure_seed: int | None) -> Made:
    """A batch solver on the whole history, now and then."""
    learner = PrivIncERM(
        horizon=ticks,
        tick_records=TICK,
        loss=LogisticLoss(),
        constraint=L2Ball(dimension=2, radius=1.0),
        solver=MirrorDescent(steps=3),
        refit_every=2,
        **_SETTINGS,
    )
    return _stream(learner, ticks, insecure_seed)


def chosen(*, ticks: int, insecure_seed: int | None) -> Made:
    """Whichever regression is predicted to be best."""
    learner = AutoIncremental(
        horizon=ticks,
        constraint=None,
        tick_records=TICK,
        intervals=False,
        draws=1,
        **_SETTINGS,
    )
    return _stream(learner, ticks, insecure_seed)


def leader(*, ticks: int, insecure_seed: int | None) -> Made:
    """Gradients at released models, summed up for ever."""
    learner = FollowTheLeader(
        horizon=None,
        loss=LogisticLoss(),
        convex_set=L2Ball(dimension=2, radius=1.0),
        ridge=0.5,
        tick_records=TICK,
        **_SETTINGS,
    )
    return _stream(learner, ticks, insecure_seed)


def perturbed(*, ticks: int, insecure_seed: int | None) -> Made:
    """A secret iterate, published through noise."""
    learner = POCP(
        releases=ticks,
        algorithm=ImplicitGradientDescent(),
        loss=LogisticLoss(),
        modulus=1.0,
        **_SETTINGS,
    )
    return _stream(learner, ticks, insecure_seed)
