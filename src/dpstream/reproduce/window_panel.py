"""Paper 003's figures 4 and 5: accuracy against the budget, the penalty, the block and the window.

Every curve is a learner on a stream of digits or titles, with noise for the true worst record, and
beside some the same algorithm with the noise as printed, which is not private.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstream.learners.window.basic_release import BasicRelease
from dpstream.learners.window.block_learner import BlockLearner
from dpstream.learners.window.continual_release import ContinualRelease
from dpstream.learners.window.sliding_window import SlidingWindowRelease
from dpstream.privacy.budget import Budget
from dpstream.report.figure import line_figure
from dpstream.reproduce.block_track import Track
from dpstream.reproduce.labelled_stream import LabelledStream, Make, accuracy_track
from dpstream.reproduce.printed_window import MARK, PrintedNoise, printed_run

DELTA = 1e-6
_LOUD = 1e7
"""An epsilon at which noise does not matter."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One line of a panel.

    Attributes:
        name: its legend.
        stream: ``"edges"``, ``"pixels"``, ``"projected"`` or ``"titles"``.
        make: the learner; its rule alone for printed noise.
        epsilon: the budget's; None for no noise to speak of.
        delta: the budget's.
        printed: the printed noise to run instead, or None.
        penalty: the paper's lambda, for printed noise.
    """

    name: str
    stream: str
    make: Make
    epsilon: float | None = 1.0
    delta: float = DELTA
    printed: PrintedNoise | None = None
    penalty: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One picture: accuracy against the number of records.

    Attributes:
        name: as the paper numbers it.
        title: what is compared.
        curves: its lines, in the order in which accuracy should rise where ``rising``.
        rising: whether that order is what the paper shows.
        records: how far the stream is followed; None for all of it.
    """

    name: str
    title: str
    curves: Sequence[Curve]
    rising: bool = True
    records: int | None = None


def cumulative(base: int, *, block: int, penalty: float, noise: Any = "gaussian") -> Make:
    """Algorithm 4 with the paper's penalty."""
    return lambda stream, budget: ContinualRelease(
        base=base,
        ridge=2.0 * penalty,
        noise=noise,
        **stream.settings(budget, block_records=block, horizon=None),
    )


def basic(base: int, *, block: int, penalty: float) -> Make:
    """Basic continual release with the paper's penalty."""
    return lambda stream, budget: BasicRelease(
        base=base,
        ridge=2.0 * penalty,
        **stream.settings(budget, block_records=block, horizon=None),
    )


def sliding(
    blocks: int,
    *,
    block: int,
    ridge: float,
    refresh: int | None = 1,
    update: float | None = None,
    tilt: float = 0.0,
) -> Make:
    """Algorithm 5, or a window fitted whole."""
    return lambda stream, budget: SlidingWindowRelease(
        window_records=blocks * block,
        refresh=refresh,
        ridge=ridge,
        update_ridge=update,
        tilt=tilt,
        **stream.settings(budget, block_records=block, horizon=None),
    )


def run_curve(
    curve: Curve, streams: Mapping[str, LabelledStream], *, records: int, repeats: int
) -> tuple[Track, float | None]:
    """A curve's accuracies, and for printed noise what one of its fits costs at least."""
    stream = streams[curve.stream]
    budget = Budget(epsilon=curve.epsilon or _LOUD, delta=curve.delta)
    if curve.printed is None:
        blocks = min(records, len(stream.labels)) // curve.make(stream, budget).block_records
        found = accuracy_track(
            curve.name, curve.make, stream, budget=budget, blocks=blocks, repeats=repeats
        )
        return found, None
    learner: BlockLearner = curve.make(stream, budget)
    blocks = min(records, len(stream.labels)) // learner.block_records
    values: list[list[float]] = []
    least, done = 0.0, tuple[int, ...]()
    for repeat in range(repeats):
        order = stream.order(repeat)[: blocks * learner.block_records]
        run = printed_run(
            learner.solver,
            learner.rule,
            learner.domain.admit(stream.features[order], stream.labels[order]),
            noise=curve.printed,
            penalty=curve.penalty,
            epsilon=budget.epsilon,
            seed=repeat,
        )
        points = run.points.reshape(len(run.blocks), stream.classes, -1)
        values.append(stream.accuracies(points))
        least, done = max(least, run.epsilon_at_least), run.blocks
    name = f"{curve.name} ({MARK})"
    return Track(name=name, blocks=np.array(done, np.int64), values=np.array(values)), least


def run_panel(
    panel: Panel, streams: Mapping[str, LabelledStream], *, records: int, repeats: int
) -> dict[str, Any]:
    """The panel's numbers, JSON-ready, with ``svg``."""
    records = min(records, panel.records or records)
    lines: dict[str, Any] = {}
    curves: list[dict[str, Any]] = []
    for curve in panel.curves:
        found, least = run_curve(curve, streams, records=records, repeats=repeats)
        size = curve.make(streams[curve.stream], Budget(epsilon=1.0, delta=DELTA)).block_records
        lines[found.name] = found.line(size)
        described = found.to_json() | {"records": (found.blocks * size).tolist()}
        if least is not None:
            described |= {"claimed_epsilon": curve.epsilon, "true_epsilon_at_least": least}
        curves.append(described)
    return {
        "name": panel.name,
        "title": panel.title,
        "curves": curves,
        "rising": panel.rising,
        "svg": line_figure(lines, x_label="records", y_label="test accuracy"),
    }
