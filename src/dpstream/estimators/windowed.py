"""Classification on the newest records alone: ``WindowedLogisticRegression``."""

from dataclasses import dataclass
from typing import Any

from dpstream.errors import ConfigurationError
from dpstream.estimators.scores import LabelEstimator
from dpstream.estimators.scoring import positive
from dpstream.estimators.stream_estimator import Declaration, whole
from dpstream.learners.learner import Learner
from dpstream.learners.online.gradient_stack import StackLoss
from dpstream.learners.window.decayed_release import DecayedRelease
from dpstream.learners.window.sliding_window import SlidingWindowRelease
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.softmax import SoftmaxLoss


@dataclass(kw_only=True, eq=False, repr=False)
class WindowedLogisticRegression(LabelEstimator):
    """Logistic regression on a sliding window, or with forgetting, for ever.

    Records are fitted in blocks of ``release_every``; a record keeps its protection after it has
    left the window. ``alpha`` must be above 0: the noise falls with it.

    Attributes:
        window: records in the window, a multiple of ``release_every``; None with ``decay``.
        decay: what one block's passing leaves of a record's weight, above 0 and below 1.
    """

    window: int | None = None
    decay: float | None = None
    alpha: float = 0.05
    solver: str = "window"

    def _loss(self, declared: Declaration) -> StackLoss:
        width = declared.domain.target_count
        return LogisticLoss() if width == 1 else SoftmaxLoss(classes=width)

    def _make_learner(self, declared: Declaration) -> Learner[Any]:
        if self.solver != "window":
            raise ConfigurationError(
                f"{self._name} has solver={self.solver!r}; windows are fitted block by block: "
                "leave it out"
            )
        if self.release_every is None:
            raise ConfigurationError(
                f"{self._name} fits blocks of a public number of records; give release_every"
            )
        if (self.window is None) == (self.decay is None):
            raise ConfigurationError(
                f"{self._name} has window={self.window!r} and decay={self.decay!r}; give one of "
                "them: window=10 * release_every, or decay=0.9"
            )
        shared: dict[str, Any] = {
            **declared.shared,
            "horizon": declared.horizon,
            "loss": self._loss(declared),
            "block_records": whole("release_every", self.release_every, self._name),
            "ridge": positive("alpha", self.alpha, self._name),
            "radius": positive("radius", self.radius, self._name),
        }
        if self.window is not None:
            shared["window_records"] = whole("window", self.window, self._name)
            return SlidingWindowRelease(**shared)
        return DecayedRelease(decay=positive("decay", self.decay, self._name), **shared)
