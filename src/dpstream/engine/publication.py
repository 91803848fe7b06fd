"""A release as one line of JSON, and the chain of digests over all lines.

The line is canonical (sorted keys, shortest decimal that reads back to the same float), so the
same release is the same bytes at every making. Each line's digest covers the line, the
measurements made for it and the digest before it: a log that was cut, reordered or edited
does not verify.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from dpstream.engine.ports import ReleaseRow
from dpstream.errors import StoreCorrupt
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.release import Guarantee, Measurement, Release

Model = Mapping[str, Any]
T = TypeVar("T")

FIRST_DIGEST = bytes(32)
"""The digest before the first line."""

FORMAT = 1
"""The version of a published line."""


def to_line(release: Release[Model]) -> bytes:
    """The canonical line of a release, without the line's end.

    Raises:
        ValueError: if the value holds something JSON has no word for, such as infinity.
    """
    guarantee = release.guarantee
    return _canonical(
        {
            "format": FORMAT,
            "tick": release.tick,
            "value": release.value,
            "guarantee": {
                "epsilon": guarantee.epsilon,
                "delta": guarantee.delta,
                "unit": unit_to_json(guarantee.unit),
                "neighbours": guarantee.neighbours.value,
                "promise": guarantee.promise,
                "insecure_seed": guarantee.insecure_seed,
            },
            "events": list(release.events),
            "provenance": dict(release.provenance),
        }
    )


def from_line(line: bytes) -> Release[Model]:
    """The release of a published line.

    Every number in it is finite, and ``to_line`` makes the same line of it again.

    Raises:
        StoreCorrupt: if it is not such a line.
    """
    try:
        content = json.loads(line.decode())
        version = content["format"]
        if _typed(version, int) != FORMAT:
            raise StoreCorrupt(
                f"a release has format {version}; this version reads format {FORMAT}"
            )
        # Canonical and without infinities: what reads back differently was not written here.
        if _canonical(content) != line:
            raise ValueError("not canonical")
        stated = _typed(content["guarantee"], dict)
        guarantee = Guarantee(
            epsilon=_typed(stated["epsilon"], float),
            delta=_typed(stated["delta"], float),
            unit=Unit(**stated["unit"]),
            neighbours=Neighbours(stated["neighbours"]),
            promise=_typed(stated["promise"], str),
            insecure_seed=_typed(stated["insecure_seed"], bool),
        )
        release = Release[Model](
            tick=_typed(content["tick"], int),
            value=_typed(content["value"], dict),
            guarantee=guarantee,
            events=tuple(_typed(event, dict) for event in _typed(content["events"], list)),
            provenance=_typed(content["provenance"], dict),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreCorrupt(f"a release cannot be read ({type(error).__name__})") from None
    return release


def _canonical(content: Mapping[str, Any]) -> bytes:
    text = json.dumps(
        content, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False
    )
    return text.encode()


def _typed(value: Any, kind: type[T]) -> T:
    if type(value) is not kind:
        raise TypeError(f"no {kind.__name__}")
    return value


def chained(
    line: bytes, *, tick: int, measurements: Iterable[Measurement], previous: bytes
) -> ReleaseRow:
    """The log's row of a line: its digest binds all lines and measurements so far."""
    state = hashlib.blake2b(previous, digest_size=32, person=b"dpstream.log")
    state.update(tick.to_bytes(8, "big"))
    for measurement in measurements:
        address = json.dumps(measurement.address).encode()
        value = measurement.value.astype("<i8", copy=False).tobytes()
        for part in (address, measurement.exponent.to_bytes(8, "big", signed=True), value):
            state.update(len(part).to_bytes(8, "big") + part)
    state.update(line)
    return ReleaseRow(tick=tick, line=line, digest=state.digest())


def unit_to_json(unit: Unit) -> dict[str, Any]:
    """The public description of a unit."""
    return {"kind": unit.kind, "cap": unit.cap, "column": unit.column, "period": unit.period}
