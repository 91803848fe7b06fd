"""Augmented moments: which blocks of ``sum z z^T``, z = (1, x, y), are measured, and how loudly.

One stacked measurement serves counts, means, moments and regression. Its sensitivity is that of
one record's whole stack, computed here and nowhere else. Blocks carry public weights: block
``b`` is measured with noise ``sigma / w_b``, so that a large weight buys a quiet block and costs
sensitivity. Symmetric blocks are stored as upper triangles with off-diagonals scaled by
``sqrt(2)``: the packed norm is then the Frobenius norm, and an off-diagonal entry has half the
variance of a diagonal one.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.lattice import ExactVector
from dpstream.domain.moments import packed_positions
from dpstream.errors import ConfigurationError
from dpstream.privacy.unit import Neighbours

_ROUNDING = 1e-12
"""Relative margin for the floating-point evaluation of the sensitivity's closed form."""


@dataclass(frozen=True, kw_only=True)
class MomentWeights:
    """Public weights of the blocks of ``z z^T``; a block of weight 0 is not measured.

    Attributes:
        count: of ``1``, the number of records that are not null.
        x: of the sum of x.
        xx: of the sum of ``x x^T``.
        y: of the sum of y.
        xy: of the sum of ``x y^T``.
        yy: of the sum of ``y y^T``.
    """

    count: float
    x: float
    xx: float
    y: float
    xy: float
    yy: float

    def __post_init__(self) -> None:
        for field in fields(self):
            weight = getattr(self, field.name)
            if not (math.isfinite(weight) and weight >= 0.0):
                raise ConfigurationError(
                    f"moment weight {field.name!r} is {weight}; it must be finite and at least 0"
                )
        if not self.square_sum > 0.0:
            raise ConfigurationError("every moment weight is 0; measure at least one block")

    @property
    def square_sum(self) -> float:
        """The largest squared norm of one record's stack."""
        return math.fsum(getattr(self, field.name) ** 2 for field in fields(self))

    def to_json(self) -> dict[str, float]:
        """The weights by block."""
        return asdict(self)

    @classmethod
    def from_json(cls, description: Mapping[str, float]) -> "MomentWeights":
        """The weights of a public description."""
        return cls(**{field.name: float(description[field.name]) for field in fields(cls)})


def moment_sensitivity(weights: MomentWeights, neighbours: Neighbours) -> float:
    """The largest L2 shift of the weighted stack that one record can cause.

    It assumes x and y in their unit balls (which admission enforces on integers), and holds for
    every dimension and number of targets.

    ``zero_out``: the norm of one stack, at most ``N = sqrt(sum of squared weights)``.
    ``replace``: with ``r = <x, x'>`` and ``e = <y, y'>``, two stacks have the inner product
    ``g(r, e) = c^2 + s^2 r + q^2 r^2 + y^2 e + m^2 r e + v^2 e^2`` (weights of count, x, xx, y,
    xy, yy), and the sensitivity is ``sqrt(max(N^2, 2 N^2 - 2 min g))``, the minimum taken over
    ``[-1, 1]^2``; ``N`` covers the null record.
    """
    square_sum = weights.square_sum
    if neighbours is Neighbours.ZERO_OUT:
        return math.sqrt(square_sum) * (1.0 + _ROUNDING)
    worst = max(square_sum, 2.0 * square_sum - 2.0 * _least_inner_product(weights))
    return math.sqrt(worst) * (1.0 + _ROUNDING)


def _least_inner_product(weights: MomentWeights) -> float:
    """The minimum of ``g`` over the square: at a corner, inside an edge, or inside."""
    c, s, q = weights.count**2, weights.x**2, weights.xx**2
    y, m, v = weights.y**2, weights.xy**2, weights.yy**2
    points = [(r, e) for r in (-1.0, 1.0) for e in (-1.0, 1.0)]
    for edge in (-1.0, 1.0):
        if q > 0.0:
            points.append((-(s + m * edge) / (2.0 * q), edge))
        if v > 0.0:
            points.append((edge, -(y + m * edge) / (2.0 * v)))
    determinant = 4.0 * q * v - m * m
    if determinant > 0.0:
        points.append(
            ((m * y - 2.0 * v * s) / determinant, (m * s - 2.0 * q * y) / determinant),
        )
    # Clipping keeps every candidate admissible, so a rounded one can only be a value of g.
    return min(
        c + s * r + q * r * r + y * e + m * r * e + v * e * e
        for r, e in ((max(-1.0, min(1.0, r)), max(-1.0, min(1.0, e))) for r, e in points)
    )


INTERCEPT_GUESS = 0.5
"""Root mean square of an intercept in scaled units, for choosing weights only."""

RESIDUAL_SHARE = 0.03
"""Least part of the squared weights that goes to a block of one number for each target.

``y y^T`` is needed by interval widths alone; ``1`` and ``y`` by the constant.
"""


