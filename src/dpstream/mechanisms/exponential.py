"""Private selection: the index of the largest score plus Gumbel noise.

The same law as the exponential mechanism's, ``P(i) ~ exp(score_i / scale)``. Proof in
``exponential.proof.md``.
"""

import math

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.errors import ConfigurationError
from dpstream.mechanisms.mechanism import Noise, checked_ratio, exact_integers, lattice_units
from dpstream.privacy.event import ExponentialEvent
from dpstream.randomness.gumbel import LARGEST_SCORE, gumbel_argmax
from dpstream.release import Measurement


def select_exponential(
    scores: IntArray, exponent: int, *, scale: float, address: tuple[int, ...], noise: Noise
) -> Measurement:
    """Select one index, the larger its score the likelier.

    Guaranteed: index ``i`` has probability exactly proportional to ``exp(score_i / scale)``;
    if one unit moves no score by more than ``s``, the log-ratio of probabilities has range
    ``2 s / scale``. Assumed: the caller's bound ``s``, with ``score_sensitivity`` for the
    rounding.

    Args:
        scores: integers on the lattice ``2**exponent``: secret; see ``rounded_scores``.
        exponent: the lattice.
        scale: the Gumbel noise's scale, in units of the scores.
        address: the node's address, unique in the stream.
        noise: the noise source.

    Returns:
        A measurement whose only value is the index.

    Raises:
        ConfigurationError: if there are no scores, or scores or scale are out of range.
    """
    exact = exact_integers(scores)
    steps = lattice_units(scale, exponent)
    digest = noise.bind(exact, exponent=exponent)
    index = gumbel_argmax(noise, address, digest, exact, steps)
    return Measurement(address=address, exponent=0, value=np.array([index], np.int64))


def score_sensitivity(shift: float, *, exponent: int) -> float:
    """The largest change of a rounded score that one unit can cause.

    Args:
        shift: the largest change of a score before rounding, in either direction.
        exponent: the lattice that scores are rounded to: half a step for each neighbour.
    """
    return shift + 2.0**exponent


def exponential_event(
    name: str, *, sensitivity: float, scale: float, covers: tuple[int, int] | None = None
) -> ExponentialEvent:
    """What one selection reveals of any unit: a range of ``epsilon = 2 sensitivity / scale``.

    Each is ``epsilon^2 / 8``-zCDP.

    Args:
        name: the mechanism's name in the ledger.
        sensitivity: the largest change of a score that one unit can cause.
        scale: the Gumbel noise's scale.
        covers: the record positions it can reveal anything about; None for all.
    """
    return ExponentialEvent(name, epsilon=2 * checked_ratio(sensitivity, scale), covers=covers)


def check_score_bound(bound: float, exponent: int) -> None:
    """Refuse, before any data, scores that the lattice could not hold for some of them.

    Args:
        bound: the largest absolute value of a score.
        exponent: of the lattice that scores are rounded to.

    Raises:
        ConfigurationError: if the bound exceeds 2**60 lattice steps.
    """
    if not bound <= math.ldexp(float(LARGEST_SCORE), exponent - 1):
        raise ConfigurationError(
            f"scores reach {bound:g}, which exceeds 2**60 steps of the lattice 2**{exponent} that "
            "their noise asks for; give a smaller ridge, a smaller set or a smaller epsilon"
        )


def rounded_scores(scores: FloatArray, exponent: int) -> IntArray:
    """Scores rounded to the lattice ``2**exponent``, for ``select_exponential``.

    Raises:
        ConfigurationError: if a score is not finite or exceeds 2**61 lattice steps.
    """
    steps = np.ldexp(scores, -exponent)
    if not np.all(np.abs(steps) <= LARGEST_SCORE):
        raise ConfigurationError(
            "a score is not finite or exceeds 2**61 lattice steps; choose a coarser lattice or "
            "tighter public bounds"
        )
    return np.rint(steps).astype(np.int64)
