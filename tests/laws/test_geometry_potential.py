"""Laws of the mirror maps: steps are optimal, moduli and ranges are what they claim."""

import math

import numpy as np
import pytest

from dpstream.geometry.box import Box
from dpstream.geometry.convex_set import (
    LinearlyOptimizable,
    Mirrored,
    MirrorMap,
    Potential,
    Projectable,
)
from dpstream.geometry.entropy import VertexEntropy
from dpstream.geometry.flow_polytope import flow_polytope
from dpstream.geometry.group_ball import GroupBall
from dpstream.geometry.hull import SymmetricHull, VertexHull
from dpstream.geometry.image import scale, shift
from dpstream.geometry.interpolation_ball import InterpolationBall
from dpstream.geometry.interpolation_potential import InterpolationPotential
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.geometry.lp_ball import LpBall
from dpstream.geometry.nuclear_ball import NuclearBall
from dpstream.geometry.p_norm_potential import L1NormPotential, l1_exponent
from dpstream.geometry.polytope import polytope
from dpstream.geometry.simplex import Simplex
from dpstream.randomness.public import public_generator

VERTICES = public_generator(2).standard_normal((7, 3))
EDGES = [(0, 1), (0, 2), (1, 3), (2, 3), (1, 2), (3, 4), (2, 4)]


class L1WithNorm(L1Ball):
    """The L1 ball with its other potential."""

    def mirror_map(self) -> L1NormPotential:
        return L1NormPotential(ball=L1Ball(dimension=self.dimension), radius=self.radius)


SETS: dict[str, Mirrored] = {
    "l2": L2Ball(dimension=4, radius=2.0),
    "box": Box(np.array([0.5, 2.0, 1.0])),
    "simplex": Simplex(dimension=5, total=2.0),
    "l1": L1Ball(dimension=4, radius=3.0),
    "l1-norm": L1WithNorm(dimension=12, radius=3.0),
    "l1-norm-low": L1WithNorm(dimension=5, radius=0.5),
    "lp": LpBall(dimension=6, order=1.3, radius=2.0),
    "group-1": GroupBall(dimension=3, group_size=3, radius=2.0),
    "group-2": GroupBall(dimension=5, group_size=3),
    "group-3": GroupBall(dimension=8, group_size=3, radius=0.5),
    "group-12": GroupBall(dimension=24, group_size=2, radius=2.0),
    "interpolation-0": InterpolationBall(dimension=9, mix=0.0),
    "interpolation-.1": InterpolationBall(dimension=9, mix=0.1, radius=2.0),
    "interpolation-.5": InterpolationBall(dimension=20, mix=0.5),
    "interpolation-.95": InterpolationBall(dimension=5, mix=0.95, radius=3.0),
    "interpolation-1": InterpolationBall(dimension=5, mix=1.0),
    "nuclear": NuclearBall(rows=3, columns=4, radius=2.0),
    "nuclear-row": NuclearBall(rows=1, columns=4),
    "hull": VertexHull(VERTICES),
    "symmetric-hull": SymmetricHull(VERTICES),
    "polytope": polytope(np.vstack([np.eye(3), -np.eye(3), np.ones((1, 3))]), [1] * 6 + [1.5]),
    "flow": flow_polytope(EDGES, source=0, sink=4),
    "image": scale(shift(L2Ball(dimension=3), [1.0, 2.0, 3.0]), 0.5),
    "image-hull": shift(VertexHull(VERTICES), [1.0, 0.0, -1.0]),
}


def potentials() -> list[str]:
    return [name for name, item in SETS.items() if isinstance(item.mirror_map(), Potential)]


def members(name: str, seed: int, count: int = 40) -> np.ndarray:
    """Random points of a set, from corners to the deep interior."""
    convex_set = SETS[name]
    assert isinstance(convex_set, LinearlyOptimizable)
    generator = public_generator(seed)
    corners = np.array(
        [
            convex_set.minimize_linear(generator.standard_normal(convex_set.dimension))
            for _ in range(count)
        ]
    )
    weights = np.concatenate([generator.dirichlet(np.full(count, a), 15) for a in (0.02, 0.1, 1)])
    return weights @ corners


def positive_members(name: str, seed: int) -> np.ndarray:
    """Members where the entropy's gradient is finite."""
    points = members(name, seed)
    return points[(points > 0).all(axis=1)] if name == "simplex" else points


@pytest.mark.parametrize("name", SETS)
def test_start_minimises_and_steps_stay_inside(name: str) -> None:
    convex_set, mirror = SETS[name], SETS[name].mirror_map()
    generator = public_generator(0)
    state = mirror.start()
    for size in (0.0, 0.1, 1.0, 30.0, 0.3):
        state = mirror.step(state, size * generator.standard_normal(convex_set.dimension))
        assert convex_set.contains(mirror.point(state), 1e-7)
    if isinstance(mirror, Potential):
        lowest = mirror.value(mirror.point(mirror.start()))
        values = [mirror.value(point) for point in members(name, 1)]
        assert lowest <= min(values) + 1e-12


