"""Mechanisms seen from outside: the noise that is there is the noise that was claimed.

Each check must pass for the mechanism and fail both for half and for twice its noise. Limits
are 5.4 standard errors: false alarm below 1e-7 for each comparison, 1e-6 together.
"""

import math

import numpy as np
import pytest
from scipy import stats

from dpstream.arrays import FloatArray
from dpstream.mechanisms.discrete_gaussian import (
    discrete_gaussian_event,
    measure_discrete_gaussian,
)
from dpstream.mechanisms.exponential import exponential_event, select_exponential
from dpstream.mechanisms.gaussian import gaussian_event, measure_gaussian
from dpstream.mechanisms.held_out import choose_held_out, held_out_event
from dpstream.mechanisms.mechanism import Noise, bounded_sum_sensitivity
from dpstream.mechanisms.spherical_laplace import (
    measure_spherical_laplace,
    spherical_laplace_event,
)
from dpstream.privacy.bounds import curve_of
from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import gaussian_mu
from dpstream.privacy.unit import Neighbours
from dpstream.randomness.public import public_generator

NOISE = Noise.insecure(53)
EXPONENT = -20
LIMIT = 5.4
# At epsilon 8 both the mean and the variance of the log-likelihood ratio are well resolved.
BUDGET = Budget(epsilon=8.0, delta=1e-6)
RUNS = 6000
DIMENSION = 10


def neighbouring_sums() -> tuple[np.ndarray, np.ndarray]:
    """The sums of 50 records in the unit ball, and of the same without one of norm one."""
    generator = public_generator(2)
    records = generator.normal(size=(50, DIMENSION))
    records /= np.linalg.norm(records, axis=1, keepdims=True)
    integers = np.trunc(np.ldexp(records, -EXPONENT)).astype(np.int64)
    integers[0] = 0
    integers[0, 3] = 1 << -EXPONENT
    return integers.sum(axis=0), integers[1:].sum(axis=0)


def likelihood_ratios(factor: float) -> tuple[FloatArray, FloatArray, float]:
    """Z = shift . output / sigma^2 in both worlds, under the claimed sigma, and the claimed mu."""
    with_record, without = neighbouring_sums()
    sensitivity = bounded_sum_sensitivity(
        1.0, neighbours=Neighbours.ZERO_OUT, cap=1, rounding_step=0.0, dimension=DIMENSION
    )
    sigma = sensitivity / gaussian_mu(BUDGET)
    shift = np.ldexp((with_record - without).astype(float), EXPONENT)
    worlds: list[FloatArray] = []
    for value in (with_record, without):
        outputs = np.array(
            [
                measure_gaussian(
                    value, EXPONENT, sigma=factor * sigma, address=(run,), noise=NOISE
                ).value
                for run in range(RUNS)
            ]
        )
        worlds.append(np.ldexp(outputs.astype(float), EXPONENT) @ shift / sigma**2)
    return worlds[0], worlds[1], gaussian_event("sum", sensitivity=sensitivity, sigma=sigma).mu


def is_as_claimed(factor: float) -> bool:
    """Whether mean difference and variance of the log-likelihood ratio are both mu squared."""
    first, second, mu = likelihood_ratios(factor)
    mean_error = (first.mean() - second.mean()) / mu**2 - 1
    variances = np.array([first.var(ddof=1), second.var(ddof=1)]) / mu**2 - 1
    return bool(
        abs(mean_error) < LIMIT * math.sqrt(2 / RUNS) / mu
        and np.all(np.abs(variances) < LIMIT * math.sqrt(2 / RUNS))
    )


def test_gaussian_log_likelihood_ratio_is_as_claimed():
    assert is_as_claimed(1.0)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_gaussian_with_another_scale_is_found_out(factor: float):
    assert not is_as_claimed(factor)


def test_gaussian_event_spends_the_budget_it_was_calibrated_to():
    mu = gaussian_mu(BUDGET)
    event = gaussian_event("sum", sensitivity=1.0, sigma=1.0 / mu)
    assert curve_of(event).delta(BUDGET.epsilon) <= BUDGET.delta
    assert curve_of(event).epsilon(BUDGET.delta) > 0.999 * BUDGET.epsilon


def test_the_two_worlds_have_independent_noise():
    first, second, _ = likelihood_ratios(1.0)
    assert abs(np.corrcoef(first, second)[0, 1]) < LIMIT / math.sqrt(RUNS)


