"""Ways in which a batch solver once could have told more than it pays for: each stays closed."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from dpstream.arrays import BoolArray, FloatArray
from dpstream.domain.column import Numeric
from dpstream.domain.domain import Domain
from dpstream.domain.target import LabelTarget
from dpstream.errors import CertificateError, ConfigurationError
from dpstream.geometry.box import Box
from dpstream.geometry.convex_set import ConvexSet
from dpstream.geometry.image import shift
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.geometry.simplex import Simplex
from dpstream.losses.hinge import HingeLoss
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.poisson import PoissonLoss
from dpstream.losses.regularised import RegularisedLoss
from dpstream.losses.softmax import SoftmaxLoss
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.randomness.public import public_generator
from dpstream.solvers import minimiser, objective_perturbation
from dpstream.solvers.frank_wolfe import FrankWolfe
from dpstream.solvers.gradient import GradientSum
from dpstream.solvers.minimiser import Target, minimise
from dpstream.solvers.noisy_sgd import NoisySgd
from dpstream.solvers.objective_perturbation import ObjectivePerturbation
from dpstream.solvers.output_perturbation import OutputPerturbation, output_noise
from dpstream.solvers.permuted_sgd import PermutedSGD
from dpstream.solvers.problem import Problem

BUDGET = Budget(epsilon=1.0, delta=1e-6)
RECORDS = 50


def problem_of(convex_set: ConvexSet, loss: Any, *, records: int = RECORDS) -> Problem:
    return Problem(
        loss=loss,
        convex_set=convex_set,
        domain=Domain.vectors(convex_set.dimension, norm_bound=1.0, target_bound=1.0),
        records=records,
        neighbours=Neighbours.ZERO_OUT,
        unit=Unit(),
    )


def batch_of(problem: Problem) -> Any:
    generator = public_generator(1)
    features = generator.standard_normal((problem.records, problem.dimension))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return problem.domain.admit(features, np.sign(features[:, 0]))


@pytest.mark.parametrize("score", [10.0, 40.0, 200.0])
def test_review_slopes_that_grow_like_exponentials_keep_their_bound(score: float) -> None:
    """A point on the set up to a relative 1e-9 had slopes up to ``score 1e-9`` too large."""
    problem = problem_of(
        L2Ball(dimension=2, radius=score), PoissonLoss(rate_bound=math.exp(score + 1.0)), records=1
    )
    gradients = GradientSum(problem, problem.domain.admit([[1.0, 0.0]], [-1.0]))
    point = np.array([score * (1.0 + 0.9e-9), 0.0])
    assert problem.convex_set.contains(point)
    found = float(np.linalg.norm(gradients.at(gradients.within(point))))
    assert found <= problem.lipschitz.l2
    # Not by a slack so wide that it would hide the next one.
    assert found >= problem.lipschitz.l2 * (1.0 - 1e-6)


@dataclass(frozen=True, kw_only=True)
class LooseBall(L2Ball):
    """Its projection ends beyond it, as an iteration may."""

    def project(self, point: FloatArray) -> FloatArray:
        return super().project(point) * (1.0 + 1e-6)


def test_review_sampled_descent_stays_on_its_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores of a sample are exact for points on a grid alone; scaling to the radii left it."""
    problem = problem_of(LooseBall(dimension=3, radius=0.7), HingeLoss())
    points: list[FloatArray] = []
    exact = GradientSum.at

    def watched(
        self: GradientSum, parameters: FloatArray, sample: BoolArray | None = None
    ) -> FloatArray:
        assert sample is not None
        points.append(parameters)
        return exact(self, parameters, sample)

    monkeypatch.setattr(GradientSum, "at", watched)
    solver = NoisySgd(steps=30, batch_size=10)
    solver.release(solver.plan(problem, BUDGET), batch_of(problem), Noise.insecure(1))
    assert len(points) == 30
    assert max(np.linalg.norm(point) for point in points) > 0.69
    for point in points:
        assert np.linalg.norm(point) <= 0.7
        # 52 bits, of which records on the grid of 2^-20 take 20.
        steps = np.ldexp(point, 52 - 20)
        assert np.array_equal(steps, np.trunc(steps))


TWINS: tuple[tuple[Any, Any], ...] = (
    (Box(half_widths=np.array([0.1, 0.2])), Box(half_widths=np.array([0.2, 0.1]))),
    (shift(L2Ball(dimension=2), [0.5, 0.0]), shift(L2Ball(dimension=2), [0.0, 0.5])),
)


