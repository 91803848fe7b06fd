"""How good and how fast the private LASSO is, beside plain private Frank-Wolfe.

The test: 10,000 records of 2,000 columns, uniform in [-1, 1]; ten coefficients of 0.2 with
random signs at random places; ``y = <x, theta*>`` clipped to [-1, 1]; loss ``(y - <x, theta>)^2
/ 2`` over the L1 ball of radius 2 (the truth's own norm). The zero model's excess is then
``10 * 0.04 / 3 / 2 = 0.067``.

Plain Frank-Wolfe takes its number of steps from the bound, or from the public rule
``0.058 (n epsilon)^(2/3)``, which serves it better here.

Run it by ``python -m dpstream.bench.lasso``.
"""

import json
import sys
import time
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.bench.history import Watch
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.geometry.l1_ball import L1Ball
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.solvers.frank_wolfe import FrankWolfe
from dpstream.solvers.lasso import Lasso
from dpstream.solvers.plan import Solver
from dpstream.solvers.problem import Problem

WATCHED = (Watch("excess/*/excess", "lower"),)

RECORDS = 10_000
DIMENSION = 2_000
NONZERO = 10
RADIUS = 2.0
EPSILONS = (0.5, 1.0, 2.0)
DELTA = 1e-6
DRAWS = 8
_REFINEMENTS = 25


def sparse_stream(seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Features, targets and the true coefficients of one draw."""
    generator = public_generator(seed)
    features = generator.uniform(-1.0, 1.0, (RECORDS, DIMENSION))
    truth = np.zeros(DIMENSION)
    places = generator.choice(DIMENSION, NONZERO, replace=False)
    truth[places] = RADIUS / NONZERO * generator.choice([-1.0, 1.0], NONZERO)
    return features, np.clip(features @ truth, -1.0, 1.0), truth


def lasso_problem() -> Problem:
    """The public declaration of the test."""
    domain = Domain.vectors(DIMENSION, norm_bound=1.0, target_bound=1.0, record_bound="max")
    return Problem(
        loss=SquaredLoss(),
        convex_set=L1Ball(dimension=DIMENSION, radius=RADIUS),
        domain=domain,
        records=RECORDS,
        neighbours=Neighbours.ZERO_OUT,
        unit=Unit(),
    )


def least_risk(problem: Problem, batch: Batch, start: FloatArray) -> tuple[float, float]:
    """A bracket of the least empirical risk: a lower bound by duality, and a risk reached.

    Accelerated projected gradient from the truth, which is nearly optimal.
    """
    features, targets = problem.design(batch)
    ball = L1Ball(dimension=DIMENSION, radius=RADIUS)
    point, ahead, pace = start, start, 1.0
    lower, reached = 0.0, np.inf
    # Uniform columns have second moment 1/3; the largest eigenvalue is about this much more.
    size = 3.0 / (1.0 + np.sqrt(DIMENSION / RECORDS)) ** 2
    for _ in range(_REFINEMENTS):
        residual = features @ ahead - targets
        gradient = residual @ features / RECORDS
        value = float(residual @ residual) / (2.0 * RECORDS)
        gap = float(gradient @ ahead) + RADIUS * float(np.abs(gradient).max())
        lower, reached = max(lower, value - gap), min(reached, value)
        following = ball.project(ahead - size * gradient)
        faster = (1.0 + np.sqrt(1.0 + 4.0 * pace * pace)) / 2.0
        ahead = ball.project(following + (pace - 1.0) / faster * (following - point))
        point, pace = following, faster
    return lower, reached


def contestants(epsilon: float) -> dict[str, Solver]:
    """The solvers by name."""
    steps = round(0.058 * (RECORDS * epsilon) ** (2.0 / 3.0))
    return {
        "lasso": Lasso(),
        "lasso in one round": Lasso(rounds=1),
        "frank_wolfe": FrankWolfe(steps=steps),
        "frank_wolfe by its bound": FrankWolfe(),
    }


def lasso(*, draws: int = DRAWS, seed: int = 0) -> dict[str, Any]:
    """Mean excess risk and speed over draws of data and noise.

    Excess is the empirical risk above a lower bound of the least one, hence never flattering.
    Speed counts processor time of a release without admission, and with it; plans are public and
    made before.

    Args:
        draws: of data and noise.
        seed: of the first draw; the others follow.
    """
    problem = lasso_problem()
    plans = {
        epsilon: {
            name: (solver, solver.plan(problem, Budget(epsilon=epsilon, delta=DELTA)))
            for name, solver in contestants(epsilon).items()
        }
        for epsilon in EPSILONS
    }
    excess: dict[float, dict[str, list[float]]] = {
        epsilon: {name: [] for name in plans[epsilon]} for epsilon in EPSILONS
    }
    zero: list[float] = []
    brackets: list[float] = []
    seconds: dict[str, list[float]] = {name: [] for name in ("admission", *plans[1.0])}
    # Compile the admission kernel before the clock runs.
    problem.domain.admit(np.zeros((1, DIMENSION)), np.zeros(1))
    for draw in range(draws):
        features, targets, truth = sparse_stream(seed + draw)
        started = time.process_time()
        batch = problem.domain.admit(features, targets)
        seconds["admission"].append(time.process_time() - started)
        del features, targets
        lower, reached = least_risk(problem, batch, truth)
        brackets.append(reached - lower)
        zero.append(problem.risk(np.zeros(DIMENSION), batch) - lower)
        noise = Noise.insecure(seed + draw)
        for epsilon, entries in plans.items():
            for name, (solver, plan) in entries.items():
                started = time.process_time()
                result = solver.release(plan, batch, noise.child(f"{epsilon} {name}"))
                seconds[name].append(time.process_time() - started)
                excess[epsilon][name].append(problem.risk(result.parameters, batch) - lower)
    admission = float(np.median(seconds["admission"]))
    rows = [
        {
            "epsilon": epsilon,
            "solver": name,
            "steps": plans[epsilon][name][1].steps,
            "excess": float(np.mean(values)),
            "standard_error": float(np.std(values, ddof=1) / np.sqrt(len(values)))
            if len(values) > 1
            else 0.0,
        }
        for epsilon, entries in excess.items()
        for name, values in entries.items()
    ]
    return {
        "name": "lasso",
        "records": RECORDS,
        "dimension": DIMENSION,
        "nonzero": NONZERO,
        "radius": RADIUS,
        "delta": DELTA,
        "neighbours": problem.neighbours.value,
        "draws": draws,
        "zero_model_excess": float(np.mean(zero)),
        "least_risk_uncertainty": float(np.max(brackets)),
        "excess": rows,
        "records_per_processor_second": {
            name: {
                "release": RECORDS / float(np.median(seconds[name])),
                "admission_and_release": RECORDS / (admission + float(np.median(seconds[name]))),
            }
            for name in plans[1.0]
        },
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(lasso(), indent=2) + "\n")


def run() -> dict[str, Any]:
    """The benchmark at its full size."""
    return lasso()
