"""Hostile values out of arbitrary bytes: what a fuzzer mutates, a target reads as a structure.

Every function consumes bytes from the front and gives zeros when they run out, so that every
byte string is a case, and small changes of it are small changes of the case.
"""

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

MARK = "PRIVATE7319"
"""Stands in private cells; no message may show it."""

NUMBERS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1e-320,
    5e-324,
    1e-300,
    2.0**-128,
    2.0**-1000,
    2.0**53,
    2.0**53 + 2,
    1e19,
    -1e19,
    1e154,
    1.7976931348623157e308,
    -1.7976931348623157e308,
    math.inf,
    -math.inf,
    math.nan,
)
INTEGERS = (0, 1, -1, 2, 3, 255, 2**31, -(2**31), 2**53, 2**63 - 1, -(2**63), 2**64, 10**30)
TEXTS = (
    "",
    " ",
    "a",
    "b",
    "other",
    "nan",
    "NaN",
    "null",
    "None",
    "inf",
    "-Infinity",
    "1e999",
    "0x10",
    "1_0",
    "１２",
    "true",
    "FALSE",
    "3.5",
    " 7 ",
    "\x00",
    "\ud800",
    "\U0001f600",
    "2024-01-01T00:00:00",
    "9999-12-31T23:59:59+14:00",
    "0001-01-01",
    "9" * 400,
)


class Draw:
    """Reads values from the front of some bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        """The next bytes; zeros behind the end."""
        found = self._data[self._at : self._at + count]
        self._at += count
        return found.ljust(count, b"\0")

    @property
    def rest(self) -> bytes:
        """Whatever was not read."""
        return self._data[self._at :]

    def below(self, bound: int) -> int:
        """An integer in [0, bound), bound at most 65536."""
        return int.from_bytes(self.take(1 if bound <= 256 else 2), "big") % bound

    def choice(self, items: Sequence[T]) -> T:
        """One of several."""
        return items[self.below(len(items))]

    def number(self) -> float:
        """A float, as often as not a nasty one."""
        kind = self.below(4)
        if kind == 0:
            return self.choice(NUMBERS)
        if kind == 1:
            return float(np.frombuffer(self.take(8), "<f8")[0])
        return (self.below(65536) - 32768) / (1 << self.below(17))

    def integer(self) -> int:
        """An integer of any size."""
        return self.choice(INTEGERS) if self.below(2) else self.below(65536) - 32768

    def text(self) -> str:
        """A text, a nasty one or any."""
        if self.below(2):
            return self.choice(TEXTS)
        return self.take(self.below(12)).decode("utf-8", "surrogateescape")

    def cell(self) -> Any:
        """What a record may hold, by right or not; some hold the private mark."""
        kind = self.below(12)
        if kind < 4:
            return self.number()
        if kind == 4:
            return self.integer()
        if kind == 5:
            return self.text()
        if kind == 6:
            return f"{self.text()}{MARK}{self.text()}"
        if kind == 7:
            return self.choice((None, True, False, b"", MARK.encode(), (), [MARK], {MARK: MARK}))
        if kind == 8:
            return self.choice(
                (np.float32(0.25), np.int64(7), np.bool_(True), np.str_(MARK), np.nan)
            )
        if kind == 9:
            return self.choice((1j, object, frozenset({MARK}), np.datetime64("NaT"), Stubborn()))
        return self.choice(NUMBERS)

    def json(self, depth: int = 3) -> Any:
        """Anything JSON can say."""
        kind = self.below(8 if depth else 6)
        if kind == 0:
            return None
        if kind == 1:
            return bool(self.below(2))
        if kind == 2:
            return self.integer()
        if kind in (3, 4):
            return self.number()
        if kind == 5:
            return self.text()
        if kind == 6:
            return [self.json(depth - 1) for _ in range(self.below(4))]
        return {self.text(): self.json(depth - 1) for _ in range(self.below(4))}

    def edited(self, content: bytes) -> bytes:
        """Some bytes with a few edits: overwritten, cut out, doubled, put in or cut off."""
        made = bytearray(content)
        for _ in range(1 + self.below(4)):
            place = int.from_bytes(self.take(3), "big") % (len(made) + 1)
            kind, length = self.below(6), 1 + self.below(8)
            if kind == 0:
                made[place : place + length] = self.take(length)
            elif kind == 1:
                del made[place : place + length]
            elif kind == 2:
                made[place:place] = made[place : place + length]
            elif kind == 3:
                made[place:place] = self.choice(TOKENS)
            elif kind == 4:
                made[place : place + 1] = bytes([self.below(256)])
            elif len(made) > place:
                made[place] ^= 1 << self.below(8)
        return bytes(made[: len(made) - self.below(64)] if self.below(8) == 0 else made)


class Stubborn:
    """A value that refuses whatever is asked of it, and says a secret doing so."""

    def _refuse(self) -> Any:
        raise ValueError(MARK)

    __float__ = __int__ = __index__ = __bool__ = __len__ = __iter__ = _refuse

    def __str__(self) -> str:
        raise ValueError(MARK)

    def __repr__(self) -> str:
        raise ValueError(MARK)

    def __eq__(self, other: object) -> bool:
        raise ValueError(MARK)

    __hash__ = None


TOKENS = (
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"1e999",
    b"-1e999",
    b"null",
    b"true",
    b"{}",
    b"[]",
    b'"',
    b"\\u0000",
    b"\\ud800",
    b"[" * 2000,
    b'{"a":' * 2000,
    b"9" * 5000,
    b"\xff\xfe",
    b"\0",
    b"\n",
    b"-1",
    b"1.5",
    b"9223372036854775808",
    b"=",
    b"[learner]\n",
    b"'''",
)
