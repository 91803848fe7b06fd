"""What a loss can do, as types.

Parameters are flat vectors; a batch is a feature matrix with one row per record and its
targets. Nothing loops over records. Losses that are not smooth have no ``smoothness``:
capability is a type.
"""

from typing import ClassVar, Protocol, runtime_checkable

from dpstream.arrays import FloatArray
from dpstream.geometry.convex_set import ConvexSet
from dpstream.losses.record_bound import Lipschitz, RecordBound


@runtime_checkable
class Loss(Protocol):
    """A convex loss of parameters on records."""

    name: ClassVar[str]
    """Its name in the catalogue."""

    def values(
        self, parameters: FloatArray, features: FloatArray, targets: FloatArray
    ) -> FloatArray:
        """The loss of each record."""
        ...

    def gradients(
        self, parameters: FloatArray, features: FloatArray, targets: FloatArray
    ) -> FloatArray:
        """The (sub)gradient of each record, one row each."""
        ...

    def gradient_sum(
        self,
        parameters: FloatArray,
        features: FloatArray,
        targets: FloatArray,
        *,
        clip: float | None = None,
    ) -> FloatArray:
        """The sum of the records' gradients, each first rescaled to L2 norm at most ``clip``."""
        ...

    def lipschitz(self, bound: RecordBound, convex_set: ConvexSet | None) -> Lipschitz:
        """The largest gradient of any record anywhere on the set, in both norms.

        Raises:
            ConfigurationError: if it is infinite.
        """
        ...


@runtime_checkable
class SmoothLoss(Loss, Protocol):
    """A loss with a Lipschitz gradient."""

    def smoothness(self, bound: RecordBound, convex_set: ConvexSet | None) -> Lipschitz:
        """The Lipschitz constants of the gradient: L2 to L2, and L1 to largest entry.

        Raises:
            ConfigurationError: if they are infinite.
        """
        ...

    def curvature(self, bound: RecordBound, convex_set: ConvexSet) -> float:
        """The curvature constant of Frank-Wolfe on the set (001, definition 5.1), or a bound."""
        ...


@runtime_checkable
class GeneralisedLinear(Loss, Protocol):
    """A loss ``l(<x, theta>, y)`` of a score and a target."""

    def link(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """``l(u, y)``."""
        ...

    def derivative(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """``l'(u, y)``; at kinks a subgradient."""
        ...

    def proximal(self, scores: FloatArray, targets: FloatArray, steps: FloatArray) -> FloatArray:
        """``argmin l(v, y) + (v - u)^2 / (2 c)``: the score after an implicit step.

        The implicit gradient step of size h on one record moves the parameters by
        ``-(u - v) / |x|^2 x`` with ``c = h |x|^2``.
        """
        ...


@runtime_checkable
class SmoothGeneralisedLinear(GeneralisedLinear, SmoothLoss, Protocol):
    """A generalised linear loss with a bounded second derivative.

    ``twice_differentiable`` says whether that derivative is continuous, as objective
    perturbation needs.
    """

    twice_differentiable: ClassVar[bool]
    """Whether ``l''`` is continuous."""

    def second_derivative(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """``l''(u, y)``; at its jumps the larger value."""
        ...
