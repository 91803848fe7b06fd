"""Problems declare public constants, and refuse what does not fit."""

from typing import Any

import numpy as np
import pytest

from dpstream.domain.column import Numeric
from dpstream.domain.domain import Domain, RecordBound
from dpstream.domain.target import IntervalTarget, LabelTarget
from dpstream.errors import ConfigurationError
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.losses.hinge import HingeLoss
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.record_bound import RecordBound as Bounds
from dpstream.losses.regularised import RegularisedLoss
from dpstream.losses.softmax import SoftmaxLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.privacy.bounds import curve_of
from dpstream.privacy.budget import Budget
from dpstream.privacy.event import ComposedEvent
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.randomness.public import public_generator
from dpstream.solvers.frank_wolfe import FrankWolfe
from dpstream.solvers.frank_wolfe_gaussian import GaussianFrankWolfe
from dpstream.solvers.lasso import Lasso
from dpstream.solvers.mirror_descent import MirrorDescent
from dpstream.solvers.noisy_sgd import NoisySgd
from dpstream.solvers.plan import Share, Solver
from dpstream.solvers.problem import Problem

BUDGET = Budget(epsilon=1.0, delta=1e-6)


def problem(dimension: int = 3, records: int = 50, **changes: Any) -> Problem:
    declared: dict[str, Any] = {
        "loss": SquaredLoss(),
        "convex_set": L1Ball(dimension=dimension),
        "domain": Domain.vectors(dimension, norm_bound=1.0, target_bound=1.0, record_bound="max"),
        "records": records,
        "neighbours": Neighbours.ZERO_OUT,
        "unit": Unit(),
    }
    return Problem(**(declared | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"records": 0}, "records is 0"),
        ({"target": 1}, "target is 1"),
        ({"gradient_clip": 0.0}, "gradient_clip"),
        ({"convex_set": L1Ball(dimension=4)}, "dimension 4, but the loss has 3"),
    ],
)
def test_wrong_declarations_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        problem(**changes)


def test_batch_of_another_size_or_width_is_refused_before_anything_runs() -> None:
    declared = problem()
    batch = declared.domain.admit(np.zeros((49, 3)), np.zeros(49))
    with pytest.raises(ConfigurationError, match="49 records, but the plan is for 50"):
        declared.design(batch)
    other = Domain.vectors(4, norm_bound=1.0, target_bound=1.0)
    with pytest.raises(ConfigurationError, match="4 features"):
        declared.check(other.admit(np.zeros((50, 4)), np.zeros(50)))


