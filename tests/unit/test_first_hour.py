"""A newcomer's first hour: from the package to a private model of a CSV, by Python and by command.

The commands are the README's own; the same stream comes out of both.
"""

import importlib.metadata
import json
import math
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import call
from packaging.requirements import Requirement
from test_documents import blocks

from dpstream.cli.assemble import assemble_stream
from dpstream.cli.config import load_config
from dpstream.mechanisms.public import public_generator
from dpstream.saved import load_model

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "first_hour.py"
COMMANDS = next(
    block for block in blocks(ROOT / "README.md", "sh") if "dpstream init" in block
).splitlines()

OPTIONAL = ("highspy", "matplotlib", "onnx", "pandas", "polars", "pyarrow", "river", "sklearn")
LIMIT = 60_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    generator = public_generator(5)
    lines = ["age,town,income,shoes"]
    for _ in range(2100):
        age, town = generator.integers(18, 91), generator.integers(0, 2)
        income = 200 + 9 * age + 100 * town + 40 * generator.standard_normal()
        lines.append(f"{age},{['here', 'there'][town]},{income:.1f},{generator.integers(35, 48)}")
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_the_script_has_at_most_fifteen_lines() -> None:
    lines = [line for line in SCRIPT.read_text().splitlines() if line.strip()]
    assert "pip install dpstream" in lines[0]
    assert len(lines) <= 15


def test_the_script_makes_a_model_of_a_csv(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(SCRIPT), "people.csv"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [int(line.split()[0]) for line in lines] == [1, 2, 3, 4]
    for line in lines:
        estimate = json.loads(line.partition(" ")[2])
        assert len(estimate) == 3  # of an age, and of two indicators of towns
        assert all(math.isfinite(number) for number in estimate)


def test_three_commands_make_the_same_stream(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert COMMANDS[0] == "pip install dpstream"
    assert len(COMMANDS) == 4
    for line in COMMANDS[1:]:
        words = shlex.split(line, comments=True)
        done = call(*words[1:], folder=folder)
        assert (done.returncode, done.stderr) == (0, ""), line
    model = load_model(folder / "mine" / "model.dps")
    assert model.release.tick == 4
    assert model.card.epsilon_spent <= 1.0
    declared = assemble_stream(load_config(folder / "mine.toml")).identity()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["first_hour.py", "people.csv"])
    made = runpy.run_path(str(SCRIPT))["stream"].identity()
    # The command also declares how many records a tick has, which sizes integers, not noise.
    sizes = [each["learner"]["sum"].pop("increment_bound") for each in (made, declared)]
    assert sizes == [65536.0, 500.0]
    assert made == declared
    assert capsys.readouterr().out.count("\n") == 4


def installed_closure(name: str) -> dict[str, importlib.metadata.Distribution]:
    """A distribution and all that it needs without extras."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = [name]
    while waiting:
        distribution = importlib.metadata.distribution(waiting.pop())
        known = distribution.metadata["Name"].lower().replace("_", "-")
        if known in found:
            continue
        found[known] = distribution
        for line in distribution.requires or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return found


def test_without_extras_it_brings_little() -> None:
    found = installed_closure("dpstream")
    assert {"numpy", "scipy", "numba", "cryptography", "typer"} <= set(found)
    assert not {"scikit-learn", "matplotlib", "pandas", "pyarrow", "river"} & set(found)
    sizes = {
        name: sum(
            Path(str(item.locate())).stat().st_size
            for item in distribution.files or []
            if Path(str(item.locate())).exists()
        )
        for name, distribution in found.items()
        # numba is llvmlite with a front.
        if name not in ("dpstream", "numpy", "scipy", "numba", "llvmlite")
    }
    assert sum(sizes.values()) < LIMIT, sizes
    assert sum(sizes.values()) > LIMIT / 10  # they were really counted


WITHOUT = f"""
import importlib.abc, pkgutil, sys, importlib

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {OPTIONAL!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.partition(".")[0])

sys.meta_path.insert(0, Absent())
import dpstream
failed = {{}}
for info in pkgutil.walk_packages(dpstream.__path__, "dpstream."):
    if info.name.endswith(("__main__", "crash_preload")):  # importing these runs them
        continue
    try:
        importlib.import_module(info.name)
    except ModuleNotFoundError as error:
        failed[info.name] = error.name
for name in dpstream.__all__:
    getattr(dpstream, name)
import json
print(json.dumps(failed))
"""


def test_it_imports_without_optional_packages() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True
    )
    failed = json.loads(done.stdout)
    # What is left are the modules that are adapters to such a package, and say so when asked for.
    assert {name.rpartition(".")[0] for name in failed} <= {"dpstream.estimators"}, failed
    assert set(failed.values()) <= {"pandas", "river", "sklearn"}
    assert "dpstream.estimators.grant" not in failed
