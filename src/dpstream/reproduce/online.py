"""Online learners: papers 004 (figures 2a, 2b, 2c) and 002, ours beside the printed constants.

Figure 2a: PQFTL on Gaussian features of dimension 10 scaled into the unit ball, alpha = 1, T =
100,000: average regret against epsilon. Figure 2b: the same on delays of flights, where the data
are given. Figure 2c: PIGD on the forest cover types, where they are given: accuracy on a tenth of
the records held out. Paper 002: regret against T at a fixed window, against the window, with
projections and with a linear oracle, with Gaussian and with Gamma noise.

Regret is that of released models on the records that follow, against the best fixed model in
hindsight, which is computed without privacy: for experiments only. Printed constants are run as
printed, on the same streams, as a comparison that promises nothing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.errors import SourceError
from dpstream.learners.learner import Tick
from dpstream.learners.online.follow_the_leader import FollowTheLeader
from dpstream.learners.online.pigd import ImplicitGradientDescent
from dpstream.learners.online.pocp import POCP
from dpstream.losses.logistic import LogisticLoss
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.report.figure import Line, line_figure
from dpstream.report.page import Block, Picture, Table, Text, render_page
from dpstream.reproduce.expiration import expiry_figures
from dpstream.reproduce.quadratic_stream import (
    DELTA,
    QuadraticStream,
    our_quadratic_regret,
    printed_quadratic_regret,
    quadratic_records,
)

EPSILONS = (0.01, 0.1, 1.0, 10.0)
COVER_MODULUS = 3e-3
"""Of PIGD's regulariser, chosen for the size of a logistic model in the unit ball, not on data."""

COVER_LOWER = (1500, 0, 0, 0, -500, 0, 0, 0, 0, 0)
COVER_UPPER = (4400, 360, 90, 2000, 1000, 10000, 255, 255, 255, 10000)
"""Public bounds of the forest's ten numeric columns: metres, degrees, shades of grey."""


@dataclass(frozen=True)
class Comparison:
    """A figure's numbers: one row per epsilon.

    Attributes:
        name: of the figure.
        quantity: what is shown.
        ours: mean per epsilon.
        printed: mean per epsilon with the paper's constants.
        without_privacy: the level without noise.
        leader: mean per epsilon of following the leader on gradients, where that is shown.
    """

    name: str
    quantity: str
    ours: Mapping[float, float]
    printed: Mapping[float, float]
    without_privacy: float
    leader: Mapping[float, float] = field(default_factory=dict[float, float])

    @property
    def series(self) -> Mapping[str, Mapping[float, float]]:
        """The curves by name."""
        shown = {"ours": self.ours, "printed constants": self.printed}
        return shown | {"follow the leader": self.leader} if self.leader else shown

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        series = {
            name: {f"{epsilon:g}": value for epsilon, value in held.items()}
            for name, held in self.series.items()
        }
        return {"quantity": self.quantity, **series, "without privacy": self.without_privacy}


def quadratic_comparison(name: str, stream: QuadraticStream, *, draws: int) -> Comparison:
    """Average regret against epsilon."""
    exact = np.cumsum(stream.moments, axis=0)
    leaders = [stream.leader(held, end) for held, end in zip(exact, stream.ends, strict=True)]
    return Comparison(
        name,
        "average regret",
        {epsilon: our_quadratic_regret(stream, epsilon, draws=draws) for epsilon in EPSILONS},
        {epsilon: printed_quadratic_regret(stream, epsilon, draws=draws) for epsilon in EPSILONS},
        stream.average_regret(leaders),
    )


# --- figure 2c -----------------------------------------------------------------------------------


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


def flight_records(data: Path) -> tuple[FloatArray, FloatArray]:
    """Schedules of flights and their arrival delays, scaled by public bounds.

    Raises:
        SourceError: if the file lacks what is needed.
    """
    names = ("sched_dep", "sched_arr", "distance", "dow", "origin", "arr_delay")
    held = _arrays(data / "nycflights13.npz", names)
    known = held["arr_delay"] != -32768
    numbers = np.stack(
        [held["sched_dep"] / 1440, held["sched_arr"] / 1440, held["distance"] / 5000], axis=1
    )[known]
    parts = (2.0 * np.clip(numbers, 0.0, 1.0) - 1.0, np.eye(7)[held["dow"][known]])
    origins = np.eye(3)[held["origin"][known]]
    features = np.concatenate((*parts, origins), axis=1) / math.sqrt(5.0)
    return features, np.clip((held["arr_delay"][known] - 90.0) / 150.0, -1.0, 1.0)


