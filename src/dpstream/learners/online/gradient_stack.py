"""What a record adds to a continual sum of gradients, in integers, and how far it can move it.

One stacked increment per tick: every record's gradient at the released parameters, second moments
of its features, its loss and its presence. Gradients are ``r z^T`` with ``z`` the admitted record,
already integers on the grid, and ``r`` the slope of the loss in each score. So only ``r`` has to be
bounded and quantised: the norm of a product is the product of two integer norms, and sums of
products go through BLAS exactly.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from scipy import special

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.batch import BLOCK_ROWS, GRID, GRID_BITS, Batch
from dpstream.domain.domain import Domain
from dpstream.domain.lattice import ExactVector
from dpstream.domain.moments import MOMENT_EXPONENT, MomentAccumulator, packed_positions
from dpstream.errors import ConfigurationError
from dpstream.geometry.convex_set import ConvexSet
from dpstream.geometry.declaration import require_positive
from dpstream.learners.online.online_algorithm import online_loss_code
from dpstream.losses.generalised_linear import GeneralisedLinearLoss
from dpstream.losses.record_bound import RecordBound
from dpstream.losses.softmax import SoftmaxLoss
from dpstream.privacy.unit import Neighbours

Curvature = Literal["full", "diagonal", "none"]
StackLoss = GeneralisedLinearLoss | SoftmaxLoss

PARAMETER_BITS = 32
"""Parameters are published with at most so many bits; scores are then exact sums in float64."""

LARGEST_SLOPE = 1024.0
"""Slopes beyond it would leave BLAS too few rows per exact block."""

NO_SLOPE = "the sensitivity would be zero or infinite"
NO_CONSTANT = "drop it, or take a domain without intercept"
"""What follows from declarations that are not positive numbers."""

_ROUNDED_UP = 1.0 + 2.0**-50
_SHRINK = 1.0 - 2.0**-40


def stack_sensitivity(
    *,
    slope: float,
    length: float,
    moments: float,
    loss: float,
    count: float,
    neighbours: Neighbours,
) -> float:
    """The largest L2 shift of the scaled stack that one record can cause.

    A record adds, in scaled units, a gradient of norm at most ``slope * length``; second moments
    ``moments * z z^T`` of Frobenius norm at most ``moments * length^2`` (so has their diagonal);
    its loss, between 0 and ``loss``; and ``count``.

    ``zero_out``: the norm of one stack. ``replace``: two gradients differ by at most twice their
    bound, two losses by at most one, two counts not at all. Second moments differ by at most
    ``sqrt(2)`` times theirs, and by nothing where the gradients differ most, at equal features:
    if ``slope >= sqrt(2) moments length`` the joint maximum is the gradients' alone. Against the
    null record it is the zero-out shift.
    """
    gradient, square = slope * length, moments * length**2
    single = math.sqrt(gradient**2 + square**2 + loss**2 + count**2)
    if neighbours is Neighbours.ZERO_OUT:
        return single * _ROUNDED_UP
    apart = 0.0 if gradient**2 >= 2 * square**2 else 2 * square**2
    return max(single, math.sqrt(4 * gradient**2 + apart + loss**2)) * _ROUNDED_UP


def natural_slope(loss: StackLoss, *, convex_set: ConvexSet | None, intercept: bool) -> float:
    """The largest slope of the loss in its scores, over admitted records and all parameters.

    Raises:
        ConfigurationError: if it is infinite.
    """
    if isinstance(loss, SoftmaxLoss):
        return math.sqrt(2.0)
    bound = RecordBound(feature_l2=1.0)
    # The constant is not bounded by the set, so neither are the scores.
    score_bound = bound.score_bound(None if intercept else convex_set)
    slope = loss.slope_bound(bound, score_bound)
    if not math.isfinite(slope):
        raise ConfigurationError(
            f"the slope of the {loss.name} loss is unbounded here, and with it the sensitivity; "
            "give slope_clip, or take a domain without intercept and a bounded set"
        )
    return slope


@dataclass(frozen=True, kw_only=True)
class GradientStack:
    """The stacked statistic of one tick, and its public layout.

    Guaranteed, for every admitted record, all parameters and whatever floats do: the record adds
    integers on the lattice ``2**-40`` whose scaled L2 norm obeys ``sensitivity``; the null record
    adds zeros. A record's part depends on that record and on the parameters alone.

    Attributes:
        domain: of the records.
        loss: of scores and one target, or softmax over the domain's classes.
        slope: the bound to which slopes are clipped.
        curvature: which second moments are measured.
        constant_scale: the constant's size beside features in the unit ball; 0 without one.
        moment_weight: how loudly second moments are measured beside gradients.
        loss_bound: losses are clipped to it.
        loss_weight: how loudly losses are measured; 0 for not at all.
        count_weight: how loudly records are counted; 0 for not at all.
    """

    domain: Domain
    loss: StackLoss
    slope: float
    curvature: Curvature
    constant_scale: float
    moment_weight: float
    loss_bound: float
    loss_weight: float
    count_weight: float
    _packed: IntArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.curvature not in get_args(Curvature):
            raise ConfigurationError(
                f"curvature is {self.curvature!r}; it must be one of "
                f"{', '.join(get_args(Curvature))}"
            )
        require_positive("slope_clip", self.slope, otherwise=NO_SLOPE)
        require_positive("loss_bound", self.loss_bound, otherwise="losses are clipped to it")
        if self.slope > LARGEST_SLOPE:
            raise ConfigurationError(
                f"slope_clip is {self.slope}; it must be at most {LARGEST_SLOPE:g}: scale the "
                "targets, or clip gradients earlier"
            )
        if self.curvature != "none":
            unweighted = "take curvature='none' to measure no second moments"
            require_positive("moment_weight", self.moment_weight, otherwise=unweighted)
        if self.domain.intercept:
            require_positive("constant_scale", self.constant_scale, otherwise=NO_CONSTANT)
        for name in ("loss_weight", "count_weight"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise ConfigurationError(
                    f"{name} is {getattr(self, name)}; it must be finite and at least 0"
                )
        if isinstance(self.loss, SoftmaxLoss):
            self.loss.check_targets(self.domain)
        elif self.domain.target_count != 1:
            raise ConfigurationError(
                f"the domain has {self.domain.target_count} encoded targets, but the "
                f"{self.loss.name} loss takes 1"
            )
        rows, columns = packed_positions(self.domain.width)
        inside = (rows >= self.first) & (columns < 1 + self.domain.dimension)
        object.__setattr__(self, "_packed", np.flatnonzero(inside).astype(np.int64))

    @cached_property
    def classes(self) -> int:
        """Rows of parameters: one per class, or one."""
        return self.loss.classes if isinstance(self.loss, SoftmaxLoss) else 1

    @cached_property
    def first(self) -> int:
        """The first column of a batch's rows that is a feature: the constant's, or the next."""
        return 0 if self.domain.intercept else 1

    @cached_property
    def width(self) -> int:
        """Parameters per class, the constant included."""
        return self.domain.dimension + (1 - self.first)

    @property
    def length(self) -> float:
        """The largest norm of a record with its constant, in scaled units."""
        return math.hypot(1.0, self.constant_scale if self.domain.intercept else 0.0)

    @cached_property
    def feature_scales(self) -> FloatArray:
        """One per column: the constant's is ``constant_scale``, the others' are 1."""
        scales = np.ones(self.width)
        if self.domain.intercept:
            scales[0] = self.constant_scale
        return scales

    @cached_property
    def gradient_size(self) -> int:
        """Coordinates of the gradient."""
        return self.classes * self.width

    @cached_property
    def moment_size(self) -> int:
        """Coordinates of the second moments."""
        return {"full": int(self._packed.size), "diagonal": self.width, "none": 0}[self.curvature]

    @property
    def size(self) -> int:
        """Coordinates of the stack."""
        extra = (self.loss_weight > 0) + (self.count_weight > 0)
        return self.gradient_size + self.moment_size + extra

    @cached_property
    def scales(self) -> tuple[float, ...]:
        """Per coordinate: its noise is ``sigma / scale``."""
        feature = self.feature_scales
        parts = [np.tile(feature, self.classes)]
        if self.curvature == "full":
            rows, columns = (part - self.first for part in packed_positions(self.domain.width))
            rows, columns = rows[self._packed], columns[self._packed]
            twice = np.where(rows == columns, 1.0, math.sqrt(2.0))
            parts.append(self.moment_weight * feature[rows] * feature[columns] * twice)
        elif self.curvature == "diagonal":
            parts.append(self.moment_weight * feature**2)
        if self.loss_weight > 0:
            parts.append(np.array([self.loss_weight]))
        if self.count_weight > 0:
            parts.append(np.array([self.count_weight]))
        return tuple(np.concatenate(parts).tolist())

    def sensitivity(self, neighbours: Neighbours) -> float:
        """The record's shift of the scaled stack."""
        return stack_sensitivity(
            slope=self.slope,
            length=self.length,
            moments=self.moment_weight if self.curvature != "none" else 0.0,
            loss=self.loss_weight,
            count=self.count_weight,
            neighbours=neighbours,
        )

    @property
    def coordinate_bound(self) -> float:
        """The largest coordinate of one record's unscaled stack."""
        return max(1.0, self.slope)

    # --- parameters ------------------------------------------------------------------------------

    def published(self, parameters: FloatArray) -> FloatArray:
        """The parameters on the lattice on which scores are exact, ``(classes, width)``."""
        return np.ldexp(*self._on_lattice(parameters))

    def _on_lattice(self, parameters: FloatArray) -> tuple[FloatArray, int]:
        # Integers of norm at most 2^32 in every row: with a record of norm 2^20 and a constant
        # of 2^20, every partial sum of a score stays below 2^53.
        largest = float(np.sqrt(np.max(np.einsum("ij,ij->i", parameters, parameters))))
        exponent = math.frexp(largest)[1] - PARAMETER_BITS + 1 if largest > 0 else 0
        return np.rint(np.ldexp(parameters, -exponent)), exponent

    # --- records ---------------------------------------------------------------------------------

    def zeros(self) -> ExactVector:
        """The stack of no records."""
        return ExactVector.zeros(self.size, MOMENT_EXPONENT)

    def add(self, total: ExactVector, batch: Batch, parameters: FloatArray) -> None:
        """Add a batch's stack at the parameters; the sum is the same for every batching."""
        step = int(BLOCK_ROWS / max(1.0, self.slope))
        code = online_loss_code(self.loss)
        lattice = self._on_lattice(parameters)
        for start in range(0, len(batch), step):
            rows = batch.rows[start : start + step]
            block = (
                self._block(rows, lattice)
                if code is None
                else self._compiled_block(rows, lattice, *code)
            )
            total.add_integers(block)
        if self.curvature == "full" and len(batch):
            moments = MomentAccumulator(self.domain.width)
            moments.add_rows(batch.rows)
            taken = moments.take()
            place = slice(self.gradient_size, self.gradient_size + self.moment_size)
            part = ExactVector(total.high[place], total.low[place], MOMENT_EXPONENT)
            part.add(
                ExactVector(taken.high[self._packed], taken.low[self._packed], MOMENT_EXPONENT)
            )
            total.high[place], total.low[place] = part.high, part.low

    def _compiled_block(
        self, rows: FloatArray, lattice: tuple[FloatArray, int], loss: int, threshold: float
    ) -> IntArray:
        """``_block`` for one row of parameters, in one pass over the rows."""
        from dpstream.learners.online.gradient_kernel import add_rows

        integers, exponent = lattice
        stack, extras = np.zeros(self.size), np.zeros(2)
        squares = self.width if self.curvature == "diagonal" else 0
        add_rows(
            rows,
            self.first,
            integers[0],
            math.ldexp(1.0, exponent - GRID_BITS),
            1 + self.domain.dimension,
            loss,
            threshold,
            self.slope * GRID,
            self.loss_bound if self.loss_weight > 0 else 0.0,
            stack[: self.width],
            stack[self.width : self.width + squares],
            extras,
        )
        if self.loss_weight > 0:
            stack[-1 - (self.count_weight > 0)] = extras[0]
        if self.count_weight > 0:
            stack[-1] = extras[1]
        return stack.astype(np.int64)

    def _block(self, rows: FloatArray, lattice: tuple[FloatArray, int]) -> IntArray:
        """The stack of rows few enough for exact sums; full second moments are left out."""
        dimension = self.domain.dimension
        features = rows[:, self.first : 1 + dimension]
        scores = self._lattice_scores(rows, lattice)
        targets = rows[:, 1 + dimension :] * (1.0 / GRID)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            slopes = self._slopes(scores, targets)
        parts = [(self._quantised(slopes).T @ features).ravel()]
        if self.curvature == "full":
            parts.append(np.zeros(self.moment_size))
        elif self.curvature == "diagonal":
            parts.append(np.einsum("ij,ij->j", features, features))
        present = rows[:, 0]
        if self.loss_weight > 0:
            with np.errstate(over="ignore", invalid="ignore"):
                losses = self.losses(scores, targets)
            share = np.clip(np.nan_to_num(losses, nan=self.loss_bound), 0.0, self.loss_bound)
            parts.append(np.array([np.floor(share * (GRID / self.loss_bound)) @ present]))
        if self.count_weight > 0:
            parts.append(np.array([present @ present]))
        return np.concatenate(parts).astype(np.int64)

    def scores(self, rows: FloatArray, parameters: FloatArray) -> FloatArray:
        """``<z, theta>`` of every row and class, from exact integer sums."""
        return self._lattice_scores(rows, self._on_lattice(parameters))

    def _lattice_scores(self, rows: FloatArray, lattice: tuple[FloatArray, int]) -> FloatArray:
        integers, exponent = lattice
        sums = rows[:, self.first : 1 + self.domain.dimension] @ integers.T
        return np.ldexp(sums, exponent - GRID_BITS)

    def _slopes(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        if isinstance(self.loss, SoftmaxLoss):
            return special.softmax(scores, axis=1) - targets
        return self.loss.derivative(scores, targets)

    def losses(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """The loss of every row."""
        if isinstance(self.loss, SoftmaxLoss):
            chosen = np.einsum("ij,ij->i", scores, targets)
            return special.logsumexp(scores, axis=1) - chosen
        return self.loss.link(scores[:, 0], targets[:, 0])

    def _quantised(self, slopes: FloatArray) -> FloatArray:
        """Slopes as integers in grid units, of integer norm at most ``slope`` in every row."""
        limit = self.slope * GRID
        finite = np.clip(np.nan_to_num(slopes, nan=0.0), -limit, limit)
        norms = np.sqrt(np.einsum("ij,ij->i", finite, finite))
        factors = np.minimum(GRID, limit * _SHRINK / np.maximum(norms, 1e-300))
        integers = np.trunc(finite * factors[:, None])
        # A theorem on integers: a row that floats carried past its bound counts for nothing.
        squares = np.einsum("ij,ij->i", integers, integers)
        integers[~(squares <= math.floor(limit * limit))] = 0.0
        return integers

    # --- the measured stack ----------------------------------------------------------------------

    def gradient(self, measured: FloatArray) -> FloatArray:
        """The gradient part, ``(classes, width)``."""
        return measured[: self.gradient_size].reshape(self.classes, self.width)

    def moments(self, measured: FloatArray) -> FloatArray:
        """The second moments: a symmetric matrix, or its diagonal."""
        part = measured[self.gradient_size : self.gradient_size + self.moment_size]
        if self.curvature != "full":
            return part
        rows, columns = (place - self.first for place in packed_positions(self.domain.width))
        rows, columns = rows[self._packed], columns[self._packed]
        matrix = np.empty((self.width, self.width))
        matrix[rows, columns] = part
        matrix[columns, rows] = part
        return matrix

    def loss_sum(self, measured: FloatArray) -> float:
        """The sum of clipped losses."""
        place = self.gradient_size + self.moment_size
        return float(measured[place]) * self.loss_bound

    def record_count(self, measured: FloatArray) -> float:
        """The number of records that are not null."""
        return float(measured[-1])
