"""Shifted and scaled sets, with the capabilities of what they are made of.

``shift`` and ``scale`` choose the class. Sets around the origin that scale to one of their own
kind do so and keep their gauge; a shifted set has none.
"""

from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar, overload, runtime_checkable

import numpy as np
import numpy.typing as npt

from dpstream.arrays import FloatArray
from dpstream.geometry.convex_set import (
    TOLERANCE,
    ConvexSet,
    Gauged,
    LinearlyOptimizable,
    LocallyOptimizable,
    Mirrored,
    MirrorMap,
    Projectable,
    closed_form_error,
)
from dpstream.geometry.declaration import finite_array, require_positive, require_width


class Source(LinearlyOptimizable, Mirrored, Protocol):
    """The least an image needs: every set of this package has it."""


@runtime_checkable
class ProjectableSource(Source, Projectable, Protocol):
    """A source that can also be projected on."""


@runtime_checkable
class LocalSource(Source, LocallyOptimizable, Protocol):
    """A source that also has a local linear oracle."""


@runtime_checkable
class ProjectableLocalSource(ProjectableSource, LocalSource, Protocol):
    """A source with both."""


@runtime_checkable
class Scalable(ConvexSet, Protocol):
    """A set that scales to one of its own kind."""

    def scaled(self, factor: float) -> Self:
        """The set times ``factor``."""
        ...


SourceSet = TypeVar("SourceSet", bound=Source, covariant=True)
ProjectableSet = TypeVar("ProjectableSet", bound=ProjectableSource, covariant=True)
LocalSet = TypeVar("LocalSet", bound=LocalSource, covariant=True)
BothSet = TypeVar("BothSet", bound=ProjectableLocalSource, covariant=True)
ScalableSet = TypeVar("ScalableSet", bound=Scalable)


@dataclass(frozen=True, eq=False)
class ImageMap:
    """``factor^2 Psi((y - offset) / factor)``: as strongly convex as the inner potential."""

    inner: MirrorMap
    factor: float
    offset: FloatArray

    @property
    def modulus(self) -> float:
        """As for the inner map."""
        return self.inner.modulus

    @property
    def ball(self) -> Gauged:
        """The inner map's ball."""
        return self.inner.ball

    def potential_range(self) -> float:
        """``factor^2`` times the inner range."""
        return self.factor**2 * self.inner.potential_range()

    def start(self) -> FloatArray:
        """The inner start."""
        return self.inner.start()

    def step(self, state: FloatArray, direction: FloatArray) -> FloatArray:
        """The inner step along ``direction / factor``."""
        return self.inner.step(state, direction / self.factor)

    def point(self, state: FloatArray) -> FloatArray:
        """``offset + factor * inner point``."""
        return self.offset + self.factor * self.inner.point(state)


@dataclass(frozen=True, eq=False)
class Image(Generic[SourceSet]):
    """``offset + factor * inner``.

    The diameter and the Gaussian width are as exact as the inner set's; the radii are upper
    bounds, by the triangle inequality.
    """

    inner: SourceSet
    factor: float
    offset: FloatArray

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return self.inner.dimension

    def _inside(self, point: FloatArray) -> FloatArray:
        return (point - self.offset) / self.factor

    def _outside(self, point: FloatArray) -> FloatArray:
        return self.offset + self.factor * point

    def contains(self, point: FloatArray, tolerance: float = TOLERANCE) -> bool:
        """Whether the point's preimage lies in the inner set."""
        return self.inner.contains(self._inside(point), tolerance)

    def centre(self) -> FloatArray:
        """The image of the inner centre."""
        return self._outside(self.inner.centre())

    def diameter(self) -> float:
        """``factor`` times the inner diameter."""
        return self.factor * self.inner.diameter()

    def l1_radius(self) -> float:
        """At most the inner radius, scaled, plus the offset's norm."""
        return self.factor * self.inner.l1_radius() + float(np.abs(self.offset).sum())

    def l2_radius(self) -> float:
        """At most the inner radius, scaled, plus the offset's norm."""
        return self.factor * self.inner.l2_radius() + float(np.linalg.norm(self.offset))

    def gaussian_width(self) -> float:
        """``factor`` times the inner width: a shift averages out."""
        return self.factor * self.inner.gaussian_width()

    def minimize_linear(self, gradient: FloatArray) -> FloatArray:
        """The image of the inner minimiser."""
        return self._outside(self.inner.minimize_linear(gradient))

    def mirror_map(self) -> ImageMap:
        """The inner map, transformed."""
        return ImageMap(self.inner.mirror_map(), self.factor, self.offset)


