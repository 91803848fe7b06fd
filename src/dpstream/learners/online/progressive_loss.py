"""The measured progressive loss: how well released models did on the records that followed.

A coordinate of the measured stack, so it costs no release of its own. Its mean over all records
moves slowly; what was lost since the stream had half its ticks is told from the released sum then
and now, so that a drift is seen while it lasts. Everything here is made of released numbers.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray

SPACING = 1.25
"""Sums are kept at ticks each so many times the one before: few for any length of stream."""


@dataclass(frozen=True)
class LossMark:
    """A released sum of losses.

    Attributes:
        tick: of the release.
        records: at it, as far as they are public.
        total: the released sum.
        variance: of its noise.
    """

    tick: int
    records: float
    total: float
    variance: float


def no_marks() -> FloatArray:
    """The marks of an empty stream: rows of tick, records, released sum and its variance."""
    return np.zeros((0, 4))


def marked(marks: FloatArray, own: LossMark) -> FloatArray:
    """The marks with this release's, unless it is too close to the last one."""
    if len(marks) and own.tick < SPACING * marks[-1, 0]:
        return marks
    return np.vstack((marks, (float(own.tick), own.records, own.total, own.variance)))


def recent_loss(marks: FloatArray, own: LossMark) -> dict[str, Any] | None:
    """The mean loss since the last mark in the stream's first half; None before there is one.

    Sums of two ticks share noise or have none in common, so the variance of their difference is
    at most the sum of their variances: the error told is that.
    """
    place = int(np.searchsorted(marks[:, 0], 0.5 * own.tick, side="right")) - 1
    if place < 0:
        return None
    since, before, held, variance = marks[place].tolist()
    between = own.records - before
    if between < 1.0:
        return None
    return {
        "since_tick": int(since),
        "mean": (own.total - held) / between,
        "noise_standard_error": math.sqrt(own.variance + variance) / between,
    }
