"""What a neighbouring record must not move: other records' identity, and the text of errors."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from dpstream.domain.domain import Domain
from dpstream.errors import SchemaError

DOMAIN = Domain.vectors(1, norm_bound=1.0)
BEYOND = 2**53 + 1
"""An identifier that float64 cannot tell from its neighbour."""


def as_text(identifier: bytes) -> bytes:
    return identifier.ljust(16, b"\0")


def frames(identifiers: Sequence[int | None]) -> Iterator[Any]:
    """The same identifiers in every kind of frame that has gaps of its own."""
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    columns = {"x1": [0.5] * len(identifiers), "who": identifiers}
    yield pandas.DataFrame(columns | {"who": pandas.array(identifiers, dtype="Int64")})
    yield polars.DataFrame(columns)
    yield pyarrow.table(columns)
    yield columns


def test_a_record_without_identifier_leaves_the_others_theirs():
    for frame in frames([BEYOND, None, 7]):
        batch = DOMAIN.admit(frame, unit_column="who", unit_hash=as_text)
        assert batch.units is not None
        assert batch.units[0].tobytes() == as_text(str(BEYOND).encode())
        assert batch.units[2].tobytes() == as_text(b"7")
        np.testing.assert_array_equal(batch.null, [False, True, False])


def test_floats_that_cannot_tell_identifiers_apart_are_refused_without_naming_one():
    with pytest.raises(SchemaError, match="identifier as a floating-point") as caught:
        DOMAIN.admit(
            {"x1": np.zeros(2), "who": np.array([7.0, float(BEYOND)])},
            unit_column="who",
            unit_hash=as_text,
        )
    assert str(2**53) not in str(caught.value)


def test_huge_integers_beside_a_gap_read_as_without_it():
    for frame in frames([1, 2, 3]):
        del frame  # skips the test if a kind of frame is not installed
    import pyarrow

    whole = DOMAIN.admit(pyarrow.table({"x1": [BEYOND, 0]}))
    gap = DOMAIN.admit(pyarrow.table({"x1": [BEYOND, None]}))
    np.testing.assert_array_equal(gap.rows[0], whole.rows[0])
    np.testing.assert_array_equal(gap.null, [False, True])


def test_a_frame_that_refuses_a_value_is_not_quoted():
    pyarrow = pytest.importorskip("pyarrow")
    secret = 1_577_836_800_123_456_789
    table = pyarrow.table({"x1": pyarrow.array([secret], pyarrow.timestamp("ns"))})
    with pytest.raises(SchemaError) as caught:
        DOMAIN.admit(table)
    assert str(secret) not in str(caught.value)
