"""The ten most likely mistakes with every command: what people are told, in one line.

The table is ``mistakes_commands.toml``; its first lines say how to read it.
"""

import shlex
import shutil
import tomllib
from pathlib import Path

import pytest
import typer
from command_line import call, one_line
from command_mistakes import prepared

from dpstream.cli.main import app

TABLE: dict[str, list[list[str | int]]] = tomllib.loads(
    Path(__file__).with_name("mistakes_commands.toml").read_text(encoding="utf-8")
)
ROWS = [pytest.param(*row[:2], row[2:], id=str(row[0])) for rows in TABLE.values() for row in rows]
LEAST = 10
COMMANDS = set(typer.main.get_command(app).commands)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mistakes")
    prepared(folder)
    return folder


@pytest.mark.parametrize(("line", "code", "says"), ROWS)
def test_a_mistake_is_told_in_one_line(
    line: str,
    code: int,
    says: list[str],
    kept: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("DPSTREAM_KEY", raising=False)
    folder = tmp_path / "folder"
    shutil.copytree(kept, folder)
    before = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    done = call(*shlex.split(line), folder=folder)
    if says == ["FAIL"]:  # a verdict, on standard output
        assert done.returncode == code
        assert "FAIL" in done.stdout
        told = done.stdout
    else:
        told = one_line(done, code)
        assert done.stdout == ""
    for part in says:
        assert part in told, told
    assert "secret" not in told  # a record's own word
    if code == 2:  # found before anything ran: nothing was written
        after = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
        assert [path for path in after if not path.name.startswith("stream.db-")] == [
            path for path in before if not path.name.startswith("stream.db-")
        ]


def test_every_command_has_ten_mistakes_that_differ() -> None:
    assert set(TABLE) == COMMANDS | {"dpstream"}
    assert min(len(rows) for rows in TABLE.values()) >= LEAST, {
        name: len(rows) for name, rows in TABLE.items()
    }
    lines = [row[0] for rows in TABLE.values() for row in rows]
    assert len(set(lines)) == len(lines)
    for name, rows in TABLE.items():
        assert name == "dpstream" or all(str(row[0]).startswith(name) for row in rows)
