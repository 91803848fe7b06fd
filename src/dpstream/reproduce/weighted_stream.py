"""Streams whose records repeat: exact moments, risks and minima, without a row for each record."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.domain.moments import packed_positions
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.mechanisms.moments import MomentLayout
from dpstream.mechanisms.public import public_generator
from dpstream.solvers.constrained_quadratic import Constraint, minimise_quadratic

Ball = L1Ball | L2Ball

SAMPLE = 4096
"""Rows that stand for all records of a random stream."""

RESIDUAL = 0.1
"""Deviation of the targets of a random stream from the linear truth."""

LENGTH = 0.9
"""L2 norm of the truth on the sphere."""

PARTS, EFFECTS = 4, (0.25, -0.25, 0.25, -0.25)
"""Features of a sparse record, and the effects of the first features: of L1 norm 1."""


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedStream:
    """Admitted records, each of which stands for several equal ones.

    Attributes:
        batch: the records.
        counts: how many each stands for.
    """

    batch: Batch
    counts: FloatArray

    @property
    def records(self) -> int:
        """How many there are."""
        return round(float(self.counts.sum()))

    @cached_property
    def _edge(self) -> FloatArray:
        """``sum (x, y) (x, y)'`` over the features that any record has, then y."""
        rows = np.column_stack([self.batch.scaled_features[:, self._used], self._targets])
        return rows.T @ (rows * self.counts[:, np.newaxis])

    @cached_property
    def _used(self) -> IntArray:
        return np.flatnonzero(np.any(self.batch.scaled_features != 0.0, axis=0)).astype(np.int64)

    @property
    def _targets(self) -> FloatArray:
        return self.batch.scaled_targets[:, 0]

    def moments(self, layout: MomentLayout, seen: Batch) -> FloatArray:
        """Exact measured entries of the records as the learner sees them.

        Args:
            layout: which entries.
            seen: the batch, or its projection.
        """
        rows = np.column_stack([np.ones(len(seen)), seen.scaled_features, self._targets])
        whole = rows.T @ (rows * self.counts[:, np.newaxis])
        first, second = packed_positions(layout.width)
        return whole[first, second][layout.positions]

    def risk(self, parameters: FloatArray) -> float:
        """Sum of squared errors."""
        edge = np.append(parameters[self._used], -1.0)
        return float(edge @ self._edge @ edge)

    def least(self, ball: Ball) -> float:
        """The least risk over the ball, by a certified minimiser: no noise.

        Features that no record has cost nothing at 0, so the ball is taken over the others.
        """
        inner = type(ball)(dimension=len(self._used), radius=ball.radius)
        found = minimise_quadratic(
            self._edge[:-1, :-1], self._edge[:-1, -1], Constraint(convex_set=inner)
        )
        edge = np.append(found.parameters, -1.0)
        return float(edge @ self._edge @ edge)


def signal_stream(domain: Domain, blocks: Sequence[tuple[int, int, float]]) -> WeightedStream:
    """Records that are all ``size * e_place`` with target 1, by blocks.

    Args:
        domain: of the records.
        blocks: ``(records, place, size)``.
    """
    features = np.zeros((len(blocks), domain.dimension))
    for row, (_, place, size) in enumerate(blocks):
        features[row, place] = size
    counts = np.array([count for count, _, _ in blocks], np.float64)
    return WeightedStream(batch=domain.admit(features, np.ones(len(blocks))), counts=counts)


def sphere_stream(domain: Domain, records: int, *, seed: int) -> WeightedStream:
    """Features even on the unit sphere, a truth of norm ``LENGTH``."""
    generator = public_generator(seed)
    features = generator.standard_normal((SAMPLE, domain.dimension))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    truth = generator.standard_normal(domain.dimension)
    truth *= LENGTH / np.linalg.norm(truth)
    targets = features @ truth + RESIDUAL * generator.standard_normal(SAMPLE)
    return WeightedStream(
        batch=domain.admit(features, targets), counts=np.full(SAMPLE, records / SAMPLE)
    )


def popular_stream(domain: Domain, records: int, *, seed: int) -> WeightedStream:
    """Sparse records whose features are the more frequent the lower their number, like words.

    ``PARTS`` features of one size and random signs, drawn without replacement with chances like
    ``1 / j``; the first ones have effects.
    """
    generator = public_generator(seed)
    dimension = domain.dimension
    chances = 1.0 / np.arange(1, dimension + 1)
    # The largest of log(u) / chance are a draw without replacement (Efraimidis, Spirakis 2006).
    keys = np.log(generator.random((SAMPLE, dimension))) / chances
    places = np.argsort(-keys, axis=1)[:, :PARTS]
    signs = generator.choice([-1.0, 1.0], (SAMPLE, PARTS)) / math.sqrt(PARTS)
    features = np.zeros((SAMPLE, dimension))
    np.put_along_axis(features, places, signs, axis=1)
    truth = np.zeros(dimension)
    truth[: len(EFFECTS)] = EFFECTS
    targets = features @ truth + RESIDUAL * generator.standard_normal(SAMPLE)
    return WeightedStream(
        batch=domain.admit(features, targets), counts=np.full(SAMPLE, records / SAMPLE)
    )