@pytest.mark.parametrize("name", potentials())
def test_gradient_agrees_with_differences(name: str) -> None:
    mirror = SETS[name].mirror_map()
    assert isinstance(mirror, Potential)
    generator = public_generator(4)
    for point in positive_members(name, 2)[-8:]:
        direction = generator.standard_normal(point.size) * np.abs(point).max()
        h = 1e-6
        ahead, behind = point + h * direction, point - h * direction
        if name == "simplex" and min(ahead.min(), behind.min()) <= 0:
            continue
        difference = (mirror.value(ahead) - mirror.value(behind)) / (2 * h)
        assert mirror.gradient(point) @ direction == pytest.approx(difference, rel=2e-3, abs=1e-6)


@pytest.mark.parametrize("name", potentials())
def test_step_minimises_its_objective(name: str) -> None:
    mirror = SETS[name].mirror_map()
    assert isinstance(mirror, Potential)
    generator = public_generator(6)
    rivals = members(name, 5)
    state = mirror.start()
    for size in (1e-3, 0.3, 1.0, 20.0, 1.0, 0.01):
        point = mirror.point(state)
        direction = size * generator.standard_normal(point.size)
        slope = direction - mirror.gradient(point)
        state = mirror.step(state, direction)
        new = mirror.point(state)
        if np.isfinite(slope).all():
            value = slope @ new + mirror.value(new)
            # Rivals from all over the set, and close by where the minimum is flat.
            for rival in np.vstack([rivals, new + 0.01 * (rivals - new)]):
                scale_of = 1 + np.abs(slope).max() + abs(value)
                assert value <= slope @ rival + mirror.value(rival) + 1e-9 * scale_of


@pytest.mark.parametrize("name", potentials())
def test_range_bounds_the_potential(name: str) -> None:
    mirror = SETS[name].mirror_map()
    convex_set = SETS[name]
    assert isinstance(mirror, Potential)
    assert isinstance(convex_set, LinearlyOptimizable)
    generator = public_generator(9)
    points = list(members(name, 3))
    for _ in range(200):
        # Sparse directions reach the corners, where convex functions are largest.
        direction = generator.standard_normal(convex_set.dimension)
        direction *= generator.random(convex_set.dimension) < generator.random()
        points.append(convex_set.minimize_linear(direction))
    lowest = mirror.value(mirror.point(mirror.start()))
    highest = max(mirror.value(point) for point in points)
    assert highest - lowest <= mirror.potential_range() * (1 + 1e-9)
    if "interpolation-." not in name and name not in {"polytope", "image"}:
        # Exact by formula: the search must come close, or the formula is slack.
        assert highest - lowest >= mirror.potential_range() * 0.99


def measured_modulus(mirror: Potential, point: np.ndarray, other: np.ndarray) -> float:
    """Twice the Bregman divergence over the squared distance, in the claimed norm."""
    divergence = mirror.value(other) - mirror.value(point)
    divergence -= mirror.gradient(point) @ (other - point)
    return 2 * divergence / mirror.ball.gauge(other - point) ** 2


def searched_modulus(name: str, mirror: Potential) -> float:
    generator = public_generator(10)
    points = positive_members(name, 7)
    smallest = math.inf
    for point in points:
        for other in points[generator.choice(len(points), 6)]:
            if np.linalg.norm(point - other) > 1e-6:
                smallest = min(smallest, measured_modulus(mirror, point, other))
    return smallest


@pytest.mark.parametrize("name", potentials())
def test_modulus_is_at_least_the_claim(name: str) -> None:
    mirror = SETS[name].mirror_map()
    assert isinstance(mirror, Potential)
    assert searched_modulus(name, mirror) >= mirror.modulus * (1 - 1e-6)


def flat(size: int, groups: int) -> np.ndarray:
    return np.full(size, 1 / groups)


def test_moduli_are_attained_where_they_are_claimed_exact() -> None:
    # At equal sizes, along a direction that keeps their sum: the worst case of each norm.
    signs = np.tile([1.0, -1.0], 6)
    for potential, expected in (
        (GroupBall(dimension=12, group_size=1).mirror_map(), 1.0),
        (L1NormPotential(ball=L1Ball(dimension=12), radius=1.0), 1.0),
        (Simplex(dimension=12).mirror_map(), 1.0),
    ):
        point = flat(12, 12)
        modulus = measured_modulus(potential, point, point + 1e-4 * signs)
        assert modulus == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("order", [28, 200])
