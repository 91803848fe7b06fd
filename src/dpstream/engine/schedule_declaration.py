"""A schedule as configurations and stores write it down."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from dpstream.engine.clock_schedule import EveryInterval
from dpstream.engine.schedule import EveryRecords, Schedule, Thinning
from dpstream.errors import ConfigurationError

_KINDS: dict[str, tuple[str, ...]] = {
    "count": ("every", "start", "ticks_per_doubling", "publish_every"),
    "clock": ("interval", "clock", "publish_every"),
}


def schedule_from_json(options: Mapping[str, Any]) -> Schedule:
    """Read a schedule from a configuration or from ``describe``.

    ``{"every": n}`` ticks by count, ``{"every": n, "start": m}`` starts dense and thins out,
    ``{"interval": seconds}`` follows the time of day and ``"clock": column`` that column.

    Raises:
        ConfigurationError: naming the key at fault.
    """
    given = {key: value for key, value in options.items() if value is not None}
    known = sorted({key for keys in _KINDS.values() for key in keys})
    for key in given:
        if key not in known:
            close = get_close_matches(str(key), known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
            raise ConfigurationError(f"schedule: unknown key {key!r}; {hint}")
    if ("every" in given) == ("interval" in given):
        raise ConfigurationError(
            "schedule: give either every (records in a tick) or interval (seconds of a clock)"
        )
    kind = "count" if "every" in given else "clock"
    for key in given:
        if key not in _KINDS[kind]:
            raise ConfigurationError(f"schedule: {key} does not apply to ticks by {kind}")
    publish_every = given.get("publish_every", 1)
    if kind == "clock":
        seconds = given["interval"]
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise ConfigurationError(f"schedule: interval is {seconds!r}; give seconds")
        column = given.get("clock")
        return EveryInterval(
            seconds=float(seconds), time_column=column, publish_every=publish_every
        )
    if "start" in given:
        return Thinning(
            start=given["start"],
            every=given["every"],
            ticks_per_doubling=given.get("ticks_per_doubling", 1),
            publish_every=publish_every,
        )
    if "ticks_per_doubling" in given:
        raise ConfigurationError("schedule: ticks_per_doubling needs start")
    return EveryRecords(records=given["every"], publish_every=publish_every)
