"""Audits of the catalogued learners, each over a small domain at the audit's budget."""

from collections.abc import Callable, Mapping
from typing import Any

from dpstream.audit.evidence import Evidence
from dpstream.audit.learner import TICKS, learner_evidence, shortened
from dpstream.audit.strategy import AUDIT_BUDGET
from dpstream.domain.domain import Domain
from dpstream.learners.incremental.priv_inc_reg1 import PrivIncReg1
from dpstream.learners.learner import Learner
from dpstream.learners.sums.running_sum import RunningSum
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.unit import Neighbours, Unit

TICK_RECORDS = 1 << 10


def _regression() -> Learner[Any]:
    return PrivIncReg1(
        domain=Domain.vectors(2, norm_bound=1.0, target_bound=1.0, intercept=True),
        budget=AUDIT_BUDGET,
        unit=Unit(),
        neighbours=Neighbours.REPLACE,
        horizon=TICKS,
        tick_records=TICK_RECORDS,
    )


def _running_sum() -> Learner[Any]:
    return RunningSum(
        domain=Domain.vectors(3, norm_bound=1.0),
        budget=AUDIT_BUDGET,
        unit=Unit(kind="user", column="user", cap=3),
        neighbours=Neighbours.REPLACE,
        horizon=TICKS,
        count=True,
        tick_records=TICK_RECORDS,
    )


def _attack(make: Callable[[], Learner[Any]]) -> Callable[[int, Noise], Evidence]:
    def attack(runs: int, noise: Noise) -> Evidence:
        learner, _ = shortened(make())
        return learner_evidence(learner, runs=runs, noise=noise, least_share=0.95)

    return attack


LEARNER_AUDITS: Mapping[str, Callable[[int, Noise], Evidence]] = {
    "PrivIncReg1": _attack(_regression),
    "RunningSum": _attack(_running_sum),
}
