"""Output and objective perturbation and the one-pass solvers: plans, refusals, releases."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.domain.column import Numeric
from dpstream.domain.domain import Domain
from dpstream.domain.target import LabelTarget
from dpstream.errors import BudgetExceeded, ConfigurationError, NotPrivate
from dpstream.geometry.flow_polytope import FlowPolytope
from dpstream.geometry.l2_ball import L2Ball
from dpstream.losses.hinge import HingeLoss
from dpstream.losses.huber import HuberLoss, PseudoHuberLoss
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.regularised import RegularisedLoss
from dpstream.losses.softmax import SoftmaxLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.budget import Budget
from dpstream.privacy.ledger import Ledger
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.randomness.public import public_generator
from dpstream.solvers.implicit_gradient import result_weights
from dpstream.solvers.minimiser import Objective, Target, minimise
from dpstream.solvers.non_strongly_convex import FadingRegulariser
from dpstream.solvers.objective_perturbation import ObjectivePerturbation
from dpstream.solvers.output_perturbation import OutputPerturbation
from dpstream.solvers.permuted_sgd import PermutedSGD
from dpstream.solvers.plan import Share, Solver
from dpstream.solvers.pol import OnlineToOffline
from dpstream.solvers.problem import Problem

RECORDS, DIMENSION = 2000, 3
FLOW = FlowPolytope(edges=np.array([[0, 1], [0, 1], [0, 1]]), source=0, sink=1)
BUDGET = Budget(epsilon=1.0, delta=1e-6)
PURE = Budget(epsilon=1.0, delta=0.0)
SOLVERS: list[Any] = [
    ObjectivePerturbation(),
    OutputPerturbation(),
    OutputPerturbation(noise="spherical_laplace"),
    PermutedSGD(),
    OnlineToOffline(result="average"),
    OnlineToOffline(result="suffix"),
    OnlineToOffline(result="last"),
    FadingRegulariser(),
]


def problem_of(loss: Any = None, **changes: Any) -> Problem:
    settings: dict[str, Any] = {
        "loss": loss or LogisticLoss(),
        "convex_set": L2Ball(dimension=DIMENSION, radius=5.0),
        "domain": Domain.vectors(DIMENSION, norm_bound=1.0, target_bound=1.0),
        "records": RECORDS,
        "neighbours": Neighbours.ZERO_OUT,
        "unit": Unit(),
    }
    return Problem(**(settings | changes))


def batch_of(problem: Problem, seed: int = 0) -> Batch:
    generator = public_generator(seed)
    features = generator.normal(size=(RECORDS, DIMENSION))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    scores = 6.0 * features @ np.array([0.8, -0.6, 0.0])
    return problem.domain.admit(
        features, np.where(scores > generator.logistic(size=RECORDS), 1, -1)
    )


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_solver_output_and_objective_release_learns(solver: Any) -> None:
    problem = problem_of()
    batch = batch_of(problem)
    assert isinstance(solver, Solver)
    plan = solver.plan(problem, BUDGET)
    result = solver.release(plan, batch, Noise.insecure(4))
    assert problem.convex_set.contains(result.parameters)
    assert result.events == plan.events
    assert problem.risk(result.parameters, batch) < problem.risk(np.zeros(DIMENSION), batch) - 0.1
    # A replay is the same; other data and other keys are not.
    again = solver.release(plan, batch, Noise.insecure(4))
    assert np.array_equal(again.parameters, result.parameters)
    for other in (
        solver.release(plan, batch_of(problem, 1), Noise.insecure(4)),
        solver.release(plan, batch, Noise.insecure(5)),
    ):
        assert not np.array_equal(other.parameters, result.parameters)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_solver_output_and_objective_plans_fit_the_budget_exactly_once(solver: Any) -> None:
    plan = solver.plan(problem_of(), BUDGET)
    ledger = Ledger(BUDGET, Unit())
    for event in plan.events:
        ledger.charge(event)
    with pytest.raises(BudgetExceeded):
        ledger.charge(plan.events[0])
    assert plan.describe()["solver"] == solver.name
    assert solver.plan(problem_of(), BUDGET).describe() == plan.describe()


@pytest.mark.parametrize("solver", SOLVERS[1:], ids=repr)
def test_solver_output_shares_compose(solver: Any) -> None:
    ledger = Ledger(BUDGET, Unit())
    for fraction in (0.25, 0.25, 0.5):
        events = solver.plan(problem_of(), Share(budget=BUDGET, fraction=fraction)).events
        for event in events:
            ledger.charge(event)
    # The shares are the whole budget: nothing of it is left for the smallest of them.
    assert not ledger.admits(
        solver.plan(problem_of(), Share(budget=BUDGET, fraction=0.25)).events[0]
    )


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_solver_output_and_objective_scale_with_the_neighbours(solver: Any) -> None:
    def noise(neighbours: Neighbours) -> float:
        fixed = replace(
            solver, **({"strength": 1.0} if "strength" in repr(solver) else {"ridge": 0.1})
        )
        plan = fixed.plan(problem_of(neighbours=neighbours), BUDGET)
        return next(iter(plan.noise_scales.values()))

    ratio = noise(Neighbours.REPLACE) / noise(Neighbours.ZERO_OUT)
    assert 1.99 < ratio < (2.1 if solver.name == "objective_perturbation" else 2.001)


@pytest.mark.parametrize(
    "solver",
    [
        OutputPerturbation(noise="spherical_laplace"),
        PermutedSGD(noise="spherical_laplace"),
        OnlineToOffline(noise="spherical_laplace"),
        FadingRegulariser(noise="spherical_laplace"),
    ],
    ids=repr,
)
def test_solver_output_pure_budgets(solver: Any) -> None:
    ledger = Ledger(PURE, Unit())
    for event in solver.plan(problem_of(), PURE).events:
        ledger.charge(event)
    assert 0.999 < ledger.spent().epsilon(0.0) <= 1.0


@pytest.mark.parametrize(
    "solver", [*SOLVERS[:2], PermutedSGD(), OnlineToOffline(), FadingRegulariser()], ids=repr
)
def test_solver_output_and_objective_gaussian_noise_refuses_pure_budgets(solver: Any) -> None:
    with pytest.raises(NotPrivate):
        solver.plan(problem_of(), PURE)


@pytest.mark.parametrize(
    ("loss", "why"),
    [
        (HingeLoss(), "not a smooth function"),
        (HuberLoss(), "second derivative of the Huber loss jumps"),
    ],
)
def test_solver_objective_refuses_losses_without_a_density(loss: Any, why: str) -> None:
    with pytest.raises(NotPrivate, match=why):
        ObjectivePerturbation().plan(problem_of(loss), BUDGET)


def test_solver_objective_refuses_softmax_with_the_reason() -> None:
    domain = Domain([Numeric("x")], LabelTarget("y", ["a", "b", "c"]), norm_bound=1.0)
    problem = problem_of(
        SoftmaxLoss(classes=3), domain=domain, convex_set=L2Ball(dimension=6, radius=5.0)
    )
    with pytest.raises(NotPrivate, match="one score per record"):
        ObjectivePerturbation().plan(problem, BUDGET)
    plan = OutputPerturbation().plan(problem, BUDGET)
    generator = public_generator(0)
    rows = {"x": generator.normal(size=RECORDS), "y": generator.choice(["a", "b", "c"], RECORDS)}
    released = OutputPerturbation().release(plan, domain.admit(rows), Noise.insecure(1))
    assert released.parameters.shape == (6,)


def test_solver_objective_refuses_what_is_not_proved() -> None:
    user = Unit(kind="user", cap=2, column="id")
    for changes, error, why in (
        ({"unit": user}, ConfigurationError, "cap is 2"),
        ({"gradient_clip": 0.5}, ConfigurationError, "gradient_clip"),
        ({"convex_set": FLOW}, ConfigurationError, "has no projection"),
    ):
        with pytest.raises(error, match=why):
            ObjectivePerturbation().plan(problem_of(**changes), BUDGET)
    with pytest.raises(ConfigurationError, match="do not compose by shares"):
        ObjectivePerturbation().plan(problem_of(), Share(budget=BUDGET, fraction=0.5))
    with pytest.raises(NotPrivate, match="give a larger ridge"):
        ObjectivePerturbation(ridge=1e-5).plan(problem_of(), BUDGET)


def test_solver_objective_takes_bounded_problems() -> None:
    """The squared loss has bounded slopes on the set only, which is enough."""
    problem = problem_of(SquaredLoss(), convex_set=L2Ball(dimension=DIMENSION, radius=1.0))
    solver = ObjectivePerturbation()
    result = solver.release(solver.plan(problem, BUDGET), batch_of(problem), Noise.insecure(0))
    assert np.linalg.norm(result.parameters) <= 1.0 + 1e-9


def test_solver_objective_bound_holds_and_is_met_within_reason() -> None:
    problem = problem_of(PseudoHuberLoss(threshold=0.5))
    batch = batch_of(problem)
    solver = ObjectivePerturbation()
    plan = solver.plan(problem, BUDGET)
    target = Target(problem=problem, modulus=1e-9, centre=np.zeros(DIMENSION))
    best = problem.risk(minimise(target, batch, tolerance=1e-9).point, batch)
    risks = [
        problem.risk(solver.release(plan, batch, Noise.insecure(seed)).parameters, batch)
        for seed in range(20)
    ]
    assert 0.0 <= float(np.mean(risks)) - best <= plan.excess_bound


def test_solver_output_centre_biases_the_minimiser_at_no_cost() -> None:
    centre = np.array([1.0, 2.0, 0.0])
    biased = problem_of(RegularisedLoss(loss=LogisticLoss(), ridge=0.5, centre=centre))
    plain = problem_of(RegularisedLoss(loss=LogisticLoss(), ridge=0.5))
    solver = OutputPerturbation(ridge=0.0)
    plan, other = solver.plan(biased, BUDGET), solver.plan(plain, BUDGET)
    assert plan.noise_scales["output"] == pytest.approx(other.noise_scales["output"], rel=1e-6)
    null = biased.domain.admit(np.full((RECORDS, DIMENSION), np.nan), np.zeros(RECORDS))
    released = solver.release(plan, null, Noise.insecure(0)).parameters
    assert np.linalg.norm(released - centre) < 10 * plan.noise_scales["output"]


def test_solver_output_needs_curvature_and_a_projection() -> None:
    with pytest.raises(ConfigurationError, match="strongly convex"):
        OutputPerturbation(ridge=0.0).plan(problem_of(), BUDGET)
    with pytest.raises(ConfigurationError, match="no Lipschitz gradient"):
        OutputPerturbation().plan(problem_of(HingeLoss()), BUDGET)
    with pytest.raises(ConfigurationError, match="has no projection"):
        OutputPerturbation().plan(problem_of(convex_set=FLOW), BUDGET)
    with pytest.raises(ConfigurationError, match="must be one of"):
        OutputPerturbation(noise="laplace")
    with pytest.raises(ConfigurationError, match="batch_size"):
        PermutedSGD(batch_size=0)
    with pytest.raises(ConfigurationError, match="epochs"):
        PermutedSGD(epochs=0)


def test_solver_pol_refuses_unbounded_slopes() -> None:
    for solver in (OnlineToOffline(), FadingRegulariser()):
        with pytest.raises(ConfigurationError, match="infinite on this domain"):
            solver.plan(problem_of(SquaredLoss()), BUDGET)
        with pytest.raises(ConfigurationError, match="gradient_clip"):
            solver.plan(problem_of(gradient_clip=0.5), BUDGET)
    with pytest.raises(ConfigurationError, match="must be one of"):
        OnlineToOffline(result="best")
    regularised = problem_of(RegularisedLoss(loss=LogisticLoss(), ridge=1.0))
    with pytest.raises(ConfigurationError, match="whose noise is smaller"):
        FadingRegulariser().plan(regularised, BUDGET)


@pytest.mark.parametrize("result", ["average", "suffix", "last"])
@pytest.mark.parametrize("records", [1, 2, 7])
def test_solver_pol_weights_sum_to_one(result: Any, records: int) -> None:
    weights = result_weights(result, records)
    assert weights.sum() == pytest.approx(1.0)
    assert weights.size == records + 1


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_solver_output_and_objective_refuse_a_batch_of_another_size(solver: Any) -> None:
    problem = problem_of()
    plan = solver.plan(problem, BUDGET)
    with pytest.raises(ConfigurationError, match="records"):
        solver.release(plan, batch_of(problem).slice(0, 10), Noise.insecure(0))


def test_solver_objective_two_problems_on_one_batch_share_no_perturbation() -> None:
    """Else the difference of their optimality conditions shows sums of gradients without noise."""
    noise = Noise.insecure(3)
    first = problem_of()
    batch = batch_of(first)
    shifted = RegularisedLoss(loss=LogisticLoss(), ridge=0.1, centre=np.full(first.dimension, 0.5))
    plain = RegularisedLoss(loss=LogisticLoss(), ridge=0.1)
    solver = ObjectivePerturbation(ridge=0.2)
    found: list[FloatArray] = []
    sigma = 0.0
    for loss in (plain, shifted):
        plan = solver.plan(replace(first, loss=loss), BUDGET)
        point = solver.release(plan, batch, noise).parameters
        assert np.linalg.norm(point) < 0.99 * first.convex_set.l2_radius()  # nothing is active
        target = Target(
            problem=plan.problem,
            modulus=float(plan.settings["modulus"]),
            centre=np.zeros(first.dimension) if loss.centre is None else loss.centre,
        )
        # The gradient at the minimiser is the perturbation, up to what the output's noise hides.
        found.append(-Objective(target, batch).gradient(point) * first.records)
        sigma = plan.noise_scales["linear_term"]
    assert np.linalg.norm(found[0] - found[1]) > 0.1 * sigma


@pytest.mark.parametrize("solver", [OnlineToOffline(), FadingRegulariser()], ids=repr)
@pytest.mark.parametrize("result", ["average", "suffix"])
def test_solver_pol_refuses_an_average_that_no_record_moves(solver: Any, result: Any) -> None:
    """Of one record the average is the public start; its end is not."""
    alone = problem_of(records=1)
    with pytest.raises(ConfigurationError, match="no record moves"):
        replace(solver, result=result).plan(alone, BUDGET)
    assert replace(solver, result="last").plan(alone, BUDGET).noise_scales["output"] > 0.0
