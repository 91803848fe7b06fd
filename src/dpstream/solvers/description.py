"""Public declarations as plain JSON values: what tells two of them apart."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

from dpstream.errors import ConfigurationError

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
