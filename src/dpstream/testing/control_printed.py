"""Negative controls: algorithms as printed, where the print does not keep its promise.

Each releases one number; the record's true effect on it is simulated, not taken from a formula.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dpstream.audit.confidence import epsilon_lower_bound
from dpstream.audit.finding import Finding
from dpstream.audit.gaussian import FALSE_ALARM, GaussianWorlds, everything_seen
from dpstream.audit.sum import play, scalar_sum
from dpstream.mechanisms.continual.blt import buffered_toeplitz
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.public import PublicGenerator, public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import gaussian_mu
from dpstream.testing.control import Attack, Control
from dpstream.testing.control_measurement import judged_vector

RUNS = 20_000
BUDGET = Budget(epsilon=1.0, delta=1e-6)
MU = gaussian_mu(BUDGET)
TEXTBOOK = math.sqrt(2.0 * math.log(1.25 / BUDGET.delta)) / BUDGET.epsilon
"""The textbook noise per unit of sensitivity."""

_CERTIFICATE = 1e-6


@dataclass(frozen=True, kw_only=True)
class Published:
    """One published number.

    Attributes:
        without: its exact value without the record's change.
        present: with it.
        sigma: the noise that was printed.
        claim: the mu that it is said to have.
    """

    without: float
    present: float
    sigma: float
    claim: float = MU

    def attack(self, *, deviation: float, generator: PublicGenerator) -> Sequence[Finding]:
        """Against the claim that its noise has this deviation."""
        shift = abs(self.present - self.without)
        noise = generator.normal(0.0, self.sigma, (2, RUNS, 1))
        worlds = GaussianWorlds(
            without=noise[0],
            present=shift + noise[1],
            mean=np.zeros(1),
            shift=np.array([shift]),
            deviation=np.array([deviation]),
        )
        return judged_vector(worlds, mu=self.claim)


def _printed(broken: Callable[[], Published], sound: Callable[[], Published]) -> Attack:
    def attack(seed: int, broken_one: bool) -> Sequence[Finding]:
        published = broken() if broken_one else sound()
        generator = public_generator(seed)
        # The claim's own noise: what the record's true effect needs for the claimed mu, or more.
        needed = abs(published.present - published.without) / published.claim
        deviation = needed if broken_one else published.sigma
        return published.attack(deviation=deviation, generator=generator)

    return attack


def _objective_perturbation(per_slope: float) -> Callable[[], Published]:
    """Linear losses with a ridge: the minimiser is ``-(mean gradient + b) / ridge``."""

    def make() -> Published:
        records, slope, ridge = 60, 1.0, 0.1
        minimiser = [-(sign * slope / records) / ridge for sign in (-1.0, 1.0)]
        return Published(
            without=minimiser[1], present=minimiser[0], sigma=per_slope * slope / records / ridge
        )

    return make


def implicit_average(first: float, *, alpha: float, ticks: int) -> float:
    """The average of implicit gradient's iterates on linear losses and a ridge, by running it.

    ``x' = argmin (x - x_t)^2 / 2 + (g_t x + alpha x^2 / 2) / (alpha t)``; only the first
    record has a slope.
    """
    point, total = 0.0, 0.0
    for tick in range(1, ticks + 1):
        total += point
        slope = first if tick == 1 else 0.0
        point = (tick * point - slope / alpha) / (tick + 1)
    return total / ticks


def _pol(alpha: float, *, lost: bool) -> Callable[[], Published]:
    """POL's average; the printed sensitivity lost its ``1 / alpha``."""

    def make() -> Published:
        ticks = 200
        without, present = (
            implicit_average(first, alpha=alpha, ticks=ticks) for first in (1.0, -1.0)
        )
        true = abs(present - without)
        sigma = true * (alpha if lost else 1.0) * (TEXTBOOK if lost else 1.0 / MU)
        return Published(without=without, present=present, sigma=sigma)

    return make


def _pqftl(radius: float, *, printed: bool) -> Callable[[], Published]:
    """The sum of ``y v`` in PQFTL with ``|v|, |y| <= R``; the print bounds a record by R."""
    half = Budget(epsilon=BUDGET.epsilon / 2, delta=BUDGET.delta / 2)

    def make() -> Published:
        ticks = 1 << 16
        nodes = math.sqrt(17.0)
        logs = math.log(ticks)
        noise = radius * logs * math.sqrt(math.log(logs / half.delta)) / half.epsilon
        shift = 2.0 * radius * radius * nodes
        mu = gaussian_mu(half)
        sigma = noise if printed else shift / mu
        return Published(without=0.0, present=shift, sigma=sigma, claim=mu)

    return make


def _frank_wolfe(lipschitz: float, *, printed: bool) -> Callable[[], Published]:
    """Gradients at T points, projected on the record's; the print's variance has L, not L^2."""

    def make() -> Published:
        records, steps = 1e5, 100
        shift = 2.0 * lipschitz * math.sqrt(steps - 1) / records
        variance = 32.0 * lipschitz * steps * math.log(records / BUDGET.delta) ** 2
        sigma = math.sqrt(variance) / (records * BUDGET.epsilon)
        return Published(without=0.0, present=shift, sigma=sigma if printed else shift / MU)

    return make


