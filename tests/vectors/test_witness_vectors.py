"""Against witness_vectors.json: OpenDP's tree, an exact law, dp-accounting's price, cvxpy's points.

The sampler's test fails by chance with probability at most 1e-6 for each law; its seed is fixed.
"""

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from dpstream.audit.explicit import run_encoder
from dpstream.geometry.convex_set import Projectable
from dpstream.geometry.group_ball import GroupBall
from dpstream.geometry.interpolation_ball import InterpolationBall
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.geometry.lp_ball import LpBall
from dpstream.geometry.nuclear_ball import NuclearBall
from dpstream.geometry.simplex import Simplex
from dpstream.mechanisms.continual.honaker import HonakerTree
from dpstream.mechanisms.continual.tree import BinaryTree
from dpstream.mechanisms.discrete_gaussian import discrete_gaussian_event
from dpstream.privacy.bounds import curve_of
from dpstream.randomness.discrete_gaussian import discrete_gaussian
from dpstream.randomness.source import NoiseSource

VECTORS: dict[str, Any] = json.loads(Path(__file__).with_name("witness_vectors.json").read_text())
DRAWS = 40_000

SETS: dict[str, Projectable] = {
    "l2": L2Ball(dimension=6, radius=1.2),
    "l1": L1Ball(dimension=6, radius=1.2),
    "simplex": Simplex(dimension=6, total=2.0),
    "lp": LpBall(dimension=6, order=1.25, radius=1.2),
    "group": GroupBall(dimension=6, group_size=4, radius=1.2),
    "interpolation": InterpolationBall(dimension=6, mix=0.3, radius=1.2),
    "nuclear": NuclearBall(rows=2, columns=3, radius=1.2),
}


def test_what_made_the_vectors_is_in_them() -> None:
    assert {"opendp", "dp-accounting", "mpmath", "cvxpy"} <= set(VECTORS["made_by"])
    assert {row["set"] for row in VECTORS["projections"]} == set(SETS)


@pytest.mark.parametrize("strategy", [BinaryTree, HonakerTree])
@pytest.mark.parametrize("row", VECTORS["tree_nodes"], ids=lambda row: str(len(row["leaves"])))
def test_tree_nodes_are_those_of_opendp(
    strategy: type[BinaryTree] | type[HonakerTree], row: dict[str, list[int]]
) -> None:
    leaves, nodes = row["leaves"], row["nodes"]
    top = len(leaves).bit_length() - 1
    handed = run_encoder(
        strategy(len(leaves)),
        np.array(leaves, np.int64)[:, None],
        increment_exponent=0,
        node_exponent=0,
    )
    seen = set()
    for _, node in handed:
        level, index = node.address
        # Theirs lists the root first, and each level from left to right.
        place = (1 << (top - level)) - 1 + index - 1
        assert node.value.tolist() == [nodes[place]]
        seen.add(place)
    assert 0 in seen
    assert len(seen) == len(handed) >= len(leaves)


@pytest.mark.parametrize(
    "row", VECTORS["discrete_gaussian"], ids=lambda row: "/".join(row["variance"])
)
def test_the_sampler_has_the_discrete_gaussians_law(row: dict[str, list[str]]) -> None:
    variance = Fraction(*map(int, row["variance"]))
    source = NoiseSource.insecure(17)
    digest = source.bind(np.zeros(1, np.int64))
    drawn = discrete_gaussian(source, ("witness",), digest, DRAWS, variance)
    half = np.array([float(mass) for mass in row["masses"]])
    law = np.concatenate([half[:0:-1], half])
    assert float(law.sum()) == pytest.approx(1.0, abs=1e-12)
    counts = np.bincount(drawn + half.size - 1, minlength=law.size).astype(np.float64)
    assert counts.size == law.size
    # What is expected less than ten times is told in one cell on either side.
    thick = np.flatnonzero(law * DRAWS >= 10.0)
    low, high = int(thick[0]), int(thick[-1]) + 1
    pooled = [
        np.concatenate([[each[:low].sum()], each[low:high], [each[high:].sum()]])
        for each in (counts, law / law.sum() * DRAWS)
    ]
    assert chisquare(*pooled).pvalue >= 1e-6


@pytest.mark.parametrize(
    "row", VECTORS["discrete_gaussian_price"], ids=lambda row: str(row["sigma"])
)
def test_the_discrete_gaussians_price_is_no_less_than_its_exact_one(row: dict[str, float]) -> None:
    event = discrete_gaussian_event("witness", sensitivity=1.0, sigma=row["sigma"])
    assert event.rho == pytest.approx(row["rho"], rel=1e-9)
    assert event.rho >= row["rho"] * (1.0 - 1e-12)
    claimed = curve_of(event).epsilon(row["delta"])
    # The conversion from zCDP costs something; dp-accounting's is the exact loss on a grid.
    assert row["epsilon"] * (1.0 - 1e-3) <= claimed <= 1.2 * row["epsilon"]


@pytest.mark.parametrize("name", SETS)
def test_projections_are_those_of_cvxpy(name: str) -> None:
    rows = [row for row in VECTORS["projections"] if row["set"] == name]
    assert len(rows) == 4
    for row in rows:
        point, nearest = np.array(row["point"]), np.array(row["nearest"])
        found = SETS[name].project(point)
        gap = np.linalg.norm(point - found) - np.linalg.norm(point - nearest)
        assert abs(float(gap)) <= 1e-6
        # A distance within 1e-6 of the least leaves this much room around the nearest point.
        assert float(np.linalg.norm(found - nearest)) <= math.sqrt(8e-6 * np.linalg.norm(point))
