"""``make mutation``: every small fault of the packages that promise privacy, against their tests.

For each mutant a process is forked that has the libraries loaded and nothing of dpstream. It
imports the faulty module in place of the true one and runs the tests that cover the changed lines,
the quickest first, until one fails. A mutant that no test fails has survived: it must be listed in
``equivalent.toml`` with the reason why it behaves as the original, or a test is missing.

Outcomes are kept in a folder, module by module, so that a run can be continued.
"""

import argparse
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import signal
import subprocess
import sys
import time
import tomllib
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from types import CodeType
from typing import Any

from mutate import Mutant, mutants

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PACKAGES = ("privacy", "randomness", "mechanisms")
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
TESTS = [
    str(path.relative_to(ROOT))
    for pattern in (ROOT / "tests" / "core_packages.txt").read_text().split()
    for path in sorted(ROOT.glob(pattern))
]
"""What is run against the three packages, here and by ``make coverage``."""

_PLENTY = 4.0
_AT_LEAST = 2.0
"""A mutant does not end, and is found, if a test takes so many times longer than with the true
module, and so many seconds. What is measured is the processor's time: a busy machine finds
nothing."""

_IMPORT = 30.0
"""Seconds of the processor in which modules and tests are imported."""

_WAIT = 3600.0
"""A mutant that sleeps for so long does not end either."""

_LONGEST = 12.0
"""Tests of a mutant are run, the quickest first, as long as they usually take no more together."""

_MEMORY = 3 << 30


@dataclass(frozen=True)
class Coverage:
    """Which tests run which lines, and how long they take.

    Attributes:
        lines: by module's path and line, the tests.
        seconds: by test.
    """

    lines: Mapping[str, Mapping[int, Sequence[str]]]
    seconds: Mapping[str, float]

    def tests(self, path: Path, mutant: Mutant) -> list[str]:
        """The tests that cover a mutant, the quickest first, as many as time allows."""
        by_line = self.lines.get(str(path), {})
        own = {test for n in range(mutant.first, mutant.last + 1) for test in by_line.get(n, ())}
        # What runs at import has no test of its own: any test of the module may find it, and of
        # a module that only holds data, any test of those that import it.
        found = (
            own or self._of(path) or {test for user in self._users(path) for test in self._of(user)}
        )
        chosen, total = [], 0.0
        for test in sorted(found, key=lambda name: (self.seconds.get(name, 0.1), name)):
            total += self.seconds.get(test, 0.1)
            if chosen and total > _LONGEST:
                break
            chosen.append(test)
        return chosen

    def _of(self, path: Path) -> set[str]:
        return {test for tests in self.lines.get(str(path), {}).values() for test in tests}

    def _users(self, path: Path) -> list[Path]:
        imported = f"from {'.'.join(path.relative_to(SOURCE).with_suffix('').parts)} import "
        users = [Path(name) for name in self.lines]
        return [user for user in users if imported in user.read_text(encoding="utf-8")]


def measure(folder: Path) -> None:
    """Run the tests once with coverage by test; see ``read_coverage``."""
    environment = dict(os.environ, COVERAGE_FILE=str(folder / "coverage.db"))
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"),
        *TESTS,
        *(f"--cov=dpstream.{package}" for package in PACKAGES),
        *("--cov-branch", "--cov-context=test", "--cov-report=", "--no-cov-on-fail"),
        f"--junitxml={folder / 'junit.xml'}",
    ]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)


def read_coverage(folder: Path) -> Coverage:
    """What ``measure`` left in a folder."""
    from coverage import CoverageData

    data = CoverageData(str(folder / "coverage.db"))
    data.read()
    lines: dict[str, dict[int, list[str]]] = {}
    for name in data.measured_files():
        found = {
            line: sorted({context.rpartition("|")[0] for context in contexts if context})
            for line, contexts in data.contexts_by_lineno(name).items()
        }
        inside = name[name.index("/src/dpstream/") + 5 :]
        lines[str(SOURCE / inside)] = {line: tests for line, tests in found.items() if tests}
    seconds: dict[str, float] = {}
    for case in ElementTree.parse(folder / "junit.xml").iter("testcase"):
        path = f"{case.attrib['classname'].replace('.', '/')}.py"
        seconds[f"{path}::{case.attrib['name']}"] = float(case.attrib["time"])
    return Coverage(lines, seconds)


