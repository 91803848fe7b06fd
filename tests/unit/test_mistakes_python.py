"""The ten most likely mistakes with every public function: what people are told.

The table is ``mistakes_python.toml``; its first lines say how to read it.
"""

import builtins
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from mistake_names import mistake_names

import dpstream.errors

TABLE: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("mistakes_python.toml").read_text(encoding="utf-8")
)["mistake"]

LEAST = 10
LONGEST = 600


def error_class(name: str) -> type[Exception]:
    found = getattr(dpstream.errors, name, None) or getattr(builtins, name)
    assert issubclass(found, Exception)
    return found


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row['function']}: {row['what']}")
def test_a_mistake_is_told_with_its_remedy(row: dict[str, Any], tmp_path: Path) -> None:
    names = mistake_names(tmp_path)
    with pytest.raises(error_class(row["error"])) as told:
        exec(row["call"], names)
    message = str(told.value)
    for part in row["says"]:
        assert part in message, message
    assert len(message) < LONGEST, message
    # Told on purpose: not by whatever happened to break further down.
    assert told.value.__suppress_context__ or told.value.__context__ is None


def test_every_function_of_the_table_has_ten_mistakes_that_differ() -> None:
    counts = Counter(row["function"] for row in TABLE)
    assert counts
    assert min(counts.values()) >= LEAST, counts
    assert len({(row["function"], row["what"]) for row in TABLE}) == len(TABLE)
    assert len({row["call"] for row in TABLE}) == len(TABLE)
    assert all(row["says"] for row in TABLE)
