"""Sampled Gaussian noise against dp-accounting's own account of it."""

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution

from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import gaussian_mu
from dpstream.privacy.curve import PrivacyCurve
from dpstream.privacy.loss_distribution import sampled_gaussian_delta
from dpstream.solvers.noisy_sgd import sampled_mu

CASES = [(1.0, 0.01, 500, 1.0), (0.5, 0.1, 100, 1.0), (0.2, 0.05, 500, 0.5), (2.0, 0.002, 500, 1.0)]


@pytest.mark.parametrize(("mu", "rate", "count", "epsilon"), CASES)
def test_solver_sgd_delta_agrees_with_the_witness(
    mu: float, rate: float, count: int, epsilon: float
) -> None:
    witness = privacy_loss_distribution.from_gaussian_mechanism(
        1.0 / mu,
        sampling_prob=rate,
        value_discretization_interval=1e-4,
        use_connect_dots=True,
    ).self_compose(count)
    expected = float(witness.get_delta_for_epsilon(epsilon))
    found = sampled_gaussian_delta(mu, rate, count, epsilon)
    # Both are upper bounds, from different grids.
    assert 0.99 * expected <= found <= 1.08 * expected


def test_solver_sgd_full_rate_is_plain_gaussian_noise() -> None:
    exact = PrivacyCurve.gaussian(0.3 * math.sqrt(10)).delta(2.0)
    assert exact <= sampled_gaussian_delta(0.3, 1.0, 10, 2.0) <= 1.001 * exact


def test_solver_sgd_one_sampled_step_is_exact() -> None:
    # delta = q H(h), e^h = (e^epsilon - 1 + q) / q, for the direction that adds the record.
    mu, rate, epsilon = 1.5, 0.3, 0.4
    exact = rate * PrivacyCurve.gaussian(mu).delta(math.log1p(math.expm1(epsilon) / rate))
    assert exact <= sampled_gaussian_delta(mu, rate, 1, epsilon) <= 1.001 * exact


def test_solver_sgd_calibration_spends_the_budget_and_gains_by_sampling() -> None:
    budget = Budget(epsilon=1.0, delta=1e-6)
    mu = sampled_mu(budget, 0.05, 64)
    deltas = [
        sampled_gaussian_delta(factor * mu, 0.05, 64, budget.epsilon) for factor in (1.0, 1.01)
    ]
    assert deltas[0] <= budget.delta < deltas[1]
    assert mu > 5 * gaussian_mu(budget) / np.sqrt(64)
