"""A loss with a quadratic regulariser."""

from dataclasses import dataclass

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.geometry.convex_set import ConvexSet
from dpstream.geometry.declaration import require_positive
from dpstream.losses.loss import Loss
from dpstream.losses.record_bound import Lipschitz, RecordBound, finite


@dataclass(frozen=True, kw_only=True, eq=False)
class RegularisedLoss:
    """``loss + (ridge / 2) |theta - centre|^2`` per record: strongly convex with modulus ``ridge``.

    The regulariser does not depend on the record, so it cancels between neighbours: privacy
    rests on ``data_lipschitz``, the loss's own constant, while convergence sees the whole.
    Clipping applies to the record's part, before the regulariser's gradient is added.

    Attributes:
        loss: of the record.
        ridge: the modulus.
        centre: public; the origin if None.
    """

    loss: Loss
    ridge: float
    centre: FloatArray | None = None

    def __post_init__(self) -> None:
        require_positive("ridge", self.ridge)

    @property
    def name(self) -> str:
        """The loss's name, regularised."""
        return f"regularised {self.loss.name}"

    def strong_convexity(self) -> float:
        """The ridge: in L2, anywhere, for every data set."""
        return self.ridge

    def _offset(self, parameters: FloatArray) -> FloatArray:
        return parameters if self.centre is None else parameters - self.centre

    def values(
        self, parameters: FloatArray, features: FloatArray, targets: FloatArray
    ) -> FloatArray:
        """Each record's loss plus the regulariser."""
        offset = self._offset(parameters)
        return self.loss.values(parameters, features, targets) + self.ridge / 2 * (offset @ offset)

    def gradients(
        self, parameters: FloatArray, features: FloatArray, targets: FloatArray
    ) -> FloatArray:
        """Each record's gradient plus the regulariser's."""
        gradients = self.loss.gradients(parameters, features, targets)
        return gradients + self.ridge * self._offset(parameters)

    def gradient_sum(
        self,
        parameters: FloatArray,
        features: FloatArray,
        targets: FloatArray,
        *,
        clip: float | None = None,
    ) -> FloatArray:
        """The records' (clipped) gradients plus one regulariser's gradient per record."""
        total = self.loss.gradient_sum(parameters, features, targets, clip=clip)
        return total + len(features) * self.ridge * self._offset(parameters)

    def data_lipschitz(self, bound: RecordBound, convex_set: ConvexSet | None) -> Lipschitz:
        """The loss's own constant: what sensitivity rests on."""
        return self.loss.lipschitz(bound, convex_set)

    def lipschitz(self, bound: RecordBound, convex_set: ConvexSet | None) -> Lipschitz:
        """Of the sum: for convergence, never for sensitivity."""
        own = self.loss.lipschitz(bound, convex_set)
        reach = np.inf if convex_set is None else convex_set.l2_radius()
        reach += 0.0 if self.centre is None else float(np.linalg.norm(self.centre))
        extra = finite(
            self.ridge * float(reach),
            constant="Lipschitz constant",
            loss=self.name,
            remedy="pass a set of finite radius, or use data_lipschitz if it is for privacy",
        )
        return Lipschitz(l2=own.l2 + extra, max=own.max + extra)
