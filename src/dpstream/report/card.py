"""The privacy card: what was promised of a model, in words and in numbers that can be recomputed.

Written from the ledger and the public declaration alone. It goes into every saved model and every
report; this module holds its content, others show it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpstream.domain.column import Boolean, Categorical
from dpstream.domain.domain import Domain
from dpstream.domain.target import LabelTarget
from dpstream.mechanisms.continual.strategy import Promise
from dpstream.privacy.budget import Budget
from dpstream.privacy.curve import PrivacyCurve
from dpstream.privacy.ledger import Ledger, LedgerRow
from dpstream.privacy.trade_off import best_accuracy
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.release import Guarantee

DECLARED = "declared before any record was read"
"""Where bounds come from unless something else is said."""

_EVENTS = 12
_INSECURE = (
    "NOTHING is promised: the noise came from a seed that anyone can use again. This is a "
    "rehearsal on records that are public."
)


@dataclass(frozen=True, kw_only=True)
class CardBound:
    """A bound that the guarantee rests on.

    Attributes:
        name: the column, the target, or the record as a whole.
        stated: what of it counts.
        provenance: where the bound comes from; never the records.
    """

    name: str
    stated: str
    provenance: str = DECLARED


@dataclass(frozen=True, kw_only=True)
class PrivacyCard:
    """What a person in the data, or someone who must answer for it, should know.

    Attributes:
        promise: one plain sentence.
        statement: the same for specialists.
        unit: whose contribution is hidden.
        neighbours: what it is hidden against.
        bounds: what of a record counts, and who says so.
        events: what was measured, as the ledger has it.
        epsilon: declared for everything that is ever published.
        delta: beside ``epsilon``.
        epsilon_spent: recomputed from the events.
        not_promised: what a reader might hope for in vain.
        rehearsal: True if the noise came from a public seed and nothing is promised.
    """

    promise: str
    statement: str
    unit: str
    neighbours: str
    bounds: tuple[CardBound, ...]
    events: tuple[Mapping[str, Any], ...]
    epsilon: float
    delta: float
    epsilon_spent: float
    not_promised: tuple[str, ...]
    rehearsal: bool = False

    def sections(self) -> list[tuple[str, list[str]]]:
        """Headings, and lines of text under each, in the order they should be read."""
        return [
            ("The promise", [self.promise, self.statement]),
            ("Whose contribution is hidden", [self.unit]),
            ("Against what", [self.neighbours]),
            (
                "What of a record counts",
                [f"{item.name}: {item.stated} ({item.provenance})" for item in self.bounds],
            ),
            ("What was measured", _event_lines(self.events)),
            (
                "What it costs",
                [
                    f"epsilon {self.epsilon_spent:.6g} of {self.epsilon:g} at delta "
                    f"{self.delta:g}, recomputed from the events above"
                ],
            ),
            ("What is not promised", list(self.not_promised)),
        ]

    def text(self) -> str:
        """The card as plain text."""
        return "\n\n".join(
            "\n".join([heading, *(f"  {line}" for line in lines)])
            for heading, lines in self.sections()
        )

    def __str__(self) -> str:
        return self.text()

    def to_json(self) -> dict[str, Any]:
        """The card as plain JSON values."""
        return {
            "promise": self.promise,
            "statement": self.statement,
            "unit": self.unit,
            "neighbours": self.neighbours,
            "bounds": [
                {"name": item.name, "stated": item.stated, "provenance": item.provenance}
                for item in self.bounds
            ],
            "events": [dict(event) for event in self.events],
            "epsilon": self.epsilon,
            "delta": self.delta,
            "epsilon_spent": self.epsilon_spent,
            "not_promised": list(self.not_promised),
            "rehearsal": self.rehearsal,
        }


def privacy_card(
    guarantee: Guarantee,
    *,
    domain: Domain,
    rows: Sequence[LedgerRow],
    provenance: Mapping[str, str] | None = None,
) -> PrivacyCard:
    """The card of a stream's releases.

    Args:
        guarantee: of any of its releases.
        domain: what of a record counts.
        rows: the ledger's, whose chain is checked and whose events are composed again.
        provenance: of bounds by column, where it is not ``DECLARED``.

    Raises:
        StoreMismatch: if the ledger was opened with another budget or unit.
        StoreCorrupt: if the ledger does not verify.
    """
    spent = recomputed(guarantee, rows).spent().epsilon(guarantee.delta)
    return PrivacyCard(
        promise=promise_sentence(guarantee),
        statement=_statement(guarantee),
        unit=unit_sentence(guarantee.unit),
        neighbours=_NEIGHBOURS[guarantee.neighbours],
        bounds=card_bounds(domain, provenance or {}),
        events=tuple(row.event.to_json() for row in rows),
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        epsilon_spent=spent,
        not_promised=not_promised(guarantee),
        rehearsal=guarantee.insecure_seed,
    )


def recomputed(guarantee: Guarantee, rows: Sequence[LedgerRow]) -> Ledger:
    """The ledger, composed again from its rows."""
    budget = Budget(epsilon=guarantee.epsilon, delta=guarantee.delta)
    return Ledger.from_rows(rows, budget=budget, unit=guarantee.unit)


def whose(unit: Unit) -> str:
    """The unit in words."""
    if unit.kind == "record":
        return "any one record"
    within = "" if unit.period == "life" else " in any window"
    return f"all records of any one {unit.column} (at most {unit.cap} count{within})"


def seen(promise: str | None) -> str:
    """What an attacker may see whom the guarantee holds against, in words."""
    if promise in (None, Promise.FOREVER.value):
        return "everything that is ever published"
    return "everything that is published until it leaves the window"


def promise_sentence(guarantee: Guarantee) -> str:
    """The guarantee of everything published, in one plain sentence."""
    if guarantee.insecure_seed:
        return _INSECURE
    accuracy = best_accuracy(PrivacyCurve.approximate(guarantee.epsilon, guarantee.delta))
    against = (
        "came with what it said or came empty"
        if guarantee.neighbours is Neighbours.ZERO_OUT
        else "said one thing or another"
    )
    return (
        f"Somebody who sees {seen(guarantee.promise)}, and knows all the rest of "
        f"the stream's data, can tell whether {whose(guarantee.unit)} {against} in at most "
        f"{100 * accuracy:.1f} of 100 cases, where a coin is right in 50."
    )


def unit_sentence(unit: Unit) -> str:
    """Whose contribution is hidden, and what that leaves out."""
    if unit.kind == "record":
        return "one record: somebody with several records is protected for each, not for all"
    period = "over the stream's whole life" if unit.period == "life" else "in any one window"
    return (
        f"one {unit.column}, with all of its records; at most {unit.cap} of them count {period}, "
        "and the others are left out"
    )


_NEIGHBOURS = {
    Neighbours.ZERO_OUT: "zero_out: its records are empty instead, and their places stay",
    Neighbours.REPLACE: "replace: its records are any others instead, or empty",
}


def _statement(guarantee: Guarantee) -> str:
    if guarantee.insecure_seed:
        return "No differential privacy: an insecure seed was used."
    return (
        f"({guarantee.epsilon:g}, {guarantee.delta:g})-differential privacy of "
        f"{seen(guarantee.promise)}, together and chosen adaptively, for "
        f"{guarantee.neighbours.value} neighbours; {guarantee.promise}."
    )


def card_bounds(domain: Domain, provenance: Mapping[str, str]) -> tuple[CardBound, ...]:
    """Every bound of a domain: columns, targets, and the record as a whole."""
    bounds: list[CardBound] = []
    for item in (*domain.columns, *domain.targets):
        match item:
            case Boolean():
                stated = "true or false"
            case Categorical():
                stated = f"one of {_listed(item.categories)}, or other"
            case LabelTarget():
                stated = f"the label is one of {_listed(item.labels)}; others make the record empty"
            case _ if item.lower is None:
                stated = "a number, bounded with the whole record"
            case _:
                stated = f"a number, clipped to [{item.lower:g}, {item.upper:g}]"
        bounds.append(
            CardBound(name=item.name, stated=stated, provenance=provenance.get(item.name, DECLARED))
        )
    if domain.norm_bound is not None:
        stated = f"clipped to length {domain.norm_bound:g} after columns are mapped to [-1, 1]"
        bounds.append(CardBound(name="the whole record", stated=stated))
    return tuple(bounds)


def not_promised(guarantee: Guarantee) -> tuple[str, ...]:
    """What a reader might hope for in vain."""
    unit = guarantee.unit
    several = (
        "Nothing beyond one record: if several records are one person's, the odds above grow with "
        "their number."
        if unit.kind == "record"
        else f"Nothing beyond one {unit.column}: for groups that belong together the odds above "
        "grow with their size."
    )
    arrival = (
        "That a record came, and when, is not hidden: only what it says."
        if unit.kind == "record"
        else f"That a {unit.column} has records, and at which places, is not hidden: only what "
        "they say."
    )
    expiring = (
        []
        if guarantee.promise == Promise.FOREVER.value
        else ["Old records are not protected: once they leave the window, their sum is exact."]
    )
    return (
        "What is true of people in general is not hidden: it would be learnt without anyone's "
        "record as well.",
        several,
        arrival,
        "Names, bounds, vocabularies and the schedule of releases are public, and must not have "
        "been chosen by looking at the records.",
        "What else is computed from the same records, by another stream or without dpstream, has "
        "a price of its own that adds up.",
        "Whoever can read the computer's memory, its key or its store sees the records' sums.",
        "Accuracy is not promised here: it is in the intervals and the plan.",
        *expiring,
    )


def _event_lines(events: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        f"{event.get('name', event['kind'])}: "
        + ", ".join(
            f"{key} {value:.6g}" if isinstance(value, float) else f"{key} {value}"
            for key, value in event.items()
            if key not in ("name", "covers", "event", "events") and value is not None
        )
        for event in events[:_EVENTS]
    ]
    if len(events) > _EVENTS:
        lines.append(f"... and {len(events) - _EVENTS} more, all of them in the ledger")
    return lines or ["nothing so far"]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:6])
    return shown if len(names) <= 6 else f"{shown} and {len(names) - 6} more"
