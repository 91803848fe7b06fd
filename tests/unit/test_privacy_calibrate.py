import math

import pytest

from dpstream.errors import ConfigurationError, NotPrivate
from dpstream.privacy import paper
from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import (
    HEADROOM,
    calibrate,
    gaussian_epsilon,
    gaussian_mu,
    gaussian_noise_multiplier,
    pure_epsilon,
    zcdp_rho,
)
from dpstream.privacy.curve import PrivacyCurve
from dpstream.privacy.unit import Neighbours

BUDGET = Budget(epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 8.0, 100.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1, 0.9])
def test_calibrated_noise_keeps_the_budget_and_little_less_does_not(epsilon, delta):
    mu = gaussian_mu(Budget(epsilon=epsilon, delta=delta))
    assert PrivacyCurve.gaussian(mu).delta(epsilon) <= delta
    assert PrivacyCurve.gaussian(mu * (1 + 2 * HEADROOM)).delta(epsilon) > delta
    # The headroom moves epsilon by 1e-9 (d delta/d ln mu) / (d delta/d epsilon), below 1e-8 here.
    assert gaussian_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-7, abs=1e-8)


def test_noise_multiplier_is_the_reciprocal():
    assert gaussian_noise_multiplier(BUDGET) == 1.0 / gaussian_mu(BUDGET)


def test_pure_budget_has_no_gaussian_noise():
    pure = Budget(epsilon=1.0, delta=0.0)
    for ask in (gaussian_mu, zcdp_rho, gaussian_noise_multiplier):
        with pytest.raises(NotPrivate, match="delta > 0"):
            ask(pure)
    epsilon = pure_epsilon(pure)
    assert 1.0 - 2 * HEADROOM < epsilon < 1.0
    assert calibrate(PrivacyCurve.pure, pure) == pytest.approx(1.0 - HEADROOM, rel=1e-11)


def test_a_scale_that_does_not_matter_cannot_be_calibrated():
    with pytest.raises(ConfigurationError, match="allows any noise"):
        calibrate(lambda scale: PrivacyCurve.pure(0.5), BUDGET)


def test_calibration_of_a_mixture():
    # A private selection that spends half of epsilon, and Gaussian noise with what is left.
    def mixed(mu):
        return PrivacyCurve.exponential(0.5).compose(PrivacyCurve.gaussian(mu))

    mu = calibrate(mixed, BUDGET)
    assert mixed(mu).holds(1.0, 1e-6)
    halves = gaussian_mu(Budget(epsilon=0.5, delta=1e-6))
    assert halves < mu < gaussian_mu(BUDGET)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(0, 0.1), (-1, 0.1), (math.inf, 0.1), (math.nan, 0.1), (1, -1e-9), (1, 1), (1, math.nan)],
)
def test_impossible_budgets_are_refused(epsilon, delta):
    with pytest.raises(ConfigurationError):
        Budget(epsilon=epsilon, delta=delta)


def test_textbook_constant_and_its_limits():
    multiplier = paper.textbook_noise_multiplier(BUDGET)
    assert multiplier == math.sqrt(2 * math.log(2e6))
    assert multiplier > gaussian_noise_multiplier(BUDGET)
    for numerator, limit in ((2.0, 9.7), (1.25, 8.8)):
        below = Budget(epsilon=limit - 0.1, delta=1e-6)
        assert paper.textbook_noise_multiplier(below, numerator=numerator) > 0
        with pytest.raises(NotPrivate, match="textbook"):
            paper.textbook_noise_multiplier(
                Budget(epsilon=limit + 0.1, delta=1e-6), numerator=numerator
            )
    assert paper.textbook_noise_multiplier(BUDGET, numerator=1.0) == math.sqrt(2 * math.log(1e6))
    with pytest.raises(NotPrivate, match="delta is 0"):
        paper.textbook_noise_multiplier(Budget(epsilon=1, delta=0))


def test_textbook_constant_of_another_paper_is_refused():
    with pytest.raises(ConfigurationError, match="numerator"):
        paper.textbook_noise_multiplier(BUDGET, numerator=0.9)


