"""The command line as a user meets it: one line and an exit code for every mistake."""

import gzip
import io
import json
import math
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet
import pytest
from command_line import GOOD, call, one_line

from dpstream.cli.assemble import assemble_source
from dpstream.cli.config import load_config, parse_config
from dpstream.cli.progress import progress_line
from dpstream.connectors.extent import estimated_records
from dpstream.engine.ports import Progress
from dpstream.errors import ConfigurationError, ModelFileError
from dpstream.mechanisms.public import public_generator
from dpstream.saved import load_model


@pytest.fixture(autouse=True)
def no_key_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPSTREAM_KEY", raising=False)


def rows(count: int, seed: int = 3) -> str:
    generator = public_generator(seed)
    lines = ["a,b,t"]
    for a, b in zip(generator.uniform(size=count), generator.integers(0, 2, count), strict=True):
        lines.append(f"{a:.4f},{'xy'[b]},{a + 0.5 * b:.4f}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "good.toml").write_text(GOOD)
    (tmp_path / "rows.csv").write_text(rows(220))
    return tmp_path


def test_a_run_leaves_its_files_and_says_what_it_did(folder: Path) -> None:
    done = call("run", "good.toml", "--input", "rows.csv", "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["records"] == 220
    assert summary["new_releases"] == 4
    assert summary["epsilon_spent"] == pytest.approx(1.0, rel=1e-6)
    out = folder / "out"
    names = {path.name for path in out.iterdir() if not path.name.startswith("stream.db-")}
    public = {"model.json", "model.dps", "releases.jsonl", "ledger.json", "report.html"}
    assert names == public | {"stream.db", "store.key"}
    saved = load_model(out / "model.dps")
    assert saved.release.tick == 4
    assert saved.card.epsilon == 1.0
    assert len(saved.predict([{"a": 0.5, "b": "x"}, {"a": None, "b": "y"}])) == 2
    with pytest.raises(ModelFileError, match=r"load .*model\.dps"):
        load_model(out / "model.json")
    model = json.loads((out / "model.json").read_text())
    assert model["format"] == 1
    assert model["privacy"]["epsilon"] == 1.0
    assert model["privacy"]["neighbours"] == "zero_out"
    assert model["privacy"]["insecure_seed"] is False
    assert model["tick"] == 4
    assert len((out / "releases.jsonl").read_text().splitlines()) == 4
    for secret in ("stream.db", "store.key"):
        assert (out / secret).stat().st_mode & 0o077 == 0


def test_a_run_without_a_release_says_when_the_first_comes(folder: Path) -> None:
    (folder / "few.csv").write_text(rows(20))
    done = call("run", "good.toml", "--input", "few.csv", folder=folder)
    assert done.returncode == 0, done.stderr
    assert "no release yet: the first comes with record 50;" in done.stdout
    (folder / "asked.toml").write_text(GOOD.replace("every = 50", "every = 5\npublish_every = 0"))
    done = call("run", "asked.toml", "--input", "few.csv", "--out", "asked", folder=folder)
    assert "no release yet: no tick that publishes has closed" in done.stdout


def test_resume_goes_on_where_it_stopped(folder: Path) -> None:
    whole = rows(400)
    (folder / "first.csv").write_text("\n".join(whole.splitlines()[:221]) + "\n")
    (folder / "all.csv").write_text(whole)
    seed = ("--insecure-seed", "5")
    call("run", "good.toml", "--input", "first.csv", *seed, folder=folder)
    done = call("run", "good.toml", "--input", "all.csv", "--resume", *seed, folder=folder)
    assert done.returncode == 0, done.stderr
    assert "INSECURE SEED" in done.stderr
    call("run", "good.toml", "--input", "all.csv", "--out", "at-once", *seed, folder=folder)
    resumed = (folder / "out" / "releases.jsonl").read_bytes()
    assert resumed == (folder / "at-once" / "releases.jsonl").read_bytes()
    assert len(resumed.splitlines()) == 8


def test_standard_input_is_a_source(folder: Path) -> None:
    good = folder / "good.toml"
    good.write_text(good.read_text() + '[source]\nformat = "csv"\n')
    done = subprocess.run(
        [sys.executable, "-m", "dpstream.cli", "run", "good.toml", "--input", "-", "--json"],
        cwd=folder,
        input=rows(120),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""  # no progress in a pipe
    assert json.loads(done.stdout)["new_releases"] == 2


def test_verify_finds_an_edited_log_and_a_head_of_another_stream(folder: Path) -> None:
    call("run", "good.toml", "--input", "rows.csv", folder=folder)
    good = call("verify", "out", "--json", folder=folder)
    assert good.returncode == 0
    head = json.loads((folder / "out" / "ledger.json").read_text())["head"]
    assert call("verify", "out", "--head", head, folder=folder).returncode == 0
    assert call("verify", "out", "--head", "0" * 64, folder=folder).returncode == 1
    log = folder / "out" / "releases.jsonl"
    log.write_text(log.read_text().replace('"tick":2', '"tick":3', 1))
    edited = call("verify", "out", "--json", folder=folder)
    assert edited.returncode == 1
    failed = [check["name"] for check in json.loads(edited.stdout)["checks"] if not check["passed"]]
    assert failed == ["published log"]


def test_ledger_shows_what_was_spent(folder: Path) -> None:
    call("run", "good.toml", "--input", "rows.csv", folder=folder)
    shown = json.loads(call("ledger", "out", "--json", folder=folder).stdout)
    assert shown["epsilon_spent"] == pytest.approx(1.0, rel=1e-6)
    assert [row["event"]["kind"] for row in shown["rows"]] == ["gaussian"]
    assert "epsilon 1 of 1" in call("ledger", "out", folder=folder).stdout


def test_plan_is_one_json_object_and_reads_no_data(folder: Path) -> None:
    (folder / "rows.csv").unlink()
    found = json.loads(call("plan", "good.toml", "--json", folder=folder).stdout)
    assert found["noise"]["strategy"] == "blt"
    assert [item["tick"] for item in found["forecast"]][-1] == 8
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("strategy", "horizon", "window", "most"),
    [
        ("blt", 1_000_000, None, 23.3),
        ("honaker_tree", 1_000_000, None, 60.8),
        ("chain", None, None, 25.5),
        ("expiring_toeplitz", None, 10_000, 21.3),
    ],
)
def test_plan_of_a_pure_sum(
    folder: Path, strategy: str, horizon: int | None, window: int | None, most: float
) -> None:
    text = GOOD.replace('[columns.b]\ncategories = ["x", "y"]\n', "").replace(
        "lower = 0", "lower = -1", 1
    )
    text = text.replace("horizon = 8\n", "" if horizon is None else f"horizon = {horizon}\n")
    text = text.replace("every = 50", "every = 1").replace(
        'name = "PrivIncReg1"', f'name = "RunningSum"\nstrategy = "{strategy}"'
    )
    if window:
        text += f"window = {window}\n"
    (folder / "sum.toml").write_text(text)
    noise = json.loads(call("plan", "sum.toml", "--json", folder=folder).stdout)["noise"]
    assert noise["strategy"] == strategy
    assert 0.8 * most < noise["largest_standard_deviation"] <= most


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, 1)


MISTAKES = {
    "missing bounds": (changed("lower = 0\n", ""), "columns.a: give both lower and upper"),
    "bounds reversed": (changed("upper = 1\n", "upper = -1\n"), "lower must be below"),
    "delta of one": (changed("1e-6", "1.0"), "privacy.delta"),
    "negative delta": (changed("1e-6", "-0.1"), "privacy.delta"),
    "delta of zero with Gaussian noise": (changed("1e-6", "0.0"), "delta"),
    "epsilon of zero": (changed("epsilon = 1.0", "epsilon = 0"), "privacy.epsilon"),
    "epsilon as text": (changed("1.0", '"one"'), "privacy.epsilon"),
    "epsilon in quotes": (changed("epsilon = 1.0", 'epsilon = "1.0"'), "privacy.epsilon"),
    "epsilon a truth value": (changed("epsilon = 1.0", "epsilon = true"), "privacy.epsilon"),
    "epsilon beyond any noise": (changed("epsilon = 1.0", "epsilon = 1e300"), "asks for some"),
    "every in quotes": (changed("every = 50", 'every = "50"'), "schedule.every"),
    "an infinite bound": (changed("upper = 1\n", "upper = inf\n"), "columns.a.upper"),
    "epsilon left out": (changed("epsilon = 1.0\n", ""), "privacy has no default"),
    "neighbours misspelt": (changed("zero_out", "zero-out"), "privacy.neighbours"),
    "unknown key": (changed("every = 50", "evry = 50"), "did you mean 'every'?"),
    "unknown table": (GOOD + "[lerner]\n", "did you mean 'learner'?"),
    "unknown learner": (changed('"PrivIncReg1"', '"PrivIncReg9"'), "did you mean 'PrivIncReg1'"),
    "unknown learner option": (GOOD + "penalti = 1\n", "did you mean 'penalty'?"),
    "negative penalty": (GOOD + "penalty = -1\n", "penalty is -1"),
    "unknown strategy": (GOOD + 'strategy = "bltt"\n', "bltt"),
    "cap of zero": (GOOD + '[unit]\nkind = "user"\ncolumn = "u"\ncap = 0\n', "unit.cap"),
    "user without a column": (GOOD + '[unit]\nkind = "user"\ncap = 3\n', "identifies the user"),
    "cap on records": (GOOD + "[unit]\ncap = 3\n", "cap"),
    "no target": (changed("[targets.t]\nlower = 0\nupper = 2\n", ""), "target"),
    "column is a target": (changed("[targets.t]", "[targets.a]"), "as a column and as a target"),
    "horizon of zero": (changed("horizon = 8", "horizon = 0"), "schedule.horizon"),
    "two horizons": (changed("horizon = 8", "horizon = 8\nrecords = 400"), "not both"),
    "records below a tick": (changed("horizon = 8", "records = 10"), "does not fill one tick"),
    "no schedule": (changed("every = 50\nhorizon = 8\n", ""), "every = N"),
    "stream and batch": (GOOD + "[batch]\nrecords = 10\n", "for a stream, or [batch]"),
    "labels and bounds": (changed("upper = 2", 'upper = 2\nlabels = ["a", "b"]'), "or labels"),
    "not TOML": ("[columns", "not valid TOML"),
    "empty": ("", "columns: is missing"),
    "no categories": (changed('["x", "y"]', "[]"), "categories"),
    "a column that the input has not": (changed("[columns.a]", "[columns.z]"), "no column 'z'"),
    "a target that the input has not": (changed("[targets.t]", "[targets.z]"), "no column 'z'"),
    "a unit that the input has not": (
        GOOD + '[unit]\nkind = "user"\ncolumn = "z"\ncap = 3\n',
        "no column 'z'",
    ),
    "a clock that the input has not": (
        changed("every = 50", 'interval = 60\nclock = "z"\ntick_records = 9'),
        "no column 'z'",
    ),
    "a category twice": (changed('["x", "y"]', '["x", "x"]'), "twice"),
}


@pytest.mark.parametrize("name", sorted(MISTAKES))
def test_a_wrong_configuration_is_one_line_before_anything_is_written(
    name: str, folder: Path
) -> None:
    text, expected = MISTAKES[name]
    (folder / "bad.toml").write_text(text)
    line = one_line(call("run", "bad.toml", "--input", "rows.csv", folder=folder), 2)
    assert expected in line
    assert not (folder / "out").exists()


def test_alone_it_shows_what_there_is(folder: Path) -> None:
    done = call(folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == call("--help", folder=folder).stdout
    assert len(done.stdout.splitlines()) > 15
    assert "\x1b" not in done.stdout  # no colours in a pipe


def test_wrong_usage_is_one_line(folder: Path) -> None:
    assert "Missing argument" in one_line(call("run", folder=folder), 2)
    assert "No such command" in one_line(call("rnu", folder=folder), 2)
    assert "cannot be read" in one_line(call("plan", "none.toml", folder=folder), 2)
    assert "no source" in one_line(call("run", "good.toml", folder=folder), 2)
    assert "holds no stream" in one_line(call("verify", ".", folder=folder), 2)
    assert "holds no stream" in one_line(call("ledger", ".", folder=folder), 2)
    done = call("run", "good.toml", "--input", "rows.csv", "--resume", folder=folder)
    assert "holds no stream" in one_line(done, 2)
    assert "did you mean 'strategy'" in one_line(
        call("mechanisms", "--kind", "stratgy", folder=folder), 2
    )


def test_a_folder_that_holds_a_stream_is_not_begun_again(folder: Path) -> None:
    call("run", "good.toml", "--input", "rows.csv", folder=folder)
    before = (folder / "out" / "releases.jsonl").read_bytes()
    line = one_line(call("run", "good.toml", "--input", "rows.csv", folder=folder), 2)
    assert "--resume" in line
    assert (folder / "out" / "releases.jsonl").read_bytes() == before


def test_releases_without_their_store_are_not_begun_upon(folder: Path) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "releases.jsonl").write_text('{"tick":1}\n')
    done = call("run", "good.toml", "--input", "rows.csv", folder=folder)
    assert "without its store" in one_line(done, 2)
    assert [path.name for path in (folder / "out").iterdir()] == ["releases.jsonl"]


def test_a_seed_that_is_none_is_refused_before_anything_is_written(folder: Path) -> None:
    for seed in ("-1", str(1 << 64)):
        given = ("run", "good.toml", "--input", "rows.csv", "--insecure-seed", seed)
        done = call(*given, folder=folder)
        assert "seed is" in one_line(done, 2)
        assert not (folder / "out").exists()


def test_a_release_on_demand(folder: Path) -> None:
    schedule = "[schedule]\n"
    (folder / "asked.toml").write_text(GOOD.replace(schedule, schedule + "publish_every = 0\n"))
    done = call("run", "asked.toml", "--input", "rows.csv", "--json", folder=folder)
    assert json.loads(done.stdout)["new_releases"] == 0
    (folder / "more.csv").write_text(rows(400))
    wish = ("--input", "more.csv", "--resume", "--publish-next", "--json")
    done = call("run", "asked.toml", *wish, folder=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["new_releases"] == 1
    (line,) = (folder / "out" / "releases.jsonl").read_text().splitlines()
    assert json.loads(line)["tick"] == 5


def test_resume_lists_what_differs(folder: Path) -> None:
    call("run", "good.toml", "--input", "rows.csv", folder=folder)
    (folder / "other.toml").write_text(changed("upper = 2", "upper = 3"))
    done = call("run", "other.toml", "--input", "rows.csv", "--resume", folder=folder)
    line = one_line(done, 2)
    assert "upper was 2.0, is now 3.0" in line
    assert line.index("domain.") < line.index("learner.")
    (folder / "third.toml").write_text(GOOD.replace("every = 50", "every = 20"))
    line = one_line(call("run", "third.toml", "--input", "rows.csv", "--resume", folder=folder), 2)
    assert "schedule.every was 50, is now 20" in line
    assert len(line) < 1500


def test_a_key_that_is_none_is_refused_before_a_store_is_made(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPSTREAM_KEY", "abc")
    line = one_line(call("run", "good.toml", "--input", "rows.csv", folder=folder), 1)
    assert "DPSTREAM_KEY holds no key" in line
    assert list((folder / "out").iterdir()) == []
    monkeypatch.delenv("DPSTREAM_KEY")
    assert call("run", "good.toml", "--input", "rows.csv", folder=folder).returncode == 0


def test_an_unreadable_first_chunk_leaves_nothing_behind(folder: Path) -> None:
    (folder / "broken.parquet").write_bytes(b"PAR1" + bytes(50) + b"PAR1")
    (folder / "first.csv").write_text("a,b,t\n0.5,x,secret-text\n")
    for name in ("broken.parquet", "first.csv"):
        line = one_line(call("run", "good.toml", "--input", name, folder=folder), 1)
        assert name in line
        assert "secret-text" not in line
        assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        ("0.5,x\n", "line 102"),
        ("0.5,x,secret-text\n", "line 102"),
        ('0.5,"x,1.0\n', "line 102"),
    ],
)
def test_a_corrupt_row_names_its_line_and_never_its_content(
    damage: str, expected: str, folder: Path
) -> None:
    lines = rows(220).splitlines(keepends=True)
    (folder / "bad.csv").write_text("".join([*lines[:101], damage, *lines[101:]]))
    line = one_line(call("run", "good.toml", "--input", "bad.csv", folder=folder), 1)
    assert expected in line
    assert "secret" not in line


@pytest.mark.parametrize("name", ["long.csv", "long.csv.gz", "long.parquet"])
def test_a_file_longer_than_the_horizon_is_refused_before_anything_is_written(
    name: str, folder: Path
) -> None:
    def write(count: int) -> None:
        text = rows(count)
        if name.endswith(".parquet"):
            table = pyarrow.csv.read_csv(io.BytesIO(text.encode()))
            pyarrow.parquet.write_table(table, folder / name)
        elif name.endswith(".gz"):
            (folder / name).write_bytes(gzip.compress(text.encode()))
        else:
            # Blank lines are no records.
            (folder / name).write_text(text + "\n" * 30)

    write(401)
    line = one_line(call("run", "good.toml", "--input", name, folder=folder), 2)
    assert "more than the 400 records" in line
    assert not (folder / "out").exists()
    write(400)
    assert call("run", "good.toml", "--input", name, folder=folder).returncode == 0


def test_a_stream_past_its_horizon_stops_and_keeps_what_it_has(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(rows(600).encode())))
    (folder / "piped.toml").write_text(GOOD + '[source]\nformat = "csv"\n')
    line = one_line(call("run", "piped.toml", "--input", "-", folder=folder), 1)
    assert "after tick 8" in line
    assert len((folder / "out" / "releases.jsonl").read_text().splitlines()) == 8
    assert json.loads((folder / "out" / "model.json").read_text())["tick"] == 8


