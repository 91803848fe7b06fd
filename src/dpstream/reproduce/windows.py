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
from pathlib import Path
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.column import Numeric
from dpstream.domain.domain import Domain
from dpstream.domain.target import LabelTarget
from dpstream.learners.window.basic_release import BasicRelease
from dpstream.learners.window.block_learner import BlockLearner
from dpstream.learners.window.continual_release import ContinualRelease
from dpstream.learners.window.sliding_window import SlidingWindowRelease
from dpstream.losses.softmax import SoftmaxLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.report.figure import Line, line_figure
from dpstream.report.page import Block, Picture, Table, Text, render_page
from dpstream.reproduce.block_track import Track, track
from dpstream.reproduce.digit import CLASSES, FEATURES, Digits, load_digits
from dpstream.reproduce.printed_window import MARK, PrintedRun, printed_sliding

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


def printed_track(digits: Digits, *, epsilon: float, blocks: int, repeats: int) -> dict[str, Any]:
    """Accuracy with the noise as printed, which is not private, and what one fit costs at least."""
    learner = SLIDING["chains, equal noise (paper)"](
        digit_domain(), Budget(epsilon=epsilon, delta=DELTA)
    )
    values: list[list[float]] = []
    runs: list[PrintedRun] = []
    for repeat in range(repeats):
        order = public_generator(repeat).permutation(len(digits.labels))[: blocks * BLOCK]
        run = printed_sliding(
            learner.solver,
            learner.domain.admit(digits.features[order], digits.labels[order]),
            window=WINDOW_BLOCKS,
            penalty=1.0,
            epsilon=epsilon,
            seed=repeat,
        )
        tables = run.points.reshape(len(run.blocks), CLASSES, FEATURES)
        guesses = np.einsum("nf,bkf->bnk", digits.test_features, tables, optimize=True).argmax(2)
        values.append((guesses == digits.test_labels).mean(axis=1).tolist())
        runs.append(run)
    found = Track(
        name=f"as printed ({MARK})",
        blocks=np.array(runs[0].blocks, np.int64),
        values=np.array(values),
    )
    return found.to_json() | {
        "claimed_epsilon": epsilon,
        "true_epsilon_at_least": max(run.epsilon_at_least for run in runs),
    }


def windows(
    data: Path | None = None, out: Path | None = None, *, repeats: int = 4
) -> dict[str, Any]:
    """Run all experiments; with ``out``, write ``windows.html`` there.

    Args:
        data: the folder that holds ``mnist.npz``; None for the synthetic stream alone.
        out: a folder for the page, made if it is missing; None for numbers alone.
        repeats: runs with new orders and noise per curve.

    Returns:
        JSON-ready: per curve its medians and quartiles.
    """
    drift = drift_tracks(repeats=repeats)
    over_time: dict[str, list[Track]] = {}
    by_budget: list[dict[str, Any]] = []
    result: dict[str, Any] = {
        "name": "windows",
        "delta": DELTA,
        "neighbours": Neighbours.ZERO_OUT.value,
        "block_records": BLOCK,
        "drift": [item.to_json() for item in drift],
    }
    if data is not None:
        digits = load_digits(data, records=BLOCK * BLOCKS)
        for kind, makes in (("sliding", SLIDING), ("cumulative", CUMULATIVE)):
            over_time[kind] = [
                digit_track(name, make, digits, epsilon=1.0, blocks=BLOCKS, repeats=repeats)
                for name, make in makes.items()
            ]
            result[kind] = [item.to_json() for item in over_time[kind]]
        by_budget = [_by_budget(name, make, digits, repeats) for name, make in SLIDING.items()]
        result["by_epsilon"] = by_budget
        result["printed"] = printed_track(digits, epsilon=1.0, blocks=BLOCKS, repeats=repeats)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        page = out / "windows.html"
        page.write_text(_page(over_time, by_budget, drift, result.get("printed")), encoding="utf-8")
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
    printed: Mapping[str, Any] | None,
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
    if by_budget:
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
    if printed is not None:
        text = (
            f"With the noise as printed, which is {MARK}, the median accuracy after the last "
            f"block is {printed['median'][-1]:.3f}; the claimed epsilon is "
            f"{printed['claimed_epsilon']:g}, the true one at least "
            f"{printed['true_epsilon_at_least']:.1f}."
        )
        sections.append(("Digits: the paper's own noise", [Text(text)]))
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
