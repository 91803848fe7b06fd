"""What the worst record pays for windowed and decayed moments, counted out over an endless stream.

Unit records are put into the encoder itself, at ticks that fall on ever other places of its round
of refreshed buffers, so far apart that none of their nodes are shared; the squares of what each
adds to the nodes, over the noise's weights, are added up. The largest sum, times a record's shift,
and what rounding to the lattice may add besides, must be the claim.
"""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from dpstream.domain.lattice import ExactVector
from dpstream.learners.window.windowed_regression import WindowedRegression
from dpstream.mechanisms.continual.strategy import Participation, Strategy
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.curve import PrivacyCurve
from dpstream.privacy.event import GaussianEvent

_AT_ONCE = 32
"""Records that are followed beside one another, each in a coordinate of its own."""

_ONE = -20
_NODES = -50
"""Lattices of the records and of the nodes: rounding is far below what is compared."""


def largest_column(strategy: Strategy, ticks: int) -> tuple[float, int]:
    """The largest norm of one record's shift of all nodes, and how many records were followed.

    Args:
        strategy: without a horizon.
        ticks: at least so many; more if no record would be followed to its last node.
    """
    # Nodes that one record may reach: their weights are 1 in windowed and decayed sums.
    reach = math.ceil(strategy.rounding_norm(Participation(), order=2) ** 2)
    return _followed(strategy, reach, max(ticks, reach + 1))


@lru_cache(maxsize=4)
def _followed(strategy: Strategy, reach: int, ticks: int) -> tuple[float, int]:
    begins = public_generator(1).integers(0, reach, _AT_ONCE)
    begins[0] = 0
    encoder = strategy.encoder(_AT_ONCE, increment_exponent=_ONE, node_exponent=_NODES)
    squares, largest, followed = np.zeros(_AT_ONCE), 0.0, 0
    for tick in range(ticks):
        record = begins == tick % (reach + 1)
        if record.any():
            largest = max(largest, float(squares[record].max()))
            squares[record] = 0.0
            followed += int(record.sum())
        ones = record.astype(np.int64) << -_ONE
        encoder.absorb(ExactVector.from_integers(ones, _ONE))
        for node in encoder.nodes():
            assert node.weight > 0.0
            squares += (np.ldexp(node.value.astype(np.float64), node.exponent) / node.weight) ** 2
    return math.sqrt(max(largest, float(squares.max()))), followed


def moment_figures(
    learners: Mapping[str, WindowedRegression], ticks: int, *, allowed: float
) -> dict[str, dict[str, Any]]:
    """For every learner, what the worst record pays, what is claimed, and their difference.

    Args:
        learners: by name; with Gaussian noise.
        ticks: of the stream.
        allowed: between the two, where they count as equal.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, learner in learners.items():
        total = learner.stream.sum
        (event,) = learner.opening_events()
        assert isinstance(event, GaussianEvent)
        column, followed = largest_column(total.strategy, ticks)
        claimed_column = total.strategy.sensitivity(total.participation, order=2)
        rounding = total.sensitivity(total.node_exponent) - total.record_shift * claimed_column
        paid, claimed = (
            PrivacyCurve.gaussian(mu).epsilon(learner.budget.delta)
            for mu in ((total.record_shift * column + rounding) / total.sigma, event.mu)
        )
        found[name] = {
            "records followed": followed,
            "of it, rounding": rounding / total.sensitivity(total.node_exponent),
            "paid": paid,
            "claimed": claimed,
            "difference": claimed - paid,
            "equal": abs(claimed - paid) <= allowed,
        }
    return found
