"""Audits of solvers that select: Frank-Wolfe on a polytope, and the LASSO by screening.

Selections have exactly known odds: the exact scores are read from outside, and every outcome's
probability must be proportional to ``exp(score / scale)`` for the claimed scale. Scores are
spread over a few scales, so that an outcome tells as much as it can.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import norm

from dpstream.arrays import FloatArray
from dpstream.audit.attack import variance_finding
from dpstream.audit.confidence import MISS, caught_scale_error
from dpstream.audit.evidence import Evidence
from dpstream.audit.finding import Finding
from dpstream.audit.gaussian import FALSE_ALARM, share_of
from dpstream.audit.strategy import AUDIT_BUDGET
from dpstream.audit.watch import WatchedNoise, real
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.geometry.l1_ball import L1Ball
from dpstream.losses.hinge import SmoothedHingeLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.bounds import curve_of
from dpstream.privacy.curve import PrivacyCurve
from dpstream.privacy.event import ExponentialEvent, RepeatedEvent
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.release import Measurement
from dpstream.solvers.frank_wolfe import FrankWolfe
from dpstream.solvers.lasso import Lasso, rounds_of
from dpstream.solvers.plan import Plan, Solver
from dpstream.solvers.problem import Problem

AXES, STEPS, SPREAD = 6, 16, 40
"""Frank-Wolfe's axes and steps, and how many records spread the scores of its vertices."""

COLUMNS, SELECTIONS, STAIR = 24, 12, 3
"""The LASSO's columns, how many it selects, and by how many records their sums differ."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One run: its measurements, and the exact values behind them."""

    measurements: tuple[Measurement, ...]
    exact: list[FloatArray]

    def steps(self) -> list[tuple[FloatArray, int]]:
        """Every selection's candidates, by their scores, and the index selected."""
        return [
            (scores, int(each.value[0]))
            for scores, each in zip(self.exact, self.measurements, strict=True)
            if scores.size > each.value.size
        ]


def seen_runs(solver: Solver, plan: Plan, batch: Batch, *, runs: int, noise: Noise) -> list[Seen]:
    """Independent runs on one batch."""
    played: list[Seen] = []
    for number in range(runs):
        watched = WatchedNoise.over(noise.child(str(number)))
        result = solver.release(plan, batch, watched)
        played.append(Seen(measurements=result.measurements, exact=watched.values()))
    return played


def scale_finding(
    name: str, steps: list[tuple[FloatArray, int]], scale: float, *, level: float
) -> tuple[Finding, float]:
    """The relative error of the selections' scale, by its score statistic.

    The derivative of the log-probability by the logarithm of the scale is the mean of the scores
    less the selected one, in scales: its sum is a martingale of known variance, which Freedman's
    inequality limits.

    Returns:
        The finding, and the relative error that would have been caught.
    """
    total, information, most = 0.0, 0.0, 0.0
    for scores, index in steps:
        law = selection_law(scores, scale)
        away = (scores - float(law @ scores)) / scale
        total -= float(away[index])
        information += float(law @ away**2)
        most = max(most, float(np.abs(away).max()))
    tail = math.log(2.0 / level)
    limit = most * tail / 3.0 + math.sqrt((most * tail / 3.0) ** 2 + 2.0 * information * tail)
    finding = Finding(name, total / information, -limit / information, limit / information)
    reach = limit + float(norm.isf(MISS)) * math.sqrt(information)
    return finding, reach / information


def selection_law(scores: FloatArray, scale: float) -> FloatArray:
    """The claimed probabilities of the outcomes."""
    weights = np.exp((scores - scores.max()) / scale)
    return weights / weights.sum()


def log_ratio(seen: Seen, without: FloatArray, present: FloatArray, scale: float) -> float:
    """How a run's selections speak for the second list of scores against the first.

    Candidates that were selected before may be gone: those that are left are told by their
    scores, which differ from one another.
    """
    own = without if np.isin(seen.exact[0], without).all() else present
    total = 0.0
    for scores, index in seen.steps():
        left = [int(np.flatnonzero(own == score)[0]) for score in scores]
        laws = [selection_law(each[left], scale) for each in (without, present)]
        total += math.log(laws[1][index]) - math.log(laws[0][index])
    return total


def selection_evidence_of(
    worlds: tuple[list[Seen], list[Seen]],
    plan: Plan,
    *,
    neighbours: str,
    further: tuple[Finding, ...] = (),
    caught: float = 0.0,
) -> Evidence:
    """Attack selections of two worlds whose scores do not follow what was selected before."""
    scale = plan.noise_scales["score"]
    scores = worlds[0][0].exact[0], worlds[1][0].exact[0]
    shift = (scores[1] - scores[0]) / scale
    reached = float(np.ptp(shift)) / selection_epsilon(plan)
    found = [
        Finding("white box: range of the scores' shifts over claim", reached, 0.95, 1.0 + 1e-9)
    ]
    for name, world in zip(("without", "present"), worlds, strict=True):
        steps = [step for run in world for step in run.steps()]
        finding, error = scale_finding(
            f"error of the selections' scale, {name}", steps, scale, level=share_of(4)
        )
        found.append(finding)
        caught = max(caught, error)
    claim = PrivacyCurve.none()
    for event in plan.events:
        claim = claim.compose(curve_of(event))
    ratios = [np.array([log_ratio(run, *scores, scale) for run in world]) for world in worlds]
    return Evidence(
        claim=claim,
        delta=AUDIT_BUDGET.delta,
        neighbours=neighbours,
        searched=1,
        reached=reached,
        findings=(*found, *further),
        without=ratios[0],
        present=ratios[1],
        caught=caught,
        false_alarm=FALSE_ALARM,
    )


