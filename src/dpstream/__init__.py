"""dpstream: differentially private models kept fresh on a stream of people's records.

Declare what of a record may count (``Domain``), what may be spent (``Budget``), whose records are
hidden (``Unit``, ``Neighbours``) and when to publish (``EveryRecords``, ``EveryInterval``,
``Thinning``); take a learner; open a ``Session`` on a store. The names below are the whole public
interface; each is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpstream.connectors.memory import MemorySource
    from dpstream.connectors.opening import open_source
    from dpstream.domain.column import Boolean, Categorical, Numeric
    from dpstream.domain.domain import Domain
    from dpstream.domain.target import IntervalTarget, LabelTarget
    from dpstream.engine.clock_schedule import EveryInterval
    from dpstream.engine.memory import MemoryStore
    from dpstream.engine.schedule import EveryRecords, Thinning
    from dpstream.engine.session import Session
    from dpstream.engine.stream import Stream
    from dpstream.errors import DpstreamError
    from dpstream.learners.incremental.priv_inc_reg1 import PrivIncReg1
    from dpstream.learners.sums.running_sum import RunningSum
    from dpstream.privacy.budget import Budget
    from dpstream.privacy.unit import Neighbours, Unit
    from dpstream.release import Release
    from dpstream.stores.release_log import ReleaseLog
    from dpstream.stores.sqlite import SqliteStore
    from dpstream.stores.verification import verify_store

__version__ = "0.1.0"

__all__ = [
    "Boolean",
    "Budget",
    "Categorical",
    "Domain",
    "DpstreamError",
    "EveryInterval",
    "EveryRecords",
    "IntervalTarget",
    "LabelTarget",
    "MemorySource",
    "MemoryStore",
    "Neighbours",
    "Numeric",
    "PrivIncReg1",
    "Release",
    "ReleaseLog",
    "RunningSum",
    "Session",
    "SqliteStore",
    "Stream",
    "Thinning",
    "Unit",
    "open_source",
    "verify_store",
]

_HOMES = {
    "dpstream.connectors.memory": ("MemorySource",),
    "dpstream.connectors.opening": ("open_source",),
    "dpstream.domain.column": ("Boolean", "Categorical", "Numeric"),
    "dpstream.domain.domain": ("Domain",),
    "dpstream.domain.target": ("IntervalTarget", "LabelTarget"),
    "dpstream.engine.clock_schedule": ("EveryInterval",),
    "dpstream.engine.memory": ("MemoryStore",),
    "dpstream.engine.schedule": ("EveryRecords", "Thinning"),
    "dpstream.engine.session": ("Session",),
    "dpstream.engine.stream": ("Stream",),
    "dpstream.errors": ("DpstreamError",),
    "dpstream.learners.incremental.priv_inc_reg1": ("PrivIncReg1",),
    "dpstream.learners.sums.running_sum": ("RunningSum",),
    "dpstream.privacy.budget": ("Budget",),
    "dpstream.privacy.unit": ("Neighbours", "Unit"),
    "dpstream.release": ("Release",),
    "dpstream.stores.release_log": ("ReleaseLog",),
    "dpstream.stores.sqlite": ("SqliteStore",),
    "dpstream.stores.verification": ("verify_store",),
}


def __getattr__(name: str) -> Any:
    # Loaded on first use: importing the package costs no more than importing a module.
    for module, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(module), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'dpstream' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted((*__all__, "__version__"))
