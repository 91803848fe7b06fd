"""``dpstream reproduce``: a paper's experiment, as numbers, pictures and a verdict on its shape."""

import inspect
import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from dpstream.cli.bench import show_figures
from dpstream.cli.config import nearest
from dpstream.cli.folder import write_public
from dpstream.cli.output import print_json, print_text
from dpstream.errors import ConfigurationError, StoreError

EXPERIMENTS: Mapping[str, tuple[str, str, str]] = {
    "geometry": (
        "dpstream.reproduce.geometry",
        "geometry",
        "paper 001: excess risk against dimension and records, by constraint set",
    ),
}
"""Module, function, and what it shows. A function takes ``out`` and, if it reads data, ``data``."""


def reproduce(name: str, *, data: Path | None, out: Path, as_json: bool) -> None:
    """Run one experiment, or ``all`` that can run with what is given."""
    if name not in (*EXPERIMENTS, "all"):
        raise ConfigurationError(f"no experiment {name!r}{nearest(name, (*EXPERIMENTS, 'all'))}")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"folder {out} cannot be made ({error.strerror})") from None
    figures: dict[str, Any] = {}
    for chosen, (module, function, what) in EXPERIMENTS.items():
        if name not in (chosen, "all"):
            continue
        run = getattr(import_module(module), function)
        options: dict[str, Any] = {"out": out}
        if "data" in inspect.signature(run).parameters:
            options["data"] = data
        if not as_json:
            print_text(f"{chosen}: {what}")
        figures[chosen] = run(**options)
        write_public(out / f"{chosen}.json", json.dumps(figures[chosen], indent=1) + "\n")
        if not as_json:
            show_figures(figures[chosen], 1)
    if as_json:
        print_json(figures)
    else:
        print_text(f"numbers and pictures: {out}")
