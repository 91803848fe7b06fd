"""How long the command line takes: to start, and to stream a file into a model.

*Starting* is measured against importing numpy. *Streaming* is ``dpstream run`` over a CSV file
(admission, exact sums, a release every thousand records, encrypted store, ledger, no report);
``dpstream verify`` recomputes what it left. Their floor is a process that reads the same file with
Python's csv module into a matrix of floats, and does nothing else. All are fresh processes, in
turns, the best of several.
"""

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from dpstream.bench.history import Watch
from dpstream.mechanisms.public import public_generator

WATCHED = (
    Watch("starting/ratio/*", "lower"),
    Watch("streaming/run, share of the floor's rate", "higher"),
    Watch("streaming/verify, share of the floor's rate", "higher"),
)

LARGEST_START = 4.0
"""How many times ``import numpy`` starting may take."""

RECORDS = 100_000
COLUMNS = 10
_STARTS = 9
_ROUNDS = 3

_FLOOR = ("-c", "import numpy")
_STARTING: Mapping[str, tuple[str, ...]] = {
    "import dpstream": ("-c", "import dpstream"),
    "dpstream --help": ("-m", "dpstream.cli", "--help"),
}
_READER = """
import csv, sys, numpy
with open(sys.argv[1], newline="") as file:
    rows = csv.reader(file)
    next(rows)
    numpy.array([[float(value) for value in row] for row in rows])
"""
_CONFIGURATION = """
[source]
path = "records.csv"
{columns}
[targets.y]
lower = -1
upper = 1
[privacy]
epsilon = 1.0
delta = 1e-6
neighbours = "zero_out"
[schedule]
every = 1000
records = {records}
[output]
report = false
[learner]
name = "PrivIncReg1"
"""


def run() -> dict[str, Any]:
    """Both parts."""
    return {"starting": starting(), "streaming": streaming()}


def starting() -> dict[str, Any]:
    """Importing the package, and asking for help."""
    best: dict[str, float] = {}
    for _ in range(_STARTS):
        for name, arguments in {"import numpy": _FLOOR, **_STARTING}.items():
            best[name] = min(best.get(name, float("inf")), seconds(*arguments))
    return {
        "seconds": best,
        "ratio": {name: best[name] / best["import numpy"] for name in _STARTING},
        "largest ratio allowed": LARGEST_START,
    }


def streaming(*, records: int = RECORDS, rounds: int = _ROUNDS) -> dict[str, Any]:
    """A file into a model, and the model's proof."""
    best = {"read": float("inf"), "run": float("inf"), "verify": float("inf")}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        configuration = write_stream(folder, records)
        for turn in range(rounds):
            out = str(folder / f"out{turn}")
            commands = {
                "read": ("-c", _READER, str(folder / "records.csv")),
                "run": ("-m", "dpstream.cli", "run", str(configuration), "--out", out),
                "verify": ("-m", "dpstream.cli", "verify", out),
            }
            for part, arguments in commands.items():
                best[part] = min(best[part], seconds(*arguments))
    return {
        "records": records,
        "columns": COLUMNS + 1,
        "records per second": {part: records / taken for part, taken in best.items()},
        "run, share of the floor's rate": best["read"] / best["run"],
        "verify, share of the floor's rate": best["read"] / best["verify"],
    }


def write_stream(folder: Path, records: int) -> Path:
    """Made-up records and their configuration, whose path is returned."""
    values = np.clip(public_generator(11).normal(0.0, 0.3, (records, COLUMNS + 1)), -1.0, 1.0)
    names = [f"x{number}" for number in range(COLUMNS)]
    np.savetxt(
        folder / "records.csv",
        values,
        fmt="%.5f",
        delimiter=",",
        header=",".join([*names, "y"]),
        comments="",
    )
    columns = "".join(f"[columns.{name}]\nlower = -1\nupper = 1\n" for name in names)
    path = folder / "stream.toml"
    path.write_text(_CONFIGURATION.format(columns=columns, records=records), encoding="utf-8")
    return path


def seconds(*arguments: str) -> float:
    """Time of a fresh interpreter with these arguments."""
    started = perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - started
