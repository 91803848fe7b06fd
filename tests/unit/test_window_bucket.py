"""The bucket algebra, against a brute-force ledger of which block was used where."""

import math
from collections.abc import Sequence
from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest

from dpstream.arrays import FloatArray
from dpstream.errors import ConfigurationError, NotPrivate
from dpstream.learners.window.bucket import (
    Basic,
    BucketRule,
    Cumulative,
    Fit,
    MultiResolution,
    Refit,
    Step,
)
from dpstream.learners.window.decayed_release import Chained
from dpstream.learners.window.sliding_bucket import Sliding, half_window
from dpstream.privacy.curve import PrivacyCurve

RULES: Sequence[BucketRule] = (
    Chained(),
    MultiResolution(),
    MultiResolution(levels=1),
    MultiResolution(levels=5),
    *(Cumulative(base=base) for base in (1, 2, 3, 8, 13)),
    *(Basic(base=base) for base in (1, 2, 3, 8, 13)),
    *(Refit(base=base) for base in (1, 2, 9)),
    *(
        Sliding(window=window, refresh=refresh)
        for window in (1, 2, 3, 4, 5, 7, 8, 11, 15, 16, 22, 31)
        for refresh in sorted({1, 2, 3, half_window(window)})
        if refresh <= half_window(window)
    ),
)


def brute_ledger(rule: BucketRule, blocks: int, power: float) -> FloatArray:
    """What every block pays, summed fit by fit with no knowledge of the rule."""
    changes = np.zeros(blocks + 1)
    for closed in range(1, blocks + 1):
        for fit in rule.step(closed).fits:
            price = float(fit.end - fit.start) ** -power
            changes[fit.start] += price
            changes[fit.end] -= price
    return np.cumsum(changes)[:blocks]


def slow_ledger(rule: BucketRule, blocks: int, power: float) -> list[float]:
    """The same from first principles: a list of uses for each block."""
    uses: list[list[float]] = [[] for _ in range(blocks)]
    for closed in range(1, blocks + 1):
        for fit in rule.step(closed).fits:
            for block in range(fit.start, fit.end):
                uses[block].append((fit.end - fit.start) ** -power)
    return [math.fsum(paid) for paid in uses]


def stacks(rule: BucketRule, blocks: int) -> list[list[Fit]]:
    """The stack after every block."""
    stack: list[Fit] = []
    history: list[list[Fit]] = []
    for closed in range(1, blocks + 1):
        step = rule.step(closed)
        assert step.keep <= len(stack)
        stack = [*stack[: step.keep], *step.fits]
        if step.forget:
            stack = stack[-1:]
        history.append(stack)
    return history


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("power", [2.0, 1.0, 1.3, 0.4])
def test_worst_is_the_brute_force_ledger_s_at_every_length(rule: BucketRule, power: float) -> None:
    for blocks in (1, 2, 3, 5, 8, 16, 17, 30, 47, 64, 100):
        expected = max(slow_ledger(rule, blocks, power))
        assert rule.worst(power, blocks) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_what_is_claimed_for_ever_is_approached_and_never_exceeded(rule: BucketRule) -> None:
    claimed = rule.worst(2.0, None)
    paid = brute_ledger(rule, 3000, 2.0).max()
    assert paid <= claimed * (1 + 1e-12)
    # Refitting everything converges like 1/t, the others geometrically.
    assert paid >= claimed - 1.1 / 3000


