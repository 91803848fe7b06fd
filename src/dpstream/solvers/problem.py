"""What a batch solver is asked: an average loss over a public number of records, on a set.

``min over theta in C of (1/n) sum l(theta; record_i) + regulariser(theta)`` (000, section 2;
001, section 2: empirical risk minimisation). Everything here is public: the loss's constants
come from the domain's bounds, and n is the declared number of records, null ones included.
"""

import json
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.batch import GRID, Batch
from dpstream.domain.domain import Domain
from dpstream.errors import ConfigurationError
from dpstream.geometry.convex_set import ConvexSet
from dpstream.geometry.declaration import require_positive
from dpstream.losses.loss import GeneralisedLinear, Loss, SmoothLoss
from dpstream.losses.record_bound import Lipschitz, RecordBound
from dpstream.losses.regularised import RegularisedLoss
from dpstream.losses.softmax import SoftmaxLoss
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.solvers.description import described

ROUNDED_UP = 1.0 + 2.0**-26
"""Factor on every bound of a record's gradient.

It covers what floating point adds to scaled features, to scores and to slopes (a relative
``d 2^-52`` each). Parameters must lie within the set's radii: what lies beyond by the relative
1e-9 with which membership is decided adds as much to slopes that are linear in the score, but
more to exponential ones.
"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """A convex problem over one batch, declared before any data.

    The null record's gradient is zero everywhere, so it contributes nothing but its place in n.

    Attributes:
        loss: of a record; a ``RegularisedLoss`` makes the problem strongly convex, and its
            regulariser, being public, costs no privacy.
        convex_set: C, in the coordinates of ``design``.
        domain: bounds of records.
        records: n, public: the number of records of every batch, null ones included.
        neighbours: what a unit is hidden against.
        unit: whose contribution is hidden; the caller enforces its cap.
        gradient_clip: rescale each record's gradient to this L2 norm; None where the loss's own
            bound is to be used.
        target: which of the domain's targets is predicted (losses over classes use all).
    """

    loss: Loss | RegularisedLoss
    convex_set: ConvexSet
    domain: Domain
    records: int
    neighbours: Neighbours
    unit: Unit
    gradient_clip: float | None = None
    target: int = 0

    def __post_init__(self) -> None:
        if self.records < 1:
            raise ConfigurationError(
                f"records is {self.records}; averaging needs a public number of at least 1"
            )
        if self.gradient_clip is not None:
            require_positive("gradient_clip", self.gradient_clip)
        if isinstance(self.data_loss, SoftmaxLoss):
            self.data_loss.check_targets(self.domain)
        if not 0 <= self.target < self.domain.target_count:
            raise ConfigurationError(
                f"target is {self.target}, but the domain has {self.domain.target_count}; "
                "give the position of a declared target"
            )
        expected = self.features * self.rows
        if self.convex_set.dimension != expected:
            raise ConfigurationError(
                f"the set has dimension {self.convex_set.dimension}, but the loss has {expected} "
                "parameters on this domain (one per encoded feature, one more with an "
                "intercept, for each class); declare the set in that dimension"
            )
        _ = self.lipschitz

    # --- shape -------------------------------------------------------------------------------

    @property
    def features(self) -> int:
        """Columns of the design: the domain's encoded features, after a constant if it has one."""
        return self.domain.dimension + int(self.domain.intercept)

    @property
    def rows(self) -> int:
        """Parameters per feature: 1, or one for each class."""
        loss = self.data_loss
        return loss.classes if isinstance(loss, SoftmaxLoss) else 1

    @property
    def dimension(self) -> int:
        """Number of parameters."""
        return self.convex_set.dimension

    @cached_property
    def label(self) -> str:
        """All that is public of it but the budget, as text: other problems have other labels.

        Secret randomness that covers no measured value is bound to it.

        Raises:
            ConfigurationError: if the loss or the set is made of parts that have no text.
        """
        parts = {
            "loss": described(self.loss),
            "set": described(self.convex_set),
            "unit": described(self.unit),
            "neighbours": self.neighbours.value,
            "records": self.records,
            "target": self.target,
            "clip": self.gradient_clip,
            "intercept": self.domain.intercept,
            "scale": self.feature_scale,
        }
        return json.dumps(parts, sort_keys=True)

    # --- data --------------------------------------------------------------------------------

    @property
    def feature_scale(self) -> float:
        """What scaled features are multiplied with: public, 1 for L2 bounds.

        Domains with record bound ``"max"`` divide by the square root of the number of features
        to fit the unit ball; that is undone here, so that entries are bounded by 1 again.
        """
        return self.domain.radius if self.domain.record_bound == "max" else 1.0

    def design(self, batch: Batch) -> tuple[FloatArray, FloatArray]:
        """Features ``(n, features)`` and targets of a batch: secret.

        Targets are a vector, or for losses over classes the indicator rows.

        Raises:
            ConfigurationError: if the batch does not have n records, or not the domain's width.
        """
        self.check(batch)
        first = 0 if self.domain.intercept else 1
        scale = self.feature_scale / GRID
        features = batch.rows[:, first : 1 + self.domain.dimension] * scale
        if self.domain.intercept and scale != 1.0 / GRID:
            features[:, 0] /= self.feature_scale
        targets = batch.rows[:, 1 + self.domain.dimension :] * (1.0 / GRID)
        return features, targets if self.rows > 1 else targets[:, self.target]

    def check(self, batch: Batch) -> None:
        """Refuse a batch of the wrong size; both sizes are public.

        Raises:
            ConfigurationError: if the batch does not have n records, or not the domain's width.
        """
        if len(batch) != self.records:
            raise ConfigurationError(
                f"the batch has {len(batch)} records, but the plan is for {self.records}; plan "
                "for the batch's public size, counting null records"
            )
        if (batch.dimension, batch.target_count) != (
            self.domain.dimension,
            self.domain.target_count,
        ):
            raise ConfigurationError(
                f"the batch has {batch.dimension} features and {batch.target_count} targets, but "
                f"the domain {self.domain.dimension} and {self.domain.target_count}; admit "
                "records with the problem's own domain"
            )

    def scaled_parameters(self, parameters: FloatArray) -> FloatArray:
        """Intercept (0 if there is none), then coefficients, of the domain's scaled features.

        ``(1 + d,)``, or one row per class: what ``Domain.user_map`` turns into the user's units.
        """
        table = parameters.reshape(self.rows, self.features)
        if self.domain.intercept:
            scaled = np.hstack([table[:, :1], table[:, 1:] * self.feature_scale])
        else:
            scaled = np.hstack([np.zeros((self.rows, 1)), table * self.feature_scale])
        return scaled if self.rows > 1 else scaled[0]

    # --- constants ---------------------------------------------------------------------------

    @cached_property
    def record_bound(self) -> RecordBound:
        """Bounds on a row of the design and on its target, the grid's rounding included."""
        domain = self.domain
        if domain.record_bound == "max":
            # A coordinate is the nearest grid point to at most 1 / radius.
            largest = math.floor(GRID / domain.radius + 0.5 + 1e-6) / GRID * domain.radius
            length = domain.radius
        else:
            largest = length = 1.0
        if domain.intercept:
            largest, length = max(largest, 1.0), math.hypot(1.0, length)
        ends = domain.target_map
        # Rounded to the nearest grid point; several targets that are carried out of their ball
        # by that are truncated towards zero.
        off = (0.5 if domain.target_count == 1 else 2.0) / GRID
        lower = float((ends.lower - ends.centre)[self.target] * ends.scale[self.target]) - off
        upper = float((ends.upper - ends.centre)[self.target] * ends.scale[self.target]) + off
        return RecordBound(
            feature_l2=length,
            feature_max=largest,
            target_lower=max(lower, -1.0),
            target_upper=min(upper, 1.0),
        )

    @property
    def data_loss(self) -> Loss:
        """The record's part of the loss: what sensitivity rests on."""
        return self.loss.loss if isinstance(self.loss, RegularisedLoss) else self.loss

    @cached_property
    def lipschitz(self) -> Lipschitz:
        """Bounds on any record's gradient, computed and clipped as in ``design``.

        In L2 and in the largest entry, without the regulariser, which cancels between
        neighbours.
        """
        if self.gradient_clip is None:
            own = self.data_loss.lipschitz(self.record_bound, self.convex_set)
        else:
            try:
                own = self.data_loss.lipschitz(self.record_bound, self.convex_set)
            except ConfigurationError:
                own = Lipschitz(l2=math.inf, max=math.inf)
            clip = self.gradient_clip
            own = Lipschitz(l2=min(own.l2, clip), max=min(own.max, clip))
        return Lipschitz(l2=own.l2 * ROUNDED_UP, max=own.max * ROUNDED_UP)

    @property
    def strong_convexity(self) -> float:
        """Modulus in L2 that every data set has: the regulariser's, else 0."""
        return self.loss.ridge if isinstance(self.loss, RegularisedLoss) else 0.0

    @cached_property
    def smooth_loss(self) -> SmoothLoss:
        """The record's part, where its gradient is Lipschitz.

        Raises:
            ConfigurationError: if it is not.
        """
        loss = self.data_loss
        if not isinstance(loss, SmoothLoss):
            raise ConfigurationError(
                f"the {loss.name} loss has no Lipschitz gradient; take its smoothed form or a "
                "solver for losses with kinks"
            )
        return loss

    @property
    def generalised_linear_loss(self) -> GeneralisedLinear:
        """The record's part, where it depends on one score.

        Raises:
            ConfigurationError: if it does not.
        """
        loss = self.data_loss
        if not isinstance(loss, GeneralisedLinear):
            raise ConfigurationError(
                f"the {loss.name} loss is not a function of one score per record; take a solver "
                "that does not need it"
            )
        return loss

    def regulariser_gradient(self, parameters: FloatArray) -> FloatArray:
        """Of the average problem: public."""
        if not isinstance(self.loss, RegularisedLoss):
            return np.zeros_like(parameters)
        centre = self.loss.centre
        return self.loss.ridge * (parameters if centre is None else parameters - centre)

    def risk(self, parameters: FloatArray, batch: Batch) -> float:
        """The objective on a batch: secret, for tests and for data that is not private."""
        features, targets = self.design(batch)
        return float(np.mean(self.loss.values(parameters, features, targets)))
