import math
import sys
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.special import erf

from dpstream.errors import ConfigurationError
from dpstream.privacy import curve as curve_module
from dpstream.privacy.curve import PrivacyCurve
from dpstream.privacy.gaussian import gaussian_delta
from dpstream.privacy.loss_distribution import _range_dots, _spacing, loss_distribution
from dpstream.privacy.renyi import renyi_delta


def test_nothing_costs_nothing():
    nothing = PrivacyCurve.none()
    assert nothing.delta(0.0) == 0.0
    assert nothing.epsilon(0.0) == 0.0
    assert nothing.is_pure
    for free in (PrivacyCurve.gaussian(0), PrivacyCurve.pure(0), PrivacyCurve.zcdp(0.0)):
        assert free == nothing
    assert PrivacyCurve.gaussian(0.7).repeat(0) == PrivacyCurve.pure(0.7).repeat(0) == nothing


def test_gaussian_delta_at_epsilon_zero_is_the_total_variation():
    for mu in (1e-8, 1e-4, 0.3, 2.0, 8.0):
        assert gaussian_delta(mu, 0.0) == pytest.approx(erf(mu / math.sqrt(8.0)), rel=1e-11)


def test_gaussian_delta_keeps_to_zero_and_one_at_the_ends():
    assert gaussian_delta(0.0, 1.0) == 0.0
    assert gaussian_delta(1e-4, 500.0) == sys.float_info.min
    assert gaussian_delta(100.0, 0.0) == 1.0


def test_renyi_conversion_is_the_best_order_raised_by_its_error():
    rho, epsilon = 0.02, 1.0
    with mpmath.workdps(40):

        def exponent(order):
            return (order - 1) * (order * rho - epsilon - mpmath.log1p(1 / (order - 1))) - (
                mpmath.log(order)
            )

        order = mpmath.findroot(lambda order: mpmath.diff(exponent, order), 27)
        exact = mpmath.exp(exponent(order))
        found = renyi_delta(lambda orders: rho * orders, epsilon)
        assert exact * (1 + 3e-12) < found < exact * (1 + 5e-12)


def test_renyi_conversion_of_no_privacy_is_no_more_than_certain():
    assert renyi_delta(lambda orders: 1e9 * orders, 0.0) <= 1.0 + 5e-12


@pytest.mark.parametrize(("mu", "epsilon"), [(10.5, 1.0), (12.0, 6.0), (13.0, 13.0), (16.0, 1.0)])
def test_gaussian_delta_near_one(mu, epsilon):
    with mpmath.workdps(40):
        half, middle = mpmath.mpf(mu) / 2, mpmath.mpf(epsilon) / mpmath.mpf(mu)
        exact = mpmath.ncdf(half - middle) - mpmath.exp(epsilon) * mpmath.ncdf(-half - middle)
        assert half - middle >= 5
        assert exact <= gaussian_delta(mu, epsilon) <= min(1, exact * (1 + 5e-12))


def test_renyi_conversion_of_a_vanishing_delta_is_still_positive():
    assert renyi_delta(lambda orders: 1e-9 * orders, 400.0) == math.ulp(0.0)


def test_pure_parts_add_epsilons_at_delta_zero():
    curve = PrivacyCurve.pure(0.25).repeat(3).compose(PrivacyCurve.exponential(0.5))
    assert curve.is_pure
    assert curve.epsilon(0.0) == curve.pure_epsilon == 1.25
    assert curve.delta(1.25) == 0.0
    assert curve.delta(1.2) > 0.0


def test_pure_parts_are_tighter_with_delta():
    curve = PrivacyCurve.pure(0.1).repeat(100)
    # Binomial tails: the reference vectors hold the exact delta; advanced composition gives 6.3.
    assert curve.epsilon(1e-6) < 4.8
    assert curve.epsilon(0.0) == pytest.approx(10.0)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 4.0])