def test_advanced_composition_split_and_its_limits():
    part = paper.advanced_composition_budget(BUDGET, count=100)
    assert part.delta == 1e-6 / 200
    assert part.epsilon == pytest.approx(1 / (2 * math.sqrt(200 * math.log(2e6))))
    with pytest.raises(NotPrivate, match="proved only"):
        paper.advanced_composition_budget(Budget(epsilon=30, delta=1e-6), count=1000)
    with pytest.raises(NotPrivate, match="proved only"):
        paper.advanced_composition_budget(Budget(epsilon=15, delta=1e-6), count=1)
    # The largest epsilon that is proved, and the largest of one part, which is 1.
    limit = 2.0 * math.log(2.0 / 1e-6)
    paper.advanced_composition_budget(Budget(epsilon=limit, delta=1e-6), count=1000)
    whole = 2.0 * math.sqrt(2.0 * math.log(2.0 / 1e-6))
    one = paper.advanced_composition_budget(Budget(epsilon=whole, delta=1e-6), count=1)
    assert one.epsilon == 1.0
    with pytest.raises(NotPrivate, match="delta is 0"):
        paper.advanced_composition_budget(Budget(epsilon=1, delta=0), count=2)
    with pytest.raises(ConfigurationError):
        paper.advanced_composition_budget(BUDGET, count=0)


def test_tree_noise_and_the_horizons_at_which_it_fails():
    printed = paper.tree_noise_scale(BUDGET, horizon=10**5, sensitivity=2.0, base=2.0)
    tight = 2.0 * math.sqrt(17) * gaussian_noise_multiplier(BUDGET)
    assert printed / tight == pytest.approx(5.14, abs=0.01)
    natural = paper.tree_noise_scale(BUDGET, horizon=10**5, sensitivity=2.0, base=math.e)
    assert natural / tight == pytest.approx(3.56, abs=0.01)
    for horizon, base in ((1, 2.0), (2, 2.0), (2, math.e), (3, math.e)):
        with pytest.raises(NotPrivate, match="TreeMech"):
            paper.tree_noise_scale(BUDGET, horizon=horizon, sensitivity=1.0, base=base)
    assert paper.tree_noise_scale(BUDGET, horizon=3, sensitivity=1.0, base=2.0) > 0
    half = Budget(epsilon=0.5, delta=1e-6)
    for sensitivity in (0.001, 1000.0):
        assert paper.tree_noise_scale(
            half, horizon=1024, sensitivity=sensitivity, base=2.0
        ) == pytest.approx(10 * sensitivity * math.sqrt(2 * math.log(2e6)) / 0.5)
    with pytest.raises(NotPrivate, match="delta is 0"):
        paper.tree_noise_scale(Budget(epsilon=1, delta=0), horizon=8, sensitivity=1.0, base=2.0)


def test_logarithm_needs_a_base():
    assert paper.logarithm(8.0, base=2.0) == 3.0
    assert paper.logarithm(math.e, base=math.e) == 1.0
    assert paper.logarithm(64.0, base=4.0) == 3.0
    with pytest.raises(ConfigurationError):
        paper.logarithm(8.0, base=1.0)


def pure_up_to(largest):
    """A curve of epsilon 1 at the scale ``largest``."""
    return lambda scale: PrivacyCurve.pure(scale / largest)


@pytest.mark.parametrize("exponent", [-99.5, -80.0, 40.0, 59.5])
def test_scales_are_found_wherever_they_lie(exponent):
    largest = 2.0**exponent
    found = calibrate(pure_up_to(largest), Budget(epsilon=1.0, delta=0.0))
    assert found == pytest.approx(largest * (1.0 - HEADROOM), rel=1e-11)


@pytest.mark.parametrize(
    ("exponent", "error"),
    [
        (-100.5, NotPrivate),
        (-130.0, NotPrivate),
        (60.5, ConfigurationError),
        (90, ConfigurationError),
    ],
)
def test_scales_beyond_every_use_are_refused(exponent, error):
    # The smallest one is 2**-100, the largest 2**60, and both are still taken.
    with pytest.raises(error):
        calibrate(pure_up_to(2.0**exponent), Budget(epsilon=1.0, delta=0.0))


def test_a_budget_holds_floats_whatever_it_is_made_of():
    budget = Budget(epsilon=2, delta=0)
    assert type(budget.epsilon) is float
    assert type(budget.delta) is float


@pytest.mark.parametrize("name", ["add", "REPLACE", None, 1])
def test_an_unknown_neighbour_relation_is_no_default(name):
    with pytest.raises(ConfigurationError, match="must be 'zero_out' or 'replace'"):
        Neighbours(name)
    assert Neighbours("replace") is Neighbours.REPLACE
