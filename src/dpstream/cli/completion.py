"""What shells complete: names that the program itself knows."""

from collections.abc import Callable, Mapping

from dpstream.catalogue.catalogue import CATALOGUE
from dpstream.catalogue.entry import Kind
from dpstream.cli.bench import BENCHMARKS
from dpstream.cli.reproduce import EXPERIMENTS

_PUBLIC = (Kind.SET, Kind.LOSS)
"""Kinds that never see data, and are not attacked."""

_WORDS: Mapping[str, Callable[[], list[str]]] = {
    "kinds": lambda: [kind.value for kind in Kind],
    "audited": lambda: [entry.name for entry in CATALOGUE if entry.kind not in _PUBLIC],
    "experiments": lambda: [*EXPERIMENTS, "all"],
    "benchmarks": lambda: list(BENCHMARKS),
}


def words(what: str) -> list[str]:
    """The words of one kind, in order."""
    return _WORDS[what]()
