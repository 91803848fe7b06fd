"""Output perturbation: a strongly convex problem's minimiser, or an SGD pass's end, plus noise.

Paper 003, section 4.1 (PSGD). Proof in ``output_perturbation.proof.md``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.errors import ConfigurationError
from dpstream.geometry.declaration import require_positive
from dpstream.mechanisms.gaussian import gaussian_event, measure_gaussian
from dpstream.mechanisms.mechanism import MEASURABLE, Noise, bounded_sum_sensitivity
from dpstream.mechanisms.spherical_laplace import (
    MOST_COORDINATES,
    measure_spherical_laplace,
    spherical_laplace_event,
)
from dpstream.privacy.calibrate import pure_epsilon
from dpstream.privacy.event import Event
from dpstream.release import Measurement
from dpstream.solvers.minimiser import (
    Target,
    distance_bound,
    least_tolerance,
    minimise,
    reach,
    regulariser,
)
from dpstream.solvers.plan import Allowance, Plan, SolverResult, allowed_mu, shared
from dpstream.solvers.problem import Problem

NoiseKind = Literal["gaussian", "spherical_laplace"]
_KINDS = ("gaussian", "spherical_laplace")
_LATTICE_BITS = 20
_TOLERANCE_SHARE = 2.0**-10
"""Of a record's influence: what the certificate may leave open."""


@dataclass(frozen=True, kw_only=True)
class OutputNoise:
    """The noise on a vector of parameters of known sensitivity: public.

    Attributes:
        kind: of the noise.
        exponent: of the lattice.
        sensitivity: of the rounded parameters, in L2.
        scale: the standard deviation, or the spherical Laplace scale.
        dimension: of the parameters.
    """

    kind: NoiseKind
    exponent: int
    sensitivity: float
    scale: float
    dimension: int

    @property
    def length(self) -> float:
        """The root mean square of the noise's L2 length."""
        if self.kind == "gaussian":
            return self.scale * math.sqrt(self.dimension)
        return self.scale * math.sqrt(self.dimension * (self.dimension + 1.0))

    def check_reach(self, reach: float) -> None:
        """Refuse, before any data, what could not be measured for some of them.

        Args:
            reach: a bound on the L2 norm of what is measured.

        Raises:
            ConfigurationError: if that is beyond the measurable range of the lattice, or the noise
                of this kind has no sampler for so many parameters.
        """
        if self.kind == "spherical_laplace" and self.dimension > MOST_COORDINATES:
            raise ConfigurationError(
                f"{self.dimension} parameters are too many for spherical Laplace noise, which is "
                f"drawn for at most {MOST_COORDINATES}; take Gaussian noise"
            )
        if reach > math.ldexp(float(MEASURABLE), self.exponent - 1):
            raise ConfigurationError(
                f"the noise on parameters, {self.scale:g}, is too small beside their bound "
                f"{reach:g} for the measurable range of 2**61 lattice steps; give a smaller ridge, "
                "a smaller set or a smaller epsilon"
            )

    def event(self, name: str) -> Event:
        """What one measurement costs."""
        if self.kind == "gaussian":
            return gaussian_event(name, sensitivity=self.sensitivity, sigma=self.scale)
        return spherical_laplace_event(name, sensitivity=self.sensitivity, scale=self.scale)

    def measure(self, parameters: FloatArray, *, noise: Noise) -> Measurement:
        """Round to the lattice and measure, at address ``(0,)``."""
        steps = np.rint(np.ldexp(parameters, -self.exponent)).astype(np.int64)
        if self.kind == "gaussian":
            return measure_gaussian(
                steps, self.exponent, sigma=self.scale, address=(0,), noise=noise
            )
        return measure_spherical_laplace(
            steps, self.exponent, scale=self.scale, address=(0,), noise=noise
        )


