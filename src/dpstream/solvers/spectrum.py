"""What a noisy symmetric matrix was without its noise: two estimates of its spectrum.

*Isotropic*: Stein shrinkage towards a multiple of the identity, by groups of equal variance; good
where features are alike. *Semicircle*: an eigenvalue l well above the noise's spectral radius r is
seen at ``l + r^2 / (4 l)``, so it is put back; good where few directions carry much. Either keeps
directions that the noise hides from being inverted. Post-processing of measurements; used and
bounded in ``quadratic.proof.md``.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpstream.arrays import FloatArray


def stein_factor(square_norm: float, dimension: int, variance: float) -> float:
    """The positive-part James-Stein factor for ``dimension`` values of equal noise variance.

    It lowers the expected squared error whatever the truth is, for three values or more; for
    fewer it is 1.
    """
    if dimension < 3 or variance == 0.0:
        return 1.0
    excess = (dimension - 2) * variance
    return 0.0 if square_norm <= excess else 1.0 - excess / square_norm


def shrink_to_isotropic(
    block: FloatArray, variance: FloatArray
) -> tuple[FloatArray, tuple[float, float]]:
    """Stein shrinkage of a symmetric matrix towards a multiple of the identity.

    Diagonal deviations from the mean and off-diagonal entries are two groups of equal noise
    variance and independent noise, each shrunk by its own factor.
    """
    size = block.shape[0]
    if size < 2:
        return block, (1.0, 1.0)
    mean = float(np.trace(block)) / size
    diagonal = np.diagonal(block) - mean
    upper = np.triu_indices(size, 1)
    kept_diagonal = stein_factor(float(diagonal @ diagonal), size - 1, float(variance[0, 0]))
    kept_off = stein_factor(float(np.sum(block[upper] ** 2)), len(upper[0]), float(variance[0, 1]))
    shrunk = kept_off * block
    np.fill_diagonal(shrunk, mean + kept_diagonal * diagonal)
    return shrunk, (kept_diagonal, kept_off)


@dataclass(frozen=True, kw_only=True, eq=False)
class Spectrum:
    """An estimate of a matrix plus a penalty, by its eigenvalues.

    Attributes:
        basis: orthonormal eigenvectors, as columns.
        values: estimated eigenvalues, the penalty included: non-negative.
        raw: the noisy matrix's own eigenvalues in that basis.
        kept: factors of the deviation from isotropy, on and off the diagonal.
        raised: how many eigenvalues lie above those of the noisy matrix.
        semicircle: whether they were put back by the semicircle law.
    """

    basis: FloatArray
    values: FloatArray
    raw: FloatArray
    kept: tuple[float, float]
    raised: int
    semicircle: bool = False

    @property
    def matrix(self) -> FloatArray:
        """The estimate."""
        return (self.basis * self.values) @ self.basis.T


def isotropic_spectrum(
    matrix: FloatArray, variance: FloatArray, *, penalty: float, floor: float, shrink: bool
) -> Spectrum:
    """Stein's estimate, made non-negative and, with the penalty, at least the floor.

    Args:
        matrix: symmetric, noisy.
        variance: of its entries.
        penalty: added to every eigenvalue.
        floor: the curvature that noise alone could show; it shrinks with the deviations.
        shrink: False for the matrix as it is.
    """
    kept = (1.0, 1.0)
    if shrink:
        matrix, kept = shrink_to_isotropic(matrix, variance)
        # What is left of the noise: of the deviations, and of the mean that they are shrunk to.
        floor = max(floor * max(kept), 2.0 * math.sqrt(np.trace(variance)) / len(matrix))
    raw, basis = np.linalg.eigh(matrix)
    values = np.maximum(np.maximum(raw, 0.0) + penalty, floor)
    raised = int(np.count_nonzero(values > raw + penalty + 1e-9 * floor))
    return Spectrum(basis=basis, values=values, raw=raw, kept=kept, raised=raised)


def put_back(values: FloatArray, radius: float) -> FloatArray:
    """Eigenvalues as they were before noise of that spectral radius was added.

    Above the radius the inverse of ``l + r^2 / (4 l)``; below it a line through zero.
    """
    root = np.sqrt(np.maximum(values * values - radius * radius, 0.0))
    return 0.5 * (np.maximum(values, 0.0) + np.where(values > radius, root, 0.0))


def semicircle_spectrum(matrix: FloatArray, *, penalty: float, radius: float) -> Spectrum:
    """The matrix with its eigenvalues put back; with the penalty, at least half the radius."""
    raw, basis = np.linalg.eigh(matrix)
    values = semicircle_values(raw, penalty=penalty, radius=radius)
    raised = int(np.count_nonzero(values > raw + penalty + 1e-9 * radius))
    return Spectrum(
        basis=basis, values=values, raw=raw, kept=(1.0, 1.0), raised=raised, semicircle=True
    )


def semicircle_values(raw: FloatArray, *, penalty: float, radius: float) -> FloatArray:
    """The eigenvalues of ``semicircle_spectrum``: a function of each on its own."""
    return np.maximum(put_back(raw, radius) + penalty, 0.5 * radius)
