"""The ten most likely mistakes with every public function: what people are told.

The table is ``mistakes_python.toml``; its first lines say how to read it.
"""

import builtins
import tomllib
from pathlib import Path

import pytest
from mistake_names import mistake_names

import dpstream
import dpstream.errors
import dpstream.estimators
import dpstream.saved

TABLE: dict[str, list[list[str]]] = tomllib.loads(
    Path(__file__).with_name("mistakes_python.toml").read_text(encoding="utf-8")
)
ROWS = [
    pytest.param(*row[:2], row[2:], id=f"{function}-{place}")
    for function, rows in TABLE.items()
    for place, row in enumerate(rows)
]

LEAST = 10
LONGEST = 700

NOT_CALLED = {"DpstreamError", "Release"}
"""What people meet and never make: the root of our errors, and what a session hands out."""


def error_class(name: str) -> type[Exception]:
    found = getattr(dpstream.errors, name, None) or getattr(builtins, name)
    assert issubclass(found, Exception)
    return found


@pytest.mark.parametrize(("call", "error", "says"), ROWS)
@pytest.mark.filterwarnings("ignore")
def test_a_mistake_is_told_with_its_remedy(
    call: str, error: str, says: list[str], tmp_path: Path
) -> None:
    names = mistake_names(tmp_path)
    with pytest.raises(error_class(error)) as told:
        exec(call, names)
    message = str(told.value)
    for part in says:
        assert part in message, message
    assert len(message) < LONGEST, message
    assert "seven hundred" not in message  # a record's own word
    # Told on purpose: not by whatever happened to break further down.
    assert told.value.__suppress_context__ or told.value.__context__ is None


def test_every_public_function_has_ten_mistakes_that_differ() -> None:
    public = {*dpstream.__all__, *dpstream.estimators.__all__, *dpstream.saved.__all__}
    assert set(TABLE) == public - NOT_CALLED
    assert min(len(rows) for rows in TABLE.values()) >= LEAST
    calls = [row[0] for rows in TABLE.values() for row in rows]
    assert len(set(calls)) == len(calls)
    assert all(part for rows in TABLE.values() for row in rows for part in row[2:])
    assert all(len(row) >= 3 for rows in TABLE.values() for row in rows)
