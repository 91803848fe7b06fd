"""Real streams for the online experiments, where the user has them: features by public bounds.

Files are NumPy archives: forest cover types (``covtype.npz``), flights out of New York in 2013
(``nycflights13.npz``), an electricity market (``elec2.npz``) and songs with their years
(``msd_year.npz``, or a part of it as ``msd_year_mini.npz``: ``X`` of 90 columns, ``year``). All
scalings are constants.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.errors import SourceError

COVER_LOWER = (1500, 0, 0, 0, -500, 0, 0, 0, 0, 0)
COVER_UPPER = (4400, 360, 90, 2000, 1000, 10000, 255, 255, 255, 10000)
"""Public bounds of the forest's ten numeric columns: metres, degrees, shades of grey."""

TIMBRE_MEANS, MEAN_BOUND, COVARIANCE_BOUND = 12, 100.0, 5000.0
"""Of songs: so many columns are means of timbres, the others covariances; public bounds of both."""

LATE_MINUTES = 15
"""A flight that arrives later than this is late."""

CARRIERS, DESTINATIONS = 16, 105
"""Sizes of public vocabularies."""

_UNKNOWN_DELAY = -32768
_SCHEDULE = ("sched_dep", "sched_arr", "distance", "dow", "origin")


def forest_records(data: Path) -> tuple[FloatArray, FloatArray]:
    """Cover types, scaled by public bounds; labels 1 for type 2, -1 for others.

    Raises:
        SourceError: if the file lacks what is needed.
    """
    held = _arrays(data / "covtype.npz", ("num", "wilderness", "soil", "cover"))
    lower, upper = np.array(COVER_LOWER, np.float64), np.array(COVER_UPPER, np.float64)
    numbers = 2.0 * np.clip((held["num"] - lower) / (upper - lower), 0.0, 1.0) - 1.0
    parts = (numbers, np.eye(4)[held["wilderness"]], np.eye(40)[held["soil"]])
    return np.concatenate(parts, axis=1), np.where(held["cover"] == 2, 1.0, -1.0)


def song_file(data: Path) -> Path | None:
    """The songs that a folder holds: all of them before a part, or None."""
    files = (data / name for name in ("msd_year.npz", "msd_year_mini.npz"))
    return next((file for file in files if file.exists()), None)


def song_records(file: Path) -> tuple[FloatArray, FloatArray]:
    """Timbres of songs and their years, scaled by public bounds (YearPredictionMSD).

    Raises:
        SourceError: if the file lacks what is needed.
    """
    held = _arrays(file, ("X", "year"))
    bounds = np.where(np.arange(90) < TIMBRE_MEANS, MEAN_BOUND, COVARIANCE_BOUND)
    features = np.clip(np.asarray(held["X"], np.float64) / bounds, -1.0, 1.0)
    return features, np.clip((held["year"] - 1966.5) / 44.5, -1.0, 1.0)


def flight_records(data: Path) -> tuple[FloatArray, FloatArray]:
    """Schedules of flights and their arrival delays, in time order, scaled by public bounds.

    Raises:
        SourceError: if the file lacks what is needed.
    """
    held = _arrays(data / "nycflights13.npz", (*_SCHEDULE, "arr_delay"))
    known = held["arr_delay"] != _UNKNOWN_DELAY
    features = _schedules(held)[known] / math.sqrt(5.0)
    return features, np.clip((held["arr_delay"][known] - 90.0) / 150.0, -1.0, 1.0)


def late_records(data: Path) -> tuple[FloatArray, FloatArray]:
    """Schedules with carrier and destination, in time order; 1 for arrivals that are late, or -1.

    Raises:
        SourceError: if the file lacks what is needed.
    """
    features, minutes = _journeys(data)
    return features, np.where(minutes > LATE_MINUTES, 1.0, -1.0)


def delay_records(data: Path) -> tuple[FloatArray, FloatArray]:
    """Schedules with carrier and destination, in time order, and arrival delays.

    Delays are clipped to [-60, 240] minutes and mapped to [-1, 1].

    Raises:
        SourceError: if the file lacks what is needed.
    """
    features, minutes = _journeys(data)
    return features, np.clip((minutes - 90.0) / 150.0, -1.0, 1.0)


def _journeys(data: Path) -> tuple[FloatArray, FloatArray]:
    """134 columns of every flight that arrived, and its delay in minutes."""
    held = _arrays(data / "nycflights13.npz", (*_SCHEDULE, "arr_delay", "carrier", "dest"))
    known = held["arr_delay"] != _UNKNOWN_DELAY
    carriers = np.eye(CARRIERS)[held["carrier"]]
    places = np.eye(DESTINATIONS)[held["dest"]]
    features = np.concatenate((_schedules(held), carriers, places), axis=1)[known]
    return features, np.asarray(held["arr_delay"][known], np.float64)


def market_records(data: Path) -> tuple[FloatArray, FloatArray]:
    """The electricity market, in time order; 1 where the price rose over its last day, or -1.

    Raises:
        SourceError: if the file lacks what is needed.
    """
    held = _arrays(data / "elec2.npz", ("X", "y"))
    features = np.array(held["X"], np.float64)
    features[:, 1] = (features[:, 1] - 1.0) / 6.0
    return 2.0 * np.clip(features, 0.0, 1.0) - 1.0, np.where(held["y"] > 0, 1.0, -1.0)


def _schedules(held: Mapping[str, Any]) -> FloatArray:
    numbers = np.stack(
        [held["sched_dep"] / 1440, held["sched_arr"] / 1440, held["distance"] / 5000], axis=1
    )
    days, origins = np.eye(7)[held["dow"]], np.eye(3)[held["origin"]]
    return np.concatenate((2.0 * np.clip(numbers, 0.0, 1.0) - 1.0, days, origins), axis=1)


def _arrays(path: Path, names: Sequence[str]) -> Mapping[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as held:
            return {name: held[name] for name in names}
    except (OSError, KeyError, ValueError) as error:
        raise SourceError(
            f"{path} cannot be read as arrays {', '.join(names)} ({type(error).__name__})"
        ) from None
