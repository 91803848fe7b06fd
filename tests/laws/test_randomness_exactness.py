"""For any scale, seed and length: the certified bound decides how fast, never what."""

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dpstream.randomness import discrete_gaussian, gaussian, gumbel, spherical
from dpstream.randomness.source import NoiseSource

seeds = st.integers(0, 2**64 - 1)
scales = st.floats(1.0, 2.0**40)
sizes = st.integers(0, 12)


def stream(seed: int):
    return NoiseSource.insecure(seed).stream((seed,), b"digest")


@settings(deadline=None)
@given(seed=seeds, scale=scales, size=sizes)
def test_rounded_gaussian(seed: int, scale: float, size: int):
    fast = gaussian.draw(stream(seed), size, np.asarray(scale))
    slow = gaussian.draw(stream(seed), size, np.asarray(scale), error_bound=1.0, tail_cut=0.0)
    each = gaussian.draw(stream(seed), size, np.full(size, scale))
    assert fast.tolist() == slow.tolist() == each.tolist()


@settings(deadline=None)
@given(seed=seeds, scale=scales, size=sizes)
def test_rounded_gaussian_scales_with_its_scale(seed: int, scale: float, size: int):
    # Twice the scale is the double, but for the rounding of one.
    single = gaussian.draw(stream(seed), size, np.asarray(scale / 2 + 0.5))
    double = gaussian.draw(stream(seed), size, np.asarray(scale + 1.0))
    assert np.all(np.abs(double - 2 * single) <= 1)


@settings(deadline=None)
@given(seed=seeds, variance=st.fractions(Fraction(1, 1 << 20), 1 << 80), size=sizes)
def test_discrete_gaussian(seed: int, variance: Fraction, size: int):
    fast = discrete_gaussian.draw(stream(seed), size, variance)
    slow = discrete_gaussian.draw(stream(seed), size, variance, relative_error=1.0)
    longer = discrete_gaussian.draw(stream(seed), size + 30, variance)
    assert fast.tolist() == slow.tolist() == longer[:size].tolist()


@settings(deadline=None)
@given(seed=seeds, scale=scales, size=sizes)
def test_rounded_spherical_laplace(seed: int, scale: float, size: int):
    fast = spherical.draw(stream(seed), size, scale)
    assert fast.tolist() == spherical.draw(stream(seed), size, scale, slack=2.0**90).tolist()


@settings(deadline=None)
@given(
    seed=seeds,
    scores=st.lists(st.integers(-(2**61), 2**61), min_size=1, max_size=6),
    scale=st.floats(2.0**-20, 2.0**60),
    shift=st.integers(0, 3),
)
def test_gumbel_argmax(seed: int, scores: list[int], scale: float, shift: int):
    row = np.array(scores) // 2 + shift
    fast = gumbel.draw(stream(seed), row, scale)
    assert fast == gumbel.draw(stream(seed), row, scale, slack=2.0**100)
    # Only differences matter.
    assert fast == gumbel.draw(stream(seed), row - shift, scale)
