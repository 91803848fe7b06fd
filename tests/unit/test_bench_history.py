"""The history of benchmarks: what is kept, what is compared, and when a figure is flagged."""

import json
import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from command_line import call, one_line

from dpstream.bench import geometry, history, solvers, sums
from dpstream.bench.command_line import streaming, write_stream
from dpstream.bench.history import FEWEST, FILE_NAME, KEPT, History, Run, Watch, compare, numbers
from dpstream.cli.bench import BENCHMARKS
from dpstream.errors import ConfigurationError, StoreError
from dpstream.solvers.output_perturbation import OutputPerturbation

RATIO = (Watch("d = */ratio", "higher"), Watch("time", "lower"))


def runs(*values: float, figure: str = "d = 10/ratio") -> list[Run]:
    return [
        Run(benchmark="b", time="t", version="v", machine="m", figures={figure: value})
        for value in values
    ]


def flagged(value: float, *past: float, figure: str = "d = 10/ratio") -> bool | None:
    [found] = compare({figure: value}, runs(*past, figure=figure), RATIO)
    assert found.runs == len(past)
    return found.regressed


def test_nested_numbers_are_named_by_their_path() -> None:
    figures = {"a": {"b": 1, "yes": True, "text": "x"}, "c": [2.5, {"d": 3}], "none": None}
    assert numbers(figures) == {"a/b": 1.0, "c/1": 2.5, "c/2/d": 3.0}
    assert numbers({"a": float("nan"), "b": float("inf")}) == {}


def test_a_figure_is_flagged_only_beyond_every_run_and_their_noise() -> None:
    steady = (0.50, 0.51, 0.50, 0.49, 0.50)
    assert flagged(0.40, *steady) is True
    assert flagged(0.46, *steady) is False  # within a tenth of the median
    assert flagged(0.90, *steady) is False  # better
    assert flagged(0.40, *steady[1:]) is None  # too few for a verdict
    assert flagged(0.40, *steady, 0.39) is False  # it was worse before
    noisy = (0.5, 0.4, 0.6, 0.45, 0.55)
    # The spread is 1.4826 * 0.05, and four of them are 0.2965.
    assert flagged(0.21, *noisy) is False
    assert flagged(0.20, *noisy) is True


def test_lower_is_better_where_it_is_said_so() -> None:
    assert flagged(1.2, 1, 1, 1, 1, 1, figure="time") is True
    assert flagged(0.8, 1, 1, 1, 1, 1, figure="time") is False
    assert compare({"other": 1.0}, [], RATIO) == []


def test_a_wild_run_does_not_hide_a_regression_for_long() -> None:
    assert flagged(0.40, 0.5, 0.5, 0.1, 0.5, 0.5) is False  # it was worse once
    kept = [0.1] + [0.5] * KEPT
    assert flagged(0.40, *kept[-KEPT:]) is True


def test_runs_are_added_read_again_and_never_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "deep" / "state"
    first = History(folder)
    assert first.past("b") == []
    run = first.add("b", {"ratio": 0.5, "words": "x"})
    assert run.figures == {"ratio": 0.5}
    text = first.path.read_text()
    assert str(tmp_path) not in text
    second = History(folder)
    assert second.past("b") == [run]
    assert second.past("c") == []
    second.add("b", {"ratio": 0.6})
    assert first.path.read_text().startswith(text)
    monkeypatch.setattr(history, "machine", lambda: "another")
    assert History(folder).past("b") == []


def test_only_the_last_runs_are_compared_with(tmp_path: Path) -> None:
    found = History(tmp_path)
    for value in range(KEPT + 3):
        found.add("b", {"ratio": value})
    assert [run.figures["ratio"] for run in found.past("b")] == list(range(3, KEPT + 3))


def test_a_history_that_is_none_is_refused(tmp_path: Path) -> None:
    good = replace(runs(1.0)[0]).to_line()
    for line in ("{", "[]", '{"format": 1}', good.replace('"format": 1', '"format": 2')):
        (tmp_path / FILE_NAME).write_text(good + line + "\n")
        with pytest.raises(ConfigurationError, match=r"line 2 of .* is no benchmark run"):
            History(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="--history"):
        History(tmp_path / "file")


def test_the_machine_has_no_name_and_no_place() -> None:
    here = history.machine()
    assert re.search(r"\d+ processors, Python 3\.\d+\.\d+, numpy \d", here)
    assert str(Path.home()) not in here


def test_every_benchmark_watches_something() -> None:
    for module, _ in BENCHMARKS.values():
        watched = import_module(module).WATCHED
        assert watched
        assert all(item.better in ("higher", "lower") for item in watched)


@pytest.mark.parametrize(
    ("module", "figures"),
    [
        (geometry, lambda: geometry.run(entries=100)),
        (sums, lambda: sums.run(simulate_up_to=0, timed_ticks=2)),
        (
            solvers,
            lambda: solvers.run(
                records=50, dimension=2, rounds=1, solvers={"output": OutputPerturbation()}
            ),
        ),
    ],
)
def test_what_is_watched_is_there(module: Any, figures: Any) -> None:
    paths = numbers(figures())
    for watch in module.WATCHED:
        assert any(history.fnmatchcase(path, watch.pattern) for path in paths), watch


def test_the_command_flags_a_regression_once_it_was_shown_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = {"value": 1.0}
    monkeypatch.setattr(geometry, "run", lambda: {"passes": {"x": figure["value"]}})
    arguments = ("bench", "geometry", "--history", "kept")
    for number in range(FEWEST):
        done = call(*arguments, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert ("no earlier run" in done.stdout) == (number == 0)
    figure["value"] = 1.5
    done = call(*arguments, folder=tmp_path)
    line = one_line(done, 1)
    assert "geometry/passes/x is 1.5" in line
    assert "passes/x: 1.5, was 1 (+50.0%)  REGRESSED" in done.stdout
    kept = (tmp_path / "kept" / FILE_NAME).read_text().splitlines()
    assert len(kept) == FEWEST + 1
    assert json.loads(kept[-1])["figures"] == {"passes/x": 1.5}
    call(*arguments, "--no-history", folder=tmp_path)
    assert len((tmp_path / "kept" / FILE_NAME).read_text().splitlines()) == FEWEST + 1
    found = json.loads(call(*arguments, "--json", folder=tmp_path).stdout)
    [beside] = found["compared with past runs"]["geometry"]
    assert beside["runs"] == FEWEST + 1
    assert beside["regressed"] is False  # it was as bad before


def test_the_default_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere")
    assert history.default_folder() == Path("/somewhere/dpstream")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/nobody")
    assert history.default_folder() == Path("/home/nobody/.local/state/dpstream")


def test_the_streamed_file_is_the_declared_one(tmp_path: Path) -> None:
    configuration = write_stream(tmp_path, 2000)
    done = call("run", str(configuration), "--out", "out", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["records"], summary["new_releases"]) == (2000, 2)
    figures = streaming(records=1000, rounds=1)
    assert figures["records"] == 1000
    assert 0 < figures["run, share of the floor's rate"] < 10


def test_no_factorisation_is_quieter_than_the_lower_bound() -> None:
    # One tick: a record is measured once, so sigma itself; a thousand: measured elsewhere, 12.3.
    assert sums.lower_bound(1, 2.0) == pytest.approx(2.0)
    assert sums.lower_bound(1000, 4.22468) == pytest.approx(12.26, abs=0.01)
    for name in ("blt", "honaker_tree"):
        found = sums.noise_figures(name, 100, None, 100, simulate=False)
        assert 1.0 <= found["times the lower bound"] < 3.0
