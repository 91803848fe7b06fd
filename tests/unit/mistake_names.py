"""The names that the calls of ``mistakes_python.toml`` may use."""

from pathlib import Path
from typing import Any

import numpy as np

import dpstream as dp


def mistake_names(folder: Path) -> dict[str, Any]:
    """Everything at hand in a call; ``folder`` is empty at its start."""
    return {"dp": dp, "np": np, "folder": folder}
