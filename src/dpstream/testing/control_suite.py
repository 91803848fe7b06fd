"""All negative controls, and their table: ``python -m dpstream.testing.control_suite``.

Every fault is run with several seeds beside its sound counterpart. The stated error rate: a sound
mechanism fails one trial with probability at most 1e-6, so that the whole suite raises a false
alarm with at most that times its trials. A fault that is not caught, in any trial, fails the suite.
"""

import argparse
import json
import multiprocessing
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor

from dpstream.audit.gaussian import FALSE_ALARM
from dpstream.testing.control import Control, Trial, table, trial
from dpstream.testing.control_learner import learner_controls
from dpstream.testing.control_measurement import measurement_controls
from dpstream.testing.control_printed import printed_controls
from dpstream.testing.control_sum import sum_controls

REPEATS = 5


def all_controls() -> tuple[Control, ...]:
    """Every fault that the audit has to catch."""
    return (*sum_controls(), *measurement_controls(), *printed_controls(), *learner_controls())


def run_controls(seeds: Iterable[int]) -> list[Trial]:
    """Every control once for every seed."""
    return [trial(control, seed) for seed in seeds for control in all_controls()]


def _outcome(number: int, seed: int) -> Trial:
    """One trial, in a process of its own: controls hold functions, which do not travel."""
    found = trial(all_controls()[number], seed)
    return Trial(
        control=Control(name=found.control.name, fault=found.control.fault),
        seed=seed,
        caught_by=found.caught_by,
        false_alarms=found.false_alarms,
    )


def shared_controls(seeds: Sequence[int], *, workers: int) -> list[Trial]:
    """The same by several processes."""
    jobs = [(number, seed) for seed in seeds for number in range(len(all_controls()))]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        return list(pool.map(_outcome, *zip(*jobs, strict=True)))


def stated_error(trials: Sequence[Trial]) -> str:
    """What was caught, what was not, and how often chance alone would raise an alarm."""
    caught = sum(bool(each.caught_by) for each in trials)
    alarms = sum(bool(each.false_alarms) for each in trials)
    faults = len({(each.control.name, each.control.fault) for each in trials})
    return (
        f"{faults} faults, {len(trials)} trials: {caught} caught, {len(trials) - caught} missed; "
        f"sound mechanisms: {alarms} false alarms, each of probability at most {FALSE_ALARM:g}, "
        f"together {FALSE_ALARM * len(trials):.2g}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite; 1 unless every fault is caught and no sound mechanism is."""
    parser = argparse.ArgumentParser(prog="python -m dpstream.testing.control_suite")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="seeds for each fault")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="one object instead of the table")
    options = parser.parse_args(arguments)
    if options.repeats < 1 or options.workers < 1:
        parser.error("--repeats and --workers are at least 1")
    seeds = range(options.first_seed, options.first_seed + options.repeats)
    trials = shared_controls(seeds, workers=options.workers)
    if options.json:
        told = {
            "passed": all(each.holds for each in trials),
            "statement": stated_error(trials),
            "trials": [each.to_json() for each in trials],
        }
        sys.stdout.write(json.dumps(told, allow_nan=False) + "\n")
    else:
        sys.stdout.write(f"{table(trials)}\n\n{stated_error(trials)}\n")
    return int(not all(each.holds for each in trials))


if __name__ == "__main__":
    sys.exit(main())
