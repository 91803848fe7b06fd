"""The audit of the catalogue: claims are met, from both sides, and power is not feigned.

An honest mechanism fails its audit with probability at most 1e-6; seeds are fixed.
"""

import itertools
import json
import math
from dataclasses import replace

import pytest

from dpstream.audit.entry_learner import SHORT_LEARNERS
from dpstream.audit.evidence import REQUIRED_POWER, judged
from dpstream.audit.learner import (
    TICKS,
    gaussian_twin,
    learner_evidence,
    learner_run,
    placements,
    shortened,
)
from dpstream.audit.picture import trade_off_picture
from dpstream.audit.record import record_pairs
from dpstream.audit.run import attack_of, audit_all, audit_entry, audit_learner, audited_entries
from dpstream.audit.transcript import repeated_findings, white_boxes
from dpstream.catalogue.catalogue import entry
from dpstream.domain.column import Numeric
from dpstream.domain.domain import Domain
from dpstream.domain.target import LabelTarget
from dpstream.errors import ConfigurationError
from dpstream.geometry.l2_ball import L2Ball
from dpstream.learners.incremental.priv_inc_erm import PrivIncERM
from dpstream.learners.incremental.priv_inc_reg1 import PrivIncReg1
from dpstream.learners.sums.running_sum import RunningSum
from dpstream.learners.window.decayed_release import DecayedRelease
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.continual.node_noise import NoiseKind
from dpstream.mechanisms.continual.window_tree import WindowTree
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.solvers.moment_regression import MomentRegression

QUICK = [
    "measure_gaussian",
    "measure_discrete_gaussian",
    "MomentLayout",
    "BinaryTree",
    "BufferedToeplitz",
    "WindowTree",
]


def running_sum(**changes: object) -> RunningSum:
    options: dict[str, object] = {
        "domain": Domain.vectors(2, norm_bound=1.0),
        "budget": Budget(epsilon=1.0, delta=1e-6),
        "unit": Unit(),
        "neighbours": Neighbours.REPLACE,
        "horizon": 4,
        "count": True,
        "tick_records": 16,
    }
    return RunningSum(**(options | changes))


@pytest.mark.parametrize("name", QUICK)
def test_quick_entries_are_as_claimed(name: str) -> None:
    result = audit_entry(name, seed=5)
    assert result.passed, result.verdict
    evidence = result.evidence
    assert evidence is not None
    assert evidence.caught <= REQUIRED_POWER
    assert 0.0 < evidence.epsilon_lower <= evidence.claimed_epsilon
    assert evidence.fit is not None
    claimed = math.sqrt(evidence.claim.mu**2 + 2 * evidence.claim.rho)
    assert evidence.fit.mu == pytest.approx(claimed, rel=0.05)
    assert evidence.fit.lower < evidence.fit.mu < evidence.fit.upper


@pytest.mark.slow
def test_everything_in_the_catalogue_is_as_claimed() -> None:
    report = audit_all(seed=6, workers=2)
    assert report.passed, [result.verdict for result in report.results if not result.passed]
    assert [result.name for result in report.results] == [e.name for e in audited_entries()]
    assert report.picture().startswith("<svg")


def test_processes_share_the_audits_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    few = [entry(name) for name in ("measure_gaussian", "BinaryTree", "measure_discrete_gaussian")]
    monkeypatch.setattr("dpstream.audit.run.audited_entries", lambda: few)
    reports = [audit_all(seed=6, workers=workers) for workers in (1, 2)]
    told = [[dict(result.to_json()) for result in report.results] for report in reports]
    for result in (*told[0], *told[1]):
        del result["seconds"]
    assert told[0] == told[1]
    assert [result["name"] for result in told[0]] == [found.name for found in few]
    # Too little time for all is too little for each, however many share it.
    short = audit_all(seed=6, workers=2, budget_seconds=1e-3)
    assert not short.passed
    assert all(result.verdict.startswith("no verdict") for result in short.results)
    with pytest.raises(ConfigurationError, match="workers is 0"):
        audit_all(workers=0)


def test_everything_that_sees_data_has_an_attack() -> None:
    assert [found.name for found in audited_entries() if attack_of(found.name) is None] == []


