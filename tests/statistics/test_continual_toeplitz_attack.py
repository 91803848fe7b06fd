"""Simulations of and attacks on the Toeplitz strategies, with mechanisms broken on purpose.

One run over a vector of equal coordinates is as many independent runs of a scalar stream. Seeds
are fixed; limits leave an honest mechanism a false alarm of FALSE_ALARM per check.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from sum_attack import FALSE_ALARM, MU, ONE, RUNS, TICKS, Rescaled, mechanism_of, sum_attack

from dpstream.domain.lattice import ExactVector
from dpstream.mechanisms.continual.blt import BufferedToeplitz, buffered_toeplitz, standard_filter
from dpstream.mechanisms.continual.chain import ToeplitzChain
from dpstream.mechanisms.continual.decayed import decayed_toeplitz
from dpstream.mechanisms.continual.expiring import EXACT, ExpiringToeplitz, expiring_toeplitz
from dpstream.mechanisms.continual.sliding import sliding_toeplitz
from dpstream.mechanisms.continual.strategy import Participation, Strategy
from dpstream.mechanisms.continual.sum import ContinualSum
from dpstream.mechanisms.continual.toeplitz import SquareRootToeplitz
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.public import public_generator
from dpstream.testing.attack import (
    separation_finding,
)
from dpstream.testing.strategy_law import (
    decay_target,
    explicit,
    prefix_target,
    run_encoder,
    window_target,
)

QUANTILE = 4.9  # of the standard normal, two-sided, at FALSE_ALARM


def short_chain() -> ToeplitzChain:
    first, second = standard_filter(64), standard_filter(128)
    return ToeplitzChain(epochs=((5, first.rates, first.scales), (8, second.rates, second.scales)))


STRATEGIES: dict[str, tuple[Strategy, np.ndarray]] = {
    "square_root": (SquareRootToeplitz(horizon=TICKS), prefix_target(TICKS)),
    "blt": (buffered_toeplitz(horizon=TICKS), prefix_target(TICKS)),
    "chain": (short_chain(), prefix_target(TICKS)),
    "decayed": (decayed_toeplitz(decay=0.8), decay_target(TICKS, 0.8)),
    "sliding": (sliding_toeplitz(window=6), window_target(TICKS, 6)),
}


def deviation_limit(strategy: Strategy, ticks: list[int], dimension: int) -> float:
    """How far the pooled mean square of honest noise may be from its claim.

    A mean over n ticks and d coordinates of squared normals with correlations r has variance
    ``2 sum r^2 / (d n^2)``; correlations are the claimed ones.
    """
    claims = np.array([[strategy.covariance(min(s, t), max(s, t)) for t in ticks] for s in ticks])
    scale = np.sqrt(np.diag(claims))
    spread = float(np.sum((claims / np.outer(scale, scale)) ** 2))
    return QUANTILE * math.sqrt(2 * spread / dimension) / len(ticks)


def pooled_ratio(
    strategy: Strategy, ticks: list[int], dimension: int, seed: int, factor: float = 1.0
) -> float:
    """Mean square of the decoded noise over its claim, pooled over ticks and coordinates."""
    decoder, generator = strategy.decoder(dimension), public_generator(seed)
    ratios: dict[int, float] = {}
    for tick, node in run_encoder(strategy, np.zeros((ticks[-1], 1), np.int64)):
        decoder.observe(node.address, factor * node.weight * generator.normal(size=dimension))
        if tick in ticks:
            # A tick may have several nodes: the estimate after its last one is kept.
            ratios[tick] = float(np.mean(decoder.estimate(tick) ** 2)) / strategy.variance(tick)
    return float(np.mean(list(ratios.values())))


SIMULATED: dict[str, Strategy] = {
    "square_root": SquareRootToeplitz(horizon=128),
    "blt": buffered_toeplitz(horizon=128),
    "chain": short_chain(),
    "decayed": decayed_toeplitz(decay=0.95),
    "sliding": sliding_toeplitz(window=20),
    "expiring": expiring_toeplitz(window=30),
}


@pytest.mark.parametrize("name", SIMULATED)
def test_simulated_noise_is_the_stated_one(name: str) -> None:
    ticks = [1, 3, 9, 27, 59, 60, 89, 128]
    limit = deviation_limit(SIMULATED[name], ticks, 10_000)
    assert limit < 0.04  # 2 % of the standard deviation
    assert abs(pooled_ratio(SIMULATED[name], ticks, 10_000, seed=1) - 1.0) < limit
    for factor in (0.95, 1.05):
        assert (
            abs(pooled_ratio(SIMULATED[name], ticks, 10_000, seed=2, factor=factor) - 1.0) > limit
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["blt", "decayed"])
def test_simulated_noise_of_a_million_ticks_is_the_stated_one(name: str) -> None:
    strategy = buffered_toeplitz(horizon=10**6) if name == "blt" else decayed_toeplitz(decay=0.9999)
    dimension, ticks = 2000, sorted({round(10 ** (place / 4)) for place in range(8, 25)})
    decoder, generator = strategy.decoder(dimension), public_generator(3)
    ratios: list[float] = []
    for tick in range(1, 10**6 + 1):
        decoder.observe((tick,), generator.normal(size=dimension))
        if tick in ticks:
            ratios.append(float(np.mean(decoder.estimate(tick) ** 2)) / strategy.variance(tick))
    limit = deviation_limit(strategy, ticks, dimension)
    assert limit < 0.04  # 2 % of the standard deviation
    assert abs(np.mean(ratios) - 1.0) < limit


@pytest.mark.slow
def test_the_decoder_of_a_million_ticks_has_the_stated_response() -> None:
    """Exactly, not by simulation: one node's noise, followed through every later sum."""
    strategy = buffered_toeplitz(horizon=10**6)
    decoder = strategy.decoder(1)
    response = np.zeros(10**6)
    for tick in range(1, 10**6 + 1):
        decoder.observe((tick,), np.array([1.0 if tick == 1 else 0.0]))
        response[tick - 1] = decoder.estimate(tick)[0]
    assert math.fsum(response**2) == pytest.approx(strategy.variance(10**6), rel=1e-9)


