"""All negative controls, and their table: ``python -m dpstream.testing.control_suite``."""

import sys
from collections.abc import Iterable

from dpstream.testing.control import Control, Trial, table, trial
from dpstream.testing.control_measurement import measurement_controls
from dpstream.testing.control_printed import printed_controls
from dpstream.testing.control_sum import sum_controls


def all_controls() -> tuple[Control, ...]:
    """Every fault that the audit has to catch."""
    return (*sum_controls(), *measurement_controls(), *printed_controls())


def run_controls(seeds: Iterable[int]) -> list[Trial]:
    """Every control once for every seed."""
    return [trial(control, seed) for seed in seeds for control in all_controls()]


if __name__ == "__main__":
    trials = run_controls([1])
    sys.stdout.write(table(trials) + "\n")
    sys.exit(not all(each.holds for each in trials))
