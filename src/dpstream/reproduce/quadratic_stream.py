"""PQFTL's experiment (paper 004, figures 2a and 2b): average regret of quadratic losses.

Ours, and Algorithm 4 with its printed constants on the same stream: a comparison that promises
nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.learners.learner import Tick
from dpstream.learners.online.pqftl import pqftl
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit

DELTA = 1e-6
ALPHA = 1.0
"""The papers' penalty per record."""


def quadratic_records(*, dimension: int, records: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Paper 004, appendix G.1: a linear truth of norm 1 and noise of deviation 0.01."""
    generator = public_generator(seed)
    features = generator.standard_normal((records, dimension))
    features /= np.maximum(1.0, np.linalg.norm(features, axis=1, keepdims=True))
    truth = generator.standard_normal(dimension)
    truth /= np.linalg.norm(truth)
    return features, features @ truth + 0.01 * generator.standard_normal(records)


@dataclass(frozen=True)
class QuadraticStream:
    """Moments of the ticks of a stream of half squared losses with a penalty per record.

    Attributes:
        domain: of the records.
        batch: all of them.
        ends: records at each tick.
        moments: ``(ticks, d + 1, d + 1)`` sums over (x, y) of each tick's records.
    """

    domain: Domain
    batch: Batch
    ends: tuple[int, ...]
    moments: FloatArray

    @classmethod
    def admitted(cls, features: FloatArray, targets: FloatArray, *, tick: int) -> "QuadraticStream":
        """Records admitted and cut into ticks."""
        records = len(targets)
        domain = Domain.vectors(features.shape[1], norm_bound=1.0, target_bound=1.0)
        batch = domain.admit(features, targets)
        ends = (*range(tick, records, tick), records)
        rows = np.concatenate((batch.scaled_features, batch.scaled_targets), axis=1)
        parts = zip((0, *ends), ends, strict=False)
        return cls(domain, batch, ends, np.stack([rows[a:b].T @ rows[a:b] for a, b in parts]))

    def loss(self, moments: FloatArray, records: float, point: FloatArray) -> float:
        """The sum of losses of records with these moments."""
        edge = np.append(point, -1.0)
        return 0.5 * float(edge @ moments @ edge) + 0.5 * ALPHA * records * float(point @ point)

    def average_regret(self, points: Sequence[FloatArray]) -> float:
        """Of models, each for the records of the tick after it, the first being zero."""
        sizes = np.diff((0, *self.ends))
        held = [np.zeros(self.batch.dimension), *points]
        triples = zip(self.moments, sizes, held, strict=False)
        total = sum(self.loss(moments, float(size), point) for moments, size, point in triples)
        whole, records = self.moments.sum(axis=0), self.ends[-1]
        best = self.leader(whole, records)
        return (total - self.loss(whole, records, best)) / records

    def leader(self, moments: FloatArray, records: float) -> FloatArray:
        """The exact minimiser, non-private."""
        inner = moments[:-1, :-1] + ALPHA * records * np.eye(len(moments) - 1)
        return np.asarray(np.linalg.solve(inner, moments[:-1, -1]), np.float64)


def our_quadratic_regret(stream: QuadraticStream, epsilon: float, *, draws: int) -> float:
    """PQFTL on one stacked sum, a release at every tick."""
    learner = pqftl(
        domain=stream.domain,
        budget=Budget(epsilon=epsilon, delta=DELTA),
        unit=Unit(),
        neighbours=Neighbours.REPLACE,
        horizon=len(stream.ends),
        alpha=ALPHA,
        intervals=False,
    )
    regrets: list[float] = []
    for draw in range(draws):
        state, noise, start = learner.init(), Noise.insecure(draw), 0
        points: list[FloatArray] = []
        for number, stop in enumerate(stream.ends, start=1):
            tick = Tick(number=number, records=stop)
            learner.learn(state, stream.batch.slice(start, stop))
            learner.close(state, tick)
            model = learner.release(state, tick, noise).model
            points.append(np.array(model["targets"][0]["coefficients"]["estimate"]))
            start = stop
        regrets.append(stream.average_regret(points))
    return float(np.mean(regrets))


def printed_private_sum_scale(*, horizon: int, epsilon: float, delta: float) -> float:
    """Noise of a node in PrivateSum for records of norm 1 (paper 004, appendix D.2)."""
    levels = math.log2(horizon)
    return levels * math.sqrt(math.log(levels / delta)) / epsilon


def printed_quadratic_regret(stream: QuadraticStream, epsilon: float, *, draws: int) -> float:
    """Algorithm 4 as printed: two trees, half the budget each, no repair of the matrix."""
    records, dimension = stream.ends[-1], stream.batch.dimension
    scale = printed_private_sum_scale(horizon=records, epsilon=epsilon / 2, delta=DELTA / 2)
    regrets: list[float] = []
    for draw in range(draws):
        generator = public_generator(draw)
        points: list[FloatArray] = []
        for end, held in zip(stream.ends, np.cumsum(stream.moments, axis=0), strict=True):
            spread = scale * math.sqrt(end.bit_count())
            noisy = held + spread * generator.standard_normal(held.shape)
            points.append(stream.leader(noisy, end)[:dimension])
        regrets.append(stream.average_regret(points))
    return float(np.mean(regrets))
