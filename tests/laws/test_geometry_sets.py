"""Laws that every constraint set obeys, over all sets and several shapes of each."""

import math
from itertools import pairwise

import numpy as np
import pytest

from dpstream.geometry.box import Box, box
from dpstream.geometry.convex_set import (
    ConvexSet,
    Gauged,
    LinearlyOptimizable,
    LocallyOptimizable,
    Mirrored,
    Projectable,
    estimate_gaussian_width,
    support,
)
from dpstream.geometry.flow_polytope import FlowPolytope, SymmetricFlow, flow_polytope
from dpstream.geometry.group_ball import GroupBall
from dpstream.geometry.hull import SymmetricHull, VertexHull
from dpstream.geometry.image import scale, shift
from dpstream.geometry.interpolation_ball import InterpolationBall
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.geometry.lp_ball import LpBall
from dpstream.geometry.nuclear_ball import NuclearBall
from dpstream.geometry.polytope import polytope
from dpstream.geometry.simplex import Simplex
from dpstream.randomness.public import public_generator

PUBLIC = public_generator(20)
VERTICES = PUBLIC.standard_normal((9, 4)) + 1.0
HALFSPACES = PUBLIC.standard_normal((12, 3))
DIAMOND = [(0, 1), (0, 2), (1, 3), (2, 3), (1, 2), (3, 5), (2, 5), (3, 4), (4, 5)]
FLOW = flow_polytope(DIAMOND, source=0, sink=5)
POLYTOPE = polytope(
    np.vstack([HALFSPACES, np.eye(3), -np.eye(3)]),
    np.concatenate([np.full(12, 1.5), np.full(6, 2)]),
)

SETS: dict[str, ConvexSet] = {
    "l2": L2Ball(dimension=5, radius=2.0),
    "l2-line": L2Ball(dimension=1),
    "l1": L1Ball(dimension=6, radius=1.5),
    "box": Box(np.array([0.5, 1.0, 3.0])),
    "box-limits": box([-1.0, 2.0, 0.0], [1.0, 5.0, 0.1]),
    "simplex": Simplex(dimension=6, total=2.0),
    "lp": LpBall(dimension=7, order=1.3, radius=2.0),
    "lp-near-1": LpBall(dimension=4, order=1.02),
    "lp-near-2": LpBall(dimension=4, order=1.97, radius=0.1),
    "group": GroupBall(dimension=8, group_size=3, radius=1.5),
    "group-one": GroupBall(dimension=3, group_size=3),
    "group-singles": GroupBall(dimension=4, group_size=1),
    "interpolation": InterpolationBall(dimension=6, mix=0.4, radius=2.0),
    "interpolation-l1": InterpolationBall(dimension=4, mix=0.0),
    "interpolation-l2": InterpolationBall(dimension=4, mix=1.0),
    "nuclear": NuclearBall(rows=3, columns=4, radius=1.5),
    "hull": VertexHull(VERTICES),
    "hull-flat": VertexHull(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])),
    "hull-point": VertexHull(np.array([[1.0, -2.0]])),
    "symmetric-hull": SymmetricHull(VERTICES),
    "polytope": POLYTOPE,
    "flow": FLOW,
    "symmetric-flow": SymmetricFlow(FLOW),
    "shifted-l1": shift(L1Ball(dimension=3), [1.0, -1.0, 0.5]),
    "shifted-nuclear": shift(NuclearBall(rows=2, columns=2), [1.0, 0.0, 0.0, 1.0]),
    "shifted-flow": shift(FLOW, np.arange(9.0)),
    "scaled-polytope": scale(POLYTOPE, 0.3),
    "scaled-flow": scale(FLOW, 2.5),
    "scaled-lp": scale(LpBall(dimension=3, order=1.5), 3.0),
}


def having(capability: type) -> list[str]:
    return [name for name, convex_set in SETS.items() if isinstance(convex_set, capability)]


