"""One command in this process: its exit code and what it printed."""

import io
import os
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from dpstream.cli.main import main

GOOD = """
[columns.a]
lower = 0
upper = 1
[columns.b]
categories = ["x", "y"]
[targets.t]
lower = 0
upper = 2
[privacy]
epsilon = 1.0
delta = 1e-6
neighbours = "zero_out"
[schedule]
every = 50
horizon = 8
[learner]
name = "PrivIncReg1"
"""


def call(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    out, err, before = io.StringIO(), io.StringIO(), Path.cwd()
    os.chdir(folder)
    try:
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as stopped:
            main(list(arguments))
    finally:
        os.chdir(before)
    return subprocess.CompletedProcess(
        arguments, int(stopped.value.code or 0), out.getvalue(), err.getvalue()
    )


def one_line(done: subprocess.CompletedProcess[str], code: int) -> str:
    assert done.returncode == code, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("dpstream: ")
    assert "Traceback" not in done.stderr
    return lines[0]
