"""The published log: one JSON line per release, append-only, in a file anyone may read.

The store's own log is the truth and this file its copy. Every append happens under the file's
lock and only if the file does not hold that tick yet, so a release is written once even when a
superseded writer wakes up in between. A crash can leave half a last line; opening cuts it off
and the session sends the line again. Lines are not forced to the disk one by one: what a power
cut takes from this file, the store still has.
"""

import fcntl
import json
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from dpstream.engine.ports import ReleaseRow
from dpstream.errors import StoreError, StoreMismatch, require_path

_TAIL_BYTES = 1 << 16


class ReleaseLog:
    """Appends releases to a file, each exactly once.

    Args:
        path: the file, made if missing.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = require_path(path, "path", "name a file, such as 'stream.db'")
        self._file: int | None = None
        self._size = -1
        self._last = 0

    @property
    def name(self) -> str:
        """Its path."""
        return str(self._path)

    def last_tick(self, log: Callable[[int], bytes | None]) -> int:
        """The last tick it holds; cuts off what a crash left half-written.

        A file that is ahead of the store belongs to a store that was restored from an older
        copy. That is safe as long as the same records are replayed, for then the same lines
        come out; ``publish`` refuses the first that differs.

        Raises:
            StoreMismatch: if the file's last line contradicts the store's log.
        """
        with self._locked() as file:
            line = self._look(file)
            known = log(self._last) if self._last else line
            if known is not None and known != line:
                raise self._contradiction(self._last)
        return self._last

    def publish(self, row: ReleaseRow) -> None:
        """Append one release; if the file holds that tick already, it must be the same.

        Raises:
            StoreMismatch: if the file holds another release at that tick.
            StoreError: if the file cannot be written; the store still has the release and
                the next opening sends it again.
        """
        with self._locked() as file:
            if os.fstat(file).st_size != self._size:
                self._look(file)
            if row.tick > self._last:
                self._append(file, row)
            elif row.line not in self._lines_from(file, row.tick):
                raise self._contradiction(row.tick)

    def close(self) -> None:
        """Give up the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _append(self, file: int, row: ReleaseRow) -> None:
        rest = memoryview(row.line + b"\n")
        size = os.fstat(file).st_size
        self._size = -1
        try:
            while rest:
                rest = rest[os.write(file, rest) :]
        except OSError:
            os.ftruncate(file, size)
            raise
        self._size, self._last = os.fstat(file).st_size, row.tick

    def _look(self, file: int) -> bytes | None:
        """The last whole line, after cutting off anything that follows it."""
        for end, line in _lines_backwards(file):
            tick = _tick_of(line)
            if tick is not None:
                os.ftruncate(file, end)
                self._size, self._last = end, tick
                return line
        first = os.pread(file, 1, 0)
        if first not in (b"", b"{", b"\0") or next(_lines_backwards(file), None) is not None:
            raise StoreMismatch(
                f"{self.name} exists and is no log of releases; move it away, or choose another "
                "place"
            )
        os.ftruncate(file, 0)
        self._size, self._last = 0, 0
        return None

    def _lines_from(self, file: int, tick: int) -> list[bytes]:
        lines: list[bytes] = []
        for _, line in _lines_backwards(file):
            lines.append(line)
            if (_tick_of(line) or 0) <= tick:
                break
        return lines

    def _contradiction(self, tick: int) -> StoreMismatch:
        return StoreMismatch(
            f"{self.name} holds another release at tick {tick} than the store: the store was "
            "restored from an older copy, or the file belongs to another stream; continue with "
            "the newest store, or start a new stream in another place"
        )

    @contextmanager
    def _locked(self) -> Generator[int, None, None]:
        try:
            if self._file is None:
                flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
                self._file = os.open(self._path, flags, 0o644)
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                yield self._file
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        except OSError as error:
            raise StoreError(
                f"{self.name} cannot be written ({error.strerror}); the store keeps every "
                "release and sends it again when the stream is resumed"
            ) from error


def _lines_backwards(file: int) -> Iterator[tuple[int, bytes]]:
    """Whole lines from the last to the first, each with the offset just behind its end."""
    position = os.fstat(file).st_size
    tail, end = b"", position
    while position:
        step = min(max(_TAIL_BYTES, len(tail)), position)
        position -= step
        tail = os.pread(file, step, position) + tail
        # Everything behind the last line's end is half a line.
        whole = tail.rfind(b"\n") + 1
        tail, end = tail[:whole], position + whole
        while (before := tail.rfind(b"\n", 0, -1)) >= 0 or (tail and position == 0):
            yield end, tail[before + 1 : -1]
            tail, end = tail[: before + 1], position + before + 1


def _tick_of(line: bytes) -> int | None:
    try:
        tick = json.loads(line)["tick"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return tick if type(tick) is int and tick > 0 else None


def read_lines(path: Path) -> Iterator[bytes]:
    """The whole lines of a published log, first to last; half a last line is left out.

    Raises:
        StoreError: if the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield line[:-1]
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror})") from error
