"""Basic continual release: bases, and each block once between them (paper 003, appendix).

Proof in ``basic_release.proof.md``.
"""

from dataclasses import dataclass

from dpstream.learners.window.block_learner import BlockLearner
from dpstream.learners.window.bucket import Basic


@dataclass(frozen=True, kw_only=True)
class BasicRelease(BlockLearner):
    """A model of all blocks at ``2^k B``; between, the last block around the model before it.

    Attributes:
        base: B, in blocks. The first model is released after as many.
    """

    base: int

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return "basic_release"

    @property
    def rule(self) -> Basic:
        """Which blocks are fitted when."""
        return Basic(base=self.base)
