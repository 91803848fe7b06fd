"""Paper 002's regret under delayed publication: against T, against W, by update and by noise.

Squared losses with a regulariser on an L1 ball; the best fixed point in hindsight is computed
without privacy, for experiments only.
"""

from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.geometry.l1_ball import L1Ball
from dpstream.learners.learner import Tick
from dpstream.learners.online.follow_the_leader import FollowTheLeader
from dpstream.learners.online.leader import Update
from dpstream.learners.online.wdp_cocop import wdp_cocop
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.continual.node_noise import NoiseKind
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.reproduce.quadratic_stream import DELTA, quadratic_records

EXPIRY_DIMENSION, EXPIRY_MODULUS, EXPIRY_TICK = 10, 0.5, 16
EXPIRY_WINDOWS = (4, 16, 64, 256)


def expiring_learner(
    domain: Domain, *, window: int, update: Update = "projection", gamma: bool = False
) -> FollowTheLeader:
    """Paper 002's learner on an L1 ball, protecting the last ``window`` ticks."""
    return wdp_cocop(
        domain=domain,
        budget=Budget(epsilon=1.0, delta=0.0 if gamma else DELTA),
        unit=Unit(),
        neighbours=Neighbours.REPLACE,
        loss=SquaredLoss(),
        window=window,
        modulus=EXPIRY_MODULUS,
        convex_set=L1Ball(dimension=EXPIRY_DIMENSION, radius=1.0),
        noise=NoiseKind.SPHERICAL_LAPLACE if gamma else NoiseKind.GAUSSIAN,
        update=update,
    )


def regret_path(learner: FollowTheLeader, batch: Batch, *, seed: int) -> FloatArray:
    """Total regret after every tick, against the best fixed point of all records up to it."""
    ball = L1Ball(dimension=EXPIRY_DIMENSION, radius=1.0)
    state, noise = learner.init(), Noise.insecure(seed)
    rows = np.concatenate((batch.scaled_features, batch.scaled_targets), axis=1)
    moments, total = np.zeros((rows.shape[1],) * 2), 0.0
    best = np.zeros(EXPIRY_DIMENSION)
    path: list[float] = []

    def value(held: FloatArray, count: float, point: FloatArray) -> float:
        edge = np.append(point, -1.0)
        ridge = 0.5 * EXPIRY_MODULUS * count * float(point @ point)
        return 0.5 * float(edge @ held @ edge) + ridge

    for number in range(1, len(batch) // EXPIRY_TICK + 1):
        start, stop = (number - 1) * EXPIRY_TICK, number * EXPIRY_TICK
        part = rows[start:stop].T @ rows[start:stop]
        total += value(part, EXPIRY_TICK, learner.stack.published(state.point)[0])
        moments += part
        tick = Tick(number=number, records=stop)
        learner.learn(state, batch.slice(start, stop))
        learner.close(state, tick)
        learner.release(state, tick, noise)
        if number & (number - 1) == 0:
            bend = moments[:-1, :-1] + EXPIRY_MODULUS * stop * np.eye(EXPIRY_DIMENSION)
            step = 1.0 / float(np.linalg.eigvalsh(bend)[-1])
            for _ in range(200):
                best = ball.project(best - step * (bend @ best - moments[:-1, -1]))
            path.append(total - value(moments, stop, best))
    return np.array(path)


def expiry_figures(*, records: int, draws: int) -> dict[str, Any]:
    """Regret against T and W; projection and oracle; Gaussian and Gamma."""
    domain = Domain.vectors(EXPIRY_DIMENSION, norm_bound=1.0, target_bound=1.0)
    paths: dict[str, FloatArray] = {}
    cases: dict[str, dict[str, Any]] = {
        f"W = {window}, projection": {"window": window} for window in EXPIRY_WINDOWS
    }
    cases["W = 64, linear oracle"] = {"window": 64, "update": "linear_oracle"}
    cases["W = 64, Gamma"] = {"window": 64, "gamma": True}
    for name, settings in cases.items():
        learner = expiring_learner(domain, **settings)
        runs: list[FloatArray] = []
        for draw in range(draws):
            drawn = quadratic_records(dimension=EXPIRY_DIMENSION, records=records, seed=50 + draw)
            runs.append(regret_path(learner, domain.admit(*drawn), seed=draw))
        paths[name] = np.mean(runs, axis=0)
    length = len(next(iter(paths.values())))
    return {
        "records": [EXPIRY_TICK << power for power in range(length)],
        "total regret": {name: path.tolist() for name, path in paths.items()},
    }
