"""Gradient sums, exact up to a stated slack, and their Gaussian measurement.

What every first-order solver measures: the sum of the records' (clipped) gradients at a released
point. Proof in ``gradient.proof.md``.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpstream.arrays import BoolArray, FloatArray
from dpstream.domain.batch import BLOCK_ROWS, Batch
from dpstream.mechanisms.gaussian import measure_gaussian
from dpstream.mechanisms.mechanism import Noise, bounded_sum_sensitivity
from dpstream.privacy.event import GaussianEvent
from dpstream.release import Measurement
from dpstream.solvers.problem import Problem

LATTICE_BITS = 20
"""The lattice is this many bits finer than the noise's standard deviation."""

_HALF_ULP = 2.0**-53


def summation_slack(problem: Problem, bound: float) -> float:
    """How far float64 may move the sum of terms of at most ``bound``, in the bound's norm.

    A sum of m products in any order has each entry within ``m u / (1 - m u)`` of the exact one,
    relative to the sum of the terms' absolute values (``u = 2^-53``); here m counts the rows
    of a block and then the blocks.

    Args:
        problem: tells n.
        bound: of every term.
    """
    additions = BLOCK_ROWS + problem.records // BLOCK_ROWS + 8
    relative = additions * _HALF_ULP
    return relative / (1.0 - relative) * problem.records * bound


def gradient_sensitivity(problem: Problem, *, exponent: int) -> float:
    """The largest L2 shift of the rounded sum of gradients, at one point, that a unit can cause.

    Twice the summation's slack is added, once for each of two neighbours.

    Args:
        problem: its constants, neighbours and cap.
        exponent: of the lattice that the sum is rounded to.
    """
    exact = bounded_sum_sensitivity(
        problem.lipschitz.l2,
        neighbours=problem.neighbours,
        cap=problem.unit.cap,
        rounding_step=math.ldexp(1.0, exponent),
        dimension=problem.dimension,
    )
    return exact + 2.0 * summation_slack(problem, problem.lipschitz.l2)


@dataclass(frozen=True, kw_only=True)
class GradientNoise:
    """The noise of one measured gradient sum: public.

    Attributes:
        exponent: the lattice.
        sensitivity: of the rounded sum.
        sigma: the standard deviation in each coordinate of the sum.
    """

    exponent: int
    sensitivity: float
    sigma: float

    @property
    def mu(self) -> float:
        """Shift over standard deviation of one measurement."""
        return self.sensitivity / self.sigma

    def event(self, name: str, count: int) -> GaussianEvent:
        """What ``count`` adaptive measurements cost."""
        return GaussianEvent(name, mu=math.sqrt(count) * self.mu)


def gradient_noise(problem: Problem, *, mu: float, count: int) -> GradientNoise:
    """The noise with which ``count`` measurements have total shift over deviation ``mu``."""
    each = mu / math.sqrt(count)
    exponent = math.floor(math.log2(problem.lipschitz.l2 / each)) - LATTICE_BITS
    sensitivity = gradient_sensitivity(problem, exponent=exponent)
    return GradientNoise(exponent=exponent, sensitivity=sensitivity, sigma=sensitivity / each)


class GradientSum:
    """A batch as its design, ready for many gradient sums. Secret."""

    def __init__(self, problem: Problem, batch: Batch) -> None:
        self._problem = problem
        self._radii = problem.convex_set.l2_radius(), problem.convex_set.l1_radius()
        self._features, self._targets = problem.design(batch)

    @property
    def features(self) -> FloatArray:
        """The design's features: secret."""
        return self._features

    @property
    def targets(self) -> FloatArray:
        """The design's targets: secret."""
        return self._targets

    def at(self, parameters: FloatArray, sample: BoolArray | None = None) -> FloatArray:
        """The sum of the (sampled) records' gradients, without the regulariser: secret."""
        problem = self._problem
        loss, clip = problem.data_loss, problem.gradient_clip
        features, targets = self._features, self._targets
        if sample is not None:
            features, targets = features[sample], targets[sample]
            # Points of sampled descent may lie off the set by their rounding.
            clip = problem.lipschitz.l2
        total = np.zeros(problem.dimension)
        for start in range(0, len(features), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            total += loss.gradient_sum(parameters, features[block], targets[block], clip=clip)
        return total

    def within(self, parameters: FloatArray) -> FloatArray:
        """The public point, scaled to the set's radii if it lies beyond them at all.

        A record's gradient is bounded by the radii alone, so the bound does not rest on how
        exactly a projection or an oracle was computed. No tolerance is granted: a slope that
        grows like an exponential of its score would multiply it.
        """
        lengths = float(np.linalg.norm(parameters)), float(np.abs(parameters).sum())
        excess = max(
            length / radius if radius > 0.0 else 1.0
            for length, radius in zip(lengths, self._radii, strict=True)
        )
        return parameters / excess if excess > 1.0 else parameters

    def measure(
        self,
        parameters: FloatArray,
        gradient_noise: GradientNoise,
        *,
        address: tuple[int, ...],
        noise: Noise,
        sample: BoolArray | None = None,
    ) -> Measurement:
        """Round the sum at a point of the set to the lattice and measure it.

        For a sample the point is taken as it is: it lies on a grid that scaling would leave, and
        the clipped gradients do not need the radii.
        """
        point = self.within(parameters) if sample is None else parameters
        total = self.at(point, sample)
        steps = np.ldexp(total, -gradient_noise.exponent)
        return measure_gaussian(
            np.rint(steps).astype(np.int64),
            gradient_noise.exponent,
            sigma=gradient_noise.sigma,
            address=address,
            noise=noise,
        )


def mean_gradient(problem: Problem, measurement: Measurement, parameters: FloatArray) -> FloatArray:
    """The noisy gradient of the average problem, the regulariser's included: public."""
    total = np.ldexp(measurement.value.astype(np.float64), measurement.exponent)
    return total / problem.records + problem.regulariser_gradient(parameters)