def output_noise(
    kind: NoiseKind,
    allowance: Allowance,
    *,
    dimension: int,
    sensitivity: Callable[[int], float],
    exact: float,
    reach: float = 0.0,
) -> OutputNoise:
    """The noise that one release of parameters may cost.

    Args:
        kind: Gaussian, or spherical Laplace for a pure guarantee.
        allowance: what it may cost.
        dimension: of the parameters.
        sensitivity: of the parameters rounded to a lattice, given its exponent.
        exact: the sensitivity before rounding, from which the lattice is chosen.
        reach: a bound on the parameters' L2 norm; 0 where nothing will be measured.

    Raises:
        NotPrivate: if Gaussian noise is asked for and delta is 0.
        ConfigurationError: if the parameters do not depend on any record, or their lattice or
            their noise could not hold them.
    """
    if exact == 0.0:
        raise ConfigurationError(
            "no record moves what would be published: the average of one pass leaves out its last "
            "step, and there is no other; declare more records, or result='last'"
        )
    if kind == "gaussian":
        most = allowed_mu(allowance)
        size = exact / most
    else:
        share = shared(allowance)
        most = share.fraction * pure_epsilon(share.budget)
        size = exact / most * math.sqrt(dimension)
    exponent = math.floor(math.log2(size)) - _LATTICE_BITS
    rounded = sensitivity(exponent)
    noise = OutputNoise(
        kind=kind,
        exponent=exponent,
        sensitivity=rounded,
        scale=rounded / most,
        dimension=dimension,
    )
    noise.check_reach(reach)
    return noise


def minimiser_sensitivity(
    problem: Problem, *, modulus: float, tolerance: float, exponent: int | None
) -> float:
    """THE sensitivity of the computed, rounded minimiser, in L2.

    ``2 L / (gamma n)`` for replace, half of it for zero-out, times the unit's cap, where L is
    the bound of a record's gradient without the regulariser; and ``2 tau / gamma`` for
    certificates tau of two neighbours.

    Args:
        problem: its constants, neighbours and cap.
        modulus: gamma.
        tolerance: tau, on the gradient of the average.
        exponent: of the lattice the minimiser is rounded to; None before rounding.
    """
    exact = bounded_sum_sensitivity(
        problem.lipschitz.l2 / (modulus * problem.records),
        neighbours=problem.neighbours,
        cap=problem.unit.cap,
        rounding_step=0.0 if exponent is None else math.ldexp(1.0, exponent),
        dimension=problem.dimension,
    )
    return exact + 2.0 * distance_bound(tolerance, modulus)


def released_parameters(noise: OutputNoise, measurement: Measurement) -> FloatArray:
    """The noisy parameters as numbers: public."""
    return np.ldexp(measurement.value.astype(np.float64), noise.exponent)


def planned_noise(plan: Plan) -> OutputNoise:
    """The output noise of a plan."""
    return OutputNoise(
        kind="gaussian" if plan.settings["noise"] == "gaussian" else "spherical_laplace",
        exponent=int(plan.settings["exponent"]),
        sensitivity=float(plan.settings["sensitivity"]),
        scale=plan.noise_scales["output"],
        dimension=plan.problem.dimension,
    )


def noise_settings(noise: OutputNoise) -> dict[str, float | int | str | bool]:
    """What ``planned_noise`` reads back."""
    return {
        "noise": noise.kind,
        "exponent": noise.exponent,
        "sensitivity": noise.sensitivity,
    }


def check_noise_kind(kind: str) -> None:
    """Refuse an unknown kind of noise."""
    if kind not in _KINDS:
        raise ConfigurationError(f"noise is {kind!r}; it must be one of {', '.join(_KINDS)}")


