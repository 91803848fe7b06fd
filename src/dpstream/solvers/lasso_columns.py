"""What the chosen columns of a batch show: residual scores, and moments of clipped records.

The secret side of the LASSO, as exact integers, with the sensitivities that they have. Proof in
``lasso_columns.proof.md``.
"""

import math

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.batch import BLOCK_ROWS, GRID, GRID_BITS, Batch
from dpstream.domain.lattice import ExactVector
from dpstream.domain.moments import MomentAccumulator
from dpstream.domain.quantise import AffineMap, quantise
from dpstream.mechanisms.mechanism import bounded_sum_sensitivity
from dpstream.mechanisms.moments import MomentLayout, MomentWeights, moment_sensitivity
from dpstream.solvers.problem import Problem

CLIPPED_SQUARE = 0.5
"""Records are scaled down to this mean square of the chosen columns, in units of their bound."""

_SCORE_BITS = 60


def screening_sensitivity(problem: Problem) -> float:
    """The largest change of a column's score that one unit can cause, exactly.

    The score is the absolute value of ``sum x_j r`` over records, in units of the domain's
    scaled features: a product of integers, at most the largest grid coordinate times the
    largest grid residual.
    """
    return bounded_sum_sensitivity(
        _largest_entry(problem)
        * _largest_residual(problem)
        * math.ldexp(1.0, score_exponent(problem)),
        neighbours=problem.neighbours,
        cap=problem.unit.cap,
        rounding_step=0.0,
        dimension=1,
    )


def restricted_sensitivity(problem: Problem, layout: MomentLayout, *, exponent: int) -> float:
    """The largest L2 shift of the weighted, rounded moments that one unit can cause.

    Args:
        problem: its neighbours and cap.
        layout: the moments of one clipped record in unit balls.
        exponent: of the lattice that the sums are rounded to.
    """
    exact = problem.unit.cap * moment_sensitivity(layout.weights, problem.neighbours)
    rounding = math.ldexp(float(np.linalg.norm(layout.scales)), exponent)
    return (exact + rounding) * (1.0 + 2.0**-40)


def _largest_entry(problem: Problem) -> int:
    """In units of the grid."""
    if problem.domain.record_bound == "max":
        return math.floor(GRID / problem.domain.radius + 0.5 + 1e-6)
    return GRID


def _residual_bits(problem: Problem) -> int:
    # Sums of n products must stay within the scores' range.
    spare = _SCORE_BITS - (problem.records * _largest_entry(problem)).bit_length()
    return max(1, min(GRID_BITS, spare))


def _largest_residual(problem: Problem) -> int:
    """In units of ``2**-residual_bits``."""
    size = problem.record_bound.target_size
    return math.ceil(math.ldexp(size, _residual_bits(problem)))


def score_exponent(problem: Problem) -> int:
    """Of the lattice that scores live on."""
    return -GRID_BITS - _residual_bits(problem)


def moment_layout(problem: Problem, columns: int) -> MomentLayout:
    """Which moments of the chosen columns are measured: products with each other and the target.

    Weights balance the two blocks' parts of the normal equations' noise, ``n_xy - N_xx b``, for
    coefficients of the norm ``radius / columns^(1/4)``, between the largest and the flattest.
    """
    scaled = (
        declared_radius(problem) * clip_length(problem, columns) / problem.record_bound.target_size
    )
    ratio = math.sqrt(scaled / columns**0.25 / math.sqrt(2.0))
    largest = max(ratio, 1.0)
    weights = MomentWeights(count=0.0, x=0.0, xx=ratio / largest, y=0.0, xy=1.0 / largest, yy=0.0)
    return MomentLayout(dimension=columns, target_count=1, weights=weights)


def declared_radius(problem: Problem) -> float:
    """Of the L1 ball."""
    return problem.convex_set.l1_radius()


def clip_length(problem: Problem, columns: int) -> float:
    """Records are scaled to this L2 norm on the chosen columns."""
    bound = problem.record_bound
    free = bound.feature_max * math.sqrt(max(1.0, CLIPPED_SQUARE * columns))
    return min(free, bound.feature_l2)


class Columns:
    """A batch, column by column, without a copy of it. Secret."""

    def __init__(self, problem: Problem, batch: Batch) -> None:
        self._problem = problem
        self._rows = batch.rows
        dimension = problem.domain.dimension
        self._features = batch.rows[:, 1 : 1 + dimension]
        self._target = batch.rows[:, 1 + dimension + problem.target] * (1.0 / GRID)

    def chosen(self, support: IntArray) -> FloatArray:
        """The chosen columns of the design, after the constant if there is one."""
        chosen = self._features[:, support] * (self._problem.feature_scale / GRID)
        if not self._problem.domain.intercept:
            return chosen
        return np.hstack([self._rows[:, :1] * (1.0 / GRID), chosen])

    def scores(self, support: IntArray, model: FloatArray) -> IntArray:
        """``|sum x_j r|`` of every column, exact integers."""
        problem = self._problem
        residual = self._target
        if support.size:
            places = places_of(problem, support)
            residual = residual - self.chosen(support) @ model[places]
        limit = _largest_residual(problem)
        grid = np.clip(np.rint(np.ldexp(residual, _residual_bits(problem))), -limit, limit)
        total = np.zeros(problem.domain.dimension, np.int64)
        # In blocks, every partial sum is an integer that float64 holds.
        for start in range(0, problem.records, BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            total += (grid[block] @ self._features[block]).astype(np.int64)
        return np.abs(total)

    def moments(self, support: IntArray, layout: MomentLayout) -> ExactVector:
        """The exact measured moments of records scaled into the unit ball."""
        problem = self._problem
        x = self.chosen(support)
        clip = clip_length(problem, x.shape[1])
        lengths = np.sqrt(np.einsum("ij,ij->i", x, x))
        shrink = np.minimum(1.0, clip / np.maximum(lengths, clip))
        records = np.empty((len(x), x.shape[1] + 1))
        records[:, :-1] = x * (shrink / clip)[:, None]
        records[:, -1] = self._target * (shrink / problem.record_bound.target_size)
        width = records.shape[1]
        free = np.full(width, np.inf)
        identity = AffineMap(-free, free, np.zeros(width), np.ones(width))
        sums = MomentAccumulator(layout.width)
        sums.add_rows(quantise(records, identity, width - 1))
        return layout.select(sums.take())


def places_of(problem: Problem, support: IntArray) -> IntArray:
    """Where the chosen columns' parameters are, the constant's first."""
    if not problem.domain.intercept:
        return support
    return np.append(np.zeros(1, np.int64), support + 1)
