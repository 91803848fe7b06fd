"""A continual sum under attack: one stream with a record and one without, against its claims.

One run over a vector of equal coordinates is as many independent runs of a scalar stream:
coordinates have independent noise. Seeds are fixed; limits leave an honest mechanism a false
alarm of FALSE_ALARM per attack.
"""

from dataclasses import dataclass, replace

import numpy as np

from dpstream.domain.lattice import ExactVector
from dpstream.mechanisms.continual.node_noise import NoiseKind
from dpstream.mechanisms.continual.strategy import Node, Participation, Strategy
from dpstream.mechanisms.continual.sum import ContinualSum
from dpstream.mechanisms.mechanism import Noise
from dpstream.release import Measurement
from dpstream.testing.attack import (
    averaging_attack,
    failures,
    likelihood_ratio_attack,
    whiteness_attack,
)

FALSE_ALARM = 1e-6
RUNS = 4000
TICKS = 24
MU = 1.5333  # epsilon 8 at delta 1e-6: separations are told apart within a few per cent
ONE = 1 << 20


def mechanism_of(strategy: Strategy, model: type[ContinualSum] = ContinualSum, **changes):
    """The sum of a strategy, or a broken form of it."""
    parameters = {
        "strategy": strategy,
        "dimension": RUNS,
        "increment_exponent": -20,
        "increment_bound": 1.0,
        "record_shift": 1.0,
        "participation": Participation(),
        "kind": NoiseKind.GAUSSIAN,
        "strength": MU,
    }
    return model(**(parameters | changes))


def outputs(mechanism: ContinualSum, seed: int, *, record: int | None):
    """Released sums, runs by ticks, of a stream that is zero but for one record of norm 1."""
    state, noise = mechanism.init(), Noise.insecure(seed)
    released = np.zeros((mechanism.dimension, TICKS))
    for tick in range(1, TICKS + 1):
        value = np.full(mechanism.dimension, ONE if tick == record else 0, np.int64)
        mechanism.absorb(state, ExactVector.from_integers(value, -20))
        released[:, tick - 1] = mechanism.release(state, noise)[1]
    return released


def claimed_covariance(mechanism: ContinualSum) -> np.ndarray:
    """Between the noise of any two ticks' sums."""
    every = range(1, TICKS + 1)
    return np.array([[mechanism.covariance(min(s, t), max(s, t))[0] for t in every] for s in every])


def sum_attack(
    broken: ContinualSum, honest: ContinualSum, shift: np.ndarray, record: int
) -> dict[str, list[str]]:
    """What each attack finds wrong with a mechanism that claims to be the honest one.

    Args:
        broken: what is attacked.
        honest: whose law is claimed.
        shift: how far the record moves the sum of every tick.
        record: its tick.
    """
    without = outputs(broken, 11, record=None)
    present = outputs(broken, 12, record=record)
    covariance = claimed_covariance(honest)
    shift = np.asarray(shift, float)
    law = {"shift": shift, "covariance": covariance, "false_alarm": FALSE_ALARM}
    return {
        "likelihood": failures(likelihood_ratio_attack(without, present, **law)),
        "averaging": failures(averaging_attack(without, present, **law)),
        "whiteness": failures(
            whiteness_attack(present, mean=shift, covariance=covariance, false_alarm=FALSE_ALARM)
        ),
    }


@dataclass(frozen=True, kw_only=True)
class Rescaled(ContinualSum):
    """Noise of ``factor`` times what it claims."""

    factor = 1.0

    def _measure(self, node: Node, noise: Noise) -> Measurement:
        return super()._measure(replace(node, weight=node.weight * self.factor), noise)
