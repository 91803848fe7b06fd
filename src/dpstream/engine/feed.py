"""Reading a source, with its failures in our words."""

from collections.abc import Iterator

from dpstream.domain.batch import RawChunk
from dpstream.engine.ports import Source
from dpstream.errors import SourceError


def feed(source: Source, offset: int) -> Iterator[RawChunk]:
    """The source's chunks from a record on.

    Raises:
        SourceError: if the source cannot be read.
    """
    chunks = source.chunks(offset)
    while True:
        try:
            chunk = next(chunks, None)
        except OSError as error:
            raise SourceError(
                f"{source.name} cannot be read any further ({error.strerror}); what was read is "
                "safe: resume when it is back"
            ) from error
        if chunk is None:
            return
        yield chunk
