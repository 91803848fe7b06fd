"""Data in memory as a source: matrices, frames, mappings of columns, lists of mappings."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dpstream.connectors.location import require_chunk_rows, too_short
from dpstream.domain.batch import BLOCK_ROWS, RawChunk
from dpstream.errors import SchemaError


class MemorySource:
    """Records that are already in memory, in their order.

    A session that resumes asks for the records after those it has taken: hand it the whole
    stream again, with the new records behind.
    """

    def __init__(
        self,
        data: Any,
        targets: Any = None,
        *,
        name: str = "memory",
        chunk_rows: int = BLOCK_ROWS,
    ) -> None:
        """Take data as ``Domain.admit`` does.

        Args:
            data: a matrix, a data frame or table, a mapping of columns, or a list of mappings.
            targets: the targets, if they come apart.
            name: a public name, for messages.
            chunk_rows: at most this many records per chunk.

        Raises:
            SchemaError: if the parts have different lengths or no length at all.
        """
        require_chunk_rows(chunk_rows)
        self._data = data
        self._targets = targets
        self._name = name
        self._chunk_rows = chunk_rows
        self._length = _length(data)
        if targets is not None and _length(targets) != self._length:
            raise SchemaError(
                f"data has {self._length} records and targets {_length(targets)}; they must agree"
            )

    @property
    def name(self) -> str:
        """Its public name."""
        return self._name

    def chunks(self, offset: int) -> Iterator[RawChunk]:
        """The records from ``offset`` on; see ``engine.ports.Source``.

        Raises:
            SourceError: if it ends before ``offset``.
        """
        if offset > self._length:
            raise too_short(self._name)
        for start in range(offset, self._length, self._chunk_rows):
            stop = min(self._length, start + self._chunk_rows)
            yield RawChunk(
                data=_part(self._data, start, stop),
                targets=None if self._targets is None else _part(self._targets, start, stop),
                offset=start,
                length=stop - start,
                origin=self._name,
            )


def _length(data: Any) -> int:
    if isinstance(data, Mapping):
        lengths = {_length(column) for column in data.values()}
        if len(lengths) > 1:
            raise SchemaError("the columns have different lengths")
        return lengths.pop() if lengths else 0
    if isinstance(data, str | bytes) or not hasattr(data, "__len__"):
        raise SchemaError(
            f"records came as {type(data).__name__}; hand in a matrix, a data frame in memory, a "
            "mapping of columns or a list of mappings"
        )
    return len(data)


def _part(data: Any, start: int, stop: int) -> Any:
    if isinstance(data, Mapping):
        return {name: _part(column, start, stop) for name, column in data.items()}
    if isinstance(data, np.ndarray | list | tuple):
        return data[start:stop]
    import narwhals as nw

    return nw.from_native(data, eager_only=True, allow_series=True)[start:stop].to_native()