@pytest.mark.parametrize("window", range(1, 34))
def test_a_sliding_stack_is_exactly_the_window_and_remembers_nothing_older(window: int) -> None:
    for refresh in range(1, half_window(window) + 1):
        rule = Sliding(window=window, refresh=refresh)
        # The oldest block that the model of a fit has seen, through its centres.
        seen: dict[tuple[int, Fit], int] = {}
        stack: list[tuple[Fit, int]] = []
        for closed in range(1, 5 * window + 10):
            step = rule.step(closed)
            assert step.keep <= len(stack)
            stack = stack[: step.keep]
            for fit in step.fits:
                oldest = min(fit.start, stack[-1][1]) if stack else fit.start
                stack.append((fit, oldest))
                seen[closed, fit] = oldest
            if closed < window:
                assert not stack
                continue
            parts = sorted((fit.start, fit.end) for fit, _ in stack)
            assert parts[0][0] == closed - window
            assert parts[-1][1] == closed
            assert all(a[1] == b[0] for a, b in pairwise(parts))
            assert all(oldest >= closed - window for _, oldest in stack)
            levels = [fit.level for fit, _ in stack]
            assert levels == sorted(set(levels), reverse=True)
            # The last model was fitted just now: it has seen every part.
            assert stack[-1][0] in step.fits
            assert len(stack) <= 2 * window.bit_length() + 1


@pytest.mark.parametrize("levels", [1, 2, 3, 4, 5])
def test_the_papers_windows_train_each_bucket_once_and_cost_at_most_four_thirds(
    levels: int,
) -> None:
    window = 2**levels - 1
    rule = Sliding(window=window, refresh=half_window(window))
    fits = [fit for closed in range(1, 20 * window) for fit in rule.step(closed).fits]
    intervals = [(fit.start, fit.end) for fit in fits]
    assert len(intervals) == len(set(intervals))
    assert rule.worst(2.0, None) <= 4 / 3


def test_the_papers_example_of_seven_blocks() -> None:
    chains = [
        [(fit.start, fit.end) for fit in stack]
        for stack in stacks(Sliding(window=7, refresh=4), 11)[6:]
    ]
    assert chains == [
        [(3, 7), (1, 3), (0, 1)],
        [(3, 7), (1, 3), (7, 8)],
        [(3, 7), (7, 9), (2, 3)],
        [(3, 7), (7, 9), (9, 10)],
        [(7, 11), (5, 7), (4, 5)],
    ]


def test_known_totals() -> None:
    assert Sliding(window=15, refresh=8).worst(1.0, None) == 1.875
    assert Sliding(window=7, refresh=4).worst(2.0, None) == 1.3125
    assert Sliding(window=7, refresh=1).worst(2.0, None) == pytest.approx(1 / 7)
    assert Cumulative(base=8).worst(2.0, None) == pytest.approx(4 / 3)
    assert MultiResolution().worst(1.0, None) == 2.0
    assert Basic(base=8).worst(1.0, None) == pytest.approx(1 + 2 / 16)


@pytest.mark.parametrize("window", range(1, 70))
def test_windows_cost_what_the_proof_says(window: int) -> None:
    rule = Sliding(window=window, refresh=half_window(window))
    worst = rule.worst(2.0, None)
    assert worst <= 8 / 3 + 2 / half_window(window) ** 2
    if window % 2:
        assert worst <= 1.5
    assert Sliding(window=window, refresh=1).worst(2.0, None) == pytest.approx(1 / window)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_history_is_kept_exactly_as_long_as_a_later_fit_needs_it(rule: BucketRule) -> None:
    """Against the earliest block that any later fit uses, counted out; horizons end it earlier."""
    for horizon in (None, 1, 2, 5, 7, 8, 9, 16, 17, 22, 31, 33, 64):
        # Without a horizon, long enough for every fit of the first blocks to come.
        last, looked = (400, 60) if horizon is None else (horizon, horizon)
        starts = [[fit.start for fit in rule.step(closed).fits] for closed in range(1, last + 1)]
        kept = 0
        for closed in range(looked + 1):
            later = [start for step in starts[closed:] for start in step if start < closed]
            following = rule.keep_from(closed, horizon)
            assert following == min(later, default=closed)
            assert kept <= following
            kept = following
    if isinstance(rule, Sliding):
        assert all(at - rule.keep_from(at, None) < rule.window for at in range(300))


