"""PrivIncERM from its records to what its refits measure: neither more nor less than claimed.

Every Gaussian measurement of every refit is recorded, without its noise, as the exact value in
units of the noise's deviation; over neighbouring streams the sum of squared differences is mu
squared of the whole stream, to be compared with the budget's.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from dpstream.domain.domain import Domain
from dpstream.geometry.l2_ball import L2Ball
from dpstream.learners.incremental import priv_inc_erm
from dpstream.learners.incremental.priv_inc_erm import PrivIncERM
from dpstream.learners.learner import Tick
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.gaussian import measure_gaussian
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import gaussian_mu
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.release import Measurement
from dpstream.solvers import gradient, moment_regression
from dpstream.solvers.mirror_descent import MirrorDescent
from dpstream.solvers.moment_regression import MomentRegression

HORIZON, EVERY = 8, 3
Record = tuple[tuple[float, float], float] | None


def build(neighbours: Neighbours, **settings: object) -> PrivIncERM:
    given: dict[str, object] = {
        "domain": Domain.vectors(2, norm_bound=1.0, target_bound=1.0),
        "budget": Budget(epsilon=1.0, delta=1e-6),
        "unit": Unit(),
        "neighbours": neighbours,
        "horizon": HORIZON,
        "loss": SquaredLoss(),
        "constraint": L2Ball(dimension=2),
        "solver": MomentRegression(),
        "tick_records": 1,
        "refit_every": EVERY,
    }
    return PrivIncERM(**(given | settings))


def measured(
    model: PrivIncERM, records: Sequence[Record], monkeypatch: pytest.MonkeyPatch
) -> np.ndarray:
    """All exact values over their noise; one record a tick. The noise is the same everywhere."""
    seen: list[np.ndarray] = []

    def spy(value: np.ndarray, exponent: int, *, sigma: Any, **rest: Any) -> Measurement:
        seen.append(np.ldexp(value.astype(float), exponent) / sigma)
        quiet = np.zeros_like(value)
        # Released values must not differ between the two streams: adaptivity is not at stake.
        return measure_gaussian(quiet, exponent, sigma=sigma, **rest)

    monkeypatch.setattr(moment_regression, "measure_gaussian", spy)
    monkeypatch.setattr(gradient, "measure_gaussian", spy)
    state = model.init()
    for number, record in enumerate(records, start=1):
        x = [[np.nan, np.nan]] if record is None else [record[0]]
        y = [np.nan if record is None else record[1]]
        model.learn(state, model.domain.admit(np.array(x), np.array(y)))
        tick = Tick(number=number, records=number)
        model.close(state, tick)
        model.release(state, tick, Noise.insecure(1))
    return np.concatenate(seen)


def shift(
    model: PrivIncERM,
    place: int,
    first: Record,
    second: Record,
    monkeypatch: pytest.MonkeyPatch,
) -> float:
    streams: list[list[Record]] = []
    for own in (first, second):
        records: list[Record] = [((0.3, -0.5), 0.2)] * HORIZON
        records[place] = own
        streams.append(records)
    parts = [measured(model, records, monkeypatch) for records in streams]
    return float(np.linalg.norm(parts[0] - parts[1]))


@pytest.mark.parametrize("shares", ["equal", "harmonic"])
def test_the_first_record_pays_the_whole_budget(
    shares: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(Neighbours.ZERO_OUT, shares=shares)
    mu = gaussian_mu(model.budget)
    # Eight ticks, a refit at every third: two refits, and a tail that none of them sees.
    shifts = [shift(model, place, ((1.0, 0.0), 1.0), None, monkeypatch) for place in range(HORIZON)]
    assert max(shifts) == shifts[0]
    assert 0.99 * mu <= shifts[0] <= mu
    assert shifts[3] < 0.8 * mu
    assert shifts[7] == 0.0


def test_a_record_against_another(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(Neighbours.REPLACE)
    mu = gaussian_mu(model.budget)
    found = max(
        shift(model, 0, ((1.0, 0.0), 1.0), ((np.cos(a), np.sin(a)), y), monkeypatch)
        for a in np.linspace(0, np.pi, 25)
        for y in (-1.0, 1.0)
    )
    assert 0.97 * mu <= found <= mu


def test_endless_shares_stay_below_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(Neighbours.ZERO_OUT, horizon=None)
    mu = gaussian_mu(model.budget)
    found = shift(model, 0, ((1.0, 0.0), 1.0), None, monkeypatch)
    # Two refits of an endless number: their shares are 1 / (2 ln(2)^2) and 1 / (3 ln(3)^2).
    part = (1 / (2 * np.log(2) ** 2) + 1 / (3 * np.log(3) ** 2)) / 2.1098
    assert 0.99 * mu * np.sqrt(part) <= found <= mu * np.sqrt(part) * (1 + 1e-4)


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_gradients_at_released_points_stay_within_the_budget(
    neighbours: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(neighbours, solver=MirrorDescent(steps=5))
    mu = gaussian_mu(model.budget)
    other: Record = None if neighbours is Neighbours.ZERO_OUT else ((1.0, 0.0), -1.0)
    found = shift(model, 0, ((1.0, 0.0), 1.0), other, monkeypatch)
    assert 0.3 * mu <= found <= mu


def test_refits_that_each_spend_everything_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    # Controls: shares that sum to too much, and to too little.
    model = build(Neighbours.ZERO_OUT)
    mu = gaussian_mu(model.budget)
    for fraction in (1.0, 0.2):
        monkeypatch.setattr(priv_inc_erm, "refit_fraction", lambda *_rest, own=fraction: own)
        found = shift(model, 0, ((1.0, 0.0), 1.0), None, monkeypatch)
        assert not 0.99 * mu <= found <= mu
