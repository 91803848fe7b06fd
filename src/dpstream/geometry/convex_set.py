"""What a constraint set can do, as types.

A set that cannot be projected on has no ``project``: capability is a type, found by
``isinstance`` at run time and by the type checker before. Points are flat float64 vectors;
matrices are flattened row by row.

Sizes (radii, diameter, Gaussian width) are public constants that privacy and utility bounds
rest on: each is exact or an upper bound, and the class says which.
"""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.errors import ConfigurationError

TOLERANCE = 1e-9
"""Relative slack with which membership is decided."""


@runtime_checkable
class ConvexSet(Protocol):
    """A closed, bounded, convex set of vectors, known before any data."""

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point."""
        ...

    def contains(self, point: FloatArray, tolerance: float = TOLERANCE) -> bool:
        """Whether the point lies in the set, up to ``tolerance`` of its size."""
        ...

    def centre(self) -> FloatArray:
        """A public point of the set, the same at every call."""
        ...

    def diameter(self) -> float:
        """An upper bound of the largest L2 distance between two points."""
        ...

    def l1_radius(self) -> float:
        """An upper bound of the largest L1 norm of a point."""
        ...

    def l2_radius(self) -> float:
        """An upper bound of the largest L2 norm of a point."""
        ...

    def gaussian_width(self) -> float:
        """An upper bound of ``E sup <g, point>`` for a standard normal ``g`` (001, 2.2)."""
        ...


@runtime_checkable
class Projectable(ConvexSet, Protocol):
    """A set with a Euclidean projection."""

    def project(self, point: FloatArray) -> FloatArray:
        """The nearest point of the set in L2."""
        ...

    def projection_error(self, size: float) -> float:
        """How far, in L2, ``project`` may return from the nearest point: known before any data.

        Infinite where the projection is found by iteration. Secret points may be projected on the
        set only where it is finite, for the sensitivity has to pay for it.

        Args:
            size: a bound on the L2 norm of what is projected.
        """
        ...


@runtime_checkable
class LinearlyOptimizable(ConvexSet, Protocol):
    """A set with a linear oracle."""

    def minimize_linear(self, gradient: FloatArray) -> FloatArray:
        """A point of the set that minimises ``<gradient, point>``: an extreme one."""
        ...


@runtime_checkable
class Gauged(ConvexSet, Protocol):
    """A set around the origin, the unit ball of its gauge."""

    def gauge(self, point: FloatArray) -> float:
        """The smallest ``r >= 0`` with ``point`` in ``r`` times the set; infinite if none."""
        ...


@runtime_checkable
class LocallyOptimizable(ConvexSet, Protocol):
    """A set with a local linear oracle (002, assumption 1).

    The oracle returns a point ``p`` of the set with ``<gradient, p> <= <gradient, y>`` for
    every ``y`` of the set within L2 distance ``radius`` of ``centre``, and
    ``|p - centre| <= local_ratio() * radius``.
    """

    def minimize_linear_local(
        self, centre: FloatArray, radius: float, gradient: FloatArray
    ) -> FloatArray:
        """The oracle's point; ``centre`` must lie in the set."""
        ...

    def local_ratio(self) -> float:
        """How far the oracle may step, in units of ``radius`` (the paper's rho)."""
        ...


@runtime_checkable
class MirrorMap(Protocol):
    """Mirror descent over one set, as a state that steps.

    The potential is ``modulus``-strongly convex with respect to the gauge of ``ball`` (the
    paper's Q). Most maps keep the point itself as their state; entropies over vertices keep
    the accumulated direction, from which the weights follow.
    """

    @property
    def modulus(self) -> float:
        """Strong convexity with respect to the gauge of ``ball``, on the set."""
        ...

    @property
    def ball(self) -> Gauged:
        """The unit ball of the norm: its width and L2 radius enter the utility bound."""
        ...

    def potential_range(self) -> float:
        """An upper bound of the potential's largest value on the set minus its smallest."""
        ...

    def start(self) -> FloatArray:
        """The state whose point minimises the potential over the set."""
        ...

    def step(self, state: FloatArray, direction: FloatArray) -> FloatArray:
        """The state of ``argmin <direction - grad Psi(point), y> + Psi(y)`` over the set."""
        ...

    def point(self, state: FloatArray) -> FloatArray:
        """The state's point of the set."""
        ...


@runtime_checkable
class Potential(MirrorMap, Protocol):
    """A mirror map that knows its potential as a function of the point."""

    def value(self, point: FloatArray) -> float:
        """The potential at a point of the set."""
        ...

    def gradient(self, point: FloatArray) -> FloatArray:
        """Its gradient there."""
        ...


@runtime_checkable
class Mirrored(ConvexSet, Protocol):
    """A set with a mirror map suited to its geometry."""

    def mirror_map(self) -> MirrorMap:
        """The map with the best known bound for this set."""
        ...


class NormalGenerator(Protocol):
    """What a Monte-Carlo estimate asks of a generator: public standard normals."""

    def standard_normal(self, size: int) -> FloatArray:
        """Independent standard normal draws."""
        ...


@dataclass(frozen=True, kw_only=True)
class WidthEstimate:
    """A Monte-Carlo estimate of a Gaussian width.

    Attributes:
        mean: the estimate, unbiased.
        standard_error: of ``mean``; at most ``l2_radius / sqrt(draws)`` in expectation.
        draws: how many Gaussian vectors were used.
    """

    mean: float
    standard_error: float
    draws: int


def closed_form_error(dimension: int, size: float) -> float:
    """``projection_error`` of sums and thresholds over the coordinates, in any order.

    A threshold is a sum of at most d terms, wrong by at most ``(d + 16) 2^-53`` of the sizes in
    it, and moves at most d coordinates; lengths and singular values are as exact. Four times that.

    Args:
        dimension: d.
        size: of the numbers in it: what is projected, and the set.
    """
    return (dimension + 64) * math.sqrt(dimension) * 2.0**-51 * size


def support(convex_set: LinearlyOptimizable, direction: FloatArray) -> float:
    """The support function ``max <direction, point>`` over the set."""
    return float(direction @ convex_set.minimize_linear(-direction))


def estimate_gaussian_width(
    convex_set: LinearlyOptimizable, generator: NormalGenerator, draws: int = 1000
) -> WidthEstimate:
    """Estimate the Gaussian width by averaging the support function over normal vectors.

    Args:
        convex_set: the set.
        generator: public randomness, a numpy ``Generator``.
        draws: number of vectors, at least 2.
    """
    if draws < 2:
        raise ConfigurationError(f"draws is {draws}; an estimate with an error needs two or more")
    values = np.empty(draws)
    for index in range(draws):
        values[index] = support(convex_set, generator.standard_normal(convex_set.dimension))
    return WidthEstimate(
        mean=float(values.mean()),
        standard_error=float(values.std(ddof=1) / math.sqrt(draws)),
        draws=draws,
    )
