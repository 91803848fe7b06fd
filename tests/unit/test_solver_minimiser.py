"""Certified minimisers: right, certified for any data, and loud when they are not."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.domain.column import Numeric
from dpstream.domain.domain import Domain
from dpstream.domain.target import LabelTarget
from dpstream.errors import CertificateError, ConfigurationError
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.geometry.nuclear_ball import NuclearBall
from dpstream.losses.hinge import HingeLoss
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.poisson import PoissonLoss
from dpstream.losses.softmax import SoftmaxLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.randomness.public import public_generator
from dpstream.solvers import minimiser
from dpstream.solvers.minimiser import (
    Objective,
    Target,
    distance_bound,
    iteration_bound,
    least_tolerance,
    minimise,
    regulariser,
    rounding_error,
)
from dpstream.solvers.problem import Problem

RECORDS, DIMENSION = 200, 4


def problem_of(loss: Any, convex_set: Any = None, *, clip: float | None = None) -> Problem:
    domain = Domain.vectors(DIMENSION, norm_bound=1.0, target_bound=1.0)
    return Problem(
        loss=loss,
        convex_set=convex_set or L2Ball(dimension=DIMENSION, radius=3.0),
        domain=domain,
        records=RECORDS,
        neighbours=Neighbours.REPLACE,
        unit=Unit(),
        gradient_clip=clip,
    )


def batch_of(problem: Problem, seed: int = 0) -> Batch:
    generator = public_generator(seed)
    features = generator.normal(size=(RECORDS, DIMENSION))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    targets = np.sign(features @ np.arange(1.0, DIMENSION + 1) + generator.normal(size=RECORDS))
    return problem.domain.admit(features, targets)


def target_of(problem: Problem, modulus: float, linear: FloatArray | None = None) -> Target:
    return Target(
        problem=problem, modulus=modulus, centre=np.zeros(problem.dimension), linear=linear
    )


@pytest.mark.parametrize("loss", [LogisticLoss(), SquaredLoss(), PoissonLoss(rate_bound=3.0)])
@pytest.mark.parametrize("radius", [0.3, 3.0])
@pytest.mark.parametrize("ball", [L1Ball, L2Ball])
def test_minimiser_beats_every_other_point(loss: Any, radius: float, ball: Any) -> None:
    problem = problem_of(loss, ball(dimension=DIMENSION, radius=radius))
    batch = batch_of(problem)
    target = target_of(problem, 0.05, np.full(DIMENSION, 0.02))
    found = minimise(target, batch, tolerance=1e-8)
    objective = Objective(target, batch)
    assert problem.convex_set.contains(found.point)
    assert found.residual <= 1e-8
    value, generator = objective.value(found.point), public_generator(3)
    for scale in (1e-3, 1e-1, 1.0):
        for _ in range(50):
            step = scale * generator.normal(size=DIMENSION)
            other = target.convex_set.project(found.point + step)
            distance = float(np.linalg.norm(other - found.point))
            # Strong convexity, less what the certificate leaves open.
            assert objective.value(other) >= value + 0.02 * distance**2 - 1e-8 * distance - 1e-14


def test_minimiser_agrees_with_scipy() -> None:
    problem = problem_of(LogisticLoss())
    batch, target = batch_of(problem), target_of(problem, 0.1)
    found = minimise(target, batch, tolerance=1e-10)
    objective = Objective(target, batch)
    witness = minimize(
        objective.value, np.zeros(DIMENSION), jac=objective.gradient, method="BFGS", tol=1e-11
    )
    assert np.linalg.norm(found.point - witness.x) < 1e-7


def test_minimiser_of_softmax_by_conjugate_gradients() -> None:
    domain = Domain(
        [Numeric(f"x{j}") for j in range(3)], LabelTarget("y", ["a", "b", "c"]), norm_bound=1.0
    )
    generator = public_generator(1)
    rows = {f"x{j}": generator.normal(size=RECORDS) for j in range(3)}
    batch = domain.admit(rows | {"y": generator.choice(["a", "b", "c"], RECORDS)})
    problem = Problem(
        loss=SoftmaxLoss(classes=3),
        convex_set=NuclearBall(rows=3, columns=4, radius=20.0),
        domain=domain,
        records=RECORDS,
        neighbours=Neighbours.ZERO_OUT,
        unit=Unit(),
    )
    target = target_of(problem, 0.01)
    found = minimise(target, batch, tolerance=1e-9)
    assert np.linalg.norm(Objective(target, batch).gradient(found.point)) <= 1e-8


@pytest.mark.parametrize("loss", [LogisticLoss(), PoissonLoss(rate_bound=3.0)])
@pytest.mark.parametrize("kind", ["equal", "opposed", "null", "random"])
def test_minimiser_first_order_descent_alone_keeps_its_public_bound(
    loss: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Newton's help, from the farthest corner, on any data."""
    problem = problem_of(loss, L2Ball(dimension=DIMENSION, radius=1.0))
    features = np.zeros((RECORDS, DIMENSION))
    features[:, 0] = {"equal": 1.0, "opposed": 1.0, "null": np.nan, "random": 0.3}[kind]
    targets = np.ones(RECORDS)
    targets[::2] *= -1.0 if kind == "opposed" else 1.0
    batch = problem.domain.admit(features, targets)
    corner = np.full(DIMENSION, -0.5)
    monkeypatch.setattr(minimiser, "_newton", lambda objective, tolerance: corner)
    target = target_of(problem, 0.05)
    assert minimise(target, batch, tolerance=1e-7).residual <= 1e-7
    assert iteration_bound(target, tolerance=1e-7) < 5000


