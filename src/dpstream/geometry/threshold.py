"""The scalar behind projections on the simplex and the L1 ball.

Both projections subtract one threshold from all coordinates and keep the positive parts. The
threshold solves ``sum max(v_i - t, 0) = total``, a convex, decreasing, piecewise linear
equation. Short vectors are sorted. For long ones Newton's method is started from the solution
on a strided sample: from its second iterate on it increases monotonically and stops at the
exact active set (Michelot 1986; Condat 2016 describes the family), usually after three or four
passes. If it has not stopped after a fixed number of passes, the entries that are
left are sorted, so the cost is never quadratic.
"""

import numpy as np

from dpstream.arrays import FloatArray

SORT_LIMIT = 1 << 15
"""Vectors up to this length are sorted: faster than loading the compiled passes."""

_SAMPLE = 1 << 12
_PASS_LIMIT = 16
_FAR = 1e6


def project_simplex(values: FloatArray, total: float) -> FloatArray:
    """The nearest vector with nonnegative entries that sum to ``total > 0``."""
    largest = float(values.max())
    if abs(largest) > _FAR * total:
        # Measured from the largest entry, or a small total would drown in large entries.
        depths = values - largest
        return _fill(depths, total, 0.0, out=depths)
    return _fill(values, total, largest, out=np.empty_like(values))


def project_l1(values: FloatArray, radius: float) -> FloatArray:
    """The nearest vector of L1 norm at most ``radius > 0``."""
    if values.size <= SORT_LIMIT:
        moduli = np.abs(values)
        if moduli.sum() <= radius:
            return values.copy()
        return np.copysign(project_simplex(moduli, radius), values)
    from dpstream.geometry.threshold_kernel import excess_above, shrink

    if excess_above(values, 0.0, True)[0] <= radius:
        return values.copy()
    largest = float(max(values.max(), -values.min()))
    if largest > _FAR * radius:
        # In place: fresh memory costs a long vector more than arithmetic does.
        depths = np.abs(values)
        depths -= largest
        return np.copysign(_fill(depths, radius, 0.0, out=depths), values, out=depths)
    return shrink(values, _newton_threshold(values, radius, largest, modulus=True))


def _fill(values: FloatArray, total: float, largest: float, *, out: FloatArray) -> FloatArray:
    if values.size <= SORT_LIMIT:
        threshold = _sorted_threshold(values, total)
    else:
        threshold = _newton_threshold(values, total, largest, modulus=False)
    np.subtract(values, threshold, out=out)
    return np.maximum(out, 0.0, out=out)


def _sorted_threshold(values: FloatArray, total: float) -> float:
    largest = float(values.max())
    descending = np.sort(values)[::-1] - largest
    excess = np.cumsum(descending) - total
    counts = np.arange(1, values.size + 1)
    # The active set is the longest prefix whose last entry stays above its own threshold.
    active = int(np.flatnonzero(descending * counts > excess)[-1])
    return largest + float(excess[active] / (active + 1))


def _newton_threshold(values: FloatArray, total: float, largest: float, *, modulus: bool) -> float:
    # Compiled code is loaded here only: its import takes longer than any short projection.
    from dpstream.geometry.threshold_kernel import excess_above

    sample = values[:: values.size // _SAMPLE]
    sample = np.abs(sample) if modulus else sample
    share = total * sample.size / values.size
    # The largest entry alone must not exceed the total.
    lower = largest - total
    threshold = max(_sorted_threshold(sample, share), lower)
    excess, count = excess_above(values, threshold, modulus)
    for _ in range(_PASS_LIMIT):
        if count == 0:
            break
        newton = following = threshold + (excess - total) / count
        if excess < total:
            # The sample overshot, and a Newton step from the right can undershoot by far more.
            share *= 4
            following = max(newton, _sorted_threshold(sample, share))
        else:
            lower = threshold
        excess, remaining = excess_above(values, following, modulus)
        # A Newton step within one active set ends on the solution, up to the rounding of the
        # excess at its start; the excess at its end corrects that.
        if remaining == count and following == newton:
            return following + (excess - total) / count
        threshold, count = following, remaining
    moduli = np.abs(values) if modulus else values
    return _sorted_threshold(moduli[moduli >= lower], total)
