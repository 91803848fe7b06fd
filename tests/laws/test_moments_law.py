"""Laws of exact moments: the same integers for every batching, order and block."""

import hashlib

import numpy as np
import pytest

from dpstream.domain.batch import BLOCK_ROWS, GRID, Batch
from dpstream.domain.domain import Domain
from dpstream.domain.lattice import ExactVector
from dpstream.domain.moments import (
    MOMENT_EXPONENT,
    MomentAccumulator,
    packed_positions,
    packed_size,
    unpack,
)
from dpstream.randomness.public import public_generator


def digest(vector: ExactVector) -> str:
    assert vector.exponent == MOMENT_EXPONENT == -40
    return hashlib.sha256(vector.high.tobytes() + vector.low.tobytes()).hexdigest()


def integers(vector: ExactVector) -> list[int]:
    return [(int(high) << 32) + int(low) for high, low in zip(vector.high, vector.low, strict=True)]


def batch_of(count: int, dimension: int, seed: int) -> Batch:
    generator = public_generator(seed)
    matrix = generator.normal(size=(count, dimension + 2)) / np.sqrt(dimension)
    matrix[generator.uniform(size=count) < 0.05] = np.nan
    domain = Domain.vectors(dimension, norm_bound=1.0, target_bound=1.0, target_count=2)
    return domain.admit(matrix)


def test_the_sum_is_the_integer_sum():
    batch = batch_of(300, 4, seed=1)
    accumulator = MomentAccumulator(batch.rows.shape[1])
    accumulator.add(batch)
    rows = batch.rows.astype(np.int64).astype(object)
    expected = rows.T @ rows
    first, second = packed_positions(7)
    assert integers(accumulator.take()) == [
        expected[i, j] for i, j in zip(first.tolist(), second.tolist(), strict=True)
    ]


def test_twelve_permutations_and_chunkings_give_one_digest():
    batch = batch_of(30_000, 5, seed=2)
    seen = set()
    generator = public_generator(3)
    for trial in range(12):
        rows = batch.rows[generator.permutation(len(batch))] if trial else batch.rows
        accumulator = MomentAccumulator(rows.shape[1])
        start = 0
        while start < len(rows):
            stop = start + int(generator.choice([1, 7, 1000, BLOCK_ROWS, 3 * BLOCK_ROWS]))
            accumulator.add_rows(rows[start:stop])
            start = stop
        seen.add(digest(accumulator.take()))
    assert len(seen) == 1


def test_sums_of_ticks_add_up_to_the_sum_and_the_state_can_be_taken_up_anywhere():
    batch = batch_of(12_000, 3, seed=4)
    width = batch.rows.shape[1]
    whole = MomentAccumulator(width)
    whole.add(batch)
    total = ExactVector.zeros(packed_size(width), MOMENT_EXPONENT)
    accumulator = MomentAccumulator(width)
    for start in range(0, 12_000, 750):
        accumulator.add(batch.slice(start, start + 300))
        accumulator = MomentAccumulator.restore(width, accumulator.snapshot())
        accumulator.add(batch.slice(start + 300, start + 750))
        total.add(accumulator.take())
        assert not any(integers(accumulator.take()))
    assert digest(total) == digest(whole.take())


def test_a_snapshot_is_canonical_and_leaves_the_sum_alone():
    batch = batch_of(500, 3, seed=5)
    width = batch.rows.shape[1]
    one, two = MomentAccumulator(width), MomentAccumulator(width)
    one.add(batch)
    for start in range(0, 500, 50):
        two.add(batch.slice(start, start + 50))
        two.snapshot()
    for name, array in one.snapshot().items():
        assert array.tobytes() == two.snapshot()[name].tobytes()
    assert digest(one.take()) == digest(two.take())


def test_the_block_is_as_long_as_exactness_allows():
    # The largest possible products, an odd one among them: exact through 8192 rows a block, and
    # a float sum over four blocks at once is not.
    rows = np.full((4 * BLOCK_ROWS, 1), float(GRID))
    rows[0, 0] = GRID - 1
    exact = sum(int(row) ** 2 for row in rows[:, 0])
    accumulator = MomentAccumulator(1)
    accumulator.add_rows(rows)
    assert integers(accumulator.take()) == [exact]
    assert float(rows[:, 0] @ rows[:, 0]) != exact
    assert BLOCK_ROWS * GRID**2 == 2**53


def test_null_records_add_nothing():
    batch = batch_of(100, 3, seed=6)
    width = batch.rows.shape[1]
    with_null, without = MomentAccumulator(width), MomentAccumulator(width)
    with_null.add(batch)
    without.add_rows(np.ascontiguousarray(batch.rows[~batch.null]))
    assert 0 < batch.null.sum() < 100
    taken = with_null.take()
    assert integers(taken)[0] == int((~batch.null).sum()) * GRID**2
    assert digest(taken) == digest(without.take())


def test_empty_batches_and_wrong_widths():
    accumulator = MomentAccumulator(4)
    accumulator.add(Batch.empty(2, 1))
    assert not any(integers(accumulator.take()))
    with pytest.raises(ValueError, match="width"):
        accumulator.add(Batch.empty(3, 1))


def test_unpack_restores_the_symmetric_matrix():
    matrix = np.arange(25.0).reshape(5, 5)
    matrix = matrix + matrix.T
    first, second = packed_positions(5)
    np.testing.assert_array_equal(unpack(matrix[first, second], 5), matrix)
    assert packed_size(5) == 15
