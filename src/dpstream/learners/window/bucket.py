"""Public rules of which blocks are fitted when: the bucket algebra of continual release.

Blocks are counted from 0, and all intervals are half-open: the fit of ``[start, end)`` uses blocks
``start`` to ``end - 1``, each once. ``step(blocks)`` says what happens when that many blocks are
closed, by the number of blocks alone, so that which record is used where is known before any data;
``worst`` adds up what the most used record pays. Proof in ``bucket.proof.md``.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy import special

from dpstream.errors import ConfigurationError, NotPrivate
from dpstream.geometry.declaration import require_whole

BASE_LEVEL = 64
"""Of a fit that all others are centred on: above every size."""

_SUMMED = 1 << 22


@dataclass(frozen=True, kw_only=True)
class Fit:
    """One model fitted to consecutive blocks.

    Attributes:
        start: its first block.
        end: the block after its last.
        level: its place in the binary hierarchy.
        centred: whether it is regularised around the model below it, or around the origin.
    """

    start: int
    end: int
    level: int
    centred: bool = True

    @property
    def size(self) -> int:
        """Blocks it uses."""
        return self.end - self.start


@dataclass(frozen=True, kw_only=True)
class Step:
    """What happens after a block.

    Attributes:
        keep: how many models at the bottom of the stack stay.
        fits: made and pushed in this order, each centred on the model below it.
        forget: whether only the last model stays on the stack afterwards.
    """

    keep: int
    fits: tuple[Fit, ...] = ()
    forget: bool = False


class BucketRule(ABC):
    """A public rule of fits, for streams of any length."""

    @property
    @abstractmethod
    def first(self) -> int:
        """Blocks after which the first model is released."""

    @abstractmethod
    def step(self, blocks: int) -> Step:
        """What is fitted once that many blocks are closed; nothing before ``first``."""

    @abstractmethod
    def keep_from(self, blocks: int, horizon: int | None) -> int:
        """The earliest closed block that a later step uses: those before it are erased.

        Args:
            blocks: how many are closed, and their steps made.
            horizon: after how many there are no more steps; None for never.

        Returns:
            ``blocks`` if no later step uses any of them.
        """

    @abstractmethod
    def worst(self, power: float, blocks: int | None) -> float:
        """The largest sum over one block's fits of ``size**-power``: what its records pay.

        Args:
            power: above 0; 2 for Gaussian and 1 for pure noise of the same scale in every fit.
            blocks: the stream's length, or None for ever: then an attained or approached bound.

        Raises:
            NotPrivate: if no bound holds for ever.
        """


def _doublings(size: int, blocks: int | None, power: float) -> float:
    """The sum of ``(2^m size)**-power`` over m >= 0 with ``2^m size <= blocks``."""
    if blocks is None:
        return size**-power / (1.0 - 2.0**-power)
    terms = 0 if blocks < size else (blocks // size).bit_length()
    return math.fsum(float(size << m) ** -power for m in range(terms))


def _is_power(number: int) -> bool:
    return number & (number - 1) == 0


def _doubled(blocks: int, unit: int) -> int:
    """The largest ``2^k unit`` that is at most ``blocks``, which is at least ``unit``."""
    return unit << ((blocks // unit).bit_length() - 1)


def _next_base(base: int, blocks: int, horizon: int | None) -> bool:
    """Whether another base of all blocks follows."""
    following = base if blocks < base else 2 * _doubled(blocks, base)
    return horizon is None or following <= horizon


MOST_LEVELS = 62
"""Sizes of intervals: the largest has 2**61 blocks."""


@dataclass(frozen=True, kw_only=True)
class MultiResolution(BucketRule):
    """At ``t = 2^k q``, the model of the last ``2^k`` blocks (paper 003, Algorithm 2).

    Attributes:
        levels: how many sizes there are; None for as many as the stream has, whose history is
            then kept for ever.
    """

    levels: int | None = None

    def __post_init__(self) -> None:
        if self.levels is not None:
            require_whole("levels", self.levels)
            if self.levels > MOST_LEVELS:
                raise ConfigurationError(
                    f"levels is {self.levels}; no stream fills an interval of 2**{MOST_LEVELS} "
                    f"blocks: give at most {MOST_LEVELS}"
                )

    @property
    def first(self) -> int:
        """1."""
        return 1

    def step(self, blocks: int) -> Step:
        """One fit for every size that divides the number of blocks, the largest first."""
        top = (blocks & -blocks).bit_length() - 1
        if self.levels is not None:
            top = min(top, self.levels - 1)
        fits = tuple(
            Fit(start=blocks - (1 << k), end=blocks, level=k, centred=False)
            for k in range(top, -1, -1)
        )
        return Step(keep=0, fits=fits)

    def keep_from(self, blocks: int, horizon: int | None) -> int:
        """The begun interval of the largest size that will be complete."""
        level = (blocks if horizon is None else horizon).bit_length()
        if self.levels is not None:
            level = min(level, self.levels - 1)
        while horizon is not None and (blocks >> level) + 1 << level > horizon:
            level -= 1
            if level < 0:
                return blocks
        return blocks >> level << level

    def worst(self, power: float, blocks: int | None) -> float:
        """The first block's, which is in the first interval of every size."""
        if self.levels is not None:
            longest = 1 << (self.levels - 1)
            blocks = longest if blocks is None else min(blocks, longest)
        return _doublings(1, blocks, power)