def selection_epsilon(plan: Plan) -> float:
    """The claimed range of one selection."""
    for event in plan.events:
        if isinstance(event, RepeatedEvent) and isinstance(event.event, ExponentialEvent):
            return event.event.epsilon
    raise AssertionError("the plan has no selections")


def frank_wolfe_evidence(runs: int, noise: Noise) -> Evidence:
    """Selections of vertices, on a loss that is linear on the set: all have the same scores."""
    problem = Problem(
        loss=SmoothedHingeLoss(width=0.5),
        convex_set=L1Ball(dimension=AXES, radius=0.45),
        domain=Domain.vectors(AXES, norm_bound=1.0, target_bound=1.0),
        records=64,
        neighbours=Neighbours.REPLACE,
        unit=Unit(),
    )
    solver = FrankWolfe(steps=STEPS)
    plan = solver.plan(problem, AUDIT_BUDGET)
    x = np.zeros((problem.records, AXES))
    stair = np.arange(1.0, AXES + 1.0)
    x[1 : SPREAD + 1] = stair / np.linalg.norm(stair)
    worlds: list[list[Seen]] = []
    wandering = 0.0
    for name, direction in (("without", -1.0), ("present", 1.0)):
        x[0, 0] = direction
        batch = problem.domain.admit(x, np.ones(problem.records))
        world = seen_runs(solver, plan, batch, runs=runs, noise=noise.child(name))
        worlds.append(world)
        first = world[0].exact[0]
        # Sums of floats at other points may round to a neighbouring step.
        moved = max(float(np.abs(step - first).max()) for run in world for step in run.exact)
        wandering = max(wandering, moved)
        for run in world:
            run.exact[:] = [first] * len(run.exact)
    return selection_evidence_of(
        (worlds[0], worlds[1]),
        plan,
        neighbours="features along the first axis, one way and the other",
        further=(Finding("scores that moved along a run", wandering, 0.0, 1e-6),),
    )


def lasso_evidence(runs: int, noise: Noise) -> Evidence:
    """Half of the columns are selected, and their moments are measured.

    Columns' sums form a stair far above 0, so that a record can raise some scores and lower
    others.
    """
    problem = Problem(
        loss=SquaredLoss(),
        # So wide that the released model, which nothing here reads, is found at once.
        convex_set=L1Ball(dimension=COLUMNS, radius=1e3),
        domain=Domain.vectors(COLUMNS, norm_bound=1.0, target_bound=1.0, record_bound="max"),
        records=STAIR * (COLUMNS + 1),
        neighbours=Neighbours.ZERO_OUT,
        unit=Unit(),
    )
    solver = Lasso(selections=SELECTIONS, rounds=1)
    plan = solver.plan(problem, AUDIT_BUDGET)
    x = (np.arange(problem.records)[:, None] < STAIR * (1 + np.arange(COLUMNS))).astype(np.float64)
    # Half of the entries: a record that moments need not scale down.
    x[0] = np.tile([1.0, 0.0, -1.0, 0.0], COLUMNS // 4)
    batch = problem.domain.admit(x, np.ones(problem.records))
    nulled = batch.rows.copy()
    nulled[0] = 0.0
    batches = {"without": Batch(nulled, COLUMNS), "present": batch}
    worlds = [
        seen_runs(solver, plan, rows, runs=runs, noise=noise.child(name))
        for name, rows in batches.items()
    ]
    (step,) = rounds_of(problem, rounds=1, selections=SELECTIONS, mu=float(plan.settings["mu"]))
    sigmas = step.sigma / step.layout.scales
    level = share_of(8)
    further: list[Finding] = []
    for name, world in zip(batches, worlds, strict=True):
        made = np.array([_moments(run) - run.exact[-1] for run in world]) / sigmas
        title = f"variance of the moments' noise, {name}"
        further.append(variance_finding(title, made.ravel(), 1.0, false_alarm=level))
    # With next to no noise both worlds select the same columns, the stair's highest.
    certain = replace(plan, noise_scales={**plan.noise_scales, "score": 2.0**-16})
    exact = [
        seen_runs(solver, certain, rows, runs=1, noise=noise.child("certain"))[0].exact[-1]
        for rows in batches.values()
    ]
    worst = float(np.linalg.norm((exact[1] - exact[0]) / sigmas)) / step.mu
    further.append(Finding("white box: moments' shift over claim", worst, 0.95, 1.0 + 1e-9))
    return selection_evidence_of(
        (worlds[0], worlds[1]),
        plan,
        neighbours="a record that raises every other column's score and lowers the rest, or none",
        further=tuple(further),
        caught=caught_scale_error(sigmas.size * runs - 1, false_alarm=level),
    )


def _moments(run: Seen) -> FloatArray:
    return real(run.measurements[-1].value, run.measurements[-1].exponent)


SELECTION_AUDITS: Mapping[str, Callable[[int, Noise], Evidence]] = {
    "FrankWolfe": frank_wolfe_evidence,
    "Lasso": lasso_evidence,
}
