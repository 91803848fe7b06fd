"""Projections and linear oracles of long vectors, as passes over the vector.

A pass is one ``numpy.sum`` over the same vector, measured in the same run and interleaved with
the operation; the best of several repeats is taken on both sides.
"""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.bench.history import Watch
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.geometry.simplex import Simplex
from dpstream.mechanisms.public import public_generator

WATCHED = (Watch("passes/*", "lower"),)

ENTRIES = 1_000_000
_REPEATS = 15


def passes(operation: Callable[[FloatArray], object], vector: FloatArray) -> float:
    """Time of the operation over the time of one sum of the vector."""
    best = floor = float("inf")
    operation(vector)
    for _ in range(_REPEATS):
        started = perf_counter()
        np.sum(vector)
        middle = perf_counter()
        operation(vector)
        best, floor = min(best, perf_counter() - middle), min(floor, middle - started)
    return best / floor


def run(*, entries: int = ENTRIES) -> dict[str, Any]:
    """Passes of each operation on normal, skewed and heavy-tailed vectors."""
    generator = public_generator(7)
    vectors = {
        "normal": generator.standard_normal(entries),
        "exponential": generator.standard_exponential(entries),
        "uniform": generator.uniform(size=entries),
        "Cauchy": generator.standard_cauchy(entries),
    }
    l1, l2 = L1Ball(dimension=entries, radius=1.0), L2Ball(dimension=entries, radius=1.0)
    simplex = Simplex(dimension=entries, total=1.0)
    operations: dict[str, Callable[[FloatArray], object]] = {
        "project on the L1 ball": l1.project,
        "project on the simplex": simplex.project,
        "project on the L2 ball": l2.project,
        "linear oracle of the L1 ball": l1.minimize_linear,
        "linear oracle of the simplex": simplex.minimize_linear,
    }
    return {
        "entries": entries,
        "passes": {
            name: {kind: passes(operation, vector) for kind, vector in vectors.items()}
            for name, operation in operations.items()
        },
    }
