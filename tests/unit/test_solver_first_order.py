"""First-order solvers reach what they predict, on every set they can handle."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.errors import ConfigurationError
from dpstream.geometry.box import Box
from dpstream.geometry.convex_set import ConvexSet, LinearlyOptimizable
from dpstream.geometry.group_ball import GroupBall
from dpstream.geometry.hull import VertexHull
from dpstream.geometry.interpolation_ball import InterpolationBall
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.geometry.lp_ball import LpBall
from dpstream.geometry.nuclear_ball import NuclearBall
from dpstream.geometry.simplex import Simplex
from dpstream.losses.hinge import HingeLoss
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.loss import Loss
from dpstream.losses.regularised import RegularisedLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.randomness.public import public_generator
from dpstream.solvers.frank_wolfe import FrankWolfe
from dpstream.solvers.frank_wolfe_gaussian import GaussianFrankWolfe
from dpstream.solvers.gradient import GradientSum, gradient_noise
from dpstream.solvers.mirror_descent import MirrorDescent
from dpstream.solvers.noisy_sgd import NoisySgd
from dpstream.solvers.plan import Share, Solver
from dpstream.solvers.problem import Problem

DIMENSION = 6
RECORDS = 400
BUDGET = Budget(epsilon=1.0, delta=1e-6)
LOUD = Budget(epsilon=1e5, delta=0.5)
"""Hardly any noise: what remains is the method's own error."""

VERTICES = public_generator(1).standard_normal((9, DIMENSION)) / 3.0
SETS: tuple[LinearlyOptimizable, ...] = (
    L2Ball(dimension=DIMENSION),
    L1Ball(dimension=DIMENSION, radius=2.0),
    Simplex(dimension=DIMENSION),
    Box(half_widths=np.full(DIMENSION, 0.5)),
    LpBall(dimension=DIMENSION, order=1.5),
    GroupBall(dimension=DIMENSION, group_size=2),
    InterpolationBall(dimension=DIMENSION, mix=0.5),
    NuclearBall(rows=2, columns=3),
    VertexHull(VERTICES),
)

LOGISTIC, SQUARED = LogisticLoss(), SquaredLoss()


@cache
def declared(place: int, loss: Loss) -> Problem:
    """One problem per set and loss, so that least risks are computed once."""
    return declare(SETS[place], loss)


def declare(convex_set: ConvexSet, loss: Loss | RegularisedLoss) -> Problem:
    return Problem(
        loss=loss,
        convex_set=convex_set,
        domain=Domain.vectors(convex_set.dimension, norm_bound=1.0, target_bound=1.0),
        records=RECORDS,
        neighbours=Neighbours.ZERO_OUT,
        unit=Unit(),
    )


def labelled(problem: Problem) -> Batch:
    generator = public_generator(2)
    features = generator.standard_normal((RECORDS, DIMENSION))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    truth = np.linspace(1.0, -0.5, DIMENSION)
    return problem.domain.admit(features, np.where(features @ truth > 0, 1.0, -1.0))


def gap(problem: Problem, batch: Batch, point: FloatArray) -> float:
    """Frank-Wolfe's duality gap: an upper bound on the excess risk, whatever the optimum is."""
    chosen = problem.convex_set
    assert isinstance(chosen, LinearlyOptimizable)
    total = GradientSum(problem, batch).at(point) / RECORDS + problem.regulariser_gradient(point)
    return float(total @ (point - chosen.minimize_linear(total)))


@cache
def least_risk(problem: Problem) -> float:
    """A lower bound, by the same method without noise and the gap that it certifies."""
    batch = labelled(problem)
    solver = MirrorDescent(steps=500)
    result = solver.release(solver.plan(problem, LOUD), batch, Noise.insecure(0))
    return problem.risk(result.parameters, batch) - gap(problem, batch, result.parameters)


@pytest.mark.parametrize("convex_set", SETS, ids=lambda item: type(item).__name__)
@pytest.mark.parametrize("budget", [BUDGET, LOUD], ids=["noisy", "loud"])
def test_solver_mirror_keeps_its_bound_on_every_set(
    convex_set: LinearlyOptimizable, budget: Budget
) -> None:
    problem = declared(SETS.index(convex_set), LOGISTIC)
    batch = labelled(problem)
    solver = MirrorDescent(most_steps=200)
    plan = solver.plan(problem, budget)
    result = solver.release(plan, batch, Noise.insecure(3))
    assert convex_set.contains(result.parameters, 1e-6)
    excess = problem.risk(result.parameters, batch) - least_risk(problem)
    # The bound is on the mean; a draw is above twice the bound never in practice.
    assert -1e-9 <= excess <= 2.0 * plan.excess_bound
    assert len(result.measurements) == plan.steps == len(plan.step_sizes)