def directions(name: str, count: int) -> np.ndarray:
    generator = public_generator(len(name) + count)
    draws = generator.standard_normal((count, SETS[name].dimension))
    # Ties and zeros are where oracles and thresholds go wrong.
    draws[0] = 0.0
    draws[1] = 1.0
    draws[2] = -1.0
    draws[3, 1:] = 0.0
    return draws


def members(name: str, count: int = 12) -> np.ndarray:
    convex_set = SETS[name]
    assert isinstance(convex_set, LinearlyOptimizable)
    corners = np.array([convex_set.minimize_linear(g) for g in directions(name, count)])
    weights = public_generator(1).dirichlet(np.full(count, 0.3), size=count)
    return np.vstack([corners, weights @ corners])


def size(name: str) -> float:
    return max(SETS[name].l2_radius(), SETS[name].diameter())


def test_every_set_is_mirrored_or_a_norm_ball_of_one() -> None:
    assert set(SETS) - set(having(Mirrored)) == {"symmetric-flow"}
    assert set(SETS) == set(having(LinearlyOptimizable))
    assert {"flow", "shifted-flow", "scaled-flow"}.isdisjoint(having(Projectable))
    assert {"lp", "group", "interpolation", "nuclear"}.isdisjoint(having(LocallyOptimizable))
    assert {"simplex", "hull", "box-limits", "shifted-l1", "flow"}.isdisjoint(having(Gauged))


@pytest.mark.parametrize("name", SETS)
def test_sizes_bound_every_member(name: str) -> None:
    convex_set = SETS[name]
    points = members(name)
    slack = 1 + 1e-9
    for point in points:
        assert convex_set.contains(point, 1e-7)
        assert np.linalg.norm(point) <= convex_set.l2_radius() * slack
        assert np.abs(point).sum() <= convex_set.l1_radius() * slack
    assert convex_set.contains(convex_set.centre(), 1e-7)
    gaps = np.linalg.norm(points[:, None] - points[None], axis=2)
    assert gaps.max() <= convex_set.diameter() * slack + 1e-12


@pytest.mark.parametrize("name", SETS)
def test_a_point_beyond_the_support_is_outside(name: str) -> None:
    convex_set = SETS[name]
    assert isinstance(convex_set, LinearlyOptimizable)
    for direction in directions(name, 8)[1:]:
        direction = direction / np.linalg.norm(direction)
        tip = convex_set.minimize_linear(-direction)
        assert not convex_set.contains(tip + 1e-3 * size(name) * direction)


@pytest.mark.parametrize("name", SETS)
def test_linear_oracle_beats_members_and_support_is_homogeneous(name: str) -> None:
    convex_set = SETS[name]
    assert isinstance(convex_set, LinearlyOptimizable)
    points = members(name)
    for direction in directions(name, 15):
        value = direction @ convex_set.minimize_linear(direction)
        slack = 1e-9 * (1 + np.linalg.norm(direction)) * (1 + size(name))
        assert value <= (points @ direction).min() + slack
        assert support(convex_set, 3.5 * direction) == pytest.approx(
            3.5 * support(convex_set, direction), abs=slack * 4
        )


@pytest.mark.parametrize("name", SETS)
def test_gaussian_width_bounds_its_estimate(name: str) -> None:
    convex_set = SETS[name]
    assert isinstance(convex_set, LinearlyOptimizable)
    draws = 200 if "polytope" in name else 1500
    estimate = estimate_gaussian_width(convex_set, public_generator(7), draws)
    # One-sided at 6 standard errors: false alarm below 1e-8 for each of the sets.
    assert estimate.mean <= convex_set.gaussian_width() + 6 * estimate.standard_error + 1e-12
    exact = {"l2", "l2-line", "l1", "box", "box-limits", "simplex", "group", "group-one"}
    exact |= {"group-singles", "interpolation-l2", "interpolation-l1", "shifted-l1"}
    if name in exact:
        assert estimate.mean >= convex_set.gaussian_width() - 6 * estimate.standard_error


