"""Public declarations of what a model predicts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from dpstream.domain.column import check_interval, check_levels, check_name
from dpstream.errors import ConfigurationError


@dataclass(frozen=True)
class IntervalTarget:
    """A number to predict, within public bounds; values outside are clipped to them.

    Attributes:
        name: the column.
        lower: the least value that counts.
        upper: the largest value that counts.
    """

    name: str
    lower: float
    upper: float

    def __post_init__(self) -> None:
        check_name(self.name, "target")
        check_interval(self.name, self.lower, self.upper)
        object.__setattr__(self, "lower", float(self.lower))
        object.__setattr__(self, "upper", float(self.upper))

    def to_json(self) -> dict[str, Any]:
        """Its public description."""
        return {"kind": "interval", "name": self.name, "lower": self.lower, "upper": self.upper}


@dataclass(frozen=True, init=False)
class LabelTarget:
    """A class to predict, of a public list; a record with any other label is null.

    Two labels make one coordinate, -1 for the first and +1 for the second; more make one
    indicator each.

    Attributes:
        name: the column.
        labels: the classes, at least two.
    """

    name: str
    labels: tuple[str, ...]

    def __init__(self, name: str, labels: Sequence[object]) -> None:
        check_name(name, "target")
        texts = check_levels(name, labels, "labels")
        if len(texts) < 2:
            raise ConfigurationError(
                f"target {name!r} declares {len(texts)} labels; list at least two"
            )
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "labels", texts)

    @property
    def width(self) -> int:
        """Number of coordinates of its encoding."""
        return 1 if len(self.labels) == 2 else len(self.labels)

    def to_json(self) -> dict[str, Any]:
        """Its public description."""
        return {"kind": "label", "name": self.name, "labels": list(self.labels)}


Target: TypeAlias = IntervalTarget | LabelTarget


def target_from_json(description: Mapping[str, Any]) -> Target:
    """The target of a public description.

    Raises:
        ConfigurationError: if the kind is not known.
    """
    match description.get("kind"):
        case "interval":
            return IntervalTarget(description["name"], description["lower"], description["upper"])
        case "label":
            return LabelTarget(description["name"], description["labels"])
        case kind:
            raise ConfigurationError(f"target kind is {kind!r}; known kinds: interval, label")
