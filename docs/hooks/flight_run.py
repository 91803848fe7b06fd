"""Runs of example configurations on a prefix of the shipped flights, for pictures.

Noise comes from a fixed test seed, so that a picture is the same at every build; no run here makes
a promise to anybody.
"""

import csv
import gzip
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.cli.assemble import assemble_stream
from dpstream.cli.config import Config, load_config
from dpstream.connectors.memory import MemorySource
from dpstream.engine.memory import MemoryStore
from dpstream.engine.session import Session
from dpstream.release import Release
from dpstream.saved.score_model import ScoreModel

FLIGHTS = Path(__file__).resolve().parents[2] / "examples" / "flights"
RECORDS = 40_000
"""Flights of a run: the first, in the order of departure."""

AHEAD = 2_000
"""Flights on which a model is judged: those that follow its release."""

QUIET = 1e4
"""The epsilon of the curve beside: so much that the noise is small against sampling."""

SEED = 1


@dataclass(frozen=True, kw_only=True)
class Course:
    """How good the models of a run are, release by release.

    Attributes:
        records: at each release.
        error: on the flights that follow: root mean square in minutes, or mean log-loss.
        trivial: of the best constant on the same flights.
    """

    records: FloatArray
    error: FloatArray
    trivial: FloatArray


@cache
def flights() -> Mapping[str, Any]:
    """The columns of the first flights, as text where they are text; nothing is NaN."""
    with gzip.open(FLIGHTS / "flights.csv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = [row for row, _ in zip(csv.DictReader(file), range(RECORDS + AHEAD), strict=False)]
    return {name: _column([row[name] for row in rows]) for name in rows[0]}


def _column(texts: list[str]) -> Any:
    try:
        return np.array([float(text) if text else math.nan for text in texts])
    except ValueError:
        return np.array([text or None for text in texts], dtype=object)


def releases(name: str, *, epsilon: float | None = None) -> tuple[Config, list[Release[Any]]]:
    """The releases of an example configuration, without intervals, which take time."""
    config = load_config(FLIGHTS / f"{name}.toml")
    if epsilon is not None:
        privacy = config.privacy.model_copy(update={"epsilon": epsilon})
        config = config.model_copy(update={"privacy": privacy})
    if config.learner.name in ("PrivIncReg1", "auto", "WindowedRegression"):
        learner = config.learner.model_copy(update={"intervals": False})
        config = config.model_copy(update={"learner": learner})
    stream = assemble_stream(config, insecure_seed=SEED)
    source = MemorySource({key: column[:RECORDS] for key, column in flights().items()})
    with Session(stream, store=MemoryStore()) as session:
        return config, list(session.run(source))


def course(name: str, *, epsilon: float | None = None) -> Course:
    """Every released model of an example, judged on the flights that follow it."""
    config, published = releases(name, epsilon=epsilon)
    stream = assemble_stream(config)
    domain = stream.learner.domain
    target = next(iter(config.targets))
    bounds = config.targets[target]
    records, errors, trivial = [], [], []
    for release in published:
        model = ScoreModel.of_release(release.value, domain)
        start = stream.schedule.end(release.tick)
        rows = {key: column[start : start + AHEAD] for key, column in flights().items()}
        scores = model.scores(rows)
        if bounds.labels is None:
            truth = np.asarray(rows[target], np.float64)
            known = ~np.isnan(truth)
            truth = np.clip(truth[known], bounds.lower, bounds.upper)
            errors.append(math.sqrt(float(np.mean((model.values(scores)[known, 0] - truth) ** 2))))
            trivial.append(float(np.std(truth)))
        else:
            labels = np.array([label is not None for label in rows[target]])
            late = (rows[target][labels] == bounds.labels[1]).astype(float)
            sign = 2.0 * late - 1.0
            errors.append(float(np.mean(np.logaddexp(0.0, -sign * scores[labels, 0]))))
            share = float(np.mean(late))
            trivial.append(-share * math.log(share) - (1.0 - share) * math.log(1.0 - share))
        records.append(float(start))
    return Course(records=np.array(records), error=np.array(errors), trivial=np.array(trivial))


def running_mean() -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Records, published mean departure delay, two standard errors, and the exact mean."""
    config, published = releases("mean_delay")
    bounds = config.columns["dep_delay"]
    assert bounds.lower is not None
    assert bounds.upper is not None
    exact = np.clip(flights()["dep_delay"], bounds.lower, bounds.upper)
    schedule = assemble_stream(config).schedule
    records, means, halves, truth = [], [], [], []
    for release in published:
        end = schedule.end(release.tick)
        user, place = release.value["user"], release.value["features"].index("dep_delay")
        records.append(float(end))
        means.append(user["mean"][place])
        halves.append(2.0 * user["standard_error"][place] / release.value["count"]["value"])
        truth.append(float(np.nanmean(exact[:end])))
    return np.array(records), np.array(means), np.array(halves), np.array(truth)
