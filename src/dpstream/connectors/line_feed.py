"""Lines of text from a file or a pipe, as they come."""

import gzip
import io
import select
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self, cast

from dpstream.connectors.location import readable
from dpstream.errors import SourceError

_BLOCK = 1 << 20
_LONGEST_LINE = 1 << 26
_MARK = b"\xef\xbb\xbf"


class LineFeed:
    """The lines of one file or of standard input, ends of lines included.

    Bytes that are not UTF-8 become lone surrogates, so that a damaged value spoils its own
    record and no other.

    Attributes:
        origin: the public name of the file, for messages.
        live: whether lines may still be on their way: standard input.
    """

    def __init__(self, path: Path | None, *, patience: float | None = None) -> None:
        """Open a file, or standard input.

        Args:
            path: the file; None for standard input. Names that end in .gz are decompressed.
            patience: seconds of silence on standard input after which ``silences`` yields; None
                to wait for ever.
        """
        self.origin = "standard input" if path is None else str(path)
        self._received = 0
        self._waiting: deque[str] = deque()
        self._tail = b""
        self._at_start = True
        self._patience = patience if path is None else None
        self.live = path is None
        with readable(self.origin):
            self._stream = _open(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.live:
            self._stream.close()

    @property
    def idle(self) -> bool:
        """Whether the next line would have to be waited for, with lines before it to pass on."""
        return self.live and not self._waiting

    def silences(self) -> Iterator[None]:
        """Wait for the next line; yields each time that patience runs out."""
        while self.idle and self.fill():
            if self.idle:
                yield

    def fill(self) -> bool:
        """Take in what is there, waiting for at least one byte; False at the end.

        With patience, it may return without a line.
        """
        with readable(self.origin):
            if self._patience is not None and not self._ready():
                return True
            block = self._stream.read1(_BLOCK)
        if self._at_start and block:
            block = block.removeprefix(_MARK)
            self._at_start = False
        if not block:
            if not self._tail:
                return False
            block, self._tail = self._tail, b""
            self._keep(block)
            return True
        cut = block.rfind(b"\n") + 1
        if cut:
            self._keep(self._tail + block[:cut])
            self._tail = block[cut:]
        else:
            self._tail += block
            if len(self._tail) > _LONGEST_LINE:
                raise SourceError(
                    f"line {self._received + 1} of {self.origin} is longer than "
                    f"{_LONGEST_LINE} bytes; it is not a record"
                )
        return True

    def _ready(self) -> bool:
        try:
            return bool(select.select([self._stream], [], [], self._patience)[0])
        except (OSError, ValueError):  # not something that can be polled
            return True

    def _keep(self, block: bytes) -> None:
        text = block.decode("utf-8", "surrogateescape")
        lines = text.split("\n")
        last = lines.pop()
        self._waiting.extend([line + "\n" for line in lines])
        self._received += len(lines)
        if last:
            self._waiting.append(last)

    def lines(self) -> Iterator[str]:
        """The lines, with their ends; to be called once."""
        take = self._waiting.popleft
        while True:
            while self._waiting:
                yield take()
            if not self.fill():
                return


def _open(path: Path | None) -> io.BufferedIOBase:
    if path is None:
        return cast("io.BufferedIOBase", sys.stdin.buffer)
    if path.suffix.casefold() == ".gz":
        return gzip.GzipFile(path)
    return io.BufferedReader(io.FileIO(path))
