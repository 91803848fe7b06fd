"""Bad declarations of sets: one clear error each, with the remedy."""

import math
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from dpstream.errors import CertificateError, ConfigurationError
from dpstream.geometry.box import Box, box
from dpstream.geometry.convex_set import estimate_gaussian_width
from dpstream.geometry.flow_polytope import flow_polytope
from dpstream.geometry.group_ball import GroupBall
from dpstream.geometry.hull import SymmetricHull, VertexHull
from dpstream.geometry.image import scale, shift
from dpstream.geometry.interpolation_ball import InterpolationBall
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.geometry.linear_program import (
    Constraints,
    minimize_linear_program,
    nonnegative_least_squares,
)
from dpstream.geometry.lp_ball import LpBall
from dpstream.geometry.nuclear_ball import NuclearBall
from dpstream.geometry.polytope import polytope
from dpstream.geometry.simplex import Simplex
from dpstream.randomness.public import public_generator

CASES: dict[str, tuple[Callable[[], object], str]] = {
    "negative radius": (lambda: L2Ball(dimension=3, radius=-1.0), "radius is -1.0; .* positive"),
    "zero radius": (lambda: L1Ball(dimension=3, radius=0.0), "radius is 0.0"),
    "infinite radius": (lambda: L1Ball(dimension=3, radius=math.inf), "unbounded"),
    "missing radius": (lambda: NuclearBall(rows=2, columns=2, radius=math.nan), "radius is nan"),
    "no coordinates": (lambda: Simplex(dimension=0), "dimension is 0"),
    "no rows": (lambda: NuclearBall(rows=0, columns=2), "rows is 0"),
    "negative total": (lambda: Simplex(dimension=2, total=-1.0), "total is -1.0"),
    "order 1": (lambda: LpBall(dimension=2, order=1.0), "use L1Ball or L2Ball"),
    "order 2": (lambda: LpBall(dimension=2, order=2.0), "use L1Ball or L2Ball"),
    "group too large": (
        lambda: GroupBall(dimension=2, group_size=3),
        "between 1 and",
    ),
    "mix above one": (lambda: InterpolationBall(dimension=2, mix=1.5), "mix is 1.5"),
    "no vertices": (lambda: VertexHull(np.empty((0, 3))), "vertices is empty"),
    "ragged vertices": (lambda: VertexHull([[1.0, 2.0], [3.0]]), "rows of one width"),
    "flat vertex list": (lambda: VertexHull(np.array([1.0, 2.0])), r"shape \(2,\); it must have 2"),
    "infinite vertex": (lambda: VertexHull(np.array([[np.inf, 0.0]])), "infinite or missing"),
    "zero vertices": (lambda: SymmetricHull(np.zeros((2, 2))), "all vertices are zero"),
    "empty box": (lambda: box([0.0, 1.0], [1.0, 0.0]), "lower limit .* widen"),
    "box of two widths": (lambda: box([0.0, 1.0], [1.0]), "upper has width 1"),
    "flat box": (lambda: Box(np.array([1.0, 0.0])), "smallest half width is 0.0"),
    "empty polytope": (lambda: polytope([[1.0], [-1.0]], [-1.0, -1.0]), "polytope is empty"),
    "unbounded polytope": (lambda: polytope([[1.0, 0.0]], [1.0]), "unbounded; a bounded set"),
    "polytope of two widths": (lambda: polytope([[1.0, 0.0]], [1.0, 2.0]), "limits has width 2"),
    "zero row": (lambda: polytope([[0.0, 0.0]], [1.0]), "zero row"),
    "shift of another width": (lambda: shift(L2Ball(dimension=2), [1.0]), "offset has width 1"),
    "negative scale": (lambda: scale(VertexHull(np.eye(2)), -1.0), "factor is -1.0"),
    "negative scale of a ball": (lambda: scale(L2Ball(dimension=2), -1.0), "factor is -1.0"),
    "no edges": (lambda: flow_polytope(np.empty((0, 2)), source=0, sink=1), "at least one"),
    "edge of three": (lambda: flow_polytope([[0, 1, 2]], source=0, sink=1), "one row"),
    "cycle": (lambda: flow_polytope([(0, 1), (1, 2), (2, 1)], source=0, sink=2), "cycle"),
    "no path": (lambda: flow_polytope([(0, 1), (2, 3)], source=0, sink=3), "no path leads"),
    "dead edge": (lambda: flow_polytope([(0, 1), (0, 2)], source=0, sink=1), "edge 1 lies on no"),
    "strange sink": (lambda: flow_polytope([(0, 1)], source=0, sink=7), "sink 7 is not a node"),
    "source is sink": (lambda: flow_polytope([(0, 1)], source=0, sink=0), "must differ"),
    "one draw": (
        lambda: estimate_gaussian_width(L2Ball(dimension=2), public_generator(0), 1),
        "draws is 1",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_declarations_are_refused(case: str) -> None:
    make, message = CASES[case]
    with pytest.raises(ConfigurationError, match=message):
        make()


def test_unfinished_active_set_is_a_certificate_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def stuck(*_: object, **__: object) -> None:
        raise RuntimeError("Maximum number of iterations reached.")

    monkeypatch.setattr("scipy.optimize.nnls", stuck)
    with pytest.raises(CertificateError, match="hull: the projection did not end"):
        nonnegative_least_squares(np.eye(2), np.ones(2), name="hull")


def test_projections_without_their_certificate_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # An active-set method that answers nonsense must not pass for a projection.
    def wrong(matrix: np.ndarray, target: np.ndarray, **_: object) -> tuple[np.ndarray, float]:
        return np.arange(1.0, matrix.shape[1] + 1), 0.0

    monkeypatch.setattr("scipy.optimize.nnls", wrong)
    with pytest.raises(CertificateError, match="vertex hull"):
        VertexHull(np.eye(3)).project(np.array([5.0, 0.0, 0.0]))
    square = polytope(np.vstack([np.eye(2), -np.eye(2)]), np.ones(4))
    with pytest.raises(CertificateError, match="polytope"):
        square.project(np.array([5.0, 0.0]))


def test_a_point_off_the_span_has_an_infinite_gauge() -> None:
    hull = SymmetricHull(np.array([[1.0, 1.0, 0.0]]))
    assert hull.gauge(np.array([0.0, 0.0, 1.0])) == math.inf
    assert hull.gauge(np.array([2.0, 2.0, 0.0])) == pytest.approx(2.0)
    flow = flow_polytope([(0, 1), (0, 1)], source=0, sink=1).mirror_map().ball
    assert flow.gauge(np.array([0.3, -0.3])) == pytest.approx(0.6)
    chain = flow_polytope([(0, 1), (1, 2)], source=0, sink=2).mirror_map().ball
    assert chain.gauge(np.array([1.0, -1.0])) == math.inf


def test_unsolved_linear_programs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[dict[str, object]] = []

    def undecided(_: np.ndarray, **arguments: object) -> SimpleNamespace:
        calls.append(arguments)
        return SimpleNamespace(status=4, message="numerical difficulties", x=None)

    monkeypatch.setattr("scipy.optimize.linprog", undecided)
    with pytest.raises(CertificateError, match="numerical difficulties"):
        minimize_linear_program(np.ones(2), Constraints(), name="test set")
    # Asked again without presolve, which may not tell an empty set from an unbounded one.
    assert calls[-1]["options"] == {"presolve": False}


def test_point_hulls_answer_with_their_point() -> None:
    hull = VertexHull(np.array([[1.0, 2.0]]))
    assert np.array_equal(hull.project(np.array([1.0, 2.0])), [1.0, 2.0])
    assert hull.diameter() == 0
    assert hull.gaussian_width() == 0
    assert hull.mirror_map().potential_range() == 0


def test_large_hulls_bound_their_diameter() -> None:
    angles = np.linspace(0, 2 * math.pi, 5000, endpoint=False)
    ring = VertexHull(np.column_stack([np.cos(angles), np.sin(angles)]) + 3.0)
    assert ring.diameter() == pytest.approx(2.0)


def test_polytope_projections_survive_rounding_far_away_and_at_the_boundary() -> None:
    generator = public_generator(6)
    rows = generator.integers(-2, 3, (10, 4)).astype(float)
    rows = rows[np.abs(rows).sum(axis=1) > 0]
    # Every inequality twice, as users write them; some are redundant.
    convex_set = polytope(
        np.vstack([rows, rows, np.eye(4), -np.eye(4)]), np.ones(2 * len(rows) + 8)
    )
    for distance in (1e-12, 1e-9, 1.0, 1e7):
        for _ in range(20):
            edge = convex_set.minimize_linear(generator.standard_normal(4))
            start = edge + distance * generator.standard_normal(4)
            nearest = convex_set.project(start)
            assert convex_set.contains(nearest, 1e-9)
            move = start - nearest
            beyond = move @ (convex_set.minimize_linear(-move) - nearest)
            # The answer cannot be known better than the rounding of the point it came from:
            # a few units in the last place of the distance, times the distance.
            length = float(np.linalg.norm(move))
            assert beyond <= (1 + length) * (1e-9 + 8 * np.finfo(float).eps * length)
