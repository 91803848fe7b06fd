"""Sources: the same records from every format, from any offset; clear refusals."""

import gzip
import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

from dpstream.connectors.delimited import Delimited
from dpstream.connectors.memory import MemorySource
from dpstream.connectors.opening import open_source
from dpstream.connectors.parquet import ParquetSource
from dpstream.connectors.peeked import PeekedSource
from dpstream.connectors.text_source import TextSource
from dpstream.domain.column import Categorical, Numeric
from dpstream.domain.domain import Domain
from dpstream.domain.target import IntervalTarget
from dpstream.errors import ConfigurationError, SchemaError, SourceError
from dpstream.randomness.public import public_generator

COUNT = 53
DOMAIN = Domain(
    [Numeric("a", -2, 2), Categorical("c", ["UA", "AA, Inc."])], IntervalTarget("y", 0, 60)
)


def frame() -> pd.DataFrame:
    generator = public_generator(0)
    return pd.DataFrame(
        {
            "a": np.round(generator.normal(size=COUNT), 3),
            "extra": 'not "needed"\nat all',
            "c": generator.choice(["UA", "AA, Inc.", "ZZ"], COUNT),
            "y": np.arange(COUNT),
        }
    )


def write(folder: Path, format_: str) -> Path:
    data = frame()
    path = folder / f"data.{format_}"
    if format_ == "csv":
        data.to_csv(path, index=False)
    elif format_ == "csv.gz":
        path.write_bytes(gzip.compress(data.to_csv(index=False).encode()))
    elif format_ == "tsv":
        data.to_csv(path, index=False, sep="\t")
    elif format_ == "jsonl":
        data.to_json(path, orient="records", lines=True)
    else:
        data.to_parquet(path, row_group_size=10)
    return path


def admitted(source, offset: int = 0) -> bytes:
    chunks = list(source.chunks(offset))
    position = offset
    for chunk in chunks:
        assert chunk.offset == position
        assert chunk.lines is None or len(chunk.lines) == chunk.length
        position += chunk.length
    return b"".join(DOMAIN.admit(chunk).rows.tobytes() for chunk in chunks)


FORMATS = ["csv", "csv.gz", "tsv", "jsonl", "parquet"]


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("chunk_rows", [1, 7, None])
def test_every_format_reads_the_same_records_from_every_offset(tmp_path, format_, chunk_rows):
    path = write(tmp_path, format_)
    whole = DOMAIN.admit(frame()).rows
    source = open_source(str(path), chunk_rows=chunk_rows)
    for offset in (0, 1, 9, 10, 11, 52, 53):
        assert admitted(source, offset) == whole[offset:].tobytes()
    with pytest.raises(SourceError, match="fewer records"):
        list(source.chunks(COUNT + 1))


@pytest.mark.parametrize("format_", FORMATS)
def test_a_folder_reads_its_files_in_the_order_of_names(tmp_path, format_):
    suffix = format_
    single = tmp_path / "single"
    single.mkdir()
    path = write(single, format_)
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("b", "a", "_skip", ".skip"):
        (folder / f"{name}.{suffix}").write_bytes(path.read_bytes())
    (folder / "notes.txt").write_text("not data")
    whole = DOMAIN.admit(frame()).rows
    source = open_source(str(folder), chunk_rows=8)
    twice = np.concatenate([whole, whole])
    for offset in (0, 5, COUNT - 1, COUNT, COUNT + 20, 2 * COUNT):
        assert admitted(source, offset) == twice[offset:].tobytes()
    assert next(source.chunks(0)).origin.endswith(f"a.{suffix}")


def standard_input(monkeypatch, content: bytes):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize("format_", ["csv", "jsonl", "parquet"])
def test_standard_input(tmp_path, monkeypatch, format_):
    content = write(tmp_path, format_).read_bytes()
    whole = DOMAIN.admit(frame()).rows
    for offset in (0, 20):
        standard_input(monkeypatch, content)
        source = open_source("-", format_=format_, chunk_rows=8)
        assert source.name == "standard input"
        assert admitted(source, offset) == whole[offset:].tobytes()


def test_standard_input_that_is_no_parquet_is_one_line(monkeypatch):
    standard_input(monkeypatch, b"a,c,y\n1,secret,5\n")
    with pytest.raises(SourceError, match="standard input cannot be read") as refused:
        next(open_source("-", format_="parquet").chunks(0))
    assert "secret" not in str(refused.value)


def test_a_pipe_hands_out_what_has_come_and_tells_silence(monkeypatch):
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe, os.fdopen(writing, "wb", buffering=0) as feeder:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(pipe))
        chunks = open_source("-", format_="csv", patience=0.01).chunks(0)
        feeder.write(b"a,c,y\n1,UA,5\n2,UA,6\n3,U")
        first = next(chunks)
        assert (first.offset, first.length, list(first.lines or ())) == (0, 2, [2, 3])
        silent = next(chunks)
        assert (silent.offset, silent.length) == (2, 0)
        feeder.write(b"A,7\n")
        last = next(chunk for chunk in chunks if chunk.length)
        assert (last.offset, last.length, list(last.lines or ())) == (2, 1, [4])
        feeder.close()
        assert not [chunk for chunk in chunks if chunk.length]


