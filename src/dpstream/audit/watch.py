"""Noise sources that show what a mechanism does with them. For audits alone.

A mechanism binds its noise to the exact value that it measures; a source that is watched keeps
those values, so that an audit knows the exact shift between neighbouring streams without a word
of the mechanism's own formulas. A steady source returns noise of minus one standard deviation
everywhere, which shows the scale that a Gaussian mechanism asked for. Both carry the mark of an
insecure seed: what they touch says that it protects nobody.
"""

from collections.abc import Iterable
from typing import Any, Final, Self, cast

import numpy as np
import numpy.typing as npt

from dpstream.arrays import IntArray
from dpstream.mechanisms.mechanism import Noise

_WORD: Final = int(0.31731050786291415 * 2.0**63) << 1
# The lower 63 bits of u = 2 Phi(-1), with the sign bit clear: one deviation below zero.


class WatchedNoise(Noise):
    """A source that remembers the exact value measured at every address."""

    __slots__ = ("_last", "exact")

    exact: dict[tuple[int | str, ...], IntArray]
    _last: IntArray | None

    @classmethod
    def over(cls, noise: Noise) -> Self:
        """Watch what is measured with a source's noise; for insecure sources, or synthetic data."""
        watched = cls(noise.key_bytes())
        watched.exact = {}
        watched._last = None
        return watched

    def child(self, label: str) -> Noise:
        """The child is watched too, in the same memory."""
        inner = type(self).over(super().child(label))
        inner.exact = self.exact
        return inner

    def bind(self, value: npt.NDArray[np.int64 | np.float64], *, exponent: int = 0) -> bytes:
        """Remember an exact value; scales, which are bound as floats, are not."""
        if value.dtype == np.int64:
            self._last = value.astype(np.int64)
        return super().bind(value, exponent=exponent)

    def stream(
        self, address: Iterable[int | str], digest: bytes, *, purpose: Iterable[int | str] = ()
    ) -> Any:
        """File the value under its address."""
        address = tuple(address)
        if self._last is not None:
            self.exact[address] = self._last
        return super().stream(address, digest, purpose=purpose)


class SteadyNoise(WatchedNoise):
    """Every normal is minus one: the difference to the exact value is the noise's scale."""

    __slots__ = ()

    def stream(
        self, address: Iterable[int | str], digest: bytes, *, purpose: Iterable[int | str] = ()
    ) -> Any:
        """Words that never change."""
        super().stream(address, digest, purpose=purpose)
        return cast(Any, _Words())


class _Words:
    """A key stream of one word, repeated."""

    def __init__(self) -> None:
        self.position = 0

    def words(self, count: int) -> npt.NDArray[np.uint64]:
        """The same word, so many times."""
        self.position += count
        return np.full(count, _WORD, np.uint64)

    def fill(self, out: npt.NDArray[np.uint64]) -> None:
        """The same, in place."""
        out[...] = self.words(out.size)

    def extension(self, position: int, bits: int) -> int:
        """Half of the range: no rounding boundary is near."""
        del position
        return 1 << (bits - 1)
