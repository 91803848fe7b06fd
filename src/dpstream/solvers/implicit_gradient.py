"""One pass of implicit gradient steps: how it runs, and how far one record moves its result.

``x_{t+1} = P_C(argmin_x |x - x_t|^2 / 2 + eta_t f_t(x))`` with ``f_t`` strongly convex (paper 004,
section 4.1). Proof in ``implicit_gradient.proof.md``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.errors import ConfigurationError
from dpstream.geometry.convex_set import Projectable
from dpstream.geometry.l2_ball import L2Ball
from dpstream.losses.loss import GeneralisedLinear
from dpstream.losses.loss_code import ROOT_ACCURACY, loss_code
from dpstream.losses.poisson import PoissonLoss
from dpstream.mechanisms.mechanism import bounded_sum_sensitivity
from dpstream.mechanisms.public import public_generator
from dpstream.solvers.minimiser import projection_errors, regulariser, secretly_projectable
from dpstream.solvers.problem import ROUNDED_UP, Problem

Result = Literal["average", "suffix", "last"]
_RESULTS = ("average", "suffix", "last")
_ROUNDED_UP = 1.0 + 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class Course:
    """The public course of one pass over n records.

    Attributes:
        step_sizes: ``eta_t``, one for each record.
        moduli: ``m_t`` of the regulariser in ``f_t``.
        weights: of the iterates ``x_1 ... x_{n+1}`` in the result; they sum to 1.
    """

    step_sizes: FloatArray
    moduli: FloatArray
    weights: FloatArray

    @property
    def contractions(self) -> FloatArray:
        """The Lipschitz constant of each step at an equal record."""
        return 1.0 / (1.0 + self.step_sizes * self.moduli)

    @property
    def influences(self) -> FloatArray:
        """How far the result moves, at most, if step t's end moves by 1."""
        product = np.cumprod(self.contractions)
        tail = np.cumsum((self.weights[1:] * product)[::-1])[::-1]
        return tail / product * _ROUNDED_UP


def result_weights(result: Result, records: int) -> FloatArray:
    """Weights of the iterates ``x_1 ... x_{n+1}``.

    The average of ``x_1 ... x_n`` (paper 004, Algorithm 6), of their second half, or the last.
    """
    weights = np.zeros(records + 1)
    if result == "last":
        weights[-1] = 1.0
    else:
        first = records // 2 if result == "suffix" else 0
        weights[first:records] = 1.0 / (records - first)
    return weights


def check_result(result: str) -> None:
    """Refuse an unknown result."""
    if result not in _RESULTS:
        raise ConfigurationError(f"result is {result!r}; it must be one of {', '.join(_RESULTS)}")


def global_slope(problem: Problem) -> float:
    """The bound of any record's gradient anywhere: implicit steps may leave the set.

    Raises:
        ConfigurationError: if it is infinite, or gradients are clipped, or the loss has no score.
    """
    loss = problem.generalised_linear_loss
    if problem.gradient_clip is not None:
        raise ConfigurationError(
            f"gradient_clip is {problem.gradient_clip}, but an implicit step needs the loss as it "
            "is; take a loss with a bounded slope"
        )
    return loss.lipschitz(problem.record_bound, None).l2 * ROUNDED_UP


def course_shift(
    problem: Problem, course: Course, *, slope: float, rounding_step: float = 0.0
) -> float:
    """How far a unit moves the exact result, at most, rounded to a lattice: inverse to the moduli.

    Args:
        problem: its neighbours and cap.
        course: of the pass.
        slope: of a record's loss.
        rounding_step: of the lattice; 0 for none.
    """
    shortened = course.step_sizes * course.contractions
    return bounded_sum_sensitivity(
        slope * float(np.max(shortened * course.influences)),
        neighbours=problem.neighbours,
        cap=problem.unit.cap,
        rounding_step=rounding_step,
        dimension=problem.dimension,
    )


