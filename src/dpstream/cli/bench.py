"""``dpstream bench``: figures of this machine, each beside its floor and beside its past."""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from dpstream.bench.history import KEPT, Comparison, History, compare, default_folder
from dpstream.cli.config import nearest
from dpstream.cli.output import print_json, print_text
from dpstream.errors import BenchmarkRegressed, ConfigurationError
from dpstream.report.page import format_number

BENCHMARKS: Mapping[str, tuple[str, str]] = {
    "moments": ("dpstream.bench.moments", "admit, sum, release and commit, against bare BLAS"),
    "sums": ("dpstream.bench.sums", "noise of continual sums, predicted and simulated; speed"),
    "online": ("dpstream.bench.online", "quality and speed of the online learners"),
    "geometry": ("dpstream.bench.geometry", "projections of long vectors, in passes over them"),
    "solvers": ("dpstream.bench.solvers", "batch solvers, in passes over the records"),
    "windows": (
        "dpstream.bench.windows",
        "the worst record's epsilon over 1e6 blocks, counted out; memory and speed",
    ),
    "command-line": (
        "dpstream.bench.command_line",
        "starting, against importing numpy; a file into a model, against reading it",
    ),
    "memory": ("dpstream.bench.memory", "resident memory from 1e5 to 1e7 records"),
    "regression": ("dpstream.bench.regression", "regret and excess risk of PrivIncReg1"),
    "lasso": ("dpstream.bench.lasso", "excess risk and speed of the private LASSO"),
    "real-regression": (
        "dpstream.bench.real_regression",
        "explained variance of PrivIncReg1 on real streams; needs --data",
    ),
    "batch": ("dpstream.bench.batch", "accuracy of batch classifiers on real data; needs --data"),
}
"""Each module has a function ``run`` that returns its figures, and names those that are
``WATCHED``: compared with this machine's past."""

_READS_DATA = ("real-regression", "batch")
"""Benchmarks of data sets in a folder that the user gives."""


def bench(
    name: str | None,
    *,
    data: Path | None,
    history: Path | None = None,
    keep: bool = True,
    as_json: bool = False,
) -> None:
    """Run one benchmark, or all of them; those of real data are skipped where there is none.

    Args:
        name: which; None for all.
        data: the folder with data sets.
        history: the folder that keeps the figures of every run; None for the default one.
        keep: whether there is a history at all.
        as_json: print one object.

    Raises:
        BenchmarkRegressed: if a watched figure is worse than this machine's past allows, after
            everything was shown and kept.
    """
    if name is not None and name not in BENCHMARKS:
        raise ConfigurationError(f"no benchmark {name!r}{nearest(name, BENCHMARKS)}")
    # A history that cannot be used is said before minutes are spent.
    past = History(history or default_folder()) if keep else None
    figures: dict[str, Any] = {}
    compared: dict[str, list[Comparison]] = {}
    for chosen, (module_name, what) in BENCHMARKS.items():
        if name not in (None, chosen):
            continue
        if not as_json:
            print_text(f"{chosen}: {what}")
            sys.stdout.flush()
        module = import_module(module_name)
        figures[chosen] = _run(module.run, chosen, data)
        if past is not None and "skipped" not in figures[chosen]:
            compared[chosen] = compare(figures[chosen], past.past(chosen), module.WATCHED)
            past.add(chosen, figures[chosen])
        if not as_json:
            show_figures(figures[chosen], 1)
            _show_comparisons(compared.get(chosen, []))
    if as_json:
        beside = {key: [vars(item) for item in items] for key, items in compared.items()}
        print_json(figures | {"compared with past runs": beside})
    elif past is not None:
        print_text(f"kept in {past.path}")
    _refuse_regressions(compared)


def _run(run: Any, chosen: str, data: Path | None) -> dict[str, Any]:
    # Two BLAS threads on busy cores are many times slower than one: they would be the figure.
    with threadpool_limits(1):
        if chosen not in _READS_DATA:
            return run()
        if data is None:
            return {"skipped": "needs data sets; give their folder with --data"}
        return run(data=data)


def _show_comparisons(comparisons: Sequence[Comparison]) -> None:
    if not comparisons:
        return
    runs = max(item.runs for item in comparisons)
    if runs == 0:
        print_text("  no earlier run on this machine")
        return
    print_text(f"  against the median of this machine's last {runs} runs (at most {KEPT}):")
    for item in comparisons:
        if item.median is None:
            continue
        change = "" if item.change is None else f" ({item.change:+.1%})"
        verdict = "  REGRESSED" if item.regressed else ""
        print_text(
            f"    {item.figure}: {format_number(item.value)}, was "
            f"{format_number(item.median)}{change}{verdict}"
        )


def _refuse_regressions(compared: Mapping[str, Sequence[Comparison]]) -> None:
    worse = [
        f"{name}/{item.figure} is {format_number(item.value)}, the median of {item.runs} runs "
        f"{format_number(item.median or 0.0)}"
        for name, items in compared.items()
        for item in items
        if item.regressed
    ]
    if worse:
        raise BenchmarkRegressed(
            f"worse than every earlier run here, beyond their noise: {'; '.join(worse)}"
        )


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
