"""Noise of continual sums: what the strategies predict, and what a simulation finds.

The simulation runs the real mechanism (encoder, keyed noise, decoder) on a stream of zeros with
many independent coordinates, which cost nothing in privacy terms: the noise of a coordinate does
not depend on how many there are once sigma is fixed.
"""

from typing import Any

import numpy as np

from dpstream.domain.lattice import ExactVector
from dpstream.mechanisms.continual.choice import sum_strategy
from dpstream.mechanisms.continual.node_noise import NoiseKind
from dpstream.mechanisms.continual.prediction import largest_standard_deviation
from dpstream.mechanisms.continual.strategy import Participation, Strategy
from dpstream.mechanisms.continual.sum import ContinualSum
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.budget import Budget

BUDGET = Budget(epsilon=1.0, delta=1e-6)
COORDINATES = 16_384
_CASES: tuple[tuple[str, int | None, int | None, int], ...] = (
    ("blt", 1_000, None, 1_000),
    ("honaker_tree", 1_000, None, 1_000),
    ("chain", None, None, 1_000),
    ("blt", 1_000_000, None, 1_000_000),
    ("honaker_tree", 1_000_000, None, 1_000_000),
    ("chain", None, None, 1_000_000),
    ("expiring_toeplitz", None, 10_000, 30_000),
)
"""Strategy, horizon, window, and the ticks over which the largest noise is taken."""


def prepared(strategy: Strategy, *, dimension: int = 1) -> ContinualSum:
    """A pure sum of sensitivity 1 at the benchmark's budget, one record per tick."""
    return ContinualSum.calibrated(
        strategy,
        budget=BUDGET,
        kind=NoiseKind.GAUSSIAN,
        dimension=dimension,
        increment_exponent=-20,
        increment_bound=1.0,
        record_shift=1.0,
        participation=Participation(),
    )


def simulated_deviation(strategy: Strategy, tick: int, noise: Noise) -> float:
    """Standard deviation over coordinates of the real mechanism's release at ``tick``."""
    single = prepared(strategy)
    summed = ContinualSum(
        strategy=strategy,
        dimension=COORDINATES,
        increment_exponent=-20,
        increment_bound=1.0,
        record_shift=1.0,
        participation=Participation(),
        kind=NoiseKind.GAUSSIAN,
        strength=single.strength,
    )
    state, nothing = summed.init(), ExactVector.zeros(COORDINATES, -20)
    estimate = np.zeros(COORDINATES)
    for _ in range(tick):
        summed.absorb(state, nothing)
        estimate = summed.release(state, noise)[1]
    return float(np.sqrt(np.mean(estimate**2)))


def run(*, simulate_up_to: int = 1_000) -> dict[str, Any]:
    """The largest predicted noise of each case, and simulations of the short ones."""
    figures: dict[str, Any] = {}
    for name, horizon, window, ticks in _CASES:
        strategy = sum_strategy(name, horizon=horizon, window=window, decay=None)
        sigma = prepared(strategy).sigma
        largest, tick = largest_standard_deviation(strategy, ticks, scale=sigma)
        label = f"{name}, {'W' if window else 'T'} = {window or ticks:,}"
        figures[label] = {"largest standard deviation": largest, "at tick": tick}
        if ticks <= simulate_up_to:
            found = simulated_deviation(strategy, tick, Noise.insecure(20_240_501))
            figures[label]["simulated"] = found
            figures[label]["simulated over predicted"] = found / largest
    return figures
