"""An iterator whose next item can be looked at before it is taken."""

from collections.abc import Iterator
from typing import Generic, TypeVar

from dpstream.errors import DpstreamError

Item = TypeVar("Item")


class Lookahead(Generic[Item]):
    """Looks one item ahead; what the iterator raises is raised when its place comes.

    Args:
        items: the iterator.
    """

    def __init__(self, items: Iterator[Item]) -> None:
        self._items = items
        self._next: Item | None = None
        self._error: DpstreamError | None = None

    def peek(self, *, safe: bool = False) -> Item | None:
        """The next item, or None at the end.

        Args:
            safe: give None in place of an error; the next look raises it.
        """
        if self._next is None and self._error is None:
            try:
                self._next = next(self._items, None)
            except DpstreamError as error:
                self._error = error
        if self._error is not None and not safe:
            raise self._error
        return self._next

    def drop(self) -> None:
        """Take the item that was looked at."""
        self._next = None