@pytest.mark.parametrize("bound", ["l2", "max"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("dimension", [1, 2, 3, 7, 2000])
def test_record_bound_holds_on_extreme_records(
    bound: RecordBound, intercept: bool, dimension: int
) -> None:
    domain = Domain.vectors(
        dimension,
        norm_bound=1.0,
        target_bound=1.0,
        record_bound=bound,
        intercept=intercept,
    )
    declared = problem(
        domain=domain,
        convex_set=L2Ball(dimension=dimension + int(intercept)),
        records=20,
    )
    generator = public_generator(dimension)
    rows = generator.uniform(-1.0, 1.0, (20, dimension))
    rows[:4] = np.array([[1.0], [-1.0], [5.0], [0.9999999]])
    rows[4] = np.nan
    rows[5] = np.eye(dimension)[0]
    features, targets = declared.design(domain.admit(rows, np.linspace(-3, 3, 20)))
    limits = declared.record_bound
    assert np.abs(features).max() <= limits.feature_max * (1 + 1e-12)
    assert np.linalg.norm(features, axis=1).max() <= limits.feature_l2 * (1 + 1e-12)
    assert limits.target_lower <= targets.min() <= targets.max() <= limits.target_upper
    # The bounds are those of the declaration, not looser: something comes within 0.1 %.
    assert np.abs(features).max() >= 0.999 * min(limits.feature_max, 1.0)
    assert not features[4].any()


@pytest.mark.parametrize("count", range(1, 13))
def test_target_bounds_hold_where_rounding_carries_all_targets_out_of_their_ball(
    count: int,
) -> None:
    """Six equal targets of ``1 / sqrt(6)`` are rounded outside, and truncated by one grid step."""
    names = [f"t{index}" for index in range(count)]
    domain = Domain(
        [Numeric("x", 0.0, 1.0)],
        targets=[IntervalTarget(name, 1.0 - 1e-9, 1.0) for name in names],
        intercept=False,
    )
    batch = domain.admit({"x": [1.0, 0.5]} | {name: [1.0, 1.0 - 1e-9] for name in names})
    for target in range(count):
        asked = Problem(
            loss=SquaredLoss(),
            convex_set=L2Ball(dimension=1),
            domain=domain,
            records=2,
            neighbours=Neighbours.ZERO_OUT,
            unit=Unit(),
            target=target,
        )
        bound = asked.record_bound
        held = asked.design(batch)[1]
        assert bound.target_lower <= held.min() <= held.max() <= bound.target_upper
        assert bound.target_upper - bound.target_lower < 1e-5


def test_design_predicts_as_the_scaled_parameters_do() -> None:
    domain = Domain.vectors(5, norm_bound=2.0, target_bound=1.0, record_bound="max", intercept=True)
    declared = problem(domain=domain, convex_set=L2Ball(dimension=6), records=30)
    generator = public_generator(1)
    batch = domain.admit(generator.uniform(-2, 2, (30, 5)), np.zeros(30))
    theta = generator.standard_normal(6)
    features, _ = declared.design(batch)
    scaled = declared.scaled_parameters(theta)
    assert features @ theta == pytest.approx(scaled[0] + batch.scaled_features @ scaled[1:])


def test_classes_have_one_row_of_parameters_each() -> None:
    plain = Domain.vectors(2, norm_bound=1.0)
    domain = Domain(plain.columns, LabelTarget("label", ["a", "b", "c"]), norm_bound=1.0)
    declared = problem(
        domain=domain, loss=SoftmaxLoss(classes=3), convex_set=L2Ball(dimension=9), records=4
    )
    batch = domain.admit({"x1": [0.1] * 4, "x2": [0.2] * 4, "label": ["a", "b", "c", "a"]})
    features, targets = declared.design(batch)
    assert features.shape == (4, 3)
    assert targets.shape == (4, 3)
    assert declared.scaled_parameters(np.arange(9.0)).shape == (3, 3)


def test_regulariser_costs_no_sensitivity() -> None:
    plain = problem(loss=LogisticLoss())
    ridged = problem(loss=RegularisedLoss(loss=LogisticLoss(), ridge=7.0))
    assert ridged.lipschitz == plain.lipschitz
    assert ridged.strong_convexity == 7.0
    assert ridged.regulariser_gradient(np.ones(3)) == pytest.approx(7.0 * np.ones(3))


def test_clipping_bounds_both_norms() -> None:
    clipped = problem(loss=LogisticLoss(), gradient_clip=0.01).lipschitz
    assert clipped.l2 == clipped.max == pytest.approx(0.01, rel=1e-7)


@pytest.mark.parametrize("solver", [FrankWolfe(), GaussianFrankWolfe()])
def test_solvers_for_smooth_losses_refuse_kinks(solver: Solver) -> None:
    with pytest.raises(ConfigurationError, match="hinge loss has no Lipschitz gradient"):
        solver.plan(problem(loss=HingeLoss()), BUDGET)


SOLVERS: tuple[Solver, ...] = (
    MirrorDescent(),
    FrankWolfe(),
    GaussianFrankWolfe(),
    NoisySgd(),
    Lasso(selections=2),
)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
def test_plans_spend_the_budget_and_no_more(solver: Solver) -> None:
    plan = solver.plan(problem(), BUDGET)
    curve = curve_of(ComposedEvent(plan.events))
    assert curve.holds(BUDGET.epsilon, BUDGET.delta)
    # Nothing is left lying about either: within 2 % of the budget's epsilon.
    assert curve.epsilon(BUDGET.delta) > 0.98 * BUDGET.epsilon
    assert plan.describe()["solver"] == solver.name


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
def test_unequal_shares_compose_to_the_budget(solver: Solver) -> None:
    events = [
        event
        for fraction in (0.1, 0.2, 0.7)
        for event in solver.plan(problem(), Share(budget=BUDGET, fraction=fraction)).events
    ]
    assert curve_of(ComposedEvent(tuple(events))).holds(BUDGET.epsilon, BUDGET.delta)


@pytest.mark.parametrize("fraction", [0.0, -1.0, 1.5])
def test_share_outside_the_budget_is_refused(fraction: float) -> None:
    with pytest.raises(ConfigurationError, match="fraction"):
        Share(budget=BUDGET, fraction=fraction)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
def test_replace_and_caps_cost_what_they_shift(solver: Solver) -> None:
    def scale(**changes: Any) -> float:
        fixed = {
            "mirror_descent": MirrorDescent(steps=10),
            "frank_wolfe": FrankWolfe(steps=10),
            "frank_wolfe_gaussian": GaussianFrankWolfe(steps=10),
            "noisy_sgd": NoisySgd(steps=10),
            "lasso": Lasso(selections=2, rounds=1),
        }[solver.name]
        return next(iter(fixed.plan(problem(**changes), BUDGET).noise_scales.values()))

    one = scale()
    assert scale(neighbours=Neighbours.REPLACE) == pytest.approx(2 * one, rel=1e-4)
    user = Unit(kind="user", cap=3, column="who")
    assert scale(unit=user) == pytest.approx(3 * one, rel=1e-4)


def test_softmax_takes_indicators_alone() -> None:
    """Three numbers in the place of three indicators make longer gradients than it claims."""
    loss = SoftmaxLoss(classes=3)
    domain = Domain.vectors(2, norm_bound=1.0, target_bound=1.0, target_count=3)
    batch = domain.admit(np.array([[1.0, 0.0, -1.0, -1.0, -1.0]]))
    chosen = L2Ball(dimension=6, radius=1.0)
    claim = loss.lipschitz(Bounds(feature_l2=1.0), chosen).l2
    worst = chosen.minimize_linear(np.array([-1.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
    row = loss.gradients(worst, batch.scaled_features, batch.scaled_targets)
    assert np.linalg.norm(row) > 1.1 * claim
    with pytest.raises(ConfigurationError, match="indicators of 3 labels"):
        Problem(
            loss=loss,
            convex_set=chosen,
            domain=domain,
            records=1,
            neighbours=Neighbours.ZERO_OUT,
            unit=Unit(),
        )
