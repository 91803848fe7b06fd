"""What admission answers to every form of data and every kind of bad value."""

import hashlib
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpstream.domain.batch import GRID, Batch, RawChunk
from dpstream.domain.column import Boolean, Categorical, Numeric
from dpstream.domain.domain import Domain
from dpstream.domain.target import IntervalTarget, LabelTarget
from dpstream.errors import ConfigurationError, SchemaError

DOMAIN = Domain(
    [Numeric("a", 0, 10), Boolean("b"), Categorical("c", ["x", "7"])],
    IntervalTarget("y", -1, 1),
)
COLUMNS = {
    "a": [1.0, 2.5, 10.0, 0.0],
    "b": [True, False, True, False],
    "c": ["x", "7", "unheard", "x"],
    "y": [0.5, -1.0, 1.0, 0.0],
}


def unit_hash(identifier: bytes) -> bytes:
    return hashlib.blake2b(identifier, digest_size=16, key=b"test").digest()


def rows_of(columns) -> list[dict]:
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


FORMS = {
    "mapping": lambda columns: columns,
    "text": lambda columns: {name: [str(v) for v in cells] for name, cells in columns.items()},
    "rows": rows_of,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "arrays": lambda columns: {name: np.array(cells) for name, cells in columns.items()},
    "series": lambda columns: {name: pd.Series(cells) for name, cells in columns.items()},
    "objects": lambda columns: np.array(list(zip(*columns.values(), strict=True)), dtype=object),
    "lists": lambda columns: [list(row) for row in zip(*columns.values(), strict=True)],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_the_same_records_admits_the_same(form):
    expected = DOMAIN.admit(COLUMNS)
    batch = DOMAIN.admit(FORMS[form](COLUMNS))
    assert batch.rows.tobytes() == expected.rows.tobytes()
    assert not batch.null.any()
    np.testing.assert_array_equal(batch.features[:, 2] > 0, [False, True, False, False])
    np.testing.assert_array_equal(batch.features[:, 3] > 0, [False, False, True, False])


@pytest.mark.parametrize(
    "form", ["mapping", "rows", "pandas", "polars", "arrow", "series", "lists"]
)
@pytest.mark.parametrize("column", ["a", "b", "c", "y"])
def test_a_missing_value_makes_the_record_null_and_keeps_its_place(form, column):
    columns = {name: list(cells) for name, cells in COLUMNS.items()}
    columns[column][1] = None
    batch = DOMAIN.admit(FORMS[form](columns))
    np.testing.assert_array_equal(batch.null, [False, True, False, False])
    assert not batch.rows[1].any()
    others = [0, 2, 3]
    np.testing.assert_array_equal(batch.rows[others], DOMAIN.admit(COLUMNS).rows[others])


@pytest.mark.parametrize("column", ["a", "y"])
@pytest.mark.parametrize(
    "value", [np.nan, np.inf, -np.inf, 10**400, "", "  ", "NA", "nan", "inf", "null"]
)
def test_not_finite_numbers_make_the_record_null(column, value):
    columns = {name: list(cells) for name, cells in COLUMNS.items()}
    columns[column][2] = value
    np.testing.assert_array_equal(DOMAIN.admit(columns).null, [False, False, True, False])


def test_nullable_integers_of_pandas_and_polars_may_be_missing():
    domain = Domain([Numeric("a", 0, 10)])
    for frame in (
        pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64")}),
        pl.DataFrame({"a": [1, None, 3]}),
        pa.table({"a": [1, None, 3]}),
    ):
        batch = domain.admit(frame)
        np.testing.assert_array_equal(batch.null, [False, True, False])
        assert batch.features[0, 0] < batch.features[2, 0]


def test_values_outside_their_bounds_are_clipped_to_them():
    inside = {"a": [0, 10], "b": [0, 1], "c": ["x", "x"], "y": [-1, 1]}
    outside = {"a": [-1e9, 10.001], "b": [-5, 2], "c": ["x", "x"], "y": [-7, 1e300]}
    assert DOMAIN.admit(outside).rows.tobytes() == DOMAIN.admit(inside).rows.tobytes()


def test_extra_columns_are_ignored_and_order_does_not_matter():
    extended = {"z": ["secret"] * 4, **dict(reversed(COLUMNS.items()))}
    assert DOMAIN.admit(extended).rows.tobytes() == DOMAIN.admit(COLUMNS).rows.tobytes()
    frame = pd.DataFrame(extended)
    assert DOMAIN.admit(frame).rows.tobytes() == DOMAIN.admit(COLUMNS).rows.tobytes()


@pytest.mark.parametrize("form", ["mapping", "pandas", "polars", "arrow"])
def test_missing_columns_are_named(form):
    columns = {name: cells for name, cells in COLUMNS.items() if name not in ("a", "y")}
    with pytest.raises(SchemaError, match="no column 'a', 'y'"):
        DOMAIN.admit(FORMS[form](columns))


def test_an_absent_member_of_one_record_is_named_with_its_record():
    rows = rows_of(COLUMNS)
    del rows[2]["b"]
    with pytest.raises(SchemaError, match=r"record 3 .*'b' is absent"):
        DOMAIN.admit(rows)


@pytest.mark.parametrize("width", [0, 2, 4])
def test_a_matrix_of_the_wrong_width_is_refused_with_the_declared_columns(width):
    with pytest.raises(SchemaError, match=rf"{width} columns.*3: 'x1', 'x2', 'y1'"):
        Domain.vectors(2, norm_bound=1.0, target_bound=1.0).admit(np.zeros((5, width)))


def test_arrays_of_other_dimensions_and_ragged_rows_are_refused():
    domain = Domain.vectors(2, norm_bound=1.0)
    with pytest.raises(SchemaError, match="1 dimensions"):
        domain.admit(np.zeros(2))
    with pytest.raises(SchemaError):
        domain.admit([[1.0, 2.0], [1.0]])
    with pytest.raises(SchemaError, match="different lengths"):
        domain.admit({"x1": [1.0], "x2": [1.0, 2.0]})
    with pytest.raises(SchemaError, match="object"):
        domain.admit(object())
    with pytest.raises(SchemaError, match="int"):
        domain.admit({"x1": 3, "x2": 4})


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("a", "hunter2"),
        ("y", "hunter2"),
        ("b", "hunter2"),
        ("a", datetime(2013, 1, 1, tzinfo=UTC)),
        ("a", [1, 2]),
        ("b", {"hunter2": 1}),
    ],
)
def test_text_for_a_number_names_line_and_column_and_never_the_content(column, value):
    columns = {name: list(cells) for name, cells in COLUMNS.items()}
    columns[column][2] = value
    chunk = RawChunk(data=columns, offset=40, length=4, lines=[51, 52, 55, 56], origin="f.csv")
    with pytest.raises(SchemaError) as caught:
        DOMAIN.admit(chunk)
    message = str(caught.value)
    assert "line 55 of f.csv" in message
    assert repr(column) in message
    assert "hunter2" not in message
    assert "2013" not in message
    assert caught.value.__suppress_context__
    with pytest.raises(SchemaError, match=f"record 43 of f.csv: column '{column}'"):
        DOMAIN.admit(RawChunk(data=columns, offset=40, length=4, origin="f.csv"))