def _arrays(path: Path, names: Sequence[str]) -> Mapping[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as held:
            return {name: held[name] for name in names}
    except (OSError, KeyError, ValueError) as error:
        raise SourceError(
            f"{path} cannot be read as arrays {', '.join(names)} ({type(error).__name__})"
        ) from None


def printed_pigd_scale(*, horizon: int, epsilon: float, delta: float, modulus: float) -> float:
    """The printed beta of Algorithm 2 for L = 1; noise after t records is ``beta / t``.

    Theorem 1 gives ``(3 epsilon, 2 delta)``, so a third and a half of the budget are put in.
    """
    own, slack = epsilon / 3.0, delta / 2.0
    exponent = math.log(math.log(2.0 / slack) / (2.0 * own)) / (2.0 * math.log(horizon))
    power = horizon ** (0.5 + exponent)
    return (
        2.0
        * power
        / modulus
        * math.sqrt(2.0 / own * (math.log(horizon / slack) + own**0.5 / power))
    )


def forest_comparison(
    features: FloatArray, labels: FloatArray, *, draws: int, tick: int = 4096
) -> Comparison:
    """Accuracy of PIGD's last release on a tenth of the records, over shuffles."""
    domain = Domain.vectors(features.shape[1], norm_bound=1.0, target_bound=1.0, intercept=True)
    ours: dict[float, list[float]] = {epsilon: [] for epsilon in EPSILONS}
    printed: dict[float, list[float]] = {epsilon: [] for epsilon in EPSILONS}
    leader: dict[float, list[float]] = {epsilon: [] for epsilon in EPSILONS}
    plain: list[float] = []
    for draw in range(draws):
        generator = public_generator(draw)
        order = generator.permutation(len(labels))
        held_out = len(labels) // 10
        test = domain.admit(features[order[:held_out]], labels[order[:held_out]])
        train = domain.admit(features[order[held_out:]], labels[order[held_out:]])
        ticks = -(-len(train) // tick)
        noise = Noise.insecure(draw)
        for epsilon in EPSILONS:
            learner = POCP(
                domain=domain,
                budget=Budget(epsilon=epsilon, delta=DELTA),
                unit=Unit(),
                neighbours=Neighbours.REPLACE,
                releases=ticks,
                algorithm=ImplicitGradientDescent(),
                loss=LogisticLoss(),
                modulus=COVER_MODULUS,
            )
            state = learner.init()
            learner.learn(state, train)
            # Only the last release is judged; its number, hence its price, is the last one's.
            state.released = ticks - 1
            released = learner.release(state, Tick(number=ticks, records=len(train)), noise).model
            point = np.append(released["intercept"], released["coefficients"][0])
            ours[epsilon].append(_accuracy(point, test))
            scales = np.append(learner.constant_scale, np.ones(domain.dimension))
            beta = printed_pigd_scale(
                horizon=len(train), epsilon=epsilon, delta=DELTA, modulus=COVER_MODULUS
            )
            added = beta / len(train) * generator.standard_normal(len(state.point))
            printed[epsilon].append(_accuracy((state.point + added) * scales, test))
            leader[epsilon].append(_leader_accuracy(train, test, domain, epsilon, tick, noise))
            if epsilon == EPSILONS[0]:
                plain.append(_accuracy(state.point * scales, test))
    return Comparison(
        "2c: PIGD on forest cover types",
        "accuracy",
        {epsilon: float(np.mean(values)) for epsilon, values in ours.items()},
        {epsilon: float(np.mean(values)) for epsilon, values in printed.items()},
        float(np.mean(plain)),
        {epsilon: float(np.mean(values)) for epsilon, values in leader.items()},
    )


def _leader_accuracy(
    train: Batch, test: Batch, domain: Domain, epsilon: float, tick: int, noise: Noise
) -> float:
    """Of the last release of ``FollowTheLeader``, with every choice left to it."""
    ends = (*range(tick, len(train), tick), len(train))
    learner = FollowTheLeader(
        domain=domain,
        budget=Budget(epsilon=epsilon, delta=DELTA),
        unit=Unit(),
        neighbours=Neighbours.REPLACE,
        horizon=len(ends),
        loss=LogisticLoss(),
    )
    state, start = learner.init(), 0
    for number, stop in enumerate(ends, start=1):
        learner.learn(state, train.slice(start, stop))
        closed = Tick(number=number, records=stop)
        learner.close(state, closed)
        learner.release(state, closed, noise)
        start = stop
    return _accuracy(learner.stack.published(state.point)[0], test)


def _accuracy(point: FloatArray, batch: Batch) -> float:
    scores = batch.scaled_features @ point[1:] + point[0]
    return float(np.mean((scores > 0) == (batch.scaled_targets[:, 0] > 0)))


# --- everything ----------------------------------------------------------------------------------


def online(
    out: Path | None = None,
    data: Path | None = None,
    *,
    draws: int = 4,
    records: int = 100_000,
    shuffles: int = 10,
    expiry_records: int = 1 << 15,
) -> dict[str, Any]:
    """Run all experiments; with ``out``, write ``online.html`` there.

    Args:
        out: a folder for the page, made if it is missing; None for numbers alone.
        data: a folder with ``covtype.npz`` or ``nycflights13.npz``; None for synthetic streams.
        draws: of the noise per point.
        records: of figure 2a's stream.
        shuffles: of the forest's records.
        expiry_records: of paper 002's streams.

    Returns:
        JSON-ready: each figure's numbers.
    """
    drawn = quadratic_records(dimension=10, records=records, seed=1)
    stream = QuadraticStream.admitted(*drawn, tick=500)
    comparisons = [quadratic_comparison("2a: PQFTL, synthetic", stream, draws=draws)]
    if data is not None and (data / "nycflights13.npz").exists():
        flights = QuadraticStream.admitted(*flight_records(data), tick=1000)
        comparisons.append(quadratic_comparison("2b: PQFTL on flights", flights, draws=draws))
    if data is not None and (data / "covtype.npz").exists():
        comparisons.append(forest_comparison(*forest_records(data), draws=shuffles))
    expiry = expiry_figures(records=expiry_records, draws=draws)
    result: dict[str, Any] = {
        "name": "online",
        "delta": DELTA,
        "neighbours": Neighbours.REPLACE.value,
        "figures": {comparison.name: comparison.to_json() for comparison in comparisons},
        "expiration (paper 002)": expiry,
    }
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        page = out / "online.html"
        page.write_text(_page(comparisons, expiry), encoding="utf-8")
        result["page"] = str(page)
    return result


def _page(comparisons: Sequence[Comparison], expiry: Mapping[str, Any]) -> str:
    sections: list[tuple[str, Sequence[Block]]] = []
    for figure in comparisons:
        lines = {
            name: Line(x=np.array(list(held)), y=np.array(list(held.values())), marker=True)
            for name, held in figure.series.items()
        }
        picture = line_figure(
            lines,
            x_label="epsilon",
            y_label=figure.quantity,
            x_log=True,
            y_log=figure.quantity == "average regret",
            references={"without privacy": figure.without_privacy},
        )
        rows = [(e, *(held[e] for held in figure.series.values())) for e in EPSILONS]
        caption = f"{figure.quantity} against epsilon; without privacy {figure.without_privacy:.4g}"
        table = Table(("epsilon", *figure.series), rows)
        sections.append((figure.name, [Picture(picture, caption), table]))
    places = np.array(expiry["records"], np.float64)
    regrets = expiry["total regret"]
    lines = {name: Line(x=places, y=np.array(path)) for name, path in regrets.items()}
    picture = line_figure(lines, x_label="records", y_label="total regret", x_log=True)
    caption = "Total regret against the number of records; straight lines are logarithmic growth"
    rows = [(name, path[-1]) for name, path in regrets.items()]
    table = Table(("learner", "total regret at the end"), rows)
    sections.append(("Privacy expiration (paper 002)", [Picture(picture, caption), table]))
    sections.append(("Setup", [Text(line) for line in str(__doc__).split("\n\n")]))
    lead = f"delta = {DELTA:g}, {Neighbours.REPLACE.value}"
    return render_page("Private online learning", lead, sections)