def test_declared_records_need_not_fill_the_last_tick(folder: Path) -> None:
    (folder / "c.toml").write_text(GOOD.replace("horizon = 8", "records = 220"))
    done = call("run", "c.toml", "--input", "rows.csv", "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["records"] == 220
    assert json.loads(done.stdout)["tick"] == 4


def test_missing_sources_and_read_only_folders_are_one_line(folder: Path) -> None:
    line = one_line(call("run", "good.toml", "--input", "gone.csv", folder=folder), 1)
    assert "gone.csv" in line
    # Nothing was begun: the same command works once the file is there.
    assert not (folder / "out").exists()
    (folder / "file").write_text("")
    done = call("run", "good.toml", "--input", "rows.csv", "--out", "file/out", folder=folder)
    assert "cannot be made" in one_line(done, 1)


BATCH = (
    GOOD.partition("[schedule]")[0]
    + """
[batch]
records = 500
loss = "squared"
constraint = "l1"
"""
)


def test_plan_of_a_batch_problem_ranks_the_solvers(folder: Path) -> None:
    (folder / "batch.toml").write_text(BATCH)
    found = json.loads(call("plan", "batch.toml", "--json", folder=folder).stdout)
    able = [item for item in found["candidates"] if item["refusal"] is None]
    assert found["take"] == able[0]["solver"]
    predicted = [item["predicted"] for item in able]
    assert predicted == sorted(predicted)
    assert {"lasso", "frank_wolfe", "mirror_descent"} <= {item["solver"] for item in able}
    shown = call("plan", "batch.toml", folder=folder).stdout
    assert shown.startswith(f"take {found['take']}: ")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"squared"', '"softmax"', "three or more labels"),
        ('"squared"', '"squard"', "batch.loss"),
        ("records = 500", "records = 0", "batch.records"),
        ('"l1"', '"l3"', "batch.constraint"),
        ("[targets.t]\nlower = 0\nupper = 2\n", "", "predicts something"),
        ("[batch]", "[targets.u]\nlower = 0\nupper = 2\n[batch]", "2 are declared"),
        ('"squared"', '"hinge"', "two labels"),
        ("lower = 0\nupper = 2", 'labels = ["p", "q", "r"]', "softmax"),
        ('"squared"', '"squared"\nsolver = "lasoo"', "did you mean 'lasso'"),
        ('"l1"', '"l2"\nsolver = "lasso"', "the LASSO is the squared loss over an L1 ball"),
        ('"squared"', '"poisson"\nsolver = "objective_perturbation"', "jumps"),
    ],
)
def test_a_wrong_batch_problem_is_one_line(old: str, new: str, expected: str, folder: Path) -> None:
    assert old in BATCH
    (folder / "batch.toml").write_text(BATCH.replace(old, new, 1))
    assert expected in one_line(call("plan", "batch.toml", folder=folder), 2)


