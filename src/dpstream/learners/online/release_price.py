"""How a perturbed learner's budget is divided among its releases: public prices.

Release j may spend the squared shift over noise ``price(j) * mu^2``; all prices sum to at most 1.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

from dpstream.errors import ConfigurationError
from dpstream.geometry.declaration import require_whole

Schedule = Literal["uniform", "optimal", "endless"]


@dataclass(frozen=True, kw_only=True)
class ReleasePrice:
    """Shares of the budget by the number of a release.

    Guaranteed: the sum over all releases, for ever, is at most 1.

    Attributes:
        schedule: ``"uniform"`` gives every release the same; ``"optimal"``, proportional to
            ``j^(-2/3)``, has the least total noise for sensitivities falling as ``1/j``;
            ``"endless"``, proportional to ``1 / ((j + t_0) ln^2(j + t_0))``, needs no horizon.
        releases: how many there may be; None for no end, with ``"endless"`` alone.
        head_start: t_0: a larger one makes early releases noisier and later ones quieter.
    """

    schedule: Schedule
    releases: int | None
    head_start: int = 100

    def __post_init__(self) -> None:
        if str(self.schedule) == "doubling":
            raise ConfigurationError(
                "price schedule 'doubling' (paper 004, Algorithm 7) has no bound: epsilon grows "
                "with the stream, from 2.45 at 1e3 releases to 3.52 at 1e7 for a parameter of 1; "
                "dpstream reproduce online shows it beside 'endless': take that"
            )
        if self.schedule not in get_args(Schedule):
            raise ConfigurationError(
                f"price schedule is {self.schedule!r}; it must be one of "
                f"{', '.join(get_args(Schedule))}"
            )
        if (self.releases is None) != (self.schedule == "endless"):
            raise ConfigurationError(
                f"price schedule {self.schedule!r} with {self.releases} releases: a known number "
                "goes with 'uniform' or 'optimal', an unknown one (None) with 'endless'"
            )
        if self.releases is not None:
            require_whole("releases", self.releases)
        require_whole("head_start", self.head_start)

    @cached_property
    def _total(self) -> float:
        if self.schedule == "endless":
            return _series(self.head_start + 1)
        assert self.releases is not None
        if self.schedule == "uniform":
            return float(self.releases)
        return _power_sum(self.releases)

    def price(self, release: int) -> float:
        """The share of release j, from 1.

        Raises:
            ConfigurationError: past the last release.
        """
        if release < 1 or (self.releases is not None and release > self.releases):
            raise ConfigurationError(
                f"release {release} has no price; there are {self.releases} releases from 1"
            )
        if self.schedule == "uniform":
            weight = 1.0
        elif self.schedule == "optimal":
            weight = release ** (-2.0 / 3.0)
        else:
            place = release + self.head_start
            weight = 1.0 / (place * math.log(place) ** 2)
        return weight / self._total


_EXACT_TERMS = 100_000
_UPWARD = 1.0 + 2.0**-30


def _power_sum(last: int) -> float:
    """An upper bound of ``sum j^(-2/3)`` for j from 1 to ``last``."""
    head = math.fsum(j ** (-2.0 / 3.0) for j in range(1, min(last, _EXACT_TERMS) + 1))
    # A decreasing function's sum is at most its integral from one place earlier.
    tail = 3.0 * (last ** (1 / 3) - _EXACT_TERMS ** (1 / 3)) if last > _EXACT_TERMS else 0.0
    return (head + tail) * _UPWARD


def _series(first: int) -> float:
    """An upper bound of ``sum 1 / (k ln^2 k)`` for k from ``first`` on, at least 2."""
    last = first + _EXACT_TERMS
    head = math.fsum(1.0 / (k * math.log(k) ** 2) for k in range(first, last))
    # 1 / (k ln^2 k) is convex: each term is at most its integral over a unit around it.
    return (head + 1.0 / math.log(last - 0.5)) * _UPWARD
