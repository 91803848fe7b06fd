"""``dpstream init``: what it writes runs, and what it does not know it asks or refuses."""

import gzip
import io
import json
import os
import pty
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from command_line import call, one_line

from dpstream.cli.config import load_config
from dpstream.cli.init import parse_declared, parse_unit
from dpstream.cli.public_sample import rounded_outwards
from dpstream.errors import ConfigurationError

FLIGHTS = Path(__file__).parents[2] / "examples" / "flights"
REST = ("--unit", "record", "--epsilon", "1", "--every", "200")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with gzip.open(FLIGHTS / "flights.csv.gz", "rt", encoding="utf-8") as flights:
        lines = [next(flights) for _ in range(1201)]
    (tmp_path / "flights.csv").write_text("".join(lines))
    (tmp_path / "published.csv").write_text("".join(lines[:300]))
    return tmp_path


FLAGS = {
    "regression": (
        ("--target", "arr_delay=-60:240", "--column", "hour=0:24", "--column", "origin=EWR,JFK"),
        "linear",
    ),
    "labels": (("--target", "late=no,yes", "--column", "dep_delay=-30:240"), "scores"),
    "three-labels": (("--target", "origin=EWR,JFK,LGA", "--column", "hour=0:24"), "scores"),
    "means": (("--column", "dep_delay=-30:240", "--column", "late=boolean"), "sum"),
    "users": (
        ("--target", "arr_delay=-60:240", "--column", "hour=0:24", "--unit", "tail:20"),
        "linear",
    ),
    "records": (
        ("--target", "arr_delay=-60:240", "--column", "hour=0:24", "--records", "5000"),
        "linear",
    ),
}


@pytest.mark.parametrize("name", FLAGS)
def test_what_it_writes_plans_and_runs_as_it_is(name: str, folder: Path) -> None:
    flags, kind = FLAGS[name]
    rest = tuple(flag for flag in REST if "--unit" not in flags or flag not in REST[:2])
    done = call("init", "mine.toml", "--input", "flights.csv", *flags, *rest, folder=folder)
    assert done.returncode == 0, done.stderr
    assert "dpstream plan mine.toml" in done.stdout
    text = (folder / "mine.toml").read_text()
    assert text.count("#") >= 8
    assert load_config(folder / "mine.toml").privacy.epsilon == 1.0
    for command in (("plan", "mine.toml"), ("run", "mine.toml")):
        done = call(*command, folder=folder)
        assert done.returncode == 0, done.stderr
    assert json.loads((folder / "out" / "model.json").read_text())["model"]["kind"] == kind


def test_names_that_need_quotes_are_quoted(tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text('"my ""own"" column",t.1\n0.5,1\n0.25,0\n')
    done = call(
        *("init", "--input", "odd.csv", "--column", 'my "own" column=0:1', "--target", "t.1=0:1"),
        *("--unit", "record", "--epsilon", "1", "--every", "1"),
        folder=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    tables = tomllib.loads((tmp_path / "dpstream.toml").read_text())
    assert set(tables["columns"]) == {'my "own" column'}
    assert set(tables["targets"]) == {"t.1"}
    assert call("run", "dpstream.toml", folder=tmp_path).returncode == 0


def test_bounds_are_never_taken_from_the_records(folder: Path) -> None:
    done = call("init", "--input", "flights.csv", "--column", "hour", *REST, folder=folder)
    line = one_line(done, 2)
    assert "'hour' has no bounds" in line
    assert "never takes bounds from the data it protects" in line
    assert "--public-sample" in line
    itself = ("--public-sample", "./flights.csv")
    done = call("init", "--input", "flights.csv", "--column", "hour", *itself, *REST, folder=folder)
    assert "is the input itself" in one_line(done, 2)
    assert not (folder / "dpstream.toml").exists()


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("61.5,here,618.4", "the first line must name the columns, and holds numbers"),
        ("age;town;income", "one name, with ';' in it: values are separated by commas"),
        ("years,town,wage", "known: town, wage, years"),
    ],
)
def test_a_column_that_is_not_there_is_told_without_a_record(
    first: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "people.csv").write_text(f"{first}\n{first}\n")
    flags = ("--target", "income=0:1500", "--column", "age=18:90", *REST)
    done = call("init", "mine.toml", "--input", "people.csv", *flags, folder=tmp_path)
    line = one_line(done, 2)
    assert line.startswith("dpstream: there is no column 'income'; ")
    assert said in line
    assert "618" not in line
    assert not (tmp_path / "mine.toml").exists()


