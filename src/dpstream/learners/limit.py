"""Public limits of a stream: how many records a tick may hold, and how many ticks there may be.

The bound on a tick's records sizes the integers of a continual sum, not its noise.
"""

from collections.abc import Callable
from typing import TypeVar

from dpstream.errors import ConfigurationError, HorizonReached

Calibrated = TypeVar("Calibrated")

TICK_BOUNDS = tuple(1 << bits for bits in range(20, 9, -2))
"""Default bounds on the records of a tick, largest first."""


def check_tick_records(tick_records: int | None) -> None:
    """Refuse a declared bound that no tick could keep.

    Raises:
        ConfigurationError: if it is below 1.
    """
    if tick_records is not None and tick_records < 1:
        raise ConfigurationError(f"tick_records is {tick_records}; it must be at least 1")


def largest_that_fits(
    calibrate: Callable[[int], Calibrated], tick_records: int | None
) -> Calibrated:
    """What is calibrated for the declared bound, or for the largest default one that fits.

    Args:
        calibrate: for so many records in a tick; refuses what its integers cannot hold.
        tick_records: the declared bound; None takes the largest default one.

    Raises:
        ConfigurationError: if nothing fits; it names ``tick_records`` if a smaller one would.
    """
    first: ConfigurationError | None = None
    for records in TICK_BOUNDS if tick_records is None else (tick_records,):
        try:
            return calibrate(records)
        except ConfigurationError as refusal:
            first = first or refusal
    assert first is not None
    for records in TICK_BOUNDS:
        if tick_records is None or records >= tick_records:
            continue
        try:
            calibrate(records)
        except ConfigurationError:
            continue
        raise ConfigurationError(
            f"tick_records is {tick_records}, for which this sum has no lattice; declare at most "
            f"{records}, and close ticks often enough for it ({first})"
        ) from first
    raise first


def require_room(records: int, bound: int) -> None:
    """Refuse an open tick with more records than its public bound.

    Raises:
        ConfigurationError: if there are more.
    """
    if records > bound:
        raise ConfigurationError(
            f"a tick holds more than its public bound of {bound} records; declare a larger "
            "tick_records, or close ticks more often"
        )


def require_within_horizon(name: str, *, closed: int, horizon: int | None) -> None:
    """Refuse to close another tick past the declared horizon.

    Raises:
        HorizonReached: if ``closed`` ticks are all there may be.
    """
    if horizon is not None and closed >= horizon:
        raise HorizonReached(
            f"{name} has closed the {horizon} ticks of its horizon; declare a longer one, or none, "
            "before the stream starts"
        )
