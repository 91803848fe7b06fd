"""The page of all experiments: claims, verdicts, pictures, and what did not run."""

import json
from pathlib import Path
from typing import Any

import pytest

from dpstream.cli import reproduce as command
from dpstream.errors import SourceError, StoreError
from dpstream.reproduce.claim import claim, keep_picture
from dpstream.reproduce.summary import summary_page, verdicts


def shown(out: Path, data: Path | None = None) -> dict[str, Any]:
    """An experiment with one claim of each kind."""
    return {
        "slope": 0.51,
        "claims": [
            claim("001: slope", expected="1/2 within 0.1", measured=0.51, held=True, theirs="1/2"),
            claim("001: level <b>", expected="below 1", measured=2.0, held=False),
            claim("001: data", expected="falls", measured="no data given", held=None),
        ],
        "pictures": [keep_picture(out, "a-curve", "<svg><path/></svg>")],
        "full_data": f"give --data ({data})",
    }


def lacking(out: Path, data: Path | None = None) -> dict[str, Any]:
    raise SourceError(f"{data or out} holds no records")


@pytest.fixture
def experiments(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = {
        "shown": (__name__, "shown", "what is shown"),
        "lacking": (__name__, "lacking", "what lacks data"),
    }
    monkeypatch.setattr(command, "EXPERIMENTS", listed)


def test_verdicts_count_only_what_was_told(tmp_path: Path) -> None:
    assert verdicts(shown(tmp_path)) == "1 of 2 claims held, 1 untold"
    assert verdicts({}) == "states no claims"


@pytest.mark.usefixtures("experiments")
def test_all_go_on_one_page_and_one_that_cannot_run_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SourceError, match=r"lacking did not run: .* holds no records"):
        command.reproduce("all", data=None, out=tmp_path, as_json=True)
    assert set(json.loads(capsys.readouterr().out)) == {"shown"}
    assert json.loads((tmp_path / "shown.json").read_text())["slope"] == 0.51
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "1 of 2 claims held, 1 untold" in page
    assert "Not as expected: 001: level &lt;b&gt;." in page
    assert "<svg><path/></svg>" in page
    assert "did not run:" in page
    assert "On the full original data: give --data (None)" in page


@pytest.mark.usefixtures("experiments")
def test_one_experiment_alone_is_run_and_its_refusal_is_the_error(tmp_path: Path) -> None:
    command.reproduce("shown", data=tmp_path, out=tmp_path, as_json=False)
    with pytest.raises(SourceError, match=r"holds no records$"):
        command.reproduce("lacking", data=None, out=tmp_path, as_json=False)


def test_an_experiment_runs_what_belongs_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert all(
        {name, *beside} <= set(command.EXPERIMENTS) for name, beside in command.BESIDE.items()
    )
    parts = ("first", "second", "third")
    listed = {part: (__name__, "shown", f"the {part}") for part in parts}
    monkeypatch.setattr(command, "EXPERIMENTS", listed)
    monkeypatch.setattr(command, "BESIDE", {"first": ("third",)})
    command.reproduce("first", data=None, out=tmp_path, as_json=True)
    assert set(json.loads(capsys.readouterr().out)) == {"first", "third"}


def test_a_picture_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        keep_picture(tmp_path / "file", "name", "<svg/>")


def test_a_page_needs_no_claims(tmp_path: Path) -> None:
    page = summary_page({"a": {"x": 1}}, about={"a": "b"}, refused={}, out=tmp_path)
    assert "states no claims" in page


def silent(out: Path) -> dict[str, Any]:
    return {"name": f"nothing in {out}"}


def test_an_experiment_without_claims_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "EXPERIMENTS", {"silent": (__name__, "silent", "what is silent")})
    with pytest.raises(KeyError, match="claims"):
        command.reproduce("silent", data=None, out=tmp_path, as_json=True)
