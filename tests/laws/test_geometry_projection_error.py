"""Projections err by less than they say, and secret points enter no other projection.

The reference is the same projection in extended precision (a 64-bit mantissa), by bisection on
its multiplier: written for exactness and not for speed.
"""

from collections.abc import Callable

import numpy as np
import pytest

from dpstream.domain.domain import Domain
from dpstream.errors import ConfigurationError
from dpstream.geometry.box import Box
from dpstream.geometry.convex_set import ConvexSet, Projectable
from dpstream.geometry.group_ball import GroupBall
from dpstream.geometry.hull import SymmetricHull, VertexHull
from dpstream.geometry.image import shift
from dpstream.geometry.interpolation_ball import InterpolationBall
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.geometry.lp_ball import LpBall
from dpstream.geometry.nuclear_ball import NuclearBall
from dpstream.geometry.polytope import polytope
from dpstream.geometry.simplex import Simplex
from dpstream.losses.logistic import LogisticLoss
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.solvers.mirror_descent import MirrorDescent
from dpstream.solvers.objective_perturbation import ObjectivePerturbation
from dpstream.solvers.output_perturbation import OutputPerturbation
from dpstream.solvers.permuted_sgd import PermutedSGD
from dpstream.solvers.pol import OnlineToOffline
from dpstream.solvers.problem import Problem

WIDTH = 9
Long = np.ndarray[tuple[int], np.dtype[np.longdouble]]


def bisected(
    shrunk: Callable[[np.longdouble], Long], norm: Callable[[Long], np.longdouble]
) -> Long:
    """The shrunk point of norm 1, its norm decreasing in the multiplier."""
    low, high = np.longdouble(0), np.longdouble(1)
    while norm(shrunk(high)) > 1:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if norm(shrunk(middle)) > 1 else (low, middle)
    return shrunk(high)


def soft(point: Long, limit: np.longdouble) -> Long:
    return point - np.clip(point, -limit, limit)


def exact_l2(point: Long) -> Long:
    norm = np.sqrt((point**2).sum())
    return point if norm <= 1 else point / norm


def exact_l1(point: Long) -> Long:
    if np.abs(point).sum() <= 1:
        return point
    return bisected(lambda t: soft(point, t), lambda y: np.abs(y).sum())


def exact_simplex(point: Long) -> Long:
    lifted = point - point.min() + 2  # far enough: the L1 ball's threshold is then the simplex's
    return bisected(lambda t: np.maximum(lifted - t, 0), lambda y: y.sum())


def exact_group(point: Long) -> Long:
    norms = np.sqrt((point.reshape(3, 3) ** 2).sum(axis=1))
    kept = exact_l1(norms)
    return (point.reshape(3, 3) * (kept / np.maximum(norms, 1e-300))[:, None]).ravel()


def exact_lp(point: Long) -> Long:
    order = np.longdouble(1.3)
    moduli = np.abs(point)
    if (moduli**order).sum() <= 1:
        return point

    def shrunk(multiplier: np.longdouble) -> Long:
        low, high = np.zeros_like(moduli), moduli.copy()
        for _ in range(100):
            middle = (low + high) / 2
            above = middle + multiplier * middle ** (order - 1) > moduli
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return low

    return np.sign(point) * bisected(shrunk, lambda y: (y**order).sum())


def exact_interpolation(point: Long) -> Long:
    mix = np.longdouble(0.4)

    def norm(y: Long) -> np.longdouble:
        return (1 - mix) * np.abs(y).sum() + mix * np.sqrt((y**2).sum())

    def shrunk(multiplier: np.longdouble) -> Long:
        kept = soft(point, (1 - mix) * multiplier)
        length = np.sqrt((kept**2).sum())
        return kept * max(1 - mix * multiplier / length, np.longdouble(0)) if length > 0 else kept

    return point if norm(point) <= 1 else bisected(shrunk, norm)


EXACT: list[tuple[Projectable, Callable[[Long], Long]]] = [
    (L2Ball(dimension=WIDTH), exact_l2),
    (L1Ball(dimension=WIDTH), exact_l1),
    (Simplex(dimension=WIDTH), exact_simplex),
    (GroupBall(dimension=WIDTH, group_size=3), exact_group),
    (LpBall(dimension=WIDTH, order=1.3), exact_lp),
    (InterpolationBall(dimension=WIDTH, mix=0.4), exact_interpolation),
    (Box(np.ones(WIDTH)), lambda point: np.clip(point, -1, 1)),
]


@pytest.mark.parametrize(("convex_set", "exact"), EXACT, ids=lambda item: type(item).__name__)
def test_projections_err_by_less_than_they_say(
    convex_set: Projectable, exact: Callable[[Long], Long]
) -> None:
    generator = public_generator(5)
    for size in np.repeat([0.3, 1.0, 1.5, 10.0, 1e3, 1e6], 5):
        point = generator.standard_normal(WIDTH) * size
        found = convex_set.project(point)
        error = float(np.linalg.norm((found - exact(point.astype(np.longdouble))).astype(float)))
        assert error <= convex_set.projection_error(float(np.linalg.norm(point)))


def test_matrix_projections_err_by_less_than_they_say() -> None:
    # Turned diagonal matrices, whose singular values are known.
    generator = public_generator(6)
    ball = NuclearBall(rows=4, columns=3)
    for size in (0.5, 2.0, 1e3, 1e6):
        values = np.abs(generator.standard_normal(3)) * size
        left = np.linalg.qr(generator.standard_normal((4, 4)))[0][:, :3]
        right = np.linalg.qr(generator.standard_normal((3, 3)))[0]
        kept = exact_l1(values.astype(np.longdouble)).astype(float)
        found = ball.project(((left * values) @ right).ravel())
        error = float(np.linalg.norm(found - ((left * kept) @ right).ravel()))
        assert error <= ball.projection_error(float(np.linalg.norm(values)))


def test_images_add_their_own_rounding() -> None:
    inner = L1Ball(dimension=3)
    image = shift(inner, [1.0, -2.0, 0.5])
    assert inner.projection_error(4.0) < image.projection_error(4.0) < 1e-12


CUBE = np.vstack([np.eye(WIDTH), -np.eye(WIDTH)])


@pytest.mark.parametrize(
    "convex_set",
    [
        VertexHull(CUBE),
        SymmetricHull(np.eye(WIDTH)),
        polytope(CUBE, np.ones(2 * WIDTH)),
        shift(VertexHull(CUBE), np.ones(WIDTH)),
    ],
    ids=lambda item: type(item).__name__,
)
@pytest.mark.parametrize(
    "solver", [OutputPerturbation(), ObjectivePerturbation(), PermutedSGD(), OnlineToOffline()]
)
def test_secret_points_enter_no_projection_by_iteration(
    convex_set: ConvexSet, solver: object
) -> None:
    problem = Problem(
        loss=LogisticLoss(),
        convex_set=convex_set,
        domain=Domain.vectors(WIDTH, norm_bound=1.0, target_bound=1.0),
        records=100,
        neighbours=Neighbours.ZERO_OUT,
        unit=Unit(),
    )
    budget = Budget(epsilon=1.0, delta=1e-6)
    with pytest.raises(ConfigurationError, match="found by iteration"):
        solver.plan(problem, budget)
    # Released points may: their projection is post-processing.
    assert MirrorDescent().plan(problem, budget).steps >= 1
