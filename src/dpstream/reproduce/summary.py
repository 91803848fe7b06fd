"""One page for all experiments: theirs, ours, the expected shape, and whether it held."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpstream.report.page import Block, Card, Picture, Section, Table, Text, render_page

_HEADER = ("claim", "theirs", "expected", "measured", "held")


def verdicts(result: Mapping[str, Any]) -> str:
    """How many of an experiment's claims held, in words."""
    held = [item["held"] for item in result.get("claims", ())]
    if not held:
        return "states no claims"
    known = [item for item in held if item is not None]
    untold = len(held) - len(known)
    return f"{sum(known)} of {len(known)} claims held" + (f", {untold} untold" if untold else "")


def summary_page(
    results: Mapping[str, Mapping[str, Any]],
    *,
    about: Mapping[str, str],
    refused: Mapping[str, str],
    out: Path,
) -> str:
    """The page as text.

    Args:
        results: by experiment, as experiments return them (see ``dpstream.reproduce.claim``).
        about: what each experiment shows.
        refused: why an experiment could not run.
        out: the folder that holds the pictures.
    """
    rows = [(name, about[name], verdicts(result)) for name, result in results.items()]
    rows += [(name, about[name], f"did not run: {reason}") for name, reason in refused.items()]
    sections: list[Section] = [("Experiments", [Table(("experiment", "shows", "outcome"), rows)])]
    sections += [(name, _blocks(about[name], item, out)) for name, item in results.items()]
    return render_page(
        "The papers' experiments, reproduced",
        "Every claim with what was expected, what was measured, and whether it held.",
        sections,
    )


def _blocks(about: str, result: Mapping[str, Any], out: Path) -> list[Block]:
    blocks: list[Block] = [Text(about)]
    claims: Sequence[Mapping[str, Any]] = result.get("claims", ())
    if claims:
        blocks.append(Table(_HEADER, [_row(item) for item in claims]))
    if any(item["held"] is False for item in claims):
        failed = ", ".join(str(item["name"]) for item in claims if item["held"] is False)
        blocks.append(Card(f"Not as expected: {failed}.", True))
    for name in result.get("pictures", ()):
        svg = (out / name).read_text(encoding="utf-8")
        blocks.append(Picture(svg, Path(name).stem.replace("-", " ")))
    if "full_data" in result:
        blocks.append(Text(f"On the full original data: {result['full_data']}"))
    return blocks


def _row(item: Mapping[str, Any]) -> tuple[object, ...]:
    held = {True: "yes", False: "NO", None: "not told by this run"}[item["held"]]
    theirs = item.get("theirs")
    return (
        item["name"],
        "" if theirs is None else theirs,
        item["expected"],
        item["measured"],
        held,
    )
