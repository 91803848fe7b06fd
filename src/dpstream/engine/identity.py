"""What makes two runs the same stream: every public parameter the guarantee rests on."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from dpstream.errors import StreamChanged

Identity = Mapping[str, Any]

LISTED = 10
"""So many differences are listed; the rest are counted."""

SHOWN_CHARACTERS = 60
"""So much is shown of a value: filters have many numbers."""


def canonical(identity: Identity) -> dict[str, Any]:
    """The identity as JSON would read it back, so that a stored one compares equal."""
    return json.loads(json.dumps(identity, allow_nan=False))


def differences(stored: Identity, given: Identity) -> list[str]:
    """One text per parameter that differs, with its dotted name and both values."""
    before, now = dict(_leaves(stored)), dict(_leaves(given))
    changed = [name for name in before.keys() | now.keys() if before.get(name) != now.get(name)]
    # A learner's own numbers follow from the rest: noise scales, lattices, filters.
    changed.sort(key=lambda name: (name.startswith("learner."), name.count("."), name))
    return [
        f"{name} was {_short(before.get(name))}, is now {_short(now.get(name))}" for name in changed
    ]


def _short(text: str | None) -> str:
    if text is None:
        return "(absent)"
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."


def check_same(stored: Identity, given: Identity, *, store: str) -> None:
    """Refuse to continue a stream under another configuration.

    Raises:
        StreamChanged: listing what differs, what was declared before what follows from it.
    """
    changed = differences(stored, given)
    if changed:
        listed = changed[:LISTED]
        if len(changed) > LISTED:
            listed.append(f"and {len(changed) - LISTED} more parameters")
        raise StreamChanged(
            f"{store} holds a stream of another configuration: {'; '.join(listed)}. "
            "Continue with the old configuration, or start a new stream in another place"
        )


def identity_digest(identity: Identity) -> str:
    """A short public name of an identity."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _leaves(value: Any, name: str = "") -> list[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        return [
            leaf
            for key, item in value.items()
            for leaf in _leaves(item, f"{name}.{key}" if name else str(key))
        ]
    if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        return [
            leaf for index, item in enumerate(value) for leaf in _leaves(item, f"{name}[{index}]")
        ]
    return [(name, json.dumps(value))]
