"""Models of recent data, after paper 003's figures 4 and 5, with noise for the true worst record.

On digits: test accuracy of softmax regression after every 1024 images, over a sliding window of 7
blocks and over all images so far, for several budgets. Rules are compared: the paper's chains and
doubling updates; the same rules with one refit of everything after each block, which with noise
calibrated to what the worst record really pays is quieter; and a model of each block by itself.
Ridges were chosen once, on these public data.

On a synthetic stream whose truth turns around abruptly: squared error of the sliding and of the
cumulative model on the newest block.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.column import Numeric
from dpstream.domain.domain import Domain
from dpstream.domain.target import LabelTarget
from dpstream.learners.learner import Tick
from dpstream.learners.window.basic_release import BasicRelease
from dpstream.learners.window.block_learner import BlockLearner
from dpstream.learners.window.continual_release import ContinualRelease
from dpstream.learners.window.sliding_window import SlidingWindowRelease
from dpstream.losses.softmax import SoftmaxLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.report.figure import Line, line_figure
from dpstream.report.page import Block, Picture, Table, Text, render_page
from dpstream.reproduce.digit import CLASSES, FEATURES, Digits, load_digits

BLOCK = 1024
WINDOW_BLOCKS = 7
BASE_BLOCKS = 8
BLOCKS = 20
DELTA = 1e-6
EPSILONS = (0.25, 0.5, 1.0, 2.0)
RADIUS = 50.0
DRIFT_BLOCK = 1000
DRIFT_BLOCKS = 40
DRIFT_DIMENSION = 5

Make = Callable[[Domain, Budget], BlockLearner]


@dataclass(frozen=True, kw_only=True)
class Track:
    """One learner's figures over blocks.

    Attributes:
        name: what was run.
        blocks: after which blocks a model was there.
        values: ``(repeats, blocks)``.
    """

    name: str
    blocks: IntArray
    values: FloatArray

    @property
    def median(self) -> FloatArray:
        """Over repeats."""
        return np.median(self.values, axis=0)

    def to_json(self) -> dict[str, Any]:
        """Median and quartiles after each block."""
        lower, upper = np.quantile(self.values, [0.25, 0.75], axis=0)
        return {
            "name": self.name,
            "blocks": self.blocks.tolist(),
            "median": self.median.tolist(),
            "lower_quartile": lower.tolist(),
            "upper_quartile": upper.tolist(),
        }

    def line(self) -> Line:
        """Median and quartiles as a curve."""
        lower, upper = np.quantile(self.values, [0.25, 0.75], axis=0)
        return Line(
            x=self.blocks.astype(np.float64),
            y=self.median,
            lower=lower,
            upper=upper,
            marker=len(self.blocks) < 25,
        )


def _settings(domain: Domain, budget: Budget) -> dict[str, Any]:
    return {
        "domain": domain,
        "budget": budget,
        "unit": Unit(),
        "neighbours": Neighbours.ZERO_OUT,
        "radius": RADIUS,
    }


def _digit_settings(domain: Domain, budget: Budget, horizon: int | None) -> dict[str, Any]:
    loss = SoftmaxLoss(classes=CLASSES)
    return _settings(domain, budget) | {
        "loss": loss,
        "block_records": BLOCK,
        "horizon": horizon,
    }


def _sliding(
    blocks: int, *, refresh: int | None, ridge: float, update: float | None = None, tilt: float = 0
) -> Make:
    return lambda domain, budget: SlidingWindowRelease(
        window_records=blocks * BLOCK,
        refresh=refresh,
        ridge=ridge,
        update_ridge=update,
        tilt=tilt,
        **_digit_settings(domain, budget, None),
    )


SLIDING: Mapping[str, Make] = {
    "window refitted": _sliding(WINDOW_BLOCKS, refresh=1, ridge=0.01),
    "chains, quieter bases": _sliding(
        WINDOW_BLOCKS, refresh=None, ridge=0.02, update=0.3, tilt=0.4
    ),
    "chains, equal noise (paper)": _sliding(WINDOW_BLOCKS, refresh=None, ridge=0.1),
    "each block by itself": _sliding(1, refresh=1, ridge=0.1),
}

CUMULATIVE: Mapping[str, Make] = {
    "all refitted": lambda domain, budget: ContinualRelease(
        base=BASE_BLOCKS,
        updates="refit",
        ridge=0.01,
        tilt=0.5,
        **_digit_settings(domain, budget, BLOCKS),
    ),
    "doubling, quieter bases": lambda domain, budget: ContinualRelease(
        base=BASE_BLOCKS,
        ridge=0.02,
        update_ridge=0.5,
        tilt=0.5,
        **_digit_settings(domain, budget, None),
    ),
    "doubling, equal noise (paper)": lambda domain, budget: ContinualRelease(
        base=BASE_BLOCKS, ridge=0.1, **_digit_settings(domain, budget, None)
    ),
    "basic, equal noise (paper)": lambda domain, budget: BasicRelease(
        base=BASE_BLOCKS, ridge=0.1, **_digit_settings(domain, budget, None)
    ),
}


def track(
    name: str,
    make: Callable[[], BlockLearner],
    *,
    rows: Callable[[int], tuple[FloatArray, Any]],
    score: Callable[[int, FloatArray], float],
    blocks: int,
    repeats: int,
) -> Track:
    """Run a learner several times, with new noise each.

    Args:
        name: of the track.
        make: the learner.
        rows: features and targets of a repeat's whole stream.
        score: of a model's coefficients after a block.
        blocks: how many to run.
        repeats: how often.
    """
    learner = make()
    size = learner.block_records
    ready: list[int] = []
    values: list[list[float]] = []
    for repeat in range(repeats):
        batch = learner.domain.admit(*rows(repeat))
        # Reproduction on public data: the noise can be drawn again by anyone.
        noise = Noise.insecure(repeat).child(name)
        state = learner.init()
        ready, found = [], list[float]()
        for number in range(1, blocks + 1):
            tick = Tick(number=number, records=number * size)
            learner.learn(state, batch.slice((number - 1) * size, number * size))
            learner.close(state, tick)
            model = learner.release(state, tick, noise).model
            if model["ready"]:
                ready.append(number)
                found.append(score(number, np.array(model["user"]["coefficients"])))
        values.append(found)
    return Track(name=name, blocks=np.array(ready, np.int64), values=np.array(values))


def digit_domain() -> Domain:
    """Features in the unit ball, and ten classes."""
    columns = [Numeric(f"edge{index}") for index in range(FEATURES)]
    return Domain(
        columns, LabelTarget("digit", list(range(CLASSES))), intercept=False, norm_bound=1.0
    )


def digit_track(
    name: str, make: Make, digits: Digits, *, epsilon: float, blocks: int, repeats: int
) -> Track:
    """Test accuracy over a stream of digits, in a new public order for each repeat."""
    domain, budget = digit_domain(), Budget(epsilon=epsilon, delta=DELTA)

    def rows(repeat: int) -> tuple[FloatArray, Any]:
        order = public_generator(repeat).permutation(len(digits.labels))
        return digits.features[order], digits.labels[order]

    def accuracy(_: int, coefficients: FloatArray) -> float:
        guess = (digits.test_features @ coefficients.T).argmax(axis=1)
        return float((guess == digits.test_labels).mean())

    return track(
        name,
        lambda: make(domain, budget),
        rows=rows,
        score=accuracy,
        blocks=blocks,
        repeats=repeats,
    )


def drift_tracks(*, repeats: int) -> list[Track]:
    """Squared error on the newest block, before and after the truth changes its sign."""
    domain = Domain.vectors(DRIFT_DIMENSION, norm_bound=1.0, target_bound=1.0)
    budget = Budget(epsilon=1.0, delta=DELTA)
    settings: dict[str, Any] = _settings(domain, budget) | {
        "loss": SquaredLoss(),
        "block_records": DRIFT_BLOCK,
        "horizon": DRIFT_BLOCKS,
        "ridge": 0.1,
        "radius": 1.0,
    }
    truth = np.full(DRIFT_DIMENSION, 0.9 / np.sqrt(DRIFT_DIMENSION))
    signs = np.where(np.arange(DRIFT_BLOCK * DRIFT_BLOCKS) < DRIFT_BLOCK * 20, 1.0, -1.0)

    def rows(repeat: int) -> tuple[FloatArray, FloatArray]:
        generator = public_generator(repeat)
        features = generator.normal(size=(len(signs), DRIFT_DIMENSION))
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        noise = generator.normal(0.0, 0.05, len(signs))
        return features, signs * (features @ truth) + noise

    features, _ = rows(1000)

    def error(number: int, coefficients: FloatArray) -> float:
        sign = float(signs[(number - 1) * DRIFT_BLOCK])
        return float(np.mean((features @ (coefficients[0] - sign * truth)) ** 2))

    makes: Mapping[str, Callable[[], BlockLearner]] = {
        "sliding window": lambda: SlidingWindowRelease(
            window_records=WINDOW_BLOCKS * DRIFT_BLOCK, **settings
        ),
        "cumulative": lambda: ContinualRelease(base=BASE_BLOCKS, updates="refit", **settings),
    }
    return [
        track(name, make, rows=rows, score=error, blocks=DRIFT_BLOCKS, repeats=repeats)
        for name, make in makes.items()
    ]


def windows(data: Path, out: Path | None = None, *, repeats: int = 4) -> dict[str, Any]:
    """Run all experiments; with ``out``, write ``windows.html`` there.

    Args:
        data: the folder that holds ``mnist.npz``.
        out: a folder for the page, made if it is missing; None for numbers alone.
        repeats: runs with new orders and noise per curve.

    Returns:
        JSON-ready: per curve its medians and quartiles.
    """
    digits = load_digits(data, records=BLOCK * BLOCKS)
    over_time = {
        kind: [
            digit_track(name, make, digits, epsilon=1.0, blocks=BLOCKS, repeats=repeats)
            for name, make in makes.items()
        ]
        for kind, makes in (("sliding", SLIDING), ("cumulative", CUMULATIVE))
    }
    by_budget = [_by_budget(name, make, digits, repeats) for name, make in SLIDING.items()]
    drift = drift_tracks(repeats=repeats)
    result: dict[str, Any] = {
        "name": "windows",
        "delta": DELTA,
        "neighbours": Neighbours.ZERO_OUT.value,
        "block_records": BLOCK,
        "sliding": [item.to_json() for item in over_time["sliding"]],
        "cumulative": [item.to_json() for item in over_time["cumulative"]],
        "by_epsilon": by_budget,
        "drift": [item.to_json() for item in drift],
    }
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        page = out / "windows.html"
        page.write_text(_page(over_time, by_budget, drift), encoding="utf-8")
        result["page"] = str(page)
    return result


def _by_budget(name: str, make: Make, digits: Digits, repeats: int) -> dict[str, Any]:
    """Accuracy once the first window is full, against epsilon."""
    values = [
        digit_track(
            name, make, digits, epsilon=epsilon, blocks=WINDOW_BLOCKS, repeats=repeats
        ).values[:, -1]
        for epsilon in EPSILONS
    ]
    quartiles = np.quantile(np.array(values), [0.25, 0.5, 0.75], axis=1)
    return {
        "name": name,
        "epsilon": list(EPSILONS),
        "lower_quartile": quartiles[0].tolist(),
        "median": quartiles[1].tolist(),
        "upper_quartile": quartiles[2].tolist(),
    }


def _page(
    over_time: Mapping[str, Sequence[Track]],
    by_budget: Sequence[Mapping[str, Any]],
    drift: Sequence[Track],
) -> str:
    sections: list[tuple[str, Sequence[Block]]] = []
    for kind, tracks in over_time.items():
        picture = line_figure(
            {item.name: item.line() for item in tracks},
            x_label=f"blocks of {BLOCK}",
            y_label="test accuracy",
        )
        rows = [(item.name, item.median[0], item.median[-1]) for item in tracks]
        blocks = [
            Picture(picture, "median and quartiles over runs"),
            Table(("rule", "first model", "last model"), rows),
        ]
        sections.append((f"Digits: {kind}", blocks))
    curves = {
        str(item["name"]): Line(
            x=np.array(item["epsilon"]),
            y=np.array(item["median"]),
            lower=np.array(item["lower_quartile"]),
            upper=np.array(item["upper_quartile"]),
            marker=True,
        )
        for item in by_budget
    }
    picture = line_figure(curves, x_label="epsilon", y_label="test accuracy", x_log=True)
    sections.append(
        ("Digits: first full window", [Picture(picture, "median and quartiles over runs")])
    )
    picture = line_figure(
        {item.name: item.line() for item in drift},
        x_label=f"blocks of {DRIFT_BLOCK}",
        y_label="excess squared error",
        y_log=True,
    )
    sections.append(("Abrupt drift", [Picture(picture, "the truth changes after block 20")]))
    sections.append(("Setup", [Text(line) for line in str(__doc__).split("\n\n")]))
    lead = f"epsilon = 1 unless said otherwise, delta = {DELTA:g}, {Neighbours.ZERO_OUT.value}"
    return render_page("Continual and sliding-window release", lead, sections)