def test_dates_in_a_numeric_column_of_a_frame_are_refused():
    frame = pd.DataFrame({"a": pd.to_datetime(["2013-01-01"]), "b": [1], "c": ["x"], "y": [0.0]})
    with pytest.raises(SchemaError, match="'a'"):
        DOMAIN.admit(frame)


def test_odd_but_readable_values_are_read():
    columns = {
        "a": [" 2.5 ", Decimal("2.5"), np.float32(2.5), "25e-1"],
        "b": ["Yes", " TRUE", "1", 1.0],
        "c": [7, 7.0, "7", np.int64(7)],
        "y": ["0", 0, False, "-0.0"],
    }
    batch = DOMAIN.admit(columns)
    assert len({tuple(row) for row in batch.features.tolist()}) == 1
    assert not batch.null.any()
    assert batch.features[0, 2] > 0


def test_true_and_one_are_different_levels_in_every_order():
    domain = Domain([Categorical("c", ["reference", "1", "True"])])
    for values in ([1, True, 1.0, "1"], [True, 1, "1", 1.0]):
        features = domain.admit({"c": values}).features
        for value, row in zip(values, features, strict=True):
            assert (row[0] > 0) == (value is not True)
            assert (row[1] > 0) == (value is True)


def test_a_declared_category_may_look_like_a_missing_value():
    domain = Domain([Categorical("country", ["DE", "NA"])])
    batch = domain.admit({"country": ["NA", "", "DE", None, "nan"]})
    np.testing.assert_array_equal(batch.null, [False, True, False, True, True])
    assert batch.features[0, 0] == GRID


def test_integer_categories_of_an_array():
    domain = Domain([Categorical("m", [1, 2, 3])])
    batch = domain.admit({"m": np.array([3, 1, 9], dtype=np.int16)})
    np.testing.assert_array_equal(batch.features > 0, [[0, 1, 0], [0, 0, 0], [0, 0, 1]])


def test_two_labels_are_signs_and_an_unknown_label_is_null():
    domain = Domain([Boolean("b")], LabelTarget("y", ["no", "yes"]))
    batch = domain.admit({"b": [1] * 4, "y": ["no", "yes", "perhaps", None]})
    np.testing.assert_array_equal(batch.targets[:, 0], [-GRID, GRID, 0, 0])
    np.testing.assert_array_equal(batch.null, [False, False, True, True])


def test_more_labels_are_indicators():
    domain = Domain([Boolean("b")], LabelTarget("y", [0, 1, 2]))
    batch = domain.admit({"b": [1] * 4, "y": np.array([2, 0, 1, 3])})
    np.testing.assert_array_equal(
        batch.targets, np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 0]]) * GRID
    )
    np.testing.assert_array_equal(batch.null, [False, False, False, True])


