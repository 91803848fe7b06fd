"""Projections and linear oracles against cvxpy, an independent formulation of each set."""

import cvxpy as cp
import numpy as np
import pytest

from dpstream.geometry.box import box
from dpstream.geometry.convex_set import LinearlyOptimizable, LocallyOptimizable, Projectable
from dpstream.geometry.group_ball import GroupBall
from dpstream.geometry.hull import VertexHull
from dpstream.geometry.interpolation_ball import InterpolationBall
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.geometry.lp_ball import LpBall
from dpstream.geometry.nuclear_ball import NuclearBall
from dpstream.geometry.polytope import polytope
from dpstream.geometry.simplex import Simplex
from dpstream.randomness.public import public_generator

VERTICES = public_generator(3).standard_normal((12, 6))
ROWS = public_generator(4).standard_normal((15, 6))
LOW, HIGH = -np.arange(1.0, 7.0), np.full(6, 0.5)

Constraint = list[cp.Constraint]


def hull(y: cp.Variable) -> Constraint:
    weights = cp.Variable(len(VERTICES), nonneg=True)
    return [cp.sum(weights) == 1, y == VERTICES.T @ weights]


CASES = {
    "l2": (L2Ball(dimension=6, radius=1.2), lambda y: [cp.norm(y, 2) <= 1.2]),
    "l1": (L1Ball(dimension=6, radius=1.2), lambda y: [cp.norm(y, 1) <= 1.2]),
    "box": (box(LOW, HIGH), lambda y: [y >= LOW, y <= HIGH]),
    "simplex": (Simplex(dimension=6, total=2.0), lambda y: [y >= 0, cp.sum(y) == 2]),
    "lp": (LpBall(dimension=6, order=1.25, radius=1.2), lambda y: [cp.pnorm(y, 1.25) <= 1.2]),
    "group": (
        GroupBall(dimension=6, group_size=4, radius=1.2),
        lambda y: [cp.norm(y[:4], 2) + cp.norm(y[4:], 2) <= 1.2],
    ),
    "interpolation": (
        InterpolationBall(dimension=6, mix=0.3, radius=1.2),
        lambda y: [0.7 * cp.norm(y, 1) + 0.3 * cp.norm(y, 2) <= 1.2],
    ),
    "nuclear": (
        NuclearBall(rows=2, columns=3, radius=1.2),
        lambda y: [cp.normNuc(cp.reshape(y, (2, 3), order="C")) <= 1.2],
    ),
    "hull": (VertexHull(VERTICES), hull),
    "polytope": (
        polytope(np.vstack([ROWS, np.eye(6), -np.eye(6)]), np.ones(27)),
        lambda y: [ROWS @ y <= 1, cp.abs(y) <= 1],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_projection_and_linear_oracle_match_cvxpy(name: str) -> None:
    convex_set, constraints = CASES[name]
    assert isinstance(convex_set, Projectable)
    assert isinstance(convex_set, LinearlyOptimizable)
    generator = public_generator(11)
    y = cp.Variable(6)
    for _ in range(3):
        point = 2 * generator.standard_normal(6)
        # Clarabel's tolerances are 1e-8; a squared distance hides the root of that.
        problem = cp.Problem(cp.Minimize(cp.norm(y - point, 2)), constraints(y))
        distance = problem.solve(solver=cp.CLARABEL)
        found = convex_set.project(point)
        assert np.linalg.norm(found - point) == pytest.approx(distance, abs=1e-6)
        assert np.allclose(found, y.value, atol=2e-3)
        oracle = cp.Problem(cp.Minimize(point @ y), constraints(y)).solve(solver=cp.CLARABEL)
        assert point @ convex_set.minimize_linear(point) == pytest.approx(oracle, abs=1e-6)


@pytest.mark.parametrize("name", ["l2", "box"])
def test_exact_local_oracles_match_cvxpy(name: str) -> None:
    convex_set, constraints = CASES[name]
    assert isinstance(convex_set, LocallyOptimizable)
    assert isinstance(convex_set, Projectable)
    generator = public_generator(13)
    y = cp.Variable(6)
    for radius in (0.05, 0.7, 3.0):
        centre = convex_set.project(generator.standard_normal(6))
        gradient = generator.standard_normal(6)
        near = [*constraints(y), cp.norm(y - centre, 2) <= radius]
        best = cp.Problem(cp.Minimize(gradient @ y), near).solve(solver=cp.CLARABEL)
        found = gradient @ convex_set.minimize_linear_local(centre, radius, gradient)
        assert found == pytest.approx(best, abs=1e-6)