@dataclass(frozen=True, eq=False)
class ProjectableImage(Image[ProjectableSet]):
    """An image of a set that can be projected on."""

    def project(self, point: FloatArray) -> FloatArray:
        """The image of the preimage's projection."""
        return self._outside(self.inner.project(self._inside(point)))

    def projection_error(self, size: float) -> float:
        """The inner set's, scaled, and the rounding of the two maps."""
        reach = size + float(np.linalg.norm(self.offset))
        rounding = closed_form_error(self.dimension, reach + self.l2_radius())
        return self.factor * self.inner.projection_error(reach / self.factor) + rounding


@dataclass(frozen=True, eq=False)
class LocalImage(Image[LocalSet]):
    """An image of a set with a local linear oracle."""

    def minimize_linear_local(
        self, centre: FloatArray, radius: float, gradient: FloatArray
    ) -> FloatArray:
        """The image of the inner oracle's point."""
        inner = self.inner.minimize_linear_local(
            self._inside(centre), radius / self.factor, gradient
        )
        return self._outside(inner)

    def local_ratio(self) -> float:
        """As for the inner set."""
        return self.inner.local_ratio()


@dataclass(frozen=True, eq=False)
class ProjectableLocalImage(ProjectableImage[BothSet], LocalImage[BothSet]):
    """An image of a set with both."""


@overload
def shift(inner: BothSet, offset: npt.ArrayLike) -> ProjectableLocalImage[BothSet]: ...
@overload
def shift(inner: ProjectableSet, offset: npt.ArrayLike) -> ProjectableImage[ProjectableSet]: ...
@overload
def shift(inner: LocalSet, offset: npt.ArrayLike) -> LocalImage[LocalSet]: ...
def shift(
    inner: ProjectableSource | LocalSource, offset: npt.ArrayLike
) -> ProjectableImage[ProjectableSource] | LocalImage[LocalSource]:
    """The set moved by ``offset``."""
    vector = finite_array("offset", offset, 1)
    require_width("offset", vector, inner.dimension)
    return _image(inner, 1.0, vector)


@overload
def scale(inner: ScalableSet, factor: float) -> ScalableSet: ...
@overload
def scale(inner: BothSet, factor: float) -> ProjectableLocalImage[BothSet]: ...
@overload
def scale(inner: ProjectableSet, factor: float) -> ProjectableImage[ProjectableSet]: ...
@overload
def scale(inner: LocalSet, factor: float) -> LocalImage[LocalSet]: ...
def scale(
    inner: Scalable | ProjectableSource | LocalSource, factor: float
) -> Scalable | ProjectableImage[ProjectableSource] | LocalImage[LocalSource]:
    """The set times a positive ``factor``."""
    require_positive("factor", factor)
    if isinstance(inner, Scalable):
        return inner.scaled(factor)
    return _image(inner, factor, np.zeros(inner.dimension))


def _image(
    inner: ProjectableSource | LocalSource, factor: float, offset: FloatArray
) -> ProjectableImage[ProjectableSource] | LocalImage[LocalSource]:
    if isinstance(inner, ProjectableLocalSource):
        return ProjectableLocalImage(inner, factor, offset)
    if isinstance(inner, ProjectableSource):
        return ProjectableImage(inner, factor, offset)
    return LocalImage(inner, factor, offset)
