"""Records of text files, in chunks that can be resumed from any record."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from dpstream.connectors.line_feed import LineFeed, Pause
from dpstream.connectors.location import STANDARD_INPUT, Format, files_at, too_short
from dpstream.domain.batch import BLOCK_ROWS, RawChunk
from dpstream.errors import ConfigurationError, SourceError

Pack = Callable[[list[Any]], Any]
"""From rows to what ``Domain.admit`` takes."""


class RowFormat(Protocol):
    """How rows stand in lines."""

    @property
    def format(self) -> Format:
        """Its name."""
        ...

    def open(self, feed: LineFeed) -> tuple[Pack, Iterator["Row | Pause"]]:
        """Begin a file: how its rows are packed, and the rows.

        Raises:
            SourceError: naming the line, and nothing else, if it is not a row.
        """
        ...


@dataclass(frozen=True, slots=True)
class Row:
    """One row.

    Attributes:
        line: where it begins in its file, from 1.
        values: in the format's own form.
    """

    line: int
    values: Any


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
        chunk_rows: int = BLOCK_ROWS,
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
                pack, rows = self._format.open(feed)
                kept: list[Row] = []
                problem: SourceError | None = None
                while True:
                    try:
                        row = next(rows, None)
                    except SourceError as error:
                        row, problem = None, error
                    if isinstance(row, Row):
                        position += 1
                        if position > offset:
                            kept.append(row)
                            if len(kept) == self._chunk_rows:
                                yield _chunk(kept, pack, position, feed)
                                kept = []
                        continue
                    if kept or (row is Pause.SILENCE and position >= offset):
                        yield _chunk(kept, pack, position, feed)
                        kept = []
                    if problem is not None:
                        raise problem
                    if row is None:
                        break
        if position < offset:
            raise too_short(self.name)


def _chunk(rows: list[Row], pack: Pack, position: int, feed: LineFeed) -> RawChunk:
    return RawChunk(
        data=pack([row.values for row in rows]),
        offset=position - len(rows),
        length=len(rows),
        lines=[row.line for row in rows],
        origin=feed.origin,
    )
