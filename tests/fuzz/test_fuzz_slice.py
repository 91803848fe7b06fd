"""A deterministic slice of the fuzzing that ``make fuzz`` does at length."""

from itertools import islice

import numpy as np
import pytest
from fuzz_draw import MARK
from fuzz_target import TARGETS, Broken, bounded, cases, finite, only
from hypothesis import given, settings
from hypothesis import strategies as st

from dpstream.domain.batch import GRID, Batch
from dpstream.errors import SchemaError

SLICE = 150


@pytest.mark.parametrize("name", TARGETS)
def test_random_cases_keep_every_promise(name: str) -> None:
    for case in islice(cases(name, seed=1), SLICE):
        TARGETS[name](case)


@pytest.mark.parametrize("name", TARGETS)
def test_hypothesis_finds_no_broken_promise(name: str) -> None:
    @settings(max_examples=25, derandomize=True, database=None, deadline=None)
    @given(st.binary(max_size=400))
    def check(case: bytes) -> None:
        TARGETS[name](case)

    check()


FOUND = {
    "release_line": [
        b"\x02\x00\x00\x05\x04\x0d",
        b'\x00{"format":1,"value":NaN}',
        b"\x00" + b"[" * 100_000,
        b'\x00{"format":[1]}',
    ],
    "state_bytes": [
        b"\x00dpstate1\x02\0\0\0\0\0\0\0{}",
        b'\x00dpstate1\x40\0\0\0\0\0\0\0{"position":{},"arrays":[{"dtype":"<f8","shape":[1e9,1e9]}]}',
        b"\x00dpstate1\xff\xff\0\0\0\0\0\0" + b"[" * 65_000,
    ],
    "released_model": [b"\x00" + b'{"a":' * 100_000, b'\x00{"value":[]}', b'\x00{"value":7}'],
    # The number of levels, as a whole number near 2**63: a shift by so much takes all memory.
    "configuration": [b"t(ihgt\xeb\xea\xff\xff"],
    "text_records": [b"\x00\x01\x00\x00" + b"[" * 100_000, b"\x00\x00\x00\x00\xff\xfe,,\n\0"],
}
"""Cases that once broke a promise, or stand for a kind of input that might."""


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_stays_mended(name: str) -> None:
    for case in FOUND[name]:
        TARGETS[name](case)


def test_the_judges_can_fail() -> None:
    with pytest.raises(Broken, match="secret"), only(SchemaError):
        raise SchemaError(f"line 3 holds {MARK}")
    private = ValueError(MARK)
    with pytest.raises(Broken, match="secret"), only(SchemaError):
        raise SchemaError("line 3 cannot be read") from private
    with only(SchemaError):
        raise SchemaError("line 3 cannot be read") from None
    with pytest.raises(KeyError), only(SchemaError):
        raise KeyError("not ours")
    assert not finite({"a": [1.0, (float("nan"),)]})
    assert finite({"a": [1.0, ("nan", 3)]})
    for row in ([GRID, GRID + 1.0], [GRID, 0.5], [1.0, 0.0], [0.0, 1.0], [GRID, np.nan]):
        with pytest.raises(Broken):
            bounded(Batch(np.array([row], np.float64), 1))
    bounded(Batch(np.array([[GRID, -GRID], [0, 0]], np.float64), 1))
