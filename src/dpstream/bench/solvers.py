"""How long private batch solvers take, as passes over the records.

A pass is what one exact gradient of the average squared loss costs at the same shape: two products
of the matrix of features with a vector, in BLAS, on one thread, measured in the same run and
interleaved. A solver's time is the processor's for its release; its plan is public and made
before, and admission is measured elsewhere. Every solver that can solve a problem takes part, with
its default options, on made-up records inside the public domain.
"""

from collections.abc import Mapping
from time import process_time
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.bench.history import Watch
from dpstream.domain.domain import Domain
from dpstream.errors import ConfigurationError, NotPrivate
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.solvers.choice import batch_solvers, synthetic_batch
from dpstream.solvers.plan import Solver
from dpstream.solvers.problem import Problem

WATCHED = (Watch("*/passes/*", "lower"),)

BUDGET = Budget(epsilon=1.0, delta=1e-6)
RECORDS = 20_000
DIMENSION = 54
_ROUNDS = 3
_FLOORS_PER_ROUND = 3


def problems(records: int = RECORDS, dimension: int = DIMENSION) -> Mapping[str, Problem]:
    """What is solved, by name."""
    settings: dict[str, Any] = {
        "records": records,
        "neighbours": Neighbours.ZERO_OUT,
        "unit": Unit(),
    }
    in_ball = Domain.vectors(dimension, norm_bound=1.0, target_bound=1.0)
    in_box = Domain.vectors(dimension, norm_bound=1.0, target_bound=1.0, record_bound="max")
    return {
        "logistic loss on an L2 ball": Problem(
            loss=LogisticLoss(),
            convex_set=L2Ball(dimension=dimension, radius=2.0),
            domain=in_ball,
            **settings,
        ),
        "squared loss on an L1 ball": Problem(
            loss=SquaredLoss(),
            convex_set=L1Ball(dimension=dimension, radius=2.0),
            domain=in_box,
            **settings,
        ),
    }


def run(
    *,
    records: int = RECORDS,
    dimension: int = DIMENSION,
    rounds: int = _ROUNDS,
    solvers: Mapping[str, Solver] | None = None,
) -> dict[str, Any]:
    """Passes of every solver on every problem that it can solve."""
    chosen = batch_solvers() if solvers is None else solvers
    return {
        "records": records,
        "features": dimension,
        **{
            name: measure(problem, chosen, rounds=rounds)
            for name, problem in problems(records, dimension).items()
        },
    }


def measure(problem: Problem, solvers: Mapping[str, Solver], *, rounds: int) -> dict[str, Any]:
    """One problem's figures."""
    batch = synthetic_batch(problem, seed=54)[0]
    features, targets = problem.design(batch)
    floor = float("inf")
    taken: dict[str, float] = {}
    steps: dict[str, int] = {}
    refused: list[str] = []
    for name, solver in solvers.items():
        try:
            plan = solver.plan(problem, BUDGET)
        except (ConfigurationError, NotPrivate):
            refused.append(name)
            continue
        steps[name] = plan.steps
        for seed in range(rounds + 1):
            for _ in range(_FLOORS_PER_ROUND):
                floor = min(floor, _pass_seconds(features, targets))
            started = process_time()
            solver.release(plan, batch, Noise.insecure(seed))
            if seed > 0:  # the first time, loops are compiled
                taken[name] = min(taken.get(name, float("inf")), process_time() - started)
    return {
        "microseconds of a pass": 1e6 * floor,
        "passes": {name: seconds / floor for name, seconds in taken.items()},
        "measured rounds": steps,
        "cannot solve it": refused,
    }


def _pass_seconds(features: FloatArray, targets: FloatArray) -> float:
    point = np.full(features.shape[1], 0.01)
    started = process_time()
    residual = features @ point - targets
    np.dot(residual, features)
    return process_time() - started