@dataclass(frozen=True, kw_only=True)
class OutputPerturbation:
    """The certified minimiser of the regularised problem, plus noise, projected on the set.

    Guaranteed: the budget; purely, with ``noise="spherical_laplace"``. The regulariser's centre
    is the problem's own (``RegularisedLoss``), so blocks can be biased towards a public model.

    Attributes:
        ridge: added to the problem's own; None for the best bound's (0 allowed if it has one).
        noise: ``"gaussian"`` or ``"spherical_laplace"``.
    """

    ridge: float | None = None
    noise: NoiseKind = "gaussian"

    def __post_init__(self) -> None:
        check_noise_kind(self.noise)
        if self.ridge is not None and self.ridge != 0.0:
            require_positive("ridge", self.ridge)

    @property
    def name(self) -> str:
        """``"output_perturbation"``."""
        return "output_perturbation"

    def plan(self, problem: Problem, budget: Allowance) -> Plan:
        """The ridge that minimises ``ridge R^2 / 2 + L E|noise|``, and the noise it needs.

        Raises:
            ConfigurationError: if the loss is not smooth, the set has no projection, or nothing
                makes the problem strongly convex.
            NotPrivate: if Gaussian noise is asked for and delta is 0.
        """
        _ = problem.smooth_loss
        strong = problem.strong_convexity > 0.0
        if self.ridge is not None:
            ridges = [self.ridge]
        else:
            ridges = [0.0] if strong else []
            ridges += [self._best_ridge(problem, budget)]
        if ridges[0] == 0.0 and not strong:
            raise ConfigurationError(
                "ridge is 0 and the problem has no regulariser; output perturbation needs a "
                "strongly convex problem: give a positive ridge, or None"
            )
        return min(
            (self._plan(problem, budget, ridge) for ridge in ridges),
            key=lambda plan: plan.excess_bound,
        )

    def _best_ridge(self, problem: Problem, budget: Allowance) -> float:
        # The sensitivity, and so the noise, is inverse to the modulus: s / gamma.
        one = minimiser_sensitivity(problem, modulus=1.0, tolerance=0.0, exponent=None)
        unit = output_noise(
            self.noise, budget, dimension=problem.dimension, sensitivity=lambda _: one, exact=one
        )
        _, centre = regulariser(problem, extra=0.0)
        wide = max(reach(problem, centre), 1e-300)
        best = math.sqrt(2.0 * problem.lipschitz.l2 * unit.length) / wide
        return max(best - problem.strong_convexity, 1e-3 * best)

    def _plan(self, problem: Problem, budget: Allowance, ridge: float) -> Plan:
        modulus, centre = regulariser(problem, extra=ridge)
        target = Target(problem=problem, modulus=modulus, centre=centre)
        _ = target.convex_set
        tolerance = max(
            _TOLERANCE_SHARE * problem.lipschitz.l2 / problem.records, least_tolerance(target)
        )
        noise = output_noise(
            self.noise,
            budget,
            dimension=problem.dimension,
            sensitivity=lambda exponent: minimiser_sensitivity(
                problem, modulus=modulus, tolerance=tolerance, exponent=exponent
            ),
            exact=minimiser_sensitivity(
                problem, modulus=modulus, tolerance=tolerance, exponent=None
            ),
            reach=problem.convex_set.l2_radius(),
        )
        slope = problem.lipschitz.l2 + problem.strong_convexity * reach(problem, centre)
        bound = (
            ridge / 2.0 * reach(problem, centre) ** 2
            + slope * noise.length
            + tolerance**2 / (2.0 * modulus)
        )
        return Plan(
            solver=self.name,
            problem=problem,
            steps=1,
            step_sizes=(),
            noise_scales={"output": noise.scale},
            events=(noise.event(self.name),),
            excess_bound=bound,
            settings=noise_settings(noise)
            | {"ridge": ridge, "modulus": modulus, "tolerance": tolerance},
        )

    def release(self, plan: Plan, batch: Batch, noise: Noise) -> SolverResult:
        """Minimise to the certificate, measure, and project onto the set.

        Raises:
            ConfigurationError: if the batch does not fit the problem.
            CertificateError: if the certificate was not reached.
        """
        problem = plan.problem
        problem.check(batch)
        _, centre = regulariser(problem, extra=0.0)
        target = Target(problem=problem, modulus=float(plan.settings["modulus"]), centre=centre)
        minimum = minimise(target, batch, tolerance=float(plan.settings["tolerance"]))
        return released(plan, minimum.point, noise)


def released(plan: Plan, parameters: FloatArray, noise: Noise) -> SolverResult:
    """Measure secret parameters of known sensitivity, and project onto the set."""
    scale = planned_noise(plan)
    measurement = scale.measure(parameters, noise=noise)
    chosen = Target(
        problem=plan.problem, modulus=1.0, centre=np.zeros(plan.problem.dimension)
    ).convex_set
    return SolverResult(
        parameters=chosen.project(released_parameters(scale, measurement)),
        measurements=(measurement,),
        events=plan.events,
    )
