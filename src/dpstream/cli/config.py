"""The configuration file: TOML, checked whole before anything runs.

An unknown key is an error that names the nearest known one; every message names the key, the
value received and what to write instead. Nothing here reads data.
"""

import difflib
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from dpstream.errors import ConfigurationError


class Section(BaseModel):
    """A table of the file; keys that it does not know are errors.

    Values keep their type: a number in quotes or a truth value is no number.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class SourceSection(Section):
    """Where records come from. ``--input`` on the command line takes precedence."""

    path: str | None = None
    format: Literal["csv", "jsonl", "parquet"] | None = None


class ColumnSection(Section):
    """One feature: an interval, a vocabulary, or a truth value."""

    lower: float | None = None
    upper: float | None = None
    categories: Annotated[tuple[str, ...], Field(strict=False)] | None = None
    boolean: bool = False

    @model_validator(mode="after")
    def _one_kind(self) -> "ColumnSection":
        interval = self.lower is not None or self.upper is not None
        kinds = interval + (self.categories is not None) + self.boolean
        if kinds != 1:
            raise ValueError(
                "give exactly one of: lower and upper; categories; boolean = true. "
                "Bounds are public facts about the column and are never read from the data"
            )
        if interval and (self.lower is None or self.upper is None):
            raise ValueError("give both lower and upper")
        if self.lower is not None and self.upper is not None and self.lower >= self.upper:
            raise ValueError(f"lower is {self.lower} and upper {self.upper}; lower must be below")
        if self.categories is not None and len(set(self.categories)) != len(self.categories):
            raise ValueError("a category is listed twice")
        return self


class TargetSection(Section):
    """What is predicted: a number clipped to a public interval, or one of declared labels."""

    lower: float | None = None
    upper: float | None = None
    labels: Annotated[tuple[str | int, ...], Field(strict=False)] | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> "TargetSection":
        bounded = self.lower is not None and self.upper is not None
        if bounded == (self.labels is not None) or (self.lower is None) != (self.upper is None):
            raise ValueError("give lower and upper for a number, or labels for classes")
        if self.lower is not None and self.upper is not None and self.lower >= self.upper:
            raise ValueError(f"lower is {self.lower} and upper {self.upper}; lower must be below")
        return self


class RecordSection(Section):
    """How a record is bounded as a whole."""

    bound: Literal["l2", "max"] = "l2"
    norm: Annotated[float, Field(gt=0)] | None = None
    intercept: bool = True


class UnitSection(Section):
    """Whose contribution is hidden."""

    kind: Literal["record", "user"] = "record"
    column: str | None = None
    cap: Annotated[int, Field(ge=1)] = 1
    period: Literal["life", "window"] = "life"


class PrivacySection(Section):
    """The budget and the neighbours; neither has a default."""

    epsilon: Annotated[float, Field(gt=0)]
    delta: Annotated[float, Field(ge=0, lt=1)]
    neighbours: Literal["zero_out", "replace"]


class ScheduleSection(Section):
    """When a tick closes: after records, at a public clock, or dense first and sparse later."""

    every: Annotated[int, Field(ge=1)] | None = None
    interval: Annotated[float, Field(gt=0)] | None = None
    clock: str | None = None
    start: Annotated[int, Field(ge=1)] | None = None
    ticks_per_doubling: Annotated[int, Field(ge=1)] | None = None
    publish_every: Annotated[int, Field(ge=0)] | None = None
    horizon: Annotated[int, Field(ge=1)] | None = None
    records: Annotated[int, Field(ge=1)] | None = None
    tick_records: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> "ScheduleSection":
        if self.tick_records is not None and self.interval is None:
            raise ValueError(
                "tick_records bounds the records of a clock's ticks; ticks by count have every"
            )
        if (self.every is None) == (self.interval is None):
            raise ValueError(
                "give either every = N (records per tick) or interval = SECONDS (public clock)"
            )
        if self.start is not None and (self.every is None or self.start > self.every):
            raise ValueError(
                "start = N makes the first ticks shorter; it needs every, and at most that value"
            )
        if self.clock is not None and self.interval is None:
            raise ValueError("clock names the time column of an interval schedule; give interval")
        if self.horizon is not None and self.records is not None:
            raise ValueError("give horizon (in ticks) or records (in records), not both")
        if self.records is not None and self.every is None:
            raise ValueError(
                "records needs a schedule by count; with a clock give horizon in ticks"
            )
        return self


class BatchSection(Section):
    """A batch problem instead of a stream: solved once, on a public number of records."""

    records: Annotated[int, Field(ge=1)]
    loss: str | dict[str, Any] = "squared"
    constraint: str | dict[str, Any] = "l2"
    radius: Annotated[float, Field(gt=0)] = 1.0
    ridge: Annotated[float, Field(ge=0)] = 0.0
    gradient_clip: Annotated[float, Field(gt=0)] | None = None
    solver: str | dict[str, Any] = "auto"


class LearnerSection(Section):
    """Which learner, and its public parameters; those depend on its name."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str = "PrivIncReg1"

    @property
    def options(self) -> dict[str, Any]:
        """The parameters besides the name."""
        return dict(self.model_extra or {})


