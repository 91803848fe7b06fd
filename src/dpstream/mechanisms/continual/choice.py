"""Strategies by name, and which one to take when nothing is said."""

from collections.abc import Callable

from dpstream.errors import ConfigurationError
from dpstream.geometry.declaration import require_whole
from dpstream.mechanisms.continual.blt import buffered_toeplitz
from dpstream.mechanisms.continual.chain import endless_chain
from dpstream.mechanisms.continual.decayed import decayed_toeplitz
from dpstream.mechanisms.continual.expiring import ExpiringToeplitz, expiring_toeplitz
from dpstream.mechanisms.continual.honaker import HonakerTree
from dpstream.mechanisms.continual.hybrid import Hybrid
from dpstream.mechanisms.continual.sliding import sliding_toeplitz
from dpstream.mechanisms.continual.strategy import Strategy
from dpstream.mechanisms.continual.toeplitz import LONGEST_HORIZON, SquareRootToeplitz
from dpstream.mechanisms.continual.tree import BinaryTree
from dpstream.mechanisms.continual.window_tree import WindowTree

AUTO = "auto"
"""The least noise: BLT for a known horizon, else the chain of them."""

_WITH_HORIZON: dict[str, Callable[[int], Strategy]] = {
    "blt": lambda ticks: buffered_toeplitz(horizon=ticks),
    "square_root_toeplitz": lambda ticks: SquareRootToeplitz(horizon=ticks),
    "honaker_tree": HonakerTree,
    "binary_tree": BinaryTree,
}
_WITHOUT_HORIZON: dict[str, Callable[[], Strategy]] = {
    "chain": endless_chain,
    "hybrid": Hybrid,
}
_WINDOWED: dict[str, Callable[[int], Strategy]] = {
    "sliding_toeplitz": lambda window: sliding_toeplitz(window=window),
    "expiring_toeplitz": lambda window: expiring_toeplitz(window=window),
    "window_tree": WindowTree,
}


def prefix_strategy(name: str, horizon: int | None) -> Strategy:
    """The running-sum strategy of that name; each protects records for ever.

    Args:
        name: ``"auto"``, or a strategy's own name.
        horizon: the last tick, or None for a stream without end.

    Raises:
        ConfigurationError: if the name is not known, or the strategy needs a horizon.
    """
    if horizon is not None:
        require_whole("horizon", horizon)
    if name == AUTO:
        name = "chain" if horizon is None else "blt"
    if name in _WITHOUT_HORIZON:
        return _WITHOUT_HORIZON[name]()
    if name not in _WITH_HORIZON:
        known = ", ".join((AUTO, *_WITH_HORIZON, *_WITHOUT_HORIZON))
        raise ConfigurationError(f"strategy is {name!r}; known running sums: {known}")
    if horizon is None:
        raise ConfigurationError(
            f"strategy {name!r} needs a horizon; declare the number of ticks, or take one of "
            f"{', '.join(_WITHOUT_HORIZON)}"
        )
    return _WITH_HORIZON[name](horizon)


def sum_strategy(
    name: str, *, horizon: int | None, window: int | None, decay: float | None
) -> Strategy:
    """The strategy of a running, windowed or decayed sum.

    ``"auto"`` with a window is the sliding sum, which protects records for ever; the strategies
    that publish expired records exactly are taken only by their own names.

    Args:
        name: ``"auto"``, or a strategy's own name.
        horizon: the last tick, or None for a stream without end.
        window: ticks of a window, for windowed sums.
        decay: the factor by which each tick discounts the ones before it, for decayed sums.

    Raises:
        ConfigurationError: if name, window and decay do not go together.
    """
    if name in _WINDOWED and window is None:
        raise ConfigurationError(f"strategy {name!r} needs a window; give its length in ticks")
    if window is not None:
        require_whole("window", window)
        name = "sliding_toeplitz" if name == AUTO else name
        if name not in _WINDOWED:
            raise ConfigurationError(
                f"strategy {name!r} has no window; leave window out, or take one of "
                f"{', '.join(_WINDOWED)}"
            )
        return _WINDOWED[name](window)
    if name == "decayed_toeplitz" and decay is None:
        raise ConfigurationError("strategy 'decayed_toeplitz' needs decay, between 0 and 1")
    if decay is not None:
        if name not in (AUTO, "decayed_toeplitz"):
            raise ConfigurationError(
                f"strategy {name!r} does not decay; leave decay out, or take 'decayed_toeplitz'"
            )
        return decayed_toeplitz(decay=decay)
    return prefix_strategy(name, horizon)


def alternatives(chosen: Strategy, *, horizon: int | None) -> list[Strategy]:
    """The strategies that measure the same sum under the same promise, the chosen one included.

    For sums over a window or with decay that is the chosen one and, for expiring sums, the
    other way to expire.
    """
    if isinstance(chosen, WindowTree | ExpiringToeplitz):
        return [WindowTree(chosen.window), expiring_toeplitz(window=chosen.window)]
    if chosen.name not in (*_WITH_HORIZON, *_WITHOUT_HORIZON):
        return [chosen]
    found = {name: make() for name, make in _WITHOUT_HORIZON.items()}
    if horizon is not None:
        short = horizon <= LONGEST_HORIZON
        found |= {
            name: make(horizon)
            for name, make in _WITH_HORIZON.items()
            if short or name != "square_root_toeplitz"
        }
    return [*(s for name, s in found.items() if name != chosen.name), chosen]
