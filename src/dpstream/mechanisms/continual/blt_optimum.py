"""The best coefficients of a buffered linear Toeplitz factorisation, by our own descent.

Minimised is the largest error of a running (or decayed) sum at a given sensitivity,

    ||C's first column|| * ||last row of B||,        A = B C,

over ``p`` interlacing pairs ``theta_1 > thetahat_1 > theta_2 > ... > thetahat_p`` in (0, 1):
exactly the filters with positive coefficients and a stable inverse. The objective is a closed
form in the pairs, so its cost does not depend on the horizon. In terms of arXiv 2404.16706 this
is the BLT's MaxErr; our parameters are the logarithm of the slowest decay ``-log theta_1`` and
the logarithms of the steps of ``log(-log theta)``, which make every real vector admissible.

Gradients are exact: the objective is analytic, and one evaluation at ``x + i h e_j`` with
``h = 1e-30`` yields the partial derivative as its imaginary part over h, free of cancellation.
"""

import math
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from dpstream.arrays import FloatArray
from dpstream.mechanisms.continual.response import BufferedFilter, rounded_mantissa

ComplexArray = npt.NDArray[np.complex128]

STARTS = ((0.3, 2.0), (1.0, 1.0), (0.1, 4.0))
"""Starting points: slowest decay times horizon, and fastest decay; evenly spaced between."""

_STEP = 1e-30

_FASTEST = 3.5
# Line searches may leap: past theta = exp(-exp(3.5)) = 4e-15 nothing can be gained.

_BEYOND = 1e6


def optimal_filter(*, horizon: int, buffers: int) -> BufferedFilter:
    """The best filter for running sums of ``horizon`` ticks, in encodable numbers.

    Rounding rates and scales to ``MANTISSA_BITS`` bits changes the loss in second order only:
    about 1e-8, relative.
    """
    decays, inverse_decays = _pairs(_descend(horizon, buffers).astype(np.complex128))
    scales, _ = _residues(decays, inverse_decays)
    return BufferedFilter(
        tuple(rounded_mantissa(float(rate)) for rate in -np.expm1(-decays.real)),
        tuple(rounded_mantissa(float(scale)) for scale in scales.real),
    )


def optimal_loss(*, horizon: int, buffers: int) -> float:
    """The smallest ``||first column|| ||last row||`` for a running sum of ``horizon`` ticks."""
    return math.exp(objective(_descend(horizon, buffers), horizon)[0])


def filter_loss(response: BufferedFilter, horizon: int) -> float:
    """``||first column|| ||last row||`` of a filter for a running sum of ``horizon`` ticks."""
    decoding = response.decoding()
    return math.sqrt(response.energy(horizon) * decoding.inner(decoding, horizon))


def _descend(horizon: int, buffers: int) -> FloatArray:
    best, least = np.zeros(2 * buffers), math.inf
    for slowest, fastest in STARTS:
        logs = np.linspace(math.log(slowest / horizon), math.log(fastest), 2 * buffers)
        start = np.concatenate([logs[:1], np.log(np.diff(logs))])
        result = cast(
            Any,
            minimize(
                objective,
                start,
                args=(horizon,),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": 5000, "maxcor": 30, "ftol": 1e-16, "gtol": 1e-10},
            ),
        )
        if result.fun < least:
            best, least = np.asarray(result.x, np.float64), float(result.fun)
    return best


def objective(point: FloatArray, horizon: int) -> tuple[float, FloatArray]:
    """The logarithm of the loss and its gradient; far above any loss beyond floating point."""
    if point[0] + np.exp(np.minimum(point[1:], 9.0)).sum() > _FASTEST:
        return _BEYOND, np.zeros_like(point)
    shifted = point + 1j * _STEP * np.eye(len(point))
    values = _log_loss(*_pairs(shifted), horizon)
    return float(values[0].real), values.imag / _STEP


def _pairs(point: ComplexArray) -> tuple[ComplexArray, ComplexArray]:
    """``-log theta`` and ``-log thetahat``, interlacing, from unconstrained parameters."""
    steps = np.exp(point[..., 1:])
    first = point[..., :1]
    logs = first + np.concatenate([np.zeros_like(first), np.cumsum(steps, axis=-1)], axis=-1)
    decays = np.exp(logs)
    return decays[..., 0::2], decays[..., 1::2]


def _residues(decays: ComplexArray, inverse: ComplexArray) -> tuple[ComplexArray, ComplexArray]:
    """``omega`` of ``C = 1 + sum omega z/(1 - theta z)`` and ``omegahat`` of its inverse."""

    def gaps(left: ComplexArray, right: ComplexArray) -> ComplexArray:
        # theta_left - theta_right, without cancellation.
        first, second = left[..., :, None], right[..., None, :]
        sign = np.where(first.real <= second.real, 1.0, -1.0)
        slower = np.where(sign > 0, first, second)
        return sign * np.exp(-slower) * -np.expm1(-sign * (second - first))

    own = np.eye(decays.shape[-1], dtype=bool)
    scales = np.prod(gaps(decays, inverse), axis=-1) / np.prod(
        np.where(own, 1.0, gaps(decays, decays)), axis=-1
    )
    inverse_scales = -np.prod(gaps(inverse, decays), axis=-1) / np.prod(
        np.where(own, 1.0, gaps(inverse, inverse)), axis=-1
    )
    return scales, inverse_scales


def _log_loss(decays: ComplexArray, inverse: ComplexArray, horizon: int) -> ComplexArray:
    scales, inverse_scales = _residues(decays, inverse)
    column = 1.0 + _squares(decays, scales, horizon - 1)
    constant = np.prod(np.expm1(-decays) / np.expm1(-inverse), axis=-1, keepdims=True)
    weights = inverse_scales / -np.expm1(-inverse)
    # Last row of B: constant + sum weights thetahat^k; the constant's square has no decay.
    row = (
        horizon * constant[..., 0] ** 2
        + 2.0 * np.sum(constant * weights * _geometric(inverse, horizon), axis=-1)
        + _squares(inverse, weights, horizon)
    )
    return 0.5 * (np.log(column) + np.log(row))


def _squares(decays: ComplexArray, weights: ComplexArray, count: int) -> ComplexArray:
    """``sum_{k < count} (sum_i weights_i exp(-decays_i k))^2``."""
    pairs = decays[..., :, None] + decays[..., None, :]
    products = weights[..., :, None] * weights[..., None, :]
    return np.sum(products * _geometric(pairs, count), axis=(-1, -2))


def _geometric(decays: ComplexArray, count: int) -> ComplexArray:
    return np.asarray(np.expm1(-count * decays) / np.expm1(-decays), np.complex128)
