"""What a chunk of a file names: for writing configurations, not for streams."""

from collections.abc import Iterable, Mapping
from typing import Any

from dpstream.domain.batch import RawChunk


def column_names(chunk: RawChunk) -> list[str]:
    """The columns' names, in order; no value is looked at."""
    if isinstance(chunk.data, Mapping):
        return [str(name) for name in chunk.data]
    if isinstance(chunk.data, list | tuple):
        return list(dict.fromkeys(str(name) for row in chunk.data for name in row))
    return list(_frame(chunk.data).columns)


def column_values(chunk: RawChunk, name: str) -> Iterable[Any]:
    """One column's values; None where a row lacks it."""
    if isinstance(chunk.data, Mapping):
        return chunk.data[name]
    if isinstance(chunk.data, list | tuple):
        return [row.get(name) for row in chunk.data]
    return _frame(chunk.data)[name].to_list()


def _frame(data: Any) -> Any:
    import narwhals as nw

    return nw.from_native(data, eager_only=True)