@pytest.mark.parametrize(
    ("loss", "schedules"),
    [
        (HingeLoss(), {"lipschitz"}),
        (LogisticLoss(), {"smooth"}),
        (RegularisedLoss(loss=HingeLoss(), ridge=0.5), {"strongly convex"}),
        (RegularisedLoss(loss=LogisticLoss(), ridge=0.5), {"smooth and strongly convex"}),
    ],
)
def test_solver_mirror_takes_the_schedule_that_the_loss_allows(
    loss: Loss | RegularisedLoss, schedules: set[str]
) -> None:
    problem = declare(L2Ball(dimension=DIMENSION), loss)
    batch = labelled(problem)
    solver = MirrorDescent()
    plan = solver.plan(problem, BUDGET)
    assert plan.settings["schedule"] in schedules
    excesses = [
        problem.risk(solver.release(plan, batch, Noise.insecure(seed)).parameters, batch)
        for seed in range(4)
    ]
    assert np.mean(excesses) - least_risk(problem) <= plan.excess_bound


def test_solver_mirror_noise_does_not_depend_on_the_ridge() -> None:
    solver = MirrorDescent(steps=20)
    scales = {
        ridge: solver.plan(
            declare(L2Ball(dimension=DIMENSION), RegularisedLoss(loss=LogisticLoss(), ridge=ridge)),
            BUDGET,
        ).noise_scales
        for ridge in (0.01, 1.0, 100.0)
    }
    assert scales[0.01] == scales[1.0] == scales[100.0]


@pytest.mark.parametrize(
    "convex_set",
    [item for item in SETS if isinstance(item, L1Ball | Simplex | VertexHull)],
    ids=lambda item: type(item).__name__,
)
def test_solver_frank_wolfe_keeps_its_bound_on_polytopes(convex_set: LinearlyOptimizable) -> None:
    problem = declared(SETS.index(convex_set), SQUARED)
    batch = labelled(problem)
    for budget in (BUDGET, LOUD):
        solver = FrankWolfe(most_steps=200)
        plan = solver.plan(problem, budget)
        result = solver.release(plan, batch, Noise.insecure(4))
        assert convex_set.contains(result.parameters, 1e-6)
        assert problem.risk(result.parameters, batch) - least_risk(problem) <= plan.excess_bound


@pytest.mark.parametrize("convex_set", SETS, ids=lambda item: type(item).__name__)
def test_solver_frank_wolfe_gaussian_keeps_its_bound(convex_set: LinearlyOptimizable) -> None:
    problem = declared(SETS.index(convex_set), SQUARED)
    batch = labelled(problem)
    for budget in (BUDGET, LOUD):
        solver = GaussianFrankWolfe(most_steps=200)
        plan = solver.plan(problem, budget)
        result = solver.release(plan, batch, Noise.insecure(5))
        assert convex_set.contains(result.parameters, 1e-6)
        assert problem.risk(result.parameters, batch) - least_risk(problem) <= plan.excess_bound


def test_solver_frank_wolfe_converges_where_the_printed_step_size_does_not() -> None:
    # With step sizes 1/(T+2) the start keeps weight 1/e for ever.
    problem = declare(L1Ball(dimension=DIMENSION), SquaredLoss())
    batch = labelled(problem)
    solver = FrankWolfe(steps=500)
    plan = solver.plan(problem, LOUD)
    ours = solver.release(plan, batch, Noise.insecure(6)).parameters
    fixed = replace(plan, step_sizes=(1 / 502,) * 500)
    printed = solver.release(fixed, batch, Noise.insecure(6)).parameters
    least = least_risk(problem)
    assert problem.risk(ours, batch) - least < 1e-3
    assert problem.risk(printed, batch) - least > 1e-2


def test_sets_without_vertices_or_oracle_are_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="L2Ball has no list of vertices"):
        FrankWolfe().plan(declare(L2Ball(dimension=DIMENSION), SquaredLoss()), BUDGET)


@pytest.mark.parametrize("make", [MirrorDescent, FrankWolfe, GaussianFrankWolfe, NoisySgd])
@pytest.mark.parametrize("options", [{"steps": 0}, {"most_steps": 0}])
def test_step_counts_below_one_are_refused(
    make: Callable[..., Solver], options: dict[str, int]
) -> None:
    with pytest.raises(ConfigurationError, match="is 0"):
        make(**options)


SOLVERS: tuple[Solver, ...] = (
    MirrorDescent(steps=5),
    FrankWolfe(steps=5),
    GaussianFrankWolfe(steps=5),
    NoisySgd(steps=5),
    NoisySgd(steps=5, batch_size=100),
)


