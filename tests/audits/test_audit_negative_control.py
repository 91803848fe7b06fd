"""The audit catches every mechanism broken on purpose, and none of the sound ones beside them.

Each sound mechanism's audit fails by chance with probability at most 1e-6; seeds are fixed.
"""

import json

import pytest

from dpstream.audit.finding import Finding
from dpstream.testing.control import Control, Trial, table, trial
from dpstream.testing.control_suite import all_controls, main, run_controls, shared_controls

CONTROLS = all_controls()
NAMES = [f"{control.name}: {control.fault}" for control in CONTROLS]


@pytest.mark.parametrize("control", CONTROLS, ids=NAMES)
def test_the_fault_is_caught_and_the_sound_one_passes(control: Control) -> None:
    found = trial(control, 1)
    assert found.caught_by, f"not caught: {control.name}: {control.fault}"
    assert not found.false_alarms, [str(finding) for finding in found.false_alarms]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3, 4, 5, 6])
def test_every_repeat_gives_the_same_verdicts(seed: int) -> None:
    trials = run_controls([seed])
    assert all(each.holds for each in trials), table(each for each in trials if not each.holds)


def test_there_are_enough_faults_and_each_is_one_of_its_kind() -> None:
    assert len(CONTROLS) >= 25
    assert len(set(NAMES)) == len(NAMES)


def test_the_table_says_what_was_not_caught() -> None:
    good, bad = Finding("found", 2.0, 0.0, 1.0), Finding("alarm", -1.0, 0.0, 1.0)
    control = Control(name="thing", fault="fault", attack=lambda seed, broken: ())
    rows = table(
        [
            Trial(control=control, seed=1, caught_by=(good,), false_alarms=()),
            Trial(control=control, seed=1, caught_by=(), false_alarms=(bad,)),
        ]
    ).splitlines()
    assert len(rows) == 4
    assert "found" in rows[2]
    assert rows[2].endswith("passes")
    assert "NOT CAUGHT" in rows[3]
    assert rows[3].endswith("FAILS alarm")


def test_the_command_prints_the_table_and_its_error_rate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = Finding("found", 2.0, 0.0, 1.0), Finding("alarm", -1.0, 0.0, 1.0)
    control = Control(name="thing", fault="fault")
    outcomes = {
        1: Trial(control=control, seed=1, caught_by=(good,), false_alarms=()),
        2: Trial(control=control, seed=2, caught_by=(), false_alarms=(bad,)),
    }
    monkeypatch.setattr(
        "dpstream.testing.control_suite.shared_controls",
        lambda seeds, workers: [outcomes[seed] for seed in seeds],
    )
    assert main(["--repeats", "1"]) == 0
    assert "1 faults, 1 trials: 1 caught, 0 missed; sound mechanisms: 0" in capsys.readouterr().out
    assert main(["--repeats", "2", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert not told["passed"]
    assert "together 2e-06" in told["statement"]
    assert [each["holds"] for each in told["trials"]] == [True, False]
    assert told["trials"][1]["false_alarms"][0]["name"] == "alarm"
    with pytest.raises(SystemExit):
        main(["--repeats", "0"])


def test_processes_share_the_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    # Children import the true list; the first control of it is run here.
    first = all_controls()[:1]
    monkeypatch.setattr("dpstream.testing.control_suite.all_controls", lambda: first)
    (there,) = shared_controls([3], workers=1)
    (here,) = run_controls([3])
    assert there.holds
    assert there.caught_by == here.caught_by
    assert (there.control.name, there.control.fault) == (first[0].name, first[0].fault)


def test_an_attack_that_finds_nothing_is_no_catch() -> None:
    control = Control(name="thing", fault="fault", attack=lambda seed, broken: ())
    assert not trial(control, 1).holds