def test_range_bounds_against_every_two_point_pair(epsilon):
    # A loss in [t - epsilon, t] on two points, for every t: what an adversary may choose.
    positions = np.linspace(0.0, epsilon, 2001)[1:-1]
    chance = np.expm1(epsilon - positions) / np.expm1(epsilon)  # of the upper loss, under Q
    single = PrivacyCurve.exponential(epsilon)
    for at in np.linspace(0.0, 0.95 * epsilon, 7):
        worst = np.max(
            chance * np.maximum(np.exp(positions) - np.exp(at), 0.0)
            + (1 - chance) * np.maximum(np.exp(positions - epsilon) - np.exp(at), 0.0)
        )
        formula = math.expm1((at - epsilon) / 2) ** 2 / -math.expm1(-epsilon)
        assert formula == pytest.approx(worst, rel=1e-5)
        distribution = loss_distribution(0.0, (), ((epsilon, 1),))
        assert formula <= distribution.delta(at) <= formula * 1.01 + 1e-5
        assert single.delta(at) <= distribution.delta(at)
    for order in (1.01, 1.5, 2.0, 10.0, 100.0):
        moment = chance * np.exp(order * positions) + (1 - chance) * np.exp(
            order * (positions - epsilon)
        )
        assert np.max(np.log(moment)) / (order - 1) <= order * epsilon**2 / 8 * (1 + 1e-9)


def test_a_tiny_pure_part_hardly_changes_a_gaussian():
    alone = PrivacyCurve.gaussian(0.2)
    mixed = alone.compose(PrivacyCurve.pure(1e-5))
    assert alone.delta(1.0) < mixed.delta(1.0) < 1.001 * alone.delta(1.0)
    assert alone.epsilon(1e-6) < mixed.epsilon(1e-6) <= alone.epsilon(1e-6) + 1e-5


@pytest.mark.parametrize(
    ("mu", "pure"), [(0.2, 0.5), (1.0, 0.01), (0.05, 2.0), (3.0, 1.5), (20.0, 0.5)]
)
def test_gaussian_with_randomised_response_against_the_exact_mixture(mu, pure):
    # Conditioned on the response's loss +pure or -pure, what is left is the Gaussian's H.
    def divergence(at):
        if at >= 0.0:
            return gaussian_delta(mu, at)
        return -math.expm1(at) + math.exp(at) * gaussian_delta(mu, -at)

    truth = 1.0 / (1.0 + math.exp(-pure))
    curve = PrivacyCurve.gaussian(mu).compose(PrivacyCurve.pure(pure))
    for epsilon in (0.0, 0.3 * pure, pure, pure + mu * (mu / 2 + 2.0)):
        exact = truth * divergence(epsilon - pure) + (1 - truth) * divergence(epsilon + pure)
        assert exact <= curve.delta(epsilon) <= exact * (1 + 1e-3) + 1e-13


def test_a_distribution_allows_for_every_part_and_step():
    # In units of 2^-52: 512 for each part and 16 for each step; a Gaussian part is one step.
    step = ((0.1, 3),)
    for mu, pure, exponential, units in (
        (0.0, step, (), 512 + 3 * 16),
        (0.0, (), step, 512 + 3 * 16),
        (0.3, (), step, 2 * 512 + 4 * 16),
        (0.3, step, ((0.2, 2),), 3 * 512 + 6 * 16),
    ):
        assert loss_distribution(mu, pure, exponential).round_off == units * 2.0**-52


def test_a_distribution_of_a_wide_range_has_half_a_million_points():
    # A million steps whose total has mean 50 and deviation 10, and one that is no finer.
    steps = ((1e-6, 1), (0.01, 10**6))
    reach = 1e-6 + 50.0 + 9.5 * 10.0
    assert _spacing(0.0, steps, (), 10**6 + 1) == pytest.approx(2.0 * reach / 2**19, rel=1e-12)


def test_a_grid_resolves_the_deviation_of_the_total():
    # A step so small that it does not set the spacing; 256 points a step's deviation.
    tiny = (1e-9, 1)
    for mu, pure, exponential, variance in (
        (0.0, ((0.5, 2), tiny), (), 2 * 0.25),
        (0.0, (tiny,), ((0.5, 2),), 2 * 0.25 / 4),
        (0.3, (tiny,), ((0.5, 1),), 0.09 + 0.25 / 4),
    ):
        finest = math.sqrt(variance) / (256 * math.sqrt(3))
        assert _spacing(mu, pure, exponential, 3) == pytest.approx(finest, rel=1e-9)
    # A Gaussian part that is small beside the others: 64 points of its own deviation.
    assert _spacing(0.01, ((0.5, 2), tiny), (), 3) == pytest.approx(0.01 / 64, rel=1e-9)
    # Gaussian parts reach 9.5 deviations beyond their mean.
    reach = 3.0 * (9.5 + 1.5) + 0.5 + 9.5
    assert _spacing(3.0, ((0.001, 10**6), tiny), (), 10**6 + 2) == pytest.approx(
        2 * reach / 2**19, rel=1e-6
    )
    # Ends of the smallest range lie on the grid; randomised response alone needs no more.
    assert (0.1 / _spacing(0.3, ((0.1, 1),), (), 2)) % 1.0 == pytest.approx(0.0, abs=1e-9)
    assert _spacing(0.0, ((0.1, 100),), (), 100) == 0.1