@pytest.mark.parametrize("name", having(Projectable))
def test_projection_is_optimal_idempotent_and_non_expansive(name: str) -> None:
    convex_set = SETS[name]
    assert isinstance(convex_set, Projectable)
    points = members(name)
    outside = convex_set.centre() + size(name) * 1.5 * directions(name, 15)
    projected = np.array([convex_set.project(point) for point in outside])
    scale_squared = (1 + size(name)) ** 2
    for point, nearest in zip(outside, projected, strict=True):
        assert convex_set.contains(nearest, 1e-8)
        # The variational inequality: no member lies beyond the supporting hyperplane.
        assert ((points - nearest) @ (point - nearest)).max() <= 1e-8 * scale_squared
        assert np.linalg.norm(convex_set.project(nearest) - nearest) <= 1e-7 * size(name) + 1e-14
    before = np.linalg.norm(outside[:, None] - outside[None], axis=2)
    after = np.linalg.norm(projected[:, None] - projected[None], axis=2)
    assert np.all(after <= before + 1e-7 * (1 + size(name)))
    for point in points[-6:]:
        assert np.linalg.norm(convex_set.project(point) - point) <= 1e-6 * size(name) + 1e-12


@pytest.mark.parametrize("name", having(Projectable))
def test_projection_is_accurate_far_away_and_near_the_boundary(name: str) -> None:
    convex_set = SETS[name]
    assert isinstance(convex_set, Projectable)
    points = members(name)
    for distance in (1e-6, 1e-2, 1e4):
        for direction in directions(name, 6)[1:]:
            start = points[-1] + distance * direction * size(name)
            nearest = convex_set.project(start)
            assert convex_set.contains(nearest, 1e-8)
            gap = ((points - nearest) @ (start - nearest)).max()
            assert gap <= 1e-8 * size(name) * (size(name) + np.linalg.norm(start - nearest)) + 1e-16


@pytest.mark.parametrize("name", having(Gauged))
def test_gauge_and_set_agree(name: str) -> None:
    convex_set = SETS[name]
    assert isinstance(convex_set, Gauged)
    assert isinstance(convex_set, LinearlyOptimizable)
    assert convex_set.gauge(np.zeros(convex_set.dimension)) == 0
    for direction in directions(name, 10)[3:]:
        tip = convex_set.minimize_linear(-direction)
        gauge = convex_set.gauge(tip)
        assert gauge == pytest.approx(1.0, abs=1e-6)
        assert convex_set.gauge(2.5 * tip) == pytest.approx(2.5 * gauge, rel=1e-6)
        assert convex_set.gauge(-tip) == pytest.approx(gauge, rel=1e-6)
        assert not convex_set.contains(1.01 * tip)
    points = members(name)
    for first, second in pairwise(points):
        total = convex_set.gauge(first) + convex_set.gauge(second)
        assert convex_set.gauge(first + second) <= total + 1e-6


@pytest.mark.parametrize("name", having(LocallyOptimizable))
def test_local_oracle_beats_the_neighbourhood_and_stays_near(name: str) -> None:
    convex_set = SETS[name]
    assert isinstance(convex_set, LocallyOptimizable)
    points = members(name)
    generator = public_generator(3)
    for centre in points[-5:]:
        for radius in (1e-3 * size(name), 0.1 * size(name), 3 * size(name)):
            for gradient in directions(name, 6):
                answer = convex_set.minimize_linear_local(centre, radius, gradient)
                assert convex_set.contains(answer, 1e-6)
                allowed = convex_set.local_ratio() * radius
                assert np.linalg.norm(answer - centre) <= allowed * (1 + 1e-6) + 1e-12
                # Members pulled towards the centre until they are within the radius.
                gaps = points - centre
                lengths = np.linalg.norm(gaps, axis=1, keepdims=True)
                fractions = np.minimum(1.0, radius / np.maximum(lengths, 1e-300))
                fractions *= generator.choice([1.0, 0.5], size=fractions.shape)
                near = centre + fractions * gaps
                slack = 1e-6 * radius * (1 + np.linalg.norm(gradient))
                assert gradient @ answer <= (near @ gradient).min() + slack


