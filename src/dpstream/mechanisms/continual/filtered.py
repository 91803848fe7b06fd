"""What all strategies over one buffered filter have in common."""

from dataclasses import dataclass
from functools import cached_property

from dpstream.mechanisms.continual.recurrence import recurrence_node_error
from dpstream.mechanisms.continual.response import BufferedFilter
from dpstream.mechanisms.continual.strategy import Promise


@dataclass(frozen=True, kw_only=True)
class FilteredStrategy:
    """Part of a strategy: the filter whose buffers its encoder runs.

    Attributes:
        rates: what share of itself each buffer forgets per tick.
        scales: what each buffer contributes to a node.
    """

    rates: tuple[float, ...]
    scales: tuple[float, ...]

    @cached_property
    def filter(self) -> BufferedFilter:
        """The filter of these rates and scales, checked."""
        return BufferedFilter(self.rates, self.scales)

    @property
    def promise(self) -> Promise:
        """Every record is protected for ever."""
        return Promise.FOREVER

    def node_error(
        self, *, increment_bound: float, increment_exponent: int, node_exponent: int
    ) -> float:
        """Error of a node's coordinate: below one lattice step, whatever the increments."""
        del increment_bound, increment_exponent
        return recurrence_node_error(len(self.rates), node_exponent)
