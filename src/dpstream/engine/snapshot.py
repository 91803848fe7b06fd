"""A session's state as bytes: arrays to the bit, without executable content."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpstream.engine.schedule import Position
from dpstream.errors import StoreCorrupt

AnyArray: TypeAlias = npt.NDArray[Any]

_MAGIC = b"dpstate1"
_ALIGNMENT = 64
_DIGITS = 20


@dataclass(frozen=True)
class Snapshot:
    """Everything a session needs to continue.

    Attributes:
        position: where the stream stands.
        arrays: the learner's whole state.
    """

    position: Position
    arrays: Mapping[str, AnyArray]

    def to_bytes(self) -> bytes:
        """A self-describing encoding: a JSON header, then the arrays' little-endian bytes."""
        layout: list[dict[str, Any]] = []
        bodies: list[bytes] = []
        for name, array in self.arrays.items():
            array = np.asarray(array)
            if array.dtype.kind not in "biuf":
                raise TypeError(f"state array {name!r} has dtype {array.dtype}; use numbers")
            array = array.astype(array.dtype.newbyteorder("<"), copy=False)
            layout.append({"name": name, "dtype": array.dtype.str, "shape": list(array.shape)})
            bodies.append(array.tobytes())
        header = json.dumps({"position": asdict(self.position), "arrays": layout}).encode()
        # By the time of day the number of records is secret: so is its number of digits.
        header += b" " * (_DIGITS - len(str(self.position.records)))
        header += b" " * (-(len(_MAGIC) + 8 + len(header)) % _ALIGNMENT)
        return b"".join([_MAGIC, len(header).to_bytes(8, "little"), header, *bodies])

    @classmethod
    def from_bytes(cls, content: bytes) -> "Snapshot":
        """Read it back, to the bit.

        Raises:
            StoreCorrupt: if it is not such an encoding.
        """
        try:
            if content[:8] != _MAGIC:
                raise ValueError("unknown format")
            start = 16 + int.from_bytes(content[8:16], "little")
            header = json.loads(content[16:start])
            arrays: dict[str, AnyArray] = {}
            for entry in header["arrays"]:
                dtype, shape = _number_type(entry["dtype"]), tuple(entry["shape"])
                count = math.prod(_counted(length) for length in shape)
                flat = np.frombuffer(content, dtype, count, start)
                arrays[entry["name"]] = flat.reshape(shape).astype(dtype.newbyteorder("="))
                start += count * dtype.itemsize
            if start != len(content):
                raise ValueError("trailing bytes")
            position = Position(**header["position"])
            _counted(position.records)
            if _counted(position.tick) == 0 or not isinstance(position.origin, float | None):
                raise ValueError("no position")
            return cls(position, arrays)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise StoreCorrupt(
                f"the stored state cannot be read ({type(error).__name__}); "
                "restore the store from a copy, or start a new one"
            ) from None


def _number_type(text: str) -> np.dtype[Any]:
    """A little-endian type of truth values, integers or floats; nothing else is ever stored."""
    if not re.fullmatch(r"[<|][biuf]\d{1,2}", text):
        raise ValueError("not a type of numbers")
    return np.dtype(text)


def _counted(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("not a count")
    return value
