"""JSON lines: one object per line."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dpstream.connectors.line_feed import LineFeed, Pause
from dpstream.connectors.location import Format
from dpstream.connectors.text_source import Pack, Row
from dpstream.errors import SourceError


@dataclass(frozen=True)
class JsonLines:
    """Objects whose members are columns, null where a value is missing; blank lines are no rows."""

    @property
    def format(self) -> Format:
        """Its name."""
        return "jsonl"

    def open(self, feed: LineFeed) -> tuple[Pack, Iterator[Row | Pause]]:
        """Begin a file.

        Raises:
            SourceError: if a line is not one JSON object.
        """
        return _pack, _rows(feed)


def _pack(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return rows


def _rows(feed: LineFeed) -> Iterator[Row | Pause]:
    while True:
        if feed.live:
            yield from feed.pauses()
        text = next(feed, None)
        if text is None:
            return
        if text.isspace():
            continue
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict):
            raise SourceError(f"line {feed.line} of {feed.origin} is not one JSON object")
        yield Row(feed.line, values)
