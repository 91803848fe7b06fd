"""What ``dpstream plan`` prints: the plain values of a plan as lines and tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from dpstream.cli.output import print_table, print_text
from dpstream.report.page import format_number

_LEVELS = 8
"""Sizes of fits that are shown one by one."""


def show_plan(found: Mapping[str, Any]) -> None:
    """A stream's plan."""
    noise = found.get("noise")
    until = (
        f"up to tick {found['horizon']:,}"
        if found["horizon"] is not None
        else f"no horizon (shown up to tick {found['looked_ahead_to_tick']:,})"
    )
    print_text(
        f"{found['learner']}: epsilon {found['epsilon']:g}, delta {found['delta']:g}, "
        f"{found['neighbours']}, unit {found['unit']['kind']} (at most {found['unit']['cap']})",
        f"promise: {found['promise']}; {until}",
    )
    if noise is not None:
        print_text(
            f"strategy: {noise['strategy']} ({found['why']})",
            f"largest standard deviation of the noise: "
            f"{format_number(noise['largest_standard_deviation'])} at tick {noise['at_tick']:,} "
            f"(scaled units, {noise['coordinates']:,} coordinates)",
        )
        print_table(("strategy", "largest deviation", "vectors"), _rows(found["strategies"]))
    if "comparison" in found:
        _show_comparison(found["comparison"])
    if "releases" in found:
        print_text("what releases cost, at the earliest tick that each can have:")
        print_table(
            ("release", "records", "share", "noise of each parameter"),
            [
                (
                    f"{item['release']:,}",
                    f"{item['records']:,}",
                    f"{item['share']:.3g}",
                    format_number(item["standard_deviation"]),
                )
                for item in found["releases"]
            ],
        )
    if "levels" in found:
        _show_levels(found["levels"])
        ridge = found["ridge"]
        print_text(
            f"ridge: {format_number(ridge['declared'])}; bounds on bias and noise balance at "
            f"{format_number(ridge['balanced'])}, for models as long as the ball's radius"
        )
        kept = found["longest_history_in_blocks"]
        print_text(
            "records are kept, encrypted, "
            + ("for the stream's whole life" if kept is None else f"for at most {kept:,} blocks")
            + " after their own has closed"
        )
    if "drift" in found:
        _show_drift(found["drift"])
    if found.get("forecast"):
        print_text(
            "predicted error of the first target (made-up records: features even over their "
            "bounds, target spread over a quarter of its interval, half of it explained):"
        )
        print_table(
            ("tick", "records", "private", "best linear", "constant"),
            [
                (
                    f"{item['tick']:,}",
                    f"{item['records']:,}",
                    format_number(item["expected_error"]),
                    format_number(item["best_error"]),
                    format_number(item["constant_error"]),
                )
                for item in found["forecast"]
            ],
        )


def _show_comparison(found: Mapping[str, Any]) -> None:
    print_text(
        f"take {found['reason']}",
        "predicted excess risk of the whole sum (made-up records, scaled units):",
    )
    rows: list[tuple[str, str, str]] = []
    for item in found["candidates"]:
        worst, steps = item["worst_excess"], item["over_time"]
        over_time = ", ".join(
            f"{format_number(step['excess'])} at {step['records']:,}" for step in steps
        )
        told = "-" if worst is None else format_number(worst)
        rows.append((item["learner"], told, item["refusal"] or over_time or "the only one"))
    print_table(("learner", "worst", "over time, at so many records; or why it cannot"), rows)


def _show_levels(levels: Sequence[Mapping[str, Any]]) -> None:
    """The block whose records pay most: what each size of fit that uses it costs."""
    print_text("budget of the records that are used most, by the size of the fits that use them:")
    shown = sorted(levels, key=lambda level: -level["fraction"])[:_LEVELS]
    print_table(
        ("blocks", "records", "fits", "share", "noise of each parameter", "of all"),
        [
            (
                f"{level['blocks']:,}",
                f"{level['records']:,}",
                str(level["fits"]),
                f"{level['fraction']:.2%}",
                format_number(level["noise"]),
                format_number(level["noise_length"]),
            )
            for level in sorted(shown, key=lambda level: -level["blocks"])
        ],
    )
    rest = 1.0 - sum(level["fraction"] for level in shown)
    if rest > 1e-6:
        print_text(f"all other sizes together: {rest:.2%}")


def _show_drift(found: Mapping[str, Any]) -> None:
    guess = found["guess"]
    print_text(
        f"memories after block {found['block']:,}, if the best parameters move by "
        f"{guess['drift']:g} with every block and jumped by {guess['change']:g} before block "
        f"{guess['changed_at']:,} (scaled units; the least error first):"
    )
    print_table(
        ("memory", "mean age in blocks", "bias", "noise", "error"),
        [
            (
                item["name"],
                format_number(item["mean_age"]),
                format_number(item["bias"]),
                format_number(item["noise"]),
                format_number(item["error"]),
            )
            for item in found["memories"]
        ],
    )


def show_ranking(ranking: Mapping[str, Any]) -> None:
    """The ranking of solvers for a batch problem."""
    print_text(f"take {ranking['reason']}")
    rows: list[tuple[str, str, str]] = []
    for item in ranking["candidates"]:
        figures = (item["predicted"], item["bound"])
        shown = ["-" if value is None else format_number(value) for value in figures]
        rows.append((item["solver"], shown[0], item["refusal"] or shown[1]))
    print_table(("solver", "predicted excess", "bound, or why it cannot"), rows)


def _rows(strategies: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    return [
        (
            item["strategy"],
            format_number(item["largest_standard_deviation"])
            if "largest_standard_deviation" in item
            else "not possible",
            str(item.get("most_vectors_in_memory", "-")),
        )
        for item in strategies
    ]
