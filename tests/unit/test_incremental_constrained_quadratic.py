"""Quadratics over sets: certified against cvxpy, whatever the set can do."""

import math
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest

from dpstream.errors import ConfigurationError
from dpstream.geometry.box import Box
from dpstream.geometry.flow_polytope import FlowPolytope
from dpstream.geometry.hull import VertexHull
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.geometry.simplex import Simplex
from dpstream.mechanisms.public import public_generator
from dpstream.solvers.constrained_quadratic import (
    Constraint,
    averaged_projected_gradient,
    lift_by_gauge,
    minimise_quadratic,
)

SIZE = 6


def quadratic(seed: int, size: int = SIZE) -> tuple[np.ndarray, np.ndarray]:
    generator = public_generator(seed)
    root = generator.standard_normal((size + 2, size)) * np.geomspace(1.0, 0.05, size)
    return root.T @ root, root.T @ generator.standard_normal(size + 2)


def value(matrix: np.ndarray, linear: np.ndarray, point: np.ndarray) -> float:
    return float(point @ matrix @ point / 2 - linear @ point)


@dataclass(frozen=True)
class BareBall:
    """A ball that hides one of its capabilities."""

    ball: L1Ball
    shown: str

    def __getattr__(self, name: str):  # what the protocols look for at run time
        if name in {"project", "minimize_linear"} - {self.shown}:
            raise AttributeError(name)
        return getattr(object.__getattribute__(self, "ball"), name)


def witness(matrix: np.ndarray, linear: np.ndarray, kind: str, lift: np.ndarray | None) -> float:
    size = matrix.shape[0] if lift is None else lift.shape[1]
    point = cp.Variable(size)
    down = point if lift is None else lift @ point
    root = np.linalg.cholesky(matrix + 1e-14 * np.eye(len(matrix))).T
    constraints = {
        "l1": [cp.norm1(point) <= 0.5],
        "l2": [cp.norm2(point) <= 0.5],
        "simplex": [point >= 0, cp.sum(point) == 1],
        "box": [point >= -0.2, point <= 0.2],
    }[kind]
    objective = cp.sum_squares(root @ down) / 2 - linear @ down
    problem = cp.Problem(cp.Minimize(objective), constraints)
    return float(problem.solve(solver=cp.CLARABEL))


def chosen(kind: str, size: int):
    return {
        "l1": L1Ball(dimension=size, radius=0.5),
        "l2": L2Ball(dimension=size, radius=0.5),
        "simplex": Simplex(dimension=size),
        "box": Box(half_widths=np.full(size, 0.2)),
    }[kind]


@pytest.mark.parametrize("kind", ["l1", "l2", "simplex", "box"])
@pytest.mark.parametrize("lifted", [False, True])
def test_minimum_and_gap_agree_with_a_conic_solver(kind: str, lifted: bool) -> None:
    for seed in range(5):
        matrix, linear = quadratic(seed)
        lift = public_generator(seed + 50).standard_normal((SIZE, 20)) / 3 if lifted else None
        constraint = Constraint(convex_set=chosen(kind, 20 if lifted else SIZE), lift=lift)
        found = minimise_quadratic(matrix, linear, constraint)
        best = witness(matrix, linear, kind, lift)
        excess = value(matrix, linear, found.parameters) - best
        assert constraint.convex_set.contains(found.point)
        np.testing.assert_allclose(constraint.down(found.point), found.parameters)
        assert -1e-7 <= excess <= found.gap + 1e-7
        assert found.gap < 1e-6


def test_the_gap_bounds_what_an_early_stop_misses() -> None:
    matrix, linear = quadratic(3)
    constraint = Constraint(convex_set=chosen("l1", SIZE))
    best = witness(matrix, linear, "l1", None)
    for steps in (1, 2, 5, 10):
        found = minimise_quadratic(matrix, linear, constraint, most_steps=steps, tolerance=0.0)
        assert value(matrix, linear, found.point) - best <= found.gap + 1e-9
    # The control: a first step is not the minimum, and its gap says so.
    early = minimise_quadratic(matrix, linear, constraint, most_steps=1, tolerance=0.0)
    assert early.gap > 1e-3