def test_nuclear_modulus_at_equal_singular_values(order: int) -> None:
    # 2 with the corrected constant; with the printed one 2 / sqrt(ln 2m), below 1 from 28 on.
    mirror = NuclearBall(rows=order, columns=order).mirror_map()
    point = np.eye(order).ravel() / order
    change = np.diag(np.tile([1.0, -1.0], order // 2)).ravel() * 1e-3 / order
    modulus = measured_modulus(mirror, point, point + change)
    assert modulus == pytest.approx(2.0, rel=1e-3)
    printed = modulus / math.sqrt(math.log(2 * order))
    assert printed < 1
    assert printed == pytest.approx({28: 0.997, 200: 0.817}[order], abs=2e-3)


def test_printed_q_norm_constant_is_half_strongly_convex() -> None:
    # Paper 001, fact 3.4: 1/(4(q-1)) reaches modulus 1/2, so the claim of 1 fails.
    potential = LpBall(dimension=2, order=1.2).mirror_map()
    point, other = np.array([0.5, 0.0]), np.array([0.5001, 0.0])
    tangent = measured_modulus(potential, np.array([0.5, 0.5]), np.array([0.5001, 0.4999]))
    radial = measured_modulus(potential, point, other)
    assert min(tangent, radial) == pytest.approx(1.0, rel=1e-2)
    assert min(tangent, radial) / 2 < 0.51


def test_l1_exponent_is_the_best() -> None:
    for dimension in (2, 7, 8, 50, 10_000):
        best = l1_exponent(dimension)
        assert 1 < best <= 2

        def half_range(q: float, p: int = dimension) -> float:
            return p ** (2 * (1 - 1 / q)) / (2 * (q - 1))

        grid = np.linspace(1.001, 2.0, 2000)
        assert half_range(best) <= min(half_range(q) for q in grid) * (1 + 1e-9)
        # The paper's exponent, with the constant e^2 that its claim 3.5 leaves to the reader.
        if dimension >= 8:
            assert half_range(best) <= math.e**2 * (math.log(dimension) - 1) / 2 * (1 + 1e-9)


def test_interpolation_range_is_within_the_closed_bound() -> None:
    for mix in (0.01, 0.3, 0.7, 0.99):
        mirror = InterpolationBall(dimension=1000, mix=mix).mirror_map()
        assert isinstance(mirror, InterpolationPotential)
        pure = L1NormPotential(ball=L1Ball(dimension=1000), radius=1.0).potential_range()
        assert mirror.potential_range() <= (pure + 0.5) * (1 + 1e-6)
        assert mirror.potential_range() <= math.e**2 * math.log(1000)


def test_simplex_steps_are_multiplicative() -> None:
    simplex = Simplex(dimension=3, total=2.0)
    mirror = simplex.mirror_map()
    direction = np.array([0.3, -0.2, 1.0])
    state = mirror.step(mirror.step(mirror.start(), direction), direction)
    weights = np.exp(-2 * 2.0 * direction)
    assert np.allclose(mirror.point(state), 2 * weights / weights.sum())


@pytest.mark.parametrize("name", ["l1", "hull", "symmetric-hull", "flow", "image-hull"])
def test_vertex_entropies_are_dual_averages(name: str) -> None:
    """The point is the gradient of the conjugate ``ln sum exp <v, .>`` at minus the state."""
    mirror: MirrorMap = SETS[name].mirror_map()
    generator = public_generator(1)
    for size in (0.1, 1.0):
        state = mirror.step(mirror.start(), size * generator.standard_normal(SETS[name].dimension))
        other = mirror.step(state, size * generator.standard_normal(SETS[name].dimension))
        gap = mirror.point(other) - mirror.point(state)
        # Strong convexity of the potential is smoothness 1 of the conjugate in the dual norm,
        # the largest |<v, difference>| over vertices.
        change = other - state
        ball = mirror.ball
        assert isinstance(ball, LinearlyOptimizable)
        factor = 1.0
        dual = -float(change @ ball.minimize_linear(change)) * factor
        assert -gap @ change <= dual**2 + 1e-12
        assert ball.gauge(gap) <= dual + 1e-9
        assert -gap @ change >= ball.gauge(gap) ** 2 - 1e-6


def test_vertex_entropy_range_is_reached() -> None:
    for entropy in (
        L1Ball(dimension=3).mirror_map(),
        VertexHull(VERTICES).mirror_map(),
    ):
        assert isinstance(entropy, VertexEntropy)
        assert entropy.potential_range() == math.log(entropy.vertices.count)
        weights = entropy.weights(entropy.start())
        assert np.allclose(weights, 1 / entropy.vertices.count)


def test_image_map_matches_the_direct_map() -> None:
    image = SETS["image"]
    assert isinstance(image, Projectable)
    mirror = image.mirror_map()
    direction = np.array([0.3, -0.4, 0.1])
    state = mirror.step(mirror.start(), direction)
    assert np.allclose(mirror.point(state), image.project(image.centre() - direction))
    assert mirror.potential_range() == pytest.approx(0.125)
    assert mirror.modulus == 1.0
