"""Learners over blocks: what the worst record pays, counted out, and whether they stay flat.

*Ledger*: every fit of a million blocks is made on paper, and its cost, shift over deviation from
the plan of its noise, is added to every block that it uses. The largest total must be the claim.
For windowed and decayed moments see ``moment_ledger``.

*Flat*: a small stream is run, and memory, the size of its state, and the time of a release are read
along the way. Learners that fit the whole history again keep it, and are not among these.
*Speed* is in ``window_speed``.
``python -m dpstream.bench.windows 1000000`` runs a million blocks, which takes hours.
"""

import gc
import json
import math
import sys
import time
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.bench.history import Watch
from dpstream.bench.memory import resident_bytes
from dpstream.bench.moment_ledger import moment_figures
from dpstream.bench.window_speed import speed
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.learners.learner import Learner, Tick
from dpstream.learners.window.basic_release import BasicRelease
from dpstream.learners.window.block_learner import BlockLearner
from dpstream.learners.window.bucket import BucketRule
from dpstream.learners.window.continual_release import ContinualRelease
from dpstream.learners.window.decayed_release import DecayedRelease
from dpstream.learners.window.multi_resolution import MultiResolutionRelease
from dpstream.learners.window.sliding_window import SlidingWindowRelease
from dpstream.learners.window.windowed_regression import WindowedRegression
from dpstream.losses.logistic import LogisticLoss
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.curve import PrivacyCurve
from dpstream.privacy.event import Event, GaussianEvent, PureEvent
from dpstream.privacy.unit import Neighbours, Unit

WATCHED = (
    Watch("flat/*/state bytes/*", "lower"),
    Watch("speed/*/times its floor", "lower"),
)

LEDGER_BLOCKS = 1_000_000
FLAT_BLOCKS = 5_000
ALLOWED = 1e-9
"""Between the epsilon that is paid and the one that is claimed."""

_LOOKS = 5
_CHECKED_PLANS = 24
_BLOCK = 10
_DOMAIN = Domain.vectors(2, norm_bound=1.0, target_bound=1.0)
_DECLARED: dict[str, Any] = {
    "domain": _DOMAIN,
    "unit": Unit(),
    "neighbours": Neighbours.ZERO_OUT,
}
_GAUSSIAN: dict[str, Any] = {"budget": Budget(epsilon=1.0, delta=1e-6)}
_PURE = Budget(epsilon=1.0, delta=0.0)
_FIT: dict[str, Any] = _DECLARED | {"loss": LogisticLoss(), "ridge": 0.5, "radius": 2.0}

WINDOWS = ((7, 1), (7, 4), (8, 4), (15, 8), (15, 3), (100, 50))
"""Windows and refreshes, in blocks."""


def ledger_learners(blocks: int) -> Mapping[str, BlockLearner]:
    """Every learner over blocks, calibrated for so many: by name."""
    small: dict[str, Any] = _FIT | _GAUSSIAN | {"horizon": blocks, "block_records": _BLOCK}
    gaussian: dict[str, BlockLearner] = {
        "multi-resolution": MultiResolutionRelease(**small),
        "multi-resolution, 7 levels": MultiResolutionRelease(levels=7, **small),
        "cumulative, B = 8": ContinualRelease(base=8, **small),
        "refitted, B = 8": ContinualRelease(base=8, updates="refit", **small),
        "basic, B = 8": BasicRelease(base=8, **small),
        "decayed": DecayedRelease(decay=0.9, **small),
    }
    for window, refresh in WINDOWS:
        # Blocks of other sizes too: a share does not depend on w0, the noise does.
        records = _BLOCK * (1 + refresh % 3)
        changed: dict[str, Any] = small | {"block_records": records}
        name = f"sliding, w = {window * records}, w0 = {records}, refresh {refresh}"
        gaussian[name] = SlidingWindowRelease(
            window_records=window * records,
            refresh=refresh,
            **changed,
        )
    found: dict[str, BlockLearner] = {}
    for name, learner in gaussian.items():
        found[name] = learner
        found[f"{name}, pure"] = replace(learner, budget=_PURE, noise="spherical_laplace")
    return found


def moment_learners() -> Mapping[str, WindowedRegression]:
    """Regressions on measured moments: by name."""
    small: dict[str, Any] = _DECLARED | _GAUSSIAN | {"tick_records": _BLOCK}
    return {
        "moments of 7 ticks": WindowedRegression(window_ticks=7, **small),
        "moments, decayed": WindowedRegression(decay=0.9, **small),
    }


