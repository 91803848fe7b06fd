"""Windowed and decayed regression: exact without noise, counts measured, forgetting."""

from typing import Any

import numpy as np
import pytest

from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.errors import ConfigurationError
from dpstream.learners.learner import Outcome, Tick
from dpstream.learners.window.windowed_regression import WindowedRegression
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.ledger import Ledger
from dpstream.privacy.unit import Neighbours, Unit

DOMAIN = Domain.vectors(3, norm_bound=1.0, target_bound=1.0)
RECORDS, TICKS, WINDOW = 60, 14, 4
TRUTH = np.array([0.5, -0.3, 0.2])


def learner(**changes: Any) -> WindowedRegression:
    settings: dict[str, Any] = {
        "domain": DOMAIN,
        "budget": Budget(epsilon=1.0, delta=1e-6),
        "unit": Unit(),
        "neighbours": Neighbours.ZERO_OUT,
        "window_ticks": WINDOW,
        "tick_records": RECORDS,
    }
    return WindowedRegression(**(settings | changes))


def stream() -> tuple[np.ndarray, np.ndarray, Batch]:
    """The truth changes its sign after half of the ticks."""
    generator = public_generator(6)
    rows = generator.normal(size=(RECORDS * TICKS, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    signs = np.where(np.arange(len(rows)) < len(rows) // 2, 1.0, -1.0)
    targets = signs * (rows @ TRUTH)
    return rows, targets, DOMAIN.admit(rows, targets)


def run(chosen: WindowedRegression, batch: Batch, *, resume: bool = False) -> list[Outcome]:
    state, noise, found = chosen.init(), Noise.insecure(3), list[Outcome]()
    for number in range(1, TICKS + 1):
        tick = Tick(number=number, records=number * RECORDS)
        chosen.learn(state, batch.slice((number - 1) * RECORDS, number * RECORDS))
        if resume:
            state = chosen.restore(chosen.snapshot(state))
        chosen.close(state, tick)
        found.append(chosen.release(state, tick, noise))
    return found


def coefficients(outcome: Outcome) -> np.ndarray:
    return np.array(outcome.model["targets"][0]["coefficients"]["estimate"])


@pytest.mark.parametrize("decay", [None, 0.5])
def test_with_hardly_any_noise_it_is_the_windows_own_least_squares(decay: float | None) -> None:
    chosen = learner(
        budget=Budget(epsilon=1e7, delta=1e-6),
        window_ticks=None if decay else WINDOW,
        decay=decay,
        penalty=0.01,
    )
    rows, targets, batch = stream()
    for number, outcome in enumerate(run(chosen, batch), start=1):
        ages = number - 1 - np.arange(number * RECORDS) // RECORDS
        weights = decay**ages if decay else (ages < WINDOW).astype(np.float64)
        part, answers = rows[: number * RECORDS], targets[: number * RECORDS]
        total = float(weights.sum())
        gram = (part * weights[:, None]).T @ part + 0.01 * total * np.eye(3)
        expected = np.linalg.solve(gram, (part * weights[:, None]).T @ answers)
        assert np.allclose(coefficients(outcome), expected, atol=2e-3)
        assert outcome.model["count"]["value"] == pytest.approx(total, abs=0.1)
        assert outcome.model["records"] is None


def test_resuming_changes_nothing_and_the_budget_is_charged_once() -> None:
    _, _, batch = stream()
    chosen = learner()
    plain, resumed = run(chosen, batch), run(chosen, batch, resume=True)
    assert [outcome.model for outcome in plain] == [outcome.model for outcome in resumed]
    ledger = Ledger(chosen.budget, chosen.unit)
    for event in chosen.opening_events():
        ledger.charge(event)
    assert not chosen.next_events(Tick(number=1, records=RECORDS))


def test_bad_declarations() -> None:
    with pytest.raises(ConfigurationError, match="give one of them"):
        learner(decay=0.5)
    with pytest.raises(ConfigurationError, match="give one of them"):
        learner(window_ticks=None)
    with pytest.raises(ConfigurationError, match="equal weight"):
        learner(window_ticks=None, decay=0.5, intervals=True)
    with pytest.raises(ConfigurationError, match="counts over a window"):
        learner(unit=Unit(kind="user", cap=2, column="id", period="window"))
    with pytest.raises(ConfigurationError, match="penalty is -1"):
        learner(penalty=-1.0)
