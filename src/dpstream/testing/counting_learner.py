"""The smallest private learner: a running vector sum, each tick measured once.

Every tick's exact sum of admitted features is measured with Gaussian noise, and the model is
the running total of the measurements. A unit of at most ``cap`` records shifts the ticks' sums,
taken as one vector, by at most ``cap`` times what one record can: for zero_out the record norm,
1 in the domain's scaled units; for replace twice that. Hence one Gaussian event for life, with
``mu = cap * shift / sigma``. Its sums and its estimate are simple enough to check by hand, which
is what it is for.

With ``charge_each`` every release is charged by itself, at ``mu / sqrt(horizon)``, as if each
could see all of a unit: wasteful, and a test of a ledger that grows with the stream.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstream.arrays import IntArray
from dpstream.domain.batch import GRID_BITS, Batch
from dpstream.domain.domain import Domain
from dpstream.errors import ConfigurationError
from dpstream.learners.learner import Arrays, Outcome, Tick
from dpstream.mechanisms.continual.strategy import Promise
from dpstream.mechanisms.gaussian import gaussian_event, measure_gaussian
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import gaussian_mu
from dpstream.privacy.event import Event
from dpstream.privacy.unit import Neighbours, Unit


def counting_sensitivity(unit: Unit, neighbours: Neighbours) -> float:
    """The largest L2 shift one unit can cause of all ticks' sums, taken as one vector."""
    return unit.cap * (2.0 if neighbours is Neighbours.REPLACE else 1.0)


@dataclass
class CountingState:
    """What was summed up: secret.

    Attributes:
        open_sum: of the open tick, or of the ticks closed since the last release.
        total: of all measurements.
    """

    open_sum: IntArray
    total: IntArray


class CountingLearner:
    """A private running sum of feature vectors.

    Args:
        dimension: of the features.
        budget: for the stream's life.
        unit: whose contribution is hidden.
        neighbours: what it is hidden against.
        horizon: its last tick, or None.
        charge_each: charge each release, not the stream's life; needs a horizon.
        domain: of the records; by default plain vectors of norm at most 1.
        window: ticks over which the unit's cap counts.
    """

    name = "CountingLearner"
    promise = Promise.FOREVER

    def __init__(
        self,
        dimension: int,
        *,
        budget: Budget,
        unit: Unit,
        neighbours: Neighbours,
        horizon: int | None = None,
        charge_each: bool = False,
        domain: Domain | None = None,
        window: int | None = None,
    ) -> None:
        if charge_each and horizon is None:
            raise ConfigurationError("charge_each needs a horizon to share the budget over")
        self.horizon = horizon
        self.domain = domain or Domain.vectors(dimension, norm_bound=1.0)
        self.budget = budget
        self.unit = unit
        self.neighbours = neighbours
        self.window = window
        self._charge_each = charge_each
        self._dimension = dimension
        self._sensitivity = counting_sensitivity(unit, neighbours)
        shares = horizon if charge_each and horizon is not None else 1
        self._sigma = self._sensitivity / gaussian_mu(budget) * math.sqrt(shares)

    def describe(self) -> Mapping[str, Any]:
        """Every public parameter."""
        return {
            "dimension": self._dimension,
            "sigma": self._sigma,
            "horizon": self.horizon,
            "charge_each": self._charge_each,
        }

    def opening_events(self) -> Sequence[Event]:
        """One event for the stream's life, unless each release is charged."""
        return [] if self._charge_each else [self._event()]

    def next_events(self, tick: Tick) -> Sequence[Event]:
        """One event for each release, if so declared."""
        return [self._event()] if self._charge_each else []

    def _event(self) -> Event:
        return gaussian_event(self.name, sensitivity=self._sensitivity, sigma=self._sigma)

    def init(self) -> CountingState:
        """Nothing summed up."""
        zeros = np.zeros(self._dimension, np.int64)
        return CountingState(zeros, zeros)

    def learn(self, state: CountingState, batch: Batch) -> None:
        """Add the records."""
        state.open_sum = state.open_sum + batch.features.sum(axis=0)

    def close(self, state: CountingState, tick: Tick) -> None:
        """A tick that is not published is measured with the next one that is."""

    def release(self, state: CountingState, tick: Tick, noise: Noise) -> Outcome:
        """Measure what came since the last release."""
        measurement = measure_gaussian(
            state.open_sum, -GRID_BITS, sigma=self._sigma, address=(tick.number,), noise=noise
        )
        state.open_sum = np.zeros_like(state.open_sum)
        state.total = state.total + measurement.value
        return Outcome(
            measurements=[measurement],
            model={"sum": np.ldexp(state.total.astype(np.float64), -GRID_BITS).tolist()},
        )

    def snapshot(self, state: CountingState) -> Arrays:
        """The whole state."""
        return {"open_sum": state.open_sum, "total": state.total}

    def restore(self, arrays: Arrays) -> CountingState:
        """The state of a snapshot."""
        return CountingState(arrays["open_sum"].astype(np.int64), arrays["total"].astype(np.int64))
