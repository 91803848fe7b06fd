"""Negative controls: mechanisms broken on purpose, which the audit has to catch.

A control runs one attack twice, on a mechanism with one fault and on the sound one beside it.
It holds if some finding fails for the broken one and none for the sound one. The sound one's
false alarm is that of the attacks, 1e-6 for each audit.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from dpstream.audit.finding import Finding

Attack = Callable[[int, bool], Sequence[Finding]]
"""The audit's findings for a seed, about the broken mechanism (True) or the sound one."""


def unattacked(seed: int, broken: bool) -> Sequence[Finding]:
    """Nothing is found, so nothing is caught."""
    del seed, broken
    return ()


@dataclass(frozen=True, kw_only=True)
class Control:
    """One fault.

    Attributes:
        name: of the mechanism.
        fault: how it is broken.
        attack: the audit; without one the control only names a fault.
    """

    name: str
    fault: str
    attack: Attack = unattacked


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One repeat of a control.

    Attributes:
        control: the fault.
        seed: of the noise.
        caught_by: the findings that failed for the broken mechanism.
        false_alarms: the findings that failed for the sound one.
    """

    control: Control
    seed: int
    caught_by: tuple[Finding, ...]
    false_alarms: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        """Whether the broken mechanism was caught and the sound one was not."""
        return bool(self.caught_by) and not self.false_alarms

    def to_json(self) -> dict[str, object]:
        """The trial as plain values."""
        return {
            "mechanism": self.control.name,
            "fault": self.control.fault,
            "seed": self.seed,
            "holds": self.holds,
            "caught_by": [finding.to_json() for finding in self.caught_by],
            "false_alarms": [finding.to_json() for finding in self.false_alarms],
        }

    def row(self) -> tuple[str, str, str, str, str, str]:
        """Name and fault, catching test, its statistic, its limits, and the sound verdict."""
        sound = "passes" if not self.false_alarms else f"FAILS {self.false_alarms[0].name}"
        if not self.caught_by:
            return (self.control.name, self.control.fault, "NOT CAUGHT", "", "", sound)
        first = max(self.caught_by, key=_excess)
        limits = f"[{first.lower:.4g}, {first.upper:.4g}]"
        return (
            self.control.name,
            self.control.fault,
            first.name,
            f"{first.statistic:.4g}",
            limits,
            sound,
        )


def _excess(finding: Finding) -> float:
    """How far a finding lies beyond its limits, in their own size."""
    if finding.lower == finding.upper:
        # A count that ought to be zero tells less than a measured statistic.
        return 0.0
    beyond = max(finding.statistic - finding.upper, finding.lower - finding.statistic)
    return beyond / max(abs(finding.upper), abs(finding.statistic), 1e-300)


def trial(control: Control, seed: int) -> Trial:
    """Run a control once."""
    return Trial(
        control=control,
        seed=seed,
        caught_by=_failed(control.attack(seed, True)),
        false_alarms=_failed(control.attack(seed, False)),
    )


def _failed(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(finding for finding in findings if not finding.passed)


def table(trials: Iterable[Trial]) -> str:
    """The trials as a table in text, one row for each."""
    head = ("mechanism", "fault", "caught by", "statistic", "limits", "sound one")
    rows = [head, *(each.row() for each in trials)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)
