"""Noise sources that show what a mechanism does with them. For audits alone.

A mechanism binds its noise to the exact value that it measures; a source that is watched keeps
those values, so that an audit knows the exact shift between neighbouring streams without a word
of the mechanism's own formulas. A steady source returns noise of minus one standard deviation
everywhere, which shows the scale that a Gaussian mechanism asked for; a deep one of minus five,
which shows it to a tenth of a lattice step. A forced source repeats what another stream released,
to the last step, whatever is measured: two streams can then be compared along one transcript, as
an analysis of adaptive mechanisms does, and what is computed from equal measurements must be
equal. All carry the mark of an insecure seed: what they touch says that it protects nobody.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Self, cast

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from dpstream.arrays import FloatArray, IntArray, WordArray
from dpstream.errors import NotPrivate
from dpstream.mechanisms.mechanism import Noise
from dpstream.release import Measurement

Place = tuple[tuple[str, ...], tuple[int | str, ...]]
"""The labels of a source's ancestors and its own, and an address."""

_WORD: Final = int(0.31731050786291415 * 2.0**63) << 1
# The lower 63 bits of u = 2 Phi(-1), with the sign bit clear: one deviation below zero.


_DEPTH: Final = 5.0


def _words_of(normals: FloatArray) -> WordArray:
    """Words whose normals these are, as ``dpstream.randomness.gaussian`` reads them."""
    heads = np.minimum(ndtr(-np.abs(normals)) * 2.0**64, 2.0**63 - 2.0**10).astype(np.uint64)
    return (heads << np.uint64(1)) | (normals > 0).astype(np.uint64)


class WatchedNoise(Noise):
    """A source that remembers the exact value measured at every place, in order."""

    __slots__ = ("_exponent", "_last", "drawn", "lattices", "path")

    drawn: dict[Place, IntArray]
    lattices: dict[Place, int]
    path: tuple[str, ...]
    _last: IntArray | None
    _exponent: int

    @classmethod
    def over(cls, noise: Noise) -> Self:
        """Watch what is measured with a source's noise; for insecure sources, or synthetic data."""
        watched = cls(noise.key_bytes())
        watched.drawn, watched.lattices = {}, {}
        watched.path = ()
        watched._last = None
        return watched

    def child(self, label: str) -> Noise:
        """The child is watched too, in the same memory."""
        inner = type(self).over(super().child(label))
        inner.drawn, inner.lattices = self.drawn, self.lattices
        inner.path = (*self.path, label)
        return inner

    def bind(self, value: npt.NDArray[np.int64 | np.float64], *, exponent: int = 0) -> bytes:
        """Remember an exact value; scales, which are bound as floats, are not."""
        if value.dtype == np.int64:
            self._last, self._exponent = value.astype(np.int64), exponent
        return super().bind(value, exponent=exponent)

    def stream(
        self, address: Iterable[int | str], digest: bytes, *, purpose: Iterable[int | str] = ()
    ) -> Any:
        """File the value under its place."""
        address = tuple(address)
        if self._last is not None:
            self.drawn[self.path, address] = self._last
            self.lattices[self.path, address] = self._exponent
        return super().stream(address, digest, purpose=purpose)

    def values(self) -> list[FloatArray]:
        """Everything that noise covered, in order, in units of what is measured."""
        return [real(value, self.lattices[place]) for place, value in self.drawn.items()]

    def places(self, measurements: Sequence[Measurement]) -> list[Place | None]:
        """Where the noise of each measurement was drawn; None for one without noise.

        Parts of a stream count their addresses independently, each with a source of its own:
        where every draw is a measurement, their order tells them apart.

        Raises:
            NotPrivate: if measurements cannot be told apart.
        """
        sizes = [value.size for value in self.drawn.values()]
        if sizes == [measurement.value.size for measurement in measurements]:
            return list(self.drawn)
        known = {address: (path, address) for path, address in self.drawn}
        if len(known) < len(sizes):
            raise NotPrivate(
                "noise was drawn twice for one address, and not for every measurement: what was "
                "measured cannot be told"
            )
        return [known.get(each.address) for each in measurements]

    def exact(self, measurements: Sequence[Measurement]) -> FloatArray:
        """What was measured, exactly; a measurement without noise is its own exact value."""
        return np.concatenate(
            [
                real(each.value if place is None else self.drawn[place], each.exponent)
                for each, place in zip(measurements, self.places(measurements), strict=True)
            ]
        )


