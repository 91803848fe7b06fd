"""Where a source's files are, and errors that name them in one line."""

import os
import zlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from dpstream.errors import ConfigurationError, SourceError

Format = Literal["csv", "jsonl", "parquet"]

STANDARD_INPUT = "-"

SUFFIXES: dict[Format, tuple[str, ...]] = {
    "csv": (".csv", ".tsv", ".csv.gz", ".tsv.gz"),
    "jsonl": (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz"),
    "parquet": (".parquet", ".pq"),
}


def has_suffix(path: Path, suffixes: Sequence[str]) -> bool:
    """Whether a file's name ends in one of the suffixes, in any case."""
    return path.name.casefold().endswith(tuple(suffixes))


def files_at(location: str, format_: Format) -> list[Path]:
    """The files of a location: itself, or a folder's files of the format in the order of names.

    Files whose names begin with a dot or an underscore are left out.

    Raises:
        SourceError: if there is nothing to read.
    """
    path = Path(location)
    with readable(location):
        if path.is_dir():
            files = sorted(
                (
                    file
                    for file in path.iterdir()
                    if has_suffix(file, SUFFIXES[format_]) and file.name[0] not in "._"
                ),
                key=lambda file: file.name,
            )
            if not files:
                raise SourceError(
                    f"folder {location} has no files that end in {' or '.join(SUFFIXES[format_])}"
                )
            return files
        path.stat()
    return [path]


def format_at(location: str) -> Format:
    """The format of a location, by the endings of its files' names.

    Raises:
        SourceError: if there is nothing to read.
        ConfigurationError: if the endings tell nothing, or different things.
    """
    path = Path(location)
    with readable(location):
        folder = path.is_dir()
        names = list(path.iterdir()) if folder else [path]
    found: list[Format] = [
        format_
        for format_, suffixes in SUFFIXES.items()
        if any(has_suffix(name, suffixes) and name.name[0] not in "._" for name in names)
    ]
    if len(found) == 1:
        return found[0]
    with readable(location):
        path.stat()
    if folder:
        what = "holds files of several formats" if found else "holds no files of a known type"
    else:
        what = "does not end in a known file type"
    raise ConfigurationError(f"source {location} {what}; give the format: csv, jsonl or parquet")


@contextmanager
def readable(origin: str) -> Generator[None]:
    """Turn failures of the operating system into one line about ``origin``."""
    try:
        yield
    except FileNotFoundError:
        raise SourceError(
            f"source {origin} does not exist, or vanished while it was read"
        ) from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise SourceError(f"source {origin} cannot be read: {reason}") from None
    except (EOFError, zlib.error):
        raise SourceError(f"source {origin} cannot be read: its compression is damaged") from None


def require_readable(location: str, format_: Format | None) -> None:
    """Refuse a location with nothing that may be read, before anything is begun for it.

    Raises:
        SourceError: naming what is missing or closed.
    """
    if location == STANDARD_INPUT:
        return
    for file in files_at(location, format_ or format_at(location)):
        if not os.access(file, os.R_OK):
            raise SourceError(f"source {file} cannot be read: check its permissions")


def too_short(origin: str) -> SourceError:
    """The error for a source that ends before the place to go on from."""
    return SourceError(
        f"source {origin} has fewer records than were read from it before; give the same source, "
        "with new records after the old ones"
    )


def require_chunk_rows(rows: object) -> None:
    """Refuse a chunk that is no whole number of records.

    Raises:
        ConfigurationError: if it is not, or is below 1.
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise ConfigurationError(
            f"chunk_rows is {rows!r}; it must be a whole number of records, at least 1"
        )
