"""Regret: what answering early cost, against the best fixed model in hindsight.

The total loss of released models on the records that follow, less that of the one model which is
best on all of them. It reads every record without noise: a quantity of experiments, **not
private**, and marked so wherever it is written. A running stream watches its quality by the
progressive loss that its learner measures.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

NOT_PRIVATE = "computed from all records without noise: for experiments only"


@dataclass
class Regret:
    """A total of losses, and the best fixed model's total on the same records.

    Attributes:
        records: how many there were at each entry.
        losses: total loss of the released models.
        best: total loss of the best fixed model of those records.
    """

    records: list[int] = field(default_factory=list[int])
    losses: list[float] = field(default_factory=list[float])
    best: list[float] = field(default_factory=list[float])

    def note(self, *, records: int, losses: float, best: float) -> None:
        """Add an entry."""
        self.records.append(records)
        self.losses.append(losses)
        self.best.append(best)

    @property
    def totals(self) -> list[float]:
        """Total regret at every entry."""
        return [loss - best for loss, best in zip(self.losses, self.best, strict=True)]

    @property
    def total(self) -> float:
        """Total regret at the last entry."""
        return self.totals[-1]

    @property
    def average(self) -> float:
        """Regret per record at the last entry."""
        return self.total / self.records[-1]

    def to_json(self) -> dict[str, Any]:
        """JSON-ready, with its mark."""
        return {"records": list(self.records), "total": self.totals, "private": NOT_PRIVATE}


def growth_exponent(sizes: Sequence[float], totals: Sequence[float]) -> float:
    """The slope of a total against its size, both in logarithms.

    1/2 for square-root growth; for powers of a logarithm it falls towards 0 as sizes grow.
    """
    slope = np.polyfit(np.log(np.asarray(sizes)), np.log(np.maximum(totals, 1e-300)), 1)[0]
    return float(slope) if math.isfinite(slope) else math.inf
