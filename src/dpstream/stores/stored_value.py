"""Values of a store's rows, as what they must be: anything else says that the store is damaged."""

import json
from dataclasses import dataclass
from typing import Any, cast

from dpstream.errors import StoreCorrupt


@dataclass(frozen=True)
class StoredValues:
    """Reads what the rows of one store hold.

    Attributes:
        store: its name, for errors.
    """

    store: str

    def damaged(self) -> StoreCorrupt:
        """The error of a row that no store writes."""
        return StoreCorrupt(f"{self.store}: its contents are damaged; restore it from a copy")

    def content(self, value: object) -> bytes:
        """Bytes."""
        if not isinstance(value, bytes):
            raise self.damaged()
        return value

    def integer(self, value: object) -> int:
        """A whole number."""
        if not isinstance(value, int):
            raise self.damaged()
        return value

    def json(self, text: object) -> Any:
        """What a text says in JSON."""
        if not isinstance(text, str | bytes):
            raise self.damaged()
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise self.damaged() from None

    def mapping(self, text: object) -> dict[str, Any]:
        """What a text says in JSON, if that is one object."""
        found = self.json(text)
        if not isinstance(found, dict):
            raise self.damaged()
        return cast("dict[str, Any]", found)
