"""Private choice among released models by what they gain on held-out records.

Every record adds to each candidate a number from 0 to 1, as an integer on the grid: sums are exact,
and one record moves them by at most 1. The choice is ``select_exponential``. Proof in
``held_out.proof.md``.
"""

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.batch import GRID_BITS
from dpstream.errors import ConfigurationError
from dpstream.mechanisms.exponential import select_exponential
from dpstream.mechanisms.mechanism import Noise, checked_ratio
from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import calibrate
from dpstream.privacy.curve import PrivacyCurve
from dpstream.privacy.event import ExponentialEvent, Interval
from dpstream.privacy.unit import Neighbours
from dpstream.release import Measurement

EXPONENT = -GRID_BITS
"""The lattice of gains."""


def choose_held_out(
    gains: FloatArray, *, scale: float, address: tuple[int, ...], noise: Noise
) -> Measurement:
    """Choose a candidate, the more the held-out records gain by it the likelier.

    Guaranteed: the log-ratio of the choice's probabilities between neighbours has range at most
    ``held_out_range(neighbours) / scale``. Assumed: a record's gains depend on that record and on
    released values alone.

    Args:
        gains: ``(records, candidates)``: secret; brought into [0, 1], and 0 where missing.
        scale: the Gumbel noise's scale, in gains of one record.
        address: the node's address, unique in the stream.
        noise: the noise source.

    Returns:
        A measurement whose only value is the candidate's index.

    Raises:
        ConfigurationError: if there are no candidates, or the scale is out of range.
    """
    totals = held_out_totals(gains)
    return select_exponential(totals, EXPONENT, scale=scale, address=address, noise=noise)


def held_out_totals(gains: FloatArray) -> IntArray:
    """What all records together gain by each candidate, in lattice steps: exact. Secret."""
    if gains.ndim != 2 or gains.shape[1] == 0:
        raise ConfigurationError(
            f"gains have shape {gains.shape}; they must be one row per record, with a column for "
            "each candidate"
        )
    bounded = np.clip(np.nan_to_num(gains, nan=0.0), 0.0, 1.0)
    steps = np.rint(np.ldexp(bounded, -EXPONENT)).astype(np.int64)
    return np.asarray(steps.sum(axis=0), np.int64)


def held_out_range(neighbours: Neighbours) -> float:
    """The sensitivity: how far one record can move one candidate's sum against another's.

    A record that is emptied takes from every sum a number from 0 to 1, all the same way; one that
    is replaced may take 1 from one candidate and give 1 to another.
    """
    return {Neighbours.ZERO_OUT: 1.0, Neighbours.REPLACE: 2.0}[neighbours]


def held_out_event(
    name: str, *, neighbours: Neighbours, scale: float, covers: Interval | None = None
) -> ExponentialEvent:
    """What one choice reveals of any record.

    Args:
        name: the mechanism's name in the ledger.
        neighbours: what a record is hidden against.
        scale: the Gumbel noise's scale, in gains of one record.
        covers: the positions of the held-out records; None for all.
    """
    epsilon = checked_ratio(held_out_range(neighbours), scale)
    return ExponentialEvent(name, epsilon=epsilon, covers=covers)


def held_out_scale(budget: Budget, neighbours: Neighbours) -> float:
    """The least noise with which one choice keeps the budget."""
    return held_out_range(neighbours) / calibrate(PrivacyCurve.exponential, budget)
