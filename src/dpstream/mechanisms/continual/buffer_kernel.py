"""The compiled loops of ``recurrence``; imported at the first tick, for numba is slow to load.

Values have two limbs, ``high * 2**48 + low`` with ``0 <= low < 2**48``, on some lattice. Scalings
are columns of ``(factor, shift, half)``: times ``factor``, plus ``half``, shifted down. All
arithmetic is on 64-bit integers; ``recurrence.proof.md`` says why nothing overflows.
"""

from dpstream.arrays import IntArray
from dpstream.domain.kernel import compiled

LOW_BITS = 48
_LOW_MASK = (1 << LOW_BITS) - 1


@compiled({"inline": "always"})
def _scaled(high: int, low: int, factor: int, shift: int, half: int) -> tuple[int, int]:
    """``floor((high, low) factor / 2**shift)``, plus one half if ``half`` is not 0.

    Since ``floor(floor(a) / 2**n) = floor(a / 2**n)`` for integers, limbs may be shifted one
    after the other without changing the result.
    """
    upper = high * factor
    lower = low * factor + half
    mask = (1 << shift) - 1
    if shift > LOW_BITS:
        upper += lower >> LOW_BITS
        lower = (upper & mask) >> (shift - LOW_BITS)
    else:
        lower = (lower >> shift) + ((upper & mask) << (LOW_BITS - shift))
    return upper >> shift, lower


@compiled()
def lift(
    high: IntArray, low: IntArray, bits: int, coarsen: IntArray, out: IntArray, limit: int
) -> bool:
    """Limbs of 32 bits times ``2**bits`` in limbs of 48 bits, then scaled; False if too large."""
    for j in range(high.size):
        if high[j] >= limit or high[j] <= -limit:
            return False
    upper_bits = bits + 32
    for j in range(high.size):
        if upper_bits >= LOW_BITS:
            top, bottom = high[j] << (upper_bits - LOW_BITS), 0
        else:
            rest = LOW_BITS - upper_bits
            top, bottom = high[j] >> rest, (high[j] & ((1 << rest) - 1)) << upper_bits
        if bits >= LOW_BITS:
            top += low[j] << (bits - LOW_BITS)
        else:
            rest = LOW_BITS - bits
            top += low[j] >> rest
            bottom += (low[j] & ((1 << rest) - 1)) << bits
        top, bottom = top + (bottom >> LOW_BITS), bottom & _LOW_MASK
        if coarsen[1] > 0:
            top, bottom = _scaled(top, bottom, coarsen[0], coarsen[1], coarsen[2])
            top, bottom = top + (bottom >> LOW_BITS), bottom & _LOW_MASK
        out[0, j] = top
        out[1, j] = bottom
    return True


@compiled()
def mix(
    limbs: IntArray,
    buffers: IntArray,
    truncate: IntArray,
    weigh: IntArray,
    bias: int,
    guard: int,
    limit: int,
    node: IntArray,
) -> bool:
    """The node of a lifted increment and the buffers; False if it is too large."""
    for j in range(node.size):
        high, low = _scaled(limbs[0, j], limbs[1, j], truncate[0], truncate[1], truncate[2])
        for i in range(buffers.shape[1]):
            upper, lower = _scaled(
                buffers[0, i, j], buffers[1, i, j], weigh[0, i], weigh[1, i], weigh[2, i]
            )
            high += upper
            low += lower
        if high >= limit or high <= -limit:
            return False
        node[j] = (high << (LOW_BITS - guard)) + ((low + bias) >> guard)
    return True


@compiled()
def forget(limbs: IntArray, buffers: IntArray, rates: IntArray, limit: int) -> bool:
    """Let every buffer lose its share and take the increment; False if one is too large."""
    fits = True
    for i in range(buffers.shape[1]):
        for j in range(buffers.shape[2]):
            high, low = buffers[0, i, j], buffers[1, i, j]
            upper, lower = _scaled(high, low, rates[0, i], rates[1, i], rates[2, i])
            low = low - lower + limbs[1, j]
            high = high - upper + limbs[0, j] + (low >> LOW_BITS)
            buffers[0, i, j] = high
            buffers[1, i, j] = low & _LOW_MASK
            if high >= limit or high <= -limit:
                fits = False
    return fits