def stopped_minimiser(mean: float, tolerance: float) -> float:
    """Gradient descent on ``(w - mean)^2 / 2`` from 0 until the gradient is small."""
    point = 0.0
    while abs(point - mean) > tolerance:
        point -= 0.5 * (point - mean)
    return point


def _minimiser(tolerance: float) -> Callable[[], Published]:
    """Output perturbation for the exact minimiser's sensitivity ``2 / n``."""

    def make() -> Published:
        records, mean = 50, 0.0999
        without, present = (
            stopped_minimiser(value, tolerance) for value in (mean, mean + 2.0 / records)
        )
        return Published(
            without=without, present=present, sigma=(2.0 / records + 2.0 * _CERTIFICATE) / MU
        )

    return make


def greedy_iterate(slope: float, *, alpha: float, tick: int, rate: float) -> float:
    """GIGA from 0 at ``tick``: one step of size ``rate / (alpha t)`` on the record's slope."""
    return -rate / (alpha * tick) * slope


def _giga(rate: float) -> Callable[[], Published]:
    """PGIGA's iterate with noise for Lemma 5's ``2 G / (alpha t)``."""

    def make() -> Published:
        alpha, tick = 0.5, 20
        without, present = (
            greedy_iterate(slope, alpha=alpha, tick=tick, rate=rate) for slope in (1.0, -1.0)
        )
        return Published(without=without, present=present, sigma=2.0 / (alpha * tick) / MU)

    return make


def _sampled_level(seed: int, broken: bool) -> Sequence[Finding]:
    """Paper 003's algorithms 6 to 8: noise for a block of 2^k B, trained on a sample of B.

    The unsampled level costs ``epsilon / 2^(k+1)``; sampling shrinks the record's chance to count
    by 2^k and leaves its effect 2^k times too large for the noise.
    """
    level, epsilon, effect = 3, 1.0, 1.0
    claim = epsilon / 2 ** (level + 1)
    generator = public_generator(seed)
    size = 2 * RUNS
    if broken:
        counted = generator.random(size) < 2.0**-level
        moved = np.where(counted, effect, 0.0)
        scale = 2.0 * effect / (epsilon * 2**level)
    else:
        moved = np.full(size, effect / 2**level)
        scale = 2.0 * effect / epsilon
    without = generator.laplace(0.0, scale, size)
    present = moved + generator.laplace(0.0, scale, size)
    proved = epsilon_lower_bound(without, present, delta=0.0, false_alarm=FALSE_ALARM)
    return [Finding("epsilon proved (Clopper-Pearson)", proved, -math.inf, claim)]


def _skipped_record(seed: int, broken: bool) -> Sequence[Finding]:
    """A record that becomes NaN: null in its tick, or left out so that all later ticks move up."""
    budget = Budget(epsilon=8.0, delta=1e-6)
    mu, ticks, place = gaussian_mu(budget), 8, 3
    mechanism = scalar_sum(buffered_toeplitz(horizon=ticks), runs=RUNS // 4, strength=mu)
    present = np.array([1, -1] * (ticks // 2), np.int64)
    without = present.copy()
    without[place - 1] = 0
    if broken:
        without = np.append(np.delete(present, place - 1), 0)
    noise = Noise.insecure(seed)
    first, second = (
        play(mechanism, records, noise.child(name)).nodes / mechanism.sigma
        for name, records in (("without", without), ("present", present))
    )
    return [everything_seen(first, second, mu, false_alarm=FALSE_ALARM)]


def printed_controls() -> tuple[Control, ...]:
    """Faults in print, and what admission must not do."""
    printed_slope = math.sqrt(2.0 * math.log(1.0 / BUDGET.delta)) / BUDGET.epsilon

    def control(name: str, fault: str, attack: Attack) -> Control:
        return Control(name=name, fault=fault, attack=attack)

    return (
        control(
            "objective perturbation",
            "printed noise of paper 001",
            _printed(_objective_perturbation(printed_slope), _objective_perturbation(2.0 / MU)),
        ),
        control(
            "POL at alpha = 0.1",
            "printed sensitivity of paper 004, which lost 1 / alpha",
            _printed(_pol(0.1, lost=True), _pol(0.1, lost=False)),
        ),
        control(
            "PQFTL at R = 5",
            "printed bound R of y v, where R^2 is true",
            _printed(_pqftl(5.0, printed=True), _pqftl(5.0, printed=False)),
        ),
        control(
            "Frank-Wolfe at L = 1000",
            "printed variance of paper 001 with L for L^2",
            _printed(_frank_wolfe(1000.0, printed=True), _frank_wolfe(1000.0, printed=False)),
        ),
        control(
            "output perturbation",
            "approximate minimiser without certificate",
            _printed(_minimiser(0.1), _minimiser(_CERTIFICATE)),
        ),
        control(
            "PGIGA",
            "noise for paper 004's Lemma 5 at its step size 2 / (alpha t)",
            _printed(_giga(2.0), _giga(1.0)),
        ),
        control(
            "multi-resolution release",
            "sampling variant of paper 003 (algorithms 6 to 8)",
            _sampled_level,
        ),
        control("admission", "a NaN record is skipped: later ticks move up", _skipped_record),
    )
