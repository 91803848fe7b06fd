"""Replacing a user's records must not move which of its records count, and none may count twice."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from dpstream.domain.batch import Batch, RawChunk
from dpstream.domain.domain import Domain
from dpstream.engine.memory import MemoryStore
from dpstream.engine.schedule import EveryRecords
from dpstream.engine.session import Session
from dpstream.engine.stream import Stream
from dpstream.errors import SourceError
from dpstream.learners.sums.running_sum import RunningSum, RunningSumState
from dpstream.mechanisms.continual.node_noise import NoiseKind
from dpstream.mechanisms.continual.strategy import Node
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit

TICKS = 257
SECOND = 128


class Watched(RunningSum):
    """Keeps the nodes that are about to be measured, and the rows that were learned."""

    def watch(self) -> list[Node]:
        nodes: list[Node] = []
        self.__dict__["seen"] = nodes
        self.__dict__["rows"] = []
        return nodes

    def learn(self, state: RunningSumState, batch: Batch) -> None:
        self.__dict__["rows"] += batch.rows[:, 0].tolist()
        super().learn(state, batch)

    def init(self) -> RunningSumState:
        state = super().init()
        take = state.sum.encoder.nodes

        def nodes() -> Sequence[Node]:
            handed = take()
            self.__dict__["seen"] += handed
            return handed

        state.sum.encoder.nodes = nodes
        return state


def learner(noise: NoiseKind, strategy: str, unit: Unit) -> Watched:
    return Watched(
        domain=Domain.vectors(1, norm_bound=1.0),
        budget=Budget(epsilon=1.0, delta=0.0 if noise is NoiseKind.SPHERICAL_LAPLACE else 1e-6),
        unit=unit,
        neighbours=Neighbours.REPLACE,
        horizon=None if strategy == "hybrid" else TICKS,
        strategy=strategy,
        count=True,
        noise=noise,
        tick_records=1,
    )


def measured(watched: Watched, first: float | None, second: float | None) -> list[Node]:
    nodes = watched.watch()
    values: list[float | None] = [0.0] * TICKS
    values[0], values[SECOND] = first, second
    who = [f"user {place}" for place in range(TICKS)]
    who[SECOND] = who[0]
    stream = Stream(learner=watched, schedule=EveryRecords(records=1), insecure_seed=1)
    chunk = RawChunk(data={"x1": values, "who": who}, offset=0, length=TICKS)
    with Session(stream, store=MemoryStore()) as session:
        list(session.learn(chunk))
    return nodes


@pytest.mark.parametrize(
    ("noise", "strategy"),
    [
        (NoiseKind.SPHERICAL_LAPLACE, "binary_tree"),
        (NoiseKind.GAUSSIAN, "binary_tree"),
        (NoiseKind.GAUSSIAN, "hybrid"),
        (NoiseKind.GAUSSIAN, "blt"),
    ],
)
def test_a_user_whose_counted_record_becomes_null_costs_no_more_than_claimed(
    noise: NoiseKind, strategy: str
):
    watched = learner(noise, strategy, Unit(kind="user", cap=1, column="who"))
    here = measured(watched, 1.0, 0.0)
    there = measured(watched, None, -1.0)
    order = noise.order
    assert [node.address for node in here] == [node.address for node in there]
    total = math.fsum(
        (
            float(np.linalg.norm(np.ldexp((a.value - b.value).astype(float), a.exponent)))
            / (a.weight * watched.sum.sigma)
        )
        ** order
        for a, b in zip(here, there, strict=True)
    )
    assert 0.0 < total ** (1 / order) <= noise.shift_per_noise(watched.sum.strength)


def test_records_are_not_taken_twice_by_two_iterators_of_releases():
    watched = learner(NoiseKind.GAUSSIAN, "binary_tree", Unit())
    watched.watch()
    # Published seldom enough that no release at the same tick gives the repetition away.
    stream = Stream(
        learner=watched, schedule=EveryRecords(records=1, publish_every=4), insecure_seed=1
    )
    with Session(stream, store=MemoryStore()) as session:
        first = session.learn(RawChunk(data=np.ones((7, 1)), offset=0, length=7))
        next(first)
        list(session.learn(RawChunk(data=np.ones((2, 1)), offset=4, length=2)))
        with pytest.raises(SourceError, match="twice"):
            list(first)
    assert len(watched.__dict__["rows"]) == 6