def balanced_weights(
    *,
    dimension: int,
    target_count: int,
    intercept: bool,
    count: bool,
    penalty: float,
    radius: float | None,
) -> MomentWeights:
    """Weights that minimise the noise part of a linear model's excess risk, to first order.

    By the linearisation the noise in the normal equations is ``n_xy - N_xx theta - n_x b`` and,
    for the constant, ``n_y - n_x theta - n_c b``; its part of the excess risk is a sum
    ``sum_b k_b / w_b^2`` over blocks, smallest at fixed ``sum w_b^2`` when ``w_b^2`` is
    proportional to ``sqrt(k_b)``. The coefficients ``k_b`` are evaluated at isotropic features
    of norm 1, where the curvature is ``1/d + penalty`` and, by Cauchy-Schwarz, coefficients have
    norm at most ``d^(-1/2) / (1/d + penalty)``; that norm is taken to be at most 1 or the radius.
    Only public numbers enter, and the choice moves the noise between blocks, never the privacy.

    Args:
        dimension: number of features.
        target_count: number of targets.
        intercept: whether models have a constant.
        count: whether the number of records has to be measured.
        penalty: the ridge penalty per record.
        radius: the public bound of the coefficients' norm in scaled units, or None.
    """
    if target_count == 0:
        raise ConfigurationError("the domain has no targets; a regression needs at least one")
    curvature = 1.0 / dimension + penalty
    stiffness = dimension / curvature
    norm = min(1.0 / (math.sqrt(dimension) * curvature), 1.0 if radius is None else radius)
    constant = INTERCEPT_GUESS**2 if intercept else 0.0
    shares = {
        "count": constant,
        "x": stiffness * constant + norm**2 if intercept else 0.0,
        "xx": 0.5 * stiffness * norm**2,
        "y": 1.0 if intercept else 0.0,
        "xy": stiffness,
        "yy": 0.0,
    }
    squares = {block: math.sqrt(share) for block, share in shares.items()}
    least = RESIDUAL_SHARE * sum(squares.values())
    if count and not intercept:
        # Known to a fraction of a percent, the count does not limit the model.
        squares["count"] = least
    if intercept:
        # To first order they could be louder; but early on nothing is as good as a good constant,
        # and every mean is divided by the count.
        squares["count"], squares["y"] = max(squares["count"], least), max(squares["y"], least)
    squares["yy"] = RESIDUAL_SHARE / (1.0 - RESIDUAL_SHARE) * sum(squares.values())
    largest = max(squares.values())
    return MomentWeights(**{b: math.sqrt(value / largest) for b, value in squares.items()})


@dataclass(frozen=True, kw_only=True)
class MomentLayout:
    """Where the measured blocks lie in the packed triangle of ``z z^T``.

    Attributes:
        dimension: d, the width of x.
        target_count: k, the width of y.
        weights: the blocks' public weights.
    """

    dimension: int
    target_count: int
    weights: MomentWeights

    def __post_init__(self) -> None:
        absent = [] if self.target_count else ["y", "xy", "yy"]
        absent += [] if self.dimension else ["x", "xx", "xy"]
        for block in absent:
            if getattr(self.weights, block):
                raise ConfigurationError(
                    f"moment weight {block!r} is not 0, but the domain has "
                    f"{self.dimension} features and {self.target_count} targets"
                )

    @property
    def width(self) -> int:
        """Of z: ``1 + d + k``."""
        return 1 + self.dimension + self.target_count

    @cached_property
    def _entry_scales(self) -> FloatArray:
        """The scale of every entry of the packed triangle; 0 where nothing is measured."""
        w = self.weights
        table = np.array([[w.count, w.x, w.y], [w.x, w.xx, w.xy], [w.y, w.xy, w.yy]])
        part = np.repeat([0, 1, 2], [1, self.dimension, self.target_count])
        rows, columns = packed_positions(self.width)
        twice = (part[rows] == part[columns]) & (rows != columns)
        return table[part[rows], part[columns]] * np.where(twice, math.sqrt(2.0), 1.0)

    @cached_property
    def positions(self) -> IntArray:
        """The measured entries, as positions in the packed triangle."""
        return np.flatnonzero(self._entry_scales > 0.0).astype(np.int64)

    @cached_property
    def scales(self) -> FloatArray:
        """Per measured entry: its noise is ``sigma / scale``."""
        return self._entry_scales[self.positions]

    @property
    def size(self) -> int:
        """Number of measured entries."""
        return int(self.positions.size)

    def select(self, packed: ExactVector) -> ExactVector:
        """The measured entries of an exact packed triangle."""
        return ExactVector(packed.high[self.positions], packed.low[self.positions], packed.exponent)

    def matrix(self, measured: FloatArray) -> FloatArray:
        """The symmetric matrix of measured entries, with zeros where nothing is measured."""
        return self._symmetric(measured)

    def variances(self, unit_variance: float) -> FloatArray:
        """The noise variance of every entry of ``matrix``, for a node variance ``sigma^2``.

        Entries that are not measured have infinite variance.
        """
        return self._symmetric(unit_variance / self.scales**2, fill=np.inf)

    def _symmetric(self, entries: FloatArray, fill: float = 0.0) -> FloatArray:
        rows, columns = packed_positions(self.width)
        rows, columns = rows[self.positions], columns[self.positions]
        full = np.full((self.width, self.width), fill)
        full[rows, columns] = entries
        full[columns, rows] = entries
        return full
