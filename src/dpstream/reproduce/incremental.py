"""Table 1 of paper 000, measured: excess risk of the three incremental learners.

The paper's risk is the largest over streams, so each point is taken at streams that are hard for
its size: weak signals, at the hardest of a few multiples of what the noise hides over the set.
Every record is ``s e_1`` with target 1, so that the objective is all but linear; PrivIncERM is
looked at just before a refit, with news since the last one. On other streams excess falls as
records come; two are there as well: features even on the sphere, and sparse features of which some
are popular.

The paper's own constants, and its averaged noisy descent, stand beside ours where they explain a
difference. They promise nothing.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.privacy.unit import Neighbours
from dpstream.reproduce.curve import CONFIDENCE, Curve
from dpstream.reproduce.incremental_claim import (
    FULL_DATA,
    crossing,
    incremental_claims,
    incremental_pictures,
)
from dpstream.reproduce.incremental_risk import (
    DELTA,
    descent_hardest,
    first_excess,
    first_hardest,
    first_learner,
    printed_bound,
    refit_hardest,
    second_excess,
    second_hardest,
    second_learner,
)
from dpstream.reproduce.weighted_stream import popular_stream, sphere_stream

EPSILON = 1.0
RECORDS = (2**15 - 1, 2**17 - 1, 2**19 - 1, 2**21 - 1)
"""Ticks at which a tree adds a node of every size: between them its noise goes up and down."""

DIMENSIONS = (64, 128, 256, 512)
"""In fewer, the caution before a model leaves zero is much of the excess."""

EPSILONS = (0.25, 0.5, 1.0, 2.0)
FIXED_RECORDS, FIXED_DIMENSION = 100_000, 32

SPARSE_DIMENSIONS = (64, 128, 256, 512, 1024)
SPARSE_RECORDS = 10_000
DESCENT_STRENGTHS = (8.0, 16.0, 32.0, 64.0)
"""In units of one entry's deviation: the descent misses most where a signal is sqrt(d) of them."""

PROJECTIONS = 4
SOLVED_DIMENSIONS = (64, 128, 256, 512)
"""Where the certified solver is run at every strength: its time grows like the cube."""

POPULAR_DIMENSIONS = (256, 512, 1024)
POPULAR_RECORDS, POPULAR_DRAWS = 100_000, 2

COMPARED_DIMENSION, COMPARED_DRAWS = 54, 16
STREAM_SEED = 2017


def _curve(
    name: str,
    expected: str,
    sizes: Sequence[float],
    columns: Sequence[FloatArray],
    *,
    axis: str = "dimension",
) -> Curve:
    """The curve whose points are the draws of excess at each size."""
    excess = np.column_stack(columns)
    return Curve(name=name, axis=axis, expected=expected, x=tuple(sizes), excess=excess)


