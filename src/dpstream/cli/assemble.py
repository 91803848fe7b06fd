"""From a checked configuration to a stream and its source."""

from pathlib import Path
from typing import Any

from dpstream.cli.config import Config
from dpstream.cli.declaration import assemble_schedule
from dpstream.cli.learner import assemble_learner
from dpstream.connectors.location import STANDARD_INPUT, Format, require_readable
from dpstream.connectors.opening import open_source
from dpstream.engine.ports import Source
from dpstream.engine.stream import Stream
from dpstream.errors import ConfigurationError

_LONGEST_WAIT = 1.0
"""Seconds by which a tick may close late on standard input."""


def assemble_stream(config: Config, *, insecure_seed: int | None = None) -> Stream[Any]:
    """The whole public declaration of a configuration's stream; no data is read."""
    return Stream(
        learner=assemble_learner(config),
        schedule=assemble_schedule(config),
        insecure_seed=insecure_seed,
    )


def assemble_source(config: Config, *, folder: Path, input_path: str | None) -> Source:
    """The source to read: the command line's, else the configuration's, beside its file.

    Raises:
        SourceError: if there is nothing to read; nothing was begun for it.
    """
    format_: Format | None = config.source.format
    location = source_location(config, folder=folder, input_path=input_path)
    require_readable(location, format_)
    return open_source(location, format_=format_, patience=_patience(config))


def _patience(config: Config) -> float | None:
    """Seconds of silence after which the time of day is looked at; None where it decides nothing.

    Ticks that closed only as records come would tell when they came.
    """
    schedule = config.schedule
    if schedule is None or schedule.interval is None or schedule.clock is not None:
        return None
    return min(_LONGEST_WAIT, schedule.interval)


def source_location(config: Config, *, folder: Path, input_path: str | None) -> str:
    """Where the records are, as the command line or the configuration says."""
    if input_path is not None:
        return input_path
    if config.source.path is None:
        raise ConfigurationError(
            "no source: give --input FILE (or - for standard input), or [source] path"
        )
    location = config.source.path
    return location if location == STANDARD_INPUT else str(folder / location)
