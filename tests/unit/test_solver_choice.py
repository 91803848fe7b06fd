"""Ranking solvers before any data."""

import json
import math
from typing import Any

import numpy as np
import pytest

from dpstream.domain.column import Numeric
from dpstream.domain.domain import Domain
from dpstream.domain.target import LabelTarget
from dpstream.errors import ConfigurationError
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.losses.hinge import HingeLoss
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.softmax import SoftmaxLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.solvers.choice import batch_solvers, rank, synthetic_batch
from dpstream.solvers.mirror_descent import MirrorDescent
from dpstream.solvers.objective_perturbation import ObjectivePerturbation
from dpstream.solvers.output_perturbation import OutputPerturbation
from dpstream.solvers.problem import Problem

BUDGET = Budget(epsilon=1.0, delta=1e-6)
FEW = {
    "mirror_descent": MirrorDescent(most_steps=50),
    "objective_perturbation": ObjectivePerturbation(),
    "output_perturbation": OutputPerturbation(),
}


def problem_of(loss: Any, convex_set: Any = None, **changes: Any) -> Problem:
    settings: dict[str, Any] = {
        "loss": loss,
        "convex_set": convex_set or L2Ball(dimension=5, radius=5.0),
        "domain": Domain.vectors(5, norm_bound=1.0, target_bound=1.0),
        "records": 2000,
        "neighbours": Neighbours.ZERO_OUT,
        "unit": Unit(),
    }
    return Problem(**(settings | changes))


def test_solver_choice_ranks_by_simulation_and_says_why() -> None:
    ranking = rank(problem_of(LogisticLoss()), BUDGET, solvers=FEW)
    predicted = [candidate.predicted for candidate in ranking.candidates]
    assert predicted == sorted(predicted)
    assert ranking.best.label in ("objective_perturbation", "mirror_descent")
    assert ranking.candidates[-1].label == "output_perturbation"
    assert ranking.best.label in ranking.reason
    assert ranking.simulated_records == 2000
    assert json.loads(json.dumps(ranking.describe()))["take"] == ranking.best.label
    again = rank(problem_of(LogisticLoss()), BUDGET, solvers=FEW)
    assert again.describe() == ranking.describe()


def test_solver_choice_keeps_refusals_with_their_reasons() -> None:
    ranking = rank(problem_of(HingeLoss()), BUDGET, solvers=FEW)
    assert ranking.best.label == "mirror_descent"
    assert "only solver" in ranking.reason
    refused = [item for item in ranking.candidates if item.plan is None]
    assert len(refused) == 2
    assert all(item.refusal and math.isinf(item.predicted) for item in refused)
    with pytest.raises(ConfigurationError, match="no solver can solve"):
        rank(
            problem_of(HingeLoss()),
            BUDGET,
            solvers={"objective_perturbation": ObjectivePerturbation()},
        )


def test_solver_choice_by_bounds_alone() -> None:
    ranking = rank(problem_of(LogisticLoss()), BUDGET, solvers=FEW, draws=0)
    assert ranking.simulated_records == 0
    assert [item.predicted for item in ranking.candidates] == [
        item.bound for item in ranking.candidates
    ]


def test_solver_choice_carries_large_problems_over_by_their_bounds() -> None:
    ranking = rank(
        problem_of(LogisticLoss(), records=100_000), BUDGET, solvers=FEW, simulated_records=1000
    )
    assert ranking.simulated_records == 1000
    best = ranking.best
    assert best.plan is not None
    assert best.plan.problem.records == 100_000
    assert best.predicted < best.simulated


def test_solver_choice_offers_every_solver_a_chance() -> None:
    """Each solver of the list can solve one of these problems."""
    problems = [
        problem_of(LogisticLoss(), records=200),
        problem_of(SquaredLoss(), L1Ball(dimension=5, radius=1.0), records=200),
    ]
    able: set[str] = set()
    for problem in problems:
        ranking = rank(problem, BUDGET, draws=1, simulated_records=200)
        able |= {item.label for item in ranking.candidates if item.plan is not None}
    assert able == set(batch_solvers())


@pytest.mark.parametrize("bound", ["l2", "max"])
@pytest.mark.parametrize("intercept", [False, True])
def test_solver_choice_synthetic_records_are_admissible(bound: Any, intercept: bool) -> None:
    domain = Domain.vectors(
        3, norm_bound=2.0, target_bound=1.0, record_bound=bound, intercept=intercept
    )
    problem = problem_of(
        LogisticLoss(),
        L2Ball(dimension=3 + int(intercept), radius=2.0),
        domain=domain,
        records=500,
    )
    batch, truth = synthetic_batch(problem, seed=2)
    assert len(batch) == 500
    assert problem.convex_set.contains(truth)
    rows = batch.rows
    assert np.array_equal(rows, np.trunc(rows))
    assert np.all(np.sum(rows[:, 1:4] ** 2, axis=1) <= 2.0**40)
    assert set(np.unique(batch.scaled_targets)) == {-1.0, 1.0}
    assert problem.risk(truth, batch) < problem.risk(np.zeros(truth.size), batch)


def test_solver_choice_makes_up_classes() -> None:
    domain = Domain([Numeric("x")], LabelTarget("y", ["a", "b", "c"]), norm_bound=1.0)
    problem = problem_of(
        SoftmaxLoss(classes=3), L2Ball(dimension=6, radius=5.0), domain=domain, records=300
    )
    batch, _ = synthetic_batch(problem, seed=0)
    assert np.array_equal(batch.scaled_targets.sum(axis=1), np.ones(300))
    assert rank(problem, BUDGET, solvers=FEW).best.predicted < math.inf
