"""Sliding-window release: a model of the last W blocks, for ever (paper 003, Algorithm 5).

Proof in ``sliding_window.proof.md``.
"""

from dataclasses import dataclass

from dpstream.errors import ConfigurationError
from dpstream.geometry.declaration import require_whole
from dpstream.learners.window.block_learner import BlockLearner
from dpstream.learners.window.sliding_bucket import Sliding, half_window


@dataclass(frozen=True, kw_only=True)
class SlidingWindowRelease(BlockLearner):
    """A model of the last ``window_records`` records after every block, once there are as many.

    Attributes:
        window_records: w, a multiple of ``block_records`` (w0).
        refresh: blocks between fits of a base. 1 fits the whole window after every block: every
            model is the window's own minimiser, and a record pays ``1/W`` of one block's fit.
            None is the paper's half window, with a base and chains of buckets in between: few
            and small fits, which cost a record up to 4/3 of one block's fit where
            ``(W + 1) / 2`` is a power of two and less than 3 otherwise, hence far more noise.
    """

    window_records: int
    refresh: int | None = 1

    def __post_init__(self) -> None:
        require_whole("block_records", self.block_records)
        require_whole("window_records", self.window_records)
        if self.window_records % self.block_records:
            raise ConfigurationError(
                f"window_records is {self.window_records} and block_records "
                f"{self.block_records}; a window is a whole number of blocks"
            )
        super().__post_init__()

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return "sliding_window_release"

    @property
    def rule(self) -> Sliding:
        """Which blocks are fitted when."""
        blocks = self.window_records // self.block_records
        return Sliding(
            window=blocks, refresh=half_window(blocks) if self.refresh is None else self.refresh
        )
