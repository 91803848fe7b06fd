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
from dpstream.errors import ConfigurationError
from dpstream.mechanisms.continual.response import MANTISSA_BITS, BufferedFilter, mantissa

LOW_BITS = 62 - MANTISSA_BITS
"""Bits of the lower limb: a limb times a mantissa stays below 2**62."""

HIGH_LIMIT = 1 << (62 - MANTISSA_BITS)
"""Upper limbs stay below this in magnitude, so that times a mantissa they stay below 2**62."""

NODE_GUARD_BITS = 4
"""A node's terms are truncated this many bits below the nodes' lattice, then rounded."""

NODE_HEADROOM = 2.0
"""What the gain is multiplied by in ``code_bound``: rounding must not carry a node past its bits.

If increments times ``code_bound`` fit 61 bits of the nodes' lattice, nothing here overflows.
"""

Limbs = tuple[IntArray, IntArray]
"""``high * 2**LOW_BITS + low`` with ``0 <= low < 2**LOW_BITS``, in steps of some lattice."""

_NODE_LIMIT = 1 << (61 + NODE_GUARD_BITS - LOW_BITS)

_LOW_MASK = (1 << LOW_BITS) - 1

_OVERFLOW = (
    "a buffer of the continual sum exceeds its integers: the increments' public bound is too "
    "large for the node lattice; take a coarser lattice or fewer records per tick"
)


def state_guard_bits(gain: float) -> int:
    """How much finer the buffers' lattice is than the nodes': their errors sum to the gain."""
    return math.ceil(math.log2(gain)) + 3


def recurrence_node_error(buffers: int, node_exponent: int) -> float:
    """The largest error of a node's coordinate, whatever the increments.

    Half a step of the nodes' lattice, ``buffers + 1`` truncated terms, and what the buffers'
    and the increments' own rounding adds up to: ``2**-guard * gain <= 1/8`` of a step.
    """
    share = 0.5 + (buffers + 2) / 2 ** (NODE_GUARD_BITS + 1) + 1.0 / 8.0
    return math.ldexp(share, node_exponent)


class _Scaling:
    """``floor(factor * value / 2**shift)`` of two-limb values, plus one half if to nearest.

    Since ``floor(floor(a) / 2**n) = floor(a / 2**n)`` for integers, limbs may be shifted one
    after the other without changing the result.
    """

    def __init__(self, factor: float, *, shift: int = 0, nearest: bool) -> None:
        self._factor, own = mantissa(factor)
        self._shift = own + shift
        self._half = 1 << (self._shift - 1) if nearest else 0
        self._mask = (1 << self._shift) - 1

    def __call__(self, high: IntArray, low: IntArray) -> Limbs:
        upper = high * self._factor
        lower = low * self._factor
        lower += self._half
        lower >>= min(self._shift, LOW_BITS)
        if self._shift > LOW_BITS:
            upper += lower
            lower = upper & self._mask
            lower >>= self._shift - LOW_BITS
        else:
            rest = upper & self._mask
            rest <<= LOW_BITS - self._shift
            lower += rest
        upper >>= self._shift
        return upper, lower


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
        exponent = node_exponent - state_guard_bits(response.gain)
        if exponent - increment_exponent > LOW_BITS:
            raise ConfigurationError(
                f"increments lie on the lattice 2**{increment_exponent} and nodes on "
                f"2**{node_exponent}: more than {LOW_BITS} bits of every increment would be lost; "
                "take coarser increments"
            )
        below = node_exponent - NODE_GUARD_BITS - exponent
        self._lift = max(increment_exponent - exponent, 0)
        self._coarsen = (
            _Scaling(1.0, shift=exponent - increment_exponent, nearest=True)
            if increment_exponent < exponent
            else None
        )
        self._forget = [_Scaling(rate, nearest=True) for rate in response.rates]
        self._weigh = [_Scaling(scale, shift=below, nearest=False) for scale in response.scales]
        self._truncate = _Scaling(1.0, shift=below, nearest=False)
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
        """The increment on the buffers' lattice, in this module's limbs.

        Exact unless the increments' lattice is finer than the buffers'; then rounded.
        """
        upper = LIMB_BITS + self._lift
        if _exceeds(increment.high, (HIGH_LIMIT << LOW_BITS >> upper) - 1):
            raise OverflowError(_OVERFLOW)
        high, low = _split(increment.high, upper)
        high_part, low_part = _split(increment.low, self._lift)
        limbs = _carried(high + high_part, low + low_part)
        return limbs if self._coarsen is None else _carried(*self._coarsen(*limbs))

    def node(self, limbs: Limbs) -> IntArray:
        """The node of the tick whose lifted increment is ``limbs``; the buffers stay."""
        high, low = self._truncate(*limbs)
        for buffer, scaling in enumerate(self._weigh):
            high_part, low_part = scaling(self._high[buffer], self._low[buffer])
            high += high_part
            low += low_part
        if _exceeds(high, _NODE_LIMIT):
            raise OverflowError(_OVERFLOW)
        low += self._bias
        low >>= NODE_GUARD_BITS
        high <<= LOW_BITS - NODE_GUARD_BITS
        high += low
        return high

    def advance(self, limbs: Limbs) -> None:
        """Let every buffer forget its share and take the lifted increment."""
        for buffer, scaling in enumerate(self._forget):
            high, low = self._high[buffer], self._low[buffer]
            high_part, low_part = scaling(high, low)
            high -= high_part
            low -= low_part
        high, low = limbs
        self._high += high
        self._low += low
        self._high += self._low >> LOW_BITS
        self._low &= _LOW_MASK
        if _exceeds(self._high, HIGH_LIMIT):
            raise OverflowError(_OVERFLOW)

    def snapshot(self, label: str) -> dict[str, FloatArray | IntArray]:
        """The buffers as arrays, under names that start with ``label``."""
        return {f"{label}_high": self._high.copy(), f"{label}_low": self._low.copy()}

    def restore(self, label: str, arrays: dict[str, FloatArray | IntArray]) -> None:
        """Take up the buffers of a snapshot."""
        self._high = arrays[f"{label}_high"].astype(np.int64)
        self._low = arrays[f"{label}_low"].astype(np.int64)


def _exceeds(value: IntArray, limit: int) -> bool:
    return bool(value.max(initial=0) >= limit or value.min(initial=0) <= -limit)


def _split(value: IntArray, shift: int) -> Limbs:
    """``value 2**shift``, exactly."""
    if shift >= LOW_BITS:
        return value << (shift - LOW_BITS), np.zeros_like(value)
    rest = LOW_BITS - shift
    return value >> rest, (value & ((1 << rest) - 1)) << shift


def _carried(high: IntArray, low: IntArray) -> Limbs:
    """The same value with its lower limb in range."""
    return high + (low >> LOW_BITS), low & _LOW_MASK


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
