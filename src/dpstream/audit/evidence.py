"""What one attack brings home, and the judgement on it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.audit.confidence import (
    GaussianFit,
    epsilon_lower_bound,
    proportion_bounds,
)
from dpstream.audit.finding import Finding
from dpstream.privacy.curve import PrivacyCurve
from dpstream.privacy.trade_off import least_missed

REQUIRED_POWER = 0.05
"""An audit must be able to catch a noise scale that is wrong by this much."""

GAUSSIAN_TOLERANCE = 0.05
"""How far a fitted mu may lie from the claim, in either direction."""

_PICTURE_POINTS = 120


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything an audit saw of one mechanism.

    Attributes:
        claim: what the mechanism says it reveals of a unit, for its whole life.
        delta: at which epsilon is stated.
        neighbours: the worst neighbouring streams found, in words.
        searched: how many pairs of neighbours were tried.
        reached: the share of the claim that the worst of them reaches, by exact arithmetic.
        findings: every statistic with its limits.
        without: scores of the runs without the record: larger speaks for the record.
        present: scores of the runs with it.
        caught: the smallest relative error of the noise scale that would have been caught.
        false_alarm: the probability that an honest mechanism fails any finding.
        fit: the fitted mu, for Gaussian noise.
    """

    claim: PrivacyCurve
    delta: float
    neighbours: str
    searched: int
    reached: float
    findings: tuple[Finding, ...]
    without: FloatArray
    present: FloatArray
    caught: float
    false_alarm: float
    fit: GaussianFit | None = None

    @cached_property
    def claimed_epsilon(self) -> float:
        """The claim's epsilon at ``delta``."""
        return self.claim.epsilon(self.delta)

    @cached_property
    def epsilon_lower(self) -> float:
        """A lower bound of the true epsilon at ``delta`` that assumes no law of the noise."""
        return epsilon_lower_bound(
            self.without, self.present, delta=self.delta, false_alarm=self.false_alarm
        )

    @property
    def has_power(self) -> bool:
        """Whether a scale wrong by ``REQUIRED_POWER`` would have been caught."""
        return self.caught <= REQUIRED_POWER

    def trade_off(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Measured error rates of threshold tests: first kind, second kind with its bounds."""
        points = np.quantile(
            np.concatenate([self.without, self.present]), np.linspace(0.0, 1.0, _PICTURE_POINTS)
        )
        alarms = 1.0 - np.searchsorted(np.sort(self.without), points, "right") / self.without.size
        missed = np.searchsorted(np.sort(self.present), points, "right").astype(np.float64)
        low, high = proportion_bounds(missed, self.present.size, level=0.025)
        return alarms, missed / self.present.size, low, high

    def claimed_trade_off(self, alarms: FloatArray) -> FloatArray:
        """The least errors of the second kind that the claim allows."""
        largest = self.claimed_epsilon if math.isfinite(self.claimed_epsilon) else 20.0
        return least_missed(self.claim, alarms, largest=largest)


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """The outcome of one audit: JSON-ready, with a picture.

    Attributes:
        name: what was audited.
        kind: mechanism, strategy, learner, solver or stream.
        passed: whether every finding passed and the audit could have told otherwise.
        verdict: one line.
        seconds: how long it took.
        evidence: what was seen; None if nothing could be attacked.
        notes: what the audit did differently from the stream it stands for.
    """

    name: str
    kind: str
    passed: bool
    verdict: str
    seconds: float
    evidence: Evidence | None
    notes: tuple[str, ...] = field(default=())

    def to_json(self) -> Mapping[str, Any]:
        """The result as plain values."""
        outcome: dict[str, Any] = {
            "name": self.name,
            "kind": self.kind,
            "passed": self.passed,
            "verdict": self.verdict,
            "seconds": round(self.seconds, 3),
            "notes": list(self.notes),
        }
        evidence = self.evidence
        if evidence is None:
            return outcome
        fit = evidence.fit
        curve = evidence.claim
        return outcome | {
            "claim": {
                "epsilon": _plain(evidence.claimed_epsilon),
                "delta": evidence.delta,
                "mu": curve.mu or None,
                "rho": curve.rho or None,
            },
            "measured": {
                "epsilon_lower_bound": evidence.epsilon_lower,
                "mu": None if fit is None else fit.mu,
                "mu_interval": None if fit is None else [fit.lower, fit.upper],
                "share_of_claim_reached": evidence.reached,
            },
            "neighbours": {"worst": evidence.neighbours, "searched": evidence.searched},
            "runs": int(evidence.without.size + evidence.present.size),
            "power": {
                "scale_error_caught": _plain(evidence.caught),
                "required": REQUIRED_POWER,
                "statement": power_statement(evidence),
            },
            "false_alarm": evidence.false_alarm,
            "findings": [finding.to_json() for finding in evidence.findings],
            "trade_off": _curves(evidence),
        }


def _curves(evidence: Evidence) -> Mapping[str, list[float]]:
    """The attacker's measured errors with their band, and the least that the claim allows."""
    alarms, missed, low, high = evidence.trade_off()
    return {
        "false_alarms": alarms.tolist(),
        "missed": missed.tolist(),
        "missed_lower": low.tolist(),
        "missed_upper": high.tolist(),
        "least_missed_by_claim": evidence.claimed_trade_off(alarms).tolist(),
    }


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None


def power_statement(evidence: Evidence) -> str:
    """What the audit would have caught."""
    if not math.isfinite(evidence.caught):
        return "could not have caught any wrong noise scale"
    return (
        f"would have caught a noise scale wrong by {evidence.caught:.1%} "
        "(missed once in a thousand audits)"
    )


def _unreached(evidence: Evidence) -> str:
    """What an attack leaves open whose worst neighbours stay far below the claim."""
    if evidence.reached >= 1.0 - GAUSSIAN_TOLERANCE:
        return ""
    return (
        f"; the worst neighbours tried reach {evidence.reached:.0%} of the claim, so that worse "
        f"ones would have to be {1.0 / max(evidence.reached, 1e-9):.3g} times as bad to break it"
    )


def judged(
    name: str, kind: str, evidence: Evidence, *, seconds: float, notes: tuple[str, ...] = ()
) -> AuditResult:
    """The judgement on an audit's evidence."""
    failed = [finding for finding in evidence.findings if not finding.passed]
    proved = evidence.epsilon_lower
    if proved > evidence.claimed_epsilon * (1.0 + 1e-9):
        verdict = (
            f"epsilon is at least {proved:.4g}, and {evidence.claimed_epsilon:.4g} was claimed"
        )
    elif failed:
        verdict = f"not as claimed: {failed[0]}"
    elif not evidence.has_power:
        verdict = f"no verdict: {power_statement(evidence)}; allow more time"
    else:
        verdict = f"as claimed; {power_statement(evidence)}{_unreached(evidence)}"
    passed = verdict.startswith("as claimed")
    return AuditResult(
        name=name,
        kind=kind,
        passed=passed,
        verdict=verdict,
        seconds=seconds,
        evidence=evidence,
        notes=notes,
    )
