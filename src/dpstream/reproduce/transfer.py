"""Dynamic transfer: a large source stream of digits, and a small target stream of moved ones.

The target's images stand three pixels to the right. Each stream has its own unit and budget; the
target sees the source's released models alone, and fits its own few records around the newest.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.learners.learner import Tick
from dpstream.learners.window.sliding_window import SlidingWindowRelease
from dpstream.learners.window.source_model import ReleasedModels
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.budget import Budget
from dpstream.report.figure import line_figure
from dpstream.reproduce.digit import SIDE, edge_features
from dpstream.reproduce.labelled_stream import LabelledStream, accuracy_track

SOURCE_RECORDS = 14 * 1024
SOURCE_BLOCK = 1024
TARGET_BLOCK = 256
TARGET_BLOCKS = 10
MOVED = 3
UPDATE_RIDGE = 0.2
_BUDGET = Budget(epsilon=1.0, delta=1e-6)


def moved(rows: FloatArray) -> FloatArray:
    """Edge features of images whose pixels were moved to the right."""
    images = np.roll(rows.reshape(-1, SIDE, SIDE), MOVED, axis=2)
    return edge_features(255.0 * images.reshape(len(rows), -1))


def run_transfer(edges: LabelledStream, pixels: LabelledStream, *, repeats: int) -> dict[str, Any]:
    """Accuracy on moved images, with and without the source; JSON-ready, with ``svg``."""
    source, target = (
        _split(edges, slice(0, SOURCE_RECORDS)),
        _split(pixels, slice(SOURCE_RECORDS, SOURCE_RECORDS + TARGET_BLOCK * TARGET_BLOCKS)).mapped(
            moved
        ),
    )
    models = ReleasedModels("digits", domain=target.domain)
    models.show(_source_model(source))
    newest = models.newest()
    assert newest is not None

    def learner(shown: ReleasedModels | None) -> Callable[[LabelledStream, Budget], Any]:
        return lambda stream, budget: SlidingWindowRelease(
            window_records=2 * TARGET_BLOCK,
            ridge=0.01,
            update_ridge=UPDATE_RIDGE,
            source=shown,
            **stream.settings(budget, block_records=TARGET_BLOCK, horizon=None),
        )

    tracks = [
        accuracy_track(
            name,
            learner(shown),
            target,
            budget=_BUDGET,
            blocks=TARGET_BLOCKS,
            repeats=repeats,
        )
        for name, shown in (("target alone", None), ("target around the source", models))
    ]
    unchanged = target.accuracies(newest.coefficients[None])[0]
    return {
        "curves": [item.to_json() for item in tracks],
        "source_alone": unchanged,
        "svg": line_figure(
            {item.name: item.line(TARGET_BLOCK) for item in tracks},
            x_label="records of the target",
            y_label="accuracy on moved images",
            references={"source alone": unchanged},
        ),
    }


def _split(stream: LabelledStream, part: slice) -> LabelledStream:
    return LabelledStream(
        features=stream.features[part],
        labels=stream.labels[part],
        test_features=stream.test_features,
        test_labels=stream.test_labels,
        classes=stream.classes,
    )


def _source_model(source: LabelledStream) -> dict[str, Any]:
    """What the source has released last."""
    chosen = SlidingWindowRelease(
        window_records=SOURCE_RECORDS,
        ridge=0.01,
        **source.settings(_BUDGET, block_records=SOURCE_BLOCK, horizon=None),
    )
    batch = chosen.domain.admit(source.features, source.labels)
    state, value = chosen.init(), dict[str, Any]()
    for number in range(1, len(batch) // SOURCE_BLOCK + 1):
        tick = Tick(number=number, records=number * SOURCE_BLOCK)
        chosen.learn(state, batch.slice((number - 1) * SOURCE_BLOCK, number * SOURCE_BLOCK))
        chosen.close(state, tick)
        value = dict(chosen.release(state, tick, Noise.insecure(0).child("source")).model)
    return value
