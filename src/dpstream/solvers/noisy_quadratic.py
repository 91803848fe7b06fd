"""A least squares problem as its noisy moments show it, and the law of its noise."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.errors import ConfigurationError
from dpstream.solvers.constrained_quadratic import Restraint


@dataclass(frozen=True, kw_only=True)
class NoisyQuadratic:
    """A least squares problem as its noisy moments show it.

    Attributes:
        gram: ``(p, p)`` noisy ``S``, symmetric.
        cross: ``(p, k)`` noisy ``s``, one column per target.
        gram_variance: ``(p, p)`` noise variance of each entry; an entry and its mirror image are
            the same draw, all others are independent.
        cross_variance: ``(p, k)`` noise variances.
        penalty: ridge penalty of the whole sum, on all parameters but the constant.
        constant: whether the first parameter is a constant: neither penalised nor bounded.
        radius: of the L2 ball for the parameters but the constant; None for all of space.
        constraint: another set, or an L1 penalty, for the parameters but the constant; not together
            with a radius.
        target_bound: public bound of the targets, which bounds their mean; None if there is none.
        most_records: public bound of the entry that counts records; None if there is none.
    """

    gram: FloatArray
    cross: FloatArray
    gram_variance: FloatArray
    cross_variance: FloatArray
    penalty: float = 0.0
    constant: bool = False
    radius: float | None = None
    constraint: Restraint | None = None
    target_bound: float | None = None
    most_records: float | None = None

    def __post_init__(self) -> None:
        if self.constraint is None:
            return
        if self.radius is not None:
            raise ConfigurationError("radius and constraint are two sets; give one of them")
        free = self.gram.shape[0] - self.first
        if self.constraint.dimension != free:
            raise ConfigurationError(
                f"the constraint has dimension {self.constraint.dimension}, but there are {free} "
                "parameters beside the constant; declare the set in that dimension"
            )

    @property
    def first(self) -> int:
        """The first parameter that is penalised."""
        return 1 if self.constant else 0

    @property
    def ridge(self) -> FloatArray:
        """The diagonal that the penalty adds."""
        diagonal = np.full(self.gram.shape[0], self.penalty)
        diagonal[: self.first] = 0.0
        return diagonal

    def equation_covariance(self, parameters: FloatArray, target: int) -> FloatArray:
        """Covariance of the noise in the normal equations, ``n - N parameters``.

        With one draw per pair of mirrored entries of variance ``V_ij``:
        ``diag(v_i + sum_j V_ij b_j^2)`` plus ``V_ij b_i b_j`` off the diagonal.
        """
        outer = self.gram_variance * np.multiply.outer(parameters, parameters)
        np.fill_diagonal(outer, self.cross_variance[:, target] + self.gram_variance @ parameters**2)
        return outer

    def noise_radius(self) -> float:
        """The spectral radius that the noise of the penalised block has, up to its fluctuation.

        A symmetric p by p matrix with off-diagonal variance V has it near ``2 sqrt(p V)``.
        """
        size = self.gram_variance.shape[0] - self.first
        return (2.0 if size > 1 else math.sqrt(2.0)) * math.sqrt(size * self.mixed_variance)

    @property
    def mixed_variance(self) -> float:
        """The mean noise variance of the penalised block's off-diagonal entries.

        Half that of the diagonal ones, for the noise of a layout: so it is defined for one entry.
        """
        block = self.gram_variance[self.first :, self.first :]
        size = block.shape[0]
        if size < 2:
            return 0.5 * float(block[0, 0]) if size else 0.0
        return float(block.sum() - np.trace(block)) / (size * (size - 1))

    def risk_deviation(self, shown: float, square: float) -> float:
        """Deviation by noise of ``theta' (S + N) theta - 2 theta' (s + n)``.

        Args:
            shown: the noise variance of ``theta' (s + n)``, of the profiled problem.
            square: ``|theta|^2``.
        """
        return math.sqrt(4.0 * shown + 2.0 * self.mixed_variance * square * square)

    def hidden_curvature(self) -> float:
        """The curvature that the noise alone could show along a direction of the set.

        Over a set of width w and L2 radius R, ``E sup theta' N theta`` is at most ``2 sqrt(V) R
        w`` (Chevet), which is ``w / (R sqrt(p))`` of the spectral radius per ``R^2``: all of it
        for a ball.
        """
        whole = self.noise_radius()
        return whole if self.constraint is None else whole * self.constraint.relative_width

    @cached_property
    def profile(self) -> "Profile":
        """The problem with its constant profiled out."""
        return Profile.of(self, self.gram, self.cross)


@dataclass(frozen=True, kw_only=True, eq=False)
class Profile:
    """A problem in the parameters but the constant, which solves its own normal equation.

    Attributes:
        gram: of the centred features; as it is without a constant.
        cross: ``(p, k)`` of the centred features and targets.
        mean: of the features; empty without a constant.
        levels: per target, its mean; None without a constant.
        count: the number of records that the constant saw; 1 without one.
    """

    gram: FloatArray
    cross: FloatArray
    mean: FloatArray
    levels: FloatArray | None
    count: float

    @classmethod
    def of(cls, problem: NoisyQuadratic, gram: FloatArray, cross: FloatArray) -> "Profile":
        """The profile of other moments of the same problem.

        The count is held at least at its own standard deviation and at most at its public bound,
        the mean target within its own: no truth lies beyond.
        """
        gram = 0.5 * (gram + gram.T)
        if not problem.constant:
            return cls(gram=gram, cross=cross, mean=np.zeros(0), levels=None, count=1.0)
        count = max(float(gram[0, 0]), 1.0, math.sqrt(float(problem.gram_variance[0, 0])))
        if problem.most_records is not None:
            count = max(min(count, problem.most_records), 1.0)
        mean = gram[1:, 0] / count
        bound = math.inf if problem.target_bound is None else problem.target_bound
        return cls(
            gram=gram[1:, 1:] - np.multiply.outer(mean, mean) * count,
            # Rows minus the mean times the row of the constant, noise and all.
            cross=cross[1:] - np.multiply.outer(mean, cross[0]),
            mean=mean,
            levels=np.clip(cross[0] / count, -bound, bound),
            count=count,
        )

    @property
    def rows(self) -> FloatArray:
        """Row operations on the normal equations that profile the constant out."""
        size = self.gram.shape[0]
        if self.levels is None:
            return np.eye(size)
        return np.column_stack([-self.mean, np.eye(size)])

    def complete(self, slopes: FloatArray, target: int) -> FloatArray:
        """All parameters: the constant, where there is one, meets the mean target."""
        if self.levels is None:
            return slopes
        return np.concatenate(([self.levels[target] - self.mean @ slopes], slopes))


class RotatedNoise:
    """Noise variance of each rotated normal equation, at any parameters.

    In ``sum_ik r_i r_k C_ik`` the covariance C is ``diag(v_i + sum_j V_ij b_j^2)`` and ``V_ij b_i
    b_j`` off the diagonal. Where V is one number V0 off its diagonal, the second part is ``V0
    (r . b)^2 - V0 sum r_i^2 b_i^2``: no matrix product is needed.
    """

    def __init__(self, problem: NoisyQuadratic, rotation: FloatArray) -> None:
        self._problem = problem
        self._rotation = rotation
        variance = problem.gram_variance
        self._size = variance.shape[0]
        self._common = float(variance[0, -1]) if self._size > 1 else 0.0
        apart = np.count_nonzero(variance != self._common)
        on_diagonal = np.count_nonzero(np.diagonal(variance) != self._common)
        self._uniform = math.isfinite(self._common) and apart == on_diagonal
        self._squares = rotation * rotation if self._uniform else rotation

    def variance(self, parameters: FloatArray, target: int) -> FloatArray:
        """The variances at the given parameters."""
        problem, rotation = self._problem, self._rotation
        if not self._uniform:
            covariance = problem.equation_covariance(parameters, target)
            return np.sum((rotation @ covariance) * rotation, axis=1)
        square = parameters * parameters
        own = problem.cross_variance[:, target] + problem.gram_variance @ square
        mixed = rotation @ parameters
        rest = self._squares @ (own - self._common * square)
        return np.maximum(rest + self._common * mixed * mixed, 0.0)
