"""Following the leader on real streams: accuracy with privacy and without.

Each record is classified by the model that was released before it. Forest cover types are
shuffled by a recorded seed and a tenth is held out; flights and the electricity market stay in
their order of time, and are also followed with a week's memory and nine releases a day. No rate,
prior or clip is set by looking at a stream: all are defaults. Beside it stands the same learner
without privacy; plain gradient descent with a step at every record, judged at every record, which
no release every few records can follow, and as it stood whenever the learner released; and, where
labels persist, repeating the last one.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.engine.schedule import EveryRecords, Thinning
from dpstream.learners.learner import Tick
from dpstream.learners.online.follow_the_leader import FollowTheLeader
from dpstream.learners.online.gradient_stack import Curvature
from dpstream.losses.logistic import LogisticLoss
from dpstream.mechanisms.continual.choice import sum_strategy
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.reproduce.quadratic_stream import DELTA
from dpstream.reproduce.real_records import forest_records, late_records, market_records

NORM = 2.0
"""Records are clipped to it: numbers in [-1, 1] and a few indicators are mostly shorter."""

SHUFFLE_SEED = 7
STEP = 0.5
"""Of plain gradient descent."""

MEMORY_TICKS = 63
"""Of a learner that forgets: a week of ticks, nine to a day."""

MEMORIES: Mapping[str, Curvature] = {
    "a week's memory": "diagonal",
    "a week's memory, gradients alone": "none",
}
"""Learners that forget, and the second moments that they measure."""

STEPPED = "gradient descent, without privacy"
HELD_STEPS = "gradient descent as often as ours is released, without privacy"

NO_PRIVACY = Budget(epsilon=1e9, delta=DELTA)
PRIVATE = Budget(epsilon=1.0, delta=DELTA)


@dataclass(frozen=True)
class Accuracy:
    """Shares of records classified rightly.

    Attributes:
        whole: over the whole stream, each record before it is learned.
        last_tenth: over its last tenth.
        held_out: of the last model on records held out; None where none are.
    """

    whole: float
    last_tenth: float
    held_out: float | None = None


@dataclass(frozen=True)
class Task:
    """A stream to classify.

    Attributes:
        name: of the stream.
        train: its records.
        test: records held out, or None.
        schedule: when models are released.
        day: about how many records come in a day, where order is time: public; None where the
            stream is shuffled.
    """

    name: str
    train: Batch
    test: Batch | None
    schedule: Thinning | EveryRecords
    domain: Domain
    day: int | None = None

    def ends(self) -> list[int]:
        """Records at each release; the last release is at the end."""
        count = len(self.train)
        ends = [
            self.schedule.end(tick) for tick in range(1, self.schedule.horizon_ticks(count) + 1)
        ]
        return ends if ends and ends[-1] == count else [*ends, count]


def make_task(
    name: str, features: FloatArray, labels: FloatArray, *, schedule: Thinning, day: int | None
) -> Task:
    """Admit a stream; those without a day are shuffled and lose a tenth to a test."""
    domain = Domain.vectors(features.shape[1], norm_bound=NORM, target_bound=1.0, intercept=True)
    if day is not None:
        return Task(name, domain.admit(features, labels), None, schedule, domain, day)
    order = public_generator(SHUFFLE_SEED).permutation(len(labels))
    test, train = order[: len(order) // 10], order[len(order) // 10 :]
    parts = [domain.admit(features[rows], labels[rows]) for rows in (train, test)]
    return Task(name, parts[0], parts[1], schedule, domain)


def forgetting(task: Task, budget: Budget, *, seed: int, curvature: Curvature) -> Accuracy:
    """The learner on decayed sums with a week's memory, nine releases a day."""
    assert task.day is not None
    often = replace(task, schedule=EveryRecords(records=-(-task.day // 9)))
    decay = math.exp(-1.0 / MEMORY_TICKS)
    strategy = sum_strategy("decayed_toeplitz", horizon=None, window=None, decay=decay)
    return followed(often, budget, seed=seed, strategy=strategy, curvature=curvature)


def followed(task: Task, budget: Budget, *, seed: int, **settings: Any) -> Accuracy:
    """The learner, with every choice that is not named left to it."""
    ends = task.ends()
    learner = FollowTheLeader(
        domain=task.domain,
        budget=budget,
        unit=Unit(),
        neighbours=Neighbours.ZERO_OUT,
        horizon=None if "strategy" in settings else len(ends),
        loss=LogisticLoss(),
        **settings,
    )
    state, noise, start = learner.init(), Noise.insecure(seed), 0
    right = np.zeros(len(task.train), bool)
    for number, stop in enumerate(ends, start=1):
        part = task.train.slice(start, stop)
        right[start:stop] = _hits(part, state.point[0])
        learner.learn(state, part)
        tick = Tick(number=number, records=stop)
        learner.close(state, tick)
        learner.release(state, tick, noise)
        start = stop
    held_out = None if task.test is None else float(np.mean(_hits(task.test, state.point[0])))
    return _accuracy(right, held_out)


def stepped(task: Task, *, as_released: bool) -> Accuracy:
    """Plain gradient descent without privacy, with a step at every record.

    Args:
        task: the stream.
        as_released: judge the point as it stood at the last release of ``followed``, instead of
            the newest one.
    """
    rows = np.insert(task.train.scaled_features, 0, 1.0, axis=1)
    targets = task.train.scaled_targets[:, 0]
    point, right = np.zeros(rows.shape[1]), np.zeros(len(rows), bool)
    for start, stop in itertools.pairwise((0, *task.ends())):
        right[start:stop] = (rows[start:stop] @ point > 0) == (targets[start:stop] > 0)
        for index, target in enumerate(targets[start:stop].tolist(), start=start):
            score = float(rows[index] @ point)
            if not as_released:
                right[index] = (score > 0) == (target > 0)
            point += STEP * target / (1.0 + np.exp(min(target * score, 500.0))) * rows[index]
    held_out = None if task.test is None else float(np.mean(_hits(task.test, point)))
    return _accuracy(right, held_out)


def repeated(task: Task) -> Accuracy:
    """The label of the record before; without privacy."""
    labels = task.train.scaled_targets[:, 0] > 0
    return _accuracy(np.append(False, labels[1:] == labels[:-1]), None)


def _hits(batch: Batch, point: FloatArray) -> FloatArray:
    scores = batch.scaled_features @ point[1:] + point[0]
    return (scores > 0) == (batch.scaled_targets[:, 0] > 0)


def _accuracy(right: FloatArray, held_out: float | None) -> Accuracy:
    tail = right[-(len(right) // 10) :]
    return Accuracy(float(np.mean(right)), float(np.mean(tail)), held_out)


def _mean(runs: Sequence[Accuracy]) -> Accuracy:
    held = [run.held_out for run in runs if run.held_out is not None]
    return Accuracy(
        float(np.mean([run.whole for run in runs])),
        float(np.mean([run.last_tenth for run in runs])),
        float(np.mean(held)) if held else None,
    )


def tasks_of(data: Path) -> list[Task]:
    """The streams whose files are there."""
    hourly = Thinning(start=16, every=48, ticks_per_doubling=4)
    steady = Thinning(start=64, every=1024, ticks_per_doubling=4)
    known = (
        ("forest cover types", "covtype.npz", forest_records, steady, None),
        ("late arrivals", "nycflights13.npz", late_records, steady, 900),
        ("electricity market", "elec2.npz", market_records, hourly, 48),
    )
    return [
        make_task(name, *read(data), schedule=schedule, day=day)
        for name, file, read, schedule, day in known
        if (data / file).exists()
    ]


def accuracy_figures(data: Path, *, draws: int) -> dict[str, dict[str, Any]]:
    """Per stream, accuracies of ours, without privacy, of plain descent and of repetition."""
    return {task.name: _task_figures(task, draws=draws) for task in tasks_of(data)}


def _task_figures(task: Task, *, draws: int) -> dict[str, Any]:
    figures = {
        "private": _mean([followed(task, PRIVATE, seed=s) for s in range(draws)]),
        "without privacy": followed(task, NO_PRIVACY, seed=0),
        STEPPED: stepped(task, as_released=False),
        HELD_STEPS: stepped(task, as_released=True),
        "repeat the last label": repeated(task),
    }
    if task.day is not None:
        for name, curvature in MEMORIES.items():
            runs = [forgetting(task, PRIVATE, seed=s, curvature=curvature) for s in range(draws)]
            figures[f"private, {name}"] = _mean(runs)
            figures[f"without privacy, {name}"] = forgetting(
                task, NO_PRIVACY, seed=0, curvature=curvature
            )
    return {name: asdict(accuracy) for name, accuracy in figures.items()}
