"""The audit catches every mechanism broken on purpose, and none of the sound ones beside them.

Each sound mechanism's audit fails by chance with probability at most 1e-6; seeds are fixed.
"""

import pytest

from dpstream.audit.finding import Finding
from dpstream.testing.control import Control, Trial, table, trial
from dpstream.testing.control_suite import all_controls, run_controls

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


def test_an_attack_that_finds_nothing_is_no_catch() -> None:
    control = Control(name="thing", fault="fault", attack=lambda seed, broken: ())
    assert not trial(control, 1).holds
