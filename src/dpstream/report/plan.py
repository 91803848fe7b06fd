"""The page of a plan: what will be promised, how much noise there will be, what it does to a model.

Everything here is known before any data is read.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpstream.report.card import seen
from dpstream.report.figure import Line, line_figure
from dpstream.report.page import Block, Card, Picture, Section, Table, Text, facts, render_page

Plan = Mapping[str, Any]


def plan_page(plan: Plan) -> str:
    """A stream's plan, as ``dpstream plan --json`` gives it."""
    until = (
        f"calibrated for {plan['horizon']:,} ticks"
        if plan["horizon"] is not None
        else f"for ever (shown up to tick {plan['looked_ahead_to_tick']:,})"
    )
    sections: list[Section] = [("Promise", _promise(plan, until))]
    if "comparison" in plan:
        sections.append(("Learners", _comparison(plan["comparison"])))
    if "noise" in plan:
        sections.append(("Noise", _noise(plan)))
    if plan.get("forecast"):
        sections.append(("Predicted error", _forecast(plan["forecast"])))
    return render_page(
        f"dpstream: the plan of {plan['learner']}",
        f"Known before any data is read; {until}.",
        sections,
    )


def ranking_page(ranking: Plan) -> str:
    """A batch problem's solvers, as ``dpstream plan --json`` gives them, best first."""
    rows = [
        (item["solver"], _shown(item["predicted"]), _shown(item["refusal"] or item["bound"]))
        for item in ranking["candidates"]
    ]
    blocks: list[Block] = [
        Card(f"Take {ranking['reason']}"),
        Table(("solver", "predicted excess risk", "bound, or why it cannot"), rows),
    ]
    return render_page(
        "dpstream: the plan of a batch problem",
        "Every solver for this problem, ranked before any data is read.",
        [("Solvers", blocks)],
    )


def _shown(value: object) -> object:
    return "-" if value is None else value


def _promise(plan: Plan, until: str) -> list[Block]:
    unit = plan["unit"]
    whose = (
        "one record" if unit["kind"] == "record" else f"one user's records (at most {unit['cap']})"
    )
    words = seen(plan["promise"])
    return [
        Card(
            f"{words[0].upper()}{words[1:]} will be ({plan['epsilon']:g}, "
            f"{plan['delta']:g})-differentially private for {whose}, under "
            f"{plan['neighbours']} neighbours, {until}; {plan['promise']}."
        ),
        Text("dpstream explain tells what that means in plain words."),
    ]


def _comparison(found: Mapping[str, Any]) -> list[Block]:
    candidates = found["candidates"]
    rows = [
        (item["learner"], _shown(item["worst_excess"]), _shown(item["refusal"]))
        for item in candidates
    ]
    blocks: list[Block] = [
        Card(f"Take {found['reason']}"),
        Table(("learner", "worst predicted excess risk", "why it cannot"), rows),
    ]
    lines: dict[str, Line] = {}
    for item in candidates:
        if item["over_time"]:
            records, excess = _columns(item["over_time"], "records", "excess")
            lines[item["learner"]] = Line(x=records, y=excess, marker=True)
    if lines:
        picture = line_figure(
            lines, x_label="records", y_label="excess risk of the whole sum", x_log=True
        )
        said = "Predicted on made-up records, in scaled units, before any data is read."
        blocks.insert(1, Picture(picture, said))
    return blocks


def _noise(plan: Plan) -> list[Block]:
    noise = plan["noise"]
    ticks, levels = _columns(noise["by_tick"], "tick", "standard_deviation")
    picture = line_figure(
        {noise["strategy"]: Line(x=ticks, y=levels)},
        x_label="tick",
        y_label="standard deviation (scaled units)",
        x_log=True,
    )
    rows = [
        (
            item["strategy"],
            item.get("largest_standard_deviation", "not possible"),
            str(item.get("most_vectors_in_memory", "-")),
        )
        for item in plan["strategies"]
    ]
    return [
        Picture(
            picture,
            f"Noise in one entry of the released sum by {noise['strategy']}: {plan['why']}.",
        ),
        facts(
            {
                "numbers measured at every tick": noise["coordinates"],
                "largest standard deviation": noise["largest_standard_deviation"],
                "at tick": noise["at_tick"],
                "most vectors in memory": noise["most_vectors_in_memory"],
            }
        ),
        Text("The same sum by every strategy that keeps the same promise, quietest first:"),
        Table(("strategy", "largest deviation", "vectors"), rows),
    ]


def _forecast(rows: Sequence[Mapping[str, Any]]) -> list[Block]:
    keys = ("expected_error", "best_error", "constant_error")
    records, *errors = _columns(rows, "records", *keys)
    names = ("private model", "best linear model", "best constant")
    picture = line_figure(
        {name: Line(x=records, y=error) for name, error in zip(names, errors, strict=True)},
        x_label="records",
        y_label="root mean square error (user's units)",
        x_log=True,
    )
    table = [(row["tick"], row["records"], *(row[key] for key in keys)) for row in rows]
    return [
        Picture(
            picture,
            "Predicted error of the first target on made-up records: features even over their "
            "bounds, target spread over a quarter of its interval, half of it explained.",
        ),
        Table(("tick", "records", *names), table),
    ]


def _columns(rows: Sequence[Mapping[str, Any]], *keys: str) -> list[Any]:
    return [np.array([row[key] for row in rows], np.float64) for key in keys]
