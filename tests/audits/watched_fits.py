"""The fits of a learner over blocks, as they happen."""

from typing import Any

import pytest

from dpstream.domain.batch import Batch
from dpstream.learners.learner import Tick
from dpstream.learners.window.block_learner import BlockLearner
from dpstream.learners.window.fit import BlockSolver, FitPlan
from dpstream.mechanisms.mechanism import Noise


def watched_fits(learner: BlockLearner, batch: Batch) -> list[tuple[FitPlan, int, Any]]:
    """Every fit of a run over whole blocks: its plan, its first block, and the centre it got."""
    seen: list[tuple[FitPlan, int, Any]] = []
    original = BlockSolver.fit

    def watched(self: BlockSolver, plan: FitPlan, rows: Batch, **given: Any) -> Any:
        seen.append((plan, given["address"][1], given["centre"]))
        return original(self, plan, rows, **given)

    size = learner.block_records
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BlockSolver, "fit", watched)
        state, noise = learner.init(), Noise.insecure(11)
        for number in range(1, len(batch) // size + 1):
            learner.learn(state, batch.slice((number - 1) * size, number * size))
            tick = Tick(number=number, records=number * size)
            learner.close(state, tick)
            learner.release(state, tick, noise)
    return seen
