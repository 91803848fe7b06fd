"""Audits of the mechanisms, one by one, each at its own claim."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from scipy.stats import chisquare, gamma, norm

from dpstream.arrays import FloatArray, IntArray
from dpstream.audit.attack import spherical_attack
from dpstream.audit.binding import Measure, binding_attack
from dpstream.audit.confidence import MISS, caught_scale_error, proportion_bounds
from dpstream.audit.evidence import Evidence
from dpstream.audit.finding import Finding
from dpstream.audit.gaussian import (
    FALSE_ALARM,
    GaussianWorlds,
    Search,
    gaussian_evidence,
    share_of,
)
from dpstream.audit.moments import moment_evidence
from dpstream.audit.strategy import AUDIT_BUDGET
from dpstream.audit.sum import attack_sum, scalar_sum, search_neighbours
from dpstream.mechanisms.continual.blt import buffered_toeplitz
from dpstream.mechanisms.continual.node_noise import NoiseKind
from dpstream.mechanisms.continual.strategy import Participation
from dpstream.mechanisms.discrete_gaussian import (
    discrete_gaussian_event,
    measure_discrete_gaussian,
)
from dpstream.mechanisms.exponential import (
    exponential_event,
    score_sensitivity,
    select_exponential,
)
from dpstream.mechanisms.gaussian import gaussian_event, measure_gaussian
from dpstream.mechanisms.held_out import choose_held_out, held_out_event, held_out_scale
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.spherical_laplace import (
    measure_spherical_laplace,
    spherical_laplace_event,
)
from dpstream.privacy.bounds import curve_of
from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import gaussian_mu, zcdp_rho
from dpstream.privacy.unit import Neighbours
from dpstream.release import Measurement

EXPONENT = -20
ADDRESSES = 4
PURE_DIMENSION = 6
PURE_EPSILON = 2.0
CANDIDATES = 16

Measured = Callable[[IntArray, tuple[int, ...], Noise], Measurement]


def _real(measurement: Measurement) -> FloatArray:
    return np.ldexp(measurement.value.astype(np.float64), measurement.exponent)


def noise_alone(measured: Measured) -> Measure:
    """What a mechanism adds, in lattice steps."""

    def added(value: IntArray, address: tuple[int, ...], noise: Noise) -> FloatArray:
        return (measured(value, address, noise).value - value).astype(np.float64)

    return added


def vector_worlds(measured: Measured, *, sigma: float, runs: int, noise: Noise) -> GaussianWorlds:
    """A record of norm 1 spread over several measurements of one number, many times over."""
    part = 1.0 / math.sqrt(ADDRESSES)
    step = round(math.ldexp(part, -EXPONENT))

    def world(name: str, value: int) -> FloatArray:
        vector = np.full(runs, value, np.int64)
        columns = [
            _real(measured(vector, (place,), noise.child(name))) for place in range(ADDRESSES)
        ]
        return np.array(columns).T

    return GaussianWorlds(
        without=world("without", 0),
        present=world("present", step),
        mean=np.zeros(ADDRESSES),
        shift=np.full(ADDRESSES, math.ldexp(step, EXPONENT)),
        deviation=np.full(ADDRESSES, sigma),
    )


def _gaussian(runs: int, noise: Noise) -> Evidence:
    mu = gaussian_mu(AUDIT_BUDGET)
    sigma = 1.0 / mu

    def measured(value: IntArray, address: tuple[int, ...], source: Noise) -> Measurement:
        return measure_gaussian(value, EXPONENT, sigma=sigma, address=address, noise=source)

    claim = gaussian_event("measurement", sensitivity=1.0, sigma=sigma)
    worlds = vector_worlds(measured, sigma=sigma, runs=runs, noise=noise)
    return gaussian_evidence(
        worlds,
        claim=curve_of(claim),
        claimed_mu=mu,
        delta=AUDIT_BUDGET.delta,
        search=_one_vector(worlds),
        further=_bound(measured, noise),
    )


def _discrete_gaussian(runs: int, noise: Noise) -> Evidence:
    rho = zcdp_rho(AUDIT_BUDGET)
    sigma = 1.0 / math.sqrt(2.0 * rho)

    def measured(value: IntArray, address: tuple[int, ...], source: Noise) -> Measurement:
        return measure_discrete_gaussian(
            value, EXPONENT, sigma=sigma, address=address, noise=source
        )

    claim = discrete_gaussian_event("measurement", sensitivity=1.0, sigma=sigma)
    worlds = vector_worlds(measured, sigma=sigma, runs=runs, noise=noise)
    return gaussian_evidence(
        worlds,
        claim=curve_of(claim),
        claimed_mu=math.sqrt(2.0 * rho),
        delta=AUDIT_BUDGET.delta,
        search=_one_vector(worlds),
        further=_bound(measured, noise),
    )


def _one_vector(worlds: GaussianWorlds) -> Search:
    return Search(
        worst="a record of the whole norm bound, spread over all measurements",
        tried=1,
        separation=worlds.separation,
    )


def _bound(measured: Measured, noise: Noise) -> tuple[Finding, ...]:
    found = binding_attack(
        noise_alone(measured), noise=noise.child("bound"), other=noise.child("other")
    )
    return tuple(found)


def _spherical_laplace(runs: int, noise: Noise) -> Evidence:
    scale = 1.0 / PURE_EPSILON

    def measured(value: IntArray, address: tuple[int, ...], source: Noise) -> Measurement:
        return measure_spherical_laplace(
            value, EXPONENT, scale=scale, address=address, noise=source
        )

    shift = np.zeros(PURE_DIMENSION, np.int64)
    shift[0] = 1 << -EXPONENT

    def world(name: str, value: IntArray) -> FloatArray:
        source = noise.child(name)
        return np.array([_real(measured(value, (run,), source)) for run in range(runs)])

    without, present = world("without", np.zeros_like(shift)), world("present", shift)
    moved = np.ldexp(shift.astype(np.float64), EXPONENT)
    evidence = spherical_evidence(without, present, moved, scale=scale)
    claim = spherical_laplace_event("measurement", sensitivity=1.0, scale=scale)
    return replace(
        evidence,
        claim=curve_of(claim),
        findings=(*evidence.findings, *_bound(measured, noise)),
    )


def spherical_evidence(
    without: FloatArray, present: FloatArray, shift: FloatArray, *, scale: float
) -> Evidence:
    """Attack noise that claims the density ``exp(-|v| / scale)``."""
    level = share_of(4)
    runs, dimension = without.shape
    claimed = float(np.linalg.norm(shift)) / scale

    def score(outputs: FloatArray) -> FloatArray:
        return np.linalg.norm(outputs, axis=1) - np.linalg.norm(outputs - shift, axis=1)

    findings = [
        *spherical_attack(without, scale=scale, false_alarm=level),
        *spherical_attack(present - shift, scale=scale, false_alarm=level),
        # A sum of n norms is Gamma(n d): the scale's own test.
        *(
            Finding(
                f"noise scale over claim, {name}",
                float(np.sum(np.linalg.norm(noise, axis=1))) / (runs * dimension * scale),
                float(gamma.ppf(level / 2, runs * dimension)) / (runs * dimension),
                float(gamma.isf(level / 2, runs * dimension)) / (runs * dimension),
            )
            for name, noise in (("without", without), ("present", present - shift))
        ),
    ]
    return Evidence(
        claim=curve_of(
            spherical_laplace_event(
                "measurement", sensitivity=float(np.linalg.norm(shift)), scale=scale
            )
        ),
        delta=0.0,
        neighbours="a record of the whole norm bound in one coordinate",
        searched=1,
        reached=claimed * scale / float(np.linalg.norm(shift)),
        findings=tuple(findings),
        without=score(without),
        present=score(present),
        # A Gamma(n d) sum is half a chi-squared one of 2 n d; scales enter it unsquared.
        caught=2.0 * caught_scale_error(2 * runs * dimension, false_alarm=level),
        false_alarm=FALSE_ALARM,
    )


def _exponential(runs: int, noise: Noise) -> Evidence:
    epsilon, shift = 2.0, 1 << -EXPONENT
    scale = 2.0 * score_sensitivity(1.0, exponent=EXPONENT) / epsilon
    base = np.zeros(CANDIDATES, np.int64)
    moved = np.full(CANDIDATES, -shift, np.int64)
    moved[0] = shift

    def world(name: str, scores: IntArray) -> IntArray:
        source = noise.child(name)
        return np.array(
            [
                select_exponential(
                    scores, EXPONENT, scale=scale, address=(run,), noise=source
                ).value[0]
                for run in range(runs)
            ]
        )

    event = exponential_event(
        "selection", sensitivity=score_sensitivity(1.0, exponent=EXPONENT), scale=scale
    )
    evidence = selection_evidence(world("without", base), world("present", moved), epsilon)
    return replace(evidence, claim=curve_of(event))


def held_out_worlds() -> tuple[FloatArray, FloatArray]:
    """Gains of two records: one speaks against the other, until it is replaced by its double."""
    first = np.zeros(CANDIDATES)
    first[0] = 1.0
    return np.array([first, 1.0 - first]), np.array([first, first])


def _held_out(runs: int, noise: Noise) -> Evidence:
    epsilon = 2.0
    scale = held_out_scale(Budget(epsilon=epsilon, delta=0.0), Neighbours.REPLACE)

    def world(name: str, gains: FloatArray) -> IntArray:
        source = noise.child(name)
        made = [
            choose_held_out(gains, scale=scale, address=(run,), noise=source) for run in range(runs)
        ]
        return np.array([each.value[0] for each in made])

    without, present = held_out_worlds()
    event = held_out_event("choice", neighbours=Neighbours.REPLACE, scale=scale)
    evidence = selection_evidence(world("without", without), world("present", present), epsilon)
    return replace(
        evidence,
        claim=curve_of(event),
        neighbours="a record that gains by all models but one, and one that gains by that alone",
    )


def selection_evidence(without: IntArray, present: IntArray, epsilon: float) -> Evidence:
    """Attack selections: equal scores, and one score up while all others go down.

    Args:
        without: chosen indices where all scores are equal.
        present: chosen indices where the first score rose by the sensitivity and all others
            fell by it.
        epsilon: the claimed range.
    """
    level = share_of(4)
    odds = math.exp(epsilon)
    law = np.full(CANDIDATES, 1.0 / (odds + CANDIDATES - 1))
    law[0] *= odds
    runs = present.size
    chosen = np.array([float(np.sum(present == 0))])
    low, high = proportion_bounds(chosen, runs, level=level / 2)
    low, high = float(low[0]), float(high[0])
    fitted = [math.log(p / (1 - p) * (CANDIDATES - 1)) for p in (low, high)]
    findings = (
        _frequency("frequencies without", without, np.full(CANDIDATES, 1.0 / CANDIDATES), level),
        _frequency("frequencies present", present, law, level),
        # The interval must hold the claim, and the claim is therefore not off by its width.
        Finding("claimed range, in its interval", epsilon, fitted[0], fitted[1]),
    )
    spread = 1.0 / math.sqrt(runs * float(law[0]) * (1.0 - float(law[0])))
    reach = _normal_reach(level / 2) * spread / epsilon
    return Evidence(
        claim=curve_of(exponential_event("selection", sensitivity=epsilon / 2, scale=1.0)),
        delta=0.0,
        neighbours="one score rises by the sensitivity, all others fall by it",
        searched=1,
        reached=1.0,
        findings=findings,
        without=(without == 0).astype(np.float64),
        present=(present == 0).astype(np.float64),
        caught=reach,
        false_alarm=FALSE_ALARM,
    )


def _normal_reach(level: float) -> float:
    """Standard errors between the claim and a value that is surely found."""
    return float(norm.isf(level) + norm.isf(MISS))


def _frequency(name: str, chosen: IntArray, law: FloatArray, level: float) -> Finding:
    counts = np.bincount(chosen, minlength=law.size)
    return Finding(name, float(chisquare(counts, law * chosen.size).pvalue), level, 1.0)


def _continual_sum(runs: int, noise: Noise) -> Evidence:
    """The same sum with discrete noise and two records of one unit in each tick."""
    pair = Participation(cap=2, per_tick=2)
    strategy = buffered_toeplitz(horizon=12)
    mechanism = scalar_sum(
        strategy,
        runs=runs,
        strength=zcdp_rho(AUDIT_BUDGET),
        participation=pair,
        kind=NoiseKind.EXACT,
    )
    neighbours = search_neighbours(strategy, ticks=12, window=None, participation=pair)
    return attack_sum(mechanism, mechanism, neighbours, noise=noise, delta=AUDIT_BUDGET.delta)


MECHANISM_AUDITS: Mapping[str, Callable[[int, Noise], Evidence]] = {
    "measure_gaussian": _gaussian,
    "measure_discrete_gaussian": _discrete_gaussian,
    "measure_spherical_laplace": _spherical_laplace,
    "select_exponential": _exponential,
    "choose_held_out": _held_out,
    "ContinualSum": _continual_sum,
    "MomentLayout": moment_evidence,
}
