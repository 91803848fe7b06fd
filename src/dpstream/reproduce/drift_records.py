"""Two real streams whose truth moves, where the user has their files: features by public bounds."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.errors import SourceError

_LOWER = (1500, 0, 0, 0, -500, 0, 0, 0, 0, 0)
_UPPER = (4400, 360, 90, 2000, 1000, 10000, 255, 255, 255, 10000)
"""Metres, degrees, shades of grey."""


def forest_records(data: Path) -> tuple[FloatArray, FloatArray]:
    """Cover types, scaled by public bounds; labels 1 for type 2, -1 for others.

    Raises:
        SourceError: if the file lacks what is needed.
    """
    held = _arrays(data / "covtype.npz", ("num", "wilderness", "soil", "cover"))
    lower, upper = np.array(_LOWER, np.float64), np.array(_UPPER, np.float64)
    numbers = 2.0 * np.clip((held["num"] - lower) / (upper - lower), 0.0, 1.0) - 1.0
    parts = (numbers, np.eye(4)[held["wilderness"]], np.eye(40)[held["soil"]])
    return np.concatenate(parts, axis=1), np.where(held["cover"] == 2, 1.0, -1.0)


def market_records(data: Path) -> tuple[FloatArray, FloatArray]:
    """The electricity market, in time order; 1 where the price rose over its last day, or -1.

    Raises:
        SourceError: if the file lacks what is needed.
    """
    held = _arrays(data / "elec2.npz", ("X", "y"))
    features = np.array(held["X"], np.float64)
    features[:, 1] = (features[:, 1] - 1.0) / 6.0
    return 2.0 * np.clip(features, 0.0, 1.0) - 1.0, np.where(held["y"] > 0, 1.0, -1.0)


def _arrays(path: Path, names: Sequence[str]) -> Mapping[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as held:
            return {name: held[name] for name in names}
    except (OSError, KeyError, ValueError) as error:
        raise SourceError(
            f"{path} cannot be read as arrays {', '.join(names)} ({type(error).__name__})"
        ) from None
