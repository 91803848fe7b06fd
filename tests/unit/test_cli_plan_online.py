"""What ``plan`` says of online learners: prices of releases by the way to publish, and noise."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import call

CONFIG = """
[columns.a]
lower = 0
upper = 1
[targets.t]
labels = ["no", "yes"]
[privacy]
epsilon = 1.0
delta = 1e-6
neighbours = "zero_out"
[schedule]
every = 50
records = 10000
publish_every = {publish_every}
[learner]
loss = "logistic"
{options}
"""
POCP = 'name = "POCP"\nmodulus = 0.1\nalgorithm = "pigd"'


def planned(folder: Path, options: str, publish_every: int) -> dict[str, Any]:
    text = CONFIG.format(options=options, publish_every=publish_every)
    (folder / "c.toml").write_text(text, encoding="utf-8")
    done = call("plan", "c.toml", "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    shown = call("plan", "c.toml", folder=folder)
    assert shown.returncode == 0, shown.stderr
    return json.loads(done.stdout) | {"shown": shown.stdout}


def test_three_ways_to_publish_have_three_prices(tmp_path: Path) -> None:
    always, some, asked = (planned(tmp_path, POCP, publish) for publish in (1, 20, 0))
    for found in (always, some, asked):
        assert "noise of each parameter" in found["shown"]
    # 200 ticks of 50 records; every 20th of them; as many as anybody will ever ask for.
    assert always["releases"][-1]["release"] == 200
    assert [some["releases"][k]["records"] for k in (0, -1)] == [1000, 10_000]
    assert asked["releases"][-1]["release"] == 1_000_000
    last = [found["releases"][-1]["standard_deviation"] for found in (always, some)]
    assert last[0] > 3.0 * last[1]
    shares = [found["releases"][0]["share"] for found in (some, always, asked)]
    assert shares == sorted(shares, reverse=True)
    for found in (always, some, asked):
        # For one shift, noise is the inverse root of the share. The lattice adds a little to it,
        # and after millions of records what floats may have added to the iterate.
        first = found["releases"][0]
        level = first["standard_deviation"] * first["share"] ** 0.5 * (first["records"] + 1)
        for item in found["releases"]:
            own = item["standard_deviation"] * item["share"] ** 0.5 * (item["records"] + 1)
            assert own == pytest.approx(level, rel=0.03) or item["records"] > 10_000_000


def test_a_leaders_noise_is_planned(tmp_path: Path) -> None:
    found = planned(tmp_path, 'name = "FollowTheLeader"', 1)
    assert found["noise"]["strategy"] == "blt"
    assert "largest standard deviation of the noise" in found["shown"]
    assert found["strategies"][0]["largest_standard_deviation"] > 0.0
