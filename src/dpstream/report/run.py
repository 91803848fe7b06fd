"""The page of a run: what is promised, what was spent, and the model over time."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.privacy.ledger import Ledger
from dpstream.release import Release
from dpstream.report.figure import Line, interval_figure, line_figure
from dpstream.report.page import Block, Card, Picture, Table, Text, facts, render_page

Model = Mapping[str, Any]

_CURVES = 8
_BARS = 40
_POINTS = 256


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
    releases: Sequence[Release[Model]], *, identity: Mapping[str, Any], ledger: Ledger
) -> str:
    """The page of a run with at least one release; ``releases`` may be thinned out."""
    last = releases[-1]
    sections: list[tuple[str, Sequence[Block]]] = [
        ("Privacy", _privacy(last, ledger)),
        *_model_sections(releases),
        *_noise_sections(releases),
        ("Ledger", _ledger(ledger)),
        ("Declaration", [facts(dict(_leaves(identity)))]),
    ]
    lead = f"Release {last.tick} of a stream by {last.provenance['learner']}"
    return render_page("dpstream: a private model, kept fresh", lead, sections)


def _privacy(last: Release[Model], ledger: Ledger) -> list[Block]:
    stated = last.guarantee
    unit = (
        "one record"
        if stated.unit.kind == "record"
        else f"all records of one {stated.unit.column} (at most {stated.unit.cap})"
    )
    spent = ledger.spent().epsilon(stated.delta)
    blocks: list[Block] = [
        Card(
            f"Everything published from this stream, over its whole life, is "
            f"({stated.epsilon:g}, {stated.delta:g})-differentially private for {unit}, under "
            f"{stated.neighbours.value} neighbours; {stated.promise}. "
            f"Spent so far: epsilon {spent:.4g}."
        )
    ]
    if stated.insecure_seed:
        blocks.append(
            Card("INSECURE SEED: the noise can be recomputed by anyone; nothing is private.", True)
        )
    return blocks


def _model_sections(releases: Sequence[Release[Model]]) -> list[tuple[str, Sequence[Block]]]:
    last = releases[-1].value
    if last["kind"] == "sum":
        return [("Sums", _sums(releases))]
    if last["kind"] == "scores":
        return [
            (f"Coefficients for {name}", _scores(releases, row))
            for row, name in enumerate(last["targets"])
        ]
    sections: list[tuple[str, Sequence[Block]]] = []
    for index, target in enumerate(last["targets"]):
        sections.append((f"Coefficients for {target['name']}", _coefficients(releases, index)))
    return sections


def _coefficients(releases: Sequence[Release[Model]], target: int) -> list[Block]:
    last = releases[-1].value
    names: list[str] = list(last["features"])
    user = [release.value["targets"][target]["user"]["coefficients"] for release in releases]
    ticks = np.array([release.tick for release in releases], np.float64)
    estimates = np.array([item["estimate"] for item in user])
    final = estimates[-1]
    order = np.argsort(-np.abs(np.array(last["targets"][target]["coefficients"]["estimate"])))
    known = [item.get("total_interval") for item in user]
    curves: dict[str, Line] = {}
    for column in order[:_CURVES].tolist():
        low = _ends(known, column, 0)
        high = _ends(known, column, 1)
        if low is not None and high is not None:
            # An early interval can dwarf the rest of the picture.
            reach = 3.0 * max(1e-12, float(np.abs(estimates[:, column]).max()))
            low, high = np.maximum(low, -reach), np.minimum(high, reach)
        curves[names[column]] = Line(
            x=ticks, y=estimates[:, column], lower=low, upper=high, marker=len(ticks) < 3
        )
    blocks: list[Block] = [
        Picture(
            line_figure(curves, x_label="tick", y_label="coefficient (user's units)"),
            f"The {len(curves)} largest coefficients over time, in the user's units, with 95 % "
            "intervals (sampling and privacy noise together; clipped to the picture)."
            if any(line.lower is not None for line in curves.values())
            else f"The {len(curves)} largest coefficients over time, in the user's units.",
        )
    ]
    interval = known[-1]
    if interval is not None:
        shown = order[:_BARS]
        spread = np.array(interval, np.float64)[shown]
        blocks.append(
            Picture(
                interval_figure(
                    [names[column] for column in shown.tolist()],
                    spread.mean(axis=1),
                    (spread[:, 1] - spread[:, 0]) / 2,
                ),
                "95 % intervals of the last release's coefficients, largest first.",
            )
        )
    rows = [(names[column], float(final[column])) for column in order.tolist()]
    blocks.append(Table(("feature", "coefficient"), rows))
    quality = last["targets"][target]
    stated = {
        "R squared (private estimate)": quality.get("r_squared"),
        "residual variance (scaled units)": quality.get("residual_variance"),
        "expected excess from noise (scaled units)": quality.get("expected_noise_excess"),
    }
    blocks.append(facts({name: value for name, value in stated.items() if value is not None}))
    return blocks


def _ends(intervals: Sequence[Any], column: int, end: int) -> FloatArray | None:
    if any(interval is None for interval in intervals):
        return None
    return np.array([interval[column][end] for interval in intervals], np.float64)


def _sums(releases: Sequence[Release[Model]]) -> list[Block]:
    last = releases[-1].value
    part = "user" if "user" in last else "scaled"
    ticks = np.array([release.tick for release in releases], np.float64)
    values = np.array([release.value[part]["sum"] for release in releases])
    curves = {
        name: Line(x=ticks, y=values[:, column], marker=len(ticks) < 3)
        for column, name in enumerate(list(last["features"])[:_CURVES])
    }
    units = "user's units" if part == "user" else "scaled units"
    picture = line_figure(curves, x_label="tick", y_label=f"sum ({units})")
    rows = list(zip(last["features"], values[-1].tolist(), strict=True))
    return [
        Picture(picture, f"Released sums over time, in {units}."),
        Table(("feature", f"sum ({units})"), rows),
    ]


def _scores(releases: Sequence[Release[Model]], row: int) -> list[Block]:
    """One row of parameters over time: models of scores come without intervals."""
    last = releases[-1].value
    names: list[str] = list(last["features"])
    ticks = np.array([release.tick for release in releases], np.float64)
    values = np.array([release.value["user"]["coefficients"][row] for release in releases])
    order = np.argsort(-np.abs(np.array(last["coefficients"][row]))).tolist()
    curves = {
        names[column]: Line(x=ticks, y=values[:, column], marker=len(ticks) < 3)
        for column in order[:_CURVES]
    }
    table = [(names[column], float(values[-1, column])) for column in order]
    table.append(("(intercept)", float(last["user"]["intercept"][row])))
    stated = {
        "loss": last["loss"],
        "predicted excess risk of the last fit": last.get("expected_excess"),
    }
    return [
        Picture(
            line_figure(curves, x_label="tick", y_label="coefficient (user's units)"),
            f"The {len(curves)} largest coefficients over time, in the user's units.",
        ),
        Table(("feature", "coefficient"), table),
        facts({name: value for name, value in stated.items() if value is not None}),
    ]


def _noise_sections(
    releases: Sequence[Release[Model]],
) -> list[tuple[str, Sequence[Block]]]:
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


def _ledger(ledger: Ledger) -> list[Block]:
    rows = ledger.rows
    shown = [(row.index, str(row.event.to_json()), row.digest[:16]) for row in rows[-50:]]
    blocks: list[Block] = [Table(("row", "event", "digest"), shown)]
    if len(rows) > len(shown):
        blocks.append(Text(f"The last {len(shown)} of {len(rows)} rows; all are in ledger.json."))
    blocks.append(Text(f"Head: {ledger.head}"))
    return blocks


def _leaves(value: Any, name: str = "") -> list[tuple[str, object]]:
    if isinstance(value, Mapping):
        return [
            leaf
            for key, item in value.items()
            for leaf in _leaves(item, f"{name}.{key}" if name else str(key))
        ]
    if isinstance(value, list) and len(value) > 12:
        return [(name, f"{len(value)} values")]
    return [(name, value)]
