"""Losses of a score ``u = <x, theta>`` and a target: everything follows from one variable."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.geometry.convex_set import ConvexSet
from dpstream.geometry.declaration import require_positive
from dpstream.losses.record_bound import Lipschitz, RecordBound, finite

SCORE_REMEDY = "bound the parameters: pass a set of finite radius, or clip gradients"


@dataclass(frozen=True, kw_only=True)
class GeneralisedLinearLoss(ABC):
    """``l(<x, theta>, y)``: gradients are ``l' x``, Hessians ``l'' x x^T`` of rank one."""

    name: ClassVar[str]

    @abstractmethod
    def link(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """``l(u, y)``."""

    @abstractmethod
    def derivative(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """``l'(u, y)``; at kinks a subgradient."""

    @abstractmethod
    def proximal(self, scores: FloatArray, targets: FloatArray, steps: FloatArray) -> FloatArray:
        """``argmin l(v, y) + (v - u)^2 / (2 c)``, entry by entry."""

    @abstractmethod
    def slope_bound(self, bound: RecordBound, score_bound: float) -> float:
        """The largest ``|l'|`` over targets of the bound and scores up to ``score_bound``."""

    def values(
        self, parameters: FloatArray, features: FloatArray, targets: FloatArray
    ) -> FloatArray:
        """The loss of each record."""
        return self.link(features @ parameters, targets)

    def gradients(
        self, parameters: FloatArray, features: FloatArray, targets: FloatArray
    ) -> FloatArray:
        """``l' x``, one row per record."""
        return self.derivative(features @ parameters, targets)[:, None] * features

    def gradient_sum(
        self,
        parameters: FloatArray,
        features: FloatArray,
        targets: FloatArray,
        *,
        clip: float | None = None,
    ) -> FloatArray:
        """``sum l' x``; with ``clip`` each term is first rescaled to L2 norm at most that.

        A clipped gradient is that of a convex loss of the same record, whose slope stops
        growing at ``clip / |x|``: clipping here changes the loss, not its convexity.
        """
        slopes = self.derivative(features @ parameters, targets)
        if clip is not None:
            require_positive("clip", clip)
            lengths = np.sqrt(np.einsum("ij,ij->i", features, features))
            with np.errstate(divide="ignore"):
                limits = np.where(lengths > 0, clip / lengths, 0.0)
            slopes = np.clip(slopes, -limits, limits)
        return slopes @ features

    def lipschitz(self, bound: RecordBound, convex_set: ConvexSet | None) -> Lipschitz:
        """The largest slope times the largest record, in both norms.

        Exact where the slope's maximum is attained by a largest record: on L2 balls with an L2
        bound, on L1 balls with a bound on entries, and for losses of constant slope.
        """
        slope = finite(
            self.slope_bound(bound, bound.score_bound(convex_set)),
            constant="Lipschitz constant",
            loss=self.name,
            remedy=SCORE_REMEDY,
        )
        length = bound.length(convex_set, loss=self.name)
        return Lipschitz(l2=slope * length, max=slope * bound.feature_max)


@dataclass(frozen=True, kw_only=True)
class SmoothGeneralisedLinearLoss(GeneralisedLinearLoss):
    """A generalised linear loss with a bounded second derivative.

    ``twice_differentiable`` says whether it is continuous, as objective perturbation needs.
    """

    twice_differentiable: ClassVar[bool]

    @abstractmethod
    def second_derivative(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """``l''(u, y)``; at its jumps the larger value."""

    @abstractmethod
    def bend_bound(self, bound: RecordBound, score_bound: float) -> float:
        """The largest ``l''`` over targets of the bound and scores up to ``score_bound``."""

    def hessian_weights(
        self, parameters: FloatArray, features: FloatArray, targets: FloatArray
    ) -> FloatArray:
        """``l''`` of each record: its Hessian is that times ``x x^T``."""
        return self.second_derivative(features @ parameters, targets)

    def _bend(self, bound: RecordBound, convex_set: ConvexSet | None) -> float:
        return finite(
            self.bend_bound(bound, bound.score_bound(convex_set)),
            constant="smoothness",
            loss=self.name,
            remedy=SCORE_REMEDY,
        )

    def smoothness(self, bound: RecordBound, convex_set: ConvexSet | None) -> Lipschitz:
        """``l''`` times the squared record bound, in both norms."""
        bend = self._bend(bound, convex_set)
        length = bound.length(convex_set, loss=self.name)
        return Lipschitz(l2=bend * length**2, max=bend * bound.feature_max**2)

    def curvature(self, bound: RecordBound, convex_set: ConvexSet) -> float:
        """``l''`` times the squared largest change of a score on the set."""
        return self._bend(bound, convex_set) * bound.score_change(convex_set) ** 2


_MOST_NEWTON_STEPS = 400
"""Never reached: steps or brackets halve."""


def proximal_newton(
    loss: SmoothGeneralisedLinearLoss,
    scores: FloatArray,
    targets: FloatArray,
    steps: FloatArray,
) -> FloatArray:
    """The root v of ``v + c l'(v, y) = u`` for losses without a closed form.

    The left side increases with slope at least 1, so the root lies between u and
    ``u - c l'(u, y)``. A Newton step that leaves this shrinking bracket, or is not half of the
    one before the last, is replaced by bisection: within the bracket alone Newton's steps can go
    back and forth for ever.
    """
    scores, targets, steps = np.broadcast_arrays(scores, targets, steps)
    end = scores - steps * loss.derivative(scores, targets)
    lower, upper = np.minimum(scores, end), np.maximum(scores, end)
    value = (lower + upper) / 2
    before = last = upper - lower
    for _ in range(_MOST_NEWTON_STEPS):
        residual = value + steps * loss.derivative(value, targets) - scores
        lower = np.where(residual <= 0, value, lower)
        upper = np.where(residual >= 0, value, upper)
        newton = value - residual / (1 + steps * loss.second_derivative(value, targets))
        slow = 2 * np.abs(newton - value) > before
        outside = (newton <= lower) | (newton >= upper)
        following = np.where(slow | outside, (lower + upper) / 2, newton)
        following = np.where(residual == 0, value, following)
        if np.all(np.abs(following - value) <= 4e-16 * (np.abs(value) + 1e-300)):
            break
        before, last = last, np.abs(following - value)
        value = following
    return value
