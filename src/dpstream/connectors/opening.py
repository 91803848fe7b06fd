"""From a place and a format to a source."""

from collections.abc import Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING

from dpstream.connectors.delimited import Delimited
from dpstream.connectors.json_lines import JsonLines
from dpstream.connectors.location import STANDARD_INPUT, Format, format_at, require_chunk_rows
from dpstream.connectors.parquet import ParquetSource
from dpstream.connectors.text_source import CHUNK_ROWS, TextSource
from dpstream.domain.batch import BLOCK_ROWS
from dpstream.errors import ConfigurationError, require_kind

if TYPE_CHECKING:
    # For its name alone: importing the engine at run time would load scipy.
    from dpstream.engine.ports import Source


def open_source(
    location: str | PathLike[str],
    *,
    format_: Format | None = None,
    columns: Sequence[str] | None = None,
    chunk_rows: int | None = None,
    patience: float | None = None,
) -> "Source":
    """The source at a file, a folder or standard input (``"-"``).

    Args:
        location: where it is.
        format_: csv, jsonl or parquet; by default what the names of the files end in.
        columns: the only columns that are needed, for formats that can leave others unread.
        chunk_rows: at most this many records per chunk; by default what suits the format.
        patience: seconds of silence on standard input after which an empty chunk is handed out.

    Raises:
        SourceError: if there is nothing there.
        ConfigurationError: if the format cannot be told.
    """
    require_kind(location, (str, PathLike), "location", "name a file, a folder, or '-'")
    location = fspath(location)
    if not location:
        raise ConfigurationError("location is an empty text; name a file, a folder, or '-'")
    if chunk_rows is not None:
        require_chunk_rows(chunk_rows)
    if patience is not None:
        require_kind(patience, (int, float), "patience", "give seconds")
        if not patience > 0:
            raise ConfigurationError(f"patience is {patience}; give seconds, above 0")
    if format_ is None:
        if location == STANDARD_INPUT:
            raise ConfigurationError(
                "standard input has no file name; give the format: csv, jsonl or parquet (in a "
                'configuration: [source] format = "csv")'
            )
        format_ = format_at(location)
    match format_:
        case "csv" | "jsonl":
            rows = Delimited() if format_ == "csv" else JsonLines()
            return TextSource(
                location, rows, chunk_rows=chunk_rows or CHUNK_ROWS, patience=patience
            )
        case "parquet":
            return ParquetSource(location, columns=columns, chunk_rows=chunk_rows or BLOCK_ROWS)
        case _:
            raise ConfigurationError(
                f"source format is {format_!r}; it must be csv, jsonl or parquet"
            )
