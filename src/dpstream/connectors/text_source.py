"""Records of text files, in chunks that can be resumed from any record."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from dpstream.connectors.line_feed import LineFeed
from dpstream.connectors.location import STANDARD_INPUT, Format, files_at, too_short
from dpstream.domain.batch import RawChunk
from dpstream.errors import ConfigurationError

CHUNK_ROWS = 1024
"""Text makes many small objects: chunks that stay in the processor's cache are read faster."""


@dataclass(frozen=True)
class Run:
    """Consecutive rows.

    Attributes:
        rows: in the format's own form.
        lines: where each begins in its file, from 1.
    """

    rows: list[Any]
    lines: list[int]


class RowFormat(Protocol):
    """How rows stand in lines."""

    @property
    def format(self) -> Format:
        """Its name."""
        ...

    def open(
        self, feed: LineFeed, limit: int
    ) -> tuple[Callable[[list[Any]], Any], Iterator[Run | None]]:
        """Begin a file.

        A run ends after ``limit`` rows, where the feed is idle, or before a line that is not a
        row; None stands for silence.

        Returns:
            From rows to what ``Domain.admit`` takes; and the runs.

        Raises:
            SourceError: naming the line, and nothing else, if it is not a row.
        """
        ...


class TextSource:
    """The rows of a file, of a folder's files in the order of their names, or of standard input.

    A row that cannot be read stops the source with an error that names its line and nothing of
    its content; the rows before it have been handed out.
    """

    def __init__(
        self,
        location: str,
        format_: RowFormat,
        *,
        chunk_rows: int = CHUNK_ROWS,
        patience: float | None = None,
    ) -> None:
        """Name the source; nothing is opened yet.

        Args:
            location: a file, a folder, or ``"-"`` for standard input.
            format_: how rows stand in lines.
            chunk_rows: at most this many records per chunk.
            patience: seconds of silence on standard input after which an empty chunk is handed
                out; None to wait for ever.
        """
        if chunk_rows < 1:
            raise ConfigurationError(f"chunk_rows is {chunk_rows}; it must be at least 1")
        self._location = location
        self._format = format_
        self._chunk_rows = chunk_rows
        self._patience = patience

    @property
    def name(self) -> str:
        """Its public name."""
        return "standard input" if self._location == STANDARD_INPUT else self._location

    def chunks(self, offset: int) -> Iterator[RawChunk]:
        """The records from ``offset`` on; see ``engine.ports.Source``.

        On standard input the first ``offset`` records are read and left out too: give the same
        input again.

        Raises:
            SourceError: if it cannot be read, or ends before ``offset``.
        """
        files: Sequence[Path | None] = (
            [None]
            if self._location == STANDARD_INPUT
            else files_at(self._location, self._format.format)
        )
        position = 0
        for path in files:
            with LineFeed(path, patience=self._patience) as feed:
                for _ in feed.silences():  # a header may be as late as the first record
                    if offset == 0:
                        yield RawChunk(data=(), offset=0, length=0, origin=feed.origin)
                pack, runs = self._format.open(feed, self._chunk_rows)
                for run in runs:
                    rows, lines = ([], []) if run is None else (run.rows, run.lines)
                    position += len(rows)
                    if position < offset or (rows and position == offset):
                        continue
                    late = max(0, len(rows) - (position - offset))
                    yield RawChunk(
                        data=pack(rows[late:]),
                        offset=position - len(rows) + late,
                        length=len(rows) - late,
                        lines=lines[late:],
                        origin=feed.origin,
                    )
        if position < offset:
            raise too_short(self.name)