def course_sensitivity(
    problem: Problem, course: Course, *, slope: float, exponent: int | None
) -> float:
    """THE sensitivity of the rounded result of a pass, in L2.

    Changing record i moves the end of step i by ``2 L eta_i / (1 + eta_i m_i)`` (replace) or half
    of it (zero-out), where L bounds the record's own gradient; each later step shrinks that by
    its contraction. The worst record counts, times the cap. Added are the rounding errors of all
    steps, for both neighbours, and of the lattice.

    Args:
        problem: its neighbours, cap and set.
        course: of the pass.
        slope: L.
        exponent: of the lattice; None before rounding.
    """
    rounding_step = 0.0 if exponent is None else math.ldexp(1.0, exponent)
    exact = course_shift(problem, course, slope=slope, rounding_step=rounding_step)
    each = (problem.features + 64) * 2.0**-49
    away = float(np.linalg.norm(regulariser(problem, extra=0.0)[1]))
    sizes = 3.0 * (problem.convex_set.l2_radius() + away) + course.step_sizes * slope
    errors = each * sizes + projection_errors(projectable(problem), sizes)
    # Slopes that are roots are known to an absolute accuracy, whatever their size.
    length = problem.record_bound.length(problem.convex_set, loss=problem.data_loss.name)
    errors = errors + course.step_sizes * length * ROOT_ACCURACY
    return exact + 2.0 * float(np.sum(errors * course.influences))


def run(
    problem: Problem, course: Course, batch: Batch, *, centre: FloatArray, seed: int
) -> FloatArray:
    """The weighted iterates of one pass along a public permutation: secret.

    Args:
        problem: what is solved.
        course: of the pass.
        batch: the records.
        centre: of the regulariser; its nearest point of the set is the start.
        seed: of the permutation.
    """
    loss = problem.generalised_linear_loss
    chosen = projectable(problem)
    features, targets = problem.design(batch)
    order = public_generator(seed).permutation(problem.records)
    shrinks = course.contractions
    point = chosen.project(centre)
    total = course.weights[0] * point
    code = loss_code(loss)
    if code is not None and type(chosen) is L2Ball:
        from dpstream.solvers.implicit_kernel import implicit_pass

        implicit_pass(
            features,
            shifted_targets(loss, targets),
            order,
            *code,
            course.step_sizes,
            shrinks,
            course.weights,
            centre,
            chosen.radius,
            point,
            total,
        )
        return total
    slope_after = _implicit_slope(loss)
    squares = np.einsum("ij,ij->i", features, features)
    for step, row in enumerate(order.tolist()):
        shrink, square = shrinks[step], float(squares[row])
        point = shrink * point + (1.0 - shrink) * centre
        if square > 0.0:
            length = float(course.step_sizes[step] * shrink)
            slope = slope_after(float(features[row] @ point), float(targets[row]), length * square)
            point = point - (length * slope) * features[row]
        point = chosen.project(point)
        if course.weights[step + 1] != 0.0:
            total = total + course.weights[step + 1] * point
    return total


def shifted_targets(loss: GeneralisedLinear, targets: FloatArray) -> FloatArray:
    """Targets as the compiled loops take them: a count's offset is added."""
    return targets + loss.target_offset if isinstance(loss, PoissonLoss) else targets


def _implicit_slope(loss: GeneralisedLinear) -> Callable[[float, float, float], float]:
    """``(u - v) / c`` for the score v after an implicit step from u, given y and c."""
    code = loss_code(loss)
    if code is None:

        def by_loss(score: float, target: float, step: float) -> float:
            moved = loss.proximal(np.array([score]), np.array([target]), np.array([step]))
            return (score - float(moved[0])) / step

        return by_loss
    from dpstream.losses.slope_kernel import implicit_slope

    kind, parameter = code
    offset = float(shifted_targets(loss, np.zeros(1))[0])

    def compiled_slope(score: float, target: float, step: float) -> float:
        return implicit_slope(kind, score, target + offset, step, parameter, math.inf)

    return compiled_slope


def projectable(problem: Problem) -> Projectable:
    """The problem's set, on which secret points are projected."""
    return secretly_projectable(problem.convex_set)
