"""The budget and its spending: nothing is measured that was not charged here first.

A ledger refuses a charge before any noise is drawn. What it accepts becomes a row; each row's
digest covers the one before it, so that altering, removing or reordering rows is found, and
knowing the last digest (the *head*) also finds rows missing at the end. The first row is chained
to the budget and the unit.

For record units, charges on disjoint positions compose in parallel, and what is spent is what
the worst position paid. A user's records may lie anywhere, so for user units all charges compose
in sequence: an event's bound must itself cover all that one user may contribute to it.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import NoReturn, Self, cast

from dpstream.errors import (
    BudgetExceeded,
    ConfigurationError,
    StoreCorrupt,
    StoreMismatch,
)
from dpstream.privacy.bounds import parts_of
from dpstream.privacy.budget import Budget
from dpstream.privacy.coverage import Coverage, disjoint
from dpstream.privacy.curve import PrivacyCurve
from dpstream.privacy.event import Event, Interval, event_from_json
from dpstream.privacy.unit import Unit

__all__ = ["Budget", "Ledger", "LedgerRow", "verify_rows"]

_FORMAT = 1


@dataclass(frozen=True)
class LedgerRow:
    """One accepted charge.

    Attributes:
        index: from 0, without gaps.
        event: what was charged.
        previous_digest: the digest of the row before; of the budget and unit for the first row.
        digest: SHA-256, in hexadecimal, of the canonical JSON of the three above.
    """

    index: int
    event: Event
    previous_digest: str
    digest: str

    @classmethod
    def following(cls, index: int, event: Event, previous_digest: str) -> Self:
        """The row that continues a chain."""
        return cls(index, event, previous_digest, _row_digest(index, event, previous_digest))

    def to_json(self) -> dict[str, object]:
        """The row as plain JSON values."""
        return {
            "index": self.index,
            "event": self.event.to_json(),
            "previous_digest": self.previous_digest,
            "digest": self.digest,
        }

    @classmethod
    def from_json(cls, description: Mapping[str, object]) -> Self:
        """The row that ``to_json`` described; ``verify_rows`` says whether it is genuine.

        Raises:
            StoreMismatch: if its event is of a kind unknown to this version.
            StoreCorrupt: if it is no description of a row.
        """
        index, event = description.get("index"), description.get("event")
        previous, digest = description.get("previous_digest"), description.get("digest")
        if not (
            isinstance(index, int)
            and isinstance(event, Mapping)
            and isinstance(previous, str)
            and isinstance(digest, str)
        ):
            raise StoreCorrupt("a ledger row lacks its index, event or digests")
        return cls(index, event_from_json(cast("Mapping[str, object]", event)), previous, digest)


class Ledger:
    """One stream's budget and what was spent of it.

    It cannot be copied or pickled: a second ledger would be a second budget. Rebuild it from its
    rows instead.

    Args:
        budget: what everything charged, taken together, must keep.
        unit: whose contribution the charges' bounds speak of.
    """

    def __init__(self, budget: Budget, unit: Unit) -> None:
        self._budget = budget
        self._unit = unit
        self._rows: list[LedgerRow] = []
        self._coverage = Coverage()

    @classmethod
    def from_rows(
        cls, rows: Iterable[LedgerRow], *, budget: Budget, unit: Unit, head: str | None = None
    ) -> Self:
        """Take up a ledger where its rows end, after verifying their chain.

        Nothing is refused here: what was spent was spent. If it exceeds the budget, because a
        later version of the package bounds an event higher, no more is charged to those positions.

        Args:
            rows: in order, from the first.
            budget: the budget it was opened with.
            unit: the unit it was opened with.
            head: the last row's digest, if known from elsewhere; then a missing tail is found.

        Raises:
            StoreMismatch: if the ledger was opened with another budget or unit.
            StoreCorrupt: if the rows do not verify.
        """
        ledger = cls(budget, unit)
        rows = list(rows)
        verify_rows(rows, budget=budget, unit=unit, head=head)
        for row in rows:
            ledger._append(row)
        return ledger

    @property
    def budget(self) -> Budget:
        """The budget it was opened with."""
        return self._budget

    @property
    def unit(self) -> Unit:
        """The unit it was opened with."""
        return self._unit

    @property
    def rows(self) -> tuple[LedgerRow, ...]:
        """All accepted charges, in order."""
        return tuple(self._rows)

    @property
    def head(self) -> str:
        """The last row's digest; of the budget and unit while there is no row."""
        return self._rows[-1].digest if self._rows else opening_digest(self._budget, self._unit)

    @property
    def remaining(self) -> float:
        """The epsilon not spent, at the budget's delta.

        An account of the past. Since composition does not add epsilons, an event of just this
        epsilon may cost less, and be admitted even where this is smaller.
        """
        return max(0.0, self._budget.epsilon - self.spent().epsilon(self._budget.delta))

    def spent(self) -> PrivacyCurve:
        """What the worst position has paid: the one of largest epsilon at the budget's delta."""
        return self._coverage.worst(lambda curve: curve.epsilon(self._budget.delta))

    def admits(self, event: Event) -> bool:
        """Whether ``charge`` would accept the event."""
        return self._excess(event) is None

    def charge(self, event: Event) -> LedgerRow:
        """Charge an event, all of it or nothing, before its noise is drawn.

        Returns:
            The new row, to be committed together with what was measured.

        Raises:
            BudgetExceeded: if any unit would have paid more than the budget; nothing changed.
        """
        excess = self._excess(event)
        if excess is not None:
            budget = self._budget
            raise BudgetExceeded(
                f"charging {_title(event)} would spend epsilon="
                f"{excess.epsilon(budget.delta):.6g} of {budget.epsilon:.6g} at "
                f"delta={budget.delta:g}, of which {budget.epsilon - self.remaining:.6g} is "
                "spent; the stream ends here, or plan fewer or noisier measurements from its start"
            )
        row = LedgerRow.following(len(self._rows), event, self.head)
        self._append(row)
        return row

    def _append(self, row: LedgerRow) -> None:
        everywhere, local = self._charges(row.event)
        self._coverage.charge(everywhere, None)
        for curve, covers in local:
            self._coverage.charge(curve, covers)
        self._rows.append(row)

    def _charges(self, event: Event) -> tuple[PrivacyCurve, list[tuple[PrivacyCurve, Interval]]]:
        if self._unit.kind == "user":
            return disjoint((curve, None) for curve, _ in parts_of(event))
        return disjoint(parts_of(event))

    def _excess(self, event: Event) -> PrivacyCurve | None:
        """What some position would have paid in excess of the budget, or None."""
        everywhere, local = self._charges(event)
        charges = [(everywhere.compose(curve), covers) for curve, covers in local]
        if everywhere != PrivacyCurve.none():
            charges = [(everywhere, None), *charges]
        for curve, covers in charges:
            # The envelope reveals no less than any position; when it is admitted, all are.
            if self._holds(self._coverage.envelope(covers).compose(curve)):
                continue
            for paid in set(self._coverage.segments(covers)):
                total = paid.compose(curve)
                if not self._holds(total):
                    return total
        return None

    def _holds(self, curve: PrivacyCurve) -> bool:
        return curve.holds(self._budget.epsilon, self._budget.delta)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise ConfigurationError(
            "a ledger cannot be copied or pickled: the copy would be a second budget; "
            "rebuild it with Ledger.from_rows"
        )


