"""Exponentially discounted sums for ever: a Toeplitz root that needs no horizon.

The sum ``sum_k decay^(t - k) x_k`` has the generating function ``A(z) = 1/(1 - decay z)``. Its
square root is the best Toeplitz factorisation and forgets at the same pace, so the norm of its
column is finite on an endless stream. The root itself would need all past increments; measured
instead is a rational filter close to it, the BLT of running sums with ``z`` replaced by
``decay z``, and the decoder inverts that filter exactly.
"""

import math
from dataclasses import dataclass
from functools import cached_property

from dpstream.errors import ConfigurationError
from dpstream.mechanisms.continual.blt import BufferedDecoder, toeplitz_sensitivity
from dpstream.mechanisms.continual.blt_table import FILTERS, SHORTEST_STANDARD
from dpstream.mechanisms.continual.endless import EndlessEncoder, refresh_period
from dpstream.mechanisms.continual.filtered import FilteredStrategy
from dpstream.mechanisms.continual.recurrence import (
    NODE_HEADROOM,
    RefreshedBank,
)
from dpstream.mechanisms.continual.response import (
    MANTISSA_BITS,
    BufferedFilter,
    ExponentialSum,
    rounded_mantissa,
)
from dpstream.mechanisms.continual.strategy import Participation

FASTEST_DECAY = 0.5
SLOWEST_DECAY = 1.0 - 2.0**-22


def decayed_toeplitz(*, decay: float) -> "DecayedToeplitz":
    """The standard factorisation for sums discounted by ``decay`` per tick.

    Of the shipped filters, discounted, the one with the least error.
    """
    if not FASTEST_DECAY <= decay <= SLOWEST_DECAY:
        raise ConfigurationError(
            f"decay is {decay}; it must lie between {FASTEST_DECAY} and {SLOWEST_DECAY}: a slower "
            "decay is a running sum (use the chain), a faster one hardly a sum"
        )
    # Buffers much slower than the discount would coincide once discounted.
    slowest = (1.0 - decay) / 16.0
    candidates = [
        _discounted(response, decay)
        for (horizon, _), response in FILTERS.items()
        if response.rates[0] >= slowest or horizon == SHORTEST_STANDARD
    ]
    return min(candidates, key=lambda strategy: strategy.loss)


def _discounted(response: BufferedFilter, decay: float) -> "DecayedToeplitz":
    """``C(decay z)`` in encodable numbers, rates upwards: they must exceed the discount's."""
    rates = (1.0 - decay * (1.0 - own) for own in response.rates)
    return DecayedToeplitz(
        decay=decay,
        rates=tuple(rounded_mantissa(own * (1.0 + 2.0**-MANTISSA_BITS)) for own in rates),
        scales=tuple(rounded_mantissa(decay * scale) for scale in response.scales),
    )


@dataclass(frozen=True, kw_only=True)
class DecayedToeplitz(FilteredStrategy):
    """A discounted sum on an endless stream, measured through a rational filter.

    Guaranteed: as for ``BufferedToeplitz``, without a horizon. Assumed of nobody: rounding is
    kept finite by buffers that are refreshed (``recurrence.proof.md``).

    Attributes:
        decay: what a record's weight is multiplied by per tick; every rate exceeds ``1 - decay``.
    """

    decay: float

    def __post_init__(self) -> None:
        if not 0.0 < self.decay < 1.0 or self.filter.rates[0] <= 1.0 - self.decay:
            raise ConfigurationError(
                f"decay is {self.decay} and the slowest buffer's rate {self.filter.rates[0]}; "
                "decay must lie in (0, 1) and every buffer forget faster than the sum"
            )

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return "decayed_toeplitz"

    @property
    def horizon(self) -> int | None:
        """None: it never ends."""
        return None

    @cached_property
    def decoding(self) -> ExponentialSum:
        """What a node's noise does to the sums of its own and later ticks."""
        return self.filter.decoding(1.0 - self.decay)

    @property
    def loss(self) -> float:
        """Largest standard deviation of the sum, for a sensitivity of 1."""
        return math.sqrt(self.filter.energy(None) * self.decoding.inner(self.decoding, None))

    @property
    def period(self) -> int:
        """Ticks after which the buffers are refreshed."""
        return refresh_period(self.filter)

    def sensitivity(self, participation: Participation, *, order: int) -> float:
        """Norm of one unit's largest shift: records in consecutive ticks."""
        return toeplitz_sensitivity(self.filter, None, participation, order=order)

    def rounding_norm(self, participation: Participation, *, order: int) -> float:
        """A record stays in the buffers for two periods at most."""
        nodes = 2.0 * self.period * participation.cap
        return nodes if order == 1 else math.sqrt(nodes)

    def code_bound(self) -> float:
        """The filter's gain, with headroom for rounding."""
        return self.filter.gain * NODE_HEADROOM

    def variance(self, tick: int) -> float:
        """Variance per coordinate of the decoded sum at ``tick``, for ``sigma = 1``."""
        return self.decoding.inner(self.decoding, tick)

    def covariance(self, earlier: int, later: int) -> float:
        """Covariance per coordinate between two ticks' decoded sums, for ``sigma = 1``."""
        return self.decoding.inner(self.decoding, earlier, other_start=later - earlier)

    def memory(self, tick: int) -> int:
        """Two vectors per buffer: the bank in use and its successor."""
        del tick
        return 2 * len(self.filter.rates)

    def encoder(
        self, dimension: int, *, increment_exponent: int, node_exponent: int
    ) -> EndlessEncoder:
        """A fresh encoder."""
        bank = RefreshedBank(
            self.filter,
            dimension,
            period=self.period,
            increment_exponent=increment_exponent,
            node_exponent=node_exponent,
        )
        return EndlessEncoder(bank, node_exponent)

    def decoder(self, dimension: int) -> BufferedDecoder:
        """A fresh decoder."""
        return BufferedDecoder(self.filter, dimension, decay_rate=1.0 - self.decay)
