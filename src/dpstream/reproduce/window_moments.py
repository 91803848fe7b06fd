"""Squared loss on a window: measured once by its moments, against fits of its blocks.

Moments of d features are some d^2 / 2 numbers that never need a regulariser, measured for every
window from one lifelong sum; a fit is d numbers whose noise falls with the regulariser, which draws
them to zero. The stream stands still, so that nothing but noise and this bias is compared. Fits are
given the best of several ridges in hindsight, moments one penalty for all.
"""

from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.domain import Domain
from dpstream.learners.window.sliding_window import SlidingWindowRelease
from dpstream.learners.window.windowed_regression import WindowedRegression
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.reproduce.block_track import Track, track

BLOCK = 1000
WINDOW = 7
BLOCKS = 10
DIMENSIONS = (5, 20, 40)
EPSILONS = (0.3, 1.0)
RIDGES = (0.3, 0.1, 0.03, 0.01)
PENALTY = 1e-3
_LENGTH = 0.9
_DEVIATION = 0.1


def compare_moments(*, dimension: int, epsilon: float, repeats: int) -> dict[str, Any]:
    """The excess squared error of full windows on the block after them, both ways; JSON-ready.

    Args:
        dimension: of the features, which are uniform on the unit sphere.
        epsilon: of the budget.
        repeats: runs.
    """
    truth = np.full(dimension, _LENGTH / np.sqrt(dimension))
    settings: dict[str, Any] = {
        "domain": Domain.vectors(dimension, norm_bound=1.0, target_bound=1.0),
        "budget": Budget(epsilon=epsilon, delta=1e-6),
        "unit": Unit(),
        "neighbours": Neighbours.ZERO_OUT,
        "radius": 1.0,
    }

    def rows(repeat: int) -> tuple[FloatArray, FloatArray]:
        draw = public_generator(repeat)
        features = draw.normal(size=(BLOCK * BLOCKS, dimension))
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        return features, features @ truth + draw.normal(0.0, _DEVIATION, len(features))

    def score(_: int, coefficients: FloatArray) -> float:
        # Features have the covariance 1/d.
        return float(np.sum((coefficients.ravel() - truth) ** 2)) / dimension

    shared: dict[str, Any] = {
        "rows": rows,
        "score": score,
        "blocks": BLOCKS,
        "repeats": repeats,
        "size": BLOCK,
    }
    moments = WindowedRegression(
        window_ticks=WINDOW, penalty=PENALTY, tick_records=BLOCK, **settings
    )
    measured = track(
        "moments",
        lambda: moments,
        read=lambda model: model["targets"][0]["user"]["coefficients"]["estimate"],
        **shared,
    )
    fits = {
        ridge: _after(
            track(
                f"ridge {ridge:g}",
                lambda ridge=ridge: SlidingWindowRelease(
                    window_records=WINDOW * BLOCK,
                    loss=SquaredLoss(),
                    block_records=BLOCK,
                    horizon=None,
                    ridge=ridge,
                    **settings,
                ),
                **shared,
            )
        )
        for ridge in RIDGES
    }
    best = min(fits, key=fits.__getitem__)
    return {
        "dimension": dimension,
        "epsilon": epsilon,
        "zero_model": _LENGTH**2 / dimension,
        "moments": _after(measured),
        "refitted": fits[best],
        "best_ridge": best,
        "refitted_by_ridge": {f"{ridge:g}": value for ridge, value in fits.items()},
    }


def _after(found: Track) -> float:
    """The median over runs of the mean over full windows."""
    return float(np.median(found.values[:, found.blocks >= WINDOW].mean(axis=1)))


def moment_comparisons(*, repeats: int) -> list[dict[str, Any]]:
    """For every dimension and budget."""
    return [
        compare_moments(dimension=dimension, epsilon=epsilon, repeats=repeats)
        for dimension in DIMENSIONS
        for epsilon in EPSILONS
    ]
