"""``dpstream verify`` and the public files of a run: what was edited is found, file by file."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import GOOD, call

from dpstream.cli.folder import RunFolder
from dpstream.cli.published import published_checks
from dpstream.saved import load_model, save_model
from dpstream.stores.sqlite import SqliteStore

NAMES = ["ledger.json", "model.json", "model.dps"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of one configuration, the first continued after a copy was kept."""
    folder = tmp_path_factory.mktemp("published")
    (folder / "good.toml").write_text(GOOD)
    lines = ["a,b,t", *["0.5,x,1.0"] * 220]
    (folder / "rows.csv").write_text("\n".join(lines[:121]) + "\n")
    for out in ("out", "other"):
        call("run", "good.toml", "--input", "rows.csv", "--out", out, folder=folder)
    shutil.copytree(folder / "out", folder / "earlier")
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    call("run", "good.toml", "--input", "rows.csv", "--resume", folder=folder)
    return folder


@pytest.fixture
def out(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole / "out", tmp_path / "out")
    return tmp_path / "out"


def found(out: Path) -> dict[str, tuple[bool, str]]:
    store = SqliteStore(out / "stream.db", read_only=True)
    try:
        checks = published_checks(RunFolder(out), store)
    finally:
        store.close()
    return {check.name: (check.passed, check.detail) for check in checks}


def test_the_files_of_a_run_are_its_stores(out: Path) -> None:
    assert found(out) == {
        "ledger.json": (True, "1 of 1 rows equal"),
        "model.json": (True, "of tick 4, the last"),
        "model.dps": (True, "of tick 4, the last"),
    }
    shown = call("verify", "out", folder=out.parent)
    assert shown.returncode == 0
    assert "ok   model.dps: of tick 4, the last" in shown.stdout


def test_files_that_are_not_there_are_not_compared(out: Path) -> None:
    for name in NAMES:
        (out / name).unlink()
    assert found(out) == {}


def test_files_of_an_earlier_release_are_said_to_be(whole: Path, out: Path) -> None:
    for name in ("model.json", "model.dps"):
        shutil.copy(whole / "earlier" / name, out / name)
    assert [found(out)[name] for name in NAMES[1:]] == [(True, "of tick 2")] * 2


@pytest.mark.parametrize("name", NAMES[1:])
def test_files_of_another_run_are_found(whole: Path, out: Path, name: str) -> None:
    shutil.copy(whole / "other" / name, out / name)
    assert [each for each, (passed, _) in found(out).items() if not passed] == [name]
    assert call("verify", "out", folder=out.parent).returncode == 1


def places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where the plain values of a JSON value are."""
    if isinstance(value, dict):
        return [each for key, item in value.items() for each in places(item, (*place, key))]
    if isinstance(value, list):
        return [each for key, item in enumerate(value) for each in places(item, (*place, key))]
    return [place]


@pytest.mark.parametrize("name", NAMES[:2])
def test_every_edit_of_a_value_is_found(out: Path, name: str) -> None:
    text = (out / name).read_text()
    free = [("dpstream",)]  # the version of the package that wrote it
    edited = [place for place in places(json.loads(text)) if place not in free]
    assert len(edited) > 5
    for place in edited:
        content = json.loads(text)
        inner = content
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = 7 if isinstance(inner[place[-1]], str | bool) else "7"
        (out / name).write_text(json.dumps(content))
        assert not found(out)[name][0], place
    for broken in ("", "[]", "7", "{}", "[" * 100_000, '{"rows": 7}', '{"tick": 1e999}'):
        (out / name).write_text(broken)
        assert not found(out)[name][0], broken


def test_a_model_of_a_cheaper_ledger_is_found(out: Path) -> None:
    model = load_model(out / "model.dps")
    object.__setattr__(model, "rows", ())
    save_model(model, out / "model.dps")
    passed, detail = found(out)["model.dps"]
    assert not passed
    assert "its ledger is not the store's" in detail
