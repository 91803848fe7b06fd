"""The noise of block learners from outside, two-sided, and with broken ones that must fail."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.learners.learner import Tick
from dpstream.learners.window import fit as fit_module
from dpstream.learners.window.fit import BlockSolver, FitPlan
from dpstream.learners.window.sliding_window import SlidingWindowRelease
from dpstream.losses.huber import HuberLoss
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.event import GaussianEvent
from dpstream.privacy.unit import Neighbours, Unit

DOMAIN = Domain.vectors(4, norm_bound=1.0, target_bound=1.0)
RECORDS, BLOCKS, RUNS = 3, 5, 100
FALSE_ALARM = 1e-6
LEARNER = SlidingWindowRelease(
    domain=DOMAIN,
    budget=Budget(epsilon=8.0, delta=1e-6),
    unit=Unit(),
    neighbours=Neighbours.ZERO_OUT,
    horizon=BLOCKS,
    loss=HuberLoss(threshold=0.01),
    block_records=RECORDS,
    ridge=20.0,
    radius=100.0,
    window_records=3 * RECORDS,
    refresh=None,
)


def streams() -> tuple[Batch, Batch]:
    """Neighbours: the worst block's record is null in the second."""
    draw = public_generator(9)
    rows = draw.normal(size=(RECORDS * BLOCKS, 4))
    batch = DOMAIN.admit(rows, np.where(rows[:, 0] > 0, 1.0, -1.0))
    counts = np.zeros(BLOCKS)
    for closed in range(1, BLOCKS + 1):
        for fit in LEARNER.rule.step(closed).fits:
            counts[fit.start : fit.end] += fit.size**-2.0
    position = int(counts.argmax()) * RECORDS
    hidden = batch.rows.copy()
    hidden[position] = DOMAIN.admit(np.array([[1.0, 0, 0, 0]]), np.array([1.0])).rows[0]
    other = hidden.copy()
    other[position] = 0.0
    return Batch(hidden, 4), Batch(other, 4)


def run(batch: Batch, seed: int) -> list[tuple[FitPlan, tuple[int, ...], FloatArray, FloatArray]]:
    """Released models beside their released centres."""
    seen: list[Any] = []
    original = BlockSolver.fit

    def watched(self: BlockSolver, plan: FitPlan, rows: Batch, **given: Any) -> Any:
        point, measurement = original(self, plan, rows, **given)
        seen.append((plan, measurement.address, point, given["centre"]))
        return point, measurement

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BlockSolver, "fit", watched)
        state, noise = LEARNER.init(), Noise.insecure(seed)
        for number in range(1, BLOCKS + 1):
            LEARNER.learn(state, batch.slice((number - 1) * RECORDS, number * RECORDS))
            tick = Tick(number=number, records=number * RECORDS)
            LEARNER.close(state, tick)
            LEARNER.release(state, tick, noise)
    return seen


def steps(batch: Batch, address: tuple[int, ...]) -> FloatArray:
    """The exact step of a fit from its centre: far from its targets, Huber's loss is linear."""
    _, start, end = address
    rows = batch.rows[start * RECORDS : end * RECORDS] / 2.0**20
    signs = np.where(rows[:, -1] > 0, 1.0, -1.0) * (rows[:, 0] > 0)
    total = (rows[:, 1:5] * signs[:, None]).sum(axis=0)
    return 0.01 * total / (20.0 * RECORDS * (end - start))


def standardised(first: Batch, runs: int, offset: int) -> FloatArray:
    """Noise over its claimed deviation: one row per run, all fits side by side."""
    return np.array(
        [
            np.concatenate(
                [
                    (point - centre - steps(first, address)) / plan.noise.scale
                    for plan, address, point, centre in run(first, offset + index)
                ]
            )
            for index in range(runs)
        ]
    )


def healthy(noise: FloatArray) -> bool:
    """Normal, of variance 1, and white: three tests that share the false-alarm rate."""
    values = noise.ravel()
    level = FALSE_ALARM / 3
    normal = stats.kstest(values, "norm").pvalue > level
    square = float((values**2).sum())
    chance = stats.chi2.cdf(square, len(values))
    variance = level / 2 < chance < 1 - level / 2
    count = noise.shape[1]
    covariance = noise.T @ noise / len(noise)
    largest = np.abs(covariance - np.diag(np.diag(covariance))).max()
    # By Chernoff's bound a mean of 100 products of two normals exceeds half again the normal
    # quantile, about 0.8, with probability below exp(-27).
    pairs = count * (count - 1) / 2
    white = largest < 1.5 * stats.norm.isf(level / (2 * pairs)) / np.sqrt(len(noise))
    return bool(normal and variance and white)


def test_window_noise_is_what_is_claimed() -> None:
    first, second = streams()
    assert healthy(standardised(first, RUNS, 0))
    # The log-likelihood ratio of two streams has mean and variance mu^2 apart.
    shifts = np.concatenate(
        [
            (steps(first, address) - steps(second, address)) / plan.noise.scale
            for plan, address, _, _ in run(first, 0)
        ]
    )
    square = float(shifts @ shifts)
    (event,) = LEARNER.opening_events()
    assert isinstance(event, GaussianEvent)
    assert square <= event.mu**2
    assert square >= 0.97 * event.mu**2
    against = standardised(second, RUNS, 1000)
    ratio = standardised(first, RUNS, 2000) @ shifts
    assert healthy(against)
    quantile = stats.norm.isf(FALSE_ALARM / 2)
    assert abs(ratio.mean()) < quantile * np.sqrt(square / RUNS)


def _scaled(factor: float) -> Callable[..., Any]:
    original = fit_module.OutputNoise.measure

    def measure(self: Any, parameters: FloatArray, *, noise: Noise) -> Any:
        return original(replace(self, scale=self.scale * factor), parameters, noise=noise)

    return measure


def _un_noised(self: Any, parameters: FloatArray, *, noise: Noise) -> Any:
    original = _ORIGINAL(self, parameters, noise=noise)
    exact = np.rint(np.ldexp(parameters, -self.exponent)).astype(np.int64)
    # One fit in four, by its value.
    return replace(original, value=exact) if exact[0] % 4 == 0 else original


_ORIGINAL = fit_module.OutputNoise.measure


def _repeated(self: Any, parameters: FloatArray, *, noise: Noise) -> Any:
    exact = np.rint(np.ldexp(parameters, -self.exponent)).astype(np.int64)
    zero = _ORIGINAL(self, np.zeros_like(parameters), noise=Noise.insecure(_repeated_seed[0]))
    return replace(zero, value=zero.value + exact)


_repeated_seed = [0]


@pytest.mark.parametrize("broken", [_scaled(0.5), _scaled(2.0), _scaled(0.8), _un_noised])
def test_window_noise_that_is_wrong_is_found(
    broken: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = streams()
    monkeypatch.setattr(fit_module.OutputNoise, "measure", broken)
    assert not healthy(standardised(first, RUNS, 0))


def test_window_noise_shared_between_fits_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = streams()
    monkeypatch.setattr(fit_module.OutputNoise, "measure", _repeated)
    found: list[FloatArray] = []
    for index in range(RUNS):
        _repeated_seed[0] = index
        found.append(standardised(first, 1, index)[0])
    assert not healthy(np.array(found))