@pytest.mark.parametrize("capability", ["project", "minimize_linear"])
def test_a_set_with_one_capability_is_enough(capability: str) -> None:
    ball = L1Ball(dimension=SIZE, radius=0.5)
    bare = BareBall(ball, capability)
    for seed in range(5):
        matrix, linear = quadratic(seed)
        full = minimise_quadratic(matrix, linear, Constraint(convex_set=ball))
        found = minimise_quadratic(matrix, linear, Constraint(convex_set=bare))
        miss = value(matrix, linear, found.point) - value(matrix, linear, full.point)
        assert abs(miss) <= found.gap + full.gap
        assert found.gap < 1e-5


def test_a_set_without_projection_is_solved_by_away_steps() -> None:
    edges = np.array([(0, 1), (0, 2), (1, 3), (2, 3), (1, 2), (3, 4), (2, 4)])
    flows = FlowPolytope(edges=edges, source=0, sink=4)
    matrix, linear = quadratic(1, 7)
    found = minimise_quadratic(matrix, linear, Constraint(convex_set=flows))
    paths = [(0, 2, 5), (1, 3, 5), (1, 6), (0, 4, 3, 5), (0, 4, 6)]
    vertices = np.array([[float(edge in path) for edge in range(7)] for path in paths])
    hull = minimise_quadratic(matrix, linear, Constraint(convex_set=VertexHull(vertices)))
    assert flows.contains(found.point)
    assert value(matrix, linear, found.point) == pytest.approx(
        value(matrix, linear, hull.point), abs=1e-7
    )


def test_lifting_finds_the_point_of_least_gauge() -> None:
    generator = public_generator(8)
    lift = generator.standard_normal((8, 30)) / math.sqrt(8)
    for kind, norm in (("l1", cp.norm1), ("l2", cp.norm2)):
        constraint = Constraint(convex_set=chosen(kind, 30), lift=lift)
        target = lift @ (generator.standard_normal(30) / 30)
        found = lift_by_gauge(target, constraint)
        point = cp.Variable(30)
        problem = cp.Problem(cp.Minimize(norm(point)), [lift @ point == target])
        least = float(problem.solve(solver=cp.CLARABEL)) / 0.5
        assert found.gauge == pytest.approx(least, rel=1e-4)
        assert constraint.convex_set.gauge(found.point) <= found.gauge * (1 + 1e-9)
        assert found.distance <= 1e-5 * np.linalg.norm(target)


def test_lifting_recovers_a_sparse_point_and_the_origin() -> None:
    lift = public_generator(2).standard_normal((40, 200)) / math.sqrt(40)
    sparse = np.zeros(200)
    sparse[[3, 50, 77]] = 0.2, -0.1, 0.1
    constraint = Constraint(convex_set=L1Ball(dimension=200), lift=lift)
    np.testing.assert_allclose(lift_by_gauge(lift @ sparse, constraint).point, sparse, atol=1e-5)
    np.testing.assert_array_equal(lift_by_gauge(np.zeros(40), constraint).point, np.zeros(200))


def test_the_papers_descent_comes_close_to_the_minimum_without_noise() -> None:
    generator = public_generator(4)
    features = generator.standard_normal((500, 3))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    target = features @ np.array([0.5, -0.2, 0.1])
    gram, cross = features.T @ features, features.T @ target
    ball = L2Ball(dimension=3)
    found = averaged_projected_gradient(gram, cross, ball, records=500.0, deviation=5.0)
    best = minimise_quadratic(gram, cross, Constraint(convex_set=ball)).point
    excess = 2 * (value(gram, cross, found) - value(gram, cross, best))
    # Corollary C.2 with its own alpha: 2 alpha |C|.
    assert 0 <= excess <= 2 * 2 * 5.0 * math.sqrt(3) * 2
    assert ball.contains(found)


def test_refusals() -> None:
    with pytest.raises(ConfigurationError, match="neither a projection nor a linear oracle"):
        Constraint(convex_set=BareBall(L1Ball(dimension=2), "gauge"))
    with pytest.raises(ConfigurationError, match="takes 5 coordinates"):
        Constraint(convex_set=L1Ball(dimension=4), lift=np.ones((2, 5)))
    with pytest.raises(ConfigurationError, match="contains the origin"):
        lift_by_gauge(np.ones(2), Constraint(convex_set=Simplex(dimension=3), lift=np.ones((2, 3))))
