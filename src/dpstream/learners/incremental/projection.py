"""Public random projections of admitted records, exact in integers.

Paper 000, section 5: the features' moments are measured in m dimensions instead of d. The matrix is
public, drawn before any data from a public seed, and rounded to a lattice on which products with
grid integers are exact in float64: the projection of a record is the same for every batching and
machine.
"""

import hashlib
import json
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.batch import GRID_BITS, Batch
from dpstream.domain.quantise import AffineMap, quantise
from dpstream.errors import ConfigurationError
from dpstream.mechanisms.public import public_generator

ProjectionKind = Literal["gaussian", "sparse"]

SPARSE_ENTRIES = 8
"""Entries of each column of a sparse projection that are not zero."""

_EXACT_ROW_BITS = 53 - GRID_BITS
"""A row of integer norm up to 2**33 times a record of norm up to 2**20 stays below 2**53."""


@dataclass(frozen=True, kw_only=True)
class Projection:
    """``Phi``, ``m`` by ``d``, with ``E Phi' Phi`` the identity; the identity itself if m is d.

    Attributes:
        kind: ``"gaussian"`` (independent entries of variance ``1/m``) or ``"sparse"`` (each column
            has up to eight entries of one size and random signs, in random rows).
        source: d.
        target: m.
        seed: public: a number, or the salt of a stream.
        purpose: public text that is mixed with the seed: the stream's declaration.
    """

    kind: ProjectionKind
    source: int
    target: int
    seed: int | str
    purpose: str

    def __post_init__(self) -> None:
        if self.kind not in get_args(ProjectionKind):
            raise ConfigurationError(
                f"projection is {self.kind!r}; it must be one of "
                f"{', '.join(get_args(ProjectionKind))}"
            )
        if not 1 <= self.target <= self.source:
            raise ConfigurationError(
                f"projected_dimension is {self.target}, but there are {self.source} features; "
                "it must be at least 1 and at most their number"
            )

    @property
    def trivial(self) -> bool:
        """Whether nothing is projected."""
        return self.target == self.source

    @cached_property
    def _integers(self) -> tuple[FloatArray, int]:
        """Integer-valued entries and the exponent of their lattice."""
        real = self._draw()
        longest = float(np.linalg.norm(real, axis=1).max())
        # Rounding adds at most sqrt(d) / 2 to a row's norm.
        room = 2.0**_EXACT_ROW_BITS - math.sqrt(self.source)
        bits = math.floor(math.log2(room / max(longest, 2.0**-20)))
        return np.rint(np.ldexp(real, bits)), -bits

    def _draw(self) -> FloatArray:
        if self.trivial:
            return np.eye(self.source)
        text = json.dumps([self.seed, self.kind, self.source, self.target, self.purpose])
        digest = hashlib.blake2b(text.encode(), digest_size=16, person=b"dpstream.project")
        generator = public_generator(int.from_bytes(digest.digest(), "big"))
        if self.kind == "gaussian":
            return generator.standard_normal((self.target, self.source)) / math.sqrt(self.target)
        count = min(SPARSE_ENTRIES, self.target)
        order = np.argsort(generator.random((self.target, self.source)), axis=0)[:count]
        signs = generator.choice([-1.0, 1.0], (count, self.source))
        matrix = np.zeros((self.target, self.source))
        np.put_along_axis(matrix, order, signs / math.sqrt(count), axis=0)
        return matrix

    @cached_property
    def matrix(self) -> FloatArray:
        """Phi."""
        integers, exponent = self._integers
        return np.ldexp(integers, exponent)

    def project(self, batch: Batch) -> Batch:
        """The records ``(1, v, y)`` with v the projected features, clipped to the unit ball.

        Guarantees of every record what admission guarantees: grid integers, the integer norms of
        v and of y at most ``2**20``, and null records null. v depends on that record alone.
        """
        if self.trivial:
            return batch
        integers, exponent = self._integers
        # Partial sums of products are integers below 2**53: exact in any order.
        projected = batch.rows[:, 1 : 1 + batch.dimension] @ integers.T
        records = np.hstack([np.ldexp(projected, exponent - GRID_BITS), batch.scaled_targets])
        records[batch.null] = np.nan
        rows = quantise(records, _unit_map(records.shape[1]), self.target)
        return Batch(rows, self.target, batch.units, batch.times)

    def describe(self) -> dict[str, Any]:
        """Everything public, with the matrix's digest: a resumed stream must have the same one."""
        integers, exponent = self._integers
        content = np.ascontiguousarray(integers.astype("<i8")).tobytes()
        return {
            "kind": "identity" if self.trivial else self.kind,
            "dimension": self.target,
            "seed": self.seed,
            "exponent": exponent,
            "digest": hashlib.blake2b(content, digest_size=16).hexdigest(),
        }


def _unit_map(width: int) -> AffineMap:
    """Nothing but the norm clip and the grid."""
    free = np.full(width, np.inf)
    return AffineMap(lower=-free, upper=free, centre=np.zeros(width), scale=np.ones(width))
