"""How many dimensions to project on: by the paper's formula, or by predicted excess risk.

Public numbers alone; the choice moves utility, never privacy.
"""

import math
from functools import singledispatch

import numpy as np

from dpstream.domain.subset import AbsoluteSumSubset, BoxSubset, SparseSubset, SubsetRule
from dpstream.errors import ConfigurationError
from dpstream.geometry.width import expected_maximum_modulus, expected_norm
from dpstream.mechanisms.moments import MomentWeights

CONFIDENCE = 0.05
"""Beta in the paper's choice of m."""

_CANDIDATES = 48


def input_width(rule: SubsetRule | None, dimension: int) -> float:
    """A bound of the Gaussian width of the records that count, inside the unit ball: w(G)."""
    whole = expected_norm(dimension)
    return whole if rule is None else min(whole, _width(rule, dimension))


@singledispatch
def _width(rule: SubsetRule, dimension: int) -> float:
    """Of a rule's records; the unit ball's bounds it where no better is known."""
    return math.inf


@_width.register
def _(rule: SparseSubset, dimension: int) -> float:
    # E of the mean of the k largest of d squared normals: exp of it is at most the mean of all,
    # for every rate below 1/2 (Jensen).
    count = min(rule.largest_count, dimension)
    rates = np.linspace(0.01, 0.49, 97)
    means = (math.log(dimension / count) - 0.5 * np.log1p(-2.0 * rates)) / rates
    return math.sqrt(count * float(means.min()))


@_width.register
def _(rule: BoxSubset, dimension: int) -> float:
    return rule.half_width * dimension * math.sqrt(2.0 / math.pi)


@_width.register
def _(rule: AbsoluteSumSubset, dimension: int) -> float:
    return rule.radius * expected_maximum_modulus(dimension)


def paper_dimension(*, records: int, width: float, dimension: int) -> int:
    """The printed m (000, PrivIncReg2, step 1) with constants 1, capped at d.

    ``gamma = (W / T)^(1/3)`` and ``m = max(W^2, ln(T / beta)) / gamma^2``, W the sum of the
    widths of records and set.

    Args:
        records: T, public.
        width: W.
        dimension: d.
    """
    distortion = (width / records) ** (1.0 / 3.0)
    wanted = max(width**2, math.log(records / CONFIDENCE)) / distortion**2
    return max(1, min(dimension, math.ceil(wanted)))


def predicted_excess(
    target: int,
    *,
    records: int,
    dimension: int,
    radius: float,
    deviation: float,
    weights: MomentWeights,
) -> float:
    """Excess risk of the whole sum after T records, to first order, where the best fit is exact.

    Noise: twice the largest change of the objective on a set of radius R,
    ``2 R sqrt(m) sigma hypot(1 / w_xy, R / (sqrt(2) w_xx))`` (000, lemma 5.4). Projection: an inner
    product of a unit vector with one of norm R has variance at most ``2 R^2 / m``, for every
    record; nothing if m is d.

    Args:
        target: m.
        records: T.
        dimension: d.
        radius: R, the set's.
        deviation: sigma, of an entry of scale 1 at the last tick.
        weights: of the moments' blocks in m dimensions.
    """
    unit = math.hypot(1.0 / weights.xy, radius / (math.sqrt(2.0) * weights.xx))
    noise = 2.0 * radius * math.sqrt(target) * deviation * unit
    distortion = 0.0 if target == dimension else 2.0 * radius**2 / target * records
    return noise + distortion


def candidates(dimension: int) -> list[int]:
    """A public grid of dimensions up to d."""
    grid = np.unique(np.rint(np.geomspace(1, dimension, _CANDIDATES)).astype(int))
    return [int(size) for size in grid]


def require_records(expected_records: int | None, choice: str) -> int:
    """The public number of records that a choice of m needs.

    Raises:
        ConfigurationError: if it was not given.
    """
    if expected_records is None:
        raise ConfigurationError(
            f"projected_dimension={choice!r} needs expected_records, the public number of records "
            "that the stream is planned for; give it, or a dimension"
        )
    if expected_records < 1:
        raise ConfigurationError(f"expected_records is {expected_records}; it must be at least 1")
    return expected_records
