"""Everything dpstream raises on purpose.

DpstreamError
├── ConfigurationError      a declaration is wrong; nothing ran, nothing was charged
├── SchemaError             a batch does not have the declared columns
│   └── ColumnAbsent        a declared column is not there at all
├── SourceError             a source cannot be read
├── BudgetExceeded          the ledger refuses a charge
├── HorizonReached          the stream is longer than its mechanism was calibrated for
├── NotPrivate              the request is known not to keep its promise
├── BenchmarkRegressed      a figure is worse than this machine's past
├── CertificateError        a solver did not reach the accuracy its privacy rests on
├── ModelFileError          a saved model cannot be read
└── StoreError              the store cannot be used
    ├── StoreLocked         another writer holds the stream
    ├── StoreMismatch       the store belongs to another configuration or version
    │   └── StreamChanged   the store's stream was declared in another way
    └── StoreCorrupt        the store's contents do not verify

Messages name the thing, the value received if it is public, the condition and the remedy.
They never contain a record or anything computed from one.
"""

import os
from pathlib import Path
from typing import cast


def require_kind(
    value: object, kind: type | tuple[type, ...], name: str, remedy: str, *, truth: bool = False
) -> None:
    """Refuse a value of another type; its content is not shown, for it may be a record's.

    Args:
        value: what was handed in.
        kind: what it must be an instance of.
        name: what it is called.
        remedy: what to hand in.
        truth: whether True and False, which Python takes for numbers, are welcome.

    Raises:
        ConfigurationError: if it is of another type.
    """
    if isinstance(value, kind) and (truth or not isinstance(value, bool)):
        return
    told = type(value).__name__
    if isinstance(value, type):
        told = f"the class {value.__name__} itself"
    raise ConfigurationError(f"{name} came as {told}; {remedy}")


def require_able(value: object, method: str, name: str, remedy: str) -> None:
    """Refuse a part that lacks what every part of its kind can do, or the class of one.

    Args:
        value: what was handed in.
        method: what it must be able to do.
        name: what it is called.
        remedy: what to hand in.

    Raises:
        ConfigurationError: if it cannot.
    """
    if isinstance(value, type) or not hasattr(value, method):
        require_kind(value, (), name, remedy)


def require_path(path: object, name: str, remedy: str) -> Path:
    """A path that was handed in.

    Raises:
        ConfigurationError: if it is none.
    """
    if path == "":
        raise ConfigurationError(f"{name} came as an empty text; {remedy}")
    require_kind(path, (str, os.PathLike), name, remedy)
    return Path(cast("str", path))


class DpstreamError(Exception):
    """Root of all errors raised on purpose; the command line prints it as one line.

    Its message names the thing, the value if that is public, the condition and the remedy, and
    shows nothing of any record.
    """


class ConfigurationError(DpstreamError, ValueError):
    """A declaration is wrong: found before anything ran or was charged."""


class SchemaError(DpstreamError, ValueError):
    """A batch does not have the declared columns or types."""


class ColumnAbsent(SchemaError):
    """A declared column is not among a batch's columns."""


class SourceError(DpstreamError):
    """A source cannot be opened or read."""


class BudgetExceeded(DpstreamError):
    """The ledger refuses a charge: it would exceed the declared budget."""


class HorizonReached(DpstreamError):
    """The stream has used every tick its mechanism was calibrated for."""


class NotPrivate(DpstreamError, ValueError):
    """The request is known not to deliver the guarantee it claims."""


class BenchmarkRegressed(DpstreamError):
    """A benchmark's figure is worse than earlier runs on the same machine allow."""


class CertificateError(DpstreamError):
    """A solver did not reach the accuracy that its privacy rests on; nothing was released."""


class ModelFileError(DpstreamError, ValueError):
    """A saved model cannot be read: absent, damaged, altered, or of another version."""


class StoreError(DpstreamError):
    """The store cannot be used."""


class StoreLocked(StoreError):
    """Another process holds the writer's lease of this stream."""


class StoreMismatch(StoreError):
    """The store was made by another configuration or a newer version."""


class StreamChanged(StoreMismatch):
    """The store holds a stream that was declared in another way."""


class StoreCorrupt(StoreError):
    """The store's contents do not verify."""