def test_a_batch_problem_is_solved_once(folder: Path) -> None:
    text = BATCH.replace("records = 500", 'records = 200\nsolver = "mirror_descent"')
    (folder / "batch.toml").write_text(text)
    (folder / "few.csv").write_text(rows(120))
    (folder / "exact.csv").write_text(rows(200))
    short = call("run", "batch.toml", "--input", "few.csv", "--out", "short", folder=folder)
    assert short.returncode == 0, short.stderr
    assert "the first comes with record 200;" in short.stdout
    assert not (folder / "short" / "model.json").exists()
    done = call("run", "batch.toml", "--input", "exact.csv", folder=folder)
    assert done.returncode == 0, done.stderr
    assert "coefficients for t, squared loss:" in done.stdout
    model = json.loads((folder / "out" / "model.json").read_text())
    assert model["model"]["ready"]
    assert len(model["model"]["user"]["coefficients"][0]) == 3
    assert model["privacy"]["epsilon"] == 1.0
    assert "Coefficients for t" in (folder / "out" / "report.html").read_text()
    spent = json.loads(call("ledger", "out", "--json", folder=folder).stdout)
    assert len(spent["rows"]) == 1
    assert 0.99 < spent["epsilon_spent"] <= 1.0
    assert call("verify", "out", folder=folder).returncode == 0
    # More records than were planned for: nothing more is released, or charged.
    resumed = call("run", "batch.toml", "--input", "rows.csv", "--resume", folder=folder)
    assert "the last that" in one_line(resumed, 1)
    assert len((folder / "out" / "releases.jsonl").read_text().splitlines()) == 1