def test_a_public_sample_is_named_where_its_bounds_are(folder: Path) -> None:
    sample = ("--public-sample", "published.csv")
    columns = ("--column", "hour", "--column", "origin", "--target", "arr_delay=-60:240")
    done = call("init", "--input", "flights.csv", *columns, *sample, *REST, folder=folder)
    assert done.returncode == 0, done.stderr
    text = (folder / "dpstream.toml").read_text()
    assert text.count("read from published.csv, declared public") == 2
    columns = tomllib.loads(text)["columns"]
    assert columns["origin"]["categories"] == ["EWR", "JFK", "LGA"]
    assert columns["hour"]["lower"] <= 5 < 11 <= columns["hour"]["upper"]
    assert call("run", "dpstream.toml", folder=folder).returncode == 0


def test_five_questions_are_asked_on_a_terminal(folder: Path) -> None:
    leader, follower = pty.openpty()
    answers = [
        "flights.csv",
        "arr_delay=-60:240",
        "hour=0:24 orign=EWR,JFK,LGA",  # a slip: asked again
        "hour=0:24 origin=EWR,JFK,LGA",
        "record",
        "much",  # a slip
        "1",
    ]
    os.write(leader, "".join(f"{answer}\n" for answer in answers).encode())
    done = subprocess.run(
        [sys.executable, "-m", "dpstream.cli", "init", "asked.toml"],
        cwd=folder,
        stdin=follower,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    os.close(follower)
    os.close(leader)
    assert done.returncode == 0, done.stderr
    for number in range(1, 6):
        assert f"{number}. " in done.stdout
    assert "columns: scheduled, weekday" in done.stdout
    assert "there is no column 'orign'; did you mean 'origin'?" in done.stdout
    assert "epsilon is 'much'" in done.stdout
    assert call("plan", "asked.toml", folder=folder).returncode == 0


def test_without_a_terminal_a_missing_answer_is_its_question(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    line = one_line(call("init", "--input", "flights.csv", folder=folder), 2)
    assert "--column is missing" in line
    assert "3. From which columns" in line


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hour=24:0", "lower one must be below"),
        ("hour=a:b", "two numbers"),
        ("hour=0", "at least two that differ"),
        ("hour=a,,b", "at least two that differ"),
        ("hour=a,a", "at least two that differ"),
        ("=0:1", "names no column"),
    ],
)
def test_bounds_that_are_none_are_told(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parse_declared(text)


@pytest.mark.parametrize("text", ["user", "tail", "tail:0", "tail:many", ":3"])
def test_a_unit_is_a_record_or_a_column_with_a_cap(text: str) -> None:
    with pytest.raises(ConfigurationError, match="COLUMN:CAP"):
        parse_unit(text, ["tail"])


@pytest.mark.parametrize(
    ("low", "high", "rounded"),
    [(3.2, 97.0, (3.0, 97.0)), (-4.0, 1033.0, (-100.0, 1100.0)), (7.0, 7.0, (6.5, 7.5))],
)
def test_bounds_of_samples_are_rounded_outwards(
    low: float, high: float, rounded: tuple[float, float]
) -> None:
    found = rounded_outwards(low, high)
    assert found == pytest.approx(rounded)
    assert found[0] <= low < found[1]
    assert found[1] >= high