class _Replaced(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from other source."""

    def __init__(self, module: str, path: Path, code: CodeType) -> None:
        self._module, self._path, self._code = module, path, code

    def find_spec(
        self, fullname: str, path: object, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The faulty module's; every other module is found as always."""
        if fullname != self._module:
            return None
        return importlib.util.spec_from_file_location(fullname, self._path, loader=self)

    def exec_module(self, module: Any) -> None:
        """Run the faulty source."""
        exec(self._code, module.__dict__)


def preload() -> None:
    """The libraries that every test needs, and nothing of dpstream."""
    import cryptography.hazmat.primitives.ciphers.aead
    import dp_accounting
    import hypothesis
    import mpmath
    import numba
    import pytest
    import scipy.integrate
    import scipy.linalg
    import scipy.optimize
    import scipy.special
    import scipy.stats

    assert not any(name.startswith("dpstream") for name in sys.modules)
    # Faulty kernels are interpreted: a compiled one would come from the true one's cache.
    numba.config.DISABLE_JIT = True
    hypothesis.settings.register_profile(
        "mutation",
        deadline=None,
        database=None,
        derandomize=True,
        # A failing example is enough, it need not be small.
        phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    hypothesis.settings.load_profile("mutation")
    assert pytest
    assert dp_accounting
    assert mpmath
    assert cryptography
    assert scipy
    # Every process would look through the libraries for garbage, several times.
    gc.collect()
    gc.freeze()


class Watch:
    """Tells pytest how long a test may run, or learns from it how long tests run.

    A test that takes longer ends the process: the first test that meets an endless loop shows it.
    """

    def __init__(self, usual: Mapping[str, float], *, told: Path | None = None) -> None:
        self._usual, self._told = usual, told
        self._begun = 0.0
        self._seconds: dict[str, float] = {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Start the clock: of the processor."""
        self._begun = time.process_time()
        if self._told is None:
            most = _AT_LEAST + _PLENTY * self._usual.get(nodeid, _AT_LEAST)
            signal.setitimer(signal.ITIMER_VIRTUAL, most)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Read the clock."""
        self._seconds[nodeid] = time.process_time() - self._begun

    def pytest_sessionfinish(self) -> None:
        """Leave what was learnt."""
        if self._told is not None:
            self._told.write_text(json.dumps(self._seconds), encoding="utf-8")


def start(
    module: str, path: Path, mutant: Mutant | None, tests: Sequence[str], watch: Watch
) -> int:
    """Fork a process that runs tests on a mutant; its exit code is pytest's."""
    process = os.fork()
    if process:
        return process
    code = 3
    try:
        import pytest

        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        if mutant is not None:
            signal.setitimer(signal.ITIMER_VIRTUAL, _IMPORT)
        os.chdir(ROOT)
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        if mutant is not None:
            try:
                compiled = compile(mutant.source, str(path), "exec")
            except (SyntaxError, ValueError):
                os._exit(1)
            sys.meta_path.insert(0, _Replaced(module, path, compiled))
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        warnings = "ignore::pytest.PytestAssertRewriteWarning"
        options = ["-x", "--tb=no", "--assert=plain", "-p", "no:cacheprovider", "-W", warnings]
        code = int(pytest.main([*options, *tests], plugins=[watch]))
    except BaseException:
        code = 1
    finally:
        os._exit(code)


def wait(process: int) -> str:
    """How a mutant's process ended."""
    end = time.monotonic() + _WAIT
    while True:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            break
        if time.monotonic() > end:
            os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return "endless"
        time.sleep(0.01)
    # Every failing code counts but 5, no test at all: a module that cannot be imported is found.
    code = os.waitstatus_to_exitcode(status)
    return {0: "survived", 5: "untested", -signal.SIGVTALRM: "endless"}.get(code, "killed")


def run_module(path: Path, coverage: Coverage, folder: Path) -> None:
    """All mutants of one module that have no outcome yet."""
    module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    text = path.read_text(encoding="utf-8")
    kept = folder / f"{module}.jsonl"
    known = {item["name"] for item in outcomes(kept, text)}
    todo = [mutant for mutant in mutants(text) if mutant.name not in known]
    usual: Mapping[str, float] = {}
    if todo:
        # Whatever fails without a fault would find every mutant.
        tests = sorted({test for mutant in todo for test in coverage.tests(path, mutant)})
        told = folder / f"{module}.seconds.json"
        first = Watch({}, told=told)
        outcome = wait(start(module, path, None, tests, first)) if tests else "survived"
        if outcome != "survived":
            say(f"{module}: the true module's tests end as {outcome}; its mutants were not run")
            return
        usual = json.loads(told.read_text(encoding="utf-8")) if tests else {}
    # Kernels are interpreted here: this is how long tests take.
    coverage = replace(coverage, seconds={**coverage.seconds, **usual})
    for mutant in todo:
        tests = coverage.tests(path, mutant)
        begun = time.monotonic()
        outcome = "untested"
        if tests:
            outcome = wait(start(module, path, mutant, tests, Watch(usual)))
        line = {
            "name": mutant.name,
            "line": mutant.first,
            "outcome": outcome,
            "tests": len(tests),
            "seconds": round(time.monotonic() - begun, 2),
            "source": digest(text),
        }
        with kept.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def digest(text: str) -> str:
    """Which source an outcome is of."""
    return sha256(text.encode()).hexdigest()[:16]


def outcomes(kept: Path, text: str) -> Iterator[dict[str, Any]]:
    """What is known of a module as it is now."""
    if kept.exists():
        for line in kept.read_text(encoding="utf-8").splitlines():
            item = json.loads(line)
            if item["source"] == digest(text):
                yield item


def forget(folder: Path, chosen: Sequence[str]) -> None:
    """Drop the outcomes of what survived without a reason, so that it is run again."""
    for path in modules(chosen):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        kept, known = folder / f"{module}.jsonl", reasons(module)
        items = outcomes(kept, path.read_text(encoding="utf-8"))
        good = [item for item in items if item["name"] in known or _found(item)]
        if kept.exists():
            kept.write_text("".join(json.dumps(item) + "\n" for item in good), encoding="utf-8")


def _found(item: Mapping[str, Any]) -> bool:
    return item["outcome"] not in ("survived", "untested")


def listed() -> Mapping[str, Mapping[str, str]]:
    """By module, the mutants that behave as the original, each with the reason."""
    if not EQUIVALENT.exists():
        return {}
    return tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))


def reasons(module: str) -> Mapping[str, str]:
    """The listed mutants of a module."""
    return listed().get(module, {})


def modules(chosen: Sequence[str]) -> list[Path]:
    """The modules of the three packages, or those whose names contain one of the words."""
    found = [
        path
        for package in PACKAGES
        for path in sorted((SOURCE / "dpstream" / package).rglob("*.py"))
        if path.name != "__init__.py"
    ]
    return [p for p in found if not chosen or any(word in str(p) for word in chosen)]


def report(folder: Path, chosen: Sequence[str]) -> bool:
    """Print the table; whether every survivor has a reason and every reason its survivor."""
    total: Counter[str] = Counter()
    good = True
    for path in modules(chosen):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        text = path.read_text(encoding="utf-8")
        all_of = mutants(text)
        found = {item["name"]: item for item in outcomes(folder / f"{module}.jsonl", text)}
        counts = Counter(item["outcome"] for item in found.values())
        known = reasons(module)
        survivors = [name for name, item in found.items() if not _found(item)]
        open_ones = [name for name in survivors if name not in known]
        stale = sorted(set(known) - {mutant.name for mutant in all_of})
        wrong = [n for n in known if n in found and n not in survivors]
        counts["equivalent"] = len(survivors) - len(open_ones)
        counts["open"] = len(open_ones)
        counts["mutants"], counts["run"] = len(all_of), len(found)
        total += counts
        good &= not (open_ones or stale or wrong)
        say(
            f"{module}: {counts['mutants']} mutants, {counts['run']} run, "
            f"{counts['killed'] + counts['endless']} found, {counts['equivalent']} equivalent, "
            f"{counts['open']} open"
        )
        for name in open_ones:
            say(f"  OPEN line {found[name]['line']} {name} ({found[name]['outcome']})")
        for name in stale:
            say(f"  STALE in {EQUIVALENT.name}: {name}")
        for name in wrong:
            say(f"  FOUND by a test, though listed as equivalent: {name}")
    say(
        f"in all {total['mutants']} mutants, {total['run']} run, "
        f"{total['killed'] + total['endless']} found, {total['equivalent']} equivalent, "
        f"{total['open']} open"
    )
    return good


def say(line: str) -> None:
    """At once, for long runs are watched."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Measure, run and report; 1 if a survivor has no reason."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modules", nargs="*", default=[], help="words in their paths")
    parser.add_argument("--out", type=Path, default=ROOT / "mutation-out")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--report", action="store_true", help="only say what is known")
    parser.add_argument("--again", action="store_true", help="measure the coverage again")
    parser.add_argument(
        "--retry", action="store_true", help="run again what survived without a reason"
    )
    options = parser.parse_args()
    folder = options.out
    folder.mkdir(parents=True, exist_ok=True)
    if not options.report:
        if options.retry:
            forget(folder, options.modules)
        if options.again or not (folder / "coverage.db").exists():
            measure(folder)
        coverage = read_coverage(folder)
        preload()
        # Whoever is free takes the next module: a byte of a pipe is read once.
        paths = modules(options.modules)
        taken, offered = os.pipe()
        os.write(offered, bytes(range(len(paths))))
        os.close(offered)
        workers: list[int] = []
        for _ in range(options.workers):
            worker = os.fork()
            if not worker:
                while number := os.read(taken, 1):
                    run_module(paths[number[0]], coverage, folder)
                os._exit(0)
            workers.append(worker)
        for worker in workers:
            os.waitpid(worker, 0)
    return int(not report(folder, options.modules))


if __name__ == "__main__":
    sys.exit(main())
