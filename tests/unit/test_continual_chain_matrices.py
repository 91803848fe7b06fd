"""The chain of epochs against its explicit matrices."""

import math

import numpy as np
import pytest

from dpstream.domain.lattice import ExactVector
from dpstream.errors import ConfigurationError
from dpstream.mechanisms.continual.blt import standard_filter
from dpstream.mechanisms.continual.chain import ToeplitzChain, endless_chain
from dpstream.mechanisms.continual.strategy import Participation, Promise
from dpstream.mechanisms.public import public_generator
from dpstream.testing.strategy_law import (
    check_code_bound,
    check_factorisation,
    check_lazy_release,
    check_memory,
    check_moments,
    check_node_error,
    check_resume,
    check_rounding_norm,
    check_sensitivity,
    prefix_target,
)

RECORD = Participation()
SIGMA = 4.22468  # noise multiplier of (1, 1e-6)


def short_chain(*lengths: int) -> ToeplitzChain:
    """Epochs of different filters, the last one repeated."""
    responses = [standard_filter(64 << place) for place in range(len(lengths))]
    return ToeplitzChain(
        epochs=tuple(
            (ticks, response.rates, response.scales)
            for ticks, response in zip(lengths, responses, strict=True)
        )
    )


CHAINS = [short_chain(4), short_chain(1), short_chain(3, 7), short_chain(2, 3, 5)]


@pytest.mark.parametrize("chain", CHAINS)
def test_laws(chain: ToeplitzChain) -> None:
    check_factorisation(chain, prefix_target(40))
    check_moments(chain, 40)
    check_code_bound(chain, 40)
    check_memory(chain, 20)
    check_lazy_release(chain, 30, [[7, 30], [3, 4, 5, 10, 11], [8, 9]])
    increments = public_generator(8).integers(-(2**20), 2**20, (40, 3))
    check_resume(chain, increments)
    assert check_node_error(chain, increments, node_exponent=-12, increment_bound=1.0) > 0.3
    assert chain.horizon is None
    assert chain.promise is Promise.FOREVER
    assert chain.name == "chain"


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize(
    "participation", [RECORD, Participation(cap=2), Participation(cap=3, per_tick=2)]
)
def test_no_division_of_records_among_epochs_costs_more(
    chain: ToeplitzChain, participation: Participation
) -> None:
    for order in (1, 2):
        check_sensitivity(chain, 20, participation, order=order, attained=0.8)
    check_rounding_norm(chain, 20, participation)


def test_the_claim_is_attained_in_every_epoch() -> None:
    chain = short_chain(3, 7)
    check_sensitivity(chain, 10, RECORD)
    check_sensitivity(chain, 10, Participation(cap=3, per_tick=3))
    columns = np.zeros(30)
    encoder = chain.encoder(30, increment_exponent=-20, node_exponent=-40)
    for tick in range(30):
        row = np.zeros(30, np.int64)
        row[tick] = 1 << 20
        encoder.absorb(ExactVector.from_integers(row, -20))
    for node in encoder.nodes():
        columns += (np.ldexp(node.value.astype(float), -40) / node.weight) ** 2
    claim = chain.sensitivity(RECORD, order=2)
    assert np.sqrt(columns[[0, 3, 10, 17]]) == pytest.approx(claim, rel=1e-9)
    assert np.sqrt(columns).max() <= claim * (1 + 1e-9)


def test_claim_does_not_grow_with_the_number_of_epochs() -> None:
    chain = short_chain(2)
    first = check_sensitivity(chain, 4, Participation(cap=2), attained=0.8)
    later = check_sensitivity(chain, 16, Participation(cap=2), attained=0.8)
    assert later == pytest.approx(first, rel=1e-9)


def test_in_long_epochs_the_worst_unit_stays_in_one() -> None:
    participation = Participation(cap=2)
    check_sensitivity(short_chain(12), 24, participation)
    chain = endless_chain()
    one = chain.mechanisms[0].sensitivity(Participation(cap=50, per_tick=7), order=2)
    other = chain.mechanisms[1].sensitivity(Participation(cap=50, per_tick=7), order=2)
    claim = chain.sensitivity(Participation(cap=50, per_tick=7), order=2)
    assert claim == pytest.approx(max(one, other / chain.weights[1]), rel=1e-9)


def test_the_standard_chain_runs_for_ever() -> None:
    chain = endless_chain()
    scale = SIGMA * chain.sensitivity(RECORD, order=2)
    expected = {10**3: 19.5, 10**4: 21.45, 10**5: 23.6, 10**6: 25.2, 10**7: 26.75}
    for tick, largest in expected.items():
        assert scale * math.sqrt(chain.variance(tick)) < largest
    assert chain.locate(2**24) == (0, 2**24)
    assert chain.locate(2**24 + 1) == (1, 1)
    assert chain.locate(2**24 + 2**30) == (1, 2**30)
    assert chain.locate(2**24 + 5 * 2**30 + 3) == (6, 3)
    ticks = [2**24, 2**24 + 1, 2**24 + 2**30, 2**24 + 2**31, 2**40]
    variances = [chain.variance(tick) for tick in ticks]
    assert all(math.isfinite(value) for value in variances)
    assert variances == sorted(variances)
    assert chain.covariance(2**24, 2**40) == pytest.approx(variances[0])
    assert chain.memory(2**24) == 5
    assert chain.memory(2**24 + 1) == 8


@pytest.mark.parametrize("lengths", [(9, 2), (2, 9)])
@pytest.mark.parametrize("cap", [1, 3])
def test_rounding_reaches_as_many_epochs_as_there_are_records(
    lengths: tuple[int, int], cap: int
) -> None:
    chain = short_chain(*lengths)
    assert chain.weights[0] == 1.0
    assert abs(chain.weights[1] - 1.0) > 0.1
    participation = Participation(cap=cap)
    for order in (1, 2):
        reach = max(
            ticks ** (1 / order) / weight
            for ticks, weight in zip(lengths, chain.weights, strict=True)
        )
        claim = chain.rounding_norm(participation, order=order)
        assert claim == pytest.approx(reach * cap ** (1 / order), rel=1e-12)


def test_before_the_first_tick_a_chain_is_in_its_first_epoch() -> None:
    chain = endless_chain()
    encoder = chain.encoder(3, increment_exponent=-20, node_exponent=-20)
    assert encoder.snapshot()["bank_high"].shape == (5, 3)
    shown = chain.decoder(3).snapshot()
    assert shown["epoch"].tolist() == [0]
    assert shown["buffers"].shape == (5, 3)


def test_a_chain_needs_an_epoch() -> None:
    with pytest.raises(ConfigurationError, match="0 epochs"):
        ToeplitzChain(epochs=())
    with pytest.raises(ConfigurationError, match="horizon is 0"):
        short_chain(0)