class Louder(Rescaled):
    """More noise than it claims."""

    factor = 1.25


class Quieter(Rescaled):
    """Less noise than it claims."""

    factor = 0.8


@dataclass(frozen=True, kw_only=True)
class Redrawn(ContinualSum):
    """Noise of a node depends on the tick of its release, and all are drawn every time."""

    def release(self, state, noise: Noise):
        if not hasattr(state, "kept"):
            state.kept = []
        fresh = state.encoder.nodes()
        state.kept.extend(fresh)
        kept = list(state.kept)
        state.encoder.nodes = lambda: kept
        state.decoder = self.strategy.decoder(self.dimension)
        result = super().release(state, noise.child(f"release {state.tick}"))
        del state.encoder.nodes
        return result


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("record", [1, 10])
def test_honest_mechanisms_withstand_every_attack(name: str, record: int) -> None:
    strategy, target = STRATEGIES[name]
    honest = mechanism_of(strategy)
    found = sum_attack(honest, honest, target[:, record - 1], record)
    assert found == {"likelihood": [], "averaging": [], "whiteness": []}


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("kind", [Louder, Quieter])
def test_wrong_scales_are_found_by_every_attack(name: str, kind: type[ContinualSum]) -> None:
    strategy, target = STRATEGIES[name]
    found = sum_attack(mechanism_of(strategy, kind), mechanism_of(strategy), target[:, 0], 1)
    assert all(found.values())


def test_noise_drawn_again_is_found() -> None:
    strategy, target = STRATEGIES["blt"]
    found = sum_attack(mechanism_of(strategy, Redrawn), mechanism_of(strategy), target[:, 0], 1)
    assert found["averaging"]
    assert found["whiteness"]


def separation_of_prefix(strategy: ExpiringToeplitz, model: type[ContinualSum], record: int):
    """The best test of a record from all measurements while it is live, against the claim."""
    last = record + strategy.window - 1
    matrices = explicit(strategy, last)
    weights = dict(zip(matrices.addresses, matrices.weights, strict=True))
    column = dict(zip(matrices.addresses, matrices.code[:, record - 1], strict=True))
    mechanism = mechanism_of(strategy, model)
    statistics: list[np.ndarray] = []
    for seed, present in ((21, False), (22, True)):
        state, noise = mechanism.init(), Noise.insecure(seed)
        statistic = np.zeros(RUNS)
        for tick in range(1, last + 1):
            value = np.full(RUNS, ONE if present and tick == record else 0, np.int64)
            mechanism.absorb(state, ExactVector.from_integers(value, -20))
            for measured in mechanism.release(state, noise)[0]:
                y = np.ldexp(measured.value.astype(float), measured.exponent)
                if weights[measured.address] == 0:
                    assert not y.any()  # nothing of a live record is exact
                else:
                    share = column[measured.address] / weights[measured.address] ** 2
                    statistic += share * y
        statistics.append(statistic)
    return separation_finding("prefix", *statistics, MU, false_alarm=FALSE_ALARM)


@pytest.mark.parametrize("window", [3, 8])
def test_a_live_record_is_hidden_from_all_measurements(window: int) -> None:
    strategy = expiring_toeplitz(window=window)
    # The first record of a block is live until the block's total is released.
    finding = separation_of_prefix(strategy, ContinualSum, window + 1)
    assert finding.passed, str(finding)
    assert not separation_of_prefix(strategy, Louder, window + 1).passed
    assert not separation_of_prefix(strategy, Quieter, window + 1).passed


def test_an_expired_record_is_published_exactly() -> None:
    mechanism = mechanism_of(expiring_toeplitz(window=4))
    state, noise = mechanism.init(), Noise.insecure(23)
    exact: dict[int, np.ndarray] = {}
    for tick in range(1, 13):
        value = np.full(RUNS, ONE if tick == 3 else 0, np.int64)
        mechanism.absorb(state, ExactVector.from_integers(value, -20))
        for measured in mechanism.release(state, noise)[0]:
            if measured.address[-1] == EXACT:
                exact[tick] = np.ldexp(measured.value.astype(float), measured.exponent)
    assert sorted(exact) == [8, 12]
    assert np.all(exact[8] == 1.0)
    assert not exact[12].any()


def test_a_wrong_claim_of_sensitivity_is_found() -> None:
    """Negative control: the column's norm left out of the calibration."""

    class Careless(BufferedToeplitz):
        def sensitivity(self, participation: Participation, *, order: int) -> float:
            return 1.0

    honest, target = STRATEGIES["blt"]
    response = standard_filter(TICKS)
    careless = Careless(horizon=TICKS, rates=response.rates, scales=response.scales)
    found = sum_attack(mechanism_of(careless), mechanism_of(honest), target[:, 0], 1)
    assert all(found.values())
