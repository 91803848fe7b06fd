"""What the catalogue and the constructors say of a part, as Markdown: the one source of truth."""

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

from figures import STRATEGY_NAMES

from dpstream.catalogue.catalogue import entries
from dpstream.catalogue.entry import Entry, Kind, Status
from dpstream.catalogue.proof import proof_path, source_path
from dpstream.cli.learner import LEARNERS, SUPPLIED
from dpstream.cli.options import HIDDEN, key_of
from dpstream.cli.part import SOLVERS

FOLDERS = {Kind.LEARNER: "learners", Kind.SOLVER: "solvers", Kind.STRATEGY: "strategies"}
"""Kinds of parts that have a page each, and where those are."""

SOURCE_ROOT = source_path("dpstream").parent
_PAPER = re.compile(r"\b(00[0-4])\b")
_MORE = {
    "PrivIncERM": {"ridge": "modulus of a public regulariser beside the loss; it costs no privacy"},
    "RunningSum": {
        "window": "ticks of a window, for windowed strategies",
        "decay": "factor by which a tick discounts the ones before it, for decayed sums",
    },
    "FollowTheLeader": {
        "window": "ticks of a window, for expiring strategies",
        "decay": "factor by which a tick discounts the ones before it, for decayed sums",
    },
}
"""Keys that are no parameters of the class."""


def with_pages() -> Iterable[Entry]:
    """The catalogued parts that have a page of their own."""
    return [found for kind in FOLDERS for found in entries(kind)]


def page_of(entry: Entry) -> str:
    """Where a part's page is, within the site."""
    return f"algorithms/{FOLDERS[entry.kind]}/{entry.name}.md"


def proof_page(module: str) -> str:
    """Where the proof of a module is, within the site."""
    place = proof_path(module).relative_to(SOURCE_ROOT).as_posix()
    return f"proofs/{place.removesuffix('.proof.md')}.md"


def short_name(entry: Entry) -> str:
    """What a configuration calls it."""
    if entry.kind is Kind.STRATEGY:
        return STRATEGY_NAMES[entry.name]
    if entry.kind is Kind.SOLVER:
        return next(key for key, make in SOLVERS.parts.items() if make.__name__ == entry.name)
    return "auto" if entry.name == "AutoIncremental" else entry.name


def fact_table(entry: Entry) -> str:
    """Summary, promise, horizon, memory, source and names, as one table."""
    section = {
        Kind.LEARNER: f'`[learner] name = "{short_name(entry)}"`',
        Kind.SOLVER: f'`solver = "{short_name(entry)}"`, in `[batch]` or a learner that refits',
        Kind.STRATEGY: f'`strategy = "{short_name(entry)}"`, in a learner on continual sums',
    }[entry.kind]
    rows = [
        ("Promise", f"{entry.guarantee}, on the [terms of the guarantee](../../GUARANTEE.md)"),
        ("Horizon", entry.horizon),
        ("Memory", entry.memory),
        ("Source", _PAPER.sub(r"[\1](../../GLOSSARY.md#letters)", entry.source)),
        ("Configuration", section),
        ("Class", f"`{entry.module}.{entry.attribute}`"),
        ("Proof", f"[{entry.status.value}](../../{proof_page(entry.module)})"),
    ]
    if entry.status is not Status.PROVED:
        rows[-1] = ("Proof", "none: experimental, never a default")
    lines = [f"| What it is | {_cell(entry.summary)} |", "|---|---|"]
    lines += [f"| **{name}** | {_cell(value)} |" for name, value in rows if value]
    return "\n".join(lines)


def catalogue_table(kind: Kind) -> str:
    """All parts of a kind, each with its page if it has one."""
    lines = ["| name | what it is | source |", "|---|---|---|"]
    for found in entries(kind):
        name = f"[{found.name}]({FOLDERS[kind]}/{found.name}.md)" if kind in FOLDERS else found.name
        source = _PAPER.sub(r"[\1](../GLOSSARY.md#letters)", found.source)
        lines.append(f"| {name} | {_cell(found.summary)} | {_cell(source)} |")
    return "\n".join(lines)


def mechanism_table() -> str:
    """The measurements, with promise and proof."""
    lines = ["| name | what it does | promise | proof |", "|---|---|---|---|"]
    for found in entries(Kind.MECHANISM):
        proof = f"[{found.status.value}](../{proof_page(found.module)})"
        cells = (f"`{found.name}`", found.summary, found.guarantee, proof)
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return "\n".join(lines)


# --- options -----------------------------------------------------------------------------------


def options(entry: Entry) -> list[tuple[str, str, str]]:
    """Key, default and meaning of everything a configuration may say of a learner or solver."""
    if entry.kind is Kind.LEARNER:
        make: Callable[..., Any] = LEARNERS[short_name(entry)].make
    elif entry.kind is Kind.SOLVER:
        make = SOLVERS.parts[short_name(entry)]
    else:
        return []
    described = _MORE.get(entry.name, {})
    meanings = described.copy()
    for parent in _class(entry).__mro__:
        meanings = _attributes(inspect.getdoc(parent) or "") | meanings
    found: dict[str, tuple[str, str, str]] = {}
    for name, parameter in inspect.signature(make).parameters.items():
        if name in HIDDEN or (entry.kind is Kind.LEARNER and name in SUPPLIED):
            continue
        default = parameter.default
        shown = "none: required" if default is parameter.empty else f"`{_toml(default)}`"
        found[name] = (key_of(name), shown, meanings[name])
    for name, meaning in described.items():
        found.setdefault(name, (name, "not given", meaning))
    return list(found.values())


def option_table(entry: Entry) -> str:
    """The options as a section; empty where there are none."""
    found = options(entry)
    if not found:
        return ""
    where = "`[learner]`" if entry.kind is Kind.LEARNER else 'a table `{ name = "...", ... }`'
    lines = [
        "## Options",
        "",
        f"Keys of {where}; the constructor's parameters have the same names.",
    ]
    lines += ["", "| key | default | meaning |", "|---|---|---|"]
    lines += [f"| `{key}` | {_cell(default)} | {_cell(text)} |" for key, default, text in found]
    return "\n".join(lines)


def _class(entry: Entry) -> Any:
    module = __import__(entry.module, fromlist=[entry.attribute])
    return getattr(module, entry.attribute)


def _attributes(documentation: str) -> dict[str, str]:
    """The Attributes section of a docstring."""
    _, _, section = documentation.partition("Attributes:\n")
    found: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        if not line.startswith("    "):
            break
        start = re.match(r"    (\w+): (.*)", line)
        if start:
            name = start[1]
            found[name] = start[2]
        else:
            found[name] += f" {line.strip()}"
    return {name: text.replace("``", "`") for name, text in found.items()}


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "not given"
    if isinstance(value, str):
        return f'"{value}"'
    return str(getattr(value, "value", value))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