def test_minimiser_distance_is_certified() -> None:
    """At any point the residual over the modulus bounds the distance to the minimiser."""
    problem = problem_of(LogisticLoss(), L2Ball(dimension=DIMENSION, radius=0.5))
    batch, target = batch_of(problem), target_of(problem, 0.05)
    exact = minimise(target, batch, tolerance=1e-11).point
    objective, generator = Objective(target, batch), public_generator(8)
    for scale in (1e-6, 1e-3, 0.3):
        for _ in range(30):
            point = target.convex_set.project(exact + scale * generator.normal(size=DIMENSION))
            residual, _ = objective.residual(point)
            bound = distance_bound(residual + 1e-11, target.modulus)
            assert np.linalg.norm(point - exact) <= bound * (1 + 1e-9)


def test_minimiser_refuses_a_tolerance_that_floats_cannot_certify() -> None:
    problem = problem_of(LogisticLoss())
    target = target_of(problem, 0.05)
    assert least_tolerance(target) > rounding_error(target) > 0.0
    with pytest.raises(ConfigurationError, match="below what"):
        minimise(target, batch_of(problem), tolerance=1e-16)


def test_minimiser_without_certificate_raises_and_returns_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = problem_of(LogisticLoss())
    monkeypatch.setattr(minimiser, "_NEWTON_STEPS", 0)
    monkeypatch.setattr(minimiser, "iteration_bound", lambda *_, **__: 2)
    with pytest.raises(CertificateError, match="nothing was released"):
        minimise(target_of(problem, 0.05), batch_of(problem), tolerance=1e-9)


def test_minimiser_refuses_what_it_cannot_minimise() -> None:
    with pytest.raises(ConfigurationError, match="gradient_clip"):
        regulariser(problem_of(LogisticLoss(), clip=0.5), extra=1.0)
    with pytest.raises(ConfigurationError, match="no Lipschitz gradient"):
        _ = target_of(problem_of(HingeLoss()), 1.0).smoothness


def test_minimiser_is_deterministic() -> None:
    problem = problem_of(LogisticLoss())
    batch, target = batch_of(problem), target_of(problem, 0.01)
    first = minimise(target, batch, tolerance=1e-8).point
    assert np.array_equal(first, minimise(target, batch, tolerance=1e-8).point)
