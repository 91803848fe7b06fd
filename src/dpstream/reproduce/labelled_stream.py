"""A stream of labelled records with a test set, and learners of blocks that are scored on it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.column import Numeric
from dpstream.domain.domain import Domain
from dpstream.domain.target import LabelTarget
from dpstream.learners.window.block_learner import BlockLearner
from dpstream.losses.softmax import SoftmaxLoss
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.reproduce.block_track import Track, track

RADIUS = 50.0

Make = Callable[["LabelledStream", Budget], BlockLearner]
"""Makes a learner for a stream and a budget."""


@dataclass(frozen=True, kw_only=True)
class LabelledStream:
    """Features in the unit ball, and labels 0 to ``classes - 1``.

    Attributes:
        features: of the stream.
        labels: of the stream.
        test_features: of the test set.
        test_labels: of the test set.
        classes: how many labels are declared.
        ordered: whether the stream's order means something; else every run shuffles it.
    """

    features: FloatArray
    labels: IntArray
    test_features: FloatArray
    test_labels: IntArray
    classes: int
    ordered: bool = False

    @cached_property
    def domain(self) -> Domain:
        """A column for every feature, and the classes."""
        columns = [Numeric(f"x{index}") for index in range(self.features.shape[1])]
        return Domain(
            columns,
            LabelTarget("label", list(range(self.classes))),
            intercept=False,
            norm_bound=1.0,
        )

    def mapped(self, change: Callable[[FloatArray], FloatArray]) -> "LabelledStream":
        """The same stream with other features, made of each record alone."""
        return replace(
            self, features=change(self.features), test_features=change(self.test_features)
        )

    def order(self, repeat: int) -> IntArray:
        """The order of a run."""
        if self.ordered:
            return np.arange(len(self.labels))
        return public_generator(repeat).permutation(len(self.labels))

    def accuracies(self, points: FloatArray) -> list[float]:
        """On the test set, of models given as ``(models, classes, features)``."""
        guesses = np.einsum("nf,bkf->bnk", self.test_features, points, optimize=True).argmax(2)
        return (guesses == self.test_labels).mean(axis=1).tolist()

    def settings(
        self, budget: Budget, *, block_records: int, horizon: int | None
    ) -> dict[str, Any]:
        """What every learner of softmax regression on this stream is told."""
        return {
            "domain": self.domain,
            "budget": budget,
            "unit": Unit(),
            "neighbours": Neighbours.ZERO_OUT,
            "radius": RADIUS,
            "loss": SoftmaxLoss(classes=self.classes),
            "block_records": block_records,
            "horizon": horizon,
        }


def accuracy_track(
    name: str,
    make: Make,
    stream: LabelledStream,
    *,
    budget: Budget,
    blocks: int,
    repeats: int,
) -> Track:
    """Test accuracy after each block, with a new order and new noise in each run."""

    def rows(repeat: int) -> tuple[FloatArray, Any]:
        order = stream.order(repeat)
        return stream.features[order], stream.labels[order]

    return track(
        name,
        lambda: make(stream, budget),
        rows=rows,
        score=lambda _, coefficients: stream.accuracies(coefficients[None])[0],
        blocks=blocks,
        repeats=repeats,
    )
