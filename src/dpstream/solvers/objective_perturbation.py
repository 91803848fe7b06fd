"""Objective perturbation: minimise the loss plus a ridge plus a secret random linear term.

Paper 001, section 4, for generalised linear losses. Proof in ``objective_perturbation.proof.md``;
how much the exact minimiser reveals is in ``objective_profile.proof.md``.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import special

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.errors import ConfigurationError, NotPrivate
from dpstream.geometry.declaration import require_positive
from dpstream.losses.loss import SmoothGeneralisedLinear
from dpstream.mechanisms.gaussian import measure_gaussian
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.calibrate import HEADROOM
from dpstream.privacy.event import ApproximateEvent
from dpstream.solvers.minimiser import (
    Target,
    data_smoothness,
    distance_bound,
    least_tolerance,
    minimise,
    reach,
    regulariser,
)
from dpstream.solvers.objective_profile import largest_shift
from dpstream.solvers.plan import Allowance, Plan, SolverResult, shared
from dpstream.solvers.problem import Problem

_LATTICE_BITS = 20
_PERTURBATION_BITS = 36
_TOLERANCE_BITS = 28
_OUTPUT_SHARE = 2.0**-12
"""The output noise's mu, in units of epsilon: what certifies the minimiser costs a thousandth."""
_FAILURE_SHARE = 2.0**-10
_TRIALS = 25


def perturbation_shift(problem: Problem, *, sigma: float) -> float:
    """THE shift: the largest length of one record's gradient over the perturbation's deviation.

    One record's, for either neighbours: that a replacement moves twice as much is in
    ``objective_profile.objective_delta``.
    """
    return problem.lipschitz.l2 / sigma


def approximation_sensitivity(
    *, modulus: float, tolerance: float, rounding: float, step: float, dimension: int
) -> float:
    """THE sensitivity of what the certificate leaves open, in L2.

    The rounded parameters of each of two neighbours lie within the certificate's distance, the
    displacement by the rounding of the perturbation, and half a lattice step per coordinate, of
    the exact minimiser.

    Args:
        modulus: of the average objective.
        tolerance: of the minimiser's certificate.
        rounding: L2 bound of the perturbation's rounding, in units of the average.
        step: of the lattice of parameters.
        dimension: of the parameters.
    """
    return 2.0 * distance_bound(tolerance + rounding, modulus) + step * math.sqrt(dimension)


def linear_learner(problem: Problem) -> SmoothGeneralisedLinear:
    """The loss, if its perturbed minimiser is known to be private.

    Raises:
        NotPrivate: if it is not, and why.
    """
    loss = problem.data_loss
    if not isinstance(loss, SmoothGeneralisedLinear):
        raise NotPrivate(
            f"the {loss.name} loss is not a smooth function of one score per record; the shift "
            "that a record causes would turn with the perturbation, and no bound is known. Take "
            "output perturbation or a solver that measures gradients"
        )
    if not loss.twice_differentiable:
        raise NotPrivate(
            f"the second derivative of the {loss.name} loss jumps; the perturbed minimiser then "
            "has no density that neighbours share. Take the pseudo-Huber or logistic loss"
        )
    return loss


