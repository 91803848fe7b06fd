"""The benchmark of window learners in small: its ledger can fail, and its streams are flat."""

from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import pytest

from dpstream.bench import windows
from dpstream.bench.history import numbers
from dpstream.bench.moment_ledger import moment_figures
from dpstream.bench.window_speed import speed
from dpstream.bench.windows import (
    ALLOWED,
    WINDOWS,
    flat_figures,
    flat_learners,
    ledger_figures,
    ledger_learners,
    moment_learners,
    paid_and_claimed,
)
from dpstream.learners.window.bucket import Fit, Step
from dpstream.learners.window.sliding_window import SlidingWindowRelease
from dpstream.mechanisms.continual.sliding import SlidingEncoder
from dpstream.mechanisms.continual.strategy import Node

BLOCKS = 700


def test_the_ledger_of_every_learner_is_its_claim() -> None:
    found = ledger_figures(BLOCKS)
    assert len(found) == 2 * (6 + len(WINDOWS)) + len(moment_learners())
    for name, figures in found.items():
        assert figures["equal"], (name, figures)
        assert abs(figures["claimed"] - 1.0) < 1e-8


@pytest.mark.parametrize("kind", ["", ", pure"])
def test_a_fit_too_many_is_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more fit of the largest window, in the whole stream, exceeds the claim."""
    learner = ledger_learners(BLOCKS)[f"sliding, w = 3000, w0 = 30, refresh 50{kind}"]
    assert isinstance(learner, SlidingWindowRelease)
    original = type(learner.rule).step

    def step(self: Any, blocks: int) -> Step:
        made = original(self, blocks)
        if blocks != 400:
            return made
        return Step(keep=made.keep, fits=(*made.fits, Fit(start=300, end=400, level=0)))

    monkeypatch.setattr(type(learner.rule), "step", step)
    # The least that any fit can cost: far above what is allowed.
    paid, claimed = paid_and_claimed(learner, BLOCKS - 1)
    assert paid > claimed + 1e-6


def test_nodes_that_hold_more_of_a_record_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An encoder whose nodes are too large by a millionth."""
    original = SlidingEncoder.nodes

    def nodes(self: SlidingEncoder) -> list[Node]:
        return [
            replace(node, value=node.value + node.value // 1_000_000) for node in original(self)
        ]

    monkeypatch.setattr(SlidingEncoder, "nodes", nodes)
    found = moment_figures(moment_learners(), 13_500, allowed=ALLOWED)
    assert not found["moments of 7 ticks"]["equal"]
    assert found["moments, decayed"]["equal"]
    assert all(figures["records followed"] >= 32 for figures in found.values())


@pytest.mark.parametrize("name", flat_learners())
def test_streams_keep_their_size(name: str) -> None:
    learner, size = flat_learners()[name]
    found = flat_figures(learner, size, 320)
    assert found["after blocks"] == [64, 128, 192, 256, 320]
    assert len(set(found["state bytes"])) == 1
    assert all(value > 0.0 for value in found["milliseconds"])
    # Not a test of the machine: some hundred blocks of ten records cannot fill megabytes.
    assert found["megabytes"][-1] < found["megabytes"][0] + 50.0


def test_what_is_watched_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    small = speed(records=400, block=100, rounds=1)
    monkeypatch.setattr(windows, "speed", lambda: small)
    paths = numbers(windows.run(ledger_blocks=120, flat_blocks=10))
    for watch in windows.WATCHED:
        found = [path for path in paths if fnmatchcase(path, watch.pattern)]
        assert len(found) >= len(flat_learners()), watch
        assert all(paths[path] > 0.0 for path in found)
