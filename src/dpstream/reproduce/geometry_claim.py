"""What paper 001 says of the slopes of excess risk, beside what was measured."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpstream.report.figure import Line, line_figure
from dpstream.reproduce.claim import claim, keep_picture

FULL_DATA = "the records are synthetic, the hardest of their size: nothing else is needed"

SLOPES: Mapping[str, tuple[float, float]] = {
    "L2 ball": (0.5, 0.08),
    "Lipschitz, L2 ball": (-1.0, 0.1),
    "strongly convex, L2 ball": (-2.0, 0.15),
    "LASSO by Frank-Wolfe": (-2.0 / 3.0, 0.1),
}
"""The theory's power of the size, and how far a measured one may lie from it at these sizes."""

_FLAT = 0.25
_LOGARITHM = 1.05
"""Flat: at most a small power of the dimension, and no more than its logarithm."""

Row = Mapping[str, Any]


def geometry_claims(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One verdict for each curve, as ``geometry`` returns them."""
    return [_claim(row) for row in rows]


def _claim(row: Row) -> dict[str, Any]:
    slope, name = float(row["slope"]), str(row["name"])
    interval = f"{slope:.3f} [{row['slope_lower']:.3f}, {row['slope_upper']:.3f}]"
    if name in SLOPES:
        theory, tolerance = SLOPES[name]
        expected = f"slope {theory:.3g} within {tolerance:g}"
        held = abs(slope - theory) <= tolerance
    else:
        against = float(row["slope_against_logarithm"])
        expected = f"no power of the dimension (slope below {_FLAT:g}), at most its logarithm"
        interval += f"; against the logarithm {against:.2f}"
        held = slope < _FLAT and against <= _LOGARITHM
    return claim(
        f"001: excess risk against {row['axis']}, {name}",
        expected=expected,
        measured=interval,
        held=held,
        theirs=row["expected_slope"],
    )


def geometry_pictures(rows: Sequence[Row], out: Path) -> list[str]:
    """Excess risk against dimension and against records, as files in a folder."""
    return [
        keep_picture(
            out,
            f"geometry-{axis}",
            line_figure(
                {str(row["name"]): _line(row) for row in rows if row["axis"] == axis},
                x_label=axis,
                y_label="excess risk",
                x_log=True,
                y_log=True,
            ),
        )
        for axis in ("dimension", "records")
    ]


def _line(row: Row) -> Line:
    mean = np.array(row["excess"], np.float64)
    error = 2.0 * np.array(row["standard_error"], np.float64)
    return Line(
        x=np.array(row["x"], np.float64),
        y=mean,
        lower=np.maximum(mean - error, mean / 10),
        upper=mean + error,
        marker=True,
    )
