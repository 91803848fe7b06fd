"""How many records a source has: about, for showing the time left, and against a limit.

Where ticks are counted the number of records is public; where they follow a clock nobody asks.
"""

import gzip
import zlib
from pathlib import Path

from dpstream.connectors.location import STANDARD_INPUT, Format, files_at, format_at
from dpstream.connectors.opening import open_source
from dpstream.connectors.parquet import parquet_rows
from dpstream.errors import ConfigurationError, SourceError

_SAMPLE_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 20


def estimated_records(location: str, format_: Format | None) -> int | None:
    """An estimate from file sizes and the lines at the beginning; None where there is none."""
    if location == STANDARD_INPUT:
        return None
    try:
        chosen = format_ or format_at(location)
        if chosen == "parquet":
            return None
        return sum(_lines(path) for path in files_at(location, chosen))
    except (ConfigurationError, SourceError, OSError, EOFError):
        # Whatever is wrong with the source is said when it is read.
        return None


def has_more_records(location: str, format_: Format | None, limit: int) -> bool:
    """Whether a source surely has more than ``limit`` records; reads it, but no value of it.

    False where that cannot be told before it is read: standard input, or a source that breaks.
    """
    if location == STANDARD_INPUT:
        return False
    try:
        chosen = format_ or format_at(location)
        files = files_at(location, chosen)
        if not all(path.is_file() for path in files):
            return False
        if chosen == "parquet":
            return parquet_rows(files) > limit
        if sum(_line_ends(path) for path in files) < limit:
            return False
        # Lines may be blank, headers or parts of quoted values: count what is really there.
        records = 0
        for chunk in open_source(location, format_=chosen).chunks(0):
            records += chunk.length
            if records > limit:
                return True
    except (ConfigurationError, SourceError, OSError, EOFError, zlib.error):
        # Whatever is wrong with the source is said when it is read.
        return False
    return False


def _line_ends(path: Path) -> int:
    opened = gzip.open if path.suffix.casefold() == ".gz" else open
    with opened(path, "rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(_BLOCK_BYTES), b""))


def _lines(path: Path) -> int:
    if path.suffix == ".gz":
        with path.open("rb") as file:
            file.seek(-4, 2)
            size = int.from_bytes(file.read(4), "little")  # modulo 2^32: an estimate
        with gzip.open(path, "rb") as text:
            head = text.read(_SAMPLE_BYTES)
    else:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(_SAMPLE_BYTES)
    lines = head.count(b"\n")
    return 0 if not lines else round(size * lines / (head.rfind(b"\n") + 1))
