"""Models of scores as plain JSON values."""

from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.domain import Domain
from dpstream.losses.loss import Loss
from dpstream.losses.poisson import PoissonLoss
from dpstream.losses.regularised import RegularisedLoss


def described_scores(
    domain: Domain, points: FloatArray, *, loss: Loss | RegularisedLoss
) -> dict[str, Any]:
    """Parameters of scores, one row per class, in scaled units and in the user's.

    Args:
        domain: tells whether rows begin with a constant.
        points: ``(classes, constants + features)``.
        loss: tells what a score is: a prediction of the target, or for counts the logarithm of
            their rate, in units of the scaled target or of the user's.
    """
    first = 1 if domain.intercept else 0
    constants = points[:, 0] if first else np.zeros(len(points))
    # The user's map, row by row, without its matrix: releases may come at every record.
    x, y = domain.feature_map, domain.target_map
    own = loss.loss if isinstance(loss, RegularisedLoss) else loss
    if isinstance(own, PoissonLoss):
        coefficients = points[:, first:] * x.scale
        offsets = constants - np.log(y.scale) - coefficients @ x.centre
    else:
        coefficients = points[:, first:] * x.scale / y.scale[:, None]
        offsets = constants / y.scale + y.centre - coefficients @ x.centre
    return {
        "coefficients": points[:, first:].tolist(),
        "intercept": constants.tolist(),
        "user": {
            "coefficients": coefficients.tolist(),
            "intercept": offsets.tolist(),
        },
    }
