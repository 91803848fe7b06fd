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
from collections.abc import Iterable
from functools import cache
from types import ModuleType

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

Limbs = IntArray
"""Rows ``high`` and ``low``: ``high * 2**LOW_BITS + low`` steps, ``0 <= low < 2**LOW_BITS``."""

_NODE_LIMIT = 1 << (61 + NODE_GUARD_BITS - LOW_BITS)

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


def _scaling(factor: float, *, shift: int = 0, nearest: bool) -> tuple[int, int, int]:
    """``floor(factor * value / 2**shift)``, plus one half if to nearest, for the kernel."""
    integer, own = mantissa(factor)
    shift += own
    return integer, shift, 1 << (shift - 1) if nearest else 0


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
        coarser = max(exponent - increment_exponent, 0)
        self._coarsen = np.array(
            _scaling(1.0, shift=coarser, nearest=True) if coarser else (1, 0, 0), np.int64
        )
        self._forget = _columns(_scaling(rate, nearest=True) for rate in response.rates)
        self._weigh = _columns(
            _scaling(scale, shift=below, nearest=False) for scale in response.scales
        )
        self._truncate = np.array(_scaling(1.0, shift=below, nearest=False), np.int64)
        # The terms of a node lose 0 to 1 guard steps each: add half of that back.
        self._bias = (1 << (NODE_GUARD_BITS - 1)) + (buffers + 1) // 2
        self._buffers = np.zeros((2, buffers, dimension), np.int64)

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
        limbs = np.empty((2, increment.dimension), np.int64)
        limit = max((HIGH_LIMIT << LOW_BITS >> (LIMB_BITS + self._lift)) - 1, 0)
        limit = min(limit, (1 << 63) - 1)
        fits = _kernel().lift(
            increment.high, increment.low, self._lift, self._coarsen, limbs, limit
        )
        if not fits:
            raise OverflowError(_OVERFLOW)
        return limbs

    def node(self, limbs: Limbs) -> IntArray:
        """The node of the tick whose lifted increment is ``limbs``; the buffers stay."""
        node = np.empty(limbs.shape[1], np.int64)
        fits = _kernel().mix(
            limbs,
            self._buffers,
            self._truncate,
            self._weigh,
            self._bias,
            NODE_GUARD_BITS,
            _NODE_LIMIT,
            node,
        )
        if not fits:
            raise OverflowError(_OVERFLOW)
        return node

    def advance(self, limbs: Limbs) -> None:
        """Let every buffer forget its share and take the lifted increment."""
        if not _kernel().forget(limbs, self._buffers, self._forget, HIGH_LIMIT):
            raise OverflowError(_OVERFLOW)

    def snapshot(self, label: str) -> dict[str, FloatArray | IntArray]:
        """The buffers as arrays, under names that start with ``label``."""
        high, low = self._buffers
        return {f"{label}_high": high.copy(), f"{label}_low": low.copy()}

    def restore(self, label: str, arrays: dict[str, FloatArray | IntArray]) -> None:
        """Take up the buffers of a snapshot."""
        self._buffers[0] = arrays[f"{label}_high"]
        self._buffers[1] = arrays[f"{label}_low"]


def _columns(scalings: Iterable[tuple[int, int, int]]) -> IntArray:
    return np.array(list(scalings), np.int64).T.copy()


@cache
def _kernel() -> ModuleType:
    # numba costs more to import than the rest of the package.
    from dpstream.mechanisms.continual import buffer_kernel

    return buffer_kernel


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
