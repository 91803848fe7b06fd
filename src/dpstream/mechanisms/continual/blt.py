"""Running sums through a buffered linear Toeplitz (BLT) factorisation: the default mechanism.

``A = B C`` with ``C`` the lower-triangular Toeplitz matrix of a rational filter (arXiv
2404.16706): every tick's node is its increment plus a weighted sum of a few slowly forgetting
buffers, and the decoder runs the inverse recursion on the noisy nodes. With five buffers the
noise is within 1.5 % of the square-root factorisation's, at the memory of five vectors.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.lattice import ExactVector
from dpstream.errors import ConfigurationError
from dpstream.mechanisms.continual.blt_table import FILTERS
from dpstream.mechanisms.continual.filtered import FilteredStrategy
from dpstream.mechanisms.continual.pending import PendingNodes, refuse_past_horizon
from dpstream.mechanisms.continual.recurrence import (
    NODE_HEADROOM,
    BufferBank,
)
from dpstream.mechanisms.continual.response import UPWARD, BufferedFilter, ExponentialSum
from dpstream.mechanisms.continual.strategy import Address, Node, Participation

STANDARD_BUFFERS = 5


def buffered_toeplitz(*, horizon: int) -> "BufferedToeplitz":
    """The standard factorisation for running sums of ``horizon`` ticks.

    A horizon between two standard ones takes the filter of the next larger one.

    Raises:
        ConfigurationError: if the horizon exceeds the largest standard one.
    """
    response = standard_filter(horizon)
    return BufferedToeplitz(horizon=horizon, rates=response.rates, scales=response.scales)


def standard_filter(horizon: int) -> BufferedFilter:
    """The shipped filter of the smallest standard horizon that is at least ``horizon``."""
    standards = sorted(ticks for ticks, buffers in FILTERS if buffers == STANDARD_BUFFERS)
    for standard in standards:
        if horizon <= standard:
            return FILTERS[standard, STANDARD_BUFFERS]
    raise ConfigurationError(
        f"the horizon is {horizon} ticks; the largest standard one is {standards[-1]}: use the "
        "chain, which needs no horizon, or publish less often"
    )


@dataclass(frozen=True, kw_only=True)
class BufferedToeplitz(FilteredStrategy):
    """A running sum of at most ``horizon`` ticks, measured through a rational filter.

    Guaranteed: columns of ``C`` have positive, non-increasing entries, so the first record's
    column is the longest and ``sensitivity`` is exact (``blt.proof.md``). Nodes are integers
    that differ from the real code by at most ``node_error``, whatever the increments.

    Attributes:
        horizon: the last tick.
    """

    horizon: int

    def __post_init__(self) -> None:
        if self.horizon < 1:
            raise ConfigurationError(f"the horizon is {self.horizon}; it must be at least 1 tick")
        _ = self.filter

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return "blt"

    @cached_property
    def decoding(self) -> ExponentialSum:
        """What a node's noise does to the sums of its own and later ticks."""
        return self.filter.decoding()

    def sensitivity(self, participation: Participation, *, order: int) -> float:
        """Norm of one unit's largest shift: records in the first ticks, packed."""
        return toeplitz_sensitivity(self.filter, self.horizon, participation, order=order)

    def rounding_norm(self, participation: Participation, *, order: int) -> float:
        """Every node from the unit's first record on may round differently."""
        del participation
        return float(self.horizon) if order == 1 else math.sqrt(self.horizon)

    def code_bound(self) -> float:
        """The filter's gain, with headroom for rounding."""
        return self.filter.gain * NODE_HEADROOM

    def variance(self, tick: int) -> float:
        """Variance per coordinate of the decoded sum at ``tick``, for ``sigma = 1``."""
        return self.decoding.energy(tick)

    def covariance(self, earlier: int, later: int) -> float:
        """Covariance per coordinate between two ticks' decoded sums, for ``sigma = 1``."""
        return self.decoding.inner(self.decoding, earlier, other_start=later - earlier)

    def memory(self, tick: int) -> int:
        """One vector per buffer."""
        del tick
        return len(self.filter.rates)

    def encoder(
        self, dimension: int, *, increment_exponent: int, node_exponent: int
    ) -> "BufferedEncoder":
        """A fresh encoder."""
        bank = BufferBank(
            self.filter,
            dimension,
            increment_exponent=increment_exponent,
            node_exponent=node_exponent,
        )
        return BufferedEncoder(self, bank, node_exponent)

    def decoder(self, dimension: int) -> "BufferedDecoder":
        """A fresh decoder."""
        return BufferedDecoder(self.filter, dimension)