def test_dots_of_a_grid():
    assert _range_dots(1.0, 0.25, 100) == [*range(-4, 5)]
    assert _range_dots(1.0, 0.3, 8) == [*range(-4, 5)]
    assert _range_dots(1.0, 0.25, 2) == [-4, -3, 0, 3, 4]
    assert _range_dots(100.0, 1.0, 10) == [-100, -99, *range(-80, 81, 20), 99, 100]


def test_mixture_of_all_grid_parts_is_between_its_bounds():
    parts = [PrivacyCurve.gaussian(0.2), PrivacyCurve.pure(0.5), PrivacyCurve.exponential(0.3)]
    mixed = parts[0].compose(parts[1]).compose(parts[2].repeat(2))
    found = mixed.epsilon(1e-6)
    assert parts[0].epsilon(1e-6) < found < parts[0].epsilon(1e-6) + 0.5 + 0.6


def test_zcdp_of_a_gaussian_is_a_looser_bound_of_it():
    for mu in (0.05, 0.24, 1.0):
        concentrated = PrivacyCurve.zcdp(mu * mu / 2)
        assert PrivacyCurve.gaussian(mu).epsilon(1e-6) < concentrated.epsilon(1e-6)
        assert concentrated.rho == pytest.approx(mu * mu / 2, rel=1e-15)
    both = PrivacyCurve.zcdp(0.01).compose(PrivacyCurve.gaussian(0.1))
    assert both.epsilon(1e-6) == pytest.approx(PrivacyCurve.zcdp(0.015).epsilon(1e-6), rel=1e-9)
    assert both.compose(PrivacyCurve.pure(0.1)).epsilon(1e-6) <= both.epsilon(1e-6) + 0.1 + 1e-9


def test_small_pure_parts_add_to_gaussian_ones_as_concentrated_ones_do():
    # Of divergence alpha epsilon^2 / 2 each, and 1/4 of that for exponential parts.
    parts = PrivacyCurve.pure(0.01).repeat(500).compose(PrivacyCurve.exponential(0.02).repeat(500))
    mixed = parts.compose(PrivacyCurve.gaussian(0.3)).compose(PrivacyCurve.zcdp(0.01))
    rho = 0.01 + 0.3**2 / 2 + 500 * 0.01**2 / 2 + 500 * 0.02**2 / 8
    assert mixed.epsilon(1e-6) == pytest.approx(PrivacyCurve.zcdp(rho).epsilon(1e-6), rel=1e-6)


def test_failures_add():
    curve = PrivacyCurve.failure(1e-7).repeat(3).compose(PrivacyCurve.pure(1.0))
    assert curve.delta(1.0) == pytest.approx(3e-7, rel=1e-12)
    assert curve.delta(1.0) >= 3 * 1e-7
    assert curve.epsilon(2e-7) == math.inf
    assert curve.epsilon(4e-7) <= 1.0
    assert not curve.is_pure
    # A failure too small to change a rounded sum still raises it.
    gaussian = PrivacyCurve.gaussian(0.3)
    assert gaussian.compose(PrivacyCurve.failure(1e-25)).delta(1.0) > gaussian.delta(1.0)
    certain = PrivacyCurve.failure(0.6).repeat(2)
    assert certain.delta(3.0) == 1.0
    assert certain.holds(3.0, 1.0)
    assert PrivacyCurve.approximate(0.5, 1e-7) == PrivacyCurve.pure(0.5).compose(
        PrivacyCurve.failure(1e-7)
    )


def test_gaussian_noise_is_never_pure():
    curve = PrivacyCurve.gaussian(0.1)
    assert curve.epsilon(0.0) == math.inf
    assert not curve.holds(100.0, 0.0)
    assert curve.epsilon(1.0) == 0.0


def test_an_unbounded_amount_promises_nothing():
    enormous = PrivacyCurve.gaussian(1e160)
    assert enormous.mu == math.inf or enormous.mu >= 1e160
    assert enormous.delta(500.0) == 1.0
    assert enormous.epsilon(1e-6) == math.inf


