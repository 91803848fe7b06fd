"""How good and how fast the online learners are.

Quality, in the mean over draws of the stream and of the noise, at (1, 1e-6) and ``zero_out``:

- *logistic*: d = 54, ten normal columns and two one-hots of 4 and 40, rows scaled into the unit
  ball, true weights of norm 8, 500,000 records. The figure is the average log-loss of released
  models on the records that follow, less the best fixed model's on the whole stream.
- *digits*: scikit-learn's digits, shuffled and repeated to 20,000 with small jitter, softmax, a
  release every 512: accuracy of released models on the records that follow, and of the last one
  on the whole stream.

Nothing is tuned on a stream: clips, priors and weights are the defaults or named here. Speed is a
ratio to floors measured in the same run, all in processor time: a plain compiled loop of gradient
steps; one whose steps shrink and stay in a ball; and the keyed noise of a release alone.

Run it by ``python -m dpstream.bench.online [name ...]``.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from dpstream.arrays import FloatArray
from dpstream.bench.history import Watch
from dpstream.domain.batch import Batch
from dpstream.domain.column import Numeric
from dpstream.domain.domain import Domain
from dpstream.domain.target import LabelTarget
from dpstream.engine.schedule import Thinning
from dpstream.learners.learner import Tick
from dpstream.learners.online.follow_the_leader import FollowTheLeader
from dpstream.learners.online.online_algorithm import OnlineAlgorithm
from dpstream.learners.online.pgiga import GradientAscent
from dpstream.learners.online.pigd import ImplicitGradientDescent
from dpstream.learners.online.pocp import POCP
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.softmax import SoftmaxLoss
from dpstream.mechanisms.gaussian import measure_gaussian
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit

WATCHED = (
    Watch("logistic excess/with measured curvature", "lower"),
    Watch("digits accuracy/private, *", "higher"),
    Watch("learner speed/*, over plain loop", "higher"),
    Watch("release at every record/over noise alone", "higher"),
)

BUDGET = Budget(epsilon=1.0, delta=1e-6)
NO_PRIVACY = Budget(epsilon=1e9, delta=1e-6)
DRAWS = 8

DIMENSION, RECORDS = 54, 500_000
WEIGHTS_NORM = 8.0
SCHEDULE = Thinning(start=64, every=1024, ticks_per_doubling=4)
"""Dense early, where a first model is worth most, then a release per 1024 records."""

MODULUS = 0.1
"""Of perturbed learners: it enters their noise, not their speed."""

DIGITS_RECORDS, DIGITS_TICK = 20_000, 512
DIGITS_NORM = 8.0 / 3.0**0.5
"""The norm of 64 centred pixels that are spread evenly over their bounds: no image is looked at."""

DIGITS_CLIP = 1.0
"""Of slopes: only confident mistakes have longer ones."""


@dataclass(frozen=True)
class AdmittedStream:
    """A stream with the places of its public ticks.

    Attributes:
        domain: its domain.
        batch: all records.
        ends: how many records there are at each tick.
    """

    domain: Domain
    batch: Batch
    ends: tuple[int, ...]


def logistic_records(seed: int, *, records: int = RECORDS) -> tuple[FloatArray, FloatArray]:
    """Features in the unit ball and labels of a logistic model."""
    generator = public_generator(seed)
    features = np.zeros((records, DIMENSION))
    features[:, :10] = generator.standard_normal((records, 10))
    rows = np.arange(records)
    features[rows, 10 + generator.integers(0, 4, records)] = 1.0
    features[rows, 14 + generator.integers(0, 40, records)] = 1.0
    features /= np.maximum(1.0, np.linalg.norm(features, axis=1, keepdims=True))
    weights = generator.standard_normal(DIMENSION)
    weights *= WEIGHTS_NORM / np.linalg.norm(weights)
    chances = special.expit(features @ weights)
    return features, np.where(generator.uniform(size=records) < chances, 1.0, -1.0)


def logistic_stream(seed: int, *, records: int = RECORDS) -> AdmittedStream:
    """The synthetic stream, admitted."""
    domain = Domain.vectors(DIMENSION, norm_bound=1.0, target_bound=1.0)
    batch = domain.admit(*logistic_records(seed, records=records))
    ticks = SCHEDULE.horizon_ticks(records)
    ends = [SCHEDULE.end(tick) for tick in range(1, ticks + 1)]
    return AdmittedStream(domain, batch, tuple(ends if ends[-1] == records else [*ends, records]))


def digits_stream(seed: int) -> AdmittedStream:
    """Scikit-learn's digits as a stream."""
    from sklearn.datasets import load_digits

    generator = public_generator(seed)
    pixels, labels = load_digits(return_X_y=True)
    images, labels = np.asarray(pixels, np.float64), np.asarray(labels, np.int64)
    count = len(images)
    rounds = -(-DIGITS_RECORDS // count)
    order = np.concatenate([generator.permutation(count) for _ in range(rounds)])[:DIGITS_RECORDS]
    images = images[order] + generator.normal(0.0, 0.5, (DIGITS_RECORDS, 64))
    domain = Domain(
        [Numeric(f"pixel{j}", 0.0, 16.0) for j in range(64)],
        LabelTarget("digit", range(10)),
        norm_bound=DIGITS_NORM,
    )
    columns = {f"pixel{j}": images[:, j] for j in range(64)}
    batch = domain.admit(columns | {"digit": labels[order].astype(str)})
    ends = (*range(DIGITS_TICK, DIGITS_RECORDS, DIGITS_TICK), DIGITS_RECORDS)
    return AdmittedStream(domain, batch, ends)


@dataclass(frozen=True)
class Course:
    """What released models did on a stream.

    Attributes:
        loss: mean loss of each record at the model released before it.
        accuracy: share of records that it classified rightly.
        final_accuracy: of the last model, on the whole stream.
        by_tick: mean loss of each tick's records.
    """

    loss: float
    accuracy: float
    final_accuracy: float
    by_tick: FloatArray


def follow(learner: FollowTheLeader, stream: AdmittedStream, noise: Noise) -> Course:
    """Run a learner through a stream with a release at every tick."""
    state, start = learner.init(), 0
    losses: list[float] = []
    right = 0
    for number, stop in enumerate(stream.ends, start=1):
        part = stream.batch.slice(start, stop)
        loss, hits = judged(learner, part, state.point)
        losses.append(loss / max(stop - start, 1))
        right += hits
        tick = Tick(number=number, records=stop)
        learner.learn(state, part)
        learner.close(state, tick)
        learner.release(state, tick, noise)
        start = stop
    sizes = np.diff((0, *stream.ends))
    final = judged(learner, stream.batch, state.point)[1]
    by_tick = np.array(losses)
    records = stream.ends[-1]
    return Course(float(by_tick @ sizes) / records, right / records, final / records, by_tick)


def judged(learner: FollowTheLeader, part: Batch, point: FloatArray) -> tuple[float, int]:
    """Sum of losses and number of right classes of records at a released model."""
    stack = learner.stack
    scores = stack.scores(part.rows, stack.published(point))
    targets = part.scaled_targets
    if stack.classes == 1:
        hits = np.count_nonzero((scores[:, 0] > 0) == (targets[:, 0] > 0))
    else:
        hits = np.count_nonzero(scores.argmax(axis=1) == targets.argmax(axis=1))
    return float(stack.losses(scores, targets).sum()), int(hits)


def best_fixed_loss(stream: AdmittedStream) -> float:
    """Mean log-loss of the best fixed model in hindsight; not private, for comparison only."""
    features, targets = stream.batch.scaled_features, stream.batch.scaled_targets[:, 0]
    point = np.zeros(features.shape[1])
    for _ in range(12):
        margins = targets * (features @ point)
        chances = special.expit(-margins)
        gradient = -(targets * chances) @ features
        bend = (features * (chances * (1.0 - chances))[:, None]).T @ features
        point -= np.linalg.solve(bend + 1e-9 * np.eye(len(point)), gradient)
    return float(np.logaddexp(0.0, -targets * (features @ point)).mean())


def leader(stream: AdmittedStream, budget: Budget = BUDGET, **settings: Any) -> FollowTheLeader:
    """The learner under test on a stream: every choice that is not named is left to it."""
    chosen: dict[str, Any] = {"loss": LogisticLoss(), "horizon": len(stream.ends)}
    if stream.domain.target_count > 1:
        loss = SoftmaxLoss(classes=stream.domain.target_count)
        chosen |= {"loss": loss, "slope_clip": DIGITS_CLIP}
    return FollowTheLeader(
        domain=stream.domain,
        budget=budget,
        unit=Unit(),
        neighbours=Neighbours.ZERO_OUT,
        **(chosen | settings),
    )


def logistic_quality(*, draws: int = DRAWS, records: int = RECORDS) -> dict[str, Any]:
    """Average log-loss excess over the best fixed model, per kind of learner."""
    kinds: Mapping[str, tuple[Budget, dict[str, Any]]] = {
        "with measured curvature": (BUDGET, {}),
        "diagonal curvature": (BUDGET, {"curvature": "diagonal"}),
        "gradients alone": (BUDGET, {"curvature": "none"}),
        "without privacy": (NO_PRIVACY, {}),
    }
    excess: dict[str, list[float]] = {name: [] for name in kinds}
    for draw in range(draws):
        stream = logistic_stream(100 + draw, records=records)
        best = best_fixed_loss(stream)
        for name, (budget, settings) in kinds.items():
            course = follow(leader(stream, budget, **settings), stream, Noise.insecure(draw))
            excess[name].append(course.loss - best)
    figures: dict[str, Any] = {name: float(np.mean(values)) for name, values in excess.items()}
    figures["draws"] = draws
    spread = np.std(excess["with measured curvature"], ddof=1) / np.sqrt(draws) if draws > 1 else 0
    figures["standard error"] = float(spread)
    return figures


def digits_quality(*, draws: int = DRAWS) -> dict[str, Any]:
    """Accuracy over time and in the end."""
    figures: dict[str, Any] = {"draws": draws}
    for name, budget in (("private", BUDGET), ("without privacy", NO_PRIVACY)):
        courses: list[Course] = []
        for draw in range(draws):
            stream = digits_stream(200 + draw)
            courses.append(follow(leader(stream, budget), stream, Noise.insecure(draw)))
        figures[f"{name}, over time"] = float(np.mean([course.accuracy for course in courses]))
        figures[f"{name}, final"] = float(np.mean([course.final_accuracy for course in courses]))
    return figures


def learner_speed(*, records: int = 200_000, tick: int = 1000) -> dict[str, Any]:
    """Records per second with a release every ``tick``, over those of bare compiled loops."""
    full = logistic_stream(1, records=records)
    stream = AdmittedStream(full.domain, full.batch, tuple(range(tick, records + 1, tick)))
    learners: dict[str, FollowTheLeader | POCP] = {
        f"leader, curvature {curvature}": leader(stream, curvature=curvature)
        for curvature in ("none", "diagonal", "full")
    }
    for algorithm in (GradientAscent(), ImplicitGradientDescent()):
        learners[f"perturbed {algorithm.name}"] = perturbed(stream, algorithm)
    plain, projected = bare_loop_seconds(stream.batch)
    figures: dict[str, Any] = {
        "plain loop, records per second": records / plain,
        "projected loop, records per second": records / projected,
    }
    for name, learner in learners.items():
        seconds = _fastest(lambda learner=learner: _drive(learner, stream))
        figures[f"{name}, over plain loop"] = plain / seconds
        figures[f"{name}, over projected loop"] = projected / seconds
    return figures


def perturbed(stream: AdmittedStream, algorithm: OnlineAlgorithm) -> POCP:
    """A perturbed learner on a stream, with a release at each of its ticks."""
    return POCP(
        domain=stream.domain,
        budget=BUDGET,
        unit=Unit(),
        neighbours=Neighbours.ZERO_OUT,
        releases=len(stream.ends),
        algorithm=algorithm,
        loss=LogisticLoss(),
        modulus=MODULUS,
    )


def _drive(learner: FollowTheLeader | POCP, stream: AdmittedStream) -> None:
    state: Any = learner.init()
    noise, start = Noise.insecure(1), 0
    for number, stop in enumerate(stream.ends, start=1):
        tick = Tick(number=number, records=stop)
        learner.learn(state, stream.batch.slice(start, stop))
        learner.close(state, tick)
        learner.release(state, tick, noise)
        start = stop


def _fastest(run: Callable[[], None], *, rounds: int = 5) -> float:
    """Processor time: other processes on the machine do not count."""
    seconds: list[float] = []
    for _ in range(rounds):
        before = time.process_time()
        run()
        seconds.append(time.process_time() - before)
    return min(seconds)


def bare_loop_seconds(batch: Batch) -> tuple[float, float]:
    """Processor times of plain and of projected compiled steps over the records as float64."""
    from dpstream.bench.bare_loop import plain_steps, projected_steps

    features = np.ascontiguousarray(batch.scaled_features)
    labels = batch.scaled_targets[:, 0].copy()
    runs: tuple[Callable[[], None], ...] = (
        lambda: plain_steps(features, labels, 0.1, np.zeros(batch.dimension)),
        lambda: projected_steps(features, labels, 1.0, 10.0, np.zeros(batch.dimension)),
    )
    for run in runs:
        run()
    return _fastest(runs[0]), _fastest(runs[1])


def every_record_speed(*, records: int = 4000) -> dict[str, Any]:
    """A release at every record, over the speed at which its noise alone can be drawn.

    The floor draws as many exactly rounded normals, bound to address and value, and adds them to
    a vector of zeros.
    """
    full = logistic_stream(1, records=records)
    stream = AdmittedStream(full.domain, full.batch, tuple(range(1, records + 1)))
    learner = perturbed(stream, ImplicitGradientDescent())
    values = np.zeros(DIMENSION, np.int64)

    def draws() -> None:
        noise = Noise.insecure(1)
        for number in range(records):
            measure_gaussian(values, 0, sigma=2.0**20, address=(number,), noise=noise)

    learner.learn(learner.init(), full.batch.slice(0, 1))
    floor = _fastest(draws)
    seconds = _fastest(lambda: _drive(learner, stream))
    return {"noise alone, records per second": records / floor, "over noise alone": floor / seconds}


PARTS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "logistic excess": logistic_quality,
    "digits accuracy": digits_quality,
    "learner speed": learner_speed,
    "release at every record": every_record_speed,
}


def run(names: Sequence[str] = tuple(PARTS)) -> dict[str, Any]:
    """All figures, or the named ones."""
    return {name: PARTS[name]() for name in names}


if __name__ == "__main__":
    chosen = tuple(sys.argv[1:]) or tuple(PARTS)
    sys.stdout.write(json.dumps(run(chosen), indent=2) + "\n")
