"""Public subsets of records, by fixed rules: a record outside counts as the null record.

A rule looks at one admitted record's scaled features and at public numbers, at nothing else: so
whether a record counts never depends on another one, and sensitivities are those of the domain.
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dpstream.arrays import BoolArray
from dpstream.domain.batch import GRID, Batch
from dpstream.errors import ConfigurationError


@runtime_checkable
class SubsetRule(Protocol):
    """A fixed rule per record, known by its name and public numbers."""

    def admits(self, batch: Batch) -> BoolArray:
        """Which records count; each decided by its own row."""
        ...

    def describe(self) -> dict[str, Any]:
        """The rule, JSON-ready."""
        ...


@dataclass(frozen=True, kw_only=True)
class SparseSubset:
    """Records with at most ``largest_count`` features that are not zero (000, section 5.2)."""

    largest_count: int

    def __post_init__(self) -> None:
        if self.largest_count < 1:
            raise ConfigurationError(
                f"largest_count is {self.largest_count}; a record must be allowed a feature"
            )

    def admits(self, batch: Batch) -> BoolArray:
        """See ``SubsetRule.admits``."""
        features = batch.rows[:, 1 : 1 + batch.dimension]
        return np.count_nonzero(features, axis=1) <= self.largest_count

    def describe(self) -> dict[str, Any]:
        """The rule, JSON-ready."""
        return {"name": "sparse", "largest_count": self.largest_count}


@dataclass(frozen=True, kw_only=True)
class BoxSubset:
    """Records whose every scaled feature is at most ``half_width`` in modulus."""

    half_width: float

    def __post_init__(self) -> None:
        _require_size("half_width", self.half_width)

    def admits(self, batch: Batch) -> BoolArray:
        """See ``SubsetRule.admits``."""
        features = np.abs(batch.rows[:, 1 : 1 + batch.dimension])
        return features.max(axis=1, initial=0.0) <= math.floor(self.half_width * GRID)

    def describe(self) -> dict[str, Any]:
        """The rule, JSON-ready."""
        return {"name": "box", "half_width": self.half_width}


@dataclass(frozen=True, kw_only=True)
class AbsoluteSumSubset:
    """Records whose scaled features have an L1 norm of at most ``radius``."""

    radius: float

    def __post_init__(self) -> None:
        _require_size("radius", self.radius)

    def admits(self, batch: Batch) -> BoolArray:
        """See ``SubsetRule.admits``."""
        # Integers whose sum is below 2**53: the same in every order.
        total = np.abs(batch.rows[:, 1 : 1 + batch.dimension]).sum(axis=1)
        return total <= math.floor(self.radius * GRID)

    def describe(self) -> dict[str, Any]:
        """The rule, JSON-ready."""
        return {"name": "absolute_sum", "radius": self.radius}


def _require_size(name: str, value: float) -> None:
    if not 0.0 < value < math.inf:
        raise ConfigurationError(f"{name} is {value}; it must be positive and finite")


def check_rule(rule: object) -> SubsetRule:
    """The rule, if it is one of this module's: a function of one record and public numbers.

    Raises:
        ConfigurationError: if it is anything else, such as a function, which might look at other
            records, or be learned from them.
    """
    if not isinstance(rule, SparseSubset | BoxSubset | AbsoluteSumSubset):
        raise ConfigurationError(
            f"the subset is {type(rule).__name__}; it must be a fixed rule per record that can be "
            "written down: SparseSubset, BoxSubset or AbsoluteSumSubset. A rule learned from "
            "records would make one record decide whether another counts"
        )
    return rule


def within(batch: Batch, rule: SubsetRule | None) -> Batch:
    """The batch with the records outside the subset made null; places are kept."""
    return batch if rule is None else batch.nullify(~rule.admits(batch))
