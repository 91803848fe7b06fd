"""What an epsilon means is told by numbers that other formulas confirm."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from command_line import call, one_line
from scipy import special

from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import gaussian_mu
from dpstream.privacy.curve import PrivacyCurve
from dpstream.privacy.trade_off import (
    best_accuracy,
    group_curve,
    largest_belief,
    least_missed,
)

FLIGHTS = Path(__file__).parents[2] / "examples" / "flights"


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_a_coin_that_lies_is_the_worst_of_its_epsilon(epsilon: float) -> None:
    # Randomised response says the truth with odds exp(epsilon): nothing pure is easier to attack.
    curve = PrivacyCurve.pure(epsilon)
    assert best_accuracy(curve) == pytest.approx(special.expit(epsilon), rel=1e-9)
    alarms = np.array([0.0, 0.01, 0.3, 1.0])
    found = 1.0 - least_missed(curve, alarms, largest=epsilon)
    exact = np.minimum(np.exp(epsilon) * alarms, 1.0 - np.exp(-epsilon) * (1.0 - alarms))
    assert found == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("mu", [0.1, 0.7, 3.0])
def test_gaussian_noise_is_attacked_by_a_threshold(mu: float) -> None:
    # Neyman and Pearson: the best test of N(0, 1) against N(mu, 1) is a threshold.
    curve = PrivacyCurve.gaussian(mu)
    assert best_accuracy(curve) == pytest.approx(special.ndtr(mu / 2), rel=1e-6)
    alarms = np.array([0.001, 0.01, 0.1, 0.5])
    found = 1.0 - least_missed(curve, alarms, largest=curve.epsilon(1e-9))
    exact = special.ndtr(special.ndtri(alarms) + mu)
    assert (found >= exact - 1e-12).all()
    assert found == pytest.approx(exact, rel=0.02)


def test_a_groups_promise_is_weaker_and_gaussian_shifts_add() -> None:
    gaussian = group_curve(PrivacyCurve.gaussian(0.5), epsilon=1.0, delta=1e-6, count=4)
    assert best_accuracy(gaussian) == pytest.approx(special.ndtr(1.0), rel=1e-6)
    pure = group_curve(PrivacyCurve.pure(0.5), epsilon=0.5, delta=0.0, count=4)
    assert best_accuracy(pure) == pytest.approx(special.expit(2.0), rel=1e-9)
    whole = group_curve(PrivacyCurve.pure(0.5), epsilon=0.5, delta=1e-6, count=10_000)
    assert best_accuracy(whole) == 1.0
    three = group_curve(PrivacyCurve.pure(0.5), epsilon=0.5, delta=1e-6, count=3)
    growth = 1.0 + math.exp(0.5) + math.exp(1.0)
    assert three.pure_steps == ((1.5, 1),)
    assert three.delta(1.5) == pytest.approx(growth * 1e-6, rel=1e-12)
    # Where the exponential is beyond every float the promise is empty, as where it is above 1.
    for count in (800, 20):
        empty = group_curve(PrivacyCurve.pure(1.0), epsilon=1.0, delta=1e-6, count=count)
        assert empty == PrivacyCurve.approximate(float(count), 1.0)


def test_a_belief_grows_by_bayes_rule() -> None:
    assert largest_belief(0.5, math.log(3)) == pytest.approx(0.75)


def test_a_configuration_is_explained_by_its_own_noise(tmp_path: Path) -> None:
    done = call("explain", str(FLIGHTS / "late.toml"), "--json", folder=tmp_path)
    found = json.loads(done.stdout)
    mu = gaussian_mu(Budget(epsilon=1.0, delta=1e-6))
    assert found["best_accuracy"] == pytest.approx(special.ndtr(mu / 2), rel=1e-6)
    assert found["basis"] == "the mechanism's own curve"
    assert "whole life" in found["promise"]


def test_numbers_alone_are_explained_by_the_worst_mechanism(tmp_path: Path) -> None:
    arguments = ("explain", "--epsilon", "1", "--delta", "1e-6")
    found = json.loads(call(*arguments, "--json", folder=tmp_path).stdout)
    assert found["best_accuracy"] == pytest.approx(special.expit(1.0), rel=1e-5)
    done = call(*arguments, "--cap", "5", "--picture", "page.html", folder=tmp_path)
    assert done.returncode == 0
    assert "any one user (at most 5 count)" in done.stdout
    assert "at most 73.1" in done.stdout
    page = (tmp_path / "page.html").read_text()
    assert "<svg" in page
    assert "at most 73.1" in page


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give a configuration, or --epsilon"),
        (("late.toml", "--epsilon", "1"), "give a configuration, or --epsilon"),
        (("--epsilon", "much"), "--epsilon"),
        (("--epsilon", "-1"), "epsilon"),
        (("--epsilon", "1", "--delta", "2"), "delta"),
        (("--epsilon", "1", "--neighbours", "add"), "--neighbours is 'add'"),
        (("--epsilon", "1", "--cap", "0"), "cap"),
        (("nowhere.toml",), "cannot be read"),
    ],
)
def test_a_wrong_question_is_one_line(
    arguments: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    assert said in one_line(call("explain", *arguments, folder=tmp_path), 2)
