"""The benchmarks' streams are what they say, and can be read again."""

from pathlib import Path

import numpy as np

from dpstream.bench.memory import CHUNK, SyntheticSource, trace
from dpstream.bench.moments import OUTSIDE, records


def test_made_up_records_are_the_same_from_every_offset() -> None:
    source = SyntheticSource(2 * CHUNK + 5)
    whole = np.concatenate([chunk.data for chunk in source.chunks(0)])
    assert len(whole) == 2 * CHUNK + 5
    for offset in (0, 7, CHUNK, CHUNK + 1):
        chunks = list(source.chunks(offset))
        assert chunks[0].offset == offset
        assert np.array_equal(np.concatenate([chunk.data for chunk in chunks]), whole[offset:])


def test_the_stated_share_of_rows_lies_outside_the_ball() -> None:
    rows = records(5, 4000)
    outside = np.linalg.norm(rows[:, :-1], axis=1) > 1.0
    assert abs(outside.mean() - OUTSIDE) < 0.01
    assert np.abs(rows[:, -1]).max() <= 1.0


def test_memory_is_read_along_the_stream(tmp_path: Path) -> None:
    found = trace(tmp_path, end=6 * CHUNK, warm=2 * CHUNK)
    assert list(found) == [2 * CHUNK, 4 * CHUNK, 6 * CHUNK]
    assert min(found.values()) > 1 << 20
