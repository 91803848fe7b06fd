"""Made-up records and models inside a domain's public bounds: what predictions are made for.

Columns are independent and even over their public bounds; a target's standard deviation is a
quarter of its interval's length, half of its variance explained by the features. Nothing is known
of real records here.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.batch import GRID, Batch
from dpstream.domain.domain import Domain
from dpstream.domain.moments import packed_positions
from dpstream.errors import ConfigurationError
from dpstream.geometry.convex_set import ConvexSet, Projectable
from dpstream.mechanisms.moments import MomentLayout
from dpstream.mechanisms.public import PublicGenerator
from dpstream.solvers.synthetic import synthetic_columns

SAMPLE = 4096
TARGET_SPREAD = 0.5
"""Standard deviation of a target in units of half its interval."""

EXPLAINED = 0.5
"""Part of the target's variance that the best model explains."""


@dataclass(frozen=True, kw_only=True)
class Population:
    """Made-up records, as one admitted batch; every expectation is over its rows.

    Attributes:
        domain: of the records.
        batch: the records, without targets.
    """

    domain: Domain
    batch: Batch

    @cached_property
    def rows(self) -> FloatArray:
        """``(1, x)`` in scaled units."""
        return np.column_stack([np.ones(len(self.batch)), self.batch.scaled_features])

    @cached_property
    def design(self) -> FloatArray:
        """The mean of ``(1, x) (1, x)'``."""
        return self.rows.T @ self.rows / len(self.rows)

    @property
    def variance(self) -> float:
        """Of a scaled target."""
        return TARGET_SPREAD**2 / self.domain.target_count

    def truth(self, constraint: ConvexSet | None, generator: PublicGenerator) -> FloatArray:
        """Random coefficients ``(0, theta)`` that explain their part of a target.

        Drawn in the coordinates in which the features are uncorrelated, so that no direction is
        favoured; then moved into the set, if there is one.
        """
        signal = EXPLAINED * self.variance
        mean = self.design[0, 1:]
        values, vectors = np.linalg.eigh(self.design[1:, 1:] - np.outer(mean, mean))
        usable = values > 1e-9 * values[-1]
        weights = generator.standard_normal(values.size) * usable
        weights *= math.sqrt(signal) / np.linalg.norm(weights)
        theta = vectors @ (weights / np.sqrt(np.where(usable, values, 1.0)))
        if constraint is not None and not constraint.contains(theta):
            inside = isinstance(constraint, Projectable)
            theta = constraint.project(theta) if inside else constraint.centre()
        offset = -float(mean @ theta) if self.domain.intercept else 0.0
        return np.concatenate([[offset], theta])

    def moments(
        self, layout: MomentLayout, truth: FloatArray, records: int, *, seen: FloatArray
    ) -> FloatArray:
        """The measured entries of the expected moments of so many records.

        Args:
            layout: which entries are measured, of how many features.
            truth: of the first target; others are left at zero.
            records: how many.
            seen: ``(1, v)`` of every row, as the learner sees it: ``rows``, or their projections.
        """
        first = seen.shape[1]
        full = np.zeros((layout.width, layout.width))
        full[:first, :first] = seen.T @ seen / len(seen)
        full[:first, first] = full[first, :first] = seen.T @ (self.rows @ truth) / len(seen)
        full[first, first] = self.variance
        rows, columns = packed_positions(layout.width)
        return records * full[rows, columns][layout.positions]

    def excess(self, parameters: FloatArray, truth: FloatArray) -> float:
        """Excess risk per record of ``(b, theta)``, over the true ones."""
        gap = parameters - truth
        return float(gap @ self.design @ gap)


def made_up(
    domain: Domain, generator: PublicGenerator, *, sparsity: int | None = None, count: int = SAMPLE
) -> Population:
    """Records drawn evenly over the domain's bounds.

    Args:
        domain: the public declaration.
        generator: public.
        sparsity: each record has that many features of one size and random signs, the others zero;
            None for columns that fill their bounds.
        count: of records.
    """
    if sparsity is not None:
        if not 1 <= sparsity <= domain.dimension:
            raise ConfigurationError(
                f"sparsity is {sparsity}; it must be at least 1 and at most the number of "
                f"features, {domain.dimension}"
            )
        rows = np.zeros((count, 1 + domain.dimension))
        rows[:, 0] = GRID
        places = np.argsort(generator.random((count, domain.dimension)), axis=1)[:, :sparsity]
        signs = generator.choice([-1.0, 1.0], (count, sparsity))
        np.put_along_axis(rows, 1 + places, np.trunc(signs * GRID / math.sqrt(sparsity)), axis=1)
        return Population(domain=domain, batch=Batch(rows, domain.dimension))
    bare = Domain(
        domain.columns,
        intercept=domain.intercept,
        record_bound=domain.record_bound,
        norm_bound=domain.norm_bound,
    )
    return Population(domain=domain, batch=bare.admit(synthetic_columns(domain, count, generator)))
