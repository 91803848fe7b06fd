"""The audit of objective perturbation, by the exact law of its minimisers.

On null records but one, the perturbed gradient at the released point is minus the perturbation:
the point shows the noise itself, and its density is known in both worlds.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.stats import norm

from dpstream.arrays import FloatArray
from dpstream.audit.attack import variance_finding, whiteness_attack
from dpstream.audit.confidence import caught_scale_error
from dpstream.audit.evidence import Evidence
from dpstream.audit.finding import Finding
from dpstream.audit.gaussian import FALSE_ALARM, share_of
from dpstream.audit.record import row
from dpstream.audit.strategy import AUDIT_BUDGET
from dpstream.audit.watch import real
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.geometry.l2_ball import L2Ball
from dpstream.losses.huber import PseudoHuberLoss
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.bounds import curve_of
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.solvers.objective_perturbation import ObjectivePerturbation
from dpstream.solvers.plan import Plan
from dpstream.solvers.problem import Problem

DIMENSION = 12
RECORDS = 24
THRESHOLD = 0.05
RIDGE = 0.2
POINTS = 200_001


class PerturbedLaw:
    """The law of the minimiser where one record has its features along the first axis.

    Attributes:
        target: that record's target.
        modulus: of the whole objective: the average one's times the number of records.
        sigma: of the perturbation.
    """

    def __init__(self, *, target: float, modulus: float, sigma: float) -> None:
        self.target, self.modulus, self.sigma = target, modulus, sigma
        self._loss = PseudoHuberLoss(threshold=THRESHOLD)

    def perturbation(self, points: FloatArray) -> FloatArray:
        """The perturbation, in its standard deviations, that leads to each of these points."""
        slopes = self.modulus * points
        slopes[:, 0] += self._loss.derivative(points[:, 0], np.full(len(points), self.target))
        return -slopes / self.sigma

    def log_density(self, first: FloatArray) -> FloatArray:
        """Of the first coordinate; the others have the same law in every world."""
        targets = np.full(first.size, self.target)
        slope = self.modulus * first + self._loss.derivative(first, targets)
        bend = self.modulus + self._loss.second_derivative(first, targets)
        return norm.logpdf(slope / self.sigma) + np.log(bend / self.sigma)


def exact_delta(first: PerturbedLaw, second: PerturbedLaw, epsilon: float) -> float:
    """``int (p - e^epsilon q)_+`` of two laws: the true delta of these neighbours."""
    reach = (14.0 * first.sigma + 4.0 * THRESHOLD) / first.modulus
    points = np.linspace(-reach, reach, POINTS)
    p, q = (np.exp(law.log_density(points)) for law in (first, second))
    return float(np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0.0), points))


def audited_problem() -> Problem:
    """Many null records, and one that pulls as hard as any."""
    return Problem(
        loss=PseudoHuberLoss(threshold=THRESHOLD),
        convex_set=L2Ball(dimension=DIMENSION, radius=50.0),
        domain=Domain.vectors(DIMENSION, norm_bound=1.0, target_bound=1.0),
        records=RECORDS,
        neighbours=Neighbours.REPLACE,
        unit=Unit(),
    )


def objective_findings(
    points: tuple[FloatArray, FloatArray],
    laws: tuple[PerturbedLaw, PerturbedLaw],
    *,
    epsilon: float,
    delta: float,
) -> list[Finding]:
    """Attack minimisers of both worlds that claim these laws, and the laws themselves."""
    found = [
        Finding(
            "white box: exact delta over claim, " + name,
            exact_delta(one, other, epsilon) / delta,
            -math.inf,
            1.0,
        )
        for name, one, other in (("present", laws[1], laws[0]), ("without", laws[0], laws[1]))
    ]
    for name, made, law in zip(("without", "present"), points, laws, strict=True):
        noise = law.perturbation(made.copy())
        title = f"variance of the perturbation, {name}"
        found.append(variance_finding(title, noise.ravel(), 1.0, false_alarm=share_of(8)))
        found += whiteness_attack(
            noise,
            mean=np.zeros(noise.shape[1]),
            covariance=np.eye(noise.shape[1]),
            false_alarm=share_of(4),
        )
    return found


def objective_evidence(runs: int, noise: Noise) -> Evidence:
    """A record whose target lies above every score, or below."""
    problem = audited_problem()
    solver = ObjectivePerturbation(ridge=RIDGE)
    plan = solver.plan(problem, AUDIT_BUDGET)
    laws = (_law(plan, -1.0), _law(plan, 1.0))
    points = (
        _released(solver, plan, -1.0, runs, noise.child("without")),
        _released(solver, plan, 1.0, runs, noise.child("present")),
    )
    (event,) = plan.events
    claim = curve_of(event)
    found = objective_findings(
        points, laws, epsilon=claim.epsilon(AUDIT_BUDGET.delta), delta=AUDIT_BUDGET.delta
    )

    def score(made: FloatArray) -> FloatArray:
        return laws[1].log_density(made[:, 0]) - laws[0].log_density(made[:, 0])

    return Evidence(
        claim=claim,
        delta=AUDIT_BUDGET.delta,
        neighbours="a record with features along the first axis, targets 1 and -1",
        searched=1,
        reached=max(finding.statistic for finding in found[:2]),
        findings=tuple(found),
        without=score(points[0]),
        present=score(points[1]),
        caught=caught_scale_error(points[0].size - 1, false_alarm=share_of(8)),
        false_alarm=FALSE_ALARM,
    )


def _law(plan: Plan, target: float) -> PerturbedLaw:
    return PerturbedLaw(
        target=target,
        modulus=float(plan.settings["modulus"]) * plan.problem.records,
        sigma=plan.noise_scales["linear_term"],
    )


def _released(
    solver: ObjectivePerturbation, plan: Plan, target: float, runs: int, noise: Noise
) -> FloatArray:
    rows = np.zeros((RECORDS, plan.problem.domain.width))
    rows[0] = row(np.eye(DIMENSION)[0], np.array([target]))
    batch = Batch(rows, DIMENSION)
    made: list[Any] = []
    for number in range(runs):
        (measured,) = solver.release(plan, batch, noise.child(str(number))).measurements
        made.append(real(measured.value, measured.exponent))
    return np.array(made)


OBJECTIVE_AUDITS: Mapping[str, Callable[[int, Noise], Evidence]] = {
    "ObjectivePerturbation": objective_evidence
}
