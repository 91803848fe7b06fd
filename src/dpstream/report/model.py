"""A released model over time, for a page: coefficients or sums, intervals, measured error."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.domain import Domain
from dpstream.release import Release
from dpstream.report.figure import Line, interval_figure, line_figure
from dpstream.report.page import Block, Picture, Section, Table, facts

Model = Mapping[str, Any]
Forecasts = Sequence[Mapping[str, Any]]

_CURVES = 8
_BANDED = 5
"""Curves with bands around them: more cannot be told apart."""

_APART = 4
_BARS = 40
_NORMAL_95 = 1.96
_REACH = 3.0


def model_sections(
    releases: Sequence[Release[Model]], *, domain: Domain, forecasts: Forecasts = ()
) -> list[Section]:
    """What was released, target by target.

    Args:
        releases: in order, at least one; may be thinned out.
        domain: the stream's.
        forecasts: errors of the first target predicted before any data, by tick.
    """
    last = releases[-1].value
    if last["kind"] == "sum":
        return [("Sums and means", _sums(releases))]
    if last["kind"] == "scores":
        ready = [release for release in releases if release.value.get("ready", True)]
        if not ready:
            return [("Model", [facts({"state": "nothing was fitted so far"})])]
        sections: list[Section] = [
            (f"Coefficients for {name}", _scores(ready, row))
            for row, name in enumerate(last["targets"])
        ]
        return [*sections, *_score_error(ready)]
    sections = []
    for index, target in enumerate(last["targets"]):
        sections.append((f"Coefficients for {target['name']}", _coefficients(releases, index)))
        sections.append(
            (
                f"Error for {target['name']}",
                _linear_error(releases, index, domain, forecasts if index == 0 else ()),
            )
        )
    return sections


def _ticks(releases: Sequence[Release[Model]]) -> FloatArray:
    return np.array([release.tick for release in releases], np.float64)


def _coefficients(releases: Sequence[Release[Model]], target: int) -> list[Block]:
    last = releases[-1].value
    names: list[str] = list(last["features"])
    user = [release.value["targets"][target]["user"]["coefficients"] for release in releases]
    ticks = _ticks(releases)
    estimates = np.array([item["estimate"] for item in user])
    order = np.argsort(-np.abs(np.array(last["targets"][target]["coefficients"]["estimate"])))
    known = [item.get("total_interval") for item in user]
    curves: dict[str, Line] = {}
    for column in order[: _CURVES if known[-1] is None else _BANDED].tolist():
        low, high = _ends(known, column, 0), _ends(known, column, 1)
        if low is not None and high is not None:
            # An early interval can dwarf the rest of the picture.
            reach = _REACH * max(1e-12, float(np.abs(estimates[:, column]).max()))
            low, high = np.maximum(low, -reach), np.minimum(high, reach)
        curves[names[column]] = Line(
            x=ticks, y=estimates[:, column], lower=low, upper=high, marker=len(ticks) < 3
        )
    banded = any(line.lower is not None for line in curves.values())
    blocks: list[Block] = [
        Picture(
            line_figure(curves, x_label="tick", y_label="coefficient (user's units)"),
            f"The {len(curves)} largest coefficients over time, in the user's units"
            + (
                ", with 95 % intervals (sampling and privacy noise together; clipped to the "
                "picture)."
                if banded
                else "."
            ),
        )
    ]
    interval = known[-1]
    final = estimates[-1]
    if interval is None:
        rows = [(names[column], float(final[column])) for column in order.tolist()]
        return [*blocks, Table(("feature", "coefficient"), rows)]
    spread = np.array(interval, np.float64)
    shown = order[:_BARS]
    blocks.append(
        Picture(
            interval_figure(
                [names[column] for column in shown.tolist()],
                spread[shown].mean(axis=1),
                (spread[shown, 1] - spread[shown, 0]) / 2,
            ),
            "95 % intervals of the last release's coefficients, by their effect over the columns' "
            "bounds.",
        )
    )
    table = [
        (names[column], float(final[column]), float(spread[column, 0]), float(spread[column, 1]))
        for column in order.tolist()
    ]
    return [*blocks, Table(("feature", "coefficient", "95 % from", "to"), table)]


def _ends(intervals: Sequence[Any], column: int, end: int) -> FloatArray | None:
    if any(interval is None for interval in intervals):
        return None
    return np.array([interval[column][end] for interval in intervals], np.float64)


def _linear_error(
    releases: Sequence[Release[Model]], target: int, domain: Domain, forecasts: Forecasts
) -> list[Block]:
    """Measured, as released, beside what the plan predicted."""
    scale = 1.0 / float(domain.target_map.scale[target])
    quality = [release.value["targets"][target] for release in releases]
    ticks = _ticks(releases)
    lines: dict[str, Line] = {}
    variance = _column(quality, "residual_variance")
    if np.isfinite(variance).any():
        spread = _column(quality, "residual_variance_error")
        lines["measured error (private estimate)"] = Line(
            x=ticks,
            y=scale * np.sqrt(np.maximum(variance, 0.0)),
            lower=scale * np.sqrt(np.maximum(variance - _NORMAL_95 * spread, 0.0)),
            upper=scale * np.sqrt(np.maximum(variance + _NORMAL_95 * spread, 0.0)),
            marker=len(ticks) < 3,
        )
    counts = np.array([_records(release.value) for release in releases])
    added = scale * np.sqrt(np.maximum(_column(quality, "expected_noise_excess"), 0.0) / counts)
    if np.isfinite(added).any():
        # A model of pure noise is no worse than the target is wide.
        widest = float(np.asarray(2.0 * scale))
        lines["error that the noise adds (expected)"] = Line(
            x=ticks, y=np.minimum(added, widest), marker=len(ticks) < 3
        )
    lines |= _predicted(forecasts, last=int(ticks[-1]))
    blocks: list[Block] = []
    if lines:
        blocks.append(
            Picture(
                line_figure(lines, x_label="tick", y_label="root mean square error (user's units)"),
                "Errors in the target's own units, with 95 % bands. Measured: estimated from the "
                "same private measurements, at no further cost; 0 where it is too small to be told "
                "from the noise. Predicted: before any data, on "
                "made-up records, so that its level says what noise does and not how well these "
                "data can be explained.",
            )
        )
    end = quality[-1]
    stated = {
        "R squared (private estimate)": end.get("r_squared"),
        "measured error, root mean square": _finite(lines, "measured error (private estimate)"),
        "error that the noise adds, expected": _finite(lines, "error that the noise adds (exp"),
    }
    known = {name: value for name, value in stated.items() if value is not None}
    return [*blocks, facts(known)] if known else blocks


def _finite(lines: Mapping[str, Line], start: str) -> float | None:
    for name, line in lines.items():
        if name.startswith(start) and np.isfinite(line.y[-1]):
            return float(line.y[-1])
    return None


def _column(quality: Sequence[Mapping[str, Any]], name: str) -> FloatArray:
    return np.array([np.nan if item.get(name) is None else item[name] for item in quality])


def _records(model: Model) -> float:
    """Records behind a release: their public number, or its private count."""
    if model.get("records"):
        return float(model["records"])
    counted = model.get("count")
    return max(1.0, float(counted["value"])) if counted else float("nan")


def _predicted(forecasts: Forecasts, *, last: int) -> dict[str, Line]:
    """Forecasts up to the last release, and the first one beyond it."""
    within = [item for item in forecasts if item["tick"] <= last]
    beyond = [item for item in forecasts if item["tick"] > last][:1]
    shown = [*within, *beyond]
    if not shown:
        return {}
    ticks = np.array([item["tick"] for item in shown], np.float64)
    wanted = ("predicted error", "expected_error"), ("predicted without noise", "best_error")
    lines: dict[str, Line] = {}
    for name, key in wanted:
        values = np.array([item[key] for item in shown], np.float64)
        if beyond and within:
            # The picture ends with the last release.
            values[-1] = np.interp(last, ticks, values)
        at = np.minimum(ticks, last) if within else ticks
        lines[name] = Line(x=at, y=values, marker=len(at) < 3)
    return lines


def _sums(releases: Sequence[Release[Model]]) -> list[Block]:
    last = releases[-1].value
    part = "user" if "user" in last else "scaled"
    key = "mean" if "mean" in last[part] else "sum"
    # An early release may not state a mean yet.
    known = [release for release in releases if key in release.value.get(part, {})]
    ticks = _ticks(known)
    values = np.array([release.value[part][key] for release in known])
    units = "user's units" if part == "user" else "scaled units"
    curves = {
        name: Line(x=ticks, y=values[:, column], marker=len(ticks) < 3)
        for column, name in enumerate(list(last["features"])[:_CURVES])
    }
    # A few columns get a picture each: their units differ.
    apart = len(curves) <= _APART
    groups = [{name: line} for name, line in curves.items()] if apart else [curves]
    blocks: list[Block] = []
    for group in groups:
        named = f"{key} of {next(iter(group))}" if apart else key
        picture = line_figure(group, x_label="tick", y_label=f"{key} ({units})")
        blocks.append(Picture(picture, f"Released {named} over time, in {units}."))
    header = ["column", f"{key} ({units})"]
    columns: list[Sequence[Any]] = [last["features"], last[part][key]]
    if key == "mean":
        header.append("sum")
        columns.append(last[part]["sum"])
    return [*blocks, Table(tuple(header), list(zip(*columns, strict=True)))]


def _scores(releases: Sequence[Release[Model]], row: int) -> list[Block]:
    """One row of parameters over time: models of scores come without intervals."""
    last = releases[-1].value
    names: list[str] = list(last["features"])
    ticks = _ticks(releases)
    values = np.array([release.value["user"]["coefficients"][row] for release in releases])
    order = np.argsort(-np.abs(np.array(last["coefficients"][row]))).tolist()
    curves = {
        names[column]: Line(x=ticks, y=values[:, column], marker=len(ticks) < 3)
        for column in order[:_CURVES]
    }
    table = [(names[column], float(values[-1, column])) for column in order]
    table.append(("(intercept)", float(last["user"]["intercept"][row])))
    return [
        Picture(
            line_figure(curves, x_label="tick", y_label="coefficient (user's units)"),
            f"The {len(curves)} largest coefficients over time, in the user's units.",
        ),
        Table(("feature", "coefficient"), table),
    ]


def _score_error(releases: Sequence[Release[Model]]) -> list[Section]:
    """Measured progressive loss and the excess risk that was predicted, where they are released."""
    last = releases[-1].value
    ticks = _ticks(releases)
    lines: dict[str, Line] = {}
    known = [release.value.get("progressive_loss") for release in releases]
    if known[-1] is not None:
        mean = np.array([np.nan if item is None else item["mean"] for item in known])
        spread = np.array(
            [np.nan if item is None else item.get("noise_standard_error", 0.0) for item in known]
        )
        bound = float(known[-1].get("bound", np.inf))
        lines["measured loss, each model on the records after it"] = Line(
            x=ticks,
            y=np.clip(mean, -bound, bound),
            lower=np.clip(mean - _NORMAL_95 * spread, 0.0, bound),
            upper=np.clip(mean + _NORMAL_95 * spread, 0.0, bound),
            marker=len(ticks) < 3,
        )
        recent = [None if item is None else item.get("recent") for item in known]
        newer = np.array([np.nan if item is None else item["mean"] for item in recent])
        if np.isfinite(newer).any():
            lines["the same over the newest half of the ticks or more"] = Line(
                x=ticks, y=np.clip(newer, 0.0, bound)
            )
    excess = _column([release.value for release in releases], "expected_excess")
    if np.isfinite(excess).any():
        lines["predicted excess risk"] = Line(x=ticks, y=excess, marker=len(ticks) < 3)
    stated = {
        "loss": last["loss"],
        "predicted excess risk of the last fit": last.get("expected_excess"),
        "standard deviation of the last model's noise (scaled units)": last.get(
            "noise_standard_error"
        ),
    }
    blocks: list[Block] = [
        facts({name: value for name, value in stated.items() if value is not None})
    ]
    if lines:
        picture = line_figure(lines, x_label="tick", y_label=f"{last['loss']} loss")
        caption = (
            "Error over time, with 95 % bands for the privacy noise. A measured loss is released "
            "within the same budget; a predicted excess is the learner's own, before its data."
        )
        blocks.insert(0, Picture(picture, caption))
    return [("Error", blocks)]
