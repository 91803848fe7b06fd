"""How long importing the package and asking for help take, against importing numpy."""

import subprocess
import sys
from time import perf_counter
from typing import Any

_REPEATS = 9

_COMMANDS = {
    "import dpstream": ("-c", "import dpstream"),
    "dpstream --help": ("-m", "dpstream.cli", "--help"),
}


def run() -> dict[str, Any]:
    """Best of nine fresh interpreters each, interleaved with the floor's."""
    best: dict[str, float] = {}
    floor = ("-c", "import numpy")
    for _ in range(_REPEATS):
        for name, arguments in {"import numpy": floor, **_COMMANDS}.items():
            best[name] = min(best.get(name, float("inf")), _seconds(arguments))
    return {
        "seconds": best,
        "ratio": {name: best[name] / best["import numpy"] for name in _COMMANDS},
    }


def _seconds(arguments: tuple[str, ...]) -> float:
    started = perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - started
