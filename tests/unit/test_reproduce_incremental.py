"""The incremental experiment: its streams, its simulated releases, its verdicts and its shapes."""

import math
from pathlib import Path

import numpy as np
import pytest

from dpstream.domain.domain import Domain
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.learners.learner import Tick
from dpstream.mechanisms.mechanism import Noise
from dpstream.reproduce.curve import Curve
from dpstream.reproduce.incremental import PROJECTIONS, compared
from dpstream.reproduce.incremental_claim import (
    crossing,
    incremental_claims,
    incremental_pictures,
)
from dpstream.reproduce.incremental_risk import (
    descent_hardest,
    first_excess,
    first_hardest,
    first_learner,
    printed_bound,
    refit_hardest,
    second_excess,
    second_hardest,
    second_learner,
)
from dpstream.reproduce.weighted_stream import (
    EFFECTS,
    PARTS,
    popular_stream,
    signal_stream,
    sphere_stream,
)


def test_weights_stand_for_repeated_records() -> None:
    learner = first_learner(L2Ball(dimension=3), records=50)
    stream = signal_stream(learner.domain, [(30, 0, 0.5), (20, 2, 1.0)])
    x = np.zeros((50, 3))
    x[:30, 0], x[30:, 2] = 0.5, 1.0
    point = np.array([0.3, 0.2, -0.4])
    assert stream.records == 50
    assert stream.risk(point) == pytest.approx(float(np.sum((1.0 - x @ point) ** 2)), rel=1e-6)
    z = np.column_stack([np.ones(50), x, np.ones(50)])
    exact = learner.layout.matrix(stream.moments(learner.layout, stream.batch))
    measured = learner.layout.variances(1.0) < np.inf
    np.testing.assert_allclose(exact[measured], (z.T @ z)[measured], atol=1e-4)
    # Over the disc of the first and the third feature: cos at the first, sin at the third.
    angle = np.linspace(0.0, np.pi / 2, 100_001)
    risks = 30 * (1 - 0.5 * np.cos(angle)) ** 2 + 20 * (1 - np.sin(angle)) ** 2
    assert stream.least(L2Ball(dimension=3)) == pytest.approx(float(risks.min()), rel=1e-5)


def test_random_streams_are_what_they_say() -> None:
    domain = Domain.vectors(24, norm_bound=1.0, target_bound=1.0)
    even = sphere_stream(domain, 10_000, seed=1).batch.scaled_features
    np.testing.assert_allclose(np.linalg.norm(even, axis=1), 1.0, atol=1e-4)
    stream = popular_stream(domain, 10_000, seed=1)
    rows = stream.batch.scaled_features
    assert np.all(np.count_nonzero(rows, axis=1) == PARTS)
    often = np.count_nonzero(rows, axis=0)
    assert often[0] > 2 * often[3] > 2 * often[12]
    truth = np.zeros(24)
    truth[: len(EFFECTS)] = EFFECTS
    # The residual's variance is 0.01; 4096 rows know it within 2.2 %: five deviations.
    assert stream.risk(truth) / stream.records == pytest.approx(0.01, rel=0.11)


def test_simulated_releases_have_the_excess_of_real_ones() -> None:
    records, draws = 24, 200
    learner = first_learner(L2Ball(dimension=2), records=records, epsilon=200.0)
    stream = signal_stream(learner.domain, [(16, 0, 1.0), (8, 1, 0.5)])
    batch = learner.domain.admit(
        np.repeat([[1.0, 0.0], [0.0, 0.5]], [16, 8], axis=0), np.ones(records)
    )
    state = learner.init()
    for number in range(1, records + 1):
        learner.learn(state, batch.slice(number - 1, number))
        tick = Tick(number=number, records=number)
        learner.close(state, tick)
    held, least = learner.snapshot(state), stream.least(L2Ball(dimension=2))
    real: list[float] = []
    for draw in range(draws):
        model = learner.release(learner.restore(held), tick, Noise.insecure(draw)).model
        found = np.array(model["targets"][0]["coefficients"]["estimate"])
        real.append(stream.risk(found) - least)
    simulated = first_excess(learner, stream, draws=draws)
    error = np.hypot(np.std(real), np.std(simulated)) / np.sqrt(draws)
    # Two means of 200: six deviations, a false alarm below 1e-8.
    assert abs(np.mean(real) - simulated.mean()) < 6 * error
    assert error < 0.15 * simulated.mean()


def test_excess_grows_as_it_should_from_one_size_to_another() -> None:
    small, large = (
        refit_hardest(L2Ball(dimension=32), records=n, draws=4).mean() for n in (10_000, 80_000)
    )
    assert 1.6 < large / small < 2.5  # 2: the cube root of 8
    quiet, loud = (
        refit_hardest(L2Ball(dimension=32), records=100_000, epsilon=e, draws=4).mean()
        for e in (2.0, 0.25)
    )
    assert 2.8 < loud / quiet < 5.0  # 4: the power 2/3 of 8
    printed = refit_hardest(L2Ball(dimension=32), records=80_000, draws=4, printed=True).mean()
    assert printed > 5 * large
    few, many = (
        first_hardest(L2Ball(dimension=d), records=100_000, draws=6).mean() for d in (32, 128)
    )
    assert 1.4 < many / few < 2.6  # 2: the root of 4
    short, long = (
        first_hardest(L2Ball(dimension=32), records=n, draws=4).mean() for n in (10**4, 10**6)
    )
    assert 1.0 < long / short < 1.5**1.5  # at most the power 3/2 of log T


