"""What makes two sets the same: their class and their public numbers, as JSON."""

import hashlib
import math
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from dpstream.errors import ConfigurationError

LISTED_ENTRIES = 64
"""Arrays up to so many entries are listed; larger ones are named by their digest."""


def describe_set(convex_set: object) -> dict[str, Any]:
    """The class of a set and its fields, JSON-ready: part of a stream's identity.

    Args:
        convex_set: a dataclass whose fields are numbers, texts, arrays, sequences of those, or
            further sets.

    Raises:
        ConfigurationError: if it is not: the set could not be recognised when a stream resumes.
    """
    if not is_dataclass(convex_set) or isinstance(convex_set, type):
        raise ConfigurationError(
            f"the set {type(convex_set).__name__} cannot be described; make it a dataclass whose "
            "fields are numbers and arrays, so that a stream on it can be recognised"
        )
    parts = {item.name: _plain(getattr(convex_set, item.name)) for item in fields(convex_set)}
    return {"name": type(convex_set).__name__, **parts}


def _plain(value: object) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, np.ndarray):
        if value.size <= LISTED_ENTRIES:
            return _plain(value.tolist())
        content = np.ascontiguousarray(value.astype(value.dtype.newbyteorder("<")))
        digest = hashlib.blake2b(content.tobytes(), digest_size=16).hexdigest()
        return {"shape": list(value.shape), "digest": digest}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return describe_set(value)
