"""Quadratics with an L1 penalty, minimised to a certificate: the Lasso and the elastic net.

``min v' H v / 2 - z' v + weight |v|_1`` over all of space, by accelerated soft-thresholding steps.
Post-processing of measurements; claim 4 of ``constrained_quadratic.proof.md``.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpstream.arrays import FloatArray

_CHECK = 8
"""Steps between two looks at the certificate."""

_PRESENT = 1e-14


@dataclass(frozen=True, kw_only=True, eq=False)
class L1Penalty:
    """A penalty in place of a set: what ``Constraint`` says of a set, for all of space.

    Attributes:
        dimension: of the parameters.
        weight: of their L1 norm, beside half a quadratic; positive.
    """

    dimension: int
    weight: float

    @property
    def lift(self) -> None:
        """None: the parameters are theta itself."""
        return

    @property
    def relative_width(self) -> float:
        """That of a ball: the penalty holds no direction back that the noise shows."""
        return 1.0

    def down(self, point: FloatArray) -> FloatArray:
        """``theta`` itself."""
        return point

    def holds(self, parameters: FloatArray) -> bool:
        """False: the penalty moves every minimiser but 0."""
        return False

    def origin(self) -> FloatArray:
        """Where damped minimisers are moved to: zero."""
        return np.zeros(self.dimension)

    def cost(self, parameters: FloatArray) -> float:
        """What the penalty adds to half the quadratic."""
        return self.weight * float(np.abs(parameters).sum())


def minimise_penalised(
    matrix: FloatArray,
    linear: FloatArray,
    penalty: L1Penalty,
    *,
    start: FloatArray | None,
    tolerance: float,
    most_steps: int,
) -> tuple[FloatArray, float, int]:
    """The minimiser, by how much it may miss the least value, and the steps that were taken.

    Args:
        matrix: H, symmetric and positive semi-definite, z in its span.
        linear: z.
        penalty: the penalty.
        start: a point to begin at.
        tolerance: the gap to reach, relative to ``z' H^-1 z``: twice the quadratic's own depth.
        most_steps: after these, the result is what was reached, with its gap.
    """
    values, basis = np.linalg.eigh(matrix)
    present = values > _PRESENT * max(float(values[-1]), 0.0)
    turned = (basis.T @ linear)[present]
    depth = 0.5 * float(np.sum(turned * turned / values[present]))
    zero = np.zeros_like(linear)
    if depth == 0.0 or float(np.abs(linear).max()) <= penalty.weight:
        return zero, 0.0, 0
    smoothness = float(values[-1]) * (1.0 + 1e-9)

    def gap_at(point: FloatArray) -> float:
        # By convexity the objective is at least -v' H v / 2 - r' t + weight |t|_1 at every t, with
        # v the point and r = z - H v; and a minimiser t has weight |t|_1 <= objective(v) + depth.
        curved = matrix @ point
        residual = linear - curved
        bend, cost = float(point @ curved), penalty.cost(point)
        value = 0.5 * bend - float(linear @ point) + cost
        beyond = max(float(np.abs(residual).max()) - penalty.weight, 0.0)
        reach = max(value + depth, 0.0) / penalty.weight
        return max(bend - float(linear @ point) + cost, 0.0) + reach * beyond

    point = zero if start is None else start
    ahead, momentum = point, 1.0
    best, least = point, gap_at(point)
    for step in range(1, most_steps + 1):
        moved = ahead - (matrix @ ahead - linear) / smoothness
        shrunk = np.maximum(np.abs(moved) - penalty.weight / smoothness, 0.0)
        following = np.copysign(shrunk, moved)
        if float((ahead - following) @ (following - point)) > 0.0:
            momentum = 1.0
        grown = (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum)) / 2.0
        ahead = following + (momentum - 1.0) / grown * (following - point)
        point, momentum = following, grown
        if step % _CHECK and step != most_steps:
            continue
        gap = gap_at(point)
        if gap < least:
            best, least = point, gap
        if least <= tolerance * 2.0 * depth:
            return best, least, step
    return best, least, most_steps
