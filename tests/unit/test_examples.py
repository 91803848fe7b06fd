"""Every example configuration runs on a short prefix of the shipped flights."""

import gzip
import json
from pathlib import Path

import pytest
from command_line import call

from dpstream.cli.assemble import assemble_stream
from dpstream.cli.config import load_config
from dpstream.cli.learner import LEARNERS
from dpstream.learners.window.block_learner import BlockLearner

FLIGHTS = Path(__file__).parents[2] / "examples" / "flights"
EXAMPLES = sorted(FLIGHTS.glob("*.toml"))


def prefix(config: Path, folder: Path) -> int:
    """Writes as many flights as make a few releases; returns how many ticks they close."""
    declared = load_config(config)
    assert declared.schedule is not None
    assert declared.schedule.every is not None
    learner = assemble_stream(declared).learner
    ticks = 1 + (learner.rule.first if isinstance(learner, BlockLearner) else 1)
    with gzip.open(FLIGHTS / "flights.csv.gz", "rt", encoding="utf-8") as flights:
        lines = [next(flights) for _ in range(1 + ticks * declared.schedule.every)]
    (folder / "flights.csv").write_text("".join(lines))
    return ticks


def test_every_learner_has_an_example() -> None:
    assert {load_config(path).learner.name for path in EXAMPLES} >= set(LEARNERS)


@pytest.mark.parametrize("config", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_is_planned_and_verified(config: Path, tmp_path: Path) -> None:
    ticks = prefix(config, tmp_path)
    done = call("run", str(config), "--input", "flights.csv", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["tick"] == ticks
    assert 0 <= summary["epsilon_spent"] <= summary["epsilon"] * (1 + 1e-9)
    assert "<svg" in (tmp_path / "out" / "report.html").read_text()
    model = json.loads((tmp_path / "out" / "model.json").read_text())["model"]
    assert model["kind"] in ("linear", "scores", "sum")
    verified = call("verify", "out", "--json", folder=tmp_path)
    assert json.loads(verified.stdout)["passed"]
    plan = json.loads(call("plan", str(config), "--json", folder=tmp_path).stdout)
    assert plan["learner"] == load_config(config).learner.name
    shown = call("ledger", "out", folder=tmp_path)
    assert "spent: epsilon" in shown.stdout
    comment = config.read_text().splitlines()[0]
    assert comment.startswith("# ")
