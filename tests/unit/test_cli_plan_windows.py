"""What ``plan`` says of learners over blocks: shares, history, memories for a guessed drift."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from command_line import call, one_line

CONFIG = """
[columns.a]
lower = 0
upper = 1
[targets.t]
labels = ["no", "yes"]
[privacy]
epsilon = {epsilon}
delta = {delta}
neighbours = "zero_out"
[schedule]
{schedule}
[learner]
name = "{name}"
loss = "logistic"
ridge = 0.1
radius = 2.0
{options}
"""


def planned(
    folder: Path,
    name: str,
    options: str,
    *asked: str,
    schedule: str = "every = 50",
    delta: str = "1e-6",
) -> dict[str, Any]:
    text = CONFIG.format(name=name, options=options, schedule=schedule, delta=delta, epsilon=1.0)
    (folder / "c.toml").write_text(text, encoding="utf-8")
    done = call("plan", "c.toml", "--json", *asked, folder=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("name", "options", "sizes", "kept"),
    [
        ("SlidingWindowRelease", "window_records = 350", [7], 6),
        ("DecayedRelease", "decay = 0.9", [1], 0),
        ("MultiResolutionRelease", "levels = 3", [4, 2, 1], 3),
        ("BasicRelease", "base = 2", None, None),
    ],
)
def test_shares_and_history_are_told_before_any_data(
    name: str, options: str, sizes: list[int] | None, kept: int | None, tmp_path: Path
) -> None:
    found = planned(tmp_path, name, options)
    assert math.fsum(level["fraction"] for level in found["levels"]) == pytest.approx(1.0, abs=1e-3)
    assert sizes is None or [level["blocks"] for level in found["levels"]] == sizes
    assert found["longest_history_in_blocks"] == kept
    assert "drift" not in found
    shown = call("plan", "c.toml", folder=tmp_path).stdout
    assert "share" in shown
    assert ("whole life" if kept is None else f"at most {kept} blocks") in shown


def test_a_balanced_ridge_is_told_and_is_its_own_balance(tmp_path: Path) -> None:
    """Bounds ``g R^2 / 2`` and ``L noise / g`` are equal there."""
    options = "window_records = 500"
    ridge = planned(tmp_path, "SlidingWindowRelease", options)["ridge"]
    assert ridge["declared"] == 0.1
    text = (tmp_path / "c.toml").read_text(encoding="utf-8")
    text = text.replace("ridge = 0.1", f"ridge = {ridge['balanced']!r}")
    (tmp_path / "c.toml").write_text(text, encoding="utf-8")
    found = json.loads(call("plan", "c.toml", "--json", folder=tmp_path).stdout)
    assert found["ridge"]["balanced"] == pytest.approx(ridge["balanced"], rel=1e-3)
    noise = found["levels"][0]["noise_length"]
    # Features with their constant have the length sqrt(2), and scores at most twice that.
    slope = math.sqrt(2) / (1.0 + math.exp(-2.0 * math.sqrt(2)))
    assert ridge["balanced"] * 2.0**2 / 2 == pytest.approx(slope * noise, rel=1e-3)
    assert "bounds on bias and noise balance" in call("plan", "c.toml", folder=tmp_path).stdout


def test_a_horizon_bounds_the_history_of_cumulative_models(tmp_path: Path) -> None:
    """Bases after 8 and 16 of 20 blocks: nothing before the last base is kept after it."""
    schedule = "every = 50\nhorizon = 20"
    found = planned(tmp_path, "ContinualRelease", "base = 8", schedule=schedule)
    assert found["longest_history_in_blocks"] == 15


@pytest.mark.parametrize(("every", "kept"), [(1, 6), (5, 10), (0, None)])
def test_records_wait_for_the_next_release(every: int, kept: int | None, tmp_path: Path) -> None:
    schedule = f"every = 50\npublish_every = {every}"
    found = planned(tmp_path, "SlidingWindowRelease", "window_records = 350", schedule=schedule)
    assert found["longest_history_in_blocks"] == kept


def test_memories_are_compared_for_a_guess(tmp_path: Path) -> None:
    options = "window_records = 500"
    calm = planned(tmp_path, "SlidingWindowRelease", options, "--drift", "0")["drift"]
    assert calm["memories"][0]["name"] == "sliding, 64 blocks"
    assert {item["name"] for item in calm["memories"]} > {"as configured", "cumulative"}
    moving = planned(tmp_path, "SlidingWindowRelease", options, "--drift", "1")["drift"]
    assert moving["memories"][-1]["name"] == "cumulative"
    assert moving["memories"][0]["mean_age"] < calm["memories"][0]["mean_age"]
    errors = [item["error"] for item in moving["memories"]]
    assert errors == sorted(errors)
    jumped = planned(
        tmp_path, "SlidingWindowRelease", options, "--change", "50", "--changed-at", "110"
    )["drift"]
    bias = {item["name"]: item["bias"] for item in jumped["memories"]}
    assert jumped["block"] == 128
    assert bias["sliding, 16 blocks"] == 0.0 < bias["as configured"] + bias["cumulative"]
    shown = call("plan", "c.toml", "--drift", "0.1", folder=tmp_path).stdout
    assert "mean age in blocks" in shown
    assert "decayed, 0.33 per block" in shown


def test_pure_noise_compares_what_it_can_run_for_ever(tmp_path: Path) -> None:
    options = "decay = 0.9\nnoise = 'spherical_laplace'"
    found = planned(tmp_path, "DecayedRelease", options, "--drift", "0.1", delta="0.0")
    assert "cumulative" in {item["name"] for item in found["drift"]["memories"]}


def test_a_guess_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    planned(tmp_path, "SlidingWindowRelease", "window_records = 500")
    said = one_line(call("plan", "c.toml", "--drift", "0.1", "--block", "9", folder=tmp_path), 2)
    assert "from block 10 on" in said
    assert call("plan", "c.toml", "--drift", "-1", folder=tmp_path).returncode == 2
    for wrong, why in (("nan", "greater than or equal to 0"), ("inf", "finite and at least 0")):
        said = one_line(call("plan", "c.toml", "--drift", wrong, folder=tmp_path), 2)
        assert why in said
    text = (tmp_path / "c.toml").read_text(encoding="utf-8")
    text = text.replace("SlidingWindowRelease", "FollowTheLeader").replace("ridge", "bend")
    text = text.replace("window_records = 500\n", "").replace("radius = 2.0\n", "")
    (tmp_path / "c.toml").write_text(text, encoding="utf-8")
    said = one_line(call("plan", "c.toml", "--drift", "0.1", folder=tmp_path), 2)
    assert "learners over blocks" in said
