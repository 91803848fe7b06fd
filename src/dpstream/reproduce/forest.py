"""Figure 2c of paper 004: PIGD on forest cover types, a tenth held out, over shuffles."""

import math

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.learners.learner import Tick
from dpstream.learners.online.follow_the_leader import FollowTheLeader
from dpstream.learners.online.pigd import ImplicitGradientDescent
from dpstream.learners.online.pocp import POCP
from dpstream.losses.logistic import LogisticLoss
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.reproduce.comparison import EPSILONS, Comparison
from dpstream.reproduce.quadratic_stream import DELTA

COVER_MODULUS = 3e-3
"""Of PIGD's regulariser, chosen for the size of a logistic model in the unit ball, not on data."""


def printed_pigd_scale(*, horizon: int, epsilon: float, delta: float, modulus: float) -> float:
    """The printed beta of Algorithm 2 for L = 1; noise after t records is ``beta / t``.

    Theorem 1 gives ``(3 epsilon, 2 delta)``, so a third and a half of the budget are put in.
    """
    own, slack = epsilon / 3.0, delta / 2.0
    exponent = math.log(math.log(2.0 / slack) / (2.0 * own)) / (2.0 * math.log(horizon))
    power = horizon ** (0.5 + exponent)
    return (
        2.0
        * power
        / modulus
        * math.sqrt(2.0 / own * (math.log(horizon / slack) + own**0.5 / power))
    )


def forest_comparison(
    features: FloatArray, labels: FloatArray, *, draws: int, tick: int = 4096
) -> Comparison:
    """Accuracy of PIGD's last release on a tenth of the records, over shuffles."""
    domain = Domain.vectors(features.shape[1], norm_bound=1.0, target_bound=1.0, intercept=True)
    ours: dict[float, list[float]] = {epsilon: [] for epsilon in EPSILONS}
    printed: dict[float, list[float]] = {epsilon: [] for epsilon in EPSILONS}
    leader: dict[float, list[float]] = {epsilon: [] for epsilon in EPSILONS}
    plain: list[float] = []
    for draw in range(draws):
        generator = public_generator(draw)
        order = generator.permutation(len(labels))
        held_out = len(labels) // 10
        test = domain.admit(features[order[:held_out]], labels[order[:held_out]])
        train = domain.admit(features[order[held_out:]], labels[order[held_out:]])
        ticks = -(-len(train) // tick)
        noise = Noise.insecure(draw)
        for epsilon in EPSILONS:
            learner = POCP(
                domain=domain,
                budget=Budget(epsilon=epsilon, delta=DELTA),
                unit=Unit(),
                neighbours=Neighbours.REPLACE,
                releases=ticks,
                algorithm=ImplicitGradientDescent(),
                loss=LogisticLoss(),
                modulus=COVER_MODULUS,
            )
            state = learner.init()
            learner.learn(state, train)
            # Only the last release is judged; its number, hence its price, is the last one's.
            state.released = ticks - 1
            released = learner.release(state, Tick(number=ticks, records=len(train)), noise).model
            point = np.append(released["intercept"], released["coefficients"][0])
            ours[epsilon].append(_accuracy(point, test))
            scales = np.append(learner.constant, np.ones(domain.dimension))
            beta = printed_pigd_scale(
                horizon=len(train), epsilon=epsilon, delta=DELTA, modulus=COVER_MODULUS
            )
            added = beta / len(train) * generator.standard_normal(len(state.point))
            printed[epsilon].append(_accuracy((state.point + added) * scales, test))
            leader[epsilon].append(_leader_accuracy(train, test, domain, epsilon, tick, noise))
            if epsilon == EPSILONS[0]:
                plain.append(_accuracy(state.point * scales, test))
    return Comparison(
        "2c: PIGD on forest cover types",
        "accuracy",
        {epsilon: float(np.mean(values)) for epsilon, values in ours.items()},
        {epsilon: float(np.mean(values)) for epsilon, values in printed.items()},
        float(np.mean(plain)),
        {epsilon: float(np.mean(values)) for epsilon, values in leader.items()},
    )


def _leader_accuracy(
    train: Batch, test: Batch, domain: Domain, epsilon: float, tick: int, noise: Noise
) -> float:
    """Of the last release of ``FollowTheLeader``, with every choice left to it."""
    ends = (*range(tick, len(train), tick), len(train))
    learner = FollowTheLeader(
        domain=domain,
        budget=Budget(epsilon=epsilon, delta=DELTA),
        unit=Unit(),
        neighbours=Neighbours.REPLACE,
        horizon=len(ends),
        loss=LogisticLoss(),
    )
    state, start = learner.init(), 0
    for number, stop in enumerate(ends, start=1):
        learner.learn(state, train.slice(start, stop))
        closed = Tick(number=number, records=stop)
        learner.close(state, closed)
        learner.release(state, closed, noise)
        start = stop
    return _accuracy(learner.stack.published(state.point)[0], test)


def _accuracy(point: FloatArray, batch: Batch) -> float:
    scores = batch.scaled_features @ point[1:] + point[0]
    return float(np.mean((scores > 0) == (batch.scaled_targets[:, 0] > 0)))
