"""What the catalogue says of one part."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """The question a part answers."""

    MECHANISM = "mechanism"
    STRATEGY = "strategy"
    SET = "set"
    LOSS = "loss"
    SOLVER = "solver"
    LEARNER = "learner"


class Status(Enum):
    """Whether a part may be a default."""

    PROVED = "proved"
    EXPERIMENTAL = "experimental"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the catalogue.

    Attributes:
        name: unique name; for classes, the class's own.
        kind: the question it answers.
        target: where it lives, as ``module:attribute``.
        source: paper and section, or the literature it comes from.
        summary: one line: what it does and when to take it.
        guarantee: what its output keeps secret; empty for parts that never see data.
        horizon: ``"known"``, ``"none"`` (runs for ever) or empty.
        memory: vectors it holds, in words.
        status: proved or experimental.
    """

    name: str
    kind: Kind
    target: str
    source: str
    summary: str
    guarantee: str = ""
    horizon: str = ""
    memory: str = ""
    status: Status = Status.PROVED

    @property
    def module(self) -> str:
        """The module's dotted name."""
        return self.target.partition(":")[0]

    @property
    def attribute(self) -> str:
        """The class or function inside the module."""
        return self.target.partition(":")[2]

    def to_json(self) -> Mapping[str, str]:
        """The entry as plain text fields."""
        return {
            "name": self.name,
            "kind": self.kind.value,
            "target": self.target,
            "source": self.source,
            "summary": self.summary,
            "guarantee": self.guarantee,
            "horizon": self.horizon,
            "memory": self.memory,
            "status": self.status.value,
        }
