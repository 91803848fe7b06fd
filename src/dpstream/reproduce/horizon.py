"""How regret and epsilon grow with the horizon (paper 004: section 3, appendix F, section 4).

Perturbed learners are run on a stream where noise costs most: absolute losses whose kink is at
the best model, which the secret iterate never leaves, so that all regret is noise. Sums of moments
and of gradients are run on strongly convex streams. For an unknown horizon the endless prices
stand beside Algorithm 7, which is computed as printed, for comparison only: its true epsilon grows.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.geometry.l2_ball import L2Ball
from dpstream.learners.learner import Tick
from dpstream.learners.online.follow_the_leader import FollowTheLeader
from dpstream.learners.online.pigd import ImplicitGradientDescent
from dpstream.learners.online.pocp import POCP
from dpstream.learners.online.release_price import ReleasePrice
from dpstream.losses.huber import HuberLoss
from dpstream.losses.logistic import LogisticLoss
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import gaussian_mu
from dpstream.privacy.curve import PrivacyCurve
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.reproduce.quadratic_stream import (
    DELTA,
    QuadraticStream,
    our_quadratic_regret,
    quadratic_records,
)
from dpstream.reproduce.regret import Regret

BUDGET = Budget(epsilon=1.0, delta=DELTA)
HORIZONS = (4000, 16_000, 64_000)
LONG_HORIZONS = (10**3, 10**5, 10**7)
KINK_WIDTH = 1e-4
DIMENSION = 4
RIDGE = 0.1


def perturbed_regret(horizon: int, *, known: bool, seed: int) -> Regret:
    """POCP with a release at every record, on absolute losses with their kink at the best model."""
    generator = public_generator(seed)
    domain = Domain.vectors(DIMENSION, norm_bound=1.0, target_bound=1.0)
    features = generator.standard_normal((horizon, DIMENSION))
    batch = domain.admit(features, np.zeros(horizon))
    learner = POCP(
        domain=domain,
        budget=BUDGET,
        unit=Unit(),
        neighbours=Neighbours.ZERO_OUT,
        releases=horizon if known else None,
        algorithm=ImplicitGradientDescent(),
        loss=HuberLoss(threshold=KINK_WIDTH),
        # Losses are scaled so that slopes have size 1: the clip is the threshold.
        modulus=KINK_WIDTH,
        convex_set=L2Ball(dimension=DIMENSION),
    )
    state, noise = learner.init(), Noise.insecure(seed)
    rows, regret = batch.scaled_features, Regret()
    marks = {horizon >> shift for shift in (4, 2, 0)}
    point, total = np.zeros(DIMENSION), 0.0
    for number in range(1, horizon + 1):
        total += abs(float(rows[number - 1] @ point)) + 0.5 * float(point @ point)
        learner.learn(state, batch.slice(number - 1, number))
        tick = Tick(number=number, records=number)
        learner.close(state, tick)
        released = learner.release(state, tick, noise).model
        point = np.array(released["coefficients"][0])
        if number in marks:
            regret.note(records=number, losses=total, best=0.0)
    return regret


def moment_regret(horizons: Sequence[int], *, draws: int) -> Regret:
    """PQFTL, run for each horizon apart."""
    regret = Regret()
    for horizon in horizons:
        drawn = quadratic_records(dimension=DIMENSION, records=horizon, seed=7)
        stream = QuadraticStream.admitted(*drawn, tick=20)
        average = our_quadratic_regret(stream, BUDGET.epsilon, draws=draws)
        regret.note(records=horizon, losses=average * horizon, best=0.0)
    return regret


def gradient_regret(horizon: int, *, seed: int, tick: int = 20) -> Regret:
    """Following the leader without a horizon, on logistic losses with a ridge."""
    generator = public_generator(seed)
    domain = Domain.vectors(DIMENSION, norm_bound=1.0, target_bound=1.0)
    features = generator.standard_normal((horizon, DIMENSION)) / 2.0
    chances = special.expit(features @ np.array([3.0, -2.0, 1.0, 0.0]))
    labels = np.where(generator.uniform(size=horizon) < chances, 1.0, -1.0)
    batch = domain.admit(features, labels)
    learner = FollowTheLeader(
        domain=domain,
        budget=BUDGET,
        unit=Unit(),
        neighbours=Neighbours.ZERO_OUT,
        horizon=None,
        loss=LogisticLoss(),
        ridge=RIDGE,
        prior_scale=math.inf,
        convex_set=L2Ball(dimension=DIMENSION, radius=5.0),
    )
    state, noise, regret = learner.init(), Noise.insecure(seed), Regret()
    marks = {horizon >> shift for shift in (4, 2, 0)}
    total = 0.0
    for number in range(1, horizon // tick + 1):
        start, stop = (number - 1) * tick, number * tick
        part = batch.slice(start, stop)
        total += _ridge_loss(part, state.point[0])
        learner.learn(state, part)
        closed = Tick(number=number, records=stop)
        learner.close(state, closed)
        learner.release(state, closed, noise)
        if stop in marks:
            seen = batch.slice(0, stop)
            regret.note(records=stop, losses=total, best=_ridge_loss(seen, _best_point(seen)))
    return regret


def _ridge_loss(batch: Batch, point: FloatArray) -> float:
    margins = batch.scaled_targets[:, 0] * (batch.scaled_features @ point)
    ridge = 0.5 * RIDGE * len(batch) * float(point @ point)
    return float(np.logaddexp(0.0, -margins).sum()) + ridge


def _best_point(batch: Batch) -> FloatArray:
    """By Newton's steps, non-private."""
    features, targets = batch.scaled_features, batch.scaled_targets[:, 0]
    point = np.zeros(features.shape[1])
    for _ in range(12):
        chances = special.expit(-targets * (features @ point))
        slope = RIDGE * len(batch) * point - (targets * chances) @ features
        bend = (features * (chances * (1.0 - chances))[:, None]).T @ features
        point = point - np.linalg.solve(bend + RIDGE * len(batch) * np.eye(point.size), slope)
    return point