def verify_rows(
    rows: Iterable[LedgerRow], *, budget: Budget, unit: Unit, head: str | None = None
) -> None:
    """Check a ledger's chain from its opening to its last row.

    Args:
        rows: in order, from the first.
        budget: the budget it was opened with.
        unit: the unit it was opened with.
        head: the last row's digest, if known from elsewhere; without it, rows missing at the
            end cannot be found.

    Raises:
        StoreMismatch: if the first row is chained to another budget or unit.
        StoreCorrupt: if a row was altered, removed, added or moved, or is not the head.
    """
    previous = opening_digest(budget, unit)
    for index, row in enumerate(rows):
        if row.index != index:
            raise StoreCorrupt(f"ledger row {index} calls itself {row.index}; a row is missing")
        if row.digest != _row_digest(index, row.event, row.previous_digest):
            raise StoreCorrupt(f"ledger row {index} does not match its digest; it was altered")
        if row.previous_digest != previous:
            if index == 0:
                raise StoreMismatch(
                    "the ledger was opened with another budget or unit; open it with the "
                    "configuration that made it"
                )
            raise StoreCorrupt(f"ledger row {index} does not follow row {index - 1}")
        previous = row.digest
    if head is not None and head != previous:
        raise StoreCorrupt("the ledger does not end with its head; rows are missing at its end")


def opening_digest(budget: Budget, unit: Unit) -> str:
    """What the first row is chained to."""
    return _digest({"format": _FORMAT, "budget": asdict(budget), "unit": asdict(unit)})


def _row_digest(index: int, event: Event, previous_digest: str) -> str:
    return _digest({"index": index, "event": event.to_json(), "previous_digest": previous_digest})


def _digest(contents: Mapping[str, object]) -> str:
    canonical = json.dumps(contents, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def _title(event: Event) -> str:
    name = getattr(event, "name", None)
    return f"{event.kind} event" if name is None else f"{event.kind} event {name!r}"
