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
from dpstream.errors import ConfigurationError, SourceError, StoreError

EXPERIMENTS: Mapping[str, tuple[str, str, str]] = {
    "geometry": (
        "dpstream.reproduce.geometry",
        "geometry",
        "paper 001: excess risk against dimension and records, by constraint set",
    ),
    "incremental": (
        "dpstream.reproduce.incremental",
        "incremental",
        "paper 000: excess risk of the incremental learners against T, d and epsilon",
    ),
    "online": (
        "dpstream.reproduce.online",
        "online",
        "paper 004: regret and accuracy of the online learners; runs expiration too",
    ),
    "expiration": (
        "dpstream.reproduce.expiration",
        "expiration",
        "paper 002: regret under delayed publication, against time and window",
    ),
    "windows": (
        "dpstream.reproduce.windows",
        "windows",
        "paper 003: continual and sliding-window release on digits and under drift",
    ),
}
"""Module, function, and what it shows. A function takes ``out`` and, if it reads data, ``data``."""

BESIDE: Mapping[str, tuple[str, ...]] = {"online": ("expiration",)}
"""What a name runs besides itself."""

PAGE = "index.html"


def reproduce(name: str, *, data: Path | None, out: Path, as_json: bool) -> None:
    """Run one experiment, or ``all`` that can run with what is given.

    Each leaves its numbers as JSON, and all share one page with their claims and pictures.
    """
    if name not in (*EXPERIMENTS, "all"):
        raise ConfigurationError(f"no experiment {name!r}{nearest(name, (*EXPERIMENTS, 'all'))}")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"folder {out} cannot be made ({error.strerror}); choose another with --out"
        ) from None
    # After the check of the name: this loads what the experiments need.
    from dpstream.reproduce.summary import summary_page, verdicts

    about = {chosen: what for chosen, (_, _, what) in EXPERIMENTS.items()}
    figures: dict[str, Any] = {}
    refused: dict[str, str] = {}
    for chosen, (module, function, what) in EXPERIMENTS.items():
        if name != "all" and chosen not in (name, *BESIDE.get(name, ())):
            continue
        if not as_json:
            print_text(f"{chosen}: {what}")
        try:
            figures[chosen] = _run(module, function, data=data, out=out)
        except SourceError as error:
            if name != "all":
                raise
            refused[chosen] = str(error)
            continue
        write_public(out / f"{chosen}.json", json.dumps(figures[chosen], indent=1) + "\n")
        if not as_json:
            show_figures(figures[chosen], 1)
            print_text(f"  {verdicts(figures[chosen])}")
    page = out / PAGE
    write_public(page, summary_page(figures, about=about, refused=refused, out=out))
    if as_json:
        print_json(figures)
    else:
        print_text(f"all claims and pictures: {page}")
    if refused:
        raise SourceError(
            "; ".join(f"{chosen} did not run: {reason}" for chosen, reason in refused.items())
        )


def _run(module: str, function: str, *, data: Path | None, out: Path) -> dict[str, Any]:
    run = getattr(import_module(module), function)
    options: dict[str, Any] = {"out": out}
    if "data" in inspect.signature(run).parameters:
        options["data"] = data
    result = run(**options)
    for key in ("claims", "full_data"):
        if key not in result:
            raise KeyError(f"{module} says nothing of its {key}")
    return result
