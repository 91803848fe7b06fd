"""Parquet: a file, a folder of files, or standard input."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dpstream.connectors.location import STANDARD_INPUT, files_at, readable, too_short
from dpstream.domain.batch import BLOCK_ROWS, RawChunk
from dpstream.errors import ConfigurationError, SourceError


class ParquetSource:
    """The rows of a file, of a folder's files in the order of their names, or of standard input.

    Row groups before the offset are not read. Parquet begins to be readable at its end: standard
    input is held in memory as a whole, and never written anywhere.
    """

    def __init__(
        self,
        location: str,
        *,
        columns: Sequence[str] | None = None,
        chunk_rows: int = BLOCK_ROWS,
    ) -> None:
        """Name the source; nothing is opened yet.

        Args:
            location: a file, a folder, or ``"-"`` for standard input.
            columns: the only columns to read; None for all.
            chunk_rows: at most this many records per chunk.
        """
        if chunk_rows < 1:
            raise ConfigurationError(f"chunk_rows is {chunk_rows}; it must be at least 1")
        self._location = location
        self._columns = None if columns is None else set(columns)
        self._chunk_rows = chunk_rows

    @property
    def name(self) -> str:
        """Its public name."""
        return "standard input" if self._location == STANDARD_INPUT else self._location

    def chunks(self, offset: int) -> Iterator[RawChunk]:
        """The records from ``offset`` on; see ``engine.ports.Source``.

        Raises:
            SourceError: if it cannot be read, or ends before ``offset``.
        """
        position = 0
        files: Sequence[Path | None] = (
            [None] if self._location == STANDARD_INPUT else files_at(self._location, "parquet")
        )
        for path in files:
            origin = self.name if path is None else str(path)
            for table in self._tables(path, origin, max(0, offset - position)):
                if isinstance(table, int):
                    position += table
                    continue
                yield RawChunk(data=table, offset=position, length=table.num_rows, origin=origin)
                position += table.num_rows
        if position < offset:
            raise too_short(self.name)

    def _tables(self, path: Path | None, origin: str, skip: int) -> Iterator[Any]:
        """First the number of rows left out, then tables."""
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise SourceError(
                f"source {origin} is Parquet, which needs pyarrow: pip install 'dpstream[parquet]'"
            ) from None
        try:
            with (
                readable(origin),
                pyarrow.parquet.ParquetFile(
                    pyarrow.BufferReader(sys.stdin.buffer.read()) if path is None else path
                ) as file,
            ):
                groups = list(range(file.num_row_groups))
                skipped = 0
                while groups and skipped + file.metadata.row_group(groups[0]).num_rows <= skip:
                    skipped += file.metadata.row_group(groups.pop(0)).num_rows
                wanted = [
                    name
                    for name in file.schema_arrow.names
                    if self._columns is None or name in self._columns
                ]
                rest = skip - skipped if groups else 0
                yield skipped + rest
                for batch in file.iter_batches(self._chunk_rows, row_groups=groups, columns=wanted):
                    kept = batch.slice(rest)
                    rest = max(0, rest - batch.num_rows)
                    if kept.num_rows:
                        yield pyarrow.Table.from_batches([kept])
        except pyarrow.ArrowException:
            raise SourceError(f"source {origin} cannot be read: it is not intact Parquet") from None


def parquet_rows(files: Sequence[Path]) -> int:
    """How many rows the files say they have; 0 where they cannot be read."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return 0
    try:
        return sum(int(pyarrow.parquet.read_metadata(path).num_rows) for path in files)
    except pyarrow.ArrowException:
        return 0
