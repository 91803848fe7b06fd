"""Strategies by name: what each name gives, what goes together, and what is compared."""

import pytest

from dpstream.errors import ConfigurationError
from dpstream.mechanisms.continual.choice import alternatives, prefix_strategy, sum_strategy
from dpstream.mechanisms.continual.toeplitz import LONGEST_HORIZON

BY_HORIZON = ("blt", "square_root_toeplitz", "honaker_tree", "binary_tree")
ENDLESS = ("chain", "hybrid")


@pytest.mark.parametrize("name", BY_HORIZON)
def test_names_that_need_a_horizon(name: str) -> None:
    strategy = prefix_strategy(name, 16)
    assert strategy.name == name
    assert strategy.horizon == 16
    with pytest.raises(ConfigurationError, match=r"needs a horizon.*chain, hybrid"):
        prefix_strategy(name, None)


@pytest.mark.parametrize("name", ENDLESS)
def test_names_that_need_none(name: str) -> None:
    for horizon in (None, 16):
        strategy = prefix_strategy(name, horizon)
        assert strategy.name == name
        assert strategy.horizon is None


def test_auto_is_the_least_noise_of_its_kind() -> None:
    assert prefix_strategy("auto", 16).name == "blt"
    assert prefix_strategy("auto", None).name == "chain"
    assert sum_strategy("auto", horizon=16, window=None, decay=None).name == "blt"
    assert sum_strategy("auto", horizon=None, window=8, decay=None).name == "sliding_toeplitz"
    assert sum_strategy("auto", horizon=None, window=None, decay=0.9).name == "decayed_toeplitz"


@pytest.mark.parametrize("name", ["sliding_toeplitz", "expiring_toeplitz", "window_tree"])
def test_windowed_sums(name: str) -> None:
    strategy = sum_strategy(name, horizon=None, window=8, decay=None)
    assert strategy.name == name
    assert getattr(strategy, "window", None) == 8
    with pytest.raises(ConfigurationError, match="needs a window"):
        sum_strategy(name, horizon=16, window=None, decay=None)


def test_what_does_not_go_together_is_refused() -> None:
    assert sum_strategy("decayed_toeplitz", horizon=None, window=None, decay=0.9).name == (
        "decayed_toeplitz"
    )
    with pytest.raises(ConfigurationError, match="known running sums: auto, blt"):
        prefix_strategy("nothing", 16)
    with pytest.raises(ConfigurationError, match=r"has no window.*sliding_toeplitz"):
        sum_strategy("blt", horizon=16, window=8, decay=None)
    with pytest.raises(ConfigurationError, match="needs decay"):
        sum_strategy("decayed_toeplitz", horizon=None, window=None, decay=None)
    with pytest.raises(ConfigurationError, match="does not decay"):
        sum_strategy("blt", horizon=16, window=None, decay=0.9)


def names(chosen: str, horizon: int | None, **options: float) -> list[str]:
    given = {"window": None, "decay": None} | options
    strategy = sum_strategy(chosen, horizon=horizon, **given)  # type: ignore[arg-type]  # by name
    return [found.name for found in alternatives(strategy, horizon=horizon)]


def test_alternatives_measure_the_same_sum_under_the_same_promise() -> None:
    assert names("binary_tree", 16) == [*ENDLESS, *BY_HORIZON[:3], "binary_tree"]
    assert names("chain", None) == ["hybrid", "chain"]
    assert names("hybrid", 16) == ["chain", *BY_HORIZON, "hybrid"]
    assert names("sliding_toeplitz", None, window=8) == ["sliding_toeplitz"]
    assert names("decayed_toeplitz", None, decay=0.5) == ["decayed_toeplitz"]
    for name in ("window_tree", "expiring_toeplitz"):
        assert names(name, None, window=8) == ["window_tree", "expiring_toeplitz"]


def test_the_square_root_is_left_out_beyond_its_horizon() -> None:
    for horizon, there in ((LONGEST_HORIZON, True), (LONGEST_HORIZON + 1, False)):
        strategy = prefix_strategy("binary_tree", horizon)
        found = [each.name for each in alternatives(strategy, horizon=horizon)]
        assert ("square_root_toeplitz" in found) is there


@pytest.mark.parametrize("wrong", [True, 2.5, "8", 0, 2**53 + 1])
def test_horizons_and_windows_are_whole_numbers_whatever_the_strategy(wrong: object) -> None:
    for name in ("auto", *BY_HORIZON, *ENDLESS):
        with pytest.raises(ConfigurationError, match=r"^horizon is "):
            prefix_strategy(name, wrong)  # type: ignore[arg-type]  # what is refused
    for name in ("auto", "sliding_toeplitz", "expiring_toeplitz", "window_tree"):
        with pytest.raises(ConfigurationError, match=r"^window is "):
            sum_strategy(name, horizon=None, window=wrong, decay=None)  # type: ignore[arg-type]  # refused