class OutputSection(Section):
    """What a run leaves besides the releases."""

    report: bool = True


class Config(Section):
    """A whole configuration file."""

    columns: Annotated[dict[str, ColumnSection], Field(min_length=1)]
    targets: dict[str, TargetSection] = Field(default_factory=dict[str, TargetSection])
    privacy: PrivacySection
    schedule: ScheduleSection | None = None
    batch: BatchSection | None = None
    source: SourceSection = SourceSection()
    record: RecordSection = RecordSection()
    unit: UnitSection = UnitSection()
    learner: LearnerSection = LearnerSection()
    output: OutputSection = OutputSection()

    @model_validator(mode="after")
    def _consistent(self) -> "Config":
        if (self.schedule is None) == (self.batch is None):
            raise ValueError(
                "write [schedule] with every = N (records per tick) or interval = SECONDS for a "
                "stream, or [batch] with records = N for a problem that is solved once"
            )
        both = sorted(set(self.columns) & set(self.targets))
        if both:
            raise ValueError(f"{both[0]!r} is declared as a column and as a target")
        return self


def load_config(path: Path) -> Config:
    """Read and check a configuration file.

    Raises:
        ConfigurationError: with one line per mistake, each naming its key.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path}: is not UTF-8 text") from None
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: is not valid TOML: {error}") from None
    except (ValueError, RecursionError):  # an integer of thousands of digits, say
        raise ConfigurationError(f"{path}: is not valid TOML: it cannot be read") from None
    return parse_config(tables, name=str(path))


def parse_config(tables: Mapping[str, Any], *, name: str) -> Config:
    """Check configuration tables that were read already."""
    if found := next(_enormous(tables), None):
        raise ConfigurationError(f"{name}: {found}: is beyond 2**53; write a smaller number")
    try:
        return Config.model_validate(tables)
    except ValidationError as error:
        lines = [_explain(dict(item)) for item in error.errors(include_url=False)]
        raise ConfigurationError("; ".join(f"{name}: {line}" for line in lines)) from None


def _enormous(tables: Mapping[str, Any], place: str = "") -> Iterator[str]:
    """Keys with integers that no float holds; categories and labels, in lists, are texts."""
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from _enormous(cast("Mapping[str, Any]", value), f"{place}{key}.")
        elif isinstance(value, int) and abs(value) > 1 << 53:
            yield f"{place}{key}"


def _explain(item: Mapping[str, Any]) -> str:
    location = cast("tuple[str | int, ...]", item["loc"])
    return explain_mistake(item, section="", known=_known_keys(location[:-1]))


def explain_mistake(item: Mapping[str, Any], *, section: str, known: Iterable[str]) -> str:
    """One mistake that validation found: the key, what was received, what to write instead."""
    location = cast("tuple[str | int, ...]", item["loc"])
    parts = [section, *(str(part) for part in location)]
    key = ".".join(part for part in parts if part) or "file"
    kind = str(item["type"])
    if kind == "extra_forbidden":
        return f"{key}: unknown key{nearest(str(location[-1]), known)}"
    if kind == "missing":
        return f"{key}: is missing; {_REMEDIES.get(key, 'it has no default')}"
    message = str(item["msg"]).removeprefix("Value error, ")
    value = item.get("input")
    shown = f" (received {value!r})" if isinstance(value, int | float | str) else ""
    return f"{key}: {message[0].lower()}{message[1:]}{shown}"


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint at the nearest known words, or the list of all."""
    known = sorted(known)
    close = difflib.get_close_matches(word.lower(), [item.lower() for item in known], cutoff=0.5)
    if close:
        likeness = [difflib.SequenceMatcher(None, item, word.lower()).ratio() for item in close]
        best = {item for item, like in zip(close, likeness, strict=True) if like == likeness[0]}
        words = [repr(item) for item in known if item.lower() in best]
        return f"; did you mean {' or '.join(words)}?"
    return f"; known: {', '.join(known)}" if known else ""


_REMEDIES = {
    "privacy": "write [privacy] with epsilon, delta and neighbours",
    "privacy.epsilon": "privacy has no default; write for instance epsilon = 1.0",
    "privacy.delta": "privacy has no default; write for instance delta = 1e-6",
    "privacy.neighbours": 'write neighbours = "zero_out" or "replace"',
    "columns": "declare each feature with its public bounds, as [columns.NAME]",
    "targets": "declare the number to predict with its public bounds, as [targets.NAME]",
}


def _known_keys(location: tuple[str | int, ...]) -> list[str]:
    model: type[BaseModel] = Config
    for part in location:
        if model is ColumnSection or model is TargetSection:
            break
        if part not in model.model_fields:
            continue
        annotation = model.model_fields[str(part)].annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            model = annotation
        elif part == "columns":
            model = ColumnSection
        elif part == "targets":
            model = TargetSection
        elif part == "schedule":
            model = ScheduleSection
        elif part == "batch":
            model = BatchSection
    return list(model.model_fields)
