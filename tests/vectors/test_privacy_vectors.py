"""Against reference values made by generate_privacy_vectors.py, and dp-accounting's own slips."""

import json
import math
from pathlib import Path

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant

from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import HEADROOM, gaussian_epsilon, gaussian_mu, zcdp_rho
from dpstream.privacy.curve import PrivacyCurve
from dpstream.privacy.gaussian import RELATIVE_ERROR, gaussian_delta

VECTORS = json.loads(Path(__file__).with_name("privacy_vectors.json").read_text())


def test_gaussian_delta_is_an_upper_bound_within_its_stated_error():
    worst = 0.0
    for row in VECTORS["gaussian_delta"]:
        reference = float(row["delta"])
        value = gaussian_delta(float(row["mu"]), float(row["epsilon"]))
        # One unit in the last place is the rounding of the reference itself.
        assert value >= reference * (1.0 - 2.0**-52), row
        worst = max(worst, value / reference - 1.0)
    assert worst <= 1.2 * RELATIVE_ERROR <= 5e-12


def test_the_vectors_cover_small_and_large_delta():
    deltas = [float(row["delta"]) for row in VECTORS["gaussian_delta"]]
    assert len(deltas) > 100
    assert min(deltas) < 1e-200
    assert max(deltas) > 0.999


@pytest.mark.parametrize("row", VECTORS["calibration"])
def test_calibration_is_the_largest_less_the_headroom(row):
    budget = Budget(epsilon=float(row["epsilon"]), delta=float(row["delta"]))
    for value, reference in (
        (gaussian_mu(budget), float(row["mu"])),
        (zcdp_rho(budget), float(row["rho"])),
    ):
        assert value < reference
        # The bracket's 1e-12 and delta's own few 1e-12 come on top of the headroom.
        assert value == pytest.approx(reference * (1.0 - HEADROOM), rel=2e-11)


@pytest.mark.parametrize(("epsilon", "multiplier"), [(1, 4.22468), (0.5, 8.058), (2, 2.230)])
def test_published_noise_multipliers(epsilon, multiplier):
    found = 1.0 / gaussian_mu(Budget(epsilon=epsilon, delta=1e-6))
    assert found == pytest.approx(multiplier, rel=3e-4 if epsilon != 1 else 1e-6)


def test_published_zcdp_rho():
    assert zcdp_rho(Budget(epsilon=1, delta=1e-6)) == pytest.approx(0.02436, abs=5e-6)


@pytest.mark.parametrize("row", VECTORS["response_delta"])
def test_pure_composition_is_that_of_randomised_response(row):
    curve = PrivacyCurve.pure(float(row["pure"])).repeat(row["count"])
    value = curve.delta(float(row["epsilon"]))
    reference = float(row["delta"])
    assert value >= reference
    # Its losses lie on the grid exactly; what is added is the allowance for the transform.
    allowance = (512 + 16 * row["count"]) * 2.0**-52
    assert value <= reference * (1.0 + 1e-9) + 2.0 * allowance + 1e-14


@pytest.mark.parametrize("row", VECTORS["accountant_gaussian_epsilon"])
def test_gaussian_epsilon_agrees_with_dp_accounting(row):
    mu, delta, theirs = (float(row[key]) for key in ("mu", "delta", "epsilon"))
    ours = gaussian_epsilon(mu, delta)
    # Theirs is pessimistic by the discretisation of the loss at 1e-4.
    assert ours <= theirs * (1 + 1e-9)
    assert ours == pytest.approx(theirs, abs=2e-4)


def _composed(accountant, event, count):
    return accountant.compose(event, count).get_epsilon(1e-5)


def _singly(accountant, event, count):
    for _ in range(count):
        accountant.compose(event)
    return accountant.get_epsilon(1e-5)


def test_repeated_exponential_mechanisms_pay_for_every_repetition():
    # Randomised response of 1/2 has losses 1/2 and -1/2: it is a mechanism of range 1, so its
    # composition, exact by the vectors above, is a lower bound.
    curve = PrivacyCurve.exponential(1.0)
    repeated = curve.repeat(20).epsilon(1e-5)
    assert repeated >= PrivacyCurve.pure(0.5).repeat(20).epsilon(1e-5) - 1e-3
    assert repeated <= PrivacyCurve.zcdp(20 / 8).epsilon(1e-5) * (1 + 1e-9)
    assert curve.epsilon(1e-5) <= 1.0


def test_witness_forgets_the_count_of_randomised_response():
    relation = dp_accounting.NeighboringRelation.REPLACE_ONE
    # Two buckets and noise p keep the answer with probability 1 - p/2: epsilon = ln((2-p)/p).
    noise = 2.0 / (1.0 + math.exp(2.3))
    event = dp_accounting.RandomizedResponseDpEvent(noise_parameter=noise, num_buckets=2)
    assert _composed(PLDAccountant(relation), event, 4) == pytest.approx(2.3, abs=1e-2)
    honest = _singly(PLDAccountant(relation), event, 4)
    assert honest == pytest.approx(9.2, abs=2e-2)
    ours = PrivacyCurve.pure(2.3).repeat(4).epsilon(1e-5)
    assert ours == pytest.approx(honest, abs=2e-3)
