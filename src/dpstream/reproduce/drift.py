"""Memories under drift: sliding, decayed and cumulative models, and what the plan said beforehand.

Each model is scored on the block after it. On made-up streams the truth turns around at once, or
turns slowly; on the electricity market and on forest covers, in the order of their files, nobody
knows how it moves. The plan is told a guess, the same for both files: that the best parameters
move by their own length, taken as a quarter of the ball's radius, in 20 blocks. Repeating the last
label, without privacy, stands beside: where labels persist it beats every model of the features.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.column import Numeric
from dpstream.domain.domain import Domain
from dpstream.domain.target import LabelTarget
from dpstream.learners.window.block_learner import BlockLearner
from dpstream.learners.window.continual_release import ContinualRelease
from dpstream.learners.window.decayed_release import DecayedRelease
from dpstream.learners.window.forecast import drift_plan
from dpstream.learners.window.sliding_window import SlidingWindowRelease
from dpstream.learners.window.windowed_regression import WindowedRegression
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.report.figure import line_figure
from dpstream.reproduce.block_track import Track, track
from dpstream.reproduce.real_records import forest_records, market_records

WINDOW = 7
DECAY = 0.75
"""As quiet as a window of (1 + decay) / (1 - decay) = 7 blocks."""

_LOUD = Budget(epsilon=1e5, delta=1e-6)
"""A budget at which noise does not matter."""

DIMENSION = 5
TURN = 20


@dataclass(frozen=True, kw_only=True)
class Drifting:
    """A stream whose truth moves.

    Attributes:
        name: of the stream.
        settings: of every learner on it.
        rows: features and targets of a run's whole stream.
        score: of coefficients after a block: less is better.
        blocks: how many there are to learn from.
        changed: from this block on, counted from 1, scores count.
        guess: what the plan is told.
        moments: whether windowed moments are run beside.
        repeating: the error of repeating the label before, without privacy, from ``changed`` on;
            None where there are no labels.
    """

    name: str
    settings: Mapping[str, Any]
    rows: Callable[[int], tuple[FloatArray, Any]]
    score: Callable[[int, FloatArray], float]
    blocks: int
    changed: int
    guess: Mapping[str, float]
    moments: bool = False
    repeating: float | None = None

    def learners(self) -> dict[str, BlockLearner]:
        """The three memories, for the same budget."""
        block = self.settings["block_records"]
        return {
            "sliding": SlidingWindowRelease(window_records=WINDOW * block, **self.settings),
            "decayed": DecayedRelease(decay=DECAY, **self.settings),
            "cumulative": ContinualRelease(base=WINDOW, updates="refit", **self.settings),
        }


def _common(domain: Domain, epsilon: float) -> dict[str, Any]:
    return {
        "domain": domain,
        "budget": Budget(epsilon=epsilon, delta=1e-6),
        "unit": Unit(),
        "neighbours": Neighbours.ZERO_OUT,
    }


def turning(*, slow: bool) -> Drifting:
    """Least squares on five features: the truth changes its sign, or turns by a little."""
    block, blocks = 1000, 40
    size = 0.9

    def truth(number: int) -> FloatArray:
        """After so many blocks; the block that follows is made of it."""
        angle = math.pi * (number / TURN if slow else float(number >= TURN))
        return size * np.array([math.cos(angle), math.sin(angle), 0.0, 0.0, 0.0])

    def rows(repeat: int) -> tuple[FloatArray, FloatArray]:
        draw = public_generator(repeat)
        features = draw.normal(size=(block * blocks, DIMENSION))
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        targets = [
            features[number * block : (number + 1) * block] @ truth(number)
            for number in range(blocks)
        ]
        return features, np.concatenate(targets) + draw.normal(0.0, 0.05, block * blocks)

    def score(number: int, coefficients: FloatArray) -> float:
        # Features have the covariance 1/5: this is the excess squared error on the next block.
        return float(np.sum((coefficients.ravel() - truth(number)) ** 2)) / DIMENSION

    step = 2.0 * size * math.sin(math.pi / TURN / 2.0)
    return Drifting(
        name="slow turn" if slow else "abrupt turn",
        settings=_common(Domain.vectors(DIMENSION, norm_bound=1.0, target_bound=1.0), 1.0)
        | {
            "loss": SquaredLoss(),
            "block_records": block,
            "horizon": blocks,
            "ridge": 0.1,
            "radius": 1.0,
        },
        rows=rows,
        score=score,
        blocks=blocks - 1,
        changed=WINDOW if slow else TURN + WINDOW,
        guess={"drift": step} if slow else {"change": 2.0 * size, "changed_at": TURN},
        moments=True,
    )


def _labelled(
    name: str, features: FloatArray, labels: FloatArray, *, block: int, blocks: int
) -> Drifting:
    """Logistic regression on a file in its own order, for a stream of one run after the other."""
    count = (blocks + 1) * block
    held = np.column_stack([np.ones(len(features)), features])[:count]
    held = held / np.linalg.norm(held, axis=1, keepdims=True)
    signs = np.where(labels[:count] > 0, 1.0, -1.0)
    columns = [Numeric(f"x{index}") for index in range(held.shape[1])]
    target = LabelTarget("label", ["no", "yes"])
    domain = Domain(columns, target, intercept=False, norm_bound=1.0)
    radius = 20.0
    changed = blocks // 2
    scored = signs[(changed * block) - 1 :]

    def rows(_: int) -> tuple[FloatArray, Any]:
        return held, np.where(signs > 0, "yes", "no")

    def score(number: int, coefficients: FloatArray) -> float:
        part = slice(number * block, (number + 1) * block)
        return float(np.mean((held[part] @ coefficients[0]) * signs[part] <= 0.0))

    return Drifting(
        name=name,
        settings=_common(domain, 1.0)
        | {
            "loss": LogisticLoss(),
            "block_records": block,
            "horizon": blocks,
            "ridge": 0.01,
            "radius": radius,
        },
        rows=rows,
        score=score,
        blocks=blocks,
        changed=changed,
        repeating=float(np.mean(scored[1:] != scored[:-1])),
        guess={"drift": radius / 4.0 / 20.0},
    )


def electricity(data: Path) -> Drifting:
    """Whether the price goes up, half-hour by half-hour, a fortnight to a block.

    Raises:
        SourceError: if the file is missing.
    """
    features, labels = market_records(data)
    return _labelled("electricity", features, labels, block=672, blocks=52)


def forest(data: Path) -> Drifting:
    """The commonest cover against the others, in the order of the file: area by area.

    Raises:
        SourceError: if the file is missing.
    """
    features, labels = forest_records(data)
    return _labelled("forest", features, labels, block=4000, blocks=50)


def run_drift(stream: Drifting, *, repeats: int) -> dict[str, Any]:
    """What the plan said, and what was measured after the change; JSON-ready, with ``svg``."""
    learners = stream.learners()
    planned = drift_plan(
        learners,
        block=stream.blocks,
        drift=stream.guess.get("drift", 0.0),
        change=stream.guess.get("change", 0.0),
        changed_at=int(stream.guess.get("changed_at", 0)),
    )
    tracks = {name: _track(stream, name, learner, repeats) for name, learner in learners.items()}
    if stream.moments:
        for name in ("sliding", "decayed"):
            tracks[f"{name}, moments"] = _moment_track(stream, name, repeats)
    runs = {name: _after(stream, item) for name, item in tracks.items()}
    exact: dict[str, float] = {}
    if stream.repeating is not None:
        loud = replace(stream, settings=dict(stream.settings) | {"budget": _LOUD})
        exact = {
            name: float(_after(stream, _track(loud, name, learner, 1))[0])
            for name, learner in loud.learners().items()
        }
    return {
        "name": stream.name,
        "guess": dict(stream.guess),
        "plan": planned,
        "curves": [item.to_json() for item in tracks.values()],
        "after_change": {name: float(np.median(values)) for name, values in runs.items()},
        "after_change_by_run": {name: values.tolist() for name, values in runs.items()},
        "after_change_without_noise": exact,
        "repeating_the_last_label": stream.repeating,
        "svg": line_figure(
            {name: item.line() for name, item in tracks.items()},
            x_label=f"blocks of {stream.settings['block_records']}",
            y_label="error on the next block",
            y_log=stream.moments,
            references={}
            if stream.repeating is None
            else {"repeat the last label (not private)": stream.repeating},
        ),
    }


def _after(stream: Drifting, found: Track) -> FloatArray:
    """Of every run, the mean error after the change."""
    means: FloatArray = found.values[:, found.blocks >= stream.changed].mean(axis=1)
    return means


def _track(stream: Drifting, name: str, learner: BlockLearner, repeats: int) -> Track:
    return track(
        name,
        lambda: learner,
        rows=stream.rows,
        score=stream.score,
        blocks=stream.blocks,
        repeats=repeats,
    )


def _moment_track(stream: Drifting, name: str, repeats: int) -> Track:
    """The same memory on measured moments, which are enough for squared loss."""
    settings = stream.settings
    learner = WindowedRegression(
        domain=settings["domain"],
        budget=settings["budget"],
        unit=settings["unit"],
        neighbours=settings["neighbours"],
        window_ticks=WINDOW if name == "sliding" else None,
        decay=None if name == "sliding" else DECAY,
        penalty=1e-3,
        radius=settings["radius"],
        tick_records=settings["block_records"],
    )
    return track(
        f"{name}, moments",
        lambda: learner,
        rows=stream.rows,
        score=stream.score,
        blocks=stream.blocks,
        repeats=repeats,
        size=settings["block_records"],
        read=lambda model: model["targets"][0]["user"]["coefficients"]["estimate"],
    )
