"""The benchmark's own arithmetic, its figures at a small size, and (slow) at full size."""

import math

import numpy as np
import pytest

from dpstream.bench import regression as bench


def small_stream(early: tuple[int, ...] = ()) -> bench.BlockedStream:
    return bench.blocked_stream(
        dimension=5, records=20_000, ends=bench.regular_ends(20_000, early=early), seed=11
    )


def test_the_stream_is_the_papers() -> None:
    features, targets = bench.appendix_stream(dimension=10, records=20_000, seed=3)
    norms = np.linalg.norm(features, axis=1)
    assert norms.max() <= 1.0 + 1e-12
    fit, residual, *_ = np.linalg.lstsq(features, targets, rcond=None)
    # Of 20,000 records the estimated variance deviates by 1 %, coefficients by 0.03 %.
    assert residual[0] / 20_000 == pytest.approx(bench.NOISE_LEVEL**2, rel=0.06)
    assert np.linalg.norm(fit) == pytest.approx(1.0, abs=2e-3)


def test_regret_and_excess_are_what_they_say() -> None:
    stream = small_stream()
    x, y = stream.batch.scaled_features, stream.batch.scaled_targets[:, 0]
    model = np.full(5, 0.1)
    by_records = float(np.sum((y - x @ model) ** 2)) + 7.0 * float(model @ model)
    assert bench.risk(stream.total, model, 7.0) == pytest.approx(by_records, rel=1e-9)
    best = bench.best_risk(stream.total, 7.0)
    solution = np.linalg.solve(x.T @ x + 7.0 * np.eye(5), x.T @ y)
    assert best == pytest.approx(bench.risk(stream.total, solution, 7.0), rel=1e-9)
    assert best < by_records
    assert stream.total[0, 0] == pytest.approx(20_000)


def test_a_private_model_beats_zero_and_not_the_leader() -> None:
    stream = small_stream(early=bench.EARLY)
    regrets = bench.average_regret(stream, draws=4)
    zero = bench.zero_regret(stream)
    assert max(regrets) < 0.1 * zero
    assert min(regrets) > 0.5 * bench.following_regret(stream)
    excesses = bench.final_excess(stream, draws=4)
    assert 0.0 < min(excesses) <= max(excesses) < 0.01


def test_the_best_release_has_no_excess() -> None:
    # With no privacy worth speaking of, the learner is the offline optimum.
    stream = small_stream()
    learner = bench.learner_for(stream, ridge=bench.PENALTY)
    loud = type(learner)(
        domain=stream.domain,
        budget=bench.Budget(epsilon=1e9, delta=1e-6),
        unit=learner.unit,
        neighbours=learner.neighbours,
        horizon=len(stream.ends),
        ridge=bench.PENALTY,
        intervals=False,
    )
    models: list[np.ndarray] = []
    noise = bench.Noise.insecure(0)
    bench.fill(
        loud,
        stream,
        lambda state, tick: models.append(bench.coefficients(loud, state, tick, noise)),
    )
    excess = bench.risk(stream.total, models[-1], 1.0) - bench.best_risk(stream.total, 1.0)
    assert 0.0 <= excess / 20_000 < 1e-9


def test_noise_is_far_below_the_papers_constants() -> None:
    # d = 54, T = 100,000, replace: by formula, no sampling involved.
    found = bench.noise_below_paper()
    assert found["cross"] >= 22.0
    assert found["off_diagonal"] >= 30.0
    # The paper's node has 366 standard deviations; 8.2 nodes make a prefix, root mean square.
    assert found["paper"] == pytest.approx(366 * math.sqrt(8.2), rel=0.02)


@pytest.mark.slow
def test_small_figures() -> None:
    figures = bench.small()
    assert figures["average_regret"]["mean"] <= 8e-5
    assert figures["final_excess"]["mean"] <= 4.6e-6


@pytest.mark.slow
def test_every_record_figure() -> None:
    assert bench.every_record()["final_excess"]["mean"] <= 1.2e-5


@pytest.mark.slow
def test_large_figures() -> None:
    figures = bench.large()
    assert figures["average_regret"]["mean"] <= 6e-6
    assert figures["final_excess"]["mean"] <= 1.8e-5