def test_epsilons_beyond_all_use_are_infinite():
    # With delta 1/2 the epsilon of a Gaussian is mu^2/2; the search gives up past 2^62.
    below, above = 1.2 * 2.0**31, 1.2 * 2.0**31.5
    assert PrivacyCurve.gaussian(below).epsilon(0.5) == pytest.approx(below**2 / 2, rel=1e-9)
    assert above**2 / 2 > 2.0**62
    assert PrivacyCurve.gaussian(above).epsilon(0.5) == math.inf


def test_many_distinct_parts_are_bounded_without_a_distribution_each():
    most = curve_module._MOST_DISTINCT_STEPS
    distinct = PrivacyCurve.none()
    for index in range(most):
        distinct = distinct.compose(PrivacyCurve.pure(0.01 * (1 + index * 1e-6)))
    tight = PrivacyCurve.pure(0.01).repeat(most)
    assert tight.delta(0.3) < distinct.delta(0.3) < 1.01 * tight.delta(0.3)
    distinct = distinct.compose(PrivacyCurve.pure(0.011))
    tight = PrivacyCurve.pure(0.01).repeat(most + 1)
    assert tight.epsilon(1e-6) < distinct.epsilon(1e-6) < 1.2 * tight.epsilon(1e-6)


def test_amounts_round_up_and_counts_do_not_round():
    third = PrivacyCurve.gaussian(1.0 / 3.0)
    assert third.mu >= 1.0 / 3.0
    assert third.mu <= (1.0 / 3.0) * (1 + 1e-15)
    for count in range(1, 50):
        exact = count * Fraction(0.1)
        found = PrivacyCurve.zcdp(0.1).repeat(count).rho
        assert math.nextafter(found, 0.0) < exact <= found
    assert PrivacyCurve.gaussian(1.0).repeat(10**12).mu == pytest.approx(1e6, rel=1e-15)
    # Below the unit 2^-256 an amount is still not lost, nor is an epsilon below 2^-64.
    assert PrivacyCurve.zcdp(1e-300).rho == 2.0**-256
    smallest = PrivacyCurve.pure(math.ulp(0.0))
    assert smallest.epsilon(0.0) == 2.0**-64
    assert smallest.delta(0.0) < 1e-12


def test_envelope_is_at_least_either():
    first = PrivacyCurve.pure(0.1).repeat(3).compose(PrivacyCurve.gaussian(0.1))
    second = PrivacyCurve.pure(0.1).compose(PrivacyCurve.pure(0.2))
    both = first.envelope(second)
    assert both.pure_steps == ((0.1, 3), (0.2, 1))
    assert both == second.envelope(first) == both.envelope(first)
    nothing = PrivacyCurve.none()
    assert nothing.envelope(first) is first is first.envelope(nothing)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: PrivacyCurve.gaussian(-1.0), "mu is -1.0; it must be finite and at least 0"),
        (lambda: PrivacyCurve.gaussian(math.nan), "mu is nan; it must be finite and at least 0"),
        (lambda: PrivacyCurve.pure(math.inf), "epsilon is inf; it must be finite and at least 0"),
        (lambda: PrivacyCurve.exponential(-2.0), "epsilon is -2.0; it must be finite and at le"),
        (lambda: PrivacyCurve.zcdp(-0.5), "rho is -0.5; it must be finite and at least 0"),
        (lambda: PrivacyCurve.failure(-1e-9), "delta is -1e-09; it must be finite and at least"),
        (lambda: PrivacyCurve.pure(1.0).repeat(-1), "cannot be repeated -1 times; count from 0"),
        (lambda: PrivacyCurve.pure(1.0).delta(-0.1), "epsilon is -0.1; it must be at least 0"),
        (lambda: PrivacyCurve.pure(1.0).delta(math.nan), "epsilon is nan; it must be at least 0"),
        (lambda: PrivacyCurve.pure(1.0).holds(-0.1, 0.5), "epsilon is -0.1; it must be at least"),
        (lambda: PrivacyCurve.pure(1.0).epsilon(-0.1), r"delta is -0.1; it must be in \[0, 1\]"),
        (lambda: PrivacyCurve.pure(1.0).epsilon(1.5), r"delta is 1.5; it must be in \[0, 1\]"),
    ],
)
def test_impossible_questions_are_refused(ask, message):
    with pytest.raises(ConfigurationError, match=f"(^| ){message}"):
        ask()
