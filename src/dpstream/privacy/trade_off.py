"""Differential privacy as a test of hypotheses: what an attacker can get wrong at least.

The attacker sees everything that is published and must tell which of two neighbouring streams it
came from. A curve bounds from below how often a record is missed, given how often an absent one
is called present (Wasserman and Zhou 2010; Dong, Roth and Su 2022, section 2.3).
"""

import math

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.privacy.curve import PrivacyCurve

_TESTS = 257


def least_missed(curve: PrivacyCurve, alarms: FloatArray, *, largest: float) -> FloatArray:
    """The least rate of missed records at these rates of false alarms, a lower bound.

    Every (epsilon, delta) of the curve is two straight lines that no attacker gets below; the
    bound is the highest of those up to epsilon ``largest``.
    """
    least = np.zeros_like(alarms)
    for epsilon in np.linspace(0.0, max(largest, 1e-3), _TESTS):
        delta = curve.delta(float(epsilon))
        least = np.maximum(least, 1.0 - delta - math.exp(epsilon) * alarms)
        least = np.maximum(least, math.exp(-epsilon) * (1.0 - delta - alarms))
    return least


def best_accuracy(curve: PrivacyCurve) -> float:
    """The largest share of right answers when both streams are equally likely beforehand.

    Half, and half of the total variation distance, which is the curve's delta at epsilon 0.
    """
    return 0.5 + 0.5 * curve.delta(0.0)


def largest_belief(prior: float, epsilon: float) -> float:
    """The most that a belief of probability ``prior`` may become.

    By Bayes' rule odds are multiplied by at most ``exp(epsilon)``, but for outcomes that the
    curve's delta at that epsilon covers.
    """
    odds = prior / (1.0 - prior) * math.exp(epsilon)
    return odds / (1.0 + odds)


def group_curve(curve: PrivacyCurve, *, epsilon: float, delta: float, count: int) -> PrivacyCurve:
    """What is promised of ``count`` units together, who might all be one person's.

    Gaussian noise: shifts add, so ``mu`` is multiplied. Else by the group property of
    (``epsilon``, ``delta``), which the curve keeps: ``count epsilon``, and delta times
    ``(exp(count epsilon) - 1) / (exp(epsilon) - 1)`` (Dwork and Roth 2014, theorem 2.2; Vadhan
    2017, lemma 2.2).
    """
    others = (curve.concentration, curve.failure_mass, curve.pure_steps, curve.exponential_steps)
    if not any(others):
        return PrivacyCurve.gaussian(count * curve.mu)
    whole = count * epsilon
    growth = math.expm1(whole) / math.expm1(epsilon) if whole < 700.0 else math.inf
    return PrivacyCurve.approximate(whole, min(1.0, delta * growth))
