"""Boxes: symmetric ones, and by shifting them, all."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from dpstream.arrays import FloatArray
from dpstream.errors import ConfigurationError
from dpstream.geometry.convex_set import TOLERANCE
from dpstream.geometry.declaration import finite_array, require_positive, require_width
from dpstream.geometry.euclidean_potential import EuclideanPotential
from dpstream.geometry.image import ProjectableLocalImage, shift
from dpstream.geometry.l2_ball import L2Ball
from dpstream.geometry.scalar_root import decreasing_root


@dataclass(frozen=True, eq=False)
class Box:
    """``{y : |y_i| <= half_widths_i}``. All sizes are exact.

    ``box`` makes one from lower and upper limits.
    """

    half_widths: FloatArray

    def __post_init__(self) -> None:
        widths = finite_array("half_widths", self.half_widths, 1)
        require_positive("the smallest half width", float(widths.min()))
        object.__setattr__(self, "half_widths", widths)

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return int(self.half_widths.size)

    def contains(self, point: FloatArray, tolerance: float = TOLERANCE) -> bool:
        """Whether every coordinate is within its limits."""
        return self.gauge(point) <= 1 + tolerance

    def gauge(self, point: FloatArray) -> float:
        """``max |y_i| / half_widths_i``."""
        return float(np.max(np.abs(point) / self.half_widths))

    def scaled(self, factor: float) -> Self:
        """The box with all half widths multiplied."""
        require_positive("factor", factor)
        return type(self)(self.half_widths * factor)

    def centre(self) -> FloatArray:
        """The origin."""
        return np.zeros(self.dimension)

    def diameter(self) -> float:
        """From corner to opposite corner."""
        return 2 * self.l2_radius()

    def l1_radius(self) -> float:
        """Of a corner."""
        return float(self.half_widths.sum())

    def l2_radius(self) -> float:
        """Of a corner."""
        return float(np.linalg.norm(self.half_widths))

    def gaussian_width(self) -> float:
        """``sqrt(2/pi)`` times the sum of the half widths."""
        return math.sqrt(2 / math.pi) * self.l1_radius()

    def project(self, point: FloatArray) -> FloatArray:
        """Coordinates clipped to their limits."""
        return np.clip(point, -self.half_widths, self.half_widths)

    def projection_error(self, size: float) -> float:
        """None: coordinates are clipped."""
        return 0.0

    def minimize_linear(self, gradient: FloatArray) -> FloatArray:
        """The corner opposite to the gradient."""
        return np.where(gradient > 0, -self.half_widths, self.half_widths)

    def minimize_linear_local(
        self, centre: FloatArray, radius: float, gradient: FloatArray
    ) -> FloatArray:
        """The exact minimiser over the intersection with the L2 ball.

        Points ``clip(centre - t gradient)`` are the minimisers for growing radii.
        """
        slopes = np.abs(gradient)
        if not slopes.any():
            return centre.copy()
        room = np.where(gradient > 0, centre + self.half_widths, self.half_widths - centre)
        room = np.where(slopes > 0, np.maximum(room, 0.0), 0.0)

        def move(time: float) -> FloatArray:
            return np.minimum(time * slopes, room)

        # Ratios of tiny slopes overflow harmlessly: such coordinates move last.
        with np.errstate(over="ignore"):
            last = float(np.max(np.where(slopes > 0, room, 0.0) / np.where(slopes > 0, slopes, 1)))
        last = min(last, radius / float(slopes.max()) * 1e150)
        time = decreasing_root(lambda t: radius - float(np.linalg.norm(move(t))), 0.0, last)
        return self.project(centre - np.sign(gradient) * move(time))

    def local_ratio(self) -> float:
        """1: the local oracle is exact."""
        return 1.0

    def mirror_map(self) -> EuclideanPotential:
        """The Euclidean potential."""
        return EuclideanPotential(convex_set=self, ball=L2Ball(dimension=self.dimension))


def box(lower: npt.ArrayLike, upper: npt.ArrayLike) -> ProjectableLocalImage[Box]:
    """``{y : lower <= y <= upper}``, coordinate by coordinate."""
    low = finite_array("lower", lower, 1)
    high = finite_array("upper", upper, 1)
    require_width("upper", high, low.size)
    if not (low < high).all():
        raise ConfigurationError(
            "a lower limit of the box is not below its upper limit; the box would be empty or "
            "flat: widen it, or drop that coordinate"
        )
    return shift(Box((high - low) / 2), (low + high) / 2)