@pytest.mark.slow
@pytest.mark.parametrize("power", [2.0, 1.0])
@pytest.mark.parametrize(
    "rule",
    [
        MultiResolution(),
        MultiResolution(levels=7),
        Cumulative(base=8),
        Cumulative(base=5),
        Basic(base=8),
        Basic(base=1),
        Refit(base=8),
        Chained(),
        *(
            Sliding(window=w, refresh=p)
            for w, p in ((7, 4), (7, 1), (8, 4), (15, 8), (15, 3), (100, 50))
        ),
    ],
    ids=str,
)
def test_the_worst_epsilon_over_a_million_blocks_is_the_claim(
    rule: BucketRule, power: float
) -> None:
    blocks = 1_000_000
    paid = float(brute_ledger(rule, blocks, power).max())
    claimed = rule.worst(power, blocks)
    if power == 1.0:
        assert paid == pytest.approx(claimed, abs=1e-9)
        return
    unit = 0.2
    assert PrivacyCurve.gaussian(unit * math.sqrt(paid)).epsilon(1e-6) == pytest.approx(
        PrivacyCurve.gaussian(unit * math.sqrt(claimed)).epsilon(1e-6), abs=1e-9
    )


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_a_users_records_cost_no_more_than_the_worst_record_wherever_they_lie(
    rule: BucketRule,
) -> None:
    blocks, cap = 11, 3
    fits = [fit for closed in range(1, blocks + 1) for fit in rule.step(closed).fits]
    for places in combinations_with_replacement(range(blocks), cap):
        hits = [sum(fit.start <= place < fit.end for place in places) for fit in fits]
        gaussian = math.fsum((h / cap / f.size) ** 2 for h, f in zip(hits, fits, strict=True))
        pure = math.fsum(h / cap / f.size for h, f in zip(hits, fits, strict=True))
        assert gaussian <= rule.worst(2.0, blocks) + 1e-12
        assert pure <= rule.worst(1.0, blocks) + 1e-12


@pytest.mark.parametrize("power", [0.7, 1.0, 2.0])
def test_very_long_horizons_are_bounded_closely(power: float) -> None:
    blocks = 6_000_000
    exact = math.fsum(np.arange(3.0, blocks + 1) ** -power)
    bound = Refit(base=3).worst(power, blocks)
    assert exact <= bound * (1 + 1e-13)
    assert bound <= exact * (1 + 1e-6)
    assert Refit(base=3).worst(power, 10**15) > bound


def test_bad_declarations() -> None:
    with pytest.raises(ConfigurationError, match="at most 4"):
        Sliding(window=7, refresh=5)
    with pytest.raises(ConfigurationError, match="window is 0"):
        Sliding(window=0, refresh=1)
    with pytest.raises(ConfigurationError, match="base is 0"):
        Cumulative(base=0)
    with pytest.raises(ConfigurationError, match="levels is 0"):
        MultiResolution(levels=0)
    with pytest.raises(NotPrivate, match="no bound"):
        Refit(base=4).worst(1.0, None)


def test_a_rule_that_used_a_block_twice_would_be_found() -> None:
    """The ledger that closed intervals would give exceeds the claim: the test can fail."""

    class Closed(Cumulative):
        def step(self, blocks: int) -> Step:
            step = super().step(blocks)
            fits = tuple(
                Fit(start=max(0, fit.start - 1), end=fit.end, level=fit.level) for fit in step.fits
            )
            return Step(keep=step.keep, fits=fits)

    rule = Closed(base=4)
    assert max(slow_ledger(rule, 100, 2.0)) != pytest.approx(rule.worst(2.0, 100), abs=1e-3)


def test_what_no_stream_can_fill_is_refused_before_it_takes_all_memory() -> None:
    with pytest.raises(ConfigurationError, match="at most 62"):
        MultiResolution(levels=63)
    assert MultiResolution(levels=62).worst(2.0, None) == pytest.approx(4 / 3)
    with pytest.raises(ConfigurationError, match=r"2\*\*53"):
        MultiResolution(levels=(1 << 53) + 1)
    with pytest.raises(ConfigurationError, match="1048577 blocks"):
        Sliding(window=(1 << 20) + 1, refresh=1)
