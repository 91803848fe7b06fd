"""PSGD: projected SGD along a fixed public permutation, its end perturbed by noise.

Paper 003, section 4.1. Proof in ``permuted_sgd.proof.md``.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.errors import ConfigurationError
from dpstream.geometry.declaration import require_positive
from dpstream.mechanisms.mechanism import Noise, bounded_sum_sensitivity
from dpstream.mechanisms.public import public_generator
from dpstream.solvers.minimiser import (
    Target,
    projection_errors,
    reach,
    regulariser,
    secretly_projectable,
)
from dpstream.solvers.output_perturbation import (
    NoiseKind,
    check_noise_kind,
    noise_settings,
    output_noise,
    released,
)
from dpstream.solvers.plan import Allowance, Plan, SolverResult
from dpstream.solvers.problem import Problem


@dataclass(frozen=True, kw_only=True)
class Pass:
    """The public course of the descent.

    Attributes:
        batches: sizes of the mini-batches of one epoch, in order.
        epochs: how often all are gone through.
        step_sizes: of every update, ``len(batches) * epochs`` of them.
        modulus: gamma, of the regularised loss.
        smoothness: beta, of the regularised loss.
    """

    batches: tuple[int, ...]
    epochs: int
    step_sizes: tuple[float, ...]
    modulus: float
    smoothness: float

    def contraction(self, step: int) -> float:
        """The Lipschitz constant of the update, at equal data."""
        size = self.step_sizes[step]
        return max(abs(1.0 - size * self.modulus), abs(1.0 - size * self.smoothness))


def descent_course(
    records: int, *, batch_size: int, epochs: int, modulus: float, smoothness: float
) -> Pass:
    """Near-equal batches and ``eta_t = min(1 / beta, 1 / (gamma t))``."""
    count = max(1, round(records / batch_size))
    edges = [records * index // count for index in range(count + 1)]
    return Pass(
        batches=tuple(np.diff(edges).tolist()),
        epochs=epochs,
        step_sizes=tuple(
            min(1.0 / smoothness, 1.0 / (modulus * step)) for step in range(1, count * epochs + 1)
        ),
        modulus=modulus,
        smoothness=smoothness,
    )


def descent_sensitivity(
    problem: Problem, course: Pass, *, rounding: float, exponent: int | None
) -> float:
    """THE sensitivity of the rounded end of the descent, in L2.

    For a record in batch j the distance of two descents follows
    ``delta <- c_t delta``, plus ``2 L eta_t / b_j`` (replace) or half of it (zero-out) when the
    batch is hit; the largest end over j counts, times the cap.

    Args:
        problem: its constants, neighbours and cap.
        course: of the descent.
        rounding: how far float64 may carry the computed end from the exact one.
        exponent: of the lattice; None before rounding.
    """
    worst = max(descent_influences(course))
    exact = bounded_sum_sensitivity(
        problem.lipschitz.l2 * worst,
        neighbours=problem.neighbours,
        cap=problem.unit.cap,
        rounding_step=0.0 if exponent is None else math.ldexp(1.0, exponent),
        dimension=problem.dimension,
    )
    return exact + 2.0 * rounding


def descent_influences(course: Pass) -> Sequence[float]:
    """For each batch, how far a unit change of one of its gradients moves the end."""
    count = len(course.batches)
    influences = np.zeros(count)
    sizes = np.array(course.batches, np.float64)
    for step, size in enumerate(course.step_sizes):
        influences *= course.contraction(step)
        influences[step % count] += size / sizes[step % count]
    return influences.tolist()


def _computed_error(problem: Problem, course: Pass, centre: FloatArray) -> float:
    """What the roundings of all updates add up to: updates do not expand distances."""
    largest = problem.convex_set.l2_radius() + float(np.linalg.norm(centre))
    sizes = np.array(course.step_sizes)
    terms = problem.lipschitz.l2 + course.smoothness * largest
    each = (problem.features + max(course.batches) + 64) * 2.0**-51
    chosen = secretly_projectable(problem.convex_set)
    errors = projection_errors(chosen, largest + sizes * terms)
    return each * (math.fsum(sizes) * terms + len(sizes) * largest) + math.fsum(errors)


@dataclass(frozen=True, kw_only=True)
class PermutedSGD:
    """Projected mini-batch SGD on the regularised problem; its last iterate plus noise.

    Guaranteed: the budget, for however many epochs; purely, with spherical Laplace noise.

    Attributes:
        ridge: added to the problem's own; None for the same as output perturbation's.
        noise: ``"gaussian"`` or ``"spherical_laplace"``.
        batch_size: of the mini-batches.
        epochs: passes over the data.
        seed: of the public permutation.
    """

    ridge: float | None = None
    noise: NoiseKind = "gaussian"
    batch_size: int = 64
    epochs: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        check_noise_kind(self.noise)
        if self.ridge is not None:
            require_positive("ridge", self.ridge)
        for name, value in (("batch_size", self.batch_size), ("epochs", self.epochs)):
            if value < 1:
                raise ConfigurationError(f"{name} is {value}; it must be at least 1")

    @property
    def name(self) -> str:
        """``"permuted_sgd"``."""
        return "permuted_sgd"

    def _ridge(self, problem: Problem, budget: Allowance) -> float:
        if self.ridge is not None:
            return self.ridge
        if problem.strong_convexity > 0.0:
            return 0.0
        # Minimises ridge R^2 / 2 + L |noise| for a sensitivity of 2 L / (gamma n).
        one = output_noise(
            self.noise,
            budget,
            dimension=problem.dimension,
            sensitivity=lambda _: 1.0,
            exact=1.0,
        ).length
        slope = problem.lipschitz.l2
        unit = bounded_sum_sensitivity(
            slope / problem.records,
            neighbours=problem.neighbours,
            cap=problem.unit.cap,
            rounding_step=0.0,
            dimension=problem.dimension,
        )
        wide = reach(problem, regulariser(problem, extra=0.0)[1])
        return math.sqrt(2.0 * slope * unit * one) / wide

    def plan(self, problem: Problem, budget: Allowance) -> Plan:
        """Noise from the recursion; the predicted excess is a rate, not a bound.

        To the ridge and ``L E|noise|`` it adds ``G^2 (1 + ln T) / (2 gamma T)``, G the regularised
        loss's slope, which is proved for averages of iterates and not for the last one
        (``settings["bound_is_proved"]`` is False).

        Raises:
            ConfigurationError: if the loss is not smooth or the set has no projection.
            NotPrivate: if Gaussian noise is asked for and delta is 0.
        """
        ridge = self._ridge(problem, budget)
        modulus, centre = regulariser(problem, extra=ridge)
        target = Target(problem=problem, modulus=modulus, centre=centre)
        _ = target.convex_set
        course = descent_course(
            problem.records,
            batch_size=self.batch_size,
            epochs=self.epochs,
            modulus=modulus,
            smoothness=target.smoothness,
        )
        rounding = _computed_error(problem, course, centre)
        noise = output_noise(
            self.noise,
            budget,
            dimension=problem.dimension,
            sensitivity=lambda exponent: descent_sensitivity(
                problem, course, rounding=rounding, exponent=exponent
            ),
            exact=descent_sensitivity(problem, course, rounding=rounding, exponent=None),
            reach=problem.convex_set.l2_radius(),
        )
        wide = reach(problem, centre)
        slope = problem.lipschitz.l2 + problem.strong_convexity * wide
        steps = len(course.step_sizes)
        own = (slope + modulus * wide) ** 2 * (1.0 + math.log(steps)) / (2.0 * modulus * steps)
        return Plan(
            solver=self.name,
            problem=problem,
            steps=steps,
            step_sizes=course.step_sizes,
            noise_scales={"output": noise.scale},
            events=(noise.event(self.name),),
            excess_bound=ridge / 2.0 * wide**2 + slope * noise.length + own,
            settings=noise_settings(noise)
            | {
                "ridge": ridge,
                "modulus": modulus,
                "batches": len(course.batches),
                "epochs": self.epochs,
                "seed": self.seed,
                "bound_is_proved": False,
            },
        )

    def release(self, plan: Plan, batch: Batch, noise: Noise) -> SolverResult:
        """Descend, measure, and project onto the set.

        Raises:
            ConfigurationError: if the batch does not fit the problem.
        """
        return released(plan, descend(plan, batch), noise)


def descend(plan: Plan, batch: Batch) -> FloatArray:
    """The end of the descent: secret."""
    problem = plan.problem
    modulus, count = float(plan.settings["modulus"]), int(plan.settings["batches"])
    _, centre = regulariser(problem, extra=0.0)
    features, targets = problem.design(batch)
    order = public_generator(int(plan.settings["seed"])).permutation(problem.records)
    features, targets = features[order], targets[order]
    loss = problem.data_loss
    chosen = Target(problem=problem, modulus=modulus, centre=centre).convex_set
    point = chosen.project(centre)
    edges = [problem.records * index // count for index in range(count + 1)]
    for step, size in enumerate(plan.step_sizes):
        first, last = edges[step % count], edges[step % count + 1]
        total = loss.gradient_sum(point, features[first:last], targets[first:last])
        gradient = total / (last - first) + modulus * (point - centre)
        point = chosen.project(point - size * gradient)
    return point
