"""Audits of batch solvers whose noise is Gaussian, on losses that are linear where they look.

The smoothed hinge is linear on a small ball, so a record's gradient is the same at every point:
what is measured does not depend on what was measured before, and the exact shift of a whole run
is known.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dpstream.audit.evidence import Evidence
from dpstream.audit.gaussian import Search
from dpstream.audit.record import Pair, record_pairs
from dpstream.audit.strategy import AUDIT_BUDGET
from dpstream.audit.transcript import (
    Run,
    Transcript,
    pair_separation,
    transcript_evidence,
    white_boxes,
)
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.errors import ConfigurationError
from dpstream.geometry.l2_ball import L2Ball
from dpstream.losses.hinge import HingeLoss, SmoothedHingeLoss
from dpstream.losses.loss import Loss
from dpstream.losses.regularised import RegularisedLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.bounds import curve_of
from dpstream.privacy.curve import PrivacyCurve
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.solvers.frank_wolfe_gaussian import GaussianFrankWolfe
from dpstream.solvers.mirror_descent import MirrorDescent
from dpstream.solvers.moment_regression import MomentRegression
from dpstream.solvers.noisy_sgd import NoisySgd
from dpstream.solvers.non_strongly_convex import FadingRegulariser
from dpstream.solvers.output_perturbation import OutputPerturbation
from dpstream.solvers.permuted_sgd import PermutedSGD
from dpstream.solvers.plan import Plan, Solver
from dpstream.solvers.pol import OnlineToOffline
from dpstream.solvers.problem import Problem

DIMENSION = 3
RECORDS = 24
RADIUS = 0.45
"""Scores stay below it: the smoothed hinge, rounded from 1/2 on, is linear there."""


def regression_problem() -> Problem:
    """Least squares on a ball."""
    return replace(linear_problem(), loss=SquaredLoss())


def linear_problem(*, ridge: float = 0.0, smooth: bool = True) -> Problem:
    """A problem whose data part is linear on its set."""
    loss: Loss = SmoothedHingeLoss(width=0.5) if smooth else HingeLoss()
    return Problem(
        loss=RegularisedLoss(loss=loss, ridge=ridge) if ridge else loss,
        convex_set=L2Ball(dimension=DIMENSION, radius=RADIUS),
        domain=Domain.vectors(DIMENSION, norm_bound=1.0, target_bound=1.0),
        records=RECORDS,
        neighbours=Neighbours.REPLACE,
        unit=Unit(),
    )


def solver_run(solver: Solver, plan: Plan, pair: Pair, place: int) -> Run:
    """One run on null records, but for the unit's at one place."""
    problem = plan.problem

    def run(present: bool, noise: Noise) -> Transcript:
        rows = np.zeros((problem.records, problem.domain.width))
        rows[place] = pair.record if present else pair.other
        result = solver.release(plan, Batch(rows, problem.domain.dimension), noise)
        parameters = result.parameters.ravel().tolist()
        return Transcript(
            measurements=result.measurements,
            released={str(index): value for index, value in enumerate(parameters)},
        )

    return run


def solver_evidence(
    solver: Solver,
    problem: Problem,
    *,
    runs: int,
    noise: Noise,
    places: Iterable[int] = (0,),
    least_share: float = 0.95,
) -> Evidence:
    """Attack a solver with the worst record at the worst place.

    Args:
        solver: with Gaussian noise.
        problem: with a data part that is linear on its set.
        runs: of each world.
        noise: where noise comes from.
        places: where the unit's record may lie.
        least_share: of the claim that the neighbours must reach.

    Raises:
        ConfigurationError: if its noise is not Gaussian.
    """
    plan = solver.plan(problem, AUDIT_BUDGET)
    claim = PrivacyCurve.none()
    for event in plan.events:
        claim = claim.compose(curve_of(event))
    if claim != PrivacyCurve(squared_shift=claim.squared_shift) or not claim.mu:
        raise ConfigurationError(f"{solver.name} claims more than Gaussian noise")
    domain = problem.domain
    pairs = record_pairs(domain.dimension, domain.target_count, problem.neighbours)
    spots = list(places)

    def tried(pair: Pair, place: int) -> tuple[float, str, Run]:
        run = solver_run(solver, plan, pair, place)
        return pair_separation(run), f"{pair.words}, at place {place + 1}", run

    # The worst pair at the first place, then the worst place for it.
    outcomes = [tried(pair, spots[0]) for pair in pairs]
    worst = max(range(len(pairs)), key=lambda index: outcomes[index][0])
    found = [*outcomes, *(tried(pairs[worst], place) for place in spots[1:])]
    best = max(found, key=lambda item: item[0])
    return transcript_evidence(
        best[2],
        claim=claim,
        claimed_mu=claim.mu,
        delta=AUDIT_BUDGET.delta,
        search=Search(worst=best[1], tried=len(found), separation=best[0], least_share=least_share),
        runs=runs,
        noise=noise,
        white=white_boxes(best[2]),
    )


def _attack(
    make: Callable[[], Solver],
    *,
    ridge: float = 0.0,
    smooth: bool = True,
    places: Sequence[int] = (0,),
    factor: int = 1,
    problem: Callable[[], Problem] | None = None,
) -> Callable[[int, Noise], Evidence]:
    def attack(runs: int, noise: Noise) -> Evidence:
        return solver_evidence(
            make(),
            linear_problem(ridge=ridge, smooth=smooth) if problem is None else problem(),
            runs=runs * factor,
            noise=noise,
            places=places,
        )

    return attack


SOLVER_AUDITS: Mapping[str, Callable[[int, Noise], Evidence]] = {
    "MirrorDescent": _attack(lambda: MirrorDescent(steps=8), smooth=False),
    "NoisySgd": _attack(lambda: NoisySgd(steps=8)),
    "MomentRegression": _attack(MomentRegression, problem=regression_problem),
    "GaussianFrankWolfe": _attack(lambda: GaussianFrankWolfe(steps=8)),
    "OutputPerturbation": _attack(lambda: OutputPerturbation(ridge=1.0), factor=4),
    "PermutedSGD": _attack(PermutedSGD, ridge=1.0, places=range(RECORDS), factor=4),
    "OnlineToOffline": _attack(OnlineToOffline, ridge=1.0, places=range(RECORDS), factor=4),
    "FadingRegulariser": _attack(FadingRegulariser, places=range(RECORDS), factor=4),
}
