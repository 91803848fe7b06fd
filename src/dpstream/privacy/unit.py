"""Whose contribution is hidden, and what it is hidden against."""

from dataclasses import dataclass
from enum import Enum
from typing import Literal

from dpstream.errors import ConfigurationError


class Neighbours(Enum):
    """Which two streams must look alike."""

    ZERO_OUT = "zero_out"
    """One record becomes the null record; its tick stays (streaming add/remove)."""

    REPLACE = "replace"
    """One record becomes any other admissible record, the null record included."""


@dataclass(frozen=True, kw_only=True)
class Unit:
    """The unit of protection.

    Attributes:
        kind: ``"record"``, or ``"user"``: all the records that carry one user identifier.
        cap: at most this many records of a unit count; those beyond it become null.
        column: the column with the user's identifier; None for records.
        period: what the cap counts over: the stream's ``"life"`` or one ``"window"``.
    """

    kind: Literal["record", "user"] = "record"
    cap: int = 1
    column: str | None = None
    period: Literal["life", "window"] = "life"

    def __post_init__(self) -> None:
        if self.cap < 1:
            raise ConfigurationError(
                f"unit cap is {self.cap}; a unit must be allowed at least one record"
            )
        if self.kind == "record" and (self.cap != 1 or self.column is not None):
            raise ConfigurationError(
                "a record unit has cap 1 and no column; use kind='user' to cap records per user"
            )
        if self.kind == "user" and not self.column:
            raise ConfigurationError("a user unit needs the column that identifies the user")
