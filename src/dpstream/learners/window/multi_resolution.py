"""Multi-resolution release: models of the last 1, 2, 4, ... blocks (paper 003, Algorithm 2).

Proof in ``multi_resolution.proof.md``.
"""

from dataclasses import dataclass

from dpstream.learners.window.block_learner import BlockLearner
from dpstream.learners.window.bucket import MultiResolution


@dataclass(frozen=True, kw_only=True)
class MultiResolutionRelease(BlockLearner):
    """After ``2^k q`` blocks, a model of the last ``2^k``, for every k; the smallest is the newest.

    Attributes:
        levels: how many sizes; None for all, whose history is kept for ever.
    """

    levels: int | None = None

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return "multi_resolution_release"

    @property
    def rule(self) -> MultiResolution:
        """Which blocks are fitted when."""
        return MultiResolution(levels=self.levels)