def test_exact_local_oracles_match_the_path_of_projections() -> None:
    # The minimiser over set and L2 ball lies on the curve of projections of centre - t gradient.
    generator = public_generator(8)
    for convex_set in (L2Ball(dimension=4, radius=1.3), Box(np.array([0.3, 1.0, 2.0, 0.7]))):
        for _ in range(20):
            centre = convex_set.project(generator.standard_normal(4))
            gradient = generator.standard_normal(4)
            radius = float(generator.uniform(0.01, 3))
            answer = convex_set.minimize_linear_local(centre, radius, gradient)
            assert np.linalg.norm(answer - centre) <= radius * (1 + 1e-9)
            times = np.geomspace(1e-4, 1e4, 3000)
            curve = np.array([convex_set.project(centre - t * gradient) for t in times])
            curve = curve[np.linalg.norm(curve - centre, axis=1) <= radius]
            best = (curve @ gradient).min() if len(curve) else gradient @ centre
            assert gradient @ answer <= best + 1e-9


def test_images_follow_their_inner_sets() -> None:
    inner = L1Ball(dimension=3, radius=2.0)
    offset = np.array([1.0, -2.0, 3.0])
    moved = shift(inner, offset)
    point = np.array([5.0, 5.0, -1.0])
    assert np.allclose(moved.project(point), offset + inner.project(point - offset))
    assert moved.diameter() == inner.diameter()
    assert moved.gaussian_width() == inner.gaussian_width()
    assert support(moved, point) == pytest.approx(offset @ point + support(inner, point))
    assert not isinstance(moved, Gauged)
    larger = scale(inner, 2.0)
    assert larger == L1Ball(dimension=3, radius=4.0)
    assert larger.gauge(point) == pytest.approx(inner.gauge(point) / 2)
    stretched = scale(POLYTOPE, 4.0)
    target = np.array([9.0, 9.0, 9.0])
    assert np.allclose(stretched.project(target), 4 * POLYTOPE.project(target / 4))
    assert stretched.gaussian_width() == pytest.approx(4 * POLYTOPE.gaussian_width())


def test_scaled_sets_scale_every_size() -> None:
    for name, convex_set in SETS.items():
        if not hasattr(convex_set, "scaled"):
            continue
        larger = convex_set.scaled(3.0)
        for measure in ("diameter", "l1_radius", "l2_radius", "gaussian_width"):
            expected = 3 * getattr(convex_set, measure)()
            assert getattr(larger, measure)() == pytest.approx(expected), (name, measure)
        assert np.allclose(larger.centre(), 3 * convex_set.centre())


def test_flow_oracle_matches_enumerated_paths() -> None:
    assert isinstance(FLOW, FlowPolytope)
    paths = [[]]
    complete: list[list[int]] = []
    while paths:
        path = paths.pop()
        node = DIAMOND[path[-1]][1] if path else 0
        if node == 5:
            complete.append(path)
            continue
        paths += [[*path, e] for e, (tail, _) in enumerate(DIAMOND) if tail == node]
    vertices = np.zeros((len(complete), len(DIAMOND)))
    for row, path in enumerate(complete):
        vertices[row, path] = 1.0
    assert FLOW.log_paths() == pytest.approx(math.log(len(complete)))
    assert FLOW.longest_path() == vertices.sum(axis=1).max()
    generator = public_generator(5)
    for _ in range(30):
        costs = generator.standard_normal(len(DIAMOND))
        assert costs @ FLOW.minimize_linear(costs) == pytest.approx((vertices @ costs).min())
        weights = np.exp(-vertices @ costs)
        assert np.allclose(FLOW.marginals(costs), weights @ vertices / weights.sum())
        flow = generator.standard_normal(len(complete)) @ vertices
        assert SymmetricFlow(FLOW).gauge(flow) == pytest.approx(
            SymmetricHull(vertices).gauge(flow), rel=1e-6
        )
