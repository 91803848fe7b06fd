"""The page of a run: what is promised, what was spent, and the model over time."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dpstream.domain.domain import Domain
from dpstream.privacy.event import Event
from dpstream.privacy.ledger import Ledger
from dpstream.privacy.trade_off import best_accuracy
from dpstream.release import Release
from dpstream.report.card import privacy_card
from dpstream.report.figure import Line, line_figure
from dpstream.report.model import Forecasts, Model, model_sections
from dpstream.report.page import (
    Block,
    Card,
    Listing,
    Meter,
    Picture,
    Section,
    Table,
    Text,
    facts,
    render_page,
)

_POINTS = 256
_ROWS = 50
_SPENDINGS = 12
_LISTED = 4


def thin_out(releases: Iterable[Release[Model]], *, most: int = _POINTS) -> list[Release[Model]]:
    """At most about ``most`` releases, evenly spread, the last one included."""
    kept: list[Release[Model]] = []
    stride, last = 1, None
    for index, release in enumerate(releases):
        last = release
        if index % stride == 0:
            kept.append(release)
            if len(kept) > most:
                kept, stride = kept[::2], stride * 2
    if last is not None and kept[-1] is not last:
        kept.append(last)
    return kept


def run_report(
    releases: Sequence[Release[Model]],
    *,
    identity: Mapping[str, Any],
    ledger: Ledger,
    forecasts: Forecasts = (),
) -> str:
    """The page of a run with at least one release.

    Args:
        releases: in order; may be thinned out.
        identity: the stream's declaration.
        ledger: what was charged.
        forecasts: the plan's, of the first target's error by tick, if it has any.
    """
    last = releases[-1]
    domain = Domain.from_json(identity["domain"])
    sections: list[Section] = [
        ("Privacy card", _privacy(last, ledger, domain)),
        *model_sections(releases, domain=domain, forecasts=forecasts),
        *_noise_sections(releases),
        ("Budget", _budget(releases, ledger)),
        ("Declaration", _declaration(identity)),
    ]
    lead = f"Release {last.tick:,} of a stream by {last.provenance['learner']}"
    return render_page("dpstream: a private model, kept fresh", lead, sections)


def _privacy(last: Release[Model], ledger: Ledger, domain: Domain) -> list[Block]:
    """The privacy card, with the attacker's best odds as a bar."""
    card = privacy_card(last.guarantee, domain=domain, rows=ledger.rows)
    shown = [Listing(heading, lines) for heading, lines in card.sections()[1:]]
    blocks: list[Block] = [Card(card.promise, card.rehearsal), Text(card.statement)]
    if not card.rehearsal:
        odds = best_accuracy(ledger.spent())
        text = (
            f"By what was spent so far: right in at most {100 * odds:.1f} of 100 cases. Empty is a "
            "coin's guess, full is certainty."
        )
        blocks.append(Meter(2.0 * odds - 1.0, text))
    return [*blocks, *shown]


def _noise_sections(
    releases: Sequence[Release[Model]],
) -> list[Section]:
    """The noise of released sums; models of scores do not all have one such number."""
    known = releases[-1].value["kind"] != "scores"
    return [("Noise", [_noise(releases)])] if known else []


def _noise(releases: Sequence[Release[Model]]) -> Picture:
    ticks = np.array([release.tick for release in releases], np.float64)
    levels = np.array([_noise_level(release.value) for release in releases])
    return Picture(
        line_figure(
            {"noise": Line(x=ticks, y=levels, marker=len(ticks) < 3)},
            x_label="tick",
            y_label="standard deviation",
        ),
        "Standard deviation of the privacy noise in one entry of the released sum (scaled units).",
    )


def _noise_level(model: Model) -> float:
    if model["kind"] == "sum":
        return float(model["scaled"]["standard_error"])
    return float(model["noise"]["standard_deviation"])


def _budget(releases: Sequence[Release[Model]], ledger: Ledger) -> list[Block]:
    budget, rows = ledger.budget, ledger.rows
    spent = ledger.spent().epsilon(budget.delta)
    blocks: list[Block] = [
        Meter(
            spent / budget.epsilon,
            f"Epsilon {spent:.4g} of {budget.epsilon:.4g} is spent, at delta {budget.delta:.3g}.",
        ),
        _spending(releases, ledger),
    ]
    shown = [(row.index, *event_words(row.event), row.digest[:16]) for row in rows[-_ROWS:]]
    blocks.append(Table(("row", "event", "parameters", "digest"), shown))
    if len(rows) > len(shown):
        blocks.append(Text(f"The last {len(shown)} of {len(rows)} rows; all are in ledger.json."))
    return [*blocks, Text(f"Head of the ledger: {ledger.head}")]


def _spending(releases: Sequence[Release[Model]], ledger: Ledger) -> Picture:
    """What the worst place in the stream had paid by each of a few releases."""
    stride = -(-len(releases) // _SPENDINGS)
    chosen = [*releases[:-1:stride], releases[-1]]
    counts = [int(str(release.provenance["ledger_rows"])) for release in chosen]
    epsilons: dict[int, float] = {}
    for count in set(counts):
        until = Ledger.from_rows(ledger.rows[:count], budget=ledger.budget, unit=ledger.unit)
        epsilons[count] = until.spent().epsilon(ledger.budget.delta)
    ticks = np.array([release.tick for release in chosen], np.float64)
    paid = np.array([epsilons[count] for count in counts])
    return Picture(
        line_figure(
            {"spent": Line(x=ticks, y=paid, marker=True)},
            x_label="tick",
            y_label=f"epsilon at delta {ledger.budget.delta:.3g}",
            references={"budget": ledger.budget.epsilon},
        ),
        "What the place in the stream that paid most had paid by each release shown.",
    )


def event_words(event: Event) -> tuple[str, str]:
    """A privacy event's name, and its parameters, in words."""
    described = dict(event.to_json())
    kind, name = str(described.pop("kind")), str(described.pop("name", ""))
    details = ", ".join(f"{key} {value}" for key, value in described.items() if value is not None)
    return f"{name or kind} ({kind})", details


def _declaration(identity: Mapping[str, Any]) -> list[Block]:
    """What the guarantee rests on beside the bounds, which the card shows."""
    domain: Mapping[str, Any] = identity["domain"]
    shown = {
        **{key: value for key, value in domain.items() if key not in ("columns", "targets")},
        **{key: value for key, value in identity.items() if key not in ("domain", "learner")},
        "learner": {k: v for k, v in identity["learner"].items() if k != "domain"},
    }
    return [
        Text("What was declared beside the bounds above, and what was calibrated from it:"),
        facts(dict(_leaves(shown))),
    ]


def _leaves(value: Any, name: str = "") -> list[tuple[str, object]]:
    if isinstance(value, Mapping):
        return [
            leaf
            for key, item in value.items()
            for leaf in _leaves(item, f"{name}.{key}" if name else str(key))
        ]
    if isinstance(value, list):
        return [(name, f"{len(value)} values")] if len(value) > _LISTED else [(name, str(value))]
    return [] if value is None else [(name, value)]
