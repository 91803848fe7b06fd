"""Expected maxima of Gaussian vectors, by quadrature: the exact Gaussian widths."""

import math
from collections.abc import Callable

import numpy as np
from scipy import integrate, special

from dpstream.arrays import FloatArray


def expected_norm(dimension: int) -> float:
    """``E |g|_2``: the mean of the chi distribution."""
    half = dimension / 2
    return math.sqrt(2) * math.exp(special.gammaln(half + 0.5) - special.gammaln(half))


def expected_maximum(dimension: int) -> float:
    """``E max_i g_i`` over independent standard normals."""
    if dimension == 1:
        return 0.0
    above = _integrate(lambda t: -math.expm1(dimension * special.log_ndtr(t)), dimension)
    below = _integrate(lambda t: math.exp(dimension * special.log_ndtr(-t)), dimension)
    return above - below


def expected_maximum_modulus(dimension: int) -> float:
    """``E max_i |g_i|`` over independent standard normals."""
    return _expected_largest_norm(np.ones(1), np.array([float(dimension)]))


def expected_maximum_group_norm(sizes: FloatArray) -> float:
    """``E max_j |g_j|_2`` over independent standard normal vectors of the given sizes."""
    distinct, counts = np.unique(sizes, return_counts=True)
    return _expected_largest_norm(distinct, counts.astype(np.float64))


def _expected_largest_norm(distinct: FloatArray, counts: FloatArray) -> float:
    def survival(t: float) -> float:
        # The chi distribution's tail, so that large counts of tiny tails keep their digits.
        tails = special.gammaincc(distinct / 2, t * t / 2)
        with np.errstate(divide="ignore"):
            return -math.expm1(float(counts @ np.log1p(-tails)))

    return _integrate(survival, int(counts.sum()), scale=math.sqrt(float(distinct.max())))


def _integrate(function: Callable[[float], float], count: int, scale: float = 1.0) -> float:
    # Every integrand falls off like a Gaussian beyond the maximum's typical place, so a finite
    # interval loses less than 1e-30; the split keeps the knee from being missed.
    knee = scale + math.sqrt(2 * math.log(2 * count))
    first = integrate.quad(function, 0.0, knee, limit=200)[0]
    second = integrate.quad(function, knee, knee + 12.0, limit=200)[0]
    return float(first + second)
