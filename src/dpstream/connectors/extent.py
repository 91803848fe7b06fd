"""About how many records a source has: for showing the time left, and for nothing else."""

import gzip
from pathlib import Path

from dpstream.connectors.location import STANDARD_INPUT, Format, files_at, format_at
from dpstream.errors import SourceError

_SAMPLE_BYTES = 1 << 16


def estimated_records(location: str, format_: Format | None) -> int | None:
    """An estimate from file sizes and the lines at the beginning; None where there is none."""
    if location == STANDARD_INPUT:
        return None
    try:
        chosen = format_ or format_at(location)
        if chosen == "parquet":
            return None
        return sum(_lines(path) for path in files_at(location, chosen))
    except (SourceError, OSError, EOFError):
        # Whatever is wrong with the source is said when it is read.
        return None


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
