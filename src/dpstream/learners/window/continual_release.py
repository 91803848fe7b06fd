"""Continual cumulative release: bases and updates, or refits (paper 003, Algorithms 3 and 4).

Proof in ``continual_release.proof.md``.
"""

from dataclasses import dataclass
from typing import Literal

from dpstream.errors import ConfigurationError
from dpstream.learners.window.block_learner import BlockLearner
from dpstream.learners.window.bucket import Cumulative, Refit


@dataclass(frozen=True, kw_only=True)
class ContinualRelease(BlockLearner):
    """A model of all data after every block.

    Attributes:
        base: B, in blocks. The first model is released after as many.
        updates: ``"doubling"``: a base at ``2^k B`` blocks and updates between (the paper's);
            ``"refit"``: all blocks again after each one. With Gaussian noise that costs a record
            less than ``1/(B - 1/2)`` of a single block's fit for ever, where doubling costs up
            to 4/3, at the price of time; pure noise needs a horizon for it.
    """

    base: int
    updates: Literal["doubling", "refit"] = "doubling"

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return "continual_release"

    @property
    def rule(self) -> Cumulative | Refit:
        """Which blocks are fitted when.

        Raises:
            ConfigurationError: if ``updates`` is not known.
        """
        if self.updates not in ("doubling", "refit"):
            raise ConfigurationError(
                f"updates is {self.updates!r}; it must be 'doubling' or 'refit'"
            )
        return Refit(base=self.base) if self.updates == "refit" else Cumulative(base=self.base)
