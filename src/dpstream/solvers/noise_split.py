"""One noisy measurement as two independent ones: to fit on one, and to judge on the other.

To moments with normal noise of variance V further noise e of variance ``c V`` is added, from
*public* randomness: ``X + e`` and ``X - e / c`` are uncorrelated, hence independent, with noise of
variance ``(1 + c) V`` and ``(1 + 1 / c) V``. Whatever is chosen by the first, the second judges as
if it had been fixed before. Post-processing of measurements; claim 5 of ``quadratic.proof.md``.
"""

from dataclasses import dataclass, replace

import numpy as np

from dpstream.mechanisms.public import PublicGenerator
from dpstream.solvers.noisy_quadratic import NoisyQuadratic


@dataclass(frozen=True, kw_only=True)
class NoiseSplit:
    """Two independent measurements of the same moments.

    Attributes:
        fit: to choose by.
        judge: to judge by what was chosen.
    """

    fit: NoisyQuadratic
    judge: NoisyQuadratic


def noise_splits(
    problem: NoisyQuadratic, *, share: float, generator: PublicGenerator
) -> tuple[NoiseSplit, NoiseSplit]:
    """Two splits, with the added noise and with its negative.

    In the mean of both what was added cancels to first order.

    Args:
        problem: the measurement.
        share: c, the variance that is added to fit by, in units of the noise that is there.
        generator: public randomness.
    """
    upper = np.triu(generator.standard_normal(problem.gram.shape))
    gram = (upper + np.triu(upper, 1).T) * np.sqrt(share * problem.gram_variance)
    cross = generator.standard_normal(problem.cross.shape) * np.sqrt(share * problem.cross_variance)

    def moved(size: float, variance: float) -> NoisyQuadratic:
        return replace(
            problem,
            gram=problem.gram + size * gram,
            cross=problem.cross + size * cross,
            gram_variance=variance * problem.gram_variance,
            cross_variance=variance * problem.cross_variance,
        )

    first, second = (
        NoiseSplit(fit=moved(sign, 1.0 + share), judge=moved(-sign / share, 1.0 + 1.0 / share))
        for sign in (1.0, -1.0)
    )
    return first, second
