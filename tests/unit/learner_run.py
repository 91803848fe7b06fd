"""A learner's life without an engine: records in pieces, ticks by count, releases as they come."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpstream.domain.batch import Batch
from dpstream.learners.learner import Learner, Outcome, Tick
from dpstream.mechanisms.mechanism import Noise


def outcomes(
    model: Learner[Any],
    records: Batch,
    *,
    tick_records: int = 100,
    cuts: Sequence[int] = (),
    resume_at: int | None = None,
    publish: Sequence[int] | None = None,
    clock: bool = False,
    noise: Noise | None = None,
) -> list[Outcome]:
    """What a learner releases at ticks of so many records.

    Args:
        model: the learner.
        records: of whole ticks.
        tick_records: of each tick.
        cuts: between which pieces are learned, besides the ticks' ends.
        resume_at: a record after whose piece the state is saved and restored.
        publish: at which ticks; None for all.
        clock: whether the number of records is kept from the learner.
        noise: what is drawn from.
    """
    source, state = noise or Noise.insecure(3), model.init()
    found: list[Outcome] = []
    edges = sorted({*cuts, *range(0, len(records) + 1, tick_records)})
    for start, stop in itertools.pairwise(edges):
        model.learn(state, records.slice(start, stop))
        if resume_at is not None and start <= resume_at < stop:
            state = model.restore({k: v.copy() for k, v in model.snapshot(state).items()})
        if stop % tick_records == 0:
            tick = Tick(number=stop // tick_records, records=None if clock else stop)
            model.close(state, tick)
            if publish is None or tick.number in publish:
                found.append(model.release(state, tick, source))
    return found


def same(first: Outcome, second: Outcome) -> bool:
    """Whether two releases have the same model and the same measurements, to the bit."""
    measured = zip(first.measurements, second.measurements, strict=True)
    return first.model == second.model and all(
        a.address == b.address and np.array_equal(a.value, b.value) for a, b in measured
    )
