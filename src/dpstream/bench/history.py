"""What benchmarks found on this machine before, and whether the newest run is worse.

Every run of a benchmark appends one line to a file: when, which version, which machine, and all
its numbers. Of each benchmark some numbers are *watched*, in one direction. A watched figure has
regressed if it is worse, in that direction, than **every** one of the last ``KEPT`` runs of the
same benchmark on the same machine, **and** lies beyond their median by more than

    max(``SPREADS`` times their spread, ``MARGIN`` of the median).

The spread is 1.4826 times the median absolute deviation from the median: that of normal noise is
its standard deviation, and one wild run does not move it. With fewer than ``FEWEST`` runs there
is no verdict. If runs were exchangeable, the newest would be the worst of all by chance once in
``FEWEST + 1`` runs at most; the second condition asks for more than chance brings. A change that
is meant is flagged until it is the median of the runs kept, or until the file is moved away.

A machine is its processor's name, how many it has, and the versions of Python and numpy: what a
ratio to a floor may depend on. No path, host or user name is kept.
"""

import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

import dpstream
from dpstream.errors import ConfigurationError, StoreError

FORMAT = 1
FEWEST = 5
"""Runs without which there is no verdict."""

KEPT = 20
"""So many of the last runs are compared with."""

SPREADS = 4.0
MARGIN = 0.1
"""Shared machines move best-of-several ratios by a few per cent."""

FILE_NAME = "bench-history.jsonl"

Direction = Literal["higher", "lower"]


@dataclass(frozen=True)
class Watch:
    """Which figures are watched, and what is better.

    Attributes:
        pattern: of a figure's path, its keys joined by ``/``; ``*`` stands for anything.
        better: ``higher`` or ``lower``.
    """

    pattern: str
    better: Direction


@dataclass(frozen=True)
class Run:
    """One run of one benchmark.

    Attributes:
        benchmark: its name.
        time: when it ended, ISO 8601 in UTC.
        version: of dpstream.
        machine: what it ran on.
        figures: its numbers, by path.
    """

    benchmark: str
    time: str
    version: str
    machine: str
    figures: Mapping[str, float]

    def to_line(self) -> str:
        """One JSON object."""
        return json.dumps({"format": FORMAT, **vars(self)}, allow_nan=False) + "\n"


@dataclass(frozen=True)
class Comparison:
    """A watched figure beside its past.

    Attributes:
        figure: its path.
        value: now.
        median: of the past runs; None if there are none.
        change: the value over the median, less 1; None if it cannot be said.
        runs: how many past runs there are.
        regressed: whether the rule flags it; None for no verdict.
    """

    figure: str
    value: float
    median: float | None
    change: float | None
    runs: int
    regressed: bool | None


def default_folder() -> Path:
    """Where programs keep state between runs: ``$XDG_STATE_HOME``, else ``~/.local/state``."""
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(home) / "dpstream"


@cache
def machine() -> str:
    """This machine's name in the history."""
    parts = (
        _processor(),
        f"{os.cpu_count()} processors",
        f"Python {platform.python_version()}",
        f"numpy {np.__version__}",
    )
    return ", ".join(parts)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def numbers(figures: Mapping[str, Any]) -> dict[str, float]:
    """Every finite number among nested figures, by its path; truth values and texts are none."""
    return dict(_leaves(figures, ""))


def _leaves(value: Any, path: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        parts = [(str(key), item) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(str(number), item) for number, item in enumerate(value, start=1)]
    else:
        if isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value):
            yield path, float(value)
        return
    for key, item in parts:
        yield from _leaves(item, f"{path}/{key}" if path else key)


class History:
    """The runs kept in a folder, one per line; lines are only ever added."""

    def __init__(self, folder: Path) -> None:
        """Read the file, if there is one, and see that it can be added to.

        Raises:
            StoreError: if the folder cannot be made or the file not be read or written.
            ConfigurationError: if a line is no run.
        """
        self._path = folder / FILE_NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with self._path.open("a+", encoding="utf-8") as file:
                file.seek(0)
                lines = file.read().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise StoreError(
                f"{self._path} cannot be used ({reason}); name another folder with --history, or "
                "keep none with --no-history"
            ) from None
        self._runs = [self._parsed(number, line) for number, line in enumerate(lines, start=1)]

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    def _parsed(self, number: int, line: str) -> Run:
        try:
            found = json.loads(line)
            if found.pop("format") != FORMAT:
                raise ValueError
            figures = {str(key): float(value) for key, value in found.pop("figures").items()}
            run = Run(figures=figures, **found)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ConfigurationError(
                f"line {number} of {self._path} is no benchmark run of this version; correct or "
                "remove it, or move the file away"
            ) from None
        return run

    def past(self, benchmark: str) -> list[Run]:
        """The last runs of a benchmark on this machine, the newest last."""
        here = [run for run in self._runs if (run.benchmark, run.machine) == (benchmark, machine())]
        return here[-KEPT:]

    def add(self, benchmark: str, figures: Mapping[str, Any]) -> Run:
        """Append a run that has just ended.

        Raises:
            StoreError: if it cannot be written.
        """
        run = Run(
            benchmark=benchmark,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
            version=dpstream.__version__,
            machine=machine(),
            figures=numbers(figures),
        )
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(run.to_line())
        except OSError as error:
            raise StoreError(f"{self._path} cannot be written ({error.strerror})") from None
        self._runs.append(run)
        return run


def compare(
    figures: Mapping[str, Any], past: Sequence[Run], watched: Sequence[Watch]
) -> list[Comparison]:
    """Every watched figure beside the runs before it."""
    found: list[Comparison] = []
    for path, value in numbers(figures).items():
        watch = next((item for item in watched if fnmatchcase(path, item.pattern)), None)
        if watch is not None:
            earlier = [run.figures[path] for run in past if path in run.figures]
            found.append(_compared(path, value, earlier, watch.better))
    return found


def _compared(path: str, value: float, earlier: Sequence[float], better: Direction) -> Comparison:
    if not earlier:
        return Comparison(path, value, None, None, 0, None)
    median = float(np.median(earlier))
    change = value / median - 1.0 if median else None
    if len(earlier) < FEWEST:
        return Comparison(path, value, median, change, len(earlier), None)
    spread = 1.4826 * float(np.median(np.abs(np.array(earlier) - median)))
    allowed = max(SPREADS * spread, MARGIN * abs(median))
    if better == "higher":
        worse = value < min(earlier) and value < median - allowed
    else:
        worse = value > max(earlier) and value > median + allowed
    return Comparison(path, value, median, change, len(earlier), worse)
