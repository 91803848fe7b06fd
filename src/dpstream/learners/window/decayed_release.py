"""Exponential forgetting for any smooth loss: each block once, around the shrunken model before it.

Proof in ``decayed_release.proof.md``.
"""

from dataclasses import dataclass

from dpstream.arrays import FloatArray
from dpstream.errors import ConfigurationError
from dpstream.learners.window.block_learner import BlockLearner
from dpstream.learners.window.bucket import BucketRule, Fit, Step


@dataclass(frozen=True, kw_only=True)
class Chained(BucketRule):
    """After every block, that block alone, around the model before it."""

    @property
    def first(self) -> int:
        """1."""
        return 1

    def step(self, blocks: int) -> Step:
        """The newest block."""
        fit = Fit(start=blocks - 1, end=blocks, level=0)
        return Step(keep=1, fits=(fit,), forget=True)

    def keep_from(self, blocks: int, horizon: int | None) -> int:
        """None: a block is used once."""
        return blocks

    def worst(self, power: float, blocks: int | None) -> float:
        """1: each block is used once, by itself."""
        return 1.0


@dataclass(frozen=True, kw_only=True)
class DecayedRelease(BlockLearner):
    """A model in which a block that is a blocks old has weight ``decay^a``, after every block.

    With ``s = 1 + decay + ... + decay^(t-1)``, the fit after t blocks has the modulus ``ridge s``
    around ``(s - 1) / s`` times the model before it. Where the loss has little
    curvature beside the ridge, that is the minimiser of the weighted mean loss with ``ridge``;
    where it has more, a fit steps implicitly. Nothing but the last model is remembered, and each
    record is used once, so that noise does not grow with the memory: the released model's noise
    is that of a window of ``(1 + decay) / (1 - decay)`` blocks fitted whole.

    Attributes:
        decay: what a block's passing leaves of a record's weight, above 0 and below 1.
    """

    decay: float

    def __post_init__(self) -> None:
        if not 0.0 < self.decay < 1.0:
            raise ConfigurationError(f"decay is {self.decay}; it must lie above 0 and below 1")
        if self.update_ridge is not None:
            raise ConfigurationError(
                f"update_ridge is {self.update_ridge}, but forgetting sets it from decay and "
                "ridge; leave it out"
            )
        super().__post_init__()

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return "decayed_release"

    @property
    def rule(self) -> Chained:
        """Which blocks are fitted when."""
        return Chained()

    def weight(self, closed: int) -> float:
        """The sum of the weights of so many blocks."""
        return (1.0 - self.decay**closed) / (1.0 - self.decay)

    def modulus(self, closed: int, *, centred: bool) -> float:
        """The ridge for all weights together."""
        return self.ridge * self.weight(closed)

    def centre(self, closed: int, below: FloatArray | None, origin: FloatArray) -> FloatArray:
        """The model before, drawn towards the origin as its records lose weight."""
        if below is None:
            return origin
        return origin + (1.0 - 1.0 / self.weight(closed)) * (below - origin)
