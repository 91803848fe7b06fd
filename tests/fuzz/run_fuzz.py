"""``make fuzz COUNT=1000000``: so many cases over all targets, by atheris and by hypothesis.

Each target runs in a process of its own; atheris is guided by the coverage of dpstream. A case
that breaks a promise ends its target, is written to a file and makes the exit code 1.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

SHARES = {
    "release_line": 0.30,
    "state_bytes": 0.20,
    "ledger_row": 0.12,
    "released_model": 0.12,
    "text_records": 0.12,
    "admission": 0.08,
    "configuration": 0.04,
    "store_file": 0.01,
    "stream_of_records": 0.01,
}
"""Of all cases: quick targets get more of them."""

HYPOTHESIS = 0.02
"""Of each target's cases; the others are atheris's."""

_LENGTH = 600


def say(line: str) -> None:
    """At once, for long runs are watched."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def by_atheris(name: str, count: int, seed: int, folder: Path) -> None:
    """So many guided cases of one target; ends the process."""
    import atheris

    with atheris.instrument_imports(include=["dpstream"]):
        from fuzz_target import TARGETS
    known = folder / f"corpus-{name}"
    known.mkdir(parents=True, exist_ok=True)
    arguments = [
        sys.argv[0],
        f"-runs={count}",
        f"-seed={seed}",
        f"-max_len={_LENGTH}",
        f"-artifact_prefix={folder}/{name}-",
        "-print_final_stats=1",
        "-verbosity=1",
        "-timeout=120",
        str(known),
    ]
    atheris.Setup(arguments, TARGETS[name])
    atheris.Fuzz()


def by_hypothesis(name: str, count: int, seed: int) -> None:
    """So many cases of one target, shrunk if one breaks."""
    import hypothesis
    from fuzz_target import TARGETS
    from hypothesis import strategies as st

    ran = 0

    def case(data: bytes) -> None:
        nonlocal ran
        ran += 1
        TARGETS[name](data)

    check = hypothesis.given(st.binary(max_size=_LENGTH))(case)
    check = hypothesis.settings(max_examples=count, database=None, deadline=None)(check)
    hypothesis.seed(seed)(check)()
    say(f"stat::number_of_executed_units: {ran}")


def _ran(text: str) -> int:
    """The number of cases that a child says it ran."""
    found = [line for line in text.splitlines() if "number_of_executed_units" in line]
    return int(found[-1].rpartition(":")[2]) if found else 0


def main() -> int:
    """Run everything; 1 if anything broke."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", choices=SHARES)
    parser.add_argument("--engine", choices=("atheris", "hypothesis"))
    parser.add_argument("--out", type=Path, default=Path("fuzz-out"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.target and options.engine:
        if options.engine == "atheris":
            by_atheris(options.target, options.count, options.seed, options.out)
        else:
            by_hypothesis(options.target, options.count, options.seed)
        return 0
    total, broken = 0, False
    for name, share in SHARES.items():
        if options.target not in (None, name):
            continue
        cases = options.count if options.target else round(options.count * share)
        for engine, part in (("hypothesis", HYPOTHESIS), ("atheris", 1.0 - HYPOTHESIS)):
            wanted = max(1, round(cases * part))
            start = time.monotonic()
            child = subprocess.run(
                [
                    sys.executable,
                    __file__,
                    f"--target={name}",
                    f"--engine={engine}",
                    f"--count={wanted}",
                    f"--seed={options.seed}",
                    f"--out={options.out}",
                ],
                capture_output=True,
                text=True,
                check=False,
            )
            told = child.stdout + child.stderr
            ran = _ran(told)
            total += ran
            verdict = "ok"
            if child.returncode or ran == 0:
                broken, verdict = True, "BROKEN"
                (options.out / f"{name}-{engine}.txt").write_text(told, encoding="utf-8")
            seconds = time.monotonic() - start
            say(f"{verdict:7}{name:20}{engine:12}{ran:>9,} cases {seconds:8.1f} s")
    say(f"{total:,} cases in all, {'some BROKEN' if broken else 'every promise kept'}")
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
