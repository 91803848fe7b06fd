"""Public declarations and models as plain JSON values."""

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.domain import Domain


def described(value: Any) -> Any:
    """A public declaration as JSON gives it back: its identity for ``resume``."""
    if isinstance(value, Mapping):
        return {str(key): described(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [described(item) for item in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        parts = {item.name: described(getattr(value, item.name)) for item in fields(value)}
        return {"type": type(value).__name__, **parts}
    return value


def described_scores(domain: Domain, points: FloatArray) -> dict[str, Any]:
    """Parameters of scores, one row per class, in scaled units and in the user's.

    Args:
        domain: tells whether rows begin with a constant.
        points: ``(classes, constants + features)``.
    """
    first = 1 if domain.intercept else 0
    constants = points[:, 0] if first else np.zeros(len(points))
    # The user's map, row by row, without its matrix: releases may come at every record.
    x, y = domain.feature_map, domain.target_map
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
