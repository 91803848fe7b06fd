"""What an attack found: a statistic, and the limits an honest mechanism keeps."""

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One statistic and the limits an honest mechanism keeps.

    Attributes:
        name: what was measured.
        statistic: its value.
        lower: the least honest value.
        upper: the greatest honest value.
    """

    name: str
    statistic: float
    lower: float
    upper: float

    @property
    def passed(self) -> bool:
        """Whether the statistic lies within the limits."""
        return self.lower <= self.statistic <= self.upper

    def __str__(self) -> str:
        return f"{self.name}: {self.statistic:.6g} in [{self.lower:.6g}, {self.upper:.6g}]"

    def to_json(self) -> dict[str, object]:
        """The finding as plain values; an absent limit is None."""
        return {
            "name": self.name,
            "statistic": _finite(self.statistic),
            "lower": _finite(self.lower),
            "upper": _finite(self.upper),
            "passed": self.passed,
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def failures(findings: Iterable[Finding]) -> list[str]:
    """The findings that did not pass, as text; empty for an honest mechanism."""
    return [str(finding) for finding in findings if not finding.passed]
