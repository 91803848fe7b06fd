"""Public bounds on a record, and on scores of records against a set of parameters."""

import math
from dataclasses import dataclass

from dpstream.errors import ConfigurationError
from dpstream.geometry.convex_set import ConvexSet


@dataclass(frozen=True, kw_only=True)
class RecordBound:
    """What every admitted record satisfies, and whose null record is all zero.

    Attributes:
        feature_l2: bound on ``|x|_2``; infinite if only the largest entry is bounded.
        feature_max: bound on the largest ``|x_i|``; ``feature_l2`` if not given.
        target_lower: least target.
        target_upper: largest target.
    """

    feature_l2: float = math.inf
    feature_max: float = math.inf
    target_lower: float = -1.0
    target_upper: float = 1.0

    def __post_init__(self) -> None:
        for name in ("feature_l2", "feature_max"):
            if not getattr(self, name) > 0:
                raise ConfigurationError(f"{name} is {getattr(self, name)}; it must be positive")
        if not self.target_lower <= self.target_upper:
            raise ConfigurationError(
                f"target_lower {self.target_lower} is above target_upper {self.target_upper}"
            )
        if math.isinf(self.feature_l2) and math.isinf(self.feature_max):
            raise ConfigurationError(
                "neither feature_l2 nor feature_max is given; bound the features in one of them"
            )
        object.__setattr__(self, "feature_max", min(self.feature_max, self.feature_l2))

    @property
    def target_size(self) -> float:
        """Largest ``|y|``."""
        return max(abs(self.target_lower), abs(self.target_upper))

    def length(self, convex_set: ConvexSet | None, *, loss: str, rows: int = 1) -> float:
        """Largest ``|x|_2``: the bound, or what the bound on entries implies.

        Args:
            convex_set: tells how many entries a record has.
            loss: whose constant asks, for the error.
            rows: parameters per feature.

        Raises:
            ConfigurationError: if neither bounds it.
        """
        count = math.inf if convex_set is None else convex_set.dimension / rows
        return finite(
            min(self.feature_l2, math.sqrt(count) * self.feature_max),
            constant="L2 constant",
            loss=loss,
            remedy="give feature_l2, or pass the set so that the number of features is known",
        )

    def score_bound(self, convex_set: ConvexSet | None) -> float:
        """Largest ``|<x, theta>|`` on the set; infinite without one.

        By Cauchy's and Hoelder's inequalities; attained on L2 balls with an L2 feature bound
        and on L1 balls with a bound on entries.
        """
        if convex_set is None:
            return math.inf
        return min(
            self.feature_l2 * convex_set.l2_radius(), self.feature_max * convex_set.l1_radius()
        )

    def score_change(self, convex_set: ConvexSet | None) -> float:
        """Largest ``|<x, theta - theta'>|`` on the set; infinite without one."""
        if convex_set is None:
            return math.inf
        return min(
            self.feature_l2 * convex_set.diameter(),
            2 * self.score_bound(convex_set),
        )


@dataclass(frozen=True, kw_only=True)
class Lipschitz:
    """Bounds on a record's gradient: in L2, and in the largest entry.

    The first is the Lipschitz constant with respect to the L2 norm of parameters, the second
    with respect to their L1 norm.
    """

    l2: float
    max: float


def finite(value: float, *, constant: str, loss: str, remedy: str) -> float:
    """Refuse an infinite constant.

    Raises:
        ConfigurationError: naming the loss, the constant and the bound to add.
    """
    if not math.isfinite(value):
        raise ConfigurationError(
            f"the {constant} of the {loss} loss is infinite on this domain; {remedy}"
        )
    return value
