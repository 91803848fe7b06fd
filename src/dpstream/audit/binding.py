"""Attacks on how noise is bound: replays, roll-backs, other places, other streams.

Noise belongs to one value at one address of one stream. Measured again, the same value must show
the same noise: a replay that drew afresh could be averaged. Another value (a roll-back, a
neighbouring stream), another address or another stream must meet independent noise: subtracting
two releases with shared noise reveals what they differ in.
"""

from collections.abc import Callable

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.audit.finding import Finding
from dpstream.mechanisms.mechanism import Noise

Measure = Callable[[IntArray, tuple[int, ...], Noise], FloatArray]
"""Measures integers at an address; returns the noise alone, in lattice steps."""

SIZE = 512
_SHARED = 0.05
# Noise spreads over 2^20 steps: independent draws agree in 26 of 512 coordinates with a
# probability far below 1e-100.


def binding_attack(measure: Measure, *, noise: Noise, other: Noise) -> list[Finding]:
    """What repeats and what must not.

    Args:
        measure: the mechanism.
        noise: of one stream.
        other: of another.
    """
    value = np.arange(SIZE, dtype=np.int64)
    changed = value.copy()
    changed[0] += 1
    first = measure(value, (7, 1), noise)
    replayed = measure(value, (7, 1), noise)
    return [
        Finding("replay: noise that changed", _unequal(first, replayed), 0.0, 0.0),
        _shared("noise kept after a roll-back", first, measure(changed, (7, 1), noise)),
        _shared("noise kept at another address", first, measure(value, (7, 2), noise)),
        _shared("noise kept in another stream", first, measure(value, (7, 1), other)),
    ]


def _unequal(first: FloatArray, second: FloatArray) -> float:
    return float(np.mean(first != second))


def _shared(name: str, first: FloatArray, second: FloatArray) -> Finding:
    return Finding(name, 1.0 - _unequal(first, second), 0.0, _SHARED)
