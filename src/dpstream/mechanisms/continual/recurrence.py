"""The buffers of a linear filter, in integers: the secret half of every BLT mechanism.

    y_t = u_t + sum_i omega_i s_i,        s_i <- theta_i s_i + u_t

in words: the node of a tick is its increment plus a weighted sum of buffers that slowly forget.
Floats would err by an amount that grows with the increments and with the horizon, and privacy
would have to pay for it. Here rates and scales are integers times powers of two, buffers live
on a lattice of their own, and only two kinds of rounding are left, both bounded by the lattice
alone: one per buffer and tick, one per node. The error bound is ``node_error``; its proof is in
``recurrence.proof.md``. Integers also make the nodes the same on every machine.
"""

import math

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.lattice import LIMB_BITS, ExactVector
from dpstream.mechanisms.continual.response import MANTISSA_BITS, BufferedFilter, mantissa

LOW_BITS = 62 - MANTISSA_BITS
"""Bits of the lower limb: a limb times a mantissa stays below 2**62."""

_LOW_MASK = (1 << LOW_BITS) - 1

NODE_GUARD_BITS = 4
"""A node's terms are truncated this many bits below the nodes' lattice, then rounded."""

BUFFER_HEADROOM = 2.0**8
"""How much larger than the largest node a strategy's ``code_bound`` is, so that a check that
nodes fit 61 bits also covers the buffers, which need more: then no step can overflow."""

_HEADROOM_BITS = 58
"""Terms of a node or a step stay below two to this: ``MOST_BUFFERS + 1`` of them fit 62 bits."""

Limbs = tuple[IntArray, IntArray]

_OVERFLOW = (
    "a buffer of the continual sum exceeds its integers: the increments' public bound is too "
    "large for the node lattice; take a coarser lattice or fewer records per tick"
)


def state_guard_bits(gain: float) -> int:
    """How much finer the buffers' lattice is than the nodes': their errors sum to the gain."""
    return max(math.ceil(math.log2(gain)) + 3, NODE_GUARD_BITS + 2)


def recurrence_node_error(buffers: int, node_exponent: int) -> float:
    """The largest error of a node's coordinate, whatever the increments.

    Half a step of the nodes' lattice, ``buffers + 1`` truncated terms, and what the buffers'
    and the increments' own rounding adds up to: ``2**-guard * gain <= 1/8`` of a step.
    """
    share = 0.5 + (buffers + 2) / 2 ** (NODE_GUARD_BITS + 1) + 1.0 / 8.0
    return math.ldexp(share, node_exponent)


class _Scaling:
    """``floor(m_i value 2**-q_i + half_i)`` of two-limb values, one factor per row.

    Since ``floor(floor(a) / 2**n) = floor(a / 2**n)`` for integers, the limbs may be shifted one
    after the other without changing the result.
    """

    def __init__(self, factors: FloatArray, *, scale: int, nearest: bool) -> None:
        pairs = [mantissa(float(factor)) for factor in factors]
        shifts = [shift + scale for _, shift in pairs]
        self._factor = _column([factor for factor, _ in pairs])
        self._up = _column([max(LOW_BITS - shift, 0) for shift in shifts])
        self._down = _column([min(LOW_BITS, shift) for shift in shifts])
        self._further = _column([max(shift - LOW_BITS, 0) for shift in shifts])
        self._half = _column([1 << (shift - 1) if nearest else 0 for shift in shifts])
        room = np.minimum(_HEADROOM_BITS + self._further, 62) - self._up
        self.limit = (np.int64(1) << room) // self._factor

    def __call__(self, high: IntArray, low: IntArray) -> IntArray:
        lower = low * self._factor
        lower += self._half
        lower >>= self._down
        upper = high * self._factor
        upper <<= self._up
        upper += lower
        upper >>= self._further
        return upper


def _column(values: list[int]) -> IntArray:
    return np.array(values, np.int64)[:, None]


