"""Small streams of learners over blocks and windows, each with its records, to be killed."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.domain import Domain
from dpstream.engine.schedule import EveryRecords
from dpstream.engine.stream import Stream
from dpstream.learners.learner import Learner
from dpstream.learners.window.basic_release import BasicRelease
from dpstream.learners.window.continual_release import ContinualRelease
from dpstream.learners.window.decayed_release import DecayedRelease
from dpstream.learners.window.multi_resolution import MultiResolutionRelease
from dpstream.learners.window.sliding_window import SlidingWindowRelease
from dpstream.learners.window.windowed_regression import WindowedRegression
from dpstream.losses.logistic import LogisticLoss
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.testing.small_stream import small_records

BLOCK = 10
DOMAIN = Domain.vectors(2, norm_bound=1.0, target_bound=1.0)
Made = tuple[Stream[Any], FloatArray | Sequence[dict[str, Any]]]

_SETTINGS: dict[str, Any] = {
    "domain": DOMAIN,
    "budget": Budget(epsilon=1.0, delta=1e-6),
    "unit": Unit(),
    "neighbours": Neighbours.ZERO_OUT,
}
_BLOCKS: dict[str, Any] = _SETTINGS | {
    "horizon": None,
    "loss": LogisticLoss(),
    "block_records": BLOCK,
    "ridge": 0.5,
    "radius": 2.0,
}


def _stream(
    learner: Learner[Any], ticks: int, insecure_seed: int | None, *, publish_every: int = 1
) -> Made:
    stream = Stream(
        learner=learner,
        schedule=EveryRecords(records=BLOCK, publish_every=publish_every),
        insecure_seed=insecure_seed,
    )
    return stream, small_records(BLOCK * ticks)


def chains(*, ticks: int, insecure_seed: int | None) -> Made:
    """A sliding window of five blocks by chains of buckets."""
    learner = SlidingWindowRelease(window_records=5 * BLOCK, refresh=None, **_BLOCKS)
    return _stream(learner, ticks, insecure_seed)


def sparse(*, ticks: int, insecure_seed: int | None) -> Made:
    """A sliding window that publishes at every other block, so that fits are deferred."""
    learner = SlidingWindowRelease(window_records=3 * BLOCK, **_BLOCKS)
    return _stream(learner, ticks, insecure_seed, publish_every=2)


def cumulative(*, ticks: int, insecure_seed: int | None) -> Made:
    """Bases and updates."""
    return _stream(ContinualRelease(base=2, **_BLOCKS), ticks, insecure_seed)


def basic(*, ticks: int, insecure_seed: int | None) -> Made:
    """Bases, and each block once between."""
    return _stream(BasicRelease(base=2, **_BLOCKS), ticks, insecure_seed)


def resolutions(*, ticks: int, insecure_seed: int | None) -> Made:
    """Models of the last 1, 2 and 4 blocks."""
    return _stream(MultiResolutionRelease(levels=3, **_BLOCKS), ticks, insecure_seed)


def decayed(*, ticks: int, insecure_seed: int | None) -> Made:
    """Exponential forgetting."""
    return _stream(DecayedRelease(decay=0.7, **_BLOCKS), ticks, insecure_seed)


def regression(*, ticks: int, insecure_seed: int | None) -> Made:
    """Least squares over a window of three ticks."""
    learner = WindowedRegression(window_ticks=3, tick_records=BLOCK, **_SETTINGS)
    return _stream(learner, ticks, insecure_seed)


def users(*, ticks: int, insecure_seed: int | None) -> Made:
    """Users with at most three records, who come again and again."""
    settings: dict[str, Any] = _BLOCKS | {"unit": Unit(kind="user", cap=3, column="id")}
    learner = SlidingWindowRelease(window_records=3 * BLOCK, **settings)
    stream, rows = _stream(learner, ticks, insecure_seed)
    names = [*(column.name for column in DOMAIN.columns), DOMAIN.targets[0].name]
    numbers = np.asarray(rows, np.float64).tolist()
    return stream, [
        dict(zip(names, row, strict=True)) | {"id": f"user {index % 13}"}
        for index, row in enumerate(numbers)
    ]
