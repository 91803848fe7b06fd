"""What the online learners reach: figures of the benchmark and shapes of the papers' experiments.

Thresholds of the slow tests are the stated targets; figures are means over draws of stream and
noise whose standard errors (below 1e-4 for the loss, 2e-3 for accuracy) leave them many errors
away, and seeds are fixed.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from dpstream.bench import online as bench
from dpstream.errors import SourceError
from dpstream.learners.online.release_price import ReleasePrice
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.public import public_generator
from dpstream.reproduce import online as experiment
from dpstream.reproduce.expiration import expiry_figures
from dpstream.reproduce.quadratic_stream import (
    QuadraticStream,
    our_quadratic_regret,
    printed_quadratic_regret,
    quadratic_records,
)


@pytest.mark.slow
def test_the_logistic_streams_excess() -> None:
    figures = bench.logistic_quality(draws=8)
    assert figures["with measured curvature"] <= 0.0030
    assert figures["standard error"] < 2e-4
    # Measured curvature is what reaches it.
    assert figures["gradients alone"] > figures["with measured curvature"]
    assert figures["without privacy"] < figures["with measured curvature"]


@pytest.mark.slow
def test_the_digits_accuracy() -> None:
    figures = bench.digits_quality(draws=8)
    assert figures["private, over time"] >= 0.88
    assert figures["private, final"] >= 0.93
    assert figures["without privacy, final"] >= 0.96


def test_a_short_logistic_stream_is_learned_privately() -> None:
    stream = bench.logistic_stream(5, records=60_000)
    best = bench.best_fixed_loss(stream)
    private = bench.follow(bench.leader(stream), stream, Noise.insecure(1))
    plain = bench.follow(bench.leader(stream, bench.NO_PRIVACY), stream, Noise.insecure(1))
    assert best < plain.loss < private.loss < best + 0.02
    # The last tenth of the releases is closer to the best than the first.
    tenth = len(private.by_tick) // 10
    assert np.mean(private.by_tick[-tenth:]) < np.mean(private.by_tick[:tenth]) - 0.03


def test_the_benchmarks_parts_run() -> None:
    speed = bench.leader_speed(records=4000)
    every = bench.every_record_speed(records=200)
    assert all(value > 0 for value in (*speed.values(), *every.values()))
    assert set(bench.PARTS) >= {"logistic excess", "digits accuracy"}


def test_noise_regret_grows_as_the_square_root_of_the_horizon() -> None:
    def total_noise(schedule: str, releases: int) -> float:
        known = None if schedule == "endless" else releases
        price = ReleasePrice(schedule=schedule, releases=known)  # type: ignore[arg-type]
        return math.fsum(1 / j / math.sqrt(price.price(j)) for j in range(1, releases + 1))

    horizons = np.array([1000, 10_000, 100_000])
    slopes = {
        schedule: np.polyfit(
            np.log(horizons), np.log([total_noise(schedule, int(t)) for t in horizons]), 1
        )[0]
        for schedule in ("optimal", "endless", "uniform")
    }
    assert abs(slopes["optimal"] - 0.5) < 0.03
    # T^(1/2) ln T, and for uniform prices as well.
    assert 0.5 < slopes["endless"] < 0.72
    assert 0.5 < slopes["uniform"] < 0.72
    # The price of not knowing the horizon stays below a factor of three.
    assert total_noise("endless", 100_000) < 3.0 * total_noise("optimal", 100_000)


def test_pqftl_beats_its_printed_constants_at_every_epsilon() -> None:
    drawn = quadratic_records(dimension=4, records=8000, seed=3)
    stream = QuadraticStream.admitted(*drawn, tick=200)
    ours = [our_quadratic_regret(stream, epsilon, draws=2) for epsilon in (0.1, 1.0, 10.0)]
    printed = [printed_quadratic_regret(stream, epsilon, draws=2) for epsilon in (0.1, 1.0, 10.0)]
    assert ours[0] > ours[1] > ours[2] > 0
    assert all(mine < theirs for mine, theirs in zip(ours, printed, strict=True))


def test_regret_under_expiration_grows_with_the_window_and_slowly_with_time() -> None:
    figures = expiry_figures(records=1 << 12, draws=2)
    paths = {name: np.array(path) for name, path in figures["total regret"].items()}
    ends = {name: path[-1] for name, path in paths.items()}
    assert ends["W = 4, projection"] < ends["W = 64, projection"] < ends["W = 256, projection"]
    assert ends["W = 64, Gamma"] > ends["W = 64, projection"]
    oracle = ends["W = 64, linear oracle"] / ends["W = 64, projection"]
    assert 0.7 < oracle < 1.4
    # Logarithmic growth: past the window the last doubling adds no more than the one before it
    # (linear growth would add twice as much), within the noise of two draws.
    path = paths["W = 4, projection"]
    assert path[-1] - path[-2] < 1.3 * (path[-2] - path[-3])


def test_the_experiment_writes_numbers_and_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = public_generator(1)
    count = 3000
    cover = generator.integers(1, 4, count)
    numbers = generator.integers(0, 200, (count, 10))
    numbers[:, 0] = np.where(cover == 2, 2000, 4000)
    np.savez(
        tmp_path / "covtype.npz",
        num=numbers,
        wilderness=generator.integers(0, 4, count),
        soil=generator.integers(0, 40, count),
        cover=cover,
    )
    monkeypatch.setattr(experiment, "EPSILONS", (1.0, 10.0))
    result = experiment.online(
        tmp_path, tmp_path, draws=1, records=2000, shuffles=1, expiry_records=1 << 10
    )
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    forest = result["figures"]["2c: PIGD on forest cover types"]
    assert 0.0 <= forest["ours"]["1"] <= 1.0
    assert set(forest) == {
        "quantity",
        "ours",
        "printed constants",
        "follow the leader",
        "without privacy",
    }
    page = Path(result["page"]).read_text()
    assert page.count("<svg") == 3
    np.savez(tmp_path / "covtype.npz", num=np.zeros(3))
    with pytest.raises(SourceError, match=r"covtype\.npz"):
        experiment.forest_records(tmp_path)
