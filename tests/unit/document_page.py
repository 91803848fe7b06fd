"""A page of the documentation, executed as a reader would: block by block, in one folder.

Python blocks share their names. In ``sh`` blocks ``dpstream`` runs in this process, anything else
in a shell. A ``text`` block is the output of the block before it: every line of it has to come, in
that order, where ``...`` stands for anything. A ``toml`` block with a title is written as that
file; one without is laid over the shipped ``flights.toml``, table by table, and must make a stream
or a batch problem with its plan. No other language is there, so that nothing is shown unexecuted.
"""

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from command_line import call

from dpstream.cli.assemble import assemble_stream
from dpstream.cli.config import parse_config
from dpstream.cli.declaration import assemble_budget
from dpstream.cli.part import build_solver
from dpstream.cli.problem import assemble_problem

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
_BLOCK = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')


def fenced(path: Path) -> list[tuple[str, str, str]]:
    """Language, title and text of every fenced block; the title is empty where there is none."""
    return [
        (language, _TITLE.search(rest)[1] if "title=" in rest else "", text)
        for language, rest, text in _BLOCK.findall(path.read_text(encoding="utf-8"))
    ]


@dataclass
class Reader:
    """Somebody who types what a page says into an empty folder beside the examples."""

    folder: Path
    names: dict[str, Any] = field(default_factory=dict[str, Any])
    shown: str = ""

    def follow(self, language: str, title: str, text: str) -> None:
        match language:
            case "python":
                out = io.StringIO()
                with chdir(self.folder), redirect_stdout(out):
                    exec(compile(text, "block", "exec"), self.names)
                self.shown = out.getvalue()
            case "sh":
                lines = text.replace("\\\n", " ").splitlines()
                self.shown = "".join(self.type(line) for line in lines)
            case "toml" if title:
                (self.folder / title).write_text(text, encoding="utf-8")
            case "toml":
                lay_over_flights(text)
            case "text":
                expect(text, self.shown)
            case _:
                raise AssertionError(f"nobody knows how to execute {language!r}")

    def type(self, line: str) -> str:
        words = shlex.split(line, comments=True)
        if not words:
            return ""
        if words[0] == "cd":
            self.folder = (self.folder / words[1]).resolve()
            return ""
        if words[0] == "dpstream" and not {"|", ">", "||"} & set(words):
            done = call(*words[1:], folder=self.folder)
        else:
            path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
            done = subprocess.run(
                ["bash", "-o", "pipefail", "-c", line],
                cwd=self.folder,
                env=os.environ | {"PATH": path},
                capture_output=True,
                text=True,
                check=False,
            )
        assert done.returncode == 0, f"{line}: {done.stderr}"
        return done.stdout + done.stderr


def expect(pattern: str, shown: str) -> None:
    """Every line of the pattern comes, in order; a line of dots is any number of lines."""
    rest = iter(shown.splitlines())
    for line in pattern.splitlines():
        if line == "...":
            continue
        wanted = re.compile(r".*".join(map(re.escape, line.rstrip().split("..."))))
        assert any(wanted.fullmatch(given.rstrip()) for given in rest), f"{line!r} not in:\n{shown}"


def lay_over_flights(text: str) -> None:
    """The shipped configuration with these tables makes a stream, or a planned batch problem."""
    tables = tomllib.loads((EXAMPLES / "flights" / "flights.toml").read_text(encoding="utf-8"))
    given = tomllib.loads(text)
    if "batch" in given:
        del tables["learner"], tables["schedule"]
    config = parse_config(tables | given, name="the block over flights.toml")
    if config.batch is None:
        assemble_stream(config)
        return
    problem = assemble_problem(config, config.batch)
    plan = build_solver(config.batch.solver, key="batch.solver").plan(
        problem, assemble_budget(config)
    )
    assert plan.excess_bound > 0.0


def run_page(path: Path, folder: Path) -> None:
    """Execute a page."""
    shutil.copytree(EXAMPLES, folder / "examples")
    reader = Reader(folder)
    for block in fenced(path):
        reader.follow(*block)
