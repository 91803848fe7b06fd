"""The geometry experiment measures slopes rightly, and finds those of the theory."""

from pathlib import Path

import numpy as np
import pytest

from dpstream.geometry.l2_ball import L2Ball
from dpstream.randomness.public import public_generator
from dpstream.reproduce.curve import Curve
from dpstream.reproduce.geometry import (
    geometry,
    lasso_excess,
    lipschitz_excess,
    strongly_convex_excess,
)
from dpstream.reproduce.geometry_claim import geometry_claims, geometry_pictures


def test_slope_and_interval_of_a_known_power_law() -> None:
    generator = public_generator(1)
    x = (10, 20, 40, 80, 160)
    excess = np.array(x) ** -1.5 * generator.lognormal(0.0, 0.3, (200, 5))
    slope, lower, upper = Curve(
        name="test", axis="records", expected="-3/2", x=x, excess=excess
    ).slope()
    assert lower < -1.5 < upper
    assert lower < slope < upper
    # Each mean has a relative error of 0.31 / sqrt 200: 0.022 over the spread of logarithms
    # (2.19 in root sum of squares), times 1.97 on either side.
    assert upper - lower == pytest.approx(2 * 1.97 * 0.022 / 2.19, rel=0.3)


def test_points_fall_as_they_should_from_one_size_to_four_times_it() -> None:
    ratio = [
        float(function(500).mean() / function(2000).mean())
        for function in (
            lambda n: lipschitz_excess(L2Ball(dimension=8), records=n, draws=8),
            lambda n: strongly_convex_excess(dimension=8, records=n, draws=8),
            lambda n: lasso_excess(dimension=256, records=n // 2, draws=3),
        )
    ]
    # 4, 16 and 2.5, with a margin for eight draws.
    assert 2.5 < ratio[0] < 6.5
    assert 8 < ratio[1] < 32
    assert 1.8 < ratio[2] < 3.5


def row(name: str, axis: str, slope: float, logarithm: float = 1.0) -> dict[str, object]:
    return {
        "name": name,
        "axis": axis,
        "expected_slope": "as printed",
        "slope": slope,
        "slope_lower": slope - 0.1,
        "slope_upper": slope + 0.1,
        "slope_against_logarithm": logarithm,
        "x": [1, 2],
        "excess": [1.0, 2.0],
        "standard_error": [0.1, 0.1],
    }


def test_claims_hold_and_fail_on_either_side(tmp_path: Path) -> None:
    rows = [
        row("L2 ball", "dimension", 0.57),
        row("L2 ball", "dimension", 0.59),
        row("Lipschitz, L2 ball", "records", -0.89),
        row("Lipschitz, L2 ball", "records", -1.09),
        row("simplex", "dimension", 0.2),
        row("simplex", "dimension", 0.26),
        row("L1 ball", "dimension", 0.2, 1.06),
    ]
    found = geometry_claims(rows)
    assert [each["held"] for each in found] == [True, False, False, True, True, False, False]
    assert all(each["theirs"] == "as printed" for each in found)
    names = geometry_pictures(rows, tmp_path)
    assert [(tmp_path / name).read_text().startswith("<svg") for name in names] == [True, True]


@pytest.mark.slow
def test_geometry_finds_the_slopes_of_the_theory(tmp_path: Path) -> None:
    result = geometry(tmp_path, draws=8)
    slopes = {(row["axis"], row["name"]): row["slope"] for row in result["curves"]}
    assert slopes["dimension", "L2 ball"] == pytest.approx(0.5, abs=0.08)
    assert slopes["dimension", "L1 ball"] < 0.25
    assert slopes["dimension", "simplex"] < 0.25
    assert slopes["records", "Lipschitz, L2 ball"] == pytest.approx(-1.0, abs=0.1)
    assert slopes["records", "strongly convex, L2 ball"] == pytest.approx(-2.0, abs=0.15)
    assert slopes["records", "LASSO by Frank-Wolfe"] == pytest.approx(-2 / 3, abs=0.1)
    flat = {row["name"]: row["slope_against_logarithm"] for row in result["curves"]}
    assert flat["L1 ball"] <= 1.05
    assert flat["simplex"] <= 1.05
    assert [each["name"] for each in result["claims"] if not each["held"]] == []
    assert len(result["claims"]) == len(result["curves"])
    page = Path(result["page"]).read_text(encoding="utf-8")
    assert page.count("<svg") == 2
