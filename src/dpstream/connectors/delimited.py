"""Comma-separated values: every value is text, columns are named by the first line."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpstream.connectors.line_feed import LineFeed, Pause
from dpstream.connectors.location import Format
from dpstream.connectors.text_source import Pack, Row
from dpstream.errors import SourceError


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

    def open(self, feed: LineFeed) -> tuple[Pack, Iterator[Row | Pause]]:
        """Begin a file with its header.

        Raises:
            SourceError: if a line is not a row, or has another number of fields than the header.
        """
        tabs = feed.origin.casefold().endswith((".tsv", ".tsv.gz"))
        delimiter = self.delimiter or ("\t" if tabs else ",")
        reader = csv.reader(feed, delimiter=delimiter, strict=True)
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

        return pack, _rows(feed, reader, len(header))


def _rows(feed: LineFeed, reader: Iterator[list[str]], width: int) -> Iterator[Row | Pause]:
    while True:
        if feed.live:
            yield from feed.pauses()
        line = feed.line + 1
        try:
            fields = next(reader, None)
        except csv.Error:
            raise SourceError(f"line {line} of {feed.origin} is not a well-formed row") from None
        if fields is None:
            return
        if not fields:
            continue
        if len(fields) != width:
            raise SourceError(
                f"line {line} of {feed.origin} does not have the header's number of fields, {width}"
            )
        yield Row(line, fields)
