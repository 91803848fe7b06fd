"""How long learners over windows and blocks take, beside a plain pass over the same records.

The floor of learners that fit a loss is a bare compiled loop, one unprotected logistic step per
record; that of the regression is one BLAS product of all rows with themselves. Both are the
processor's time, best of several, in the same run. A fit to a certificate takes many passes over
its records, and learners that fit a window again take all of it at every block.
"""

from collections.abc import Callable, Mapping
from time import process_time
from typing import Any

from dpstream.arrays import FloatArray
from dpstream.bench.online import AdmittedStream, bare_loop_seconds, logistic_stream
from dpstream.learners.learner import Learner, Tick
from dpstream.learners.window.basic_release import BasicRelease
from dpstream.learners.window.continual_release import ContinualRelease
from dpstream.learners.window.decayed_release import DecayedRelease
from dpstream.learners.window.multi_resolution import MultiResolutionRelease
from dpstream.learners.window.sliding_window import SlidingWindowRelease
from dpstream.learners.window.windowed_regression import WindowedRegression
from dpstream.losses.logistic import LogisticLoss
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit

BLOCK = 1_000
RECORDS = 16_000
WINDOW_BLOCKS = 4
_ROUNDS = 3


def learners(stream: AdmittedStream, block: int) -> Mapping[str, Learner[Any]]:
    """By name: blocks of so many records, a release after each."""
    declared: dict[str, Any] = {
        "domain": stream.domain,
        "budget": Budget(epsilon=1.0, delta=1e-6),
        "unit": Unit(),
        "neighbours": Neighbours.ZERO_OUT,
    }
    fitted: dict[str, Any] = declared | {
        "loss": LogisticLoss(),
        "ridge": 0.05,
        "radius": 3.0,
        "block_records": block,
        "horizon": None,
    }
    window = WINDOW_BLOCKS * block
    return {
        "sliding, refitted": SlidingWindowRelease(window_records=window, **fitted),
        "sliding, chains": SlidingWindowRelease(window_records=window, refresh=None, **fitted),
        "continual": ContinualRelease(base=2, **fitted),
        "basic": BasicRelease(base=2, **fitted),
        "decayed": DecayedRelease(decay=0.9, **fitted),
        "multi-resolution": MultiResolutionRelease(levels=3, **fitted),
        "windowed regression": WindowedRegression(
            window_ticks=WINDOW_BLOCKS, tick_records=block, **declared
        ),
    }


def speed(*, records: int = RECORDS, block: int = BLOCK, rounds: int = _ROUNDS) -> dict[str, Any]:
    """Times the floor, of every learner."""
    stream = logistic_stream(1, records=records)
    loop = bare_loop_seconds(stream.batch)[0]
    rows = stream.batch.scaled_features
    product = _best(lambda: rows.T @ rows, 5 * rounds)
    figures: dict[str, Any] = {
        "records": records,
        "bare loop, records per second": records / loop,
        "bare product, records per second": records / product,
    }
    for name, learner in learners(stream, block).items():
        taken = _best(lambda learner=learner: _drive(learner, stream, block), rounds)
        floor = product if isinstance(learner, WindowedRegression) else loop
        figures[name] = {"records per second": records / taken, "times its floor": taken / floor}
    return figures


def _drive(learner: Learner[Any], stream: AdmittedStream, block: int) -> None:
    state, noise = learner.init(), Noise.insecure(1)
    for number in range(1, len(stream.batch) // block + 1):
        learner.learn(state, stream.batch.slice((number - 1) * block, number * block))
        tick = Tick(number=number, records=number * block)
        learner.close(state, tick)
        learner.release(state, tick, noise)


def _best(action: Callable[[], FloatArray | None], rounds: int) -> float:
    best = float("inf")
    for turn in range(rounds + 1):
        started = process_time()
        action()
        if turn > 0:  # the first time, loops are compiled
            best = min(best, process_time() - started)
    return best
