"""The benchmark against peers: its judge, its pins, and that it leaves the project alone."""

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from dpstream.bench import online as bench
from dpstream.mechanisms.mechanism import Noise

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def peers():  # a module that is loaded by its path
    spec = importlib.util.spec_from_file_location("online_peers", FOLDER / "online_peers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_judge_agrees_with_the_projects_own_figures(peers) -> None:
    stream = bench.logistic_stream(3, records=3000)
    points = peers.our_points(stream, bench.BUDGET, 1)
    course = bench.follow(bench.leader(stream), stream, Noise.insecure(1))
    assert peers.mean_loss(stream, points) == pytest.approx(course.loss, rel=1e-9)
    # At the best fixed model, the excess is none; at the model of zeros the loss is ln 2.
    zeros = np.zeros_like(points)
    assert peers.mean_loss(stream, zeros) == pytest.approx(np.log(2.0))
    assert bench.best_fixed_loss(stream) < peers.mean_loss(stream, points)


def test_models_of_a_wrong_shape_are_no_figure(peers) -> None:
    stream = bench.logistic_stream(3, records=500)
    count = len(stream.ends)
    for wrong in (np.zeros((count - 1, 54)), np.full((count, 54), np.nan)):
        with pytest.raises(ValueError, match="models of shape"):
            peers.mean_loss(stream, wrong)


def test_peers_never_enter_the_projects_environment(
    peers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(SystemExit, match="project's own environment"):
        peers.make_environment(Path(sys.prefix), torch=False)
    monkeypatch.setenv("PYTHONPATH", "src")
    assert not any(name.startswith("PYTHON") for name in peers.own_environment())


def test_peers_are_pinned_and_named_without_addresses(peers) -> None:
    for file in ("peers.txt", "peers-torch.txt"):
        lines = (FOLDER / file).read_text().splitlines()
        wanted = [line for line in lines if line and not line.startswith("#")]
        assert all(re.fullmatch(r"[a-z-]+==[\d.]+", line) for line in wanted)
    scripts = {path.stem: path.read_text() for path in (FOLDER / "peers").glob("*.py")}
    assert {*peers.PEERS, *peers.TORCH_PEERS, "running_sums", "budgets"} == set(scripts)
    for text in scripts.values():
        # A peer's process has its own packages only.
        assert "import dpstream" not in text
        assert "from dpstream" not in text
