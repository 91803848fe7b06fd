"""Attacks on released numbers: statistics that a broken mechanism cannot pass.

An attack sees many independent runs of a mechanism in two worlds, without and with one record,
and the law that the mechanism claims: outputs are Gaussian with a known covariance, and the
record moves them by a known shift. Each attack returns findings, and a finding passes if its
statistic lies within limits that an honest mechanism leaves with probability at most
``false_alarm``. Limits are two-sided: too much noise is found as well as too little.

No attack is enough alone. Noise drawn again for a node that was released before passes the
likelihood ratio, because every single output has the right law; averaging over outputs, and the
correlations between them, tell.
"""

import math

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.stats import beta, chi2, gamma, kstest, norm

from dpstream.arrays import FloatArray
from dpstream.audit.finding import Finding


def variance_finding(name: str, values: FloatArray, claim: float, *, false_alarm: float) -> Finding:
    """Sample variance over the claimed one: chi-squared over its degrees of freedom.

    Args:
        name: of the finding.
        values: independent normal numbers of any mean.
        claim: their claimed variance.
        false_alarm: the probability that an honest sample fails.
    """
    lower, upper = _mean_square_limits(values.size - 1, false_alarm)
    return Finding(name, float(np.var(values, ddof=1)) / claim, lower, upper)


def _mean_square_limits(freedom: int, false_alarm: float) -> tuple[float, float]:
    """Limits of the mean of that many squares of standard normals."""
    low, high = float(chi2.ppf(false_alarm / 2, freedom)), float(chi2.isf(false_alarm / 2, freedom))
    return low / freedom, high / freedom


def separation_finding(
    name: str, without: FloatArray, present: FloatArray, claim: float, *, false_alarm: float
) -> Finding:
    """How many standard deviations apart two worlds are: the empirical ``mu``.

    For normal statistics of equal variance the means' difference is normal and the pooled
    variance chi-squared; each gets half of the false alarm.

    Args:
        name: of the finding.
        without: the statistic in the world without the record.
        present: the statistic in the world with it.
        claim: the claimed separation.
        false_alarm: the probability that an honest sample fails.
    """
    freedom = without.size + present.size - 2
    squares = np.sum((without - without.mean()) ** 2) + np.sum((present - present.mean()) ** 2)
    gap, spread = float(present.mean() - without.mean()), math.sqrt(float(squares) / freedom)
    # Numbers without any noise are told apart for certain.
    apart = gap / spread if spread > 0.0 else math.copysign(math.inf, gap) if gap else 0.0
    wobble = float(norm.isf(false_alarm / 4)) * math.sqrt(1 / without.size + 1 / present.size)
    low, high = (math.sqrt(limit) for limit in _mean_square_limits(freedom, false_alarm / 2))
    lower = claim - wobble
    return Finding(name, apart, lower / (high if lower > 0 else low), (claim + wobble) / low)


def likelihood_ratio_attack(
    without: FloatArray,
    present: FloatArray,
    *,
    shift: FloatArray,
    covariance: FloatArray,
    false_alarm: float,
) -> list[Finding]:
    """The best test of one record if the claimed law is true.

    ``Z = shift^T covariance^-1 output`` has variance ``mu^2`` and is ``mu`` standard deviations
    apart between the worlds, for ``mu^2 = shift^T covariance^-1 shift``.

    Args:
        without: outputs without the record, runs by numbers.
        present: outputs with it.
        shift: how the record moves the outputs.
        covariance: the claimed covariance of the outputs.
        false_alarm: the probability that an honest mechanism fails any of the findings.
    """
    direction = np.linalg.solve(covariance, shift)
    mu = math.sqrt(float(shift @ direction))
    null, alternative = without @ direction, present @ direction
    return [
        separation_finding("likelihood ratio", null, alternative, mu, false_alarm=false_alarm / 2),
        variance_finding("likelihood ratio's variance", null, mu**2, false_alarm=false_alarm / 2),
    ]


