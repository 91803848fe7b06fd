"""Errors as one clear line and an exit code."""

import sys
import traceback
from typing import NoReturn

from dpstream.errors import ConfigurationError, DpstreamError, NotPrivate, StreamChanged

FAILURE = 1
USAGE = 2


def fail(error: Exception) -> NoReturn:
    """Print one line for ``error`` and exit: 2 for wrong usage, 1 for a failure."""
    if isinstance(error, ConfigurationError | NotPrivate | StreamChanged):
        _say(str(error))
        sys.exit(USAGE)
    if isinstance(error, DpstreamError):
        _say(str(error))
        sys.exit(FAILURE)
    message = getattr(error, "format_message", None)
    if callable(message):  # wrong usage, as click reports it
        text = str(message())
        if text:
            _say(f"{text} (see dpstream --help)")
        sys.exit(int(getattr(error, "exit_code", USAGE)))
    # Unexpected: the place is shown, the message is not, for it may hold a record.
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].name} in {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}"
    _say(f"internal error ({type(error).__name__} at {place}); please report it")
    sys.exit(FAILURE)


def _say(text: str) -> None:
    sys.stderr.write(f"dpstream: {' '.join(text.split())}\n")
