"""A configuration as text, with a comment for every choice that somebody might want to change."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A column or target: an interval, listed values, or truth values.

    Attributes:
        name: the column's.
        lower: with ``upper``, the interval.
        upper: with ``lower``.
        values: categories or labels.
        boolean: truth values.
        sampled: whether the bounds were read from a public sample.
    """

    name: str
    lower: float | None = None
    upper: float | None = None
    values: tuple[str, ...] = ()
    boolean: bool = False
    sampled: bool = False

    @property
    def bounded(self) -> bool:
        """Whether anything is declared of it."""
        return self.lower is not None or bool(self.values) or self.boolean


@dataclass(frozen=True, kw_only=True)
class WhichUnit:
    """A record, or a user's records by a column, up to a cap."""

    column: str | None = None
    cap: int = 1


@dataclass(frozen=True, kw_only=True)
class Draft:
    """Everything that a configuration says."""

    location: str
    targets: Sequence[Declared]
    columns: Sequence[Declared]
    unit: WhichUnit
    epsilon: float
    every: int
    records: int | None
    sample: str | None


def configuration_text(draft: Draft) -> str:
    """The TOML file."""
    parts = [
        "# Made by dpstream init. Everything here is public, and was declared without looking at\n"
        "# the records. An unknown key is an error that names the nearest known one.\n"
        f"\n[source]\n{_source(draft.location)}",
        "# What of a record may count. Numbers beyond their bounds are clipped, other categories\n"
        "# count as other, and a missing number makes the record count as nothing.\n"
        + "\n".join(_column(item, draft.sample) for item in draft.columns),
    ]
    if draft.targets:
        parts.append(
            "# What is predicted.\n"
            + "\n".join(_target(item, draft.sample) for item in draft.targets)
        )
    parts += [_privacy(draft), _unit(draft.unit), _schedule(draft), _learner(draft.targets)]
    return "\n".join(parts)


def _source(location: str) -> str:
    place = f"path = {_text(location)}\n"
    return place + ('format = "csv"\n' if location == "-" else "")


def _column(item: Declared, sample: str | None) -> str:
    return f"[columns.{_key(item.name)}]\n{_bounds(item, 'categories', sample)}"


def _target(item: Declared, sample: str | None) -> str:
    return f"[targets.{_key(item.name)}]\n{_bounds(item, 'labels', sample)}"


def _bounds(item: Declared, key: str, sample: str | None) -> str:
    origin = f"   # read from {sample}, declared public" if item.sampled else ""
    if item.boolean:
        return "boolean = true\n"
    if item.values:
        return f"{key} = [{', '.join(_text(value) for value in item.values)}]{origin}\n"
    return f"lower = {item.lower:g}{origin}\nupper = {item.upper:g}\n"


def _privacy(draft: Draft) -> str:
    return (
        "# The budget of the stream's whole life: dpstream explain tells what it means.\n"
        f"[privacy]\nepsilon = {draft.epsilon:g}\n"
        "delta = 1e-6               # well below one over the number of people\n"
        'neighbours = "zero_out"    # hidden: what a unit said; "replace" costs twice the noise\n'
    )


def _unit(unit: WhichUnit) -> str:
    if unit.column is None:
        return (
            "# Hidden is any one record. If people have several, protect them all:\n"
            '# kind = "user", column = "...", cap = 20.\n[unit]\nkind = "record"\n'
        )
    return (
        "# Hidden are all records of a user together; the first ones count, up to the cap.\n"
        f'[unit]\nkind = "user"\ncolumn = {_text(unit.column)}\ncap = {unit.cap}\n'
    )


def _schedule(draft: Draft) -> str:
    horizon = (
        "# records = 1_000_000      # if you know a limit, declare it: there is less noise then\n"
        if draft.records is None
        else f"records = {draft.records}           # the most that will come\n"
    )
    return (
        "# When a model is published. Releases cost nothing more: they share the budget.\n"
        f"[schedule]\nevery = {draft.every}                # records\n{horizon}"
    )


def _learner(targets: Sequence[Declared]) -> str:
    lead = "# Which algorithm: dpstream mechanisms --kind learner lists them.\n[learner]\n"
    if not targets:
        return (
            f'{lead}name = "RunningSum"\ncount = true               # means too, not sums alone\n'
        )
    first = targets[0]
    if len(first.values) == 2:
        return f'{lead}name = "FollowTheLeader"\nloss = "logistic"\n'
    if first.values:
        return f'{lead}name = "FollowTheLeader"\nloss = "softmax"\n'
    return (
        f'{lead}name = "PrivIncReg1"\n'
        '# constraint = { name = "l1", radius = 2.0 }   # for sparse models\n'
    )


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _text(value: str) -> str:
    # JSON's strings are TOML's basic strings.
    return json.dumps(value, ensure_ascii=False)