@pytest.mark.parametrize(
    "name",
    [
        "POCP",
        "FollowTheLeader",
        pytest.param("PrivIncERM", marks=pytest.mark.slow),
        pytest.param("DecayedRelease", marks=pytest.mark.slow),
        pytest.param("SlidingWindowRelease", marks=pytest.mark.slow),
    ],
)
def test_learners_pass_short_audits_without_a_verdict(name: str) -> None:
    """Few runs: nothing may fail, and for lack of power nothing is said."""
    attack = attack_of(name)
    assert attack is not None
    evidence = attack(24, Noise.insecure(11))
    assert [str(finding) for finding in evidence.findings if not finding.passed] == []
    assert evidence.reached > 0.95
    assert not evidence.has_power


def test_results_are_plain_json_and_have_a_picture() -> None:
    result = audit_entry("measure_gaussian", seed=5)
    told = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert told["passed"] is True
    assert told["power"]["scale_error_caught"] < 0.05
    assert told["measured"]["mu_interval"][0] < told["claim"]["mu"]
    assert all(finding["passed"] for finding in told["findings"])
    curves = told["trade_off"]
    assert len({len(curve) for curve in curves.values()}) == 1
    assert len(curves["missed"]) > 50
    assert trade_off_picture(result).startswith("<svg")


def test_the_measured_curve_lies_above_the_claimed_one() -> None:
    evidence = audit_entry("measure_gaussian", seed=5).evidence
    assert evidence is not None
    alarms, _, _, high = evidence.trade_off()
    # The band is pointwise: 97.5 % each; a wrong claim would lie above it over a whole stretch.
    assert (high >= evidence.claimed_trade_off(alarms)).mean() > 0.9


def test_without_power_there_is_no_verdict() -> None:
    result = audit_entry("BinaryTree", budget_seconds=0.0, seed=5)
    assert not result.passed
    assert result.verdict.startswith("no verdict: would have caught")


def test_a_verdict_says_how_much_of_the_claim_was_reached() -> None:
    evidence = audit_entry("measure_gaussian", seed=5).evidence
    assert evidence is not None
    whole, part = (
        judged("x", "stream", replace(evidence, reached=share), seconds=0.0).verdict
        for share in (1.0, 0.4)
    )
    assert "of the claim" not in whole
    assert "reach 40% of the claim, so that worse ones would have to be 2.5 times" in part


def test_sets_and_strangers_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="never sees data"):
        audit_entry("L2Ball")
    with pytest.raises(ConfigurationError, match="has no 'nothing'"):
        audit_entry("nothing")


def test_a_configured_learner_is_as_claimed_at_its_own_budget() -> None:
    result = audit_learner(running_sum(), seed=7)
    assert result.passed, result.verdict
    assert result.evidence is not None
    assert result.evidence.reached > 0.99


def test_a_configured_learner_whose_fits_follow_its_releases_is_as_claimed() -> None:
    # Its fits lie around the model before: the exact values differ from run to run.
    learner = DecayedRelease(
        domain=Domain([Numeric("x", lower=-1.0, upper=1.0)], LabelTarget("y", ("no", "yes"))),
        budget=Budget(epsilon=1.0, delta=1e-6),
        unit=Unit(),
        neighbours=Neighbours.ZERO_OUT,
        horizon=None,
        loss=LogisticLoss(),
        block_records=4,
        ridge=1.0,
        radius=2.0,
        decay=0.9,
    )
    result = audit_learner(learner, seed=10)
    assert result.evidence is not None
    assert [str(finding) for finding in result.evidence.findings if not finding.passed] == []


def test_long_horizons_are_attacked_short_and_say_so() -> None:
    short, notes = shortened(running_sum(horizon=100_000))
    assert short.horizon == TICKS
    assert "100,000" in notes[0]
    assert shortened(running_sum()) == (running_sum(), ())


