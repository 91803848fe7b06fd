"""A strategy's matrices made explicit, and the worst unit found on them by search.

A strategy's encoder and decoder are linear and treat coordinates alike, so feeding unit vectors
shows the matrices ``C`` and ``B`` themselves; nothing is taken from the strategy's own formulas.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations_with_replacement, product

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.lattice import ExactVector
from dpstream.mechanisms.continual.strategy import Address, Node, Participation, Strategy

INCREMENT_EXPONENT = -20
NODE_EXPONENT = -40


@dataclass(frozen=True)
class ExplicitStrategy:
    """The matrices of a strategy's first ticks.

    Attributes:
        addresses: of the nodes, in the order in which they were handed out.
        handed: the tick at which each node was handed out.
        weights: the nodes' noise weights; 0 marks expired exact sums.
        code: ``C``, nodes by ticks.
        decoding: ``B``, ticks by nodes.
    """

    addresses: tuple[Address, ...]
    handed: IntArray
    weights: FloatArray
    code: FloatArray
    decoding: FloatArray

    @property
    def scaled_code(self) -> FloatArray:
        """``C / weight`` over the noisy nodes alone: what privacy depends on."""
        noisy = self.weights > 0
        return self.code[noisy] / self.weights[noisy, None]

    @property
    def covariance(self) -> FloatArray:
        """``B diag(weight^2) B^T``: covariance of the decoded sums for ``sigma = 1``."""
        scaled = self.decoding * self.weights
        return scaled @ scaled.T


def run_encoder(
    strategy: Strategy,
    increments: IntArray,
    *,
    released: Iterable[int] | None = None,
    increment_exponent: int = INCREMENT_EXPONENT,
    node_exponent: int = NODE_EXPONENT,
) -> list[tuple[int, Node]]:
    """Feed increments (ticks by coordinates) and return the nodes with their ticks.

    Args:
        strategy: the strategy.
        increments: integers on the increments' lattice, one row per tick.
        released: the ticks at which nodes are asked for; all of them by default.
        increment_exponent: the increments' lattice.
        node_exponent: the nodes' lattice.
    """
    ticks, dimension = increments.shape
    wanted = set(range(1, ticks + 1) if released is None else released)
    encoder = strategy.encoder(
        dimension, increment_exponent=increment_exponent, node_exponent=node_exponent
    )
    handed: list[tuple[int, Node]] = []
    for tick in range(1, ticks + 1):
        encoder.absorb(ExactVector.from_integers(increments[tick - 1], increment_exponent))
        if tick in wanted:
            handed.extend((tick, node) for node in encoder.nodes())
    return handed


def explicit(
    strategy: Strategy, ticks: int, *, released: Iterable[int] | None = None
) -> ExplicitStrategy:
    """The matrices of the first ``ticks`` ticks; unreleased ticks have zero rows in ``B``."""
    pattern = sorted(set(range(1, ticks + 1) if released is None else released))
    units = np.eye(ticks, dtype=np.int64) << -INCREMENT_EXPONENT
    handed = run_encoder(strategy, units, released=pattern)
    addresses = tuple(node.address for _, node in handed)
    assert len(set(addresses)) == len(addresses), "a node's address was handed out twice"
    decoder = strategy.decoder(len(handed))
    decoding = np.zeros((ticks, len(handed)))
    basis = np.eye(len(handed))
    observed = 0
    for tick in pattern:
        while observed < len(handed) and handed[observed][0] == tick:
            decoder.observe(addresses[observed], basis[observed])
            observed += 1
        decoding[tick - 1] = decoder.estimate(tick)
    code = np.array([np.ldexp(node.value.astype(np.float64), node.exponent) for _, node in handed])
    return ExplicitStrategy(
        addresses=addresses,
        handed=np.array([tick for tick, _ in handed], np.int64),
        weights=np.array([node.weight for _, node in handed]),
        code=code.reshape(len(handed), ticks),
        decoding=decoding,
    )


def worst_shift(code: FloatArray, participation: Participation, *, order: int) -> float:
    """The largest shift over every multiset of a unit's ticks, by exhaustion.

    ``code`` has a row for every noisy node, over its weight, and a column for every tick.
    Shifts of equal or opposite direction are tried: the exact worst case where the columns'
    inner products are non-negative, a lower bound otherwise.
    """
    signs = (1.0,) if np.all(code.T @ code >= 0) else (1.0, -1.0)
    worst = 0.0
    for size in range(1, participation.cap + 1):
        for chosen in combinations_with_replacement(range(code.shape[1]), size):
            if np.bincount(chosen).max() > participation.per_tick:
                continue
            for sign in product(signs, repeat=size - 1):
                shift = code[:, chosen] @ np.array((1.0, *sign))
                norm = np.linalg.norm(shift) if order == 2 else np.abs(shift).sum()
                worst = max(worst, float(norm))
    return worst
