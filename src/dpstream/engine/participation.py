"""How often a unit counts: the public cap, enforced and remembered.

A unit is protected because at most ``cap`` of its records count; every record beyond becomes
the null record, and its tick stays. Which record is beyond depends on where the records of the
same unit stand, and on nothing they say: a record that is null anyway uses up the cap like any
other. So changing one unit's records changes neither whether another's count nor which of its own
do, and two neighbouring streams differ in at most ``cap`` places. (Were null records passed over,
a unit could count at one place in one stream and at another place in the other, and a replacement
would shift both.)

The store learns a unit only as a keyed hash; without the store's secret the hashes tell
nothing, not even whether a given person is among them.
"""

import hashlib
from collections import defaultdict

import numpy as np

from dpstream.arrays import IntArray
from dpstream.domain.batch import IDENTIFIER_BYTES, Batch
from dpstream.engine.ports import Contribution, Store
from dpstream.errors import SchemaError
from dpstream.privacy.unit import Unit

_LIFE = 0
_NOBODY = bytes(IDENTIFIER_BYTES)


class Participation:
    """Counts what units contribute and nulls what is over the cap.

    Args:
        unit: the declared unit.
        window: ticks in a window, if the cap is per window, else None; any ``window``
            consecutive ticks then hold at most ``cap`` records of a unit that count.
        store: where counts are remembered.
        key: of the hashes by which units are known.
    """

    def __init__(self, unit: Unit, *, window: int | None, store: Store, key: bytes) -> None:
        self._unit = unit
        self._window = window
        self._store = store
        self._key = key
        self._counts: dict[bytes, defaultdict[int, int]] = {}
        self._pending: dict[bytes, defaultdict[int, int]] = {}
        self._hashes: list[bytes] = []
        self._codes: IntArray = np.zeros(0, np.int64)
        self._nobody = -1

    def hash(self, identifier: bytes) -> bytes:
        """The keyed hash under which the store knows a unit."""
        return hashlib.blake2b(identifier, key=self._key, digest_size=IDENTIFIER_BYTES).digest()

    def open_chunk(self, batch: Batch) -> None:
        """Look up the units of a chunk; ``admit`` then takes its parts in order."""
        if self._unit.kind == "record":
            return
        if batch.units is None:
            raise SchemaError(
                "the unit is a user but the records carry no identifier; "
                f"they need the column {self._unit.column!r}"
            )
        distinct, codes = np.unique(batch.units, return_inverse=True)
        self._codes = codes.astype(np.int64)
        self._hashes = [identifier.tobytes() for identifier in distinct]
        # Records without an identifier are null, and nobody's.
        self._nobody = self._hashes.index(_NOBODY) if _NOBODY in self._hashes else -1
        self._counts = {unit: defaultdict[int, int](int) for unit in self._hashes}
        for known in self._store.contributions(self._hashes):
            self._counts[known.unit][known.tick] += known.records
        for unit, counts in self._counts.items():
            for tick, records in self._pending.get(unit, {}).items():
                counts[tick] += records

    def admit(self, batch: Batch, start: int, stop: int, *, tick: int) -> Batch:
        """Rows ``start`` to ``stop`` of the open chunk, with records over the cap made null."""
        part = batch.slice(start, stop)
        if self._unit.kind == "record":
            return part
        codes = self._codes[start:stop]
        counted = np.flatnonzero(codes != self._nobody)
        codes = codes[counted]
        present, inverse = np.unique(codes, return_inverse=True)
        before = np.array([self._count(int(code), tick) for code in present], np.int64)
        excess = before[inverse] + _occurrence(inverse) >= self._unit.cap
        slot = _LIFE if self._window is None else tick
        accepted = np.bincount(inverse[~excess], minlength=len(present))
        for code, records in zip(present.tolist(), accepted.tolist(), strict=True):
            if records:
                unit = self._hashes[code]
                self._counts[unit][slot] += records
                self._pending.setdefault(unit, defaultdict(int))[slot] += records
        over_cap = np.zeros(len(part), np.bool_)
        over_cap[counted[excess]] = True
        return part.nullify(over_cap)

    def pending(self) -> list[Contribution]:
        """What the next commit must make durable."""
        return [
            Contribution(unit=unit, tick=tick, records=records)
            for unit, counts in self._pending.items()
            for tick, records in counts.items()
        ]

    def committed(self) -> None:
        """The pending contributions are durable now."""
        self._pending.clear()

    def forget_before(self, tick: int) -> int:
        """Contributions of ticks before this one no longer matter while ``tick`` is open."""
        return 0 if self._window is None else max(0, tick - self._window + 1)

    def _count(self, code: int, tick: int) -> int:
        counts = self._counts[self._hashes[code]]
        if self._window is None:
            return counts[_LIFE]
        return sum(n for when, n in counts.items() if when > tick - self._window)


def _occurrence(codes: IntArray) -> IntArray:
    """For each entry, how many equal entries come before it."""
    order = np.argsort(codes, kind="stable")
    ranked = codes[order]
    first = np.searchsorted(ranked, ranked, side="left")
    occurrence = np.empty(len(codes), np.int64)
    occurrence[order] = np.arange(len(codes)) - first
    return occurrence