@pytest.mark.parametrize(
    "empty",
    [
        [],
        {"a": [], "b": [], "c": [], "y": []},
        pd.DataFrame(COLUMNS).iloc[:0],
        pl.DataFrame(COLUMNS).head(0),
        pa.table(COLUMNS).slice(0, 0),
        np.zeros((0, 4)),
        RawChunk(data={}, offset=9, length=0),
    ],
)
def test_an_empty_batch_is_an_empty_batch(empty):
    batch = DOMAIN.admit(empty)
    assert len(batch) == 0
    assert batch.features.shape == (0, 4)
    assert batch.targets.shape == (0, 1)


def test_targets_may_come_apart():
    domain = Domain.vectors(2, norm_bound=1.0, target_bound=1.0)
    matrix, target = np.array([[0.1, 0.2], [0.3, 0.4]]), np.array([0.5, -0.5])
    expected = domain.admit(np.column_stack([matrix, target])).rows.tobytes()
    frame = pd.DataFrame(matrix, columns=["x1", "x2"])
    for data, apart in [
        (matrix, target),
        (matrix, target.tolist()),
        (matrix, target[:, None]),
        (matrix.astype(object), target),
        (matrix, pd.Series(target)),
        (matrix, pd.DataFrame({"y1": target})),
        (frame, pl.Series(target)),
        (matrix, {"y1": target}),
        (RawChunk(data=matrix, targets=target, offset=0, length=2), None),
    ]:
        assert domain.admit(data, apart).rows.tobytes() == expected
    for wrong in (target[:1], np.zeros((2, 2))):
        with pytest.raises(SchemaError):
            domain.admit(matrix, wrong)
    with pytest.raises(SchemaError, match="declares 2"):
        Domain.vectors(2, norm_bound=1.0, target_bound=1.0, target_count=2).admit(matrix, target)


def test_units_become_opaque_in_order_and_a_record_without_one_is_null():
    columns = {**COLUMNS, "user": ["u1", 12, None, 12.0]}
    batch = DOMAIN.admit(columns, unit_column="user", unit_hash=unit_hash)
    assert batch.units is not None
    identifiers = [unit.tobytes() for unit in batch.units]
    assert identifiers == [unit_hash(b"u1"), unit_hash(b"12"), bytes(16), unit_hash(b"12")]
    np.testing.assert_array_equal(batch.null, [False, False, True, False])
    part = batch.slice(1, 3)
    assert part.units is not None
    assert part.units[0].tobytes() == identifiers[1]
    with pytest.raises(ConfigurationError, match="user"):
        DOMAIN.admit(columns, unit_column="user")
    with pytest.raises(SchemaError, match="'user'"):
        DOMAIN.admit(COLUMNS, unit_column="user", unit_hash=unit_hash)
    with pytest.raises(SchemaError, match="'user'"):
        Domain.vectors(1, norm_bound=1.0).admit(
            np.ones((1, 1)), unit_column="user", unit_hash=unit_hash
        )
    with pytest.raises(ValueError, match="16"):
        DOMAIN.admit(columns, unit_column="user", unit_hash=lambda _: b"short")


@pytest.mark.parametrize(
    "times",
    [
        [0, 60.0, "120", "1970-01-01T00:03:00"],
        ["1970-01-01", "1970-01-01 00:01", "1970-01-01T00:02:00Z", "1970-01-01T01:03:00+01:00"],
        [date(1970, 1, 1), datetime(1970, 1, 1, 0, 1), datetime(1970, 1, 1, 0, 2, tzinfo=UTC), 180],
        np.array([0, 60, 120, 180], "datetime64[s]"),
        pd.Series(pd.to_datetime([0, 60, 120, 180], unit="s")),
    ],
)
def test_the_clock_reads_seconds_and_times(times):
    batch = DOMAIN.admit({**COLUMNS, "when": times}, time_column="when")
    assert batch.times is not None
    np.testing.assert_array_equal(batch.times, [0, 60, 120, 180])


@pytest.mark.parametrize("bad", [None, "hunter2", np.nan, np.inf, [1]])
def test_the_clock_is_public_and_cannot_be_missing(bad):
    columns = {**COLUMNS, "when": [0, bad, 2, 3]}
    with pytest.raises(SchemaError, match=r"record 2 .*'when'") as caught:
        DOMAIN.admit(columns, time_column="when")
    assert "hunter2" not in str(caught.value)


def test_nullify_keeps_places_and_leaves_the_original_alone():
    batch = DOMAIN.admit(COLUMNS)
    before = batch.rows.copy()
    capped = batch.nullify(np.array([False, True, False, False]))
    np.testing.assert_array_equal(capped.null, [False, True, False, False])
    np.testing.assert_array_equal(batch.rows, before)
    assert len(capped) == len(batch)
    assert batch.nullify(np.zeros(4, bool)) is batch


def test_a_batch_refuses_rows_that_blas_would_copy():
    with pytest.raises(ValueError, match="C-ordered"):
        Batch(np.zeros((3, 3), order="F"), 1)
