"""What ``plan`` says where the learner is chosen among the incremental ones."""

import json
from pathlib import Path

from command_line import call

CONFIG = """
[columns.a]
lower = 0
upper = 1
[columns.b]
lower = 0
upper = 1
[columns.c]
lower = 0
upper = 1
[targets.y]
lower = -1
upper = 1
[privacy]
epsilon = 1.0
delta = 1e-6
neighbours = "zero_out"
[schedule]
every = 100
records = 20_000
[learner]
name = "auto"
draws = 1
projection_seed = 5
constraint = { name = "L1Ball", radius = 1.0 }
"""


def test_the_three_learners_are_compared_over_time_with_a_picture(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(CONFIG, encoding="utf-8")
    done = call("plan", "c.toml", "--json", "--picture", "plan.html", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    compared = found["comparison"]
    names = [item["learner"] for item in compared["candidates"]]
    assert sorted(names) == ["priv_inc_erm", "priv_inc_reg1", "priv_inc_reg2"]
    assert names[0] == compared["take"]
    assert compared["reason"].startswith(names[0])
    able = [item for item in compared["candidates"] if item["refusal"] is None]
    assert len(able) >= 2
    for item in able:
        assert item["over_time"][-1]["records"] == 20_000
        assert item["worst_excess"] == max(step["excess"] for step in item["over_time"])
    worst = [item["worst_excess"] for item in able]
    assert worst == sorted(worst)
    # The noise is that of the learner that would be taken.
    assert found["noise"]["coordinates"] > 0
    page = (tmp_path / "plan.html").read_text()
    assert "excess risk of the whole sum" in page
    assert all(name in page for name in names)
    told = call("plan", "c.toml", folder=tmp_path)
    assert f"take {names[0]}" in told.stdout
    assert all(name in told.stdout for name in names)
