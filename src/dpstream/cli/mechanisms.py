"""``dpstream mechanisms``: the catalogue."""

from dpstream.catalogue.catalogue import CATALOGUE
from dpstream.catalogue.entry import Kind
from dpstream.cli.config import nearest
from dpstream.cli.output import print_json, print_table
from dpstream.errors import ConfigurationError


def mechanisms(*, kind: str | None, as_json: bool) -> None:
    """List the catalogue, or one kind of it."""
    kinds = {item.value: item for item in Kind}
    if kind is not None and kind not in kinds:
        raise ConfigurationError(f"--kind is {kind!r}{nearest(kind, kinds)}")
    entries = [entry for entry in CATALOGUE if kind is None or entry.kind is kinds[kind]]
    if as_json:
        print_json({"entries": [dict(entry.to_json()) for entry in entries]})
        return
    print_table(
        ("kind", "name", "source", "horizon", "summary"),
        [(e.kind.value, e.name, e.source, e.horizon or "-", e.summary) for e in entries],
    )
