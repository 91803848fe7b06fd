"""The audit's own statistics: bounds hold, and power is what it is said to be."""

import math

import numpy as np
import pytest
from scipy.stats import binomtest, chi2

from dpstream.audit.attack import separation_finding, variance_finding
from dpstream.audit.confidence import (
    caught_scale_error,
    epsilon_lower_bound,
    fit_gaussian,
    proportion_bounds,
)
from dpstream.audit.finding import Finding, failures
from dpstream.audit.gaussian import everything_seen
from dpstream.mechanisms.public import PublicGenerator, public_generator


@pytest.mark.parametrize("successes", [0, 1, 17, 40])
def test_proportions_have_clopper_pearson_bounds(successes: int) -> None:
    low, high = proportion_bounds(np.array([float(successes)]), 40, level=0.025)
    exact = binomtest(successes, 40).proportion_ci(0.95, method="exact")
    assert (low[0], high[0]) == pytest.approx((exact.low, exact.high), abs=1e-9)


def answers(generator: PublicGenerator, epsilon: float, size: int) -> np.ndarray:
    """Randomised response: 1 with the odds ``exp(epsilon)``."""
    return (generator.random(size) < 1 / (1 + math.exp(-epsilon))).astype(float)


def test_the_epsilon_of_randomised_response_is_bounded_and_nearly_reached() -> None:
    generator = public_generator(1)
    without, present = 1 - answers(generator, 1.0, 50_000), answers(generator, 1.0, 50_000)
    bound = epsilon_lower_bound(without, present, delta=0.0, false_alarm=1e-6)
    assert 0.9 < bound <= 1.0
    # An additive delta lowers it; no runs prove nothing.
    assert epsilon_lower_bound(without, present, delta=0.1, false_alarm=1e-6) < bound
    assert epsilon_lower_bound(without[:3], present[:3], delta=0.0, false_alarm=1e-6) == 0.0


def test_the_epsilon_bound_is_right_as_often_as_it_says() -> None:
    # 2000 small audits at a false alarm of 0.05: at most Binomial(2000, 0.05) bounds are wrong,
    # and more than 148 are with probability below 1e-6.
    generator = public_generator(2)
    wrong = 0
    for _ in range(2000):
        without, present = 1 - answers(generator, 0.5, 80), answers(generator, 0.5, 80)
        wrong += epsilon_lower_bound(without, present, delta=0.0, false_alarm=0.05) > 0.5
    assert wrong <= 148


def test_stated_power_is_reached() -> None:
    freedom, alarm = 4000, 1e-6
    error = caught_scale_error(freedom, false_alarm=alarm)
    low, high = chi2.ppf(alarm / 2, freedom), chi2.isf(alarm / 2, freedom)
    missed = [
        chi2.cdf(high / factor**2, freedom) - chi2.cdf(low / factor**2, freedom)
        for factor in (1 - error, 1 + error)
    ]
    assert max(missed) == pytest.approx(1e-3, rel=1e-6)
    assert caught_scale_error(0, false_alarm=alarm) == math.inf
    assert caught_scale_error(10, false_alarm=alarm) > 0.5


def test_a_fitted_mu_has_an_exact_interval() -> None:
    noise = public_generator(3).normal(size=20_000) * 1.25
    fit = fit_gaussian(noise, separation=2.0, freedom=noise.size, false_alarm=1e-6)
    assert fit.mu == pytest.approx(1.6, rel=0.03)
    assert fit.lower < 1.6 < fit.upper
    assert fit.upper / fit.lower < 1.08


def test_numbers_without_noise_are_infinitely_far_apart() -> None:
    zeros = np.zeros(100)
    apart = separation_finding("exact", zeros, zeros + 1, 1.0, false_alarm=1e-6)
    assert apart.statistic == math.inf
    assert not apart.passed
    assert apart.to_json()["statistic"] is None
    same = separation_finding("exact", zeros, zeros, 1.0, false_alarm=1e-6)
    assert same.statistic == 0.0


def test_everything_seen_is_silent_where_nothing_moves() -> None:
    noise = public_generator(4).normal(size=(2, 500, 3))
    assert everything_seen(noise[0], noise[1], 1.0, false_alarm=1e-6).passed
    moved = noise[1] + np.array([0.0, 3.0, 0.0])
    assert not everything_seen(noise[0], moved, 1.0, false_alarm=1e-6).passed


def test_findings_list_their_failures() -> None:
    noise = public_generator(5).normal(size=4000)
    fine = variance_finding("fine", noise, 1.0, false_alarm=1e-6)
    loud = variance_finding("loud", 2 * noise, 1.0, false_alarm=1e-6)
    soft = variance_finding("soft", noise / 2, 1.0, false_alarm=1e-6)
    assert [text.split(":")[0] for text in failures([fine, loud, soft])] == ["loud", "soft"]
    assert isinstance(fine, Finding)
