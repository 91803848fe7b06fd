"""A release as one line of JSON, and the chain of digests over all lines.

The line is canonical (sorted keys, shortest decimal that reads back to the same float), so the
same release is the same bytes at every making. Each line's digest covers the line, the
measurements made for it and the digest before it: a log that was cut, reordered or edited
does not verify.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from dpstream.engine.ports import ReleaseRow
from dpstream.errors import StoreCorrupt
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.release import Guarantee, Measurement, Release

Model = Mapping[str, Any]

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
    return json.dumps(
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
        },
        sort_keys=True,
        separators=(",", ":"),
        allow_nan=False,
        ensure_ascii=False,
    ).encode()


def from_line(line: bytes) -> Release[Model]:
    """The release of a published line.

    Raises:
        StoreCorrupt: if it is not such a line.
    """
    try:
        content = json.loads(line)
        if content["format"] != FORMAT:
            raise StoreCorrupt(
                f"a release has format {content['format']!r}; this version reads format {FORMAT}"
            )
        stated: Mapping[str, Any] = content["guarantee"]
        guarantee = Guarantee(
            epsilon=stated["epsilon"],
            delta=stated["delta"],
            unit=Unit(**stated["unit"]),
            neighbours=Neighbours(stated["neighbours"]),
            promise=stated["promise"],
            insecure_seed=stated["insecure_seed"],
        )
        return Release(
            tick=content["tick"],
            value=content["value"],
            guarantee=guarantee,
            events=tuple(content["events"]),
            provenance=content["provenance"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StoreCorrupt(f"a release cannot be read ({type(error).__name__})") from None


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