def test_silence_is_told_before_the_header_too(monkeypatch):
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe, os.fdopen(writing, "wb", buffering=0) as feeder:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(pipe))
        chunks = open_source("-", format_="csv", patience=0.01).chunks(0)
        assert [(next(chunks).offset, next(chunks).length) for _ in range(2)] == [(0, 0), (0, 0)]
        feeder.write(b"a,c,y\n1,UA,5\n")
        first = next(chunk for chunk in chunks if chunk.length)
        assert (first.offset, first.length, list(first.lines or ())) == (0, 1, [2])
        feeder.close()
        assert not [chunk for chunk in chunks if chunk.length]


def lines_of(source) -> Iterator[int]:
    for chunk in source.chunks(0):
        yield from chunk.lines or ()


CORRUPT_CSV = [
    b"1,UA\n",
    b"1,UA,5,secret\n",
    b'"secret"x,UA,5\n',
    b'1,"secret,5\n',
    b"1,sec\rret,5\n",
    b"1," + b"s" * 200_000 + b",5\n",
]


@pytest.mark.parametrize("bad", CORRUPT_CSV)
@pytest.mark.parametrize("chunk_rows", [1, 100])
def test_a_corrupt_row_names_its_line_after_the_rows_before_it(tmp_path, bad, chunk_rows):
    path = tmp_path / "data.csv"
    path.write_bytes(b'a,c,y\n1,UA,5\n\n1,"U\nA",5\n' + bad)
    lines: list[int] = []
    with pytest.raises(SourceError) as caught:
        lines.extend(lines_of(open_source(str(path), chunk_rows=chunk_rows)))
    assert lines == [2, 4]
    assert f"line 6 of {path}" in str(caught.value)
    assert "sec" not in str(caught.value).replace(str(path), "")


@pytest.mark.parametrize(
    "bad", [b"{secret}\n", b"[1]\n", b"1\n", b"[" * 100_000 + b"\n", b'{"a": 1']
)
def test_a_corrupt_json_line_names_its_line_after_the_rows_before_it(tmp_path, bad):
    path = tmp_path / "data.jsonl"
    path.write_bytes(b'{"a": 1, "c": null, "y": NaN}\n \n{"a": 1, "c": "UA", "y": 5}\n' + bad)
    lines: list[int] = []
    with pytest.raises(SourceError, match=f"line 4 of {path}") as caught:
        lines.extend(lines_of(open_source(str(path))))
    assert lines == [1, 3]
    assert "secret" not in str(caught.value)


