"""Softmax cross-entropy over classes."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from dpstream.arrays import FloatArray
from dpstream.domain.domain import Domain
from dpstream.domain.target import LabelTarget
from dpstream.errors import ConfigurationError
from dpstream.geometry.convex_set import ConvexSet
from dpstream.geometry.declaration import require_positive
from dpstream.losses.record_bound import Lipschitz, RecordBound


@dataclass(frozen=True, kw_only=True)
class SoftmaxLoss:
    """``ln sum_j exp(u_j) - u_y`` with scores ``u_j = <x, theta_j>``.

    Parameters are the rows ``theta_j`` one after the other; targets are indicator rows, all
    zero for the null record. Not generalised linear: the gradient ``(p - e_y) x^T`` has rank
    one but moves in ``classes - 1`` directions.

    Attributes:
        classes: how many; at least 2.
    """

    classes: int
    name: ClassVar[str] = "softmax"

    def __post_init__(self) -> None:
        if self.classes < 2:
            raise ConfigurationError(f"classes is {self.classes}; a choice needs at least two")

    def check_targets(self, domain: Domain) -> None:
        """Refuse a domain whose targets are not indicators of these classes.

        The constants hold for indicator rows: numbers of their own would make longer gradients.

        Raises:
            ConfigurationError: naming what to declare.
        """
        widths = [t.width if isinstance(t, LabelTarget) else 0 for t in domain.targets]
        if widths != [self.classes]:
            raise ConfigurationError(
                f"the domain has {domain.target_count} encoded targets, and the softmax loss needs "
                f"the indicators of {self.classes} labels; declare one target with its classes as "
                "labels, three or more"
            )

    def _scores(self, parameters: FloatArray, features: FloatArray) -> FloatArray:
        return features @ parameters.reshape(self.classes, -1).T

    def _errors(
        self, parameters: FloatArray, features: FloatArray, targets: FloatArray
    ) -> FloatArray:
        return special.softmax(self._scores(parameters, features), axis=1) - targets

    def values(
        self, parameters: FloatArray, features: FloatArray, targets: FloatArray
    ) -> FloatArray:
        """The loss of each record."""
        scores = self._scores(parameters, features)
        return special.logsumexp(scores, axis=1) - np.einsum("ij,ij->i", scores, targets)

    def gradients(
        self, parameters: FloatArray, features: FloatArray, targets: FloatArray
    ) -> FloatArray:
        """``(p - e_y) x^T``, flattened, one row per record."""
        errors = self._errors(parameters, features, targets)
        return np.einsum("ij,ik->ijk", errors, features).reshape(len(features), -1)

    def gradient_sum(
        self,
        parameters: FloatArray,
        features: FloatArray,
        targets: FloatArray,
        *,
        clip: float | None = None,
    ) -> FloatArray:
        """``sum (p - e_y) x^T``; a term's L2 norm is ``|p - e_y| |x|``."""
        errors = self._errors(parameters, features, targets)
        if clip is not None:
            require_positive("clip", clip)
            squares = np.einsum("ij,ij->i", errors, errors)
            lengths = np.sqrt(squares * np.einsum("ij,ij->i", features, features))
            errors = errors * np.minimum(1.0, clip / np.maximum(lengths, clip))[:, None]
        return (errors.T @ features).ravel()

    def hessian_products(
        self,
        parameters: FloatArray,
        features: FloatArray,
        direction: FloatArray,
    ) -> FloatArray:
        """The quadratic form of each record's Hessian: the variance of ``<x, d_j>`` under p."""
        chances = special.softmax(self._scores(parameters, features), axis=1)
        changes = self._scores(direction, features)
        means = np.einsum("ij,ij->i", chances, changes)
        return np.einsum("ij,ij->i", chances, (changes - means[:, None]) ** 2)

    def _worst_error(self, bound: RecordBound, convex_set: ConvexSet | None) -> float:
        # The label's probability is least when its score is least and one rival's is largest:
        # differences of two rows of a matrix of L2 norm R have norm at most sqrt(2) R, and of
        # L1 norm R at most R.
        if convex_set is None:
            return 1.0
        change = min(
            bound.feature_l2 * math.sqrt(2) * convex_set.l2_radius(),
            bound.feature_max * convex_set.l1_radius(),
        )
        odds = (self.classes - 1) * math.exp(min(change, 700.0))
        return odds / (1 + odds)

    def lipschitz(self, bound: RecordBound, convex_set: ConvexSet | None) -> Lipschitz:
        """``|p - e_y|_2 <= sqrt(2) (1 - p_y)`` times the record; exact for two classes.

        ``sqrt(2) feature_l2`` without a set: approached by a confident wrong answer, whatever
        the number of classes.
        """
        worst = self._worst_error(bound, convex_set)
        length = bound.length(convex_set, loss=self.name, rows=self.classes)
        return Lipschitz(l2=math.sqrt(2) * worst * length, max=worst * bound.feature_max)

    def smoothness(self, bound: RecordBound, convex_set: ConvexSet | None) -> Lipschitz:
        """``diag(p) - p p^T`` has eigenvalues up to 1/2 and entries up to 1/4."""
        length = bound.length(convex_set, loss=self.name, rows=self.classes)
        return Lipschitz(l2=length**2 / 2, max=bound.feature_max**2 / 4)

    def curvature(self, bound: RecordBound, convex_set: ConvexSet) -> float:
        """A variance is at most a quarter of the squared range of the scores' changes."""
        change = min(
            bound.feature_l2 * math.sqrt(2) * convex_set.diameter(),
            bound.feature_max * 2 * convex_set.l1_radius(),
        )
        return change**2 / 4
