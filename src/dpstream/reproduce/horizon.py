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


def doubling_ratio(size: int, parameter: float = 1.0) -> float:
    """Algorithm 7 as printed: noise over shift at times from ``size`` on, until they double.

    ``sqrt((2 size / eps) (ln(size / delta) + sqrt(eps / size)))``; ``size`` is a power of two.
    """
    slack = math.log(size / DELTA) + math.sqrt(parameter / size)
    return math.sqrt(2.0 * size / parameter * slack)


def doubling_regret(horizon: int, *, seed: int) -> Regret:
    """Algorithm 7 as printed, on the stream of ``perturbed_regret``: it promises nothing.

    The iterate never leaves the best model there, so a release is its noise: the printed shift
    ``2 L / (alpha t)`` times ``doubling_ratio``, with ``L = alpha``, projected on the unit ball.
    """
    generator = public_generator(seed)
    domain = Domain.vectors(DIMENSION, norm_bound=1.0, target_bound=1.0)
    features = generator.standard_normal((horizon, DIMENSION))
    rows = domain.admit(features, np.zeros(horizon)).scaled_features
    places = np.arange(1, horizon + 1)
    sizes = 1 << np.array([int(place).bit_length() - 1 for place in places])
    ratios = {size: doubling_ratio(size) for size in np.unique(sizes).tolist()}
    scales = np.array([ratios[size] for size in sizes.tolist()]) * 2.0 / places
    points = generator.standard_normal((horizon, DIMENSION)) * scales[:, None]
    points /= np.maximum(1.0, np.linalg.norm(points, axis=1, keepdims=True))
    # Record t meets the release made after record t - 1; the first meets the origin.
    points = np.concatenate((np.zeros((1, DIMENSION)), points[:-1]))
    losses = np.abs(np.einsum("ij,ij->i", rows, points)) + 0.5 * np.sum(points**2, axis=1)
    totals, regret = np.cumsum(losses), Regret()
    for mark in sorted({horizon >> shift for shift in (4, 2, 0)}):
        regret.note(records=mark, losses=float(totals[mark - 1]), best=0.0)
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


def _endless_prices(horizon: int) -> FloatArray:
    price = ReleasePrice(schedule="endless", releases=None)
    places = np.arange(1, horizon + 1, dtype=np.float64) + price.head_start
    first = price.price(1) * places[0] * math.log(places[0]) ** 2
    return first / (places * np.log(places) ** 2)


def endless_epsilon(horizon: int) -> float:
    """What all releases up to a horizon cost at endless prices, of a budget of epsilon 1."""
    spent = float(np.sum(_endless_prices(horizon)))
    return PrivacyCurve.gaussian(gaussian_mu(BUDGET) * math.sqrt(spent)).epsilon(DELTA)


def endless_noise(horizon: int) -> float:
    """The sum over releases of noise at endless prices, for shifts ``1 / (t + 1)``.

    What noise adds to regret, for losses of bounded slope: ``O(sqrt T ln T)``.
    """
    shifts = 1.0 / (np.arange(1, horizon + 1, dtype=np.float64) + 1.0)
    return float(np.sum(shifts / np.sqrt(_endless_prices(horizon)))) / gaussian_mu(BUDGET)


def doubling_epsilon(horizon: int, *, parameter: float = 1.0) -> float:
    """What Algorithm 7 as printed truly costs by a horizon: it has no bound."""
    squared = 0.0
    for doubling in range(horizon.bit_length()):
        size = 1 << doubling
        squared += min(size, horizon + 1 - size) / doubling_ratio(size, parameter) ** 2
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
            "algorithm 7 as printed": _mean(
                [doubling_regret(horizons[-1], seed=seed) for seed in range(draws)]
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
        "noise at endless prices": {str(t): endless_noise(t) for t in LONG_HORIZONS},
    }


def _mean(runs: Sequence[Regret]) -> Regret:
    return Regret(
        records=runs[0].records,
        losses=np.mean([run.totals for run in runs], axis=0).tolist(),
        best=[0.0] * len(runs[0].records),
    )
