"""What commands print: one JSON object, or text for people."""

import json
import sys
from collections.abc import Mapping, Sequence


def print_json(value: Mapping[str, object]) -> None:
    """One object on standard output."""
    sys.stdout.write(json.dumps(value, allow_nan=False) + "\n")


def print_text(*lines: str) -> None:
    """Lines on standard output."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Aligned columns; the last one is not padded."""
    table = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    for row in table:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        print_text("  ".join(cells).rstrip())
