"""A learner of blocks, run several times over a stream and scored after each block."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.learners.learner import Learner, Tick
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

    def line(self, size: int = 1) -> Line:
        """Median and quartiles as a curve, over blocks or, given a block's, over records."""
        lower, upper = np.quantile(self.values, [0.25, 0.75], axis=0)
        return Line(
            x=size * self.blocks.astype(np.float64),
            y=self.median,
            lower=lower,
            upper=upper,
            marker=len(self.blocks) < 25,
        )


def newest_scores(model: Mapping[str, Any]) -> Any:
    """The user's coefficients in a model of scores."""
    return model["user"]["coefficients"] if model["ready"] else None


def track(
    name: str,
    make: Callable[[], Learner[Any]],
    *,
    rows: Callable[[int], tuple[FloatArray, Any]],
    score: Callable[[int, FloatArray], float],
    blocks: int,
    repeats: int,
    size: int | None = None,
    read: Callable[[Mapping[str, Any]], Any] = newest_scores,
) -> Track:
    """Run a learner several times, with new noise each.

    Args:
        name: of the track.
        make: the learner.
        rows: features and targets of a repeat's whole stream.
        score: of a model's coefficients after a block.
        blocks: how many to run.
        repeats: how often.
        size: records of a block; None for the learner's own.
        read: the coefficients of a published model; None before there are any.
    """
    learner = make()
    length: int = getattr(learner, "block_records", 0) if size is None else size
    ready: list[int] = []
    values: list[list[float]] = []
    for repeat in range(repeats):
        batch = learner.domain.admit(*rows(repeat))
        # Reproduction on public data: the noise can be drawn again by anyone.
        noise = Noise.insecure(repeat).child(name)
        state = learner.init()
        ready, found = [], list[float]()
        for number in range(1, blocks + 1):
            tick = Tick(number=number, records=number * length)
            learner.learn(state, batch.slice((number - 1) * length, number * length))
            learner.close(state, tick)
            coefficients = read(learner.release(state, tick, noise).model)
            if coefficients is not None:
                ready.append(number)
                found.append(score(number, np.array(coefficients)))
        values.append(found)
    return Track(name=name, blocks=np.array(ready, np.int64), values=np.array(values))
