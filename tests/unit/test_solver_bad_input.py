"""Bad batch problems at the command line: one clear line, no release, no charge."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import call, one_line

from dpstream.errors import ConfigurationError
from dpstream.geometry.l2_ball import L2Ball
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.loss import SmoothLoss
from dpstream.losses.record_bound import RecordBound
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.public import public_generator
from dpstream.solvers import minimiser

RECORDS = 120
BATCH = """
[columns.a]
lower = 0
upper = 1
[columns.b]
lower = 0
upper = 1
[targets.t]
lower = 0
upper = 2
[privacy]
epsilon = 1.0
delta = 1e-6
neighbours = "zero_out"
[batch]
records = 120
loss = "squared"
constraint = "l2"
solver = "output_perturbation"
"""

BAD = {
    "empty polytope": (
        'constraint = { name = "polytope", matrix = [[1, 0, 0], [-1, 0, 0]], limits = [-1, -1] }',
        "polytope is empty: no point meets its constraints; relax them",
    ),
    "unbounded polytope": (
        'constraint = { name = "polytope", matrix = [[1, 0, 0]], limits = [1] }',
        "polytope is unbounded; a bounded set is needed: add limits on every coordinate",
    ),
    "no vertices": ('constraint = { name = "hull", vertices = [] }', "vertices"),
    "vertices of two widths": (
        'constraint = { name = "hull", vertices = [[1, 0, 0], [0, 1]] }',
        "give rows of one width",
    ),
    "vertices of another width": (
        'constraint = { name = "hull", vertices = [[1, 0], [0, 1]] }',
        "the set has dimension 2, but the loss has 3 parameters",
    ),
    "inequalities of two widths": (
        'constraint = { name = "polytope", matrix = [[1, 0, 0], [1]], limits = [1, 2] }',
        "matrix is not a table of numbers",
    ),
    "edges of two widths": (
        'constraint = { name = "flow", edges = [[0, 1], [0]], source = 0, sink = 1 }',
        "edges is not a table of numbers",
    ),
    "limits of another width": (
        'constraint = { name = "polytope", matrix = [[1, 0, 0]], limits = [1, 2] }',
        "limits has width 2",
    ),
    "infinite radius": (
        'constraint = { name = "l1", radius = inf }',
        "radius: input should be a finite number",
    ),
    "empty box": (
        'constraint = { name = "box", lower = [0, 0, 1], upper = [1, 1, 0] }',
        "the box would be empty",
    ),
    "infinite slope": (
        'constraint = "l2"\nsolver = "pol"',
        "the Lipschitz constant of the squared loss is infinite on this domain; bound",
    ),
    "no projection error": (
        'constraint = { name = "hull", vertices = [[1, 0, 0], [0, 1, 0], [0, 0, 1]] }',
        "is found by iteration",
    ),
}


def rows(count: int) -> str:
    generator = public_generator(3)
    lines = ["a,b,t"]
    lines += [f"{a:.3f},{b:.3f},{a + b:.3f}" for a, b in generator.uniform(size=(count, 2))]
    return "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("DPSTREAM_KEY", raising=False)
    (tmp_path / "batch.toml").write_text(BATCH)
    (tmp_path / "rows.csv").write_text(rows(RECORDS))
    return tmp_path


@pytest.mark.parametrize("case", BAD)
def test_a_bad_batch_problem_is_one_line_and_begins_nothing(case: str, folder: Path) -> None:
    constraint, message = BAD[case]
    text = BATCH.replace('constraint = "l2"', constraint)
    if "solver = " in constraint:
        text = text.replace('solver = "output_perturbation"\n', "")
    (folder / "batch.toml").write_text(text)
    for command in (("plan", "batch.toml"), ("run", "batch.toml", "--input", "rows.csv")):
        assert message in one_line(call(*command, folder=folder), 2)
    # No store, hence no ledger and no release.
    assert not (folder / "out").exists()


def test_a_minimiser_without_its_certificate_releases_and_charges_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(_: Any, start: Any, *__: Any) -> tuple[Any, float]:
        return start, 1.0

    with monkeypatch.context() as broken:
        broken.setattr(minimiser, "_descent", lost)
        line = one_line(call("run", "batch.toml", "--input", "rows.csv", folder=folder), 1)
    assert "did not reach its certificate" in line
    assert "nothing was released" in line
    # No store, hence no ledger and no release: the whole budget is there for a machine that
    # computes rightly.
    assert not (folder / "out").exists()
    done = call("run", "batch.toml", "--input", "rows.csv", folder=folder)
    assert done.returncode == 0, done.stderr
    spent = json.loads(call("ledger", "out", "--json", folder=folder).stdout)
    assert len(spent["rows"]) == 1
    assert 0.99 < spent["epsilon_spent"] <= 1.0


@pytest.mark.parametrize(
    ("loss", "bound"),
    [
        (SquaredLoss(), RecordBound(feature_l2=1.0)),
        (LogisticLoss(), RecordBound(feature_max=1.0)),
    ],
    ids=["slope", "length"],
)
def test_infinite_constants_are_refused_by_every_question(
    loss: SmoothLoss, bound: RecordBound
) -> None:
    with pytest.raises(ConfigurationError, match="is infinite on this domain; "):
        loss.lipschitz(bound, None)
    chosen = L2Ball(dimension=3)
    for constant in (loss.lipschitz(bound, chosen), loss.smoothness(bound, chosen)):
        assert np.isfinite([constant.l2, constant.max]).all()
    assert np.isfinite(loss.curvature(bound, chosen))