def toeplitz_sensitivity(
    response: BufferedFilter, horizon: int | None, participation: Participation, *, order: int
) -> float:
    """THE sensitivity of a Toeplitz code with positive, non-increasing coefficients.

    Largest for ``per_tick`` records in each of the first ticks and the rest in the next one.
    """
    counts = packed_counts(participation, horizon)
    if order == 1:
        lengths = [None if horizon is None else horizon - tick for tick in range(len(counts))]
        return UPWARD * math.fsum(
            count * response.total(length) for count, length in zip(counts, lengths, strict=True)
        )
    return UPWARD * math.sqrt(response.run_energies(counts, horizon)[-1])


def packed_counts(participation: Participation, horizon: int | None) -> list[int]:
    """A unit's records per tick, if they come as early and as densely as they may."""
    full, rest = divmod(participation.cap, participation.per_tick)
    if horizon is not None and full >= horizon:
        full, rest = horizon, 0
    return [participation.per_tick] * full + [rest] * (rest > 0)


class BufferedEncoder:
    """Streams increments through the buffers; one node per tick."""

    def __init__(self, strategy: BufferedToeplitz, bank: BufferBank, node_exponent: int) -> None:
        self._strategy = strategy
        self._bank = bank
        self._pending = PendingNodes(node_exponent)
        self._tick = 0

    def absorb(self, increment: ExactVector) -> None:
        """Close one tick with its exact increment.

        Raises:
            HorizonReached: if the tick lies past the horizon; nothing is absorbed.
        """
        refuse_past_horizon(self._strategy.name, self._tick, self._strategy.horizon)
        node = self._bank.step(increment)
        self._tick += 1
        self._pending.add((self._tick,), node)

    def nodes(self) -> list[Node]:
        """The nodes of all ticks since the last release."""
        return self._pending.take()

    def snapshot(self) -> dict[str, FloatArray | IntArray]:
        """The whole secret state as arrays."""
        return {
            "tick": np.array([self._tick], np.int64),
            **self._bank.snapshot("bank"),
            **self._pending.snapshot(),
        }

    def restore(self, arrays: dict[str, FloatArray | IntArray]) -> None:
        """Take up a snapshot."""
        self._tick = int(arrays["tick"][0])
        self._bank.restore("bank", arrays)
        self._pending.restore(arrays)


class BufferedDecoder:
    """Runs the inverse filter on noisy nodes and adds up what comes out.

    ``xhat_t = y_t - sum_i omega_i shat_i`` and ``shat_i <- theta_i shat_i + xhat_t`` undo the
    encoder step by step, for the same rates and scales; no root of a polynomial is needed. The
    running sum is multiplied by ``1 - decay_rate`` per tick.
    """

    def __init__(
        self, response: BufferedFilter, dimension: int, *, decay_rate: float = 0.0
    ) -> None:
        self._keep = [1.0 - rate for rate in response.rates]
        self._scales = response.scales
        self._decay = 1.0 - decay_rate
        self._buffers = np.zeros((len(self._scales), dimension))
        self._sum = np.zeros(dimension)

    def innovation(self, value: FloatArray) -> FloatArray:
        """The increment that the next noisy node stands for."""
        # A fixed order of operations: the same bits for every dimension and machine.
        increment = value.astype(np.float64)
        for buffer, scale in zip(self._buffers, self._scales, strict=True):
            increment -= scale * buffer
        for buffer, keep in zip(self._buffers, self._keep, strict=True):
            buffer *= keep
            buffer += increment
        return increment

    def observe(self, address: Address, value: FloatArray) -> None:
        """Take the next tick's measured node, in units of the sum."""
        del address
        increment = self.innovation(value)
        self._sum *= self._decay
        self._sum += increment

    def estimate(self, tick: int) -> FloatArray:
        """The decoded sum at the last observed tick, which ``tick`` is."""
        del tick
        return self._sum.copy()

    def snapshot(self) -> dict[str, FloatArray | IntArray]:
        """The whole public state as arrays."""
        return {"buffers": self._buffers.copy(), "sum": self._sum.copy()}

    def restore(self, arrays: dict[str, FloatArray | IntArray]) -> None:
        """Take up a snapshot."""
        self._buffers = arrays["buffers"].astype(np.float64)
        self._sum = arrays["sum"].astype(np.float64)
