"""Linear models kept fresh on real streams: how much variance they explain, release by release.

Two streams, read from a folder that the user gives: the arrival delay of flights, clipped to
[-60, 240] minutes, from schedule, carrier, origin and destination (``nycflights13.npz``, 134
columns, in time order), and a linear probability model of an income above 50,000 (``adult.npz``,
107 columns, in file order). PrivIncReg1 with a constant is released every 500 records, over an L2
and over an L1 ball. A model is judged on all records so far, as paper 000 judges, beside the
non-private minimiser over the same set, and beside least squares without a set.

Explained variance is ``1 - var(y - prediction) / var(y)``: that of the best constant is 0. ``R^2``,
which also counts an offset, is beside it.

Scalings are constants. Norm bounds and radii are round numbers that were set knowing these public
data sets; a user without such knowledge declares them from the encoding, and pays a little.

Run it by ``dpstream bench real-regression --data FOLDER``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.bench.batch import adult
from dpstream.bench.history import Watch
from dpstream.domain.domain import Domain
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.learners.incremental.forecast import released_parameters
from dpstream.learners.incremental.priv_inc_reg1 import PrivIncReg1
from dpstream.learners.learner import Tick
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.reproduce.real_records import delay_records
from dpstream.solvers.constrained_quadratic import Constraint, minimise_quadratic

WATCHED = (Watch("*/*/kept at the end", "higher"),)

BUDGET = Budget(epsilon=1.0, delta=1e-6)
EVERY = 500
"""Records between two releases."""

ROUNDING = 1e-9
"""What explains so little less than nothing is the constant."""

DRAWS = 3
LOOKS = 24
"""Releases that are shown; all count for the least one."""


@dataclass(frozen=True, eq=False)
class Records:
    """A stream with its public bounds.

    Attributes:
        features: one row per record.
        targets: in [-1, 1].
        norm_bound: public bound of a row's L2 norm.
        radii: public, of the balls for the coefficients, by name, in these units.
    """

    features: FloatArray
    targets: FloatArray
    norm_bound: float
    radii: Mapping[str, float]

    @property
    def ends(self) -> list[int]:
        """Records at each tick."""
        count = len(self.targets)
        return [*range(EVERY, count, EVERY), count]

    @cached_property
    def moments(self) -> FloatArray:
        """``(ticks, d + 2, d + 2)`` sums of ``z z'``, z = (1, x, y), of all records so far."""
        rows = np.column_stack([np.ones(len(self.targets)), self.features, self.targets])
        whole = np.zeros((rows.shape[1], rows.shape[1]))
        found: list[FloatArray] = []
        for start, stop in zip((0, *self.ends), self.ends, strict=False):
            whole = whole + rows[start:stop].T @ rows[start:stop]
            found.append(whole)
        return np.stack(found)


def flights(folder: Path) -> Records:
    """Arrival delays: an hour and a half is 0, and 150 minutes more is 1."""
    features, targets = delay_records(folder)
    return Records(features, targets, norm_bound=2.5, radii={"L2 ball": 1.0, "L1 ball": 3.0})


def incomes(folder: Path) -> Records:
    """1 for an income above 50,000, else -1."""
    table = adult(folder)
    return Records(table.features, table.labels, table.norm_bound, {"L2 ball": 2.0, "L1 ball": 5.0})


STREAMS: Mapping[str, Callable[[Path], Records]] = {"nycflights": flights, "adult": incomes}


@dataclass(frozen=True)
class Fit:
    """How well a model fits records with some moments.

    Attributes:
        explained: ``1 - var(residual) / var(y)``.
        r_squared: ``1 - mean(residual^2) / var(y)``.
    """

    explained: float
    r_squared: float


def fit(moments: FloatArray, parameters: FloatArray) -> Fit:
    """Of ``(constant, slopes)``, in the records' units."""
    count = float(moments[0, 0])
    edge = np.append(-parameters, 1.0)
    variance = float(moments[-1, -1]) / count - (float(moments[0, -1]) / count) ** 2
    square = float(edge @ moments @ edge) / count
    offset = float(moments[0] @ edge) / count
    return Fit(1.0 - (square - offset**2) / variance, 1.0 - square / variance)