def test_a_batch_problem_has_no_learner(folder: Path) -> None:
    (folder / "batch.toml").write_text(BATCH + '[learner]\nname = "RunningSum"\n')
    line = one_line(call("run", "batch.toml", "--input", "rows.csv", folder=folder), 2)
    assert "batch.solver" in line


def test_counts_are_predicted_by_the_logarithm_of_their_rate(folder: Path) -> None:
    # Without noise to speak of: the rate is exp(1 + 0.8 a).
    text = BATCH.replace("records = 500", 'records = 3000\nsolver = "mirror_descent"\nradius = 4.0')
    text = text.replace('"squared"', '"poisson"').replace('"l1"', '"l2"')
    text = text.replace("upper = 2\n", "upper = 30\n").replace("epsilon = 1.0", "epsilon = 50.0")
    (folder / "counts.toml").write_text(text)
    values = public_generator(4).uniform(size=3000)
    lines = [f"{a:.5f},x,{math.exp(1 + 0.8 * a):.5f}" for a in values]
    (folder / "counts.csv").write_text("a,b,t\n" + "\n".join(lines) + "\n")
    done = call("run", "counts.toml", "--input", "counts.csv", "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    model = json.loads(done.stdout)["model"]
    slopes, head = model["user"]["coefficients"][0], model["user"]["intercept"][0]
    for a in (0.0, 1.0):
        rate = math.exp(head + slopes[0] * a)
        assert rate == pytest.approx(math.exp(1 + 0.8 * a), rel=0.15)


def test_where_a_clock_hides_arrivals_the_number_of_records_is_not_shown(folder: Path) -> None:
    text = changed("every = 50\nhorizon = 8", 'interval = 10.0\nclock = "at"\nhorizon = 8')
    (folder / "clock.toml").write_text(text)
    lines = rows(60).splitlines()
    timed = [f"{lines[0]},at", *(f"{line},{number}.0" for number, line in enumerate(lines[1:]))]
    (folder / "timed.csv").write_text("\n".join(timed) + "\n")
    done = call("run", "clock.toml", "--input", "timed.csv", "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["records"] is None
    assert summary["new_releases"] == 5


def test_mechanisms_lists_the_catalogue(folder: Path) -> None:
    entries = json.loads(call("mechanisms", "--json", folder=folder).stdout)["entries"]
    names = {entry["name"] for entry in entries}
    assert {"PrivIncReg1", "BufferedToeplitz", "measure_gaussian", "L1Ball"} <= names
    assert "PrivIncReg1" in call("mechanisms", "--kind", "learner", folder=folder).stdout


def test_configurations_can_be_checked_without_a_file() -> None:
    tables: dict[str, Any] = {"columns": {"a": {"boolean": True}}}
    with pytest.raises(ConfigurationError, match="privacy: is missing; write"):
        parse_config(tables, name="tables")


def test_a_configuration_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match="UTF-8"):
        load_config(tmp_path / "binary.toml")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[learner]\nlevels = 9007199254740993", "learner.levels: is beyond 2**53"),
        ("[schedule]\nevery = " + "9" * 400, "schedule.every: is beyond 2**53"),
        ("[schedule]\nevery = " + "9" * 5000, "is not valid TOML"),
        ("a = " + "[" * 20_000, "is not valid TOML"),
    ],
)
def test_numbers_and_nesting_beyond_all_use_are_one_line(
    tmp_path: Path, text: str, told: str
) -> None:
    path = tmp_path / "enormous.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load_config(path)
    assert told in str(caught.value)
    assert len(str(caught.value)) < 300


