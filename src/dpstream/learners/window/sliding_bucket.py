"""The public rule of which blocks a sliding window fits when: buckets that merge and expire.

In the terms of ``bucket.py``; proof in ``sliding_bucket.proof.md``.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpstream.errors import ConfigurationError
from dpstream.geometry.declaration import require_whole
from dpstream.learners.window.bucket import BASE_LEVEL, BucketRule, Fit, Step

MOST_BLOCKS = 1 << 20
"""Of a window."""


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
            base = Fit(start=start, end=blocks, level=BASE_LEVEL)
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
