"""Public declarations and models as plain JSON values."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.domain import Domain
from dpstream.errors import ConfigurationError
from dpstream.losses.loss import Loss
from dpstream.losses.poisson import PoissonLoss
from dpstream.losses.regularised import RegularisedLoss

LISTED_ENTRIES = 64
"""Arrays up to so many entries are listed; larger ones are named by their digest."""


def described(value: Any) -> Any:
    """A public declaration as JSON gives it back: its identity for ``resume``.

    Args:
        value: numbers, texts, arrays, mappings and sequences of those, or dataclasses of them.

    Raises:
        ConfigurationError: if it is anything else: a stream could not be recognised by it.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): described(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [described(item) for item in value]
    if isinstance(value, np.generic):
        return described(value.item())
    if isinstance(value, np.ndarray):
        if value.size <= LISTED_ENTRIES:
            return described(value.tolist())
        content = np.ascontiguousarray(value.astype(value.dtype.newbyteorder("<")))
        digest = hashlib.blake2b(content.tobytes(), digest_size=16).hexdigest()
        return {"shape": list(value.shape), "digest": digest}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if is_dataclass(value) and not isinstance(value, type):
        parts = {item.name: described(getattr(value, item.name)) for item in fields(value)}
        return {"type": type(value).__name__, **parts}
    raise ConfigurationError(
        f"a {type(value).__name__} cannot be described; make it a dataclass of numbers, texts and "
        "arrays, so that a stream declared with it can be recognised"
    )


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