def test_gaussian_noise_is_white_over_coordinates_and_addresses():
    value, _ = neighbouring_sums()
    noise = (
        np.array(
            [
                measure_gaussian(value, EXPONENT, sigma=1.0, address=(7, run), noise=NOISE).value
                - value
                for run in range(RUNS)
            ]
        )
        * 2.0**EXPONENT
    )
    covariance = noise.T @ noise / RUNS - np.eye(DIMENSION)
    # Of products of standard normals: deviation 1, on the diagonal sqrt 2.
    assert np.abs(covariance - np.diag(np.diag(covariance))).max() < LIMIT / math.sqrt(RUNS)
    assert np.abs(np.diag(covariance)).max() < LIMIT * math.sqrt(2 / RUNS)
    along = np.sum(noise[:-1] * noise[1:], axis=1)
    assert abs(along.mean()) < LIMIT * math.sqrt(DIMENSION / RUNS)


def log_odds_range(scale: float) -> tuple[float, float]:
    """The log-odds between two candidates in one world less those in the other; its error."""
    worlds = {0: np.array([0, 0]), 1: np.array([1 << 20, -(1 << 20)])}
    odds: list[float] = []
    variance = 0.0
    for world, scores in worlds.items():
        chosen = [
            int(
                select_exponential(
                    scores, EXPONENT, scale=scale, address=(8, world, run), noise=NOISE
                ).value[0]
            )
            for run in range(RUNS)
        ]
        counts = np.bincount(chosen, minlength=2)
        odds.append(math.log(counts[0] / counts[1]))
        variance += float(np.sum(1 / counts))
    return odds[1] - odds[0], math.sqrt(variance)


@pytest.mark.parametrize("factor", [1.0, 0.5, 2.0])
def test_selection_has_the_range_it_claims(factor: float):
    # Both scores move by the sensitivity 1, in opposite directions: the worst case.
    claimed = exponential_event("select", sensitivity=1.0, scale=1.6).epsilon
    found, error = log_odds_range(1.6 * factor)
    assert (abs(found - claimed) < LIMIT * error) == (factor == 1.0)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("factor", [1.0, 0.5, 2.0])
def test_a_held_out_choice_has_the_range_it_claims(neighbours: Neighbours, factor: float):
    # Among twenty records one that gains by the first model alone; in its place none, or one that
    # gains by the second alone: the worst cases.
    scale, others = 1.3, np.full((20, 2), 0.25)
    worlds = {0: np.array([0.0, 0.0]), 1: np.array([1.0, 0.0])}
    if neighbours is Neighbours.REPLACE:
        worlds[0] = np.array([0.0, 1.0])
    odds, variance = [], 0.0
    for world, gains in worlds.items():
        table = np.vstack([others, gains])
        chosen = [
            int(
                choose_held_out(
                    table, scale=scale * factor, address=(10, world, run), noise=NOISE
                ).value[0]
            )
            for run in range(RUNS)
        ]
        counts = np.bincount(chosen, minlength=2)
        odds.append(math.log(counts[0] / counts[1]))
        variance += float(np.sum(1 / counts))
    claimed = held_out_event("choice", neighbours=neighbours, scale=scale).epsilon
    far = abs(odds[1] - odds[0] - claimed) >= LIMIT * math.sqrt(variance)
    assert far == (factor != 1.0)


def residuals(measure, factor: float) -> FloatArray:
    value, _ = neighbouring_sums()
    rows = [measure(value, (9, run), factor).value - value for run in range(RUNS)]
    return np.ldexp(np.array(rows, np.float64), EXPONENT)


@pytest.mark.parametrize("factor", [1.0, 0.5, 2.0])
def test_spherical_laplace_noise_is_that_of_its_epsilon(factor: float):
    scale = 0.4
    claimed = spherical_laplace_event("sum", sensitivity=1.0, scale=scale).epsilon

    def measure(value, address, factor):
        return measure_spherical_laplace(
            value, EXPONENT, scale=factor * scale, address=address, noise=NOISE
        )

    norms = np.linalg.norm(residuals(measure, factor), axis=1)
    agreement = stats.kstest(norms, stats.gamma(DIMENSION, scale=1.0 / claimed).cdf).pvalue
    assert (agreement > 1e-7) == (factor == 1.0)


@pytest.mark.parametrize("factor", [1.0, 0.5, 2.0])
def test_discrete_gaussian_noise_is_that_of_its_rho(factor: float):
    sigma = 0.4
    claimed = discrete_gaussian_event("sum", sensitivity=1.0, sigma=sigma).rho

    def measure(value, address, factor):
        return measure_discrete_gaussian(
            value, EXPONENT, sigma=factor * sigma, address=address, noise=NOISE
        )

    noise = residuals(measure, factor).ravel()
    law = stats.norm(scale=math.sqrt(1 / (2 * claimed)))
    assert (stats.kstest(noise, law.cdf).pvalue > 1e-7) == (factor == 1.0)
