"""JSON lines: one object per line."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from dpstream.connectors.line_feed import LineFeed
from dpstream.connectors.location import Format
from dpstream.connectors.text_source import Run
from dpstream.errors import SourceError


@dataclass(frozen=True)
class JsonLines:
    """Objects whose members are columns, null where a value is missing; blank lines are no rows."""

    @property
    def format(self) -> Format:
        """Its name."""
        return "jsonl"

    def open(
        self, feed: LineFeed, limit: int
    ) -> tuple[Callable[[list[Any]], list[Any]], Iterator[Run | None]]:
        """Begin a file; see ``RowFormat.open``.

        Raises:
            SourceError: if a line is not one JSON object.
        """
        return list, _runs(feed, limit)


def _runs(feed: LineFeed, limit: int) -> Iterator[Run | None]:
    numbered = enumerate(feed.lines(), 1)
    line = 0
    problem = False
    ended = False
    while not ended:
        yield from feed.silences()
        rows: list[Any] = []
        lines: list[int] = []
        ended = True
        for line, text in numbered:
            if not text.isspace():
                row = _object(text)
                if row is None:
                    problem = True
                    break
                rows.append(row)
                lines.append(line)
            if len(rows) == limit or feed.idle:
                ended = False
                break
        if rows:
            yield Run(rows, lines)
    if problem:
        raise SourceError(f"line {line} of {feed.origin} is not one JSON object")


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
