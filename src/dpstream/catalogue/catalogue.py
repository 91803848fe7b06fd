"""The one list of everything: ``dpstream mechanisms``, laws, audits and documents read it."""

from dpstream.catalogue.entry import Entry, Kind
from dpstream.catalogue.geometry import LOSSES, SETS
from dpstream.catalogue.learner import LEARNERS
from dpstream.catalogue.mechanism import MECHANISMS
from dpstream.catalogue.solver import SOLVERS
from dpstream.catalogue.strategy import STRATEGIES
from dpstream.errors import ConfigurationError

CATALOGUE: tuple[Entry, ...] = (*MECHANISMS, *STRATEGIES, *SOLVERS, *LEARNERS, *SETS, *LOSSES)


def entries(kind: Kind) -> tuple[Entry, ...]:
    """The entries of one kind."""
    return tuple(entry for entry in CATALOGUE if entry.kind is kind)


def entry(name: str) -> Entry:
    """The entry of that name.

    Raises:
        ConfigurationError: if there is none.
    """
    for found in CATALOGUE:
        if found.name == name:
            return found
    raise ConfigurationError(f"the catalogue has no {name!r}; see: dpstream mechanisms")
