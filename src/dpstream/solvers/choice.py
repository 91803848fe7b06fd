"""Which batch solver to take: all of them planned, and simulated on made-up records.

No data is seen. Every solver plans the problem; each plan is then run on synthetic records drawn
inside the public domain, with noise from public seeds, and the excess risks are compared.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from dpstream.arrays import FloatArray
from dpstream.domain.batch import GRID, Batch
from dpstream.domain.target import LabelTarget
from dpstream.errors import ConfigurationError, DpstreamError
from dpstream.geometry.convex_set import Projectable
from dpstream.losses.poisson import PoissonLoss
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.public import public_generator
from dpstream.solvers.frank_wolfe import FrankWolfe
from dpstream.solvers.frank_wolfe_gaussian import GaussianFrankWolfe
from dpstream.solvers.lasso import Lasso
from dpstream.solvers.minimiser import Target, least_tolerance, minimise, regulariser
from dpstream.solvers.mirror_descent import MirrorDescent
from dpstream.solvers.moment_regression import MomentRegression
from dpstream.solvers.noisy_sgd import NoisySgd
from dpstream.solvers.non_strongly_convex import FadingRegulariser
from dpstream.solvers.objective_perturbation import ObjectivePerturbation
from dpstream.solvers.output_perturbation import OutputPerturbation
from dpstream.solvers.permuted_sgd import PermutedSGD
from dpstream.solvers.plan import Allowance, Plan, Solver
from dpstream.solvers.pol import OnlineToOffline
from dpstream.solvers.problem import Problem

_SIMULATED_RECORDS = 5_000
_DRAWS = 3
_WITNESS_RIDGE = 2.0**-20


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One solver's prospects: public.

    Attributes:
        label: the solver, with the options that set it apart.
        solver: the solver.
        plan: for the problem; None if it cannot solve it.
        refusal: why it cannot; None if it can.
        bound: the plan's predicted excess risk.
        simulated: the mean excess risk on synthetic records; infinite if not simulated.
        predicted: ``simulated``, carried over to the problem's number of records by the bounds.
    """

    label: str
    solver: Solver
    plan: Plan | None = None
    refusal: str | None = None
    bound: float = math.inf
    simulated: float = math.inf
    predicted: float = math.inf

    def describe(self) -> dict[str, object]:
        """JSON-ready; what is unknown or infinite is None."""
        figures = {
            name: value if math.isfinite(value) else None
            for name, value in (
                ("bound", self.bound),
                ("simulated", self.simulated),
                ("predicted", self.predicted),
            )
        }
        return {
            "solver": self.label,
            "refusal": self.refusal,
            **figures,
            "plan": None if self.plan is None else self.plan.describe(),
        }


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """All solvers, the best first, then those that cannot solve the problem.

    Attributes:
        candidates: in order of their predicted excess risk.
        simulated_records: how many synthetic records the simulation used; 0 for none.
        reason: one sentence: what would be taken and why.
    """

    candidates: tuple[Candidate, ...]
    simulated_records: int
    reason: str

    @property
    def best(self) -> Candidate:
        """The one to take."""
        return self.candidates[0]

    def describe(self) -> dict[str, object]:
        """JSON-ready."""
        return {
            "take": self.best.label,
            "reason": self.reason,
            "simulated_records": self.simulated_records,
            "candidates": [candidate.describe() for candidate in self.candidates],
        }


def batch_solvers() -> Mapping[str, Solver]:
    """The solvers that are compared, by label, with their default options."""
    return {
        "noisy_sgd": NoisySgd(),
        "mirror_descent": MirrorDescent(),
        "frank_wolfe": FrankWolfe(),
        "frank_wolfe_gaussian": GaussianFrankWolfe(),
        "lasso": Lasso(),
        "moment_regression": MomentRegression(),
        "objective_perturbation": ObjectivePerturbation(),
        "output_perturbation": OutputPerturbation(),
        "output_perturbation, spherical Laplace": OutputPerturbation(noise="spherical_laplace"),
        "permuted_sgd": PermutedSGD(),
        "pol": OnlineToOffline(),
        "pol, last iterate": OnlineToOffline(result="last"),
        "non_strongly_convex": FadingRegulariser(),
    }


def rank(
    problem: Problem,
    budget: Allowance,
    *,
    solvers: Mapping[str, Solver] | None = None,
    draws: int = _DRAWS,
    simulated_records: int = _SIMULATED_RECORDS,
    seed: int = 0,
) -> Ranking:
    """Rank solvers by predicted excess risk, from public numbers alone.

    A problem with more records than are simulated is predicted by its bound times the ratio of
    simulation to bound at the simulated number.

    Args:
        problem: what to solve.
        budget: what it may cost.
        solvers: by label; None for ``batch_solvers``.
        draws: noise draws of the simulation; 0 ranks by bounds alone.
        simulated_records: at most this many synthetic records.
        seed: of the synthetic records and the simulated noise.

    Raises:
        ConfigurationError: if no solver can solve the problem; every refusal is listed.
    """
    chosen = batch_solvers() if solvers is None else solvers
    planned = [_planned(label, solver, problem, budget) for label, solver in chosen.items()]
    able = [candidate for candidate in planned if candidate.plan is not None]
    if not able:
        refusals = "; ".join(f"{item.label}: {item.refusal}" for item in planned)
        raise ConfigurationError(f"no solver can solve this problem: {refusals}")
    count = min(problem.records, simulated_records) if draws > 0 else 0
    if count > 0:
        able = _simulated(able, replace(problem, records=count), budget, draws=draws, seed=seed)
    else:
        able = [replace(candidate, predicted=candidate.bound) for candidate in able]
    able.sort(key=lambda candidate: (candidate.predicted, candidate.bound))
    return Ranking(
        candidates=(*able, *(item for item in planned if item.plan is None)),
        simulated_records=count,
        reason=_reason(able, count),
    )


