"""Laws of admission: whatever the floats, rows are integers in the ball, record by record."""

import itertools
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from dpstream.domain.batch import GRID
from dpstream.domain.column import Categorical, Numeric
from dpstream.domain.domain import Domain
from dpstream.domain.target import IntervalTarget
from dpstream.randomness.public import public_generator

FLOATS = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True)
# Coordinates near the sphere, where rounding decides.
NEAR = st.floats(-1.5, 1.5)

BOUNDED = Domain(
    [Numeric("x1", -2.0, 3.0), Numeric("x2", -1e-30, 1e30), Numeric("x3", 0.0, 1e-30)],
    [IntervalTarget("y1", -5.0, 5.0), IntervalTarget("y2", 0.0, 1e20)],
    norm_bound=0.75,
)
MIXED = Domain(
    [Numeric("x1"), Numeric("x2", -1.0, 1.0), Numeric("x3")],
    [IntervalTarget("y1", -1.0, 1.0), IntervalTarget("y2", -1.0, 1.0)],
    norm_bound=1e-30,
)
VECTORS = Domain.vectors(3, norm_bound=1.0, target_bound=1.0, target_count=2)
LARGEST = Domain.vectors(
    3, norm_bound=1.0, target_bound=1.0, target_count=2, record_bound="max", intercept=True
)
DOMAINS = st.sampled_from([BOUNDED, MIXED, VECTORS, LARGEST])


def integer_norms(part: np.ndarray) -> list[int]:
    return [sum(int(q) ** 2 for q in row) for row in part]


@settings(deadline=None, max_examples=150)
@given(
    DOMAINS,
    arrays(
        np.float64,
        array_shapes(min_dims=1, max_dims=1, max_side=6).map(lambda s: (*s, 5)),
        elements=st.one_of(FLOATS, NEAR),
    ),
)
def test_admission_never_raises_and_the_integer_norm_always_holds(domain, matrix):
    batch = domain.admit(matrix)
    assert np.array_equal(batch.rows, np.rint(batch.rows))
    assert max(integer_norms(batch.features)) <= GRID**2
    assert max(integer_norms(batch.targets)) <= GRID**2
    assert np.array_equal(batch.null, ~np.isfinite(matrix).all(axis=1))
    assert not batch.rows[batch.null].any()
    assert (batch.rows[~batch.null, 0] == GRID).all()


@settings(deadline=None, max_examples=60)
@given(
    DOMAINS,
    arrays(np.float64, (7, 5), elements=st.one_of(FLOATS, NEAR)),
    st.lists(st.integers(0, 7), max_size=4),
    st.permutations(range(7)),
)
def test_a_record_is_admitted_alike_in_every_batch_and_order(domain, matrix, cuts, order):
    whole = domain.admit(matrix).rows
    edges = [0, *sorted(cuts), 7]
    parts = [domain.admit(matrix[a:b]).rows for a, b in itertools.pairwise(edges)]
    assert np.concatenate(parts).tobytes() == whole.tobytes()
    assert domain.admit(matrix[list(order)]).rows.tobytes() == whole[list(order)].tobytes()
    assert domain.admit(np.asfortranarray(matrix)).rows.tobytes() == whole.tobytes()
    assert domain.admit(np.repeat(matrix, 2, axis=1)[:, ::2]).rows.tobytes() == whole.tobytes()


@settings(deadline=None, max_examples=100)
@given(arrays(np.float64, (4, 5), elements=st.floats(-1e6, 1e6)))
def test_rounding_moves_a_record_by_less_than_a_grid_step_per_coordinate(matrix):
    batch = VECTORS.admit(matrix)
    norms = np.linalg.norm(matrix[:, :3], axis=1, keepdims=True)
    clipped = matrix[:, :3] / np.maximum(norms, 1.0)
    assert np.abs(batch.scaled_features - clipped).max() <= 1.001 / GRID


@settings(deadline=None, max_examples=100)
@given(
    st.lists(
        st.one_of(
            st.none(),
            st.text(max_size=6),
            st.integers(),
            FLOATS,
            st.booleans(),
            st.binary(max_size=3),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_a_category_may_hold_anything_and_is_read_cell_by_cell(values):
    domain = Domain([Categorical("c", ["a", "1", "True", "nan"])], intercept=False)
    whole = domain.admit({"c": values}).rows
    alone = np.concatenate([domain.admit({"c": [value]}).rows for value in values])
    assert whole.tobytes() == alone.tobytes()


def test_clipping_does_not_turn_the_record_or_bias_it():
    # Many records outside the ball: the clipped directions agree, and truncation's pull towards
    # zero stays below one grid step per coordinate.
    generator = public_generator(5)
    matrix = generator.normal(size=(4000, 3)) * 10.0 ** generator.integers(0, 300, (4000, 1))
    matrix = np.column_stack([matrix, np.zeros((4000, 2))])
    rows = VECTORS.admit(matrix).scaled_features
    peaks = np.abs(matrix[:, :3]).max(axis=1, keepdims=True)
    inner = matrix[:, :3] / peaks
    norms = np.linalg.norm(inner, axis=1, keepdims=True)
    outside = (norms * peaks)[:, 0] > 1.0
    np.testing.assert_allclose(rows[outside], (inner / norms)[outside], atol=1.001 / GRID)
    assert outside.sum() > 3900


def test_wide_rows_on_the_sphere_stay_inside():
    generator = public_generator(6)
    for width in (1, 2, 7, 90, 1000):
        domain = Domain.vectors(width, norm_bound=1.0)
        matrix = generator.normal(size=(200, width))
        matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
        spikes = np.full((1, width), 1.0 / math.sqrt(width))
        batch = domain.admit(np.concatenate([matrix, matrix * (1 + 2.0**-30), spikes]))
        assert max(integer_norms(batch.features)) <= GRID**2
        assert np.abs(batch.scaled_features[:200] - matrix).max() <= 1.001 / GRID
