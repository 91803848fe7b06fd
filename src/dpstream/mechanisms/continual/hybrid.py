"""A tree for ever: the hybrid mechanism of paper 000, note 13, with Honaker's estimate.

Epochs are ``{1}, (1, 2], (2, 4], (4, 8], ...``: each is one dyadic node, measured with a share
``split`` of the budget, over a tree of smaller nodes that takes the rest. A record lies in one
epoch and pays once, so the guarantee is constant over an infinite stream; no union over epochs
is taken. The released sum adds the epochs that are over and the open epoch's cover.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from scipy.optimize import minimize_scalar

from dpstream.errors import ConfigurationError
from dpstream.mechanisms.continual.dyadic import DyadicStrategy
from dpstream.mechanisms.continual.honaker import bottom_up_share, bottom_up_variance
from dpstream.mechanisms.continual.strategy import Participation

DEFAULT_SPLIT = 0.225
"""Within 0.1 % of the least root-mean-square error from a thousand to ten million ticks."""


def epoch_of(level: int, index: int) -> int | None:
    """The epoch that holds a node; None if the node joins several epochs.

    Epoch 0 is the first tick, and epoch ``e`` the ticks ``(2^(e-1), 2^e]``.
    """
    if index == 1:
        return 0 if level == 0 else None
    return level + (index - 1).bit_length()


@dataclass(frozen=True)
class Hybrid(DyadicStrategy):
    """A tree in every epoch and one total per epoch; no horizon, constant epsilon.

    Every completed node is measured and estimates are Honaker's. Weights are such that one
    record's shift is at most 1 in every epoch: ``split / 1`` from its total and
    ``(1 - split) / L`` from each of the ``L`` levels below. The epochs of one tick have nothing
    below and a weight of 1.

    Attributes:
        horizon: None: it runs for ever.
        split: the epoch total's share of the squared shift, in (0, 1).
    """

    horizon: None = field(default=None, init=False)
    split: float = DEFAULT_SPLIT

    def __post_init__(self) -> None:
        if not 0.0 < self.split < 1.0:
            raise ConfigurationError(
                f"hybrid split is {self.split}; the epoch total's share must lie between 0 and 1"
            )

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return "hybrid"

    def sensitivity(self, participation: Participation, *, order: int) -> float:
        """The largest shift of one unit.

        Within an epoch one record's nodes have ``sum 1/weight^2 = 1``, and a unit's ``cap``
        records shift every node by at most ``cap``: their shift is at most ``cap`` in one
        epoch, and less if they are spread over several (squares add, over disjoint nodes).
        Attained by ``cap`` records in one tick, and in the limit of late epochs by consecutive
        ones.

        Raises:
            ConfigurationError: for ``order=1``: late epochs have many small shifts, whose sum
                has no bound.
        """
        _only_gaussian(order)
        return float(participation.cap)

    def rounding_norm(self, participation: Participation, *, order: int) -> float:
        """Each record's nodes have ``sum 1/weight^2 = 1``, and the records' nodes at worst add."""
        _only_gaussian(order)
        return math.sqrt(participation.cap)

    def code_bound(self) -> float:
        """Infinite: totals grow for ever."""
        return math.inf

    def memory(self, tick: int) -> int:
        """One exact vector per node of the open epoch's cover."""
        return max(tick.bit_count() - (tick > 1), 0)

    def weight(self, level: int, index: int) -> float:
        """The epoch's weights; infinite for nodes that join epochs: they are never measured."""
        epoch = epoch_of(level, index)
        if epoch is None:
            return math.inf
        below = epoch - 1
        if below <= 0:
            return 1.0
        if level == below:
            return math.sqrt(1.0 / self.split)
        return math.sqrt(below / (1.0 - self.split))

    def share(self, level: int, index: int) -> float:
        """Inverse-variance share of the node's own measurement; 0 for nodes that join epochs."""
        weights = self._weights(level, index)
        return 0.0 if weights is None else bottom_up_share(level, *weights)

    def node_variance(self, level: int, index: int) -> float:
        """Variance of the best estimate from the node's subtree within its epoch."""
        weights = self._weights(level, index)
        if weights is None:
            return math.fsum(
                self.node_variance(*place)
                for place in [(0, 1), *((epoch - 1, 2) for epoch in range(1, level + 1))]
            )
        return bottom_up_variance(level, *weights)

    def _weights(self, level: int, index: int) -> tuple[float, float] | None:
        own = self.weight(level, index)
        if math.isinf(own):
            return None
        leaf = (index - 1 << level) + 1
        return self.weight(0, leaf), own


def _only_gaussian(order: int) -> None:
    if order != 2:
        raise ConfigurationError(
            f"the hybrid strategy has no finite sensitivity of order {order}; use Gaussian noise, "
            "or a binary tree with a horizon"
        )


def best_split(ticks: int, *, objective: str = "rms") -> float:
    """The split with the least error over ``1..ticks``; public, before any data.

    Args:
        ticks: the ticks over which the error is counted.
        objective: ``"rms"`` or ``"max"`` of the released sums' standard deviation.
    """
    measure = _OBJECTIVES.get(objective)
    if measure is None:
        raise ConfigurationError(
            f"hybrid objective is {objective!r}; it must be one of {sorted(_OBJECTIVES)}"
        )
    if ticks < 1:
        raise ConfigurationError(f"the split is optimised over {ticks} ticks; name at least 1")
    found = minimize_scalar(
        lambda split: measure(Hybrid(float(split)), ticks),
        bounds=(1e-3, 1 - 1e-3),
        method="bounded",
        options={"xatol": 1e-6},
    )
    return float(found.x)


def _epochs(strategy: Hybrid, ticks: int) -> Iterator[tuple[float, int, list[float]]]:
    """Of every epoch: variance of the epochs before it, ticks used, variances by level."""
    before = strategy.node_variance(0, 1)
    epoch = 1
    while 1 << (epoch - 1) < ticks:
        size = 1 << (epoch - 1)
        used = min(size, ticks - size)
        # The node at the epoch's left end, on every level; the total's is the last.
        variances = [strategy.node_variance(level, (size >> level) + 1) for level in range(epoch)]
        yield before, used, variances
        before += variances[-1]
        epoch += 1


def mean_variance(strategy: Hybrid, ticks: int) -> float:
    """Mean of ``strategy.variance`` over ``1..ticks``, in ``O(log^2 ticks)``."""
    total = strategy.node_variance(0, 1)
    for before, used, variances in _epochs(strategy, ticks):
        total += before * used
        for level, variance in enumerate(variances):
            period = 1 << (level + 1)
            full, rest = divmod(used + 1, period)
            total += variance * (full * (period >> 1) + max(rest - (period >> 1), 0))
    return total / ticks


def max_variance(strategy: Hybrid, ticks: int) -> float:
    """Largest ``strategy.variance`` over ``1..ticks``, in ``O(log^2 ticks)``."""
    worst = strategy.node_variance(0, 1)
    for before, used, variances in _epochs(strategy, ticks):
        # Positions up to ``used``: itself, or one set bit cleared and all lower bits set.
        positions = [used]
        positions += [
            (used >> bit << bit) - 1 for bit in range(used.bit_length()) if used >> bit & 1
        ]
        for position in positions:
            held = math.fsum(
                variance for level, variance in enumerate(variances) if position >> level & 1
            )
            worst = max(worst, before + held)
    return worst


_OBJECTIVES = {"rms": mean_variance, "max": max_variance}
