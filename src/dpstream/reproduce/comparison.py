"""A figure of paper 004 against epsilon: ours beside the printed constants."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

EPSILONS = (0.01, 0.1, 1.0, 10.0)


@dataclass(frozen=True)
class Comparison:
    """A figure's numbers: one row per epsilon.

    Attributes:
        name: of the figure.
        quantity: what is shown.
        ours: mean per epsilon.
        printed: mean per epsilon with the paper's constants.
        without_privacy: the level without noise.
        leader: mean per epsilon of following the leader on gradients, where that is shown.
    """

    name: str
    quantity: str
    ours: Mapping[float, float]
    printed: Mapping[float, float]
    without_privacy: float
    leader: Mapping[float, float] = field(default_factory=dict[float, float])

    @property
    def series(self) -> Mapping[str, Mapping[float, float]]:
        """The curves by name."""
        shown = {"ours": self.ours, "printed constants": self.printed}
        return shown | {"follow the leader": self.leader} if self.leader else shown

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        series = {
            name: {f"{epsilon:g}": value for epsilon, value in held.items()}
            for name, held in self.series.items()
        }
        return {"quantity": self.quantity, **series, "without privacy": self.without_privacy}