def endless_epsilon(horizon: int) -> float:
    """What all releases up to a horizon cost at endless prices, of a budget of epsilon 1."""
    price = ReleasePrice(schedule="endless", releases=None)
    places = np.arange(1, horizon + 1, dtype=np.float64) + price.head_start
    first = price.price(1) * places[0] * math.log(places[0]) ** 2
    spent = float(np.sum(first / (places * np.log(places) ** 2)))
    return PrivacyCurve.gaussian(gaussian_mu(BUDGET) * math.sqrt(spent)).epsilon(DELTA)


def doubling_epsilon(horizon: int, *, parameter: float = 1.0) -> float:
    """What Algorithm 7 as printed truly costs by a horizon: it has no bound.

    At time t in ``[2^j, 2^(j+1))`` its noise over the shift is
    ``sqrt((2^(j+1) / eps) (ln(2^j / delta) + sqrt(eps / 2^j)))``.
    """
    squared = 0.0
    for doubling in range(horizon.bit_length()):
        size = 1 << doubling
        ratio = 2.0 * size / parameter * (math.log(size / DELTA) + math.sqrt(parameter / size))
        squared += min(size, horizon + 1 - size) / ratio
    return PrivacyCurve.gaussian(math.sqrt(squared)).epsilon(DELTA)


def horizon_figures(*, horizons: Sequence[int] = HORIZONS, draws: int = 2) -> dict[str, Any]:
    """Total regrets against the horizon, and epsilons of schedules without one."""
    known = Regret()
    for horizon in horizons:
        runs = [perturbed_regret(horizon, known=True, seed=seed) for seed in range(draws)]
        total = float(np.mean([run.total for run in runs]))
        known.note(records=horizon, losses=total, best=0.0)
    return {
        "regret": {
            "perturbed, known horizon": known.to_json(),
            "perturbed, no horizon": _mean(
                [perturbed_regret(horizons[-1], known=False, seed=seed) for seed in range(draws)]
            ).to_json(),
            "sums of moments": moment_regret(horizons, draws=draws).to_json(),
            "sums of gradients": _mean(
                [gradient_regret(horizons[-1], seed=seed) for seed in range(draws)]
            ).to_json(),
        },
        "epsilon": {
            "endless prices": {str(t): endless_epsilon(t) for t in LONG_HORIZONS},
            "algorithm 7 as printed": {str(t): doubling_epsilon(t) for t in LONG_HORIZONS},
        },
    }


def _mean(runs: Sequence[Regret]) -> Regret:
    return Regret(
        records=runs[0].records,
        losses=np.mean([run.totals for run in runs], axis=0).tolist(),
        best=[0.0] * len(runs[0].records),
    )
