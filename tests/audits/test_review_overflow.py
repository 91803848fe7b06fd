"""No tick within its public bound may stop a stream: whether it did would tell what it held."""

import numpy as np
import pytest

from dpstream.domain.domain import Domain
from dpstream.domain.lattice import ExactVector
from dpstream.errors import ConfigurationError
from dpstream.learners.incremental.priv_inc_reg1 import PrivIncReg1
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit

STRATEGIES = ["blt", "square_root_toeplitz", "binary_tree", "honaker_tree", "chain", "hybrid"]


def learner(strategy: str, tick_records: int | None) -> PrivIncReg1:
    return PrivIncReg1(
        domain=Domain.vectors(1, norm_bound=1.0, target_bound=1.0),
        budget=Budget(epsilon=1.0, delta=1e-6),
        unit=Unit(),
        neighbours=Neighbours.ZERO_OUT,
        horizon=8,
        strategy=strategy,
        tick_records=tick_records,
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("sign", [1, -1])
def test_the_fullest_ticks_within_the_public_bound_are_absorbed(strategy: str, sign: int):
    total = learner(strategy, None).sum
    steps = sign * (int(total.increment_bound) << -total.increment_exponent)
    full = ExactVector.from_integers(
        np.full(total.dimension, steps, np.int64), total.increment_exponent
    )
    state = total.init()
    for _ in range(8):
        total.absorb(state, full)
        for node in state.encoder.nodes():
            assert np.all(np.abs(node.value) <= 1 << 61)


def test_a_bound_the_square_root_cannot_hold_is_refused_before_any_data():
    with pytest.raises(ConfigurationError, match="fewer records per tick"):
        learner("square_root_toeplitz", 1 << 20)
