"""A source whose first records can be looked at before a stream is begun for them."""

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from dpstream.domain.batch import RawChunk

if TYPE_CHECKING:
    # For its name alone: importing the engine at run time would load scipy.
    from dpstream.engine.ports import Source


class PeekedSource:
    """Another source, read no further than a look at its first chunk needs.

    What was looked at is handed out again to the first reader from record 0, so that sources
    which can be read once alone, like standard input, lose nothing.
    """

    def __init__(self, source: "Source") -> None:
        """Name the source; nothing is read yet."""
        self._source = source
        self._first: RawChunk | None = None
        self._rest: Iterator[RawChunk] | None = None

    @property
    def name(self) -> str:
        """The source's public name."""
        return self._source.name

    def first(self) -> RawChunk | None:
        """The first chunk; None if the source has no records.

        Raises:
            SourceError: if it cannot be read.
        """
        if self._rest is None:
            self._rest = iter(self._source.chunks(0))
            self._first = next(self._rest, None)
        return self._first

    def chunks(self, offset: int) -> Iterator[RawChunk]:
        """The records from ``offset`` on; see ``engine.ports.Source``."""
        if offset or self._rest is None:
            return self._source.chunks(offset)
        first, rest = self._first, self._rest
        self._first = self._rest = None
        return iter(()) if first is None else chain((first,), rest)
