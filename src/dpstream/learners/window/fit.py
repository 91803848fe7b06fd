"""One private fit of consecutive blocks around a released centre, for its share of the budget.

Paper 003, Algorithms 1 and 3 (PSGD, PBERM) with a certified minimiser. Proof in ``fit.proof.md``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.errors import ConfigurationError
from dpstream.geometry.declaration import require_positive
from dpstream.geometry.l2_ball import L2Ball
from dpstream.losses.loss import Loss, SmoothLoss
from dpstream.losses.regularised import RegularisedLoss
from dpstream.losses.softmax import SoftmaxLoss
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import pure_epsilon
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.release import Measurement
from dpstream.solvers.minimiser import Target, least_tolerance, minimise
from dpstream.solvers.output_perturbation import (
    NoiseKind,
    OutputNoise,
    OutputPerturbation,
    check_noise_kind,
    minimiser_sensitivity,
    planned_noise,
    released_parameters,
)
from dpstream.solvers.plan import Plan, Share, Solver, allowed_mu
from dpstream.solvers.problem import Problem

_TOLERANCE_SHARE = 2.0**-10
"""Of a record's influence: what a minimiser's certificate may leave open."""

_ROUNDING_SHARE = 2.0**-10
"""Of a record's influence: what rounding to the lattice may add, where the lattice is free."""

_FINEST, _COARSEST = 36, 20
"""Lattice steps in a standard deviation, as powers of two."""

_KNOWN = 64
"""Plans and problems that are remembered."""

_BEYOND = 1.0 + 2.0**-20
"""How far beyond the ball, as a factor, a projected centre cannot be."""


def fit_sensitivity(
    problem: Problem, *, modulus: float, tolerance: float, exponent: int | None
) -> float:
    """THE sensitivity of a fit, in L2: a record's, slack included, times the unit's cap.

    Certificate and rounding are charged for every record, so that h of a unit's m records shift
    any fit by at most ``h / m`` of it: a unit's records may lie in different fits, each with its
    own certificate and rounding.
    """
    one = minimiser_sensitivity(
        replace(problem, unit=Unit()), modulus=modulus, tolerance=tolerance, exponent=exponent
    )
    return problem.unit.cap * one


def _only_noise(course: Plan, kind: NoiseKind) -> OutputNoise:
    """The noise of a plan that measures its result, once.

    Raises:
        ConfigurationError: if it measures something else, or with another kind of noise.
    """
    if set(course.noise_scales) != {"output"} or len(course.events) != 1:
        raise ConfigurationError(
            f"base_solver is {course.solver}, which measures within its steps; a learner over "
            "blocks needs one whose result has a sensitivity: output_perturbation, permuted_sgd "
            "or pol"
        )
    noise = planned_noise(course)
    if noise.kind != kind:
        raise ConfigurationError(
            f"base_solver has {noise.kind} noise, but the learner {kind}; give both the same"
        )
    if course.events[0] != noise.event(course.solver):
        raise ConfigurationError(
            f"base_solver is {course.solver}, whose plan costs something else than its noise"
        )
    return noise


