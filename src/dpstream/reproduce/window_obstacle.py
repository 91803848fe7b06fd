"""What stands in the way of a small epsilon: how long the noise is beside the model.

The minimiser of all records is found without noise, and noise of known length is laid on it in
random directions: a simulation that no schedule of fits enters. Beside it stand the lengths of the
noise that the paper's schedule draws, and of a single fit of all records that has the whole budget
to itself: no schedule of this mechanism can draw less for these records and this penalty.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.learners.window.continual_release import ContinualRelease
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.report.figure import Line, line_figure
from dpstream.reproduce.labelled_stream import LabelledStream
from dpstream.solvers.minimiser import Target, minimise
from dpstream.solvers.output_perturbation import NoiseKind

RATIOS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Of the noise's length to the model's."""

_DRAWS = 8
_BUDGETS: Sequence[tuple[NoiseKind, Budget]] = (
    ("spherical_laplace", Budget(epsilon=0.1, delta=0.0)),
    ("gaussian", Budget(epsilon=0.1, delta=1e-6)),
    ("gaussian", Budget(epsilon=1.0, delta=1e-6)),
)


def run_obstacles(
    streams: Mapping[str, LabelledStream], *, block: int, base: int, blocks: int, penalty: float
) -> dict[str, Any]:
    """Accuracy against the noise's length, simulated; JSON-ready, with ``svg``.

    Args:
        streams: by name, of one length.
        block: records of a block.
        base: blocks of the first base of the paper's schedule.
        blocks: how many there are.
        penalty: the paper's lambda.
    """
    rows: list[dict[str, Any]] = []
    lines: dict[str, Line] = {}
    for name, stream in streams.items():
        model = _minimiser(stream, block=block, blocks=blocks, penalty=penalty)
        length = float(np.linalg.norm(model))
        curve = [_noisy_accuracy(stream, model, ratio * length) for ratio in RATIOS]
        lines[name] = Line(x=np.array(RATIOS), y=np.array(curve), marker=True)
        for kind, budget in _BUDGETS:
            paper, alone = (
                ContinualRelease(
                    base=first,
                    ridge=2.0 * penalty,
                    noise=kind,
                    **stream.settings(budget, block_records=block, horizon=last),
                )
                for first, last in ((base, None), (blocks, blocks))
            )
            for schedule, learner in (("the paper's", paper), ("one fit of all", alone)):
                noise = learner.solver.plan(blocks, learner.ridge).noise.length
                rows.append(
                    {
                        "features": name,
                        "parameters": learner.solver.dimension,
                        "noise_kind": kind,
                        "epsilon": budget.epsilon,
                        "schedule": schedule,
                        "model_length": length,
                        "without_noise": stream.accuracies(_table(stream, model))[0],
                        "noise_length": noise,
                        "ratio": noise / length,
                        "simulated_accuracy": _noisy_accuracy(stream, model, noise),
                    }
                )
    return {
        "penalty": penalty,
        "records": block * blocks,
        "rows": rows,
        "svg": line_figure(
            lines, x_label="length of the noise over the model's", y_label="accuracy", x_log=True
        ),
    }


def _minimiser(stream: LabelledStream, *, block: int, blocks: int, penalty: float) -> FloatArray:
    """Of all records, without noise: for this simulation on public data alone."""
    learner = ContinualRelease(
        base=blocks,
        ridge=2.0 * penalty,
        **stream.settings(Budget(epsilon=1.0, delta=1e-6), block_records=block, horizon=None),
    )
    solver, count = learner.solver, block * blocks
    target = Target(
        problem=solver.problem(blocks), modulus=learner.ridge, centre=np.zeros(solver.dimension)
    )
    batch = learner.domain.admit(stream.features[:count], stream.labels[:count])
    tolerance = solver.plan(blocks, learner.ridge).tolerance
    return minimise(target, batch, tolerance=tolerance).point


def _noisy_accuracy(stream: LabelledStream, model: FloatArray, length: float) -> float:
    draws = public_generator(5).normal(size=(_DRAWS, model.size))
    draws *= length / np.linalg.norm(draws, axis=1, keepdims=True)
    return float(np.mean(stream.accuracies(_table(stream, model + draws))))


def _table(stream: LabelledStream, models: FloatArray) -> FloatArray:
    return models.reshape(-1, stream.classes, stream.features.shape[1])