@dataclass(frozen=True, kw_only=True)
class ObjectivePerturbation:
    """``argmin (1/n) sum loss + (gamma / 2) |theta - centre|^2 + <b, theta> / n``, b Gaussian.

    Guaranteed: (epsilon, delta) of the budget, for minimisers as they are computed. Assumed:
    units of one record.

    Attributes:
        ridge: added to the problem's own; None for the best bound's.
    """

    ridge: float | None = None

    def __post_init__(self) -> None:
        if self.ridge is not None:
            require_positive("ridge", self.ridge)

    @property
    def name(self) -> str:
        """``"objective_perturbation"``."""
        return "objective_perturbation"

    def plan(self, problem: Problem, budget: Allowance) -> Plan:
        """The ridge that minimises the bound, and the noise that it needs.

        The excess is over the problem's own optimum: ``ridge R^2 / 2`` for the ridge, and for the
        perturbation the smaller of ``d sigma^2 / (2 gamma n^2)`` and twice its Gaussian width.

        Raises:
            NotPrivate: if the loss is not generalised linear with a continuous second derivative,
                if delta is 0, or if the ridge is too small for any noise.
            ConfigurationError: if several records per unit or a share of a budget are asked for.
        """
        linear_learner(problem)
        share = shared(budget)
        if share.fraction < 1.0:
            raise ConfigurationError(
                "calls of objective perturbation do not compose by shares; give each its own "
                "budget, or take output perturbation"
            )
        if problem.unit.cap > 1:
            raise ConfigurationError(
                f"the unit's cap is {problem.unit.cap}, but objective perturbation is proved for "
                "units of one record; take output perturbation"
            )
        if share.budget.delta == 0.0:
            raise NotPrivate(
                "a Gaussian perturbation of the objective needs delta > 0; take output "
                "perturbation with spherical Laplace noise"
            )
        _, centre = regulariser(problem, extra=0.0)
        _ = Target(problem=problem, modulus=1.0, centre=centre).convex_set
        plans = list(self._plans(problem, share.budget.epsilon, share.budget.delta))
        if not plans:
            raise NotPrivate(
                f"no perturbation of the objective keeps epsilon={share.budget.epsilon:g} and "
                f"delta={share.budget.delta:g} with ridge {self.ridge}; give a larger ridge, or "
                "none"
            )
        return min(plans, key=lambda plan: plan.excess_bound)

    def _plans(self, problem: Problem, epsilon: float, delta: float) -> Iterator[Plan]:
        if self.ridge is not None:
            ridges = [self.ridge]
        else:
            # From where curvature would take all of epsilon to where it takes next to nothing.
            least = data_smoothness(problem) / math.expm1(epsilon) / problem.records
            centre = regulariser(problem, extra=0.0)[1]
            noise = problem.lipschitz.l2 * math.sqrt(problem.dimension) * 8.0 / epsilon
            most = max(1e3 * least, 8.0 * noise / (problem.records * reach(problem, centre)))
            ridges = np.geomspace(1.02 * least, most, _TRIALS).tolist()
            if problem.strong_convexity > 0.0:
                ridges.append(0.0)
        for ridge in ridges:
            try:
                yield self._plan(problem, epsilon, delta, ridge)
            except NotPrivate:
                continue

    def _plan(self, problem: Problem, epsilon: float, delta: float, ridge: float) -> Plan:
        modulus, centre = regulariser(problem, extra=ridge)
        records, dimension = problem.records, problem.dimension
        bend = data_smoothness(problem) / (modulus * records)
        epsilon *= 1.0 - HEADROOM
        # Of epsilon and delta, what the output noise takes: its loss exceeds ``taken`` with
        # probability ``failure``.
        output_mu = min(epsilon, 1.0) * _OUTPUT_SHARE
        failure = delta * _FAILURE_SHARE
        taken = output_mu * (output_mu / 2.0 - float(special.ndtri(failure)))
        shift = largest_shift(
            bend=bend * (1.0 + 1e-9),
            epsilon=epsilon - taken,
            delta=delta - 2.0 * failure,
            neighbours=problem.neighbours,
        )
        sigma = problem.lipschitz.l2 / shift
        exponent = math.floor(math.log2(sigma)) - _PERTURBATION_BITS
        # A length that the perturbation exceeds by no more than chance; not for privacy.
        typical = sigma * (math.sqrt(dimension) + 12.0) / records
        target = Target(problem=problem, modulus=modulus, centre=centre)
        tolerance = max(
            least_tolerance(target, linear_bound=typical), sigma / records * 2.0**-_TOLERANCE_BITS
        )
        rounding = math.ldexp(math.sqrt(dimension) / 2.0, exponent) / records
        least = 2.0 * distance_bound(tolerance, modulus) / output_mu
        step_exponent = math.floor(math.log2(least)) - _LATTICE_BITS
        output_sigma = (
            approximation_sensitivity(
                modulus=modulus,
                tolerance=tolerance,
                rounding=rounding,
                step=math.ldexp(1.0, step_exponent),
                dimension=dimension,
            )
            / output_mu
        )
        quadratic = dimension * sigma**2 / (2.0 * modulus * records**2)
        linear = 2.0 * sigma * problem.convex_set.gaussian_width() / records
        bound = (
            ridge / 2.0 * reach(problem, centre) ** 2
            + min(quadratic, linear)
            + problem.lipschitz.l2 * output_sigma * math.sqrt(dimension)
            + tolerance**2 / (2.0 * modulus)
        )
        return Plan(
            solver=self.name,
            problem=problem,
            steps=1,
            step_sizes=(),
            noise_scales={"linear_term": sigma, "output": output_sigma},
            events=(ApproximateEvent(self.name, epsilon=epsilon, delta=delta),),
            excess_bound=bound,
            settings={
                "ridge": ridge,
                "modulus": modulus,
                "bend": bend,
                "tolerance": tolerance,
                "perturbation_exponent": exponent,
                "exponent": step_exponent,
            },
        )

    def release(self, plan: Plan, batch: Batch, noise: Noise) -> SolverResult:
        """Perturb, minimise to the certificate, measure, and project onto the set.

        Raises:
            ConfigurationError: if the batch does not fit the problem.
            CertificateError: if the certificate was not reached.
        """
        problem = plan.problem
        problem.check(batch)
        _, centre = regulariser(problem, extra=0.0)
        target = Target(
            problem=problem,
            modulus=float(plan.settings["modulus"]),
            centre=centre,
            linear=_perturbation(plan, batch, noise) / problem.records,
        )
        minimum = minimise(target, batch, tolerance=float(plan.settings["tolerance"]))
        exponent = int(plan.settings["exponent"])
        measurement = measure_gaussian(
            np.rint(np.ldexp(minimum.point, -exponent)).astype(np.int64),
            exponent,
            sigma=plan.noise_scales["output"],
            address=(0,),
            noise=noise,
        )
        released = np.ldexp(measurement.value.astype(np.float64), exponent)
        return SolverResult(
            parameters=target.convex_set.project(released),
            measurements=(measurement,),
            events=plan.events,
        )


def _perturbation(plan: Plan, batch: Batch, noise: Noise) -> FloatArray:
    """The secret linear term, bound to the data and to the public problem; never published.

    A measurement of zero: other data, another problem or another modulus has an independent one,
    or the difference of two releases would show what the records say without noise.
    """
    setting = f"objective {plan.problem.label}; {float(plan.settings['modulus']).hex()}"
    digest = noise.bind(batch.rows).hex()
    exponent = int(plan.settings["perturbation_exponent"])
    drawn = measure_gaussian(
        np.zeros(plan.problem.dimension, np.int64),
        exponent,
        sigma=plan.noise_scales["linear_term"],
        address=(0,),
        noise=noise.child(f"{setting} {digest}"),
    )
    return np.ldexp(drawn.value.astype(np.float64), exponent)