def curves(*, draws: int) -> list[Curve]:
    """Excess against records, dimension and epsilon, on the L2 ball."""
    found: list[Curve] = []

    def add(
        name: str, expected: Sequence[str], point: Callable[[int, int, float, int], FloatArray]
    ) -> None:
        axes: Sequence[tuple[str, Sequence[float]]] = (
            ("records", RECORDS),
            ("dimension", DIMENSIONS),
            ("epsilon", EPSILONS),
        )
        for (axis, sizes), slope in zip(axes, expected, strict=True):
            columns = [
                point(
                    int(size) if axis == "records" else FIXED_RECORDS,
                    int(size) if axis == "dimension" else FIXED_DIMENSION,
                    float(size) if axis == "epsilon" else EPSILON,
                    draws,
                )
                for size in sizes
            ]
            found.append(_curve(name, slope, sizes, columns, axis=axis))

    add(
        "PrivIncERM",
        ("1/3", "1/3", "-2/3"),
        lambda records, dimension, epsilon, count: refit_hardest(
            L2Ball(dimension=dimension), records=records, epsilon=epsilon, draws=count
        ),
    )
    add(
        "PrivIncERM, printed split of the budget",
        ("1/3", "1/3", "-2/3"),
        lambda records, dimension, epsilon, count: refit_hardest(
            L2Ball(dimension=dimension), records=records, epsilon=epsilon, draws=count, printed=True
        ),
    )
    add(
        "PrivIncReg1",
        ("0 (at most log^(3/2) T)", "1/2", "-1"),
        lambda records, dimension, epsilon, count: first_hardest(
            L2Ball(dimension=dimension), records=records, epsilon=epsilon, draws=count
        ),
    )
    add(
        "PrivIncReg1 as printed",
        ("0 (at most log^(3/2) T)", "1/2", "-1"),
        lambda records, dimension, epsilon, count: first_hardest(
            L2Ball(dimension=dimension),
            records=records,
            epsilon=epsilon,
            draws=max(2, count // 3),
            printed=True,
        ),
    )
    return found


def sparse_curves(*, draws: int) -> list[Curve]:
    """Excess against the dimension on the L1 ball, for records of one feature each."""
    seeds = range(PROJECTIONS)
    each = max(1, draws // PROJECTIONS)

    def curve(
        name: str, expected: str, sizes: Sequence[int], point: Callable[[int], FloatArray]
    ) -> Curve:
        return _curve(name, expected, sizes, [point(size) for size in sizes])

    def descended(learners: Sequence[Any], count: int) -> FloatArray:
        return descent_hardest(
            learners, records=SPARSE_RECORDS, strengths=DESCENT_STRENGTHS, draws=count
        )

    def first(size: int) -> Any:
        return first_learner(L1Ball(dimension=size), records=SPARSE_RECORDS)

    def second(size: int) -> list[Any]:
        ball = L1Ball(dimension=size)
        return [second_learner(ball, records=SPARSE_RECORDS, seed=seed) for seed in seeds]

    return [
        curve(
            "PrivIncReg1, the paper's descent",
            "1/2",
            SPARSE_DIMENSIONS,
            lambda size: descended([first(size)], each * PROJECTIONS),
        ),
        curve(
            "PrivIncReg2, the paper's descent",
            "0 (at most log d)",
            SPARSE_DIMENSIONS,
            lambda size: descended(second(size), each),
        ),
        curve(
            "PrivIncReg1, certified",
            "1/2 (its bound); 0 by the set's width",
            SOLVED_DIMENSIONS,
            lambda size: first_hardest(
                L1Ball(dimension=size), records=SPARSE_RECORDS, draws=each * PROJECTIONS
            ),
        ),
        curve(
            "PrivIncReg2, certified",
            "0 (at most log d)",
            SOLVED_DIMENSIONS,
            lambda size: second_hardest(second(size), records=SPARSE_RECORDS, draws=each),
        ),
    ]


def popular_curves() -> list[Curve]:
    """Excess of the certified learners on sparse records with popular features."""
    found: dict[str, list[FloatArray]] = {"PrivIncReg1": [], "PrivIncReg2": []}
    for dimension in POPULAR_DIMENSIONS:
        ball = L1Ball(dimension=dimension)
        first = first_learner(ball, records=POPULAR_RECORDS)
        second = second_learner(ball, records=POPULAR_RECORDS, seed=STREAM_SEED)
        stream = popular_stream(first.domain, POPULAR_RECORDS, seed=STREAM_SEED)
        found["PrivIncReg1"].append(first_excess(first, stream, draws=POPULAR_DRAWS))
        found["PrivIncReg2"].append(second_excess(second, stream, draws=POPULAR_DRAWS))
    return [
        _curve(f"{name}, popular features", "", POPULAR_DIMENSIONS, columns)
        for name, columns in found.items()
    ]


def compared() -> dict[str, Any]:
    """Ours and the paper's constants for PrivIncReg1, on one stream and at each one's hardest."""
    ball = L2Ball(dimension=COMPARED_DIMENSION)
    figures: dict[str, Any] = {"records": FIXED_RECORDS, "dimension": COMPARED_DIMENSION}
    for name, printed in (("ours", False), ("as printed", True)):
        learner = first_learner(ball, records=FIXED_RECORDS, printed=printed)
        stream = sphere_stream(learner.domain, FIXED_RECORDS, seed=STREAM_SEED)
        even = first_excess(learner, stream, draws=COMPARED_DRAWS)
        hard = first_hardest(ball, records=FIXED_RECORDS, draws=COMPARED_DRAWS, printed=printed)
        zero = stream.risk(np.zeros(COMPARED_DIMENSION)) - stream.least(ball)
        figures |= {
            name: {
                "same stream": float(even.mean()),
                "same stream, largest draw": float(even.max()),
                "same stream, least draw": float(even.min()),
                "own hardest weak signal": float(hard.mean()),
            },
            "zero model, same stream": zero,
        }
    ours, theirs = figures["ours"], figures["as printed"]
    return figures | {
        "times lower": {
            "same stream": theirs["same stream"] / ours["same stream"],
            "worst of ours against best of theirs": theirs["same stream, least draw"]
            / ours["same stream, largest draw"],
            "own hardest weak signal": theirs["own hardest weak signal"]
            / ours["own hardest weak signal"],
        }
    }


def incremental(out: Path | None = None, *, draws: int = 12) -> dict[str, Any]:
    """Run all experiments; with ``out``, write the pictures there.

    Args:
        out: a folder for the pictures, made if it is missing; None for numbers alone.
        draws: of the noise per point, at least 4.

    Returns:
        JSON-ready: each curve's points, slope and interval; claims with verdicts; pictures.
    """
    rows = [curve.to_json() for curve in curves(draws=draws)]
    ball = L2Ball(dimension=FIXED_DIMENSION)
    proven = [printed_bound(ball, records=records) for records in RECORDS]
    sparse = [curve.to_json() for curve in sparse_curves(draws=draws)]
    popular = [curve.to_json() for curve in popular_curves()]
    sides = compared()
    result: dict[str, Any] = {
        "name": "incremental",
        "epsilon": EPSILON,
        "delta": DELTA,
        "neighbours": Neighbours.REPLACE.value,
        "confidence": CONFIDENCE,
        "L2 ball": rows,
        "L1 ball, one feature per record": sparse,
        "L1 ball, popular features": popular,
        "crossing": {
            "the paper's descent": crossing(sparse[0], sparse[1]),
            "certified, one feature": crossing(sparse[2], sparse[3]),
            "certified, popular features": crossing(popular[0], popular[1]),
        },
        "PrivIncReg1 against the paper's constants": sides,
        "claims": incremental_claims(rows, proven, sparse, popular, sides),
        "full_data": FULL_DATA,
    }
    if out is not None:
        result["pictures"] = incremental_pictures(rows, sparse, popular, out)
    return result