class BufferBank:
    """``p`` buffers of ``dimension`` coordinates each, from zero."""

    def __init__(
        self,
        response: BufferedFilter,
        dimension: int,
        *,
        increment_exponent: int,
        node_exponent: int,
    ) -> None:
        buffers = len(response.rates)
        self._exponent = node_exponent - state_guard_bits(response.gain)
        self._lift = increment_exponent - self._exponent
        below = node_exponent - NODE_GUARD_BITS - self._exponent
        self._forget = _Scaling(np.array(response.rates), scale=0, nearest=True)
        self._weigh = _Scaling(np.array(response.scales), scale=below, nearest=False)
        self._truncate = _Scaling(np.ones(1), scale=below, nearest=False)
        self._limit = np.minimum(self._forget.limit, self._weigh.limit)
        # The terms of a node lose 0 to 1 guard steps each: add half of that back.
        self._bias = (1 << (NODE_GUARD_BITS - 1)) + (buffers + 1) // 2
        self._high = np.zeros((buffers, dimension), np.int64)
        self._low = np.zeros((buffers, dimension), np.int64)

    def step(self, increment: ExactVector) -> IntArray:
        """Take one increment and return its tick's node, in steps of the nodes' lattice.

        Raises:
            OverflowError: if a buffer outgrows its integers; public bounds must exclude it.
        """
        limbs = self.lifted(increment)
        node = self.node(limbs)
        self.advance(limbs)
        return node

    def lifted(self, increment: ExactVector) -> Limbs:
        """The increment rounded to the buffers' lattice, in this module's limbs.

        Exact unless the increments' lattice is finer than the buffers'.
        """
        if self._lift < 0:
            rounded = increment.rounded(self._exponent)
            increment, lift = ExactVector.from_integers(rounded, self._exponent), 0
        else:
            lift = self._lift
        upper = LIMB_BITS + lift
        largest = int(np.abs(increment.high).max(initial=0)) + 1
        if largest << upper >= 1 << (62 + LOW_BITS):
            raise OverflowError(_OVERFLOW)
        high_part = _split(increment.high, upper)
        low_part = _split(increment.low, lift)
        high, low = high_part[0] + low_part[0], high_part[1] + low_part[1]
        high += low >> LOW_BITS
        low &= _LOW_MASK
        if np.any(np.abs(high) >= self._truncate.limit):
            raise OverflowError(_OVERFLOW)
        return high, low

    def node(self, limbs: Limbs) -> IntArray:
        """The node of the tick whose lifted increment is ``limbs``; the buffers stay."""
        high, low = limbs
        node = self._weigh(self._high, self._low).sum(axis=0)
        node += self._truncate(high[None, :], low[None, :])[0]
        node += self._bias
        node >>= NODE_GUARD_BITS
        return node

    def advance(self, limbs: Limbs) -> None:
        """Let every buffer forget its share and take the lifted increment."""
        high, low = limbs
        self._low -= self._forget(self._high, self._low)
        self._low += low
        self._high += high
        self._high += self._low >> LOW_BITS
        self._low &= _LOW_MASK
        if np.any(np.abs(self._high) >= self._limit):
            raise OverflowError(_OVERFLOW)

    def snapshot(self, label: str) -> dict[str, FloatArray | IntArray]:
        """The buffers as arrays, under names that start with ``label``."""
        return {f"{label}_high": self._high.copy(), f"{label}_low": self._low.copy()}

    def restore(self, label: str, arrays: dict[str, FloatArray | IntArray]) -> None:
        """Take up the buffers of a snapshot."""
        self._high = arrays[f"{label}_high"].astype(np.int64)
        self._low = arrays[f"{label}_low"].astype(np.int64)


def _split(value: IntArray, shift: int) -> tuple[IntArray, IntArray]:
    """``value 2**shift`` as upper and lower limb, exactly."""
    if shift >= LOW_BITS:
        return value << (shift - LOW_BITS), np.zeros_like(value)
    rest = LOW_BITS - shift
    return value >> rest, (value & ((1 << rest) - 1)) << shift


class RefreshedBank:
    """Buffers for an endless stream: what they hold is never older than ``2 period`` ticks.

    Rounding never dies out by itself: two streams that differ in one record could differ in the
    last bit of a buffer for ever, and an endless sum of last bits is not a finite shift. So a
    second bank starts from zero every ``period`` ticks and takes over one period later. After
    that no bit of older records is left, and what is lost is their true contribution, of
    relative size ``exp(-period * smallest rate)``, which the caller makes negligible.
    """

    def __init__(
        self,
        response: BufferedFilter,
        dimension: int,
        *,
        period: int,
        increment_exponent: int,
        node_exponent: int,
    ) -> None:
        def fresh() -> BufferBank:
            return BufferBank(
                response,
                dimension,
                increment_exponent=increment_exponent,
                node_exponent=node_exponent,
            )

        self._fresh = fresh
        self._period = period
        self._tick = 0
        self._main = fresh()
        self._next = fresh()

    def step(self, increment: ExactVector) -> IntArray:
        """Take one increment and return its tick's node, in steps of the nodes' lattice."""
        if self._tick > 0 and self._tick % self._period == 0:
            # In the first period both banks hold the same.
            self._main, self._next = self._next, self._fresh()
        self._tick += 1
        limbs = self._main.lifted(increment)
        node = self._main.node(limbs)
        self._main.advance(limbs)
        self._next.advance(limbs)
        return node

    def snapshot(self, label: str) -> dict[str, FloatArray | IntArray]:
        """Both banks as arrays."""
        return {
            f"{label}_tick": np.array([self._tick], np.int64),
            **self._main.snapshot(f"{label}_main"),
            **self._next.snapshot(f"{label}_next"),
        }

    def restore(self, label: str, arrays: dict[str, FloatArray | IntArray]) -> None:
        """Take up both banks of a snapshot."""
        self._tick = int(arrays[f"{label}_tick"][0])
        self._main.restore(f"{label}_main", arrays)
        self._next.restore(f"{label}_next", arrays)