@dataclass(frozen=True, kw_only=True)
class FitPlan:
    """Everything public about a fit.

    Attributes:
        size: blocks it uses.
        fraction: of the budget: of ``mu^2``, or of epsilon.
        modulus: of the regulariser.
        tolerance: of the minimiser's certificate; 0 where another solver is taken.
        noise: on its parameters.
        course: another solver's own plan; None for the certified minimiser.
    """

    size: int
    fraction: float
    modulus: float
    tolerance: float
    noise: OutputNoise
    course: Plan | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockSolver:
    """Minimises ``mean loss + (modulus / 2) |theta - centre|^2`` on a ball, and adds noise.

    Certified minimisation is the default; another solver may take its place if its result has one
    sensitivity and gets one noise.

    Attributes:
        loss: of a record; smooth.
        domain: of records.
        block_records: records of a block, null ones included.
        radius: of the parameters' L2 ball, in scaled units.
        neighbours: what a unit is hidden against.
        unit: whose contribution is hidden.
        budget: of all fits together.
        kind: of noise.
        power: fits of size s have weight ``s**-power``.
        worst: what the weights of any block's fits sum to at most.
        base: another solver for the regularised problem, or None.
    """

    loss: Loss
    domain: Domain
    block_records: int
    radius: float
    neighbours: Neighbours
    unit: Unit
    budget: Budget
    kind: NoiseKind
    power: float
    worst: float
    base: Solver | None = None

    def __post_init__(self) -> None:
        check_noise_kind(self.kind)
        require_positive("radius", self.radius)
        if self.block_records < 1:
            raise ConfigurationError(
                f"block_records is {self.block_records}; a block needs at least one record"
            )
        if not isinstance(self.loss, SmoothLoss):
            raise ConfigurationError(
                f"the {self.loss.name} loss has no Lipschitz gradient, so that its minimiser "
                "cannot be certified; take squared, logistic, Huber or softmax"
            )
        expected = self.loss.classes if isinstance(self.loss, SoftmaxLoss) else 1
        if self.domain.target_count != expected:
            raise ConfigurationError(
                f"the domain has {self.domain.target_count} encoded targets, but the "
                f"{self.loss.name} loss needs {expected}; declare its classes in the domain"
            )
        _ = self.problem(1)

    @property
    def ordered(self) -> bool:
        """Whether a record's place in its block may matter: not to minimisers of a mean loss.

        An exact minimiser is the same in every order, and a certificate bounds what is left; of
        any other solver nothing of the kind is known.
        """
        return self.base is not None and not isinstance(self.base, OutputPerturbation)

    @property
    def rows(self) -> int:
        """Rows of parameters: 1, or one for each class."""
        return self.loss.classes if isinstance(self.loss, SoftmaxLoss) else 1

    @cached_property
    def dimension(self) -> int:
        """Of the parameters."""
        return self.rows * (self.domain.dimension + int(self.domain.intercept))

    @cached_property
    def ball(self) -> L2Ball:
        """Of the parameters."""
        return L2Ball(dimension=self.dimension, radius=self.radius)

    def problem(self, size: int) -> Problem:
        """The problem of so many blocks."""
        return self._known_problems(size)

    @cached_property
    def _known_problems(self) -> Callable[[int], Problem]:
        # Few sizes come again and again, after every block; refits' ever larger ones do not.
        return lru_cache(maxsize=_KNOWN)(self._problem)

    @cached_property
    def _known_plans(self) -> Callable[[int, float], FitPlan]:
        return lru_cache(maxsize=_KNOWN)(self._plan)

    def _problem(self, size: int) -> Problem:
        return Problem(
            loss=self.loss,
            convex_set=self.ball,
            domain=self.domain,
            records=size * self.block_records,
            neighbours=self.neighbours,
            unit=self.unit,
        )

    def parameters(self, coefficients: FloatArray, intercept: FloatArray) -> FloatArray:
        """Public parameters of scaled features, one row per class, as a point of the ball."""
        table = coefficients / self.problem(1).feature_scale
        if self.domain.intercept:
            table = np.column_stack([intercept, table])
        return self.ball.project(table.ravel())

    def plan(self, size: int, modulus: float, centre: FloatArray | None = None) -> FitPlan:
        """The noise of a fit of so many blocks: a function of public numbers alone.

        Args:
            size: blocks.
            modulus: of the regulariser.
            centre: released parameters, on which another solver's noise may depend; None for
                the farthest ones.

        Raises:
            ConfigurationError: if another solver was given and cannot take a fit's place.
            NotPrivate: if Gaussian noise is asked for and the budget's delta is 0.
        """
        if self.base is not None and centre is not None:
            return self._other_plan(self.base, size, modulus, centre)
        return self._known_plans(size, modulus)

    def _share(self, size: int) -> Share:
        return Share(budget=self.budget, fraction=min(1.0, float(size) ** -self.power / self.worst))

    def _other_plan(self, base: Solver, size: int, modulus: float, centre: FloatArray) -> FitPlan:
        """Another solver's plan, for one record's part of a unit's share."""
        share, cap = self._share(size), self.unit.cap
        squared = self.kind == "gaussian"
        course = base.plan(
            replace(
                self.problem(size),
                unit=Unit(),
                loss=RegularisedLoss(loss=self.loss, ridge=modulus, centre=centre),
            ),
            replace(share, fraction=share.fraction / cap ** (2 if squared else 1)),
        )
        noise = _only_noise(course, self.kind)
        return FitPlan(
            size=size,
            fraction=share.fraction,
            modulus=modulus,
            tolerance=0.0,
            noise=replace(noise, sensitivity=cap * noise.sensitivity),
            course=course,
        )

    def _plan(self, size: int, modulus: float) -> FitPlan:
        # Centres lie in the ball, up to rounding: one beyond its surface has a larger error.
        edge = np.full(self.dimension, _BEYOND * self.radius / math.sqrt(self.dimension))
        if self.base is not None:
            return self._other_plan(self.base, size, modulus, edge)
        share, problem = self._share(size), self.problem(size)
        target = Target(problem=problem, modulus=modulus, centre=edge)
        tolerance = max(
            _TOLERANCE_SHARE * problem.lipschitz.l2 / problem.records, least_tolerance(target)
        )
        if self.kind == "gaussian":
            most = allowed_mu(share)
            spread = 1.0
        else:
            most = share.fraction * pure_epsilon(self.budget)
            spread = math.sqrt(self.dimension)
        exact = fit_sensitivity(problem, modulus=modulus, tolerance=tolerance, exponent=None)
        deviation = exact / most * spread
        # Large fits have little influence beside their noise: round by a part of that.
        smallest = exact / (self.unit.cap * math.sqrt(self.dimension))
        finer = math.floor(math.log2(_ROUNDING_SHARE * smallest))
        place = math.floor(math.log2(deviation))
        exponent = min(place - _COARSEST, max(finer, place - _FINEST))
        rounded = fit_sensitivity(problem, modulus=modulus, tolerance=tolerance, exponent=exponent)
        noise = OutputNoise(
            kind=self.kind,
            exponent=exponent,
            sensitivity=rounded,
            scale=rounded / most,
            dimension=self.dimension,
        )
        noise.check_reach(self.radius)
        return FitPlan(
            size=size,
            fraction=share.fraction,
            modulus=modulus,
            tolerance=tolerance,
            noise=noise,
        )

    def fit(
        self,
        plan: FitPlan,
        batch: Batch,
        *,
        centre: FloatArray,
        address: tuple[int, ...],
        noise: Noise,
    ) -> tuple[FloatArray, Measurement]:
        """Minimise to the certificate, measure, and project onto the ball.

        Args:
            plan: of ``plan``, for the batch's size and, with another solver, this centre.
            batch: the blocks' records.
            centre: released parameters, or the origin.
            address: unique in the stream.
            noise: the stream's.

        Returns:
            Released parameters, and the measurement they are made of.

        Raises:
            CertificateError: if the certificate was not reached; nothing is measured then.
        """
        label = "fit " + " ".join(str(part) for part in address)
        if self.base is not None:
            assert plan.course is not None
            result = self.base.release(plan.course, batch, noise.child(label))
            (measurement,) = result.measurements
            return self.ball.project(result.parameters), replace(measurement, address=address)
        target = Target(problem=self.problem(plan.size), modulus=plan.modulus, centre=centre)
        minimum = minimise(target, batch, tolerance=plan.tolerance)
        measurement = plan.noise.measure(minimum.point, noise=noise.child(label))
        point = self.ball.project(released_parameters(plan.noise, measurement))
        return point, replace(measurement, address=address)
