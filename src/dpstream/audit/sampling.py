"""The audit of Poisson samples, as noisy gradient descent takes them.

A record takes part in a measurement with a small secret probability: what is measured is a
mixture of two normal laws, which an attacker sees in every step.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np
from scipy.stats import kstest, norm

from dpstream.arrays import FloatArray
from dpstream.audit.attack import variance_finding
from dpstream.audit.confidence import caught_scale_error
from dpstream.audit.evidence import Evidence
from dpstream.audit.finding import Finding
from dpstream.audit.gaussian import FALSE_ALARM, share_of
from dpstream.audit.record import row
from dpstream.audit.strategy import AUDIT_BUDGET
from dpstream.audit.watch import WatchedNoise, real
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.geometry.l2_ball import L2Ball
from dpstream.losses.hinge import HingeLoss
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.bounds import curve_of
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.solvers.noisy_sgd import NoisySgd
from dpstream.solvers.plan import Plan
from dpstream.solvers.problem import Problem

RECORDS = 16
EXPECTED = 4
STEPS = 8
DIMENSION = 2
RADIUS = 0.45


def sampled_evidence(runs: int, noise: Noise) -> Evidence:
    """Gradients of samples, on a loss that is linear on the set, for a record or none."""
    problem = Problem(
        loss=HingeLoss(),
        convex_set=L2Ball(dimension=DIMENSION, radius=RADIUS),
        domain=Domain.vectors(DIMENSION, norm_bound=1.0, target_bound=1.0),
        records=RECORDS,
        neighbours=Neighbours.ZERO_OUT,
        unit=Unit(),
    )
    solver = NoisySgd(steps=STEPS, batch_size=EXPECTED)
    plan = solver.plan(problem, AUDIT_BUDGET)
    (event,) = plan.events
    claim = curve_of(event)
    sigma, rate = plan.noise_scales["gradient_sum"], float(plan.settings["rate"])
    without, _ = _world(solver, plan, noise.child("without"), runs=runs, present=False)
    present, exact = _world(solver, plan, noise.child("present"), runs=runs, present=True)
    shift = float(np.linalg.norm(exact, axis=2).max())
    taken = np.linalg.norm(exact, axis=2) > shift / 2.0
    # The record's features, and its gradient, lie along the first axis.
    mu = shift / sigma
    seen = -present[:, :, 0] / sigma
    level = share_of(6)
    # Hoeffding's bound.
    spread = math.sqrt(math.log(2.0 / level) / (2.0 * taken.size))
    away = np.concatenate([without[:, :, 1:].ravel(), present[:, :, 1:].ravel()]) / sigma
    left = present - exact
    found = [
        Finding("records sampled", float(taken.mean()), rate - spread, rate + spread),
        _mixture("law of the sampled sums", seen.ravel(), mu, rate, level),
        _mixture("law without the record", without[:, :, 0].ravel() / sigma, mu, 0.0, level),
        variance_finding("noise without", without.ravel() / sigma, 1.0, false_alarm=level),
        variance_finding("noise present", left.ravel() / sigma, 1.0, false_alarm=level),
        variance_finding("noise across the record", away, 1.0, false_alarm=level),
    ]

    def score(numbers: FloatArray) -> FloatArray:
        steps = np.log1p(rate * np.expm1(mu * numbers - mu**2 / 2.0))
        return steps.sum(axis=1)

    return Evidence(
        claim=claim,
        delta=AUDIT_BUDGET.delta,
        neighbours="a record of the whole norm bound, or none",
        searched=1,
        reached=1.0,
        findings=tuple(found),
        without=score(-without[:, :, 0] / sigma),
        present=score(seen),
        caught=caught_scale_error(without.size - 1, false_alarm=level),
        false_alarm=FALSE_ALARM,
    )


def _mixture(name: str, values: FloatArray, mu: float, rate: float, level: float) -> Finding:
    uniform = (1.0 - rate) * norm.cdf(values) + rate * norm.cdf(values - mu)
    chance = float(kstest(np.asarray(uniform, np.float64), "uniform").pvalue)
    return Finding(f"{name} (Kolmogorov-Smirnov)", chance, level, 1.0)


def _world(
    solver: NoisySgd, plan: Plan, noise: Noise, *, runs: int, present: bool
) -> tuple[FloatArray, FloatArray]:
    """Measured and exact sums: runs by steps by coordinates."""
    rows = np.zeros((RECORDS, plan.problem.domain.width))
    if present:
        rows[0] = row(np.eye(DIMENSION)[0], np.ones(1))
    measured = np.empty((runs, STEPS, DIMENSION))
    exact = np.empty_like(measured)
    for number in range(runs):
        watched = WatchedNoise.over(noise.child(str(number)))
        result = solver.release(plan, Batch(rows, DIMENSION), watched)
        for step, each in enumerate(result.measurements):
            measured[number, step] = real(each.value, each.exponent)
            place = ((), each.address)
            exact[number, step] = real(watched.drawn[place], watched.lattices[place])
    return measured, exact


SAMPLING_AUDITS: Mapping[str, Callable[[int, Noise], Evidence]] = {
    "poisson_sample": sampled_evidence
}