def test_the_progress_knows_about_how_many_records_a_file_has(folder: Path) -> None:
    (folder / "rows.csv.gz").write_bytes(gzip.compress((folder / "rows.csv").read_bytes()))
    for name in ("rows.csv", "rows.csv.gz"):
        assert estimated_records(str(folder / name), None) == pytest.approx(221, abs=2)
    (folder / "empty.csv").write_text("")
    assert estimated_records(str(folder / "empty.csv"), None) == 0
    for unknown in ("-", str(folder / "gone.csv"), str(folder / "good.toml")):
        assert estimated_records(unknown, None) is None
    assert estimated_records(str(folder / "x.parquet"), "parquet") is None


def test_a_terminal_sees_records_speed_and_time_left(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", shown)
    with progress_line(200) as show:
        show(Progress(records=150, ticks=3, releases=3))
    assert "150 records" in shown.getvalue()
    assert "3 releases" in shown.getvalue()


def test_a_run_says_for_how_long_records_are_protected(folder: Path) -> None:
    expiring = GOOD.replace('name = "PrivIncReg1"', 'name = "RunningSum"\n{memory}').replace(
        "[targets.t]\nlower = 0\nupper = 2\n", ""
    )
    memories = {"ever": "", "live": 'window = 4\nstrategy = "expiring_toeplitz"'}
    for name, memory in memories.items():
        (folder / f"{name}.toml").write_text(expiring.replace("{memory}", memory))
        (folder / f"{name}.csv").write_text(rows(200))
        done = call("run", f"{name}.toml", "--input", f"{name}.csv", "--out", name, folder=folder)
        assert done.returncode == 0, done.stderr
        said = next(line for line in done.stdout.splitlines() if line.startswith("privacy:"))
        assert ("whole life" in said) is (name == "ever")
        assert ("published exactly" in said) is (name == "live")
        told = call("explain", f"{name}.toml", folder=folder).stdout
        assert ("everything that is ever published" in told) is (name == "ever")
        assert ("learns later" in told) is (name == "ever")
        assert ("its contribution can be told exactly" in told) is (name == "live")
        page = (folder / name / "report.html").read_text()
        assert ("everything that is ever published" in page) is (name == "ever")


def test_by_the_time_of_day_silence_on_standard_input_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = changed("every = 50\nhorizon = 8", "interval = 0.01\nhorizon = 8")
    tables = tomllib.loads(text) | {"source": {"format": "csv"}}
    config = parse_config(tables, name="c.toml")
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe, os.fdopen(writing, "wb", buffering=0):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(pipe))
        chunks = assemble_source(config, folder=Path(), input_path="-").chunks(0)
        assert [next(chunks).length for _ in range(3)] == [0, 0, 0]
