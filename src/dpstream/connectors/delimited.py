"""Comma-separated values: every value is text, columns are named by the first line."""

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpstream.connectors.line_feed import LineFeed
from dpstream.connectors.location import Format
from dpstream.connectors.text_source import Run
from dpstream.errors import SourceError

if TYPE_CHECKING:
    from _csv import Reader


@dataclass(frozen=True)
class Delimited:
    """Rows of fields between delimiters, quoted as RFC 4180 says; blank lines are no rows.

    Attributes:
        delimiter: between fields; None for a tab in .tsv files and a comma elsewhere.
        columns: names of the columns if the files have no header line.
    """

    delimiter: str | None = None
    columns: Sequence[str] | None = None

    @property
    def format(self) -> Format:
        """Its name."""
        return "csv"

    def open(
        self, feed: LineFeed, limit: int
    ) -> tuple[Callable[[list[list[str]]], dict[str, Sequence[str]]], Iterator[Run | None]]:
        """Begin a file with its header; see ``RowFormat.open``.

        Raises:
            SourceError: if a line is not a row, or has another number of fields than the header.
        """
        tabs = feed.origin.casefold().endswith((".tsv", ".tsv.gz"))
        delimiter = self.delimiter or ("\t" if tabs else ",")
        reader = csv.reader(feed.lines(), delimiter=delimiter, strict=True)
        if self.columns is not None:
            header = list(self.columns)
        else:
            try:
                header = [name.strip() for name in next(reader, [])]
            except csv.Error:
                raise SourceError(f"line 1 of {feed.origin} is not a well-formed header") from None
        twice = {name for name in header if header.count(name) > 1}
        if twice:
            raise SourceError(f"the header of {feed.origin} names column {min(twice)!r} twice")

        def pack(rows: list[list[str]]) -> dict[str, Sequence[str]]:
            columns: list[Sequence[str]] = list(zip(*rows, strict=True)) or [()] * len(header)
            return dict(zip(header, columns, strict=True))

        return pack, _runs(feed, reader, len(header), limit)


def _runs(feed: LineFeed, reader: "Reader", width: int, limit: int) -> Iterator[Run | None]:
    line = reader.line_num + 1
    problem = ""
    ended = False
    while not ended:
        yield from feed.silences()
        rows: list[list[str]] = []
        lines: list[int] = []
        ended = True
        try:
            for fields in reader:
                if fields:
                    if len(fields) != width:
                        problem = f"does not have the header's number of fields, {width}"
                        break
                    rows.append(fields)
                    lines.append(line)
                line = reader.line_num + 1
                if len(rows) == limit or feed.idle:
                    ended = False
                    break
        except csv.Error:
            problem = "is not a well-formed row"
        if rows:
            yield Run(rows, lines)
    if problem:
        raise SourceError(f"line {line} of {feed.origin} {problem}")
