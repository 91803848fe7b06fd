"""What an experiment says of a paper: claims with their verdicts, and pictures as files.

An experiment is a function that takes ``out`` and, if it reads data, ``data``, and returns
JSON-ready figures. These keys of the result are shown on the page of all experiments:

``claims``: verdicts made by ``claim``; ``pictures``: names of SVG files in ``out``, made by
``keep_picture``; ``full_data``: how to run it on the full original data; ``page``: its own page.
"""

from pathlib import Path
from typing import Any

from dpstream.errors import StoreError


def claim(
    name: str,
    *,
    expected: str,
    measured: float | str,
    held: bool | None,
    theirs: float | str | None = None,
) -> dict[str, Any]:
    """One thing a paper or a theory says, beside what was measured.

    Args:
        name: what is compared, with the paper's number and figure or section.
        expected: the shape or level that theory gives, with its tolerance.
        measured: what this run found.
        held: whether it is as expected; None if this run cannot tell.
        theirs: what the paper prints, where it prints a figure.
    """
    return {
        "name": name,
        "theirs": theirs,
        "expected": expected,
        "measured": measured,
        "held": None if held is None else bool(held),
    }


def keep_picture(out: Path, name: str, svg: str) -> str:
    """Write an SVG picture into the folder of results.

    Returns:
        Its file name, for the key ``pictures``.

    Raises:
        StoreError: if it cannot be written.
    """
    path = out / f"{name}.svg"
    try:
        out.mkdir(parents=True, exist_ok=True)
        path.write_text(svg, encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{path} cannot be written ({error.strerror})") from None
    return path.name
