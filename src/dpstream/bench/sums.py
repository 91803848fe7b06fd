"""Continual sums: how loud they are and how long they take, beside what no method goes below.

*Noise* is the largest standard deviation up to a tick, for sensitivity 1, from the strategies' own
formulas. It stands beside a lower bound for running sums (any factorisation ``A = B C``, after
Edmonds, Nikolov and Ullman 2020): the largest is at least sigma times ``|A|_tr / n``, where the
singular values of the matrix of running sums are ``1 / (2 sin((2k - 1) pi / (4n + 2)))``.

*Simulation* runs the real mechanism (encoder, keyed noise, decoder) on a stream of zeros, with
many independent coordinates: the noise of a coordinate does not depend on how many there are once
sigma is fixed. The root mean square of estimate over prediction is taken over coordinates and over
ticks spread evenly up to the last; a million ticks take minutes each.

*Speed* is the processor's time for a tick that is released, beside that for drawing as much keyed
noise as a node has coordinates.
"""

import math
from collections.abc import Sequence
from time import process_time
from typing import Any

import numpy as np

from dpstream.bench.history import Watch
from dpstream.domain.lattice import ExactVector
from dpstream.mechanisms.continual.choice import sum_strategy
from dpstream.mechanisms.continual.node_noise import NoiseKind
from dpstream.mechanisms.continual.prediction import largest_standard_deviation
from dpstream.mechanisms.continual.strategy import Participation, Strategy
from dpstream.mechanisms.continual.sum import ContinualSum
from dpstream.mechanisms.gaussian import measure_gaussian
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.budget import Budget

WATCHED = (
    Watch("*/largest standard deviation", "lower"),
    Watch("*/times its noise alone", "lower"),
)

BUDGET = Budget(epsilon=1.0, delta=1e-6)
COORDINATES = 16_384
"""Of short simulations."""

LONG, LONG_COORDINATES = 10_000, 1_024
"""From so many ticks on a simulation has this many coordinates."""

LOOKS = 20
"""Ticks at which a simulation is compared with the prediction."""

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

_TIMED: tuple[tuple[str, int | None, int | None, float | None], ...] = (
    ("binary_tree", 1_000, None, None),
    ("honaker_tree", 1_000, None, None),
    ("blt", 1_000, None, None),
    ("chain", None, None, None),
    ("hybrid", None, None, None),
    ("sliding_toeplitz", None, 100, None),
    ("expiring_toeplitz", None, 100, None),
    ("window_tree", None, 100, None),
    ("decayed_toeplitz", None, None, 0.99),
)
"""Strategy, horizon, window and decay."""

_TIMED_COORDINATES, _TIMED_TICKS, _TIMED_ROUNDS = 4_096, 128, 5


def prepared(strategy: Strategy, *, dimension: int = 1, like: int | None = None) -> ContinualSum:
    """A pure sum of sensitivity 1 at the benchmark's budget, one record per tick.

    Args:
        strategy: how it is measured.
        dimension: its coordinates.
        like: calibrate for so many coordinates instead, whatever there are.
    """
    settings: dict[str, Any] = {
        "increment_exponent": -20,
        "increment_bound": 1.0,
        "record_shift": 1.0,
        "participation": Participation(),
        "kind": NoiseKind.GAUSSIAN,
    }
    single = ContinualSum.calibrated(
        strategy, budget=BUDGET, dimension=like or dimension, **settings
    )
    if like is None:
        return single
    return ContinualSum(
        strategy=strategy, dimension=dimension, strength=single.strength, **settings
    )


def lower_bound(ticks: int, sigma: float) -> float:
    """Below this no factorisation's largest standard deviation lies, for running sums."""
    total = 0.0
    for start in range(0, ticks, 1 << 20):
        k = np.arange(start + 1, min(start + (1 << 20), ticks) + 1)
        total += float(np.sum(0.5 / np.sin((2 * k - 1) * (math.pi / (4 * ticks + 2)))))
    return sigma * total / ticks


def simulated_ratio(
    strategy: Strategy, ticks: Sequence[int], noise: Noise, *, coordinates: int
) -> float:
    """Root mean square of the real mechanism's noise over what is predicted, at some ticks."""
    summed = prepared(strategy, dimension=coordinates, like=1)
    state, nothing = summed.init(), ExactVector.zeros(coordinates, -20)
    looks = set(ticks)
    squares: list[float] = []
    for tick in range(1, max(looks) + 1):
        summed.absorb(state, nothing)
        estimate = summed.release(state, noise)[1]
        if tick in looks:
            squares.append(float(np.mean(estimate**2)) / float(summed.variance(tick)[0]))
    return math.sqrt(math.fsum(squares) / len(squares))


def noise_figures(
    name: str, horizon: int | None, window: int | None, ticks: int, *, simulate: bool
) -> dict[str, Any]:
    """One strategy's noise: predicted, bounded from below, and simulated."""
    strategy = sum_strategy(name, horizon=horizon, window=window, decay=None)
    single = prepared(strategy)
    largest, tick = largest_standard_deviation(strategy, ticks, scale=single.sigma)
    figures: dict[str, Any] = {"largest standard deviation": largest, "at tick": tick}
    if window is None:
        unit_noise = 1.0 / single.kind.shift_per_noise(single.strength)
        figures["times the lower bound"] = largest / lower_bound(ticks, unit_noise)
    if simulate:
        looks = {round(ticks * look / LOOKS) for look in range(1, LOOKS + 1)} | {tick}
        figures["simulated over predicted"] = simulated_ratio(
            strategy,
            sorted(looks),
            Noise.insecure(20_240_501),
            coordinates=COORDINATES if ticks < LONG else LONG_COORDINATES,
        )
    return figures


def speed(
    name: str, horizon: int | None, window: int | None, decay: float | None, *, ticks: int
) -> dict[str, Any]:
    """Time of a released tick over that of drawing one node's noise."""
    strategy = sum_strategy(name, horizon=horizon, window=window, decay=decay)
    summed = prepared(strategy, dimension=_TIMED_COORDINATES, like=1)
    increment = ExactVector.from_integers(np.ones(_TIMED_COORDINATES, np.int64), -20)
    nothing = np.zeros(_TIMED_COORDINATES, np.int64)
    best = floor = float("inf")
    for seed in range(_TIMED_ROUNDS + 1):
        state, noise = summed.init(), Noise.insecure(seed)
        started = process_time()
        for number in range(ticks):
            measure_gaussian(nothing, 0, sigma=2.0**20, address=(number,), noise=noise)
        middle = process_time()
        for _ in range(ticks):
            summed.absorb(state, increment)
            summed.release(state, noise)
        if seed > 0:  # the first time, loops are compiled
            floor = min(floor, middle - started)
            best = min(best, process_time() - middle)
    return {
        "microseconds of a tick": 1e6 * best / ticks,
        "microseconds of its noise alone": 1e6 * floor / ticks,
        "times its noise alone": best / floor,
    }


def run(*, simulate_up_to: int = 1_000_000, timed_ticks: int = _TIMED_TICKS) -> dict[str, Any]:
    """The noise of each case, simulated up to so many ticks, and the speed of every strategy."""
    noise = {
        f"{name}, {'W' if window else 'T'} = {window or ticks:,}": noise_figures(
            name, horizon, window, ticks, simulate=ticks <= simulate_up_to
        )
        for name, horizon, window, ticks in _CASES
    }
    timed = {case[0]: speed(*case, ticks=timed_ticks) for case in _TIMED}
    return {
        "noise": noise,
        "speed": {"coordinates": _TIMED_COORDINATES, "ticks": timed_ticks, **timed},
    }