def real(value: IntArray, exponent: int) -> FloatArray:
    """Lattice integers in units of what they measure."""
    return np.ldexp(value.astype(np.float64), exponent)


class SteadyNoise(WatchedNoise):
    """Every normal is minus one: the difference to the exact value is the noise's scale."""

    __slots__ = ()

    WORD: ClassVar[int] = _WORD

    def stream(
        self, address: Iterable[int | str], digest: bytes, *, purpose: Iterable[int | str] = ()
    ) -> Any:
        """Words that never change."""
        super().stream(address, digest, purpose=purpose)
        return cast(Any, _Words(word=self.WORD))


class DeepNoise(SteadyNoise):
    """Every normal is minus five: rounding to the lattice hides a fifth as much of the scale."""

    __slots__ = ()

    WORD: ClassVar[int] = int(_words_of(np.array([-_DEPTH]))[0])

    def scales(self, measurements: Sequence[Measurement]) -> dict[Place, FloatArray]:
        """The noise's scale at every place, in lattice steps, to a tenth of one."""
        return {
            place: np.abs(each.value - self.drawn[place]) / _DEPTH
            for each, place in zip(measurements, self.places(measurements), strict=True)
            if place is not None
        }


class ForcedNoise(WatchedNoise):
    """Every measurement comes out as in another run, whatever its exact value."""

    __slots__ = ("outcomes",)

    outcomes: Mapping[Place, tuple[IntArray, FloatArray]]

    @classmethod
    def repeating(
        cls,
        steady: SteadyNoise,
        measurements: Sequence[Measurement],
        scales: Mapping[Place, FloatArray],
    ) -> Self:
        """Force the measurements of a run with steady noise upon another one.

        Args:
            steady: the run's source.
            measurements: of the run.
            scales: of the noise, as a deep run shows them.

        Raises:
            NotPrivate: if the deep run measured elsewhere: the places follow what was released.
        """
        forced = cls.over(Noise.insecure(0))
        forced.outcomes = {}
        for each, place in zip(measurements, steady.places(measurements), strict=True):
            if place is None:
                continue
            if place not in scales:
                raise NotPrivate(
                    "the places of the measurements differ between two runs of one stream: they "
                    "follow what was released before, which no claim here covers"
                )
            forced.outcomes[place] = each.value, scales[place]
        return forced

    def child(self, label: str) -> Noise:
        """The child is forced too."""
        inner = cast(ForcedNoise, super().child(label))
        inner.outcomes = self.outcomes
        return inner

    def stream(
        self, address: Iterable[int | str], digest: bytes, *, purpose: Iterable[int | str] = ()
    ) -> Any:
        """The words of the normals that lead to the outcome; steady ones at a new place."""
        address = tuple(address)
        super().stream(address, digest, purpose=purpose)
        outcome, exact = self.outcomes.get((self.path, address)), self._last
        if outcome is None or exact is None or exact.size != outcome[0].size:
            return cast(Any, _Words())
        value, deviation = outcome
        return cast(Any, _Words(_words_of((value - exact) / np.maximum(deviation, 0.1))))


class _Words:
    """A key stream of given words, or of one word, repeated."""

    def __init__(self, given: WordArray | None = None, *, word: int = _WORD) -> None:
        self.position = 0
        self._given = given
        self._word = word

    def words(self, count: int) -> WordArray:
        """The next of the given words, or the same one so many times."""
        start, self.position = self.position, self.position + count
        if self._given is None:
            return np.full(count, self._word, np.uint64)
        return self._given[start : self.position].copy()

    def fill(self, out: WordArray) -> None:
        """The same, in place."""
        out[...] = self.words(out.size)

    def extension(self, position: int, bits: int) -> int:
        """Half of the range: no rounding boundary is near."""
        del position
        return 1 << (bits - 1)