def without_noise(moments: FloatArray, ball: L1Ball | L2Ball | None) -> FloatArray:
    """The minimiser of the squared error over the set, its constant free."""
    mean = moments[0, 1:-1] / moments[0, 0]
    gram = moments[1:-1, 1:-1] - np.outer(mean, mean) * moments[0, 0]
    cross = moments[1:-1, -1] - mean * moments[0, -1]
    if ball is None:
        slopes = np.asarray(np.linalg.lstsq(gram, cross, rcond=1e-10)[0], np.float64)
    else:
        slopes = minimise_quadratic(gram, cross, Constraint(convex_set=ball)).parameters
    level = float(moments[0, -1] / moments[0, 0] - mean @ slopes)
    return np.concatenate(([level], slopes))


def ball_of(records: Records, name: str, *, scale: float = 1.0) -> L1Ball | L2Ball:
    """A declared ball, its radius multiplied by ``scale``."""
    kind = L1Ball if name.startswith("L1") else L2Ball
    return kind(dimension=records.features.shape[1], radius=records.radii[name] * scale)


def learner_for(records: Records, name: str) -> PrivIncReg1:
    """The learner: every choice that is not the problem's is left to it."""
    dimension = records.features.shape[1]
    return PrivIncReg1(
        domain=Domain.vectors(
            dimension, norm_bound=records.norm_bound, target_bound=1.0, intercept=True
        ),
        budget=BUDGET,
        unit=Unit(),
        neighbours=Neighbours.ZERO_OUT,
        horizon=len(records.ends),
        # The domain divides features by their norm bound.
        constraint=ball_of(records, name, scale=records.norm_bound),
        intervals=False,
    )


def released(records: Records, learner: PrivIncReg1, *, draws: int) -> FloatArray:
    """``(draws, ticks, d + 1)`` constants and slopes of every release, in the records' units."""
    batch = learner.domain.admit(records.features, records.targets)
    found = np.empty((draws, len(records.ends), 1 + learner.domain.dimension))
    noises = [Noise.insecure(draw) for draw in range(draws)]
    runs = [learner.init() for _ in range(draws)]
    start = 0
    for place, stop in enumerate(records.ends):
        tick, part = Tick(number=place + 1, records=stop), batch.slice(start, stop)
        for draw, (state, noise) in enumerate(zip(runs, noises, strict=True)):
            learner.learn(state, part)
            learner.close(state, tick)
            model = learner.release(state, tick, noise).model["targets"][0]
            found[draw, place] = released_parameters(model, learner.domain)
        start = stop
    found[:, :, 1:] /= records.norm_bound
    return found


def figures(records: Records, *, draws: int = DRAWS) -> dict[str, Any]:
    """Explained variance over time, for every set."""
    ends, moments = records.ends, records.moments
    shown = np.unique(np.rint(np.geomspace(1, len(ends), LOOKS)).astype(int)) - 1
    free = fit(moments[-1], without_noise(moments[-1], None)).explained
    found: dict[str, Any] = {
        "records": len(records.targets),
        "features": records.features.shape[1],
        "releases": len(ends),
        "draws": draws,
        "least squares without a set": free,
    }
    for name in records.radii:
        models = released(records, learner_for(records, name), draws=draws)
        fits = [[fit(m, point) for m, point in zip(moments, run, strict=True)] for run in models]
        explained = np.array([[one.explained for one in run] for run in fits])
        ball = ball_of(records, name)
        best = [fit(moments[look], without_noise(moments[look], ball)).explained for look in shown]
        found[name] = {
            "radius": ball.radius,
            "explained at the end": float(explained[:, -1].mean()),
            "non-private at the end": best[-1],
            "kept at the end": float(explained[:, -1].mean()) / best[-1],
            "kept at the end, least draw": float(explained[:, -1].min()) / best[-1],
            "kept of least squares": float(explained[:, -1].mean()) / free,
            "least of all releases": float(explained.min()),
            "releases below zero": int(np.sum(explained < -ROUNDING)),
            "R^2 at the end": float(np.mean([run[-1].r_squared for run in fits])),
            "at records": [ends[look] for look in shown],
            "explained": explained[:, shown].mean(axis=0).tolist(),
            "non-private": best,
        }
    return found


def run(
    *, data: Path, names: tuple[str, ...] = tuple(STREAMS), draws: int = DRAWS
) -> dict[str, Any]:
    """Explained variance on flights and incomes at epsilon 1, delta 1e-6, zero_out; JSON-ready.

    Args:
        data: the folder with ``nycflights13.npz`` and ``adult.npz``.
        names: which of them.
        draws: of the noise.

    Raises:
        SourceError: if a file is missing.
    """
    return {
        "epsilon": BUDGET.epsilon,
        "delta": BUDGET.delta,
        "neighbours": Neighbours.ZERO_OUT.value,
        "every": EVERY,
        **{name: figures(STREAMS[name](data), draws=draws) for name in names},
    }