def test_refits_that_lie_too_far_apart_for_a_short_stream_are_drawn_together() -> None:
    learner = PrivIncERM(
        domain=Domain.vectors(2, norm_bound=1.0, target_bound=1.0),
        budget=Budget(epsilon=1.0, delta=1e-6),
        unit=Unit(),
        neighbours=Neighbours.ZERO_OUT,
        horizon=800,
        loss=SquaredLoss(),
        constraint=L2Ball(dimension=2, radius=1.0),
        solver=MomentRegression(),
        tick_records=10,
        refit_every=20,
    )
    short, notes = shortened(learner)
    assert (short.horizon, short.refit_every) == (TICKS, TICKS // 4)
    assert "a refit every 3 ticks instead of 20" in notes[0]


def test_expiring_learners_are_attacked_while_records_live() -> None:
    learner = running_sum(
        horizon=None, strategy=WindowTree(4), count=False, neighbours=Neighbours.ZERO_OUT
    )
    evidence = learner_evidence(learner, runs=200, noise=Noise.insecure(8), least_share=0.99)
    assert [str(finding) for finding in evidence.findings if not finding.passed] == []
    assert "attacked up to tick" in evidence.neighbours


def test_pure_noise_is_left_to_its_mechanisms_audit() -> None:
    learner = running_sum(noise=NoiseKind.SPHERICAL_LAPLACE, budget=Budget(epsilon=1.0, delta=0.0))
    result = audit_learner(learner, seed=9)
    assert not result.passed
    assert "--mechanism" in result.verdict
    assert result.to_json()["verdict"] == result.verdict
    with pytest.raises(ConfigurationError, match="no picture"):
        trade_off_picture(result)


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_learner_with_a_wrong_scale_is_caught(factor: float) -> None:
    learner = running_sum()
    object.__setattr__(learner.sum, "sigma", learner.sum.sigma * factor)
    evidence = learner_evidence(learner, runs=300, noise=Noise.insecure(9), least_share=0.95)
    assert any(not finding.passed for finding in evidence.findings)


class Telling(PrivIncReg1):
    """Publishes the exact sums of its encoder beside the model."""

    def release(self, state, tick, noise):
        kept = state.sum.encoder.snapshot()
        secret = float(kept["sum_high"].sum() + kept["sum_low"].sum())
        outcome = super().release(state, tick, noise)
        return replace(outcome, model={**outcome.model, "debug": secret})


def test_a_learner_that_tells_its_secret_is_caught() -> None:
    failed: dict[type[PrivIncReg1], list[str]] = {}
    for kind in (PrivIncReg1, Telling):
        learner = kind(
            domain=Domain.vectors(1, norm_bound=1.0, target_bound=1.0),
            budget=Budget(epsilon=1.0, delta=1e-6),
            unit=Unit(),
            neighbours=Neighbours.ZERO_OUT,
            horizon=4,
            strategy="binary_tree",
            intervals=False,
            tick_records=16,
        )
        evidence = learner_evidence(learner, runs=400, noise=Noise.insecure(10))
        failed[kind] = [finding.name for finding in evidence.findings if not finding.passed]
    caught = ["released numbers that bypass the measurements", "released models: epsilon proved"]
    assert failed == {PrivIncReg1: [], Telling: caught}


def test_a_unit_of_an_expiring_sum_is_sought_among_live_records() -> None:
    """More records than the window has ticks: none of them may lie where it has expired."""
    user = Unit(kind="user", column="who", cap=5, period="window")
    learner = running_sum(horizon=None, strategy=WindowTree(4), unit=user)
    found = list(placements(learner, 12))
    assert len(found) > 12
    for place in found:
        assert sum(place.counts) == 5
        assert not any(place.counts[: place.last - 4])
    evidence = learner_evidence(learner, runs=64, noise=Noise.insecure(3))
    assert evidence.findings[0].passed, str(evidence.findings[0])


@pytest.mark.parametrize("name", SHORT_LEARNERS)
def test_equal_measurements_lead_to_equal_models(name: str) -> None:
    """Of worlds forced along one transcript; the control is in ``testing.control_learner``."""
    learner, _ = shortened(SHORT_LEARNERS[name].make())
    visible, _ = gaussian_twin(learner)
    ticks = min(SHORT_LEARNERS[name].ticks or TICKS, learner.horizon or TICKS)
    domain = learner.domain
    pairs = record_pairs(domain.dimension, domain.target_count, learner.neighbours)
    places = list(placements(visible, ticks))
    for pair, place in itertools.product((pairs[0], pairs[-1]), (places[0], places[-1])):
        without, present = white_boxes(learner_run(visible, pair, place))
        assert (without.exact != present.exact).any()
        assert len(without.told) > ticks
        for finding in repeated_findings(without, present):
            assert finding.passed, str(finding)
