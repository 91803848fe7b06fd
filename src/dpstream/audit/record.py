"""Worst-case records from public bounds: the corners of what admission lets through."""

import math
from dataclasses import dataclass

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.batch import GRID, Batch
from dpstream.privacy.unit import Neighbours

_ANGLES = 37


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A record and what stands in its place in the neighbouring stream.

    Attributes:
        words: the pair in words.
        dimension: width of the x part.
        record: the row ``(1, x, y)`` in units of the grid.
        other: the row in its place; all zero for the null record.
    """

    words: str
    dimension: int
    record: FloatArray
    other: FloatArray

    def batch(self, *, present: bool, count: int = 1) -> Batch:
        """A batch of that many copies of the record, or of what stands in its place."""
        row = self.record if present else self.other
        return Batch(np.tile(row, (count, 1)), self.dimension)


def row(x: FloatArray, y: FloatArray) -> FloatArray:
    """An admitted row: rounded towards zero, so that norms stay within the unit balls."""
    scaled = np.trunc(np.concatenate([x, y]) * GRID)
    return np.concatenate([[float(GRID)], scaled])


def record_pairs(dimension: int, target_count: int, neighbours: Neighbours) -> list[Pair]:
    """Candidates for the worst pair: whole norms, every angle, targets with and against.

    Sensitivities depend on inner products alone, so two features show every pair of features.
    """

    def feature(angle: float) -> FloatArray:
        x = np.zeros(dimension)
        x[0] = math.cos(angle)
        if dimension > 1:
            x[1] = math.sin(angle)
        return x

    def target(value: float) -> FloatArray:
        y = np.zeros(target_count)
        y[:1] = value
        return y

    first = row(feature(0.0), target(1.0))
    null = np.zeros_like(first)
    pairs = [
        Pair(words="a record against the null record", dimension=dimension, record=one, other=null)
        for one in (first, row(feature(0.0), target(-1.0)))
    ]
    if neighbours is Neighbours.ZERO_OUT:
        return pairs
    angles = np.linspace(0.0, math.pi, _ANGLES if dimension > 1 else 2)
    for angle in angles:
        for value in (-1.0, 0.0, 1.0) if target_count else (0.0,):
            pairs.append(
                Pair(
                    words=f"features at an angle of {math.degrees(angle):.0f} degrees, "
                    f"targets 1 and {value:g}",
                    dimension=dimension,
                    record=first,
                    other=row(feature(float(angle)), target(value)),
                )
            )
    return pairs
