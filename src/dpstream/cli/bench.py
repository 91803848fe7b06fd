"""``dpstream bench``: figures of this machine, each beside its floor from the same run."""

import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from dpstream.cli.config import nearest
from dpstream.cli.output import print_json, print_text
from dpstream.errors import ConfigurationError
from dpstream.report.page import format_number

BENCHMARKS: Mapping[str, tuple[str, str]] = {
    "moments": ("dpstream.bench.moments", "admit, sum, release and commit, against bare BLAS"),
    "online": ("dpstream.bench.online", "quality and speed of the online learners"),
    "memory": ("dpstream.bench.memory", "resident memory from 1e5 to 1e7 records"),
    "regression": ("dpstream.bench.regression", "regret and excess risk of PrivIncReg1"),
    "lasso": ("dpstream.bench.lasso", "excess risk and speed of the private LASSO"),
    "batch": ("dpstream.bench.batch", "accuracy of batch classifiers on real data; needs --data"),
    "windows": (
        "dpstream.bench.windows",
        "the worst record's epsilon over 1e6 blocks, counted out; memory and time along a stream",
    ),
    "sums": ("dpstream.bench.sums", "predicted and simulated noise of continual sums"),
    "geometry": ("dpstream.bench.geometry", "projections of long vectors, in passes over them"),
    "startup": ("dpstream.bench.startup", "import and --help, against importing numpy"),
}
"""Each module has a function ``run`` that returns its figures."""

_READS_DATA = ("batch",)
"""Benchmarks of data sets in a folder that the user gives."""


def bench(name: str | None, *, data: Path | None, as_json: bool) -> None:
    """Run one benchmark, or all of them; those of real data are skipped where there is none."""
    if name is not None and name not in BENCHMARKS:
        raise ConfigurationError(f"no benchmark {name!r}{nearest(name, BENCHMARKS)}")
    figures: dict[str, Any] = {}
    for chosen, (module, what) in BENCHMARKS.items():
        if name not in (None, chosen):
            continue
        if not as_json:
            print_text(f"{chosen}: {what}")
            sys.stdout.flush()
        # Two BLAS threads on busy cores are many times slower than one: they would be the figure.
        with threadpool_limits(1):
            run = import_module(module).run
            if chosen not in _READS_DATA:
                figures[chosen] = run()
            elif data is None:
                figures[chosen] = {"skipped": "needs data sets; give their folder with --data"}
            else:
                figures[chosen] = run(data=data)
        if not as_json:
            show_figures(figures[chosen], 1)
    if as_json:
        print_json(figures)


def show_figures(value: Mapping[str, Any], depth: int) -> None:
    """Print nested figures, indented."""
    indent = "  " * depth
    for key, item in value.items():
        if isinstance(item, Mapping):
            print_text(f"{indent}{key}:")
            show_figures(item, depth + 1)
        elif isinstance(item, list) and item and isinstance(item[0], Mapping):
            for index, part in enumerate(item):
                print_text(f"{indent}{key} {index + 1}:")
                show_figures(part, depth + 1)
        elif isinstance(item, list):
            print_text(f"{indent}{key}: {', '.join(_text(part) for part in item)}")
        else:
            print_text(f"{indent}{key}: {_text(item)}")


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return format_number(value)
