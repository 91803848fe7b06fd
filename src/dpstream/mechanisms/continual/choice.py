"""Running-sum strategies by name, and which one to take when nothing is said."""

from collections.abc import Callable

from dpstream.errors import ConfigurationError
from dpstream.mechanisms.continual.blt import buffered_toeplitz
from dpstream.mechanisms.continual.honaker import HonakerTree
from dpstream.mechanisms.continual.hybrid import Hybrid
from dpstream.mechanisms.continual.strategy import Strategy
from dpstream.mechanisms.continual.tree import BinaryTree


def _blt(ticks: int) -> Strategy:
    return buffered_toeplitz(horizon=ticks)


_WITH_HORIZON: dict[str, Callable[[int], Strategy]] = {
    "blt": _blt,
    "honaker_tree": HonakerTree,
    "binary_tree": BinaryTree,
}
_WITHOUT_HORIZON: dict[str, Callable[[], Strategy]] = {"hybrid": Hybrid}

AUTO = "auto"
"""The least noise: BLT for a known horizon, else the chain of them."""


def prefix_strategy(name: str, horizon: int | None) -> Strategy:
    """The running-sum strategy of that name.

    Args:
        name: ``"auto"``, or a strategy's own name.
        horizon: the last tick, or None for a stream without end.

    Raises:
        ConfigurationError: if the name is not known, or the strategy needs a horizon.
    """
    if name == AUTO:
        name = "hybrid" if horizon is None else "blt"
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
