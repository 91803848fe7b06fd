"""Strategies by name: every name is its strategy's own, and the default is the quietest."""

import pytest

from dpstream.errors import ConfigurationError
from dpstream.mechanisms.continual.choice import prefix_strategy
from dpstream.mechanisms.continual.strategy import Participation

HORIZON = 300
WITH_HORIZON = ["blt", "square_root_toeplitz", "honaker_tree", "binary_tree"]
WITHOUT = ["chain", "hybrid"]


@pytest.mark.parametrize("name", WITH_HORIZON)
def test_names_with_a_horizon(name: str) -> None:
    strategy = prefix_strategy(name, HORIZON)
    assert strategy.name == name
    assert strategy.horizon == HORIZON
    with pytest.raises(ConfigurationError, match="needs a horizon"):
        prefix_strategy(name, None)


@pytest.mark.parametrize("name", WITHOUT)
def test_names_without_a_horizon(name: str) -> None:
    for horizon in (None, HORIZON):
        assert prefix_strategy(name, horizon).name == name
        assert prefix_strategy(name, horizon).horizon is None


def test_the_default_is_quiet() -> None:
    def noise(name: str, horizon: int | None) -> float:
        strategy = prefix_strategy(name, horizon)
        reach = strategy.sensitivity(Participation(), order=2)
        return max(reach**2 * strategy.variance(tick) for tick in range(1, HORIZON + 1))

    assert noise("auto", HORIZON) <= 1.02 * min(noise(name, HORIZON) for name in WITH_HORIZON)
    assert noise("auto", None) <= min(noise(name, None) for name in WITHOUT)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'oak'; known running sums: auto, blt"):
        prefix_strategy("oak", 10)
