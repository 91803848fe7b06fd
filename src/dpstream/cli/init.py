"""``dpstream init``: five questions, or flags, and a commented configuration that runs as it is."""

import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import typer

from dpstream.cli.assemble import assemble_stream
from dpstream.cli.config import nearest, parse_config
from dpstream.cli.folder import write_public
from dpstream.cli.output import print_json, print_text
from dpstream.cli.public_sample import bounds_of_sample
from dpstream.cli.template import Declared, Draft, WhichUnit, configuration_text
from dpstream.connectors.column_names import column_names
from dpstream.connectors.location import STANDARD_INPUT, require_readable
from dpstream.connectors.opening import open_source
from dpstream.errors import ConfigurationError, SourceError

TRUTH = "boolean"
"""What stands for a column of truth values."""

_NEVER_READ = (
    "dpstream never takes bounds from the data it protects: write what you know without looking, "
    "for instance age=0:120 or town=here,there. From a sample that is public anyway they can be "
    "read by --public-sample FILE"
)


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What flags said; None where a question is still open."""

    input_path: str | None
    targets: Sequence[str]
    columns: Sequence[str]
    unit: str | None
    epsilon: float | None
    every: int
    records: int | None
    public_sample: Path | None


def init(out: Path, answers: Answers, *, force: bool, as_json: bool) -> None:
    """Write a configuration; see ``dpstream init --help``."""
    if out.exists() and not force:
        raise ConfigurationError(f"{out} exists; choose another name, or replace it with --force")
    asked = sys.stdin.isatty() and not as_json
    location = answers.input_path or _ask(asked, "--input", _QUESTIONS[0], str)
    known = _column_names(location)
    if asked and known:
        print_text(f"columns: {', '.join(known)}")
    sample = answers.public_sample
    if sample is not None:
        _require_other(sample, location)

    def declared(text: str) -> list[Declared]:
        return [_bounded(item, known, sample) for item in text.split()]

    targets = (
        [_bounded(item, known, sample) for item in answers.targets]
        if answers.targets or answers.columns
        else _ask(asked, "--target", _QUESTIONS[1], declared, optional=True)
    )
    columns = (
        [_bounded(item, known, sample) for item in answers.columns]
        if answers.columns
        else _ask(asked, "--column", _QUESTIONS[2], declared)
    )
    if not columns:
        raise ConfigurationError("no column is declared; give --column NAME=LOWER:UPPER")
    for target in targets:
        if target.boolean:
            raise ConfigurationError(
                f"target {target.name!r} is {TRUTH}; list its two labels as the records write "
                f"them, for instance {target.name}=no,yes"
            )
    unit = (
        parse_unit(answers.unit, known)
        if answers.unit is not None
        else _ask(asked, "--unit", _QUESTIONS[3], lambda text: parse_unit(text, known))
    )
    epsilon = (
        parse_epsilon(str(answers.epsilon))
        if answers.epsilon is not None
        else _ask(asked, "--epsilon", _QUESTIONS[4], parse_epsilon)
    )
    draft = Draft(
        location=_beside(out, location),
        targets=targets,
        columns=columns,
        unit=unit,
        epsilon=epsilon,
        every=answers.every,
        records=answers.records,
        sample=None if sample is None else str(sample),
    )
    text = configuration_text(draft)
    # Whatever would stop plan or run stops here, before there is a file.
    assemble_stream(parse_config(tomllib.loads(text), name=str(out)))
    write_public(out, text)
    if as_json:
        print_json({"configuration": str(out), "text": text})
        return
    print_text(
        f"{out} is written; read its comments, then:",
        f"  dpstream plan {out}",
        f"  dpstream run {out} --out out",
    )


_QUESTIONS = (
    "1. Where are the records? (a CSV, JSON lines or Parquet file)",
    "2. What should be predicted, within which public bounds? "
    "(delay=-60:240, or late=no,yes; nothing for sums and means)",
    "3. From which columns, each with its public bounds? "
    "(hour=0:24 origin=EWR,JFK,LGA member=boolean)",
    "4. Whose contribution is hidden? (record, or a user's column and cap: tail:20)",
    "5. How much may be spent in the stream's whole life? (epsilon: 0.1 is strong, 1 is usual, "
    "10 is weak; dpstream explain --epsilon 1 tells what it means)",
)


T = TypeVar("T")


def _ask(
    asked: bool, flag: str, question: str, parse: Callable[[str], T], *, optional: bool = False
) -> T:
    """The answer to a question, asked until it can be understood."""
    if not asked:
        if optional:
            return parse("")
        raise ConfigurationError(
            f"{flag} is missing, and there is no terminal to ask on. Question {question}"
        )
    while True:
        text = str(typer.prompt(question, default="" if optional else None, show_default=False))
        try:
            return parse(text)
        except (ConfigurationError, SourceError) as error:
            print_text(f"   {error}")


def parse_unit(text: str, known: Sequence[str]) -> WhichUnit:
    """``record``, or a column and how many of a user's records count.

    Raises:
        ConfigurationError: if it is neither.
    """
    if text.strip() == "record":
        return WhichUnit()
    column, _, cap = text.strip().rpartition(":")
    if not column or not cap.isdigit() or int(cap) < 1:
        raise ConfigurationError(
            f"the unit is {text!r}; write record, or COLUMN:CAP, the column that tells users apart "
            "and how many records of one user count (choose it without looking: tail:20)"
        )
    _require_known(column, known)
    return WhichUnit(column=column, cap=int(cap))


def parse_epsilon(text: str) -> float:
    """A positive number.

    Raises:
        ConfigurationError: if it is none.
    """
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 < value < float("inf"):
        raise ConfigurationError(f"epsilon is {text!r}; write a positive number, for instance 1.0")
    return value


def parse_declared(text: str) -> Declared:
    """``name=lower:upper``, ``name=a,b,c``, ``name=boolean``, or a name without bounds.

    Raises:
        ConfigurationError: if bounds cannot be understood.
    """
    name, given, bounds = text.strip().partition("=")
    if not name:
        raise ConfigurationError(f"{text!r} names no column; write NAME=LOWER:UPPER")
    if not given:
        return Declared(name=name)
    if bounds == TRUTH:
        return Declared(name=name, boolean=True)
    low, colon, high = bounds.partition(":")
    if colon:
        try:
            lower, upper = float(low), float(high)
        except ValueError:
            raise ConfigurationError(
                f"the bounds of {name!r} are {bounds!r}; write two numbers, {name}=LOWER:UPPER, or "
                f"values with commas, {name}=A,B"
            ) from None
        if not lower < upper:
            raise ConfigurationError(
                f"the bounds of {name!r} are {bounds!r}; the lower one must be below the upper one"
            )
        return Declared(name=name, lower=lower, upper=upper)
    values = tuple(value.strip() for value in bounds.split(","))
    if len(values) < 2 or "" in values or len(set(values)) < len(values):
        raise ConfigurationError(
            f"the values of {name!r} are {bounds!r}; list at least two that differ, "
            f"{name}=A,B, or bounds, {name}=LOWER:UPPER"
        )
    return Declared(name=name, values=values)


def _bounded(text: str, known: Sequence[str], sample: Path | None) -> Declared:
    declared = parse_declared(text)
    _require_known(declared.name, known)
    if declared.bounded:
        return declared
    if sample is None:
        raise ConfigurationError(f"column {declared.name!r} has no bounds. {_NEVER_READ}")
    return bounds_of_sample(sample, declared.name)


def _require_known(name: str, known: Sequence[str]) -> None:
    if not known or name in known:
        return
    # A first line that names nothing is a record: it is not shown.
    if any(_is_number(item) for item in known):
        hint = "; the first line must name the columns, and holds numbers"
    elif len(known) == 1 and (found := _SEPARATORS.intersection(known[0])):
        hint = (
            f"; the first line is one name, with {min(found)!r} in it: values are separated by "
            "commas, or by tabs in a file named .tsv"
        )
    else:
        hint = nearest(name, known)
    raise ConfigurationError(f"there is no column {name!r}{hint}")


_SEPARATORS = frozenset(";\t|")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _column_names(location: str) -> list[str]:
    """The names of the records' columns; their values are not looked at."""
    if location == STANDARD_INPUT:
        return []
    require_readable(location, None)
    for chunk in open_source(location, chunk_rows=1).chunks(0):
        return column_names(chunk)
    return []


def _require_other(sample: Path, location: str) -> None:
    if location != STANDARD_INPUT and sample.resolve() == Path(location).resolve():
        raise ConfigurationError(
            f"--public-sample {sample} is the input itself: its bounds would be read from the data "
            "to be protected, and tell of single people. Give a file that is public"
        )


def _beside(out: Path, location: str) -> str:
    """The records' place as the configuration names it: relative to its own folder."""
    if location == STANDARD_INPUT:
        return location
    folder, records = out.resolve().parent, Path(location).resolve()
    return str(records.relative_to(folder) if records.is_relative_to(folder) else records)