@dataclass(frozen=True, kw_only=True)
class Cumulative(BucketRule):
    """Bases of all blocks at ``2^k B``, updates of the newest between (paper 003, Algorithm 4).

    With ``i`` blocks since the base at g, an update uses ``[g, g + i)`` around the base if i is a
    power of two, else the last block around the last such update.

    Attributes:
        base: B, in blocks.
    """

    base: int

    def __post_init__(self) -> None:
        require_whole("base", self.base)

    @property
    def first(self) -> int:
        """B."""
        return self.base

    def step(self, blocks: int) -> Step:
        """A base, an update around it, or a block around the last update."""
        if blocks < self.base:
            return Step(keep=0)
        origin = _doubled(blocks, self.base)
        since = blocks - origin
        if since == 0:
            return Step(keep=0, fits=(Fit(start=0, end=blocks, level=BASE_LEVEL),))
        if _is_power(since):
            update = Fit(start=origin, end=blocks, level=since.bit_length() - 1)
            return Step(keep=1, fits=(update,))
        return Step(keep=2, fits=(Fit(start=blocks - 1, end=blocks, level=0),))

    def keep_from(self, blocks: int, horizon: int | None) -> int:
        """0, for the next base; after the last one, its end, for updates; then nothing."""
        if _next_base(self.base, blocks, horizon):
            return 0
        if horizon is None or blocks < self.base:
            return blocks
        origin = _doubled(blocks, self.base)
        update = origin + (1 << (blocks - origin).bit_length())
        return origin if update <= horizon else blocks

    def worst(self, power: float, blocks: int | None) -> float:
        """The first block's after some base; for ever, what it tends to as bases grow."""
        if blocks is None:
            return 1.0 / (1.0 - 2.0**-power)
        paid = [_doublings(self.base, blocks, power)]
        origin = self.base
        while origin < blocks:
            updates = _doublings(1, min(origin - 1, blocks - origin), power)
            paid.append(updates + _doublings(2 * origin, blocks, power))
            origin *= 2
        return max(paid)


@dataclass(frozen=True, kw_only=True)
class Basic(BucketRule):
    """Bases of all blocks at ``2^k B``; between, each block once, around the model before it.

    Attributes:
        base: B, in blocks.
    """

    base: int

    def __post_init__(self) -> None:
        require_whole("base", self.base)

    @property
    def first(self) -> int:
        """B."""
        return self.base

    def step(self, blocks: int) -> Step:
        """A base, or the last block around the model before it."""
        if blocks < self.base:
            return Step(keep=0)
        if blocks == _doubled(blocks, self.base):
            return Step(keep=0, fits=(Fit(start=0, end=blocks, level=BASE_LEVEL),))
        return Step(keep=1, fits=(Fit(start=blocks - 1, end=blocks, level=0),), forget=True)

    def keep_from(self, blocks: int, horizon: int | None) -> int:
        """0, for the next base; after the last one, nothing."""
        return 0 if _next_base(self.base, blocks, horizon) else blocks

    def worst(self, power: float, blocks: int | None) -> float:
        """A block after the first base that has updates, or the first block."""
        paid = [_doublings(self.base, blocks, power)]
        # A base of one block is followed by the next base at once.
        origin = max(self.base, 2)
        if blocks is None or blocks > origin:
            paid.append(1.0 + _doublings(2 * origin, blocks, power))
        return max(paid)


@dataclass(frozen=True, kw_only=True)
class Refit(BucketRule):
    """After every block from B on, all blocks again.

    The costs ``1/t^2`` of Gaussian noise sum to less than ``1/(B - 1/2)`` for ever; those of pure
    noise, ``1/t``, have no bound.

    Attributes:
        base: B, in blocks.
    """

    base: int

    def __post_init__(self) -> None:
        require_whole("base", self.base)

    @property
    def first(self) -> int:
        """B."""
        return self.base

    def step(self, blocks: int) -> Step:
        """The whole history, around the origin."""
        if blocks < self.base:
            return Step(keep=0)
        return Step(keep=0, fits=(Fit(start=0, end=blocks, level=BASE_LEVEL),))

    def keep_from(self, blocks: int, horizon: int | None) -> int:
        """0, for the whole history is used again; nothing after the last time."""
        return blocks if horizon is not None and max(blocks + 1, self.base) > horizon else 0

    def worst(self, power: float, blocks: int | None) -> float:
        """The first block's."""
        if blocks is None:
            if power <= 1.0:
                raise NotPrivate(
                    f"refitting all blocks for ever costs a record the sum of t**-{power:g}, which "
                    "has no bound; declare a horizon, take Gaussian noise, or take bases and "
                    "updates"
                )
            return float(special.zeta(power, self.base)) * (1.0 + 2.0**-40)
        # Terms beyond the first few million are bounded by their integral.
        last = min(blocks, self.base + _SUMMED)
        total = math.fsum(np.arange(self.base, last + 1, dtype=np.float64) ** -power)
        if blocks > last:
            growth = math.log(blocks / last)
            exponent = 1.0 - power
            rest = growth if exponent == 0.0 else math.expm1(exponent * growth) / exponent
            total += last**exponent * rest
        return total