def test_a_projection_pays_for_the_papers_descent_in_many_dimensions() -> None:
    ball, settings = L1Ball(dimension=512), {"records": 10_000, "draws": 1}
    first = descent_hardest([first_learner(ball, records=10_000)], strengths=(32.0,), **settings)
    projected = [second_learner(ball, records=10_000, seed=seed) for seed in range(PROJECTIONS)]
    assert projected[0].features.target < 128
    second = descent_hardest(projected, strengths=(32.0,), **settings)
    assert len(second) == PROJECTIONS
    assert second.mean() < 0.9 * float(first.mean())


def test_certified_learners_meet_where_nothing_is_projected() -> None:
    ball = L1Ball(dimension=16)
    second = second_learner(ball, records=10_000, seed=1)
    assert second.features.trivial
    first = first_learner(ball, records=10_000)
    stream = popular_stream(first.domain, 10_000, seed=3)
    np.testing.assert_allclose(
        second_excess(second, stream, draws=2), first_excess(first, stream, draws=2)
    )
    found = second_hardest([second], records=10_000, draws=2)
    np.testing.assert_allclose(found, first_hardest(ball, records=10_000, draws=2))


def test_ours_is_ten_times_below_the_papers_constants() -> None:
    figures = compared()
    assert figures["times lower"]["worst of ours against best of theirs"] > 10.0
    assert figures["ours"]["same stream"] < figures["zero model, same stream"]


def test_the_papers_bound_is_that_of_its_noise() -> None:
    ball = L2Ball(dimension=32)
    small, large = (printed_bound(ball, records=2**power - 1) for power in (15, 21))
    # Sensitivity 2, epsilon / 2 and delta / 2 for each of the two trees: 2 (2 s sqrt(d) 2), with
    # s = log T 2 sqrt(2 ln(2 / delta')) / epsilon' in each of log T nodes.
    node = 15 * 2 * math.sqrt(2 * math.log(2 / 5e-7)) / 0.5
    assert small == pytest.approx(8 * math.sqrt(32) * node * math.sqrt(15), rel=1e-3)
    assert large / small == pytest.approx((21 / 15) ** 1.5, rel=1e-3)


def row(name: str, axis: str, slope: float, *, expected: str = "as printed") -> dict[str, object]:
    x = (8.0, 64.0, 512.0)
    excess = np.outer([0.99, 1.01], [size**slope for size in x])
    return Curve(name=name, axis=axis, expected=expected, x=x, excess=excess).to_json()


def test_crossings() -> None:
    rising, level = row("a", "dimension", 0.5), row("b", "dimension", 0.0)
    level["excess"] = [10.0, 10.0, 10.0]
    assert crossing(rising, level) == pytest.approx(100.0)
    assert crossing(level, rising) is None
    low = row("c", "dimension", 0.0)
    assert crossing(rising, low) == 8.0


def test_sizes_below_one_have_no_slope_against_their_logarithm() -> None:
    curve = Curve(
        name="a", axis="epsilon", expected="-1", x=(0.5, 1.0, 2.0), excess=np.ones((2, 3))
    )
    assert curve.to_json()["slope_against_logarithm"] is None


def sides(times: float) -> dict[str, object]:
    lower = {"same stream": times, "own hardest weak signal": times}
    return {"times lower": lower, "as printed": {"same stream": 1.0}}


def verdicts(slope: float, flat: float, times: float) -> dict[str, bool]:
    rows = [
        row("PrivIncERM", "records", slope),
        row("PrivIncReg1", "records", 0.1 if times > 10 else 0.9),
        row("PrivIncReg1 as printed", "records", 0.1 if times > 10 else 0.9),
        row("PrivIncReg1", "dimension", slope + 1 / 6),
    ]
    sparse = [
        row("PrivIncReg1, the paper's descent", "dimension", slope + 1 / 6),
        row("PrivIncReg2, the paper's descent", "dimension", flat, expected="0 (log d)"),
        row("PrivIncReg1, certified", "dimension", flat),
        row("PrivIncReg2, certified", "dimension", flat, expected="0 (log d)"),
    ]
    popular = [row("PrivIncReg1", "dimension", 0.3), row("PrivIncReg2", "dimension", flat)]
    proven = [size**0.5 for size in (8.0, 64.0, 512.0)]
    found = incremental_claims(rows, proven, sparse, popular, sides(times))
    return {str(item["name"]): bool(item["held"]) for item in found}


def test_claims_hold_and_fail() -> None:
    good, bad = verdicts(1 / 3, 0.1, 12.0), verdicts(0.7, 0.9, 9.0)
    assert len(good) == len(bad) == 11
    assert all(good.values())
    assert not any(bad.values())


def test_pictures_are_kept(tmp_path: Path) -> None:
    rows = [row("PrivIncERM", axis, 0.3) for axis in ("records", "dimension", "epsilon")]
    pair = [row("a", "dimension", 0.5), row("b", "dimension", 0.1)]
    names = incremental_pictures(rows, pair, pair, tmp_path)
    assert len(names) == 5
    assert all((tmp_path / name).read_text().startswith("<svg") for name in names)
