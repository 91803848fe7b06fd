"""A learner of blocks, run several times over a stream and scored after each block."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.learners.learner import Tick
from dpstream.learners.window.block_learner import BlockLearner
from dpstream.mechanisms.mechanism import Noise
from dpstream.report.figure import Line


@dataclass(frozen=True, kw_only=True)
class Track:
    """One learner's figures over blocks.

    Attributes:
        name: what was run.
        blocks: after which blocks a model was there.
        values: ``(repeats, blocks)``.
    """

    name: str
    blocks: IntArray
    values: FloatArray

    @property
    def median(self) -> FloatArray:
        """Over repeats."""
        return np.median(self.values, axis=0)

    def to_json(self) -> dict[str, Any]:
        """Median and quartiles after each block."""
        lower, upper = np.quantile(self.values, [0.25, 0.75], axis=0)
        return {
            "name": self.name,
            "blocks": self.blocks.tolist(),
            "median": self.median.tolist(),
            "lower_quartile": lower.tolist(),
            "upper_quartile": upper.tolist(),
        }

    def line(self) -> Line:
        """Median and quartiles as a curve."""
        lower, upper = np.quantile(self.values, [0.25, 0.75], axis=0)
        return Line(
            x=self.blocks.astype(np.float64),
            y=self.median,
            lower=lower,
            upper=upper,
            marker=len(self.blocks) < 25,
        )


def track(
    name: str,
    make: Callable[[], BlockLearner],
    *,
    rows: Callable[[int], tuple[FloatArray, Any]],
    score: Callable[[int, FloatArray], float],
    blocks: int,
    repeats: int,
) -> Track:
    """Run a learner several times, with new noise each.

    Args:
        name: of the track.
        make: the learner.
        rows: features and targets of a repeat's whole stream.
        score: of a model's coefficients after a block.
        blocks: how many to run.
        repeats: how often.
    """
    learner = make()
    size = learner.block_records
    ready: list[int] = []
    values: list[list[float]] = []
    for repeat in range(repeats):
        batch = learner.domain.admit(*rows(repeat))
        # Reproduction on public data: the noise can be drawn again by anyone.
        noise = Noise.insecure(repeat).child(name)
        state = learner.init()
        ready, found = [], list[float]()
        for number in range(1, blocks + 1):
            tick = Tick(number=number, records=number * size)
            learner.learn(state, batch.slice((number - 1) * size, number * size))
            learner.close(state, tick)
            model = learner.release(state, tick, noise).model
            if model["ready"]:
                ready.append(number)
                found.append(score(number, np.array(model["user"]["coefficients"])))
        values.append(found)
    return Track(name=name, blocks=np.array(ready, np.int64), values=np.array(values))
