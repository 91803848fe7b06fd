"""Audits of the continual-sum strategies, each on a stream of a few ticks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from dpstream.audit.evidence import Evidence
from dpstream.audit.finding import Finding
from dpstream.audit.sum import (
    attack_sum,
    exhaustive_share,
    scalar_sum,
    search_neighbours,
)
from dpstream.mechanisms.continual.blt import buffered_toeplitz, standard_filter
from dpstream.mechanisms.continual.chain import ToeplitzChain
from dpstream.mechanisms.continual.decayed import decayed_toeplitz
from dpstream.mechanisms.continual.expiring import expiring_toeplitz
from dpstream.mechanisms.continual.honaker import HonakerTree
from dpstream.mechanisms.continual.hybrid import Hybrid
from dpstream.mechanisms.continual.sliding import sliding_toeplitz
from dpstream.mechanisms.continual.strategy import Participation, Strategy
from dpstream.mechanisms.continual.toeplitz import SquareRootToeplitz
from dpstream.mechanisms.continual.tree import BinaryTree
from dpstream.mechanisms.continual.window_tree import WindowTree
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import gaussian_mu

AUDIT_BUDGET = Budget(epsilon=8.0, delta=1e-6)
"""At epsilon 8 the worlds lie 1.5 standard deviations apart: tests tell them apart best."""

TICKS = 16
WINDOW = 8


@dataclass(frozen=True, kw_only=True)
class ShortStream:
    """A strategy at the size at which it is attacked.

    Attributes:
        make: the strategy.
        ticks: how long the stream is.
        window: ticks for which a record is live, if it expires.
    """

    make: Callable[[], Strategy]
    ticks: int = TICKS
    window: int | None = None


def _chain() -> Strategy:
    response = standard_filter(WINDOW)
    epoch = (WINDOW, response.rates, response.scales)
    return ToeplitzChain(epochs=(epoch, epoch))


SHORT_STREAMS: Mapping[str, ShortStream] = {
    "BinaryTree": ShortStream(make=lambda: BinaryTree(TICKS)),
    "HonakerTree": ShortStream(make=lambda: HonakerTree(TICKS)),
    "Hybrid": ShortStream(make=Hybrid),
    "SquareRootToeplitz": ShortStream(make=lambda: SquareRootToeplitz(horizon=TICKS)),
    "BufferedToeplitz": ShortStream(make=lambda: buffered_toeplitz(horizon=TICKS)),
    "ToeplitzChain": ShortStream(make=_chain, ticks=3 * WINDOW),
    "DecayedToeplitz": ShortStream(make=lambda: decayed_toeplitz(decay=0.75), ticks=2 * TICKS),
    "SlidingToeplitz": ShortStream(make=lambda: sliding_toeplitz(window=WINDOW), ticks=8 * WINDOW),
    "WindowTree": ShortStream(make=lambda: WindowTree(WINDOW), ticks=3 * WINDOW, window=WINDOW),
    "ExpiringToeplitz": ShortStream(
        make=lambda: expiring_toeplitz(window=WINDOW), ticks=3 * WINDOW, window=WINDOW
    ),
}


def strategy_evidence(name: str, *, runs: int, noise: Noise) -> Evidence:
    """Attack one catalogued strategy."""
    short = SHORT_STREAMS[name]
    strategy = short.make()
    mechanism = scalar_sum(strategy, runs=runs, strength=gaussian_mu(AUDIT_BUDGET))
    neighbours = search_neighbours(
        strategy, ticks=short.ticks, window=short.window, participation=Participation()
    )
    evidence = attack_sum(mechanism, mechanism, neighbours, noise=noise, delta=AUDIT_BUDGET.delta)
    if short.window is not None:
        return evidence
    pairs = Participation(cap=2, per_tick=2)
    # A proved bound may lie above what two records of one unit can do: only the sign is tested.
    share = exhaustive_share(strategy, pairs, ticks=min(short.ticks, TICKS))
    two = Finding("white box: two records of one unit", share, 0.5, 1.0 + 1e-9)
    return replace(evidence, findings=(*evidence.findings, two))
