"""Whose contribution is hidden, and what it is hidden against."""

from dataclasses import dataclass
from enum import Enum
from typing import Literal, NoReturn, get_args

from dpstream.errors import ConfigurationError


class Neighbours(Enum):
    """Which two streams must look alike: they differ in the records of one unit.

    Their places and their user's identifier are the same in both; see GUARANTEE.
    """

    ZERO_OUT = "zero_out"
    """The unit's records become null, as if they had said nothing; their ticks stay."""

    REPLACE = "replace"
    """They become any others, null ones included: stronger, and more noise."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        known = " or ".join(repr(item.value) for item in cls)
        raise ConfigurationError(f"neighbours are {value!r}; they must be {known}")


Kind = Literal["record", "user"]
Period = Literal["life", "window"]


@dataclass(frozen=True, kw_only=True)
class Unit:
    """Whose contribution is hidden: one record, or all records of one user.

    ``Unit()`` hides any one record. ``Unit(kind="user", column="patient", cap=20)`` hides all
    that a patient says, of whom the first 20 records count.

    Attributes:
        kind: ``"record"``, or ``"user"``: all the records that carry one user identifier.
        cap: at most this many records of a unit count; those beyond it become null.
        column: the column with the user's identifier; None for records.
        period: what the cap counts over: the stream's ``"life"`` or one ``"window"``.
    """

    kind: Kind = "record"
    cap: int = 1
    column: str | None = None
    period: Period = "life"

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("kind", self.kind, get_args(Kind)),
            ("period", self.period, get_args(Period)),
        ):
            if value not in choices:
                raise ConfigurationError(
                    f"unit {name} is {value!r}; it must be one of {', '.join(choices)}"
                )
        if isinstance(self.cap, bool) or not hasattr(self.cap, "__index__") or self.cap < 1:
            raise ConfigurationError(
                f"unit cap is {self.cap!r}; a unit must be allowed a whole number of records, "
                "at least one"
            )
        if self.kind == "record" and (
            self.cap != 1 or self.column is not None or self.period != "life"
        ):
            raise ConfigurationError(
                "a record unit has cap 1, no column and period 'life'; use kind='user' to cap "
                "records per user"
            )
        if self.kind == "user" and not (self.column and isinstance(self.column, str)):  # pyright: ignore[reportUnnecessaryIsInstance]  # JSON too
            raise ConfigurationError("a user unit needs the column that identifies the user")
