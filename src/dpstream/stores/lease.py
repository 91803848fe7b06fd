"""Who may write: a lease with a fencing token.

Each acquisition raises the token. Every transaction checks, inside itself, that the token is
still its own: a writer that was paused while another took over is refused at its next commit,
however sure it is of itself. The lease's expiry and the look at the holder's process decide
only how soon a take-over is polite; safety never rests on clocks.
"""

import json
import os
import platform
import secrets
import sqlite3
from dataclasses import asdict, dataclass
from pathlib import Path

from dpstream.errors import StoreLocked
from dpstream.stores.stored_value import StoredValues

LEASE_SECONDS = 60.0
"""A writer that did not say it is alive for so long may be superseded."""

_alive_here: set[str] = set()


@dataclass(frozen=True)
class Holder:
    """One writer's identity.

    Attributes:
        host: the machine, this boot of it, and the process namespace.
        process: the process number.
        started: when that process started, in the kernel's units: numbers are used again.
        nonce: tells apart the writers of one process.
    """

    host: str
    process: int
    started: str
    nonce: str

    @classmethod
    def this(cls) -> "Holder":
        """A new writer in this process."""
        nonce = secrets.token_hex(8)
        _alive_here.add(nonce)
        return cls(_host(), os.getpid(), _started(os.getpid()), nonce)

    def retire(self) -> None:
        """This writer of this process writes no more."""
        _alive_here.discard(self.nonce)

    def is_elsewhere(self) -> bool:
        """Whether this process is a fork of the writer's: it holds a copy of the token."""
        return self.process != os.getpid()

    @classmethod
    def from_text(cls, text: str) -> "Holder":
        """Read it back; what cannot be read is a writer nobody knows, and not dead for certain."""
        try:
            content = json.loads(text)
            return cls(
                host=str(content["host"]),
                process=int(content["process"]),
                started=str(content["started"]),
                nonce=str(content["nonce"]),
            )
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return cls(host="unknown", process=0, started="", nonce="")

    def to_text(self) -> str:
        """As one line."""
        return json.dumps(asdict(self))

    def is_dead(self) -> bool:
        """True only if it certainly runs no more; False if it runs or cannot be seen."""
        if self.host != _host():
            return False
        if self.process == os.getpid() and self.started == _started(os.getpid()):
            return self.nonce not in _alive_here
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        return self.started != _started(self.process)


def take_lease(
    connection: sqlite3.Connection,
    holder: Holder,
    *,
    reading: StoredValues,
    now: float,
    seconds: float,
) -> int:
    """Make a writer the only one, within a transaction of its store; its fencing token.

    Raises:
        StoreLocked: if another writer holds the lease, and it has not run out.
    """
    row = connection.execute("SELECT token, holder, expires FROM lease").fetchone()
    if row is None or not isinstance(row[0], int) or not isinstance(row[2], int | float):
        raise reading.damaged()
    token, held_by, expires = row
    writer = None if held_by is None else Holder.from_text(held_by)
    if writer is not None and expires > now and not writer.is_dead():
        raise StoreLocked(
            f"{reading.store} is being written by process {writer.process} on "
            f"{writer.host.partition(' ')[0]}; stop it first, or wait "
            f"{max(1, round(expires - now))} s if it is gone"
        )
    connection.execute(
        "UPDATE lease SET token = ?, holder = ?, expires = ?",
        (token + 1, holder.to_text(), now + seconds),
    )
    return token + 1


def _host() -> str:
    return " ".join((platform.node(), _read("/proc/sys/kernel/random/boot_id"), _namespace()))


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _started(process: int) -> str:
    # Field 22 of stat; the second field is in parentheses and may hold spaces.
    fields = _read(f"/proc/{process}/stat").rpartition(")")[2].split()
    if fields[:1] == ["Z"]:
        return "ended"
    return fields[19] if len(fields) > 19 else ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
