"""The whole battery against measurements that claim independent Gaussian noise."""

import math
from dataclasses import dataclass

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.audit.attack import likelihood_ratio_attack, separation_finding, whiteness_attack
from dpstream.audit.confidence import caught_scale_error, fit_gaussian
from dpstream.audit.evidence import GAUSSIAN_TOLERANCE, Evidence
from dpstream.audit.finding import Finding
from dpstream.privacy.curve import PrivacyCurve

FALSE_ALARM = 1e-6
"""The probability that an audit fails an honest mechanism."""

_LEAST_VARIANCE = 1e-12

_PARTS = 5
# Likelihood ratio, two whiteness attacks, everything seen, and what the caller adds.


@dataclass(frozen=True, kw_only=True)
class GaussianWorlds:
    """Measurements of two neighbouring streams, and the law that is claimed for them.

    Attributes:
        without: runs by numbers, in the world without the unit.
        present: the same with it.
        mean: the exact mean without it.
        shift: the exact shift by it.
        deviation: the claimed standard deviation of every number.
    """

    without: FloatArray
    present: FloatArray
    mean: FloatArray
    shift: FloatArray
    deviation: FloatArray

    @property
    def separation(self) -> float:
        """The shift in units of the claimed noise: the mu of this pair of neighbours."""
        return float(np.linalg.norm(self.shift / self.deviation))


@dataclass(frozen=True, kw_only=True)
class Search:
    """How the neighbours were found.

    Attributes:
        worst: the worst pair, in words.
        tried: how many pairs were tried.
        separation: the worst pair's exact shift over the claimed noise.
        least_share: the share of the claim that the worst pair must reach.
    """

    worst: str
    tried: int
    separation: float
    least_share: float = 1.0 - GAUSSIAN_TOLERANCE


def share_of(numbers: float) -> float:
    """One part of the false alarm, for that many parts of equal weight."""
    return FALSE_ALARM / numbers


def gaussian_evidence(
    worlds: GaussianWorlds,
    *,
    claim: PrivacyCurve,
    claimed_mu: float,
    delta: float,
    search: Search,
    pooled: bool = False,
    further: tuple[Finding, ...] = (),
) -> Evidence:
    """Attack two worlds of Gaussian measurements.

    Args:
        worlds: what was measured.
        claim: of the mechanism.
        claimed_mu: its Gaussian part.
        delta: at which epsilon is stated.
        search: how the neighbours were found; they must come close to the claim.
        pooled: fit the noise on all measured numbers, not on the worst direction alone: fewer
            runs are needed. The direction is tested by the likelihood ratio all the same.
        further: findings of further attacks, of a fifth of the false alarm together.
    """
    level = share_of(_PARTS)
    unit = worlds.deviation
    clean = (worlds.without - worlds.mean) / unit
    moved = (worlds.present - worlds.mean - worlds.shift) / unit
    shift = worlds.shift / unit
    separation = worlds.separation
    direction = shift / separation
    size = unit.size
    identity = np.eye(size)
    zero = np.zeros(size)
    alone = clean @ direction
    findings = [
        white_box_finding(search, claimed_mu),
        *likelihood_ratio_attack(
            clean, moved + shift, shift=shift, covariance=identity, false_alarm=level
        ),
        *whiteness_attack(clean, mean=zero, covariance=identity, false_alarm=level),
        *whiteness_attack(moved, mean=zero, covariance=identity, false_alarm=level),
        everything_seen(clean, moved + shift, claimed_mu, false_alarm=level),
        *further,
    ]
    noise = np.concatenate([clean.ravel(), moved.ravel()]) if pooled else None
    deviations = np.concatenate([alone, moved @ direction]) if noise is None else noise
    fit = fit_gaussian(
        deviations,
        separation=search.separation,
        freedom=deviations.size,
        false_alarm=level,
    )
    findings.append(fitted_finding(fit.mu, claimed_mu, search))
    freedom = deviations.size if pooled else alone.size - 1
    return Evidence(
        claim=claim,
        delta=delta,
        neighbours=search.worst,
        searched=search.tried,
        reached=search.separation / claimed_mu,
        findings=tuple(findings),
        without=alone,
        present=moved @ direction + separation,
        # The likelihood ratio's variance has half of its part of the false alarm.
        caught=caught_scale_error(freedom, false_alarm=level / 2),
        false_alarm=FALSE_ALARM,
        fit=fit,
    )


def white_box_finding(search: Search, claimed_mu: float) -> Finding:
    """The worst neighbours' exact shift over the claim: neither above it nor far below."""
    return Finding(
        "white box: worst shift over claim",
        search.separation / claimed_mu,
        search.least_share,
        1.0 + 1e-9,
    )


def fitted_finding(mu: float, claimed_mu: float, search: Search) -> Finding:
    """The fitted mu within 5 % of the claim, on either side.

    Where the neighbours tried cannot reach the claim (a stream of a few ticks of a mechanism
    for millions), the lower limit falls with what they reach.
    """
    least = (1.0 - GAUSSIAN_TOLERANCE) * min(1.0, search.separation / claimed_mu)
    if search.least_share >= 1.0 - GAUSSIAN_TOLERANCE:
        least = 1.0 - GAUSSIAN_TOLERANCE
    return Finding("fitted mu over claim", mu / claimed_mu, least, 1.0 + GAUSSIAN_TOLERANCE)


def everything_seen(
    without: FloatArray, present: FloatArray, claimed_mu: float, *, false_alarm: float
) -> Finding:
    """Weigh all numbers by how far they were seen to move, claims aside.

    The first half of the runs shows how the unit moves every number; the second half is told
    apart by it. Finds leaks at places that the claim does not mention. No more separation than
    the claim may come out; less is no fault.

    Args:
        without: numbers over their noise, runs by numbers.
        present: the same with the unit.
        claimed_mu: the largest honest separation.
        false_alarm: the probability that an honest mechanism fails.
    """
    half, other = without.shape[0] // 2, present.shape[0] // 2
    seen = present[:other].mean(axis=0) - without[:half].mean(axis=0)
    # What is within the noise of its own mean would only add noise.
    seen[np.abs(seen) < 3.0 * math.sqrt(1.0 / half + 1.0 / other)] = 0.0
    if not seen.any():
        return Finding("everything seen", 0.0, -math.inf, claimed_mu)
    # What shows less noise than it claims tells more.
    seen /= np.maximum(without[:half].var(axis=0), _LEAST_VARIANCE)
    found = separation_finding(
        "everything seen",
        without[half:] @ seen,
        present[other:] @ seen,
        claimed_mu,
        false_alarm=false_alarm,
    )
    return Finding(found.name, found.statistic, -math.inf, found.upper)
