"""The newest model of another stream, read from the log of releases that it publishes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpstream.domain.domain import Domain
from dpstream.errors import SourceError
from dpstream.learners.window.source_model import SourceModel, read_model

_TAIL_BYTES = 1 << 18


class LoggedModels:
    """The models in a file of releases, one JSON line each; the file may grow meanwhile.

    Args:
        path: of the source stream's ``releases.jsonl``: part of the target's identity.
        domain: of both streams.
    """

    def __init__(self, path: Path, *, domain: Domain) -> None:
        self._path = path
        self._domain = domain

    @property
    def domain(self) -> Domain:
        """Of both."""
        return self._domain

    def describe(self) -> Mapping[str, Any]:
        """The file's name, as it was given."""
        return {"source": str(self._path)}

    def newest(self) -> SourceModel | None:
        """The last whole line's model; None if the file is missing, empty or not ready yet.

        Raises:
            SourceError: if the file cannot be read, or its last line holds no model.
        """
        try:
            line = self._last_line()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SourceError(f"{self._path} cannot be read ({error.strerror})") from None
        if not line:
            return None
        try:
            value = json.loads(line)["value"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise SourceError(
                f"{self._path} is no log of releases: its last line holds no value; give the "
                "releases.jsonl of the source stream"
            ) from None
        return read_model(value if isinstance(value, dict) else {}, self._domain)

    def _last_line(self) -> bytes:
        """The last line that ends; a line that is still being written does not count."""
        with self._path.open("rb") as file:
            size = file.seek(0, 2)
            length = _TAIL_BYTES
            while True:
                start = max(0, size - length)
                file.seek(start)
                lines = file.read(size - start).split(b"\n")
                if start == 0 or len(lines) > 2:
                    return lines[-2] if len(lines) > 1 else b""
                length *= 2