def test_a_bad_value_names_its_line_in_the_file(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text('a,c,y\n1,UA,5\n1,"U\n\nA",5\nhunter2,UA,5\n')
    with pytest.raises(SchemaError, match=f"line 6 of {path}: column 'a'") as caught:
        admitted(open_source(str(path)))
    assert "hunter2" not in str(caught.value)


def test_damaged_bytes_spoil_their_own_value_only(tmp_path):
    path = tmp_path / "data.csv"
    path.write_bytes(b"\xef\xbb\xbfa,c,y\r\n1,\xff\xfe,5\r\n1,UA,5")
    (chunk,) = open_source(str(path)).chunks(0)
    batch = DOMAIN.admit(chunk)
    assert batch.features[0, 2] > 0  # "other"
    assert batch.features[1, 2] == 0
    assert not batch.null.any()


def test_headers(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("1,UA,5\n")
    (chunk,) = TextSource(str(path), Delimited(columns=["a", "c", "y"])).chunks(0)
    assert len(DOMAIN.admit(chunk)) == 1
    path.write_text("a,a\n1,2\n")
    with pytest.raises(SourceError, match="'a' twice"):
        list(open_source(str(path)).chunks(0))
    path.write_text("a;c;y\n1;UA;5\n")
    (chunk,) = TextSource(str(path), Delimited(";")).chunks(0)
    assert len(DOMAIN.admit(chunk)) == 1
    path.write_text("")
    assert list(open_source(str(path)).chunks(0)) == []


def test_sources_that_cannot_be_read_say_so_in_one_line(tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    (mixed / "a.csv").touch()
    (mixed / "a.parquet").touch()
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(gzip.compress(b"a,c,y\n" + os.urandom(4000).hex().encode())[:-50])
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1" + b"\0" * 50 + b"PAR1")
    plain = tmp_path / "plain.csv.gz"
    plain.write_text("a,c,y\n")
    for location, format_ in [
        (tmp_path / "vanished.csv", None),
        (tmp_path / "vanished.parquet", None),
        (tmp_path / "vanished.jsonl", "jsonl"),
        (tmp_path / "unknown.xyz", None),
        (empty, "csv"),
        (empty, "parquet"),
        (cut, None),
        (plain, None),
        (broken, None),
        (mixed, "jsonl"),
    ]:
        with pytest.raises(SourceError) as caught:
            list(open_source(str(location), format_=format_).chunks(0))
        assert "\n" not in str(caught.value)
        assert str(location) in str(caught.value)


def test_a_format_that_cannot_be_told_is_a_wrong_declaration(tmp_path):
    (tmp_path / "unknown.xyz").touch()
    for folder, names in (("empty", ()), ("mixed", ("a.csv", "a.parquet"))):
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / name).touch()
    for name in ("unknown.xyz", "empty", "mixed"):
        with pytest.raises(ConfigurationError, match=f"{name}.*give the format") as caught:
            open_source(str(tmp_path / name))
        assert "\n" not in str(caught.value)
    with pytest.raises(ConfigurationError, match=r"standard input.*give the format"):
        open_source("-")
    with pytest.raises(ConfigurationError, match="'xml'"):
        open_source("a.xml", format_="xml")


def test_a_source_that_was_looked_at_hands_everything_out_once(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a\n" + "".join(f"{row}\n" for row in range(10)))

    def read(chunks):
        return [value for chunk in chunks for value in chunk.data["a"]]

    source = PeekedSource(open_source(str(path), chunk_rows=4))
    assert source.first().length == 4
    assert source.first().length == 4
    everything = [str(row) for row in range(10)]
    assert read(source.chunks(0)) == everything
    assert read(source.chunks(0)) == everything
    assert source.first().length == 4
    assert read(source.chunks(7)) == everything[7:]
    path.write_text("a\n")
    empty = PeekedSource(open_source(str(path)))
    assert empty.first() is None
    assert read(empty.chunks(0)) == []


def test_a_source_that_vanishes_while_it_is_read(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in "ab":
        (folder / f"{name}.jsonl").write_text(json.dumps({"a": 1, "c": "UA", "y": 2}) + "\n")
    chunks = open_source(str(folder)).chunks(0)
    assert next(chunks).length == 1
    (folder / "b.jsonl").unlink()
    with pytest.raises(SourceError, match="vanished"):
        next(chunks)


def test_parquet_without_pyarrow_names_the_remedy(tmp_path, monkeypatch):
    path = write(tmp_path, "parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SourceError, match=r"dpstream\[parquet\]"):
        list(ParquetSource(str(path)).chunks(0))


def test_parquet_reads_only_the_columns_asked_for(tmp_path):
    source = ParquetSource(str(write(tmp_path, "parquet")), columns=["y", "a", "c", "absent"])
    chunk = next(source.chunks(0))
    assert chunk.data.column_names == ["a", "c", "y"]


def test_parquet_with_missing_values_and_dictionaries(tmp_path):
    table = pa.table(
        {
            "a": [1, None, 2],
            "c": pa.array(["UA", None, "ZZ"]).dictionary_encode(),
            "y": [1.0, 2.0, None],
        }
    )
    path = tmp_path / "data.parquet"
    pyarrow.parquet.write_table(table, path)
    (chunk,) = open_source(str(path)).chunks(0)
    np.testing.assert_array_equal(DOMAIN.admit(chunk).null, [False, True, True])


@pytest.mark.parametrize(
    "form",
    [
        lambda data: data,
        pl.from_pandas,
        pa.Table.from_pandas,
        lambda data: data.to_dict("records"),
        lambda data: data.to_dict("list"),
        lambda data: {name: data[name].to_numpy() for name in data},
    ],
)
def test_memory_in_every_form(form):
    whole = DOMAIN.admit(frame()).rows
    source = MemorySource(form(frame()), chunk_rows=7, name="flights")
    for offset in (0, 7, 12, COUNT):
        assert admitted(source, offset) == whole[offset:].tobytes()
    assert source.name == "flights"
    with pytest.raises(SourceError, match="flights"):
        list(source.chunks(COUNT + 1))


def test_memory_with_targets_apart():
    domain = Domain.vectors(2, norm_bound=1.0, target_bound=1.0)
    matrix, target = np.full((10, 2), 0.5), np.linspace(-1, 1, 10)
    whole = domain.admit(matrix, target).rows
    for apart in (target, pd.Series(target), target.tolist()):
        chunks = MemorySource(matrix, apart, chunk_rows=4).chunks(3)
        rows = np.concatenate([domain.admit(chunk).rows for chunk in chunks])
        assert rows.tobytes() == whole[3:].tobytes()
    with pytest.raises(SchemaError, match="10 records and targets 3"):
        MemorySource(matrix, target[:3])
    with pytest.raises(SchemaError, match="generator"):
        MemorySource(row for row in matrix)


def test_chunks_hold_at_least_one_record():
    for make in (
        lambda: open_source("a.csv", chunk_rows=-1),
        lambda: open_source("a.parquet", chunk_rows=-1),
        lambda: MemorySource([], chunk_rows=0),
    ):
        with pytest.raises(ConfigurationError, match="chunk_rows"):
            make()