def _planned(label: str, solver: Solver, problem: Problem, budget: Allowance) -> Candidate:
    try:
        plan = solver.plan(problem, budget)
    except DpstreamError as error:
        return Candidate(label=label, solver=solver, refusal=str(error))
    return Candidate(label=label, solver=solver, plan=plan, bound=plan.excess_bound)


def _simulated(
    candidates: Sequence[Candidate],
    small: Problem,
    budget: Allowance,
    *,
    draws: int,
    seed: int,
) -> list[Candidate]:
    """The candidates with what they reach on synthetic records."""
    batch, truth = synthetic_batch(small, seed=seed)
    risks: list[float] = []
    bounds: list[float] = []
    for candidate in candidates:
        rerun = _planned(candidate.label, candidate.solver, small, budget)
        if rerun.plan is None:
            risks.append(math.inf)
            bounds.append(math.inf)
            continue
        found = [
            small.risk(
                candidate.solver.release(rerun.plan, batch, Noise.insecure(seed + draw)).parameters,
                batch,
            )
            for draw in range(draws)
        ]
        risks.append(float(np.mean(found)))
        bounds.append(rerun.bound)
    best = min(small.risk(truth, batch), _least_risk(small, batch), *risks)
    simulated = [max(risk - best, 0.0) for risk in risks]
    return [
        replace(
            candidate,
            simulated=excess,
            predicted=excess * candidate.bound / bound if math.isfinite(bound) else math.inf,
        )
        for candidate, excess, bound in zip(candidates, simulated, bounds, strict=True)
    ]


def _least_risk(problem: Problem, batch: Batch) -> float:
    """The risk of the non-private minimiser where it can be computed; synthetic records only."""
    try:
        modulus, centre = regulariser(problem, extra=_WITNESS_RIDGE)
        target = Target(problem=problem, modulus=modulus, centre=centre)
        tolerance = max(1e-6, least_tolerance(target))
        return problem.risk(minimise(target, batch, tolerance=tolerance).point, batch)
    except DpstreamError:
        return math.inf


def synthetic_batch(problem: Problem, *, seed: int) -> tuple[Batch, FloatArray]:
    """Records drawn inside the public domain, and the parameters that made their targets.

    Features are uniform on the sphere of the record bound, or in the cube for bounds on
    entries. The truth is a random point of the set (an extreme one where sets are corners);
    labels are drawn by their logistic odds, counts evenly around their rates, other targets are
    scores plus a tenth of noise.
    """
    generator = public_generator(seed)
    domain, records = problem.domain, problem.records
    if domain.record_bound == "max":
        features = generator.uniform(-1.0, 1.0, (records, domain.dimension)) / domain.radius
    else:
        features = generator.standard_normal((records, domain.dimension))
        features /= np.linalg.norm(features, axis=1, keepdims=True)
    rows = np.zeros((records, domain.width))
    rows[:, 0] = GRID
    # Towards zero: rounding must not leave the unit ball.
    rows[:, 1 : 1 + domain.dimension] = np.trunc(features * GRID)
    blank = Batch(rows, domain.dimension)
    design, _ = problem.design(blank)
    direction = generator.standard_normal(problem.dimension)
    truth = _random_point(problem, direction)
    scores = design @ truth.reshape(problem.rows, problem.features).T
    rows[:, 1 + domain.dimension :] = _targets(problem, scores, generator.random(records)) * GRID
    return Batch(np.trunc(rows), domain.dimension), truth


def _random_point(problem: Problem, direction: FloatArray) -> FloatArray:
    chosen = problem.convex_set
    if isinstance(chosen, Projectable):
        length = chosen.l2_radius() / max(float(np.linalg.norm(direction)), 1e-300)
        return chosen.project(direction * length)
    return chosen.centre()


def _targets(problem: Problem, scores: FloatArray, uniform: FloatArray) -> FloatArray:
    """Scaled targets, ``(n, k)``."""
    domain = problem.domain
    labelled = bool(domain.targets) and isinstance(domain.targets[0], LabelTarget)
    if problem.rows > 1:
        chances = np.cumsum(np.asarray(special.softmax(scores, axis=1), np.float64), axis=1)
        drawn = np.argmax(uniform[:, None] <= chances, axis=1)
        return np.eye(problem.rows)[drawn]
    found = np.zeros((len(scores), domain.target_count))
    bound = problem.record_bound
    if labelled or problem.data_loss.name in ("logistic", "hinge", "smoothed hinge"):
        found[:, problem.target] = np.where(uniform < special.expit(scores[:, 0]), 1.0, -1.0)
    elif isinstance(problem.data_loss, PoissonLoss):
        loss = problem.data_loss
        rates = np.minimum(np.exp(scores[:, 0]), loss.rate_bound)
        found[:, problem.target] = 2.0 * uniform * rates - loss.target_offset
    else:
        found[:, problem.target] = scores[:, 0] + 0.2 * bound.target_size * (uniform - 0.5)
    return np.clip(found, bound.target_lower, bound.target_upper)


def _reason(able: Sequence[Candidate], count: int) -> str:
    best = able[0]
    basis = f"in simulation on {count} synthetic records" if count else "by its bound"
    if len(able) == 1:
        return f"{best.label}: the only solver for this problem"
    second = able[1]
    return (
        f"{best.label}: the least excess risk {basis}, {best.predicted:.2g}; "
        f"{second.label} follows with {second.predicted:.2g}"
    )