@pytest.mark.parametrize("solver", SOLVERS)
def test_replaying_the_same_data_gives_the_same_release_and_other_data_other_noise(
    solver: Solver,
) -> None:
    problem = declare(L1Ball(dimension=DIMENSION), LogisticLoss())
    batch = labelled(problem)
    plan = solver.plan(problem, BUDGET)
    first = solver.release(plan, batch, Noise.insecure(7))
    again = solver.release(plan, batch, Noise.insecure(7))
    assert np.array_equal(first.parameters, again.parameters)
    assert first.events == plan.events
    with pytest.raises(ConfigurationError, match="399 records"):
        solver.release(plan, batch.slice(0, RECORDS - 1), Noise.insecure(7))
    if not isinstance(solver, FrankWolfe):
        other = batch.nullify(np.arange(RECORDS) == 3)
        moved = solver.release(plan, other, Noise.insecure(7)).measurements[0].value
        shift = np.abs(moved - first.measurements[0].value).max()
        sigma = plan.noise_scales["gradient_sum"]
        # One record moves the sum by at most 1, many times less than fresh noise does.
        assert shift * 2.0 ** first.measurements[0].exponent > 0.05 * sigma


def test_solver_sgd_samples_only_where_it_is_accounted_for() -> None:
    solver = NoisySgd(steps=50, batch_size=20)
    plain = declare(L2Ball(dimension=DIMENSION), LogisticLoss())
    sampled = solver.plan(plain, BUDGET)
    assert sampled.settings["sampling"] == "Poisson"
    full = NoisySgd(steps=50).plan(plain, BUDGET)
    # A sample of a twentieth is measured with far less noise than the whole.
    assert sampled.noise_scales["gradient_sum"] < 0.2 * full.noise_scales["gradient_sum"]
    replaced = Problem(
        loss=plain.loss,
        convex_set=plain.convex_set,
        domain=plain.domain,
        records=RECORDS,
        neighbours=Neighbours.REPLACE,
        unit=Unit(),
    )
    assert "replace" in str(solver.plan(replaced, BUDGET).settings["sampling"])
    capped = Problem(
        loss=plain.loss,
        convex_set=plain.convex_set,
        domain=plain.domain,
        records=RECORDS,
        neighbours=Neighbours.ZERO_OUT,
        unit=Unit(kind="user", cap=2, column="who"),
    )
    assert "several records" in str(solver.plan(capped, BUDGET).settings["sampling"])
    share = Share(budget=BUDGET, fraction=0.5)
    assert "share" in str(solver.plan(plain, share).settings["sampling"])


@pytest.mark.parametrize("batch_size", [None, 40])
@pytest.mark.parametrize(
    "loss", [HingeLoss(), RegularisedLoss(loss=LogisticLoss(), ridge=0.5)], ids=["case 1", "case 2"]
)
def test_solver_sgd_keeps_its_bound(loss: Loss | RegularisedLoss, batch_size: int | None) -> None:
    problem = declare(L2Ball(dimension=DIMENSION), loss)
    batch = labelled(problem)
    solver = NoisySgd(steps=100, batch_size=batch_size)
    plan = solver.plan(problem, BUDGET)
    risks = [
        problem.risk(solver.release(plan, batch, Noise.insecure(seed)).parameters, batch)
        for seed in range(3)
    ]
    assert np.mean(risks) - least_risk(problem) <= plan.excess_bound


def test_solver_sgd_sampled_steps_are_unbiased() -> None:
    # The sampled gradient over the rate has the full gradient as its mean: with the sample's
    # deviation L / sqrt(batch) = 0.16 and the noise's, 400 steps at one point average to 0.05.
    problem = declare(L2Ball(dimension=DIMENSION), HingeLoss())
    batch = labelled(problem)
    solver = NoisySgd(steps=400, batch_size=40)
    plan = solver.plan(problem, Budget(epsilon=100.0, delta=0.1))
    still = replace(plan, step_sizes=(0.0,) * 400)
    measured = solver.release(still, batch, Noise.insecure(8)).measurements
    mean = np.mean([np.ldexp(m.value.astype(float), m.exponent) for m in measured], axis=0) / 40
    exact = GradientSum(problem, batch).at(np.zeros(DIMENSION)) / RECORDS
    assert np.abs(mean - exact).max() < 0.05


def test_gradients_are_taken_within_the_radii_whatever_the_oracle_returns() -> None:
    """A point off the set, as an inexact oracle may leave it, costs accuracy and no privacy."""
    chosen = L1Ball(dimension=3, radius=1.0)
    problem = replace(declare(chosen, SquaredLoss()), records=1)
    batch = problem.domain.admit([[1.0, 0.0, 0.0]], [-1.0])
    gradients = GradientSum(problem, batch)
    inside = np.array([0.2, -0.3, 0.1])
    assert np.array_equal(gradients.within(inside), inside)
    outside = np.array([5.0, 0.0, 0.0])
    assert chosen.contains(gradients.within(outside))
    noise = gradient_noise(problem, mu=1e6, count=1)
    measured = gradients.measure(outside, noise, address=(0,), noise=Noise.insecure(1))
    total = np.ldexp(measured.value.astype(np.float64), measured.exponent)
    assert np.linalg.norm(gradients.at(outside)) > 2 * problem.lipschitz.l2
    assert np.linalg.norm(total) <= problem.lipschitz.l2 * (1 + 1e-4)