def averaging_attack(
    without: FloatArray,
    present: FloatArray,
    *,
    shift: FloatArray,
    covariance: FloatArray,
    false_alarm: float,
) -> list[Finding]:
    """Average the outputs as if their noise were independent.

    Where outputs share noise by claim, averaging gains little; where noise was drawn again for
    each of them, it gains far more than claimed. Arguments as in ``likelihood_ratio_attack``.
    """
    direction = shift / np.diag(covariance)
    variance = float(direction @ covariance @ direction)
    mu = float(direction @ shift) / math.sqrt(variance)
    null, alternative = without @ direction, present @ direction
    return [
        separation_finding("averaging", null, alternative, mu, false_alarm=false_alarm / 2),
        variance_finding("average's variance", null, variance, false_alarm=false_alarm / 2),
    ]


def whiteness_attack(
    outputs: FloatArray, *, mean: FloatArray, covariance: FloatArray, false_alarm: float
) -> list[Finding]:
    """Whitened outputs are independent standard normals.

    Each second moment is compared with the identity: a product is the difference of two squares,
    ``z_i z_j = (a^2 - b^2) / 2`` for independent normal ``a, b``, so chi-squared limits hold for
    it too. The union over all pairs shares the false alarm.

    Args:
        outputs: runs by numbers.
        mean: their exact mean.
        covariance: their claimed covariance.
        false_alarm: the probability that an honest mechanism fails any of the findings.
    """
    runs, size = outputs.shape
    factor = cholesky(covariance, lower=True)
    white = np.asarray(solve_triangular(factor, (outputs - mean).T, lower=True), np.float64)
    moments = white @ white.T / runs
    # One square on the diagonal, two off it: at most size^2 squares in all, two sides each.
    low, high = _mean_square_limits(runs, false_alarm / 2 / size**2)
    worst, off = max(1 - low, high - 1), (high - low) / 2
    diagonal = np.abs(np.diag(moments) - 1).max()
    correlation = np.abs(moments - np.diag(np.diag(moments))).max()
    shape = _uniformity(norm.cdf(white.ravel()))
    return [
        Finding("white variance", float(diagonal), 0.0, worst),
        Finding("white correlation", float(correlation), 0.0, off),
        Finding("normality (Kolmogorov-Smirnov)", shape, false_alarm / 2, 1.0),
    ]


def _uniformity(values: object) -> float:
    """Probability that uniform numbers lie as far from uniform (Kolmogorov-Smirnov)."""
    return float(kstest(np.asarray(values, np.float64), "uniform").pvalue)


def spherical_attack(noise: FloatArray, *, scale: float, false_alarm: float) -> list[Finding]:
    """Noise of density ``exp(-|v| / scale)``: its norm is Gamma, its direction uniform.

    The squared projection of a uniform direction on any axis is Beta(1/2, (d-1)/2). Two axes are
    tried, a coordinate's and the diagonal: independent Laplace coordinates fail on one or both.

    Args:
        noise: independent draws, runs by dimension (at least 2).
        scale: the claimed scale.
        false_alarm: the probability that an honest mechanism fails any of the findings.
    """
    dimension = noise.shape[1]
    length = np.linalg.norm(noise, axis=1)
    direction = noise / length[:, None]
    axis = np.zeros(dimension)
    axis[0] = 1.0
    law = beta(0.5, (dimension - 1) / 2)
    level = false_alarm / 4
    signs = float(np.sum(noise[:, 0] > 0))
    # Hoeffding's bound.
    spread = math.sqrt(noise.shape[0] * math.log(2 / level) / 2)
    middle = noise.shape[0] / 2
    findings = [
        Finding(
            "norm (Kolmogorov-Smirnov)",
            _uniformity(gamma(dimension).cdf(length / scale)),
            level,
            1.0,
        ),
        Finding("signs", signs, middle - spread, middle + spread),
    ]
    for name, along in (("coordinate", axis), ("diagonal", np.full(dimension, dimension**-0.5))):
        value = _uniformity(law.cdf((direction @ along) ** 2))
        findings.append(Finding(f"direction, {name}", value, level, 1.0))
    return findings
