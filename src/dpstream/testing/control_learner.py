"""Negative controls: learners whose models say more than their measurements do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpstream.audit.finding import Finding
from dpstream.audit.learner import learner_evidence
from dpstream.audit.strategy import AUDIT_BUDGET
from dpstream.domain.domain import Domain
from dpstream.learners.learner import Outcome, Tick
from dpstream.learners.sums.running_sum import RunningSum, RunningSumState
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.testing.control import Attack, Control

RUNS = 64
TICKS = 6


@dataclass(frozen=True, kw_only=True)
class Chatty(RunningSum):
    """Its models hold one more number or word, of the exact state."""

    def release(self, state: RunningSumState, tick: Tick, noise: Noise) -> Outcome:
        """Add what the records alone decide."""
        outcome = super().release(state, tick, noise)
        return replace(outcome, model={**outcome.model, **self._said(state)})

    def _said(self, state: RunningSumState) -> Mapping[str, Any]:
        """How many solver steps it took, say: more for larger sums."""
        held = self.sum.snapshot(state.sum)
        steps = sum(int(abs(value).sum()) for key, value in held.items() if "encoder" in key)
        return {"steps": steps.bit_length()}


@dataclass(frozen=True, kw_only=True)
class Worded(Chatty):
    """It says so in a word, and at the first tick alone."""

    def _said(self, state: RunningSumState) -> Mapping[str, Any]:
        found = super()._said(state)["steps"]
        first = state.sum.tick == 1
        return {"verdict": "well conditioned" if found > 2 or not first else "singular"}


def _model(learner: type[RunningSum]) -> Attack:
    def attack(seed: int, broken: bool) -> Sequence[Finding]:
        made = (learner if broken else RunningSum)(
            domain=Domain.vectors(2, norm_bound=1.0),
            budget=AUDIT_BUDGET,
            unit=Unit(),
            neighbours=Neighbours.ZERO_OUT,
            horizon=TICKS,
            tick_records=4,
        )
        return learner_evidence(made, runs=RUNS, noise=Noise.insecure(seed)).findings

    return attack


def learner_controls() -> tuple[Control, ...]:
    """Faults of learners."""
    return (
        Control(
            name="RunningSum",
            fault="the model tells a count of steps of the exact state",
            attack=_model(Chatty),
        ),
        Control(
            name="RunningSum",
            fault="an early model says in a word what the exact state is like",
            attack=_model(Worded),
        ),
    )