@pytest.mark.parametrize("sets", TWINS, ids=["boxes", "shifts"])
def test_review_sets_of_equal_sizes_have_perturbations_of_their_own(
    sets: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One secret linear term in two problems on a batch: their answers would cancel it."""
    drawn: list[FloatArray] = []
    real = objective_perturbation._perturbation  # what must differ

    def watched(*args: Any) -> FloatArray:
        drawn.append(real(*args))
        return drawn[-1]

    monkeypatch.setattr(objective_perturbation, "_perturbation", watched)
    solver = ObjectivePerturbation(ridge=0.5)
    first, second = (problem_of(chosen, LogisticLoss()) for chosen in sets)
    for sizes in ("l1_radius", "l2_radius", "diameter", "gaussian_width"):
        assert getattr(first.convex_set, sizes)() == getattr(second.convex_set, sizes)()
    assert first.label != second.label
    batch = batch_of(first)
    for problem in (first, second, first):
        solver.release(solver.plan(problem, BUDGET), batch, Noise.insecure(2))
    assert np.array_equal(drawn[0], drawn[2])
    # Independent normals: none of the coordinates agrees to 1e-4 of a deviation.
    assert np.min(np.abs(drawn[0] - drawn[1])) > 1e-4 * np.max(np.abs(drawn[0]))


def test_review_labels_tell_apart_everything_public() -> None:
    base = problem_of(L2Ball(dimension=2), LogisticLoss())
    others = [
        replace(base, loss=RegularisedLoss(loss=LogisticLoss(), ridge=0.1)),
        replace(base, loss=RegularisedLoss(loss=LogisticLoss(), ridge=0.1, centre=np.ones(2))),
        replace(base, convex_set=L2Ball(dimension=2, radius=2.0)),
        replace(base, neighbours=Neighbours.REPLACE),
        replace(base, unit=Unit(kind="user", cap=2, column="id")),
        replace(base, gradient_clip=0.1),
        replace(base, records=RECORDS + 1),
    ]
    assert len({base.label, *(other.label for other in others)}) == 1 + len(others)
    assert replace(base).label == base.label


def test_review_a_certificate_error_tells_nothing_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of steps depends on the secret linear term's length."""
    problem = problem_of(L2Ball(dimension=2), LogisticLoss())
    monkeypatch.setattr(minimiser, "_NEWTON_STEPS", 0)
    monkeypatch.setattr(minimiser, "_descent", lambda _, start, *__: (start, 1.0))
    texts: set[str] = set()
    for size in (0.1, 3.0, 700.0):
        linear = np.array([size, 0.0])
        target = Target(problem=problem, modulus=0.1, centre=np.zeros(2), linear=linear)
        with pytest.raises(CertificateError) as caught:
            minimise(target, batch_of(problem), tolerance=1e-6)
        texts.add(str(caught.value))
    assert len(texts) == 1


def test_review_an_unfinished_root_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a root-finder ends depends on the records; only where descent starts may, too."""

    def hasty(*args: Any, **options: Any) -> Any:
        return optimize.brentq(*args, **(options | {"maxiter": 3}))

    monkeypatch.setattr(minimiser, "brentq", hasty)
    problem = problem_of(L2Ball(dimension=2, radius=0.3), LogisticLoss())
    target = Target(problem=problem, modulus=0.01, centre=np.zeros(2))
    assert minimise(target, batch_of(problem), tolerance=1e-8).residual <= 1e-8


def test_review_a_set_of_one_point_is_minimised_over() -> None:
    problem = problem_of(Simplex(dimension=1, total=0.5), LogisticLoss())
    solver = OutputPerturbation(ridge=0.1)
    result = solver.release(solver.plan(problem, BUDGET), batch_of(problem), Noise.insecure(3))
    assert result.parameters == pytest.approx([0.5])


def test_review_a_gradient_of_zero_is_no_error() -> None:
    """Where the set is active, a minimum off it can be met exactly: zero over zero, once."""
    domain = Domain([Numeric("x")], LabelTarget("y", ["a", "b", "c"]), norm_bound=1.0)
    dimension = 3 * (domain.dimension + 1)
    problem = Problem(
        loss=SoftmaxLoss(classes=3),
        convex_set=L2Ball(dimension=dimension, radius=0.1),
        domain=domain,
        records=1,
        neighbours=Neighbours.ZERO_OUT,
        unit=Unit(),
    )
    target = Target(problem=problem, modulus=1.0, centre=np.zeros(dimension))
    for value in (-1.0, 0.0, 1.0):
        batch = domain.admit(np.array([[value]]), np.array(["a"]))
        found = minimise(target, batch, tolerance=1e-5)
        assert np.linalg.norm(found.point) == pytest.approx(0.1)
        zero = np.zeros(dimension)
        objective = minimiser.Objective(target, batch)
        assert np.array_equal(objective.newton_direction(found.point, zero), zero)


@pytest.mark.parametrize("failure", [ZeroDivisionError, np.linalg.LinAlgError, None])
def test_review_a_direction_that_is_not_found_is_no_error(
    failure: type[Exception] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(_: Any, point: FloatArray, __: FloatArray) -> FloatArray:
        if failure is not None:
            raise failure("a number computed from records")
        return np.full_like(point, np.inf)

    monkeypatch.setattr(minimiser.Objective, "newton_direction", lost)
    problem = problem_of(L2Ball(dimension=2, radius=0.3), LogisticLoss())
    target = Target(problem=problem, modulus=0.1, centre=np.zeros(2))
    assert minimise(target, batch_of(problem), tolerance=1e-8).residual <= 1e-8


@pytest.mark.parametrize(
    ("solver", "convex_set", "epsilon"),
    [
        (OutputPerturbation(ridge=1e9), L2Ball(dimension=2, radius=100.0), 50.0),
        (PermutedSGD(ridge=1e9), L2Ball(dimension=2, radius=100.0), 50.0),
        (FrankWolfe(), L1Ball(dimension=2, radius=1.0), 1.0),
    ],
    ids=["minimiser", "descent", "selections"],
)
def test_review_what_cannot_be_measured_is_refused_before_any_data(
    solver: Any, convex_set: ConvexSet, epsilon: float
) -> None:
    """Values beyond 2**61 lattice steps raised at release, for some records and not for others."""
    loss: Any = LogisticLoss()
    if isinstance(solver, FrankWolfe):
        loss = RegularisedLoss(loss=loss, ridge=1e15)
    with pytest.raises(ConfigurationError, match=r"lattice steps|2\*\*60 steps"):
        solver.plan(problem_of(convex_set, loss), Budget(epsilon=epsilon, delta=1e-6))


def test_review_noise_without_a_sampler_is_refused_before_any_data() -> None:
    def one(_: int) -> float:
        return 1.0

    with pytest.raises(ConfigurationError, match="parameters are too many"):
        output_noise("spherical_laplace", BUDGET, dimension=2**20 + 1, sensitivity=one, exact=1.0)
