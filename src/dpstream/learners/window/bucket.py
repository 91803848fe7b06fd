"""Public rules of which blocks are fitted when: the bucket algebra of continual and window release.

Blocks are counted from 0, and all intervals are half-open: the fit of ``[start, end)`` uses blocks
``start`` to ``end - 1``, each once. ``step(blocks)`` says what happens when that many blocks are
closed, by the number of blocks alone, so that which record is used where is known before any data;
``worst`` adds up what the most used record pays. Proof in ``bucket.proof.md``.
"""

import math
from abc import ABC, abstractmethod
from array import array
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import special

from dpstream.errors import ConfigurationError, NotPrivate
from dpstream.geometry.declaration import require_whole

_BASE_LEVEL = 64
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

MOST_BLOCKS = 1 << 20
"""Of a sliding window."""


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
            return Step(keep=0, fits=(Fit(start=0, end=blocks, level=_BASE_LEVEL),))
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
            return Step(keep=0, fits=(Fit(start=0, end=blocks, level=_BASE_LEVEL),))
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
        return Step(keep=0, fits=(Fit(start=0, end=blocks, level=_BASE_LEVEL),))

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


@dataclass(frozen=True, kw_only=True)
class Sliding(BucketRule):
    """The last ``window`` blocks, for ever (paper 003, Algorithm 5, for any window).

    Every ``refresh`` blocks a base is fitted to the last ``window - refresh + 1`` of them. In
    between, the window is ``left + base + right``: what is left of the blocks before the base, in
    buckets that are dropped as they expire, and the new blocks, in buckets that merge. Models form
    a stack; at clock i with ``2^v`` the largest power of two dividing i, all models of levels up
    to v go, and those of the last ``2^v`` blocks and of the left part up to its next bucket come.

    Attributes:
        window: W, in blocks.
        refresh: P, from 1 (the whole window is fitted again after every block) to
            ``half_window(W)`` (the paper's, with the fewest and smallest fits).
    """

    window: int
    refresh: int

    def __post_init__(self) -> None:
        require_whole("window", self.window)
        require_whole("refresh", self.refresh)
        if self.window > MOST_BLOCKS:
            raise ConfigurationError(
                f"the window has {self.window} blocks; its cost is counted out block by block, up "
                f"to {MOST_BLOCKS}: give larger blocks"
            )
        if self.refresh > half_window(self.window):
            raise ConfigurationError(
                f"refresh is {self.refresh} for a window of {self.window} blocks; the base would "
                f"expire before its successor is complete: at most {half_window(self.window)}"
            )

    @property
    def first(self) -> int:
        """W."""
        return self.window

    def step(self, blocks: int) -> Step:
        """A new base and left part, or the buckets of the last power of two."""
        if blocks < self.window:
            return Step(keep=0)
        clock = (blocks - self.window) % self.refresh
        # Place q of the left part is this block; q expires when the clock shows q.
        offset = blocks - clock - self.window - 1
        if clock == 0:
            start = blocks - self.window + self.refresh - 1
            base = Fit(start=start, end=blocks, level=_BASE_LEVEL)
            return Step(keep=0, fits=(base, *self._left(offset, 1, self.refresh)))
        size = clock & -clock
        level = size.bit_length() - 1
        keep = 1 + (clock >> (level + 1)).bit_count()
        keep += sum(1 for _ in self._places(clock + size, self.refresh))
        right = Fit(start=blocks - size, end=blocks, level=level)
        return Step(
            keep=keep,
            fits=(right, *self._left(offset, clock + 1, min(clock + size, self.refresh))),
        )

    @staticmethod
    def _places(first: int, end: int) -> Iterator[tuple[int, int]]:
        """Aligned intervals of powers of two from ``first`` on, the last one cut at ``end``."""
        while first < end:
            size = first & -first
            yield first, min(first + size, end)
            first += size

    def _left(self, offset: int, first: int, end: int) -> tuple[Fit, ...]:
        fits = [
            Fit(start=offset + a, end=offset + b, level=(a & -a).bit_length() - 1)
            for a, b in self._places(first, end)
        ]
        return tuple(reversed(fits))

    def keep_from(self, blocks: int, horizon: int | None) -> int:
        """The left part's next bucket, or else what the next refresh begins with."""
        if horizon is not None and max(blocks + 1, self.window) > horizon:
            return blocks
        if blocks < self.window:
            return 0
        clock = (blocks - self.window) % self.refresh
        offset = blocks - clock - self.window - 1
        # Odd steps fit nothing of the left part, even ones what follows their own place.
        step = clock + 2 - clock % 2
        if step + 1 < self.refresh:
            left, made = offset + step + 1, blocks - clock + step
        else:
            left, made = offset + self.refresh + 1, blocks - clock + self.refresh
        if horizon is None or made <= horizon:
            return left
        # The stream's last steps, fewer than a refresh: what they use is counted out.
        return min(
            (fit.start for at in range(blocks + 1, horizon + 1) for fit in self.step(at).fits),
            default=blocks,
        )

    def worst(self, power: float, blocks: int | None) -> float:
        """The ledger of all fits until it repeats itself."""
        # From block W on, payments repeat with the refreshes; each ends W steps after it began.
        last = 2 * self.window + self.refresh
        if blocks is not None:
            last = min(last, max(blocks, self.window))
        starts: defaultdict[int, array[int]] = defaultdict(lambda: array("q"))
        for closed in range(self.window, last + 1 if blocks is None else min(last, blocks) + 1):
            for fit in self.step(closed).fits:
                starts[fit.size].append(fit.start)
        # Fits of a size are counted in integers, so that a total is a sum of few floats.
        paid = np.zeros(last + 1)
        for size, begun in sorted(starts.items(), reverse=True):
            counts = np.zeros(last + 1, np.int64)
            first = np.frombuffer(begun, np.int64)
            np.add.at(counts, first, 1)
            np.add.at(counts, first + size, -1)
            paid += np.cumsum(counts) * float(size) ** -power
        return float(paid[: self.window + self.refresh].max(initial=0.0))


def half_window(window: int) -> int:
    """The longest time between refreshes: a new base is complete as the old one expires."""
    return (window + 1) // 2