def paid_and_claimed(learner: BlockLearner, blocks: int) -> tuple[float, float]:
    """The epsilon of the worst record, counted out over so many blocks, and the declared one.

    Raises:
        AssertionError: if a plan's noise costs something else than its share.
    """
    (opening,) = learner.opening_events()
    whole = _price(opening)
    power, worst = learner.solver.power, learner.solver.worst
    starts, ends = _fits(learner.rule, blocks)
    lengths = ends - starts
    prices = whole * lengths.astype(np.float64) ** -power / worst
    changes: FloatArray = np.zeros(blocks + 1)
    np.add.at(changes, starts, prices)
    np.subtract.at(changes, ends, prices)
    chosen: list[int] = np.unique(lengths).tolist()
    for size in {*chosen[:_CHECKED_PLANS], *chosen[:: 1 + len(chosen) // _CHECKED_PLANS]}:
        cost = _price(learner.solver.plan(size, learner.ridge).noise.event("fit"))
        share = whole * float(size) ** -power / worst
        assert math.isclose(cost, share, rel_tol=1e-10), (size, cost, share)
    most = float(np.cumsum(changes)[:blocks].max())
    if isinstance(opening, PureEvent):
        return most, whole
    delta = learner.budget.delta
    claimed = PrivacyCurve.gaussian(math.sqrt(whole)).epsilon(delta)
    return PrivacyCurve.gaussian(math.sqrt(most)).epsilon(delta), claimed


@lru_cache(maxsize=1)
def _fits(rule: BucketRule, blocks: int) -> tuple[IntArray, IntArray]:
    """The first block of every fit, and the one after its last."""
    starts, ends = array("q"), array("q")
    for closed in range(1, blocks + 1):
        for fit in rule.step(closed).fits:
            starts.append(fit.start)
            ends.append(fit.end)
    return np.frombuffer(starts, np.int64), np.frombuffer(ends, np.int64)


def _price(event: Event) -> float:
    """What adds up: mu^2, or epsilon."""
    if isinstance(event, GaussianEvent):
        return event.mu**2
    assert isinstance(event, PureEvent)
    return event.epsilon


def ledger_figures(blocks: int = LEDGER_BLOCKS) -> dict[str, dict[str, Any]]:
    """For every learner, what the worst record pays, what is claimed, and their difference."""
    found: dict[str, dict[str, Any]] = {}
    for name, learner in ledger_learners(blocks).items():
        paid, claimed = paid_and_claimed(learner, blocks)
        found[name] = {
            "paid": paid,
            "claimed": claimed,
            "difference": claimed - paid,
            "equal": abs(claimed - paid) <= ALLOWED,
        }
    return found | moment_figures(moment_learners(), blocks, allowed=ALLOWED)


def flat_learners() -> Mapping[str, tuple[Learner[Any], int]]:
    """Learners that keep a bounded part of the history, and the records of their ticks."""
    small: dict[str, Any] = _FIT | _GAUSSIAN | {"block_records": _BLOCK, "horizon": None}
    regression = WindowedRegression(window_ticks=7, tick_records=_BLOCK, **_DECLARED, **_GAUSSIAN)
    return {
        "sliding, refitted": (SlidingWindowRelease(window_records=7 * _BLOCK, **small), _BLOCK),
        "sliding, chains": (
            SlidingWindowRelease(window_records=7 * _BLOCK, refresh=None, **small),
            _BLOCK,
        ),
        "decayed": (DecayedRelease(decay=0.9, **small), _BLOCK),
        "multi-resolution, 4 levels": (MultiResolutionRelease(levels=4, **small), _BLOCK),
        "windowed regression": (regression, _BLOCK),
    }


def flat_figures(learner: Learner[Any], size: int, blocks: int) -> dict[str, Any]:
    """Milliseconds of a release, bytes of the state, resident memory: along so many blocks."""
    draw = public_generator(1)
    rows = draw.normal(size=(64 * size, _DOMAIN.dimension))
    made = _DOMAIN.admit(rows, np.where(rows[:, 0] > 0, 1.0, -1.0))
    state, noise = learner.init(), Noise.insecure(1)
    ends = [round(blocks * (look + 1) / _LOOKS) for look in range(_LOOKS)]
    times: list[float] = []
    found: dict[str, list[float]] = {"milliseconds": [], "state bytes": [], "megabytes": []}
    for number in range(1, blocks + 1):
        start = number % 64 * size
        part = Batch(made.rows[start : start + size], made.dimension)
        before = time.perf_counter()
        learner.learn(state, part)
        tick = Tick(number=number, records=number * size)
        learner.close(state, tick)
        learner.release(state, tick, noise)
        times.append(time.perf_counter() - before)
        if number in ends:
            gc.collect()
            # The median: what else the machine does is not the learner's.
            found["milliseconds"].append(1e3 * float(np.median(times)))
            found["state bytes"].append(_state_bytes(learner.snapshot(state).values()))
            found["megabytes"].append(resident_bytes() / 1e6)
            times.clear()
    return {"after blocks": ends, **found}


def _state_bytes(arrays: Any) -> float:
    return float(sum(np.asarray(value).nbytes for value in arrays))


def run(*, ledger_blocks: int = LEDGER_BLOCKS, flat_blocks: int = FLAT_BLOCKS) -> dict[str, Any]:
    """All figures."""
    return {
        "ledger": {"blocks": ledger_blocks, **ledger_figures(ledger_blocks)},
        "flat": {
            name: flat_figures(learner, size, flat_blocks)
            for name, (learner, size) in flat_learners().items()
        },
        "speed": speed(),
    }


def main(arguments: Sequence[str]) -> None:
    """Flat figures over the given number of blocks, as JSON, one learner after the other."""
    for name, (learner, size) in flat_learners().items():
        if len(arguments) < 2 or arguments[1] in name:
            found = {name: flat_figures(learner, size, int(arguments[0]))}
            sys.stdout.write(json.dumps(found) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
