"""Exponential forgetting, sources of another stream, and plans of memories."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from block_settings import block_settings

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.errors import ConfigurationError, SourceError
from dpstream.learners.learner import Outcome, Tick
from dpstream.learners.window.basic_release import BasicRelease
from dpstream.learners.window.block_learner import BlockLearner
from dpstream.learners.window.continual_release import ContinualRelease
from dpstream.learners.window.decayed_release import DecayedRelease
from dpstream.learners.window.forecast import budget_levels, drift_plan, memory
from dpstream.learners.window.multi_resolution import MultiResolutionRelease
from dpstream.learners.window.sliding_window import SlidingWindowRelease
from dpstream.learners.window.source_model import ReleasedModels, read_model
from dpstream.losses.huber import HuberLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget

DOMAIN = Domain.vectors(3, norm_bound=1.0, target_bound=1.0)
RECORDS = 20
COMMON = block_settings(DOMAIN, block_records=RECORDS, loss=SquaredLoss(), radius=4.0)
TRUTH = np.array([0.6, -0.3, 0.2])


def run(learner: BlockLearner, batch: Batch, *, resume: bool = False) -> list[Outcome]:
    state, noise, found = learner.init(), Noise.insecure(3), list[Outcome]()
    size = learner.block_records
    for number in range(1, len(batch) // size + 1):
        learner.learn(state, batch.slice((number - 1) * size, number * size))
        if resume:
            state = learner.restore(learner.snapshot(state))
        tick = Tick(number=number, records=number * size)
        learner.close(state, tick)
        found.append(learner.release(state, tick, noise))
    return found


def stream(blocks: int, *, turn: int | None = None, seed: int = 1) -> Batch:
    draw = public_generator(seed)
    rows = draw.normal(size=(blocks * RECORDS, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    signs = np.where(np.arange(len(rows)) < (turn or blocks) * RECORDS, 1.0, -1.0)
    return DOMAIN.admit(rows, signs * (rows @ TRUTH))


def coefficients(outcome: Outcome) -> FloatArray:
    return np.array(outcome.model["coefficients"][0])


def test_a_linear_loss_is_forgotten_exponentially_and_exactly() -> None:
    """Far from its targets Huber's loss is linear: the weighted minimiser is known."""
    learner = DecayedRelease(
        decay=0.7,
        **COMMON
        | {
            "loss": HuberLoss(threshold=1e-3),
            "ridge": 0.5,
            "radius": 2.0,
            "budget": Budget(epsilon=1e6, delta=1e-6),
        },
    )
    draw = public_generator(2)
    rows = draw.normal(size=(12 * RECORDS, 3))
    targets = np.where(draw.uniform(size=len(rows)) < 0.5, -1.0, 1.0)
    batch = DOMAIN.admit(rows, targets)
    found = run(learner, batch)
    unit = batch.scaled_features[:, -3:]
    gradients = -1e-3 * (unit * targets[:, None]).reshape(12, RECORDS, 3).mean(axis=1)
    for number, outcome in enumerate(found, start=1):
        weights = 0.7 ** np.arange(number - 1, -1, -1)
        expected = -(weights @ gradients[:number]) / weights.sum() / 0.5
        assert np.allclose(coefficients(outcome), expected, atol=1e-6)
    assert learner.snapshot(learner.init())["history"].shape[0] == 0


def test_it_keeps_no_history_and_resumes_to_the_bit() -> None:
    learner = DecayedRelease(decay=0.6, **COMMON)
    batch = stream(9)
    plain, resumed = run(learner, batch), run(learner, batch, resume=True)
    assert [o.model for o in plain] == [o.model for o in resumed]
    state = learner.init()
    learner.learn(state, batch.slice(0, RECORDS))
    learner.close(state, Tick(number=1, records=RECORDS))
    learner.release(state, Tick(number=1, records=RECORDS), Noise.insecure(1))
    assert not state.history
    assert len(learner.snapshot(state)["history"]) == 0


def test_bad_forgetting_is_refused() -> None:
    for decay in (0.0, 1.0, -0.5, 2.0, math.nan):
        with pytest.raises(ConfigurationError, match="decay is"):
            DecayedRelease(decay=decay, **COMMON)
    with pytest.raises(ConfigurationError, match="update_ridge"):
        DecayedRelease(decay=0.5, update_ridge=1.0, **COMMON)


# --- sources ---------------------------------------------------------------------------------


def test_a_target_starts_from_the_source_s_released_model() -> None:
    """Few records of its own: around the source's model it is far better than around zero."""
    big = COMMON | {"block_records": 200 * RECORDS, "ridge": 0.02, "radius": 1.0}
    source_learner = ContinualRelease(base=1, updates="refit", **big)
    models = ReleasedModels("big", domain=DOMAIN)
    (release,) = run(source_learner, stream(200, seed=5))
    errors: dict[str, float] = {}
    small = COMMON | {"update_ridge": 20.0, "ridge": 0.05, "radius": 1.0}
    target = SlidingWindowRelease(window_records=2 * RECORDS, source=models, **small)
    alone = SlidingWindowRelease(window_records=2 * RECORDS, **small)
    early = run(target, stream(3, seed=6))
    assert early[-1].model == run(alone, stream(3, seed=6))[-1].model | {
        "fitted": early[-1].model["fitted"]
    }
    models.show(json.loads(json.dumps(dict(release.model))))
    for name, learner in (("with", target), ("without", alone)):
        found = run(learner, stream(6, seed=6))[-1]
        errors[name] = float(np.linalg.norm(coefficients(found) - TRUTH))
        assert found.model["fitted"][-1]["source"] == (1 if name == "with" else None)
    assert errors["with"] < 0.3 < 0.3 * errors["without"]
    # Each stream has its own budget, unit and event; the target's identity names the source.
    assert target.opening_events() == alone.opening_events()
    assert target.describe()["source"] == {"source": "big"}


def test_a_target_follows_its_source() -> None:
    models = ReleasedModels("moving", domain=DOMAIN)
    learner = DecayedRelease(
        decay=0.5, source=models, **COMMON | {"budget": Budget(epsilon=1e5, delta=1e-6)}
    )
    state, noise, found = learner.init(), Noise.insecure(3), list[FloatArray]()
    null = DOMAIN.admit(np.full((RECORDS, 3), np.nan), np.zeros(RECORDS))
    for number in range(1, 21):
        value = {
            "tick": number,
            "coefficients": [[0.5 if number < 10 else -0.5, 0.0, 0.0]],
            "intercept": [0.0],
        }
        models.show(value)
        learner.learn(state, null)
        tick = Tick(number=number, records=number * RECORDS)
        learner.close(state, tick)
        found.append(coefficients(learner.release(state, tick, noise)))
    # Without records of its own, nothing but noise leads away from the source.
    assert found[8][0] == pytest.approx(0.5, abs=1e-3)
    assert found[-1][0] == pytest.approx(-0.5, abs=2e-3)


def test_what_is_no_model_of_the_source_is_refused() -> None:
    models = ReleasedModels("bad", domain=DOMAIN)
    for value in (
        {},
        {"tick": 1, "coefficients": [[1.0, 2.0]], "intercept": [0.0]},
        {"tick": 1, "coefficients": [[1.0, 2.0, math.nan]], "intercept": [0.0]},
        {"tick": 1, "coefficients": [["a", 2.0, 1.0]], "intercept": [0.0]},
    ):
        with pytest.raises(SourceError):
            models.show(value)
    assert models.newest() is None
    assert read_model({"ready": False}, DOMAIN) is None
    other = Domain.vectors(3, norm_bound=2.0, target_bound=1.0)
    with pytest.raises(ConfigurationError, match="declared otherwise"):
        BasicRelease(base=1, source=ReleasedModels("x", domain=other), **COMMON)


# --- plans -----------------------------------------------------------------------------------


def test_budget_levels_add_up_to_the_whole_budget() -> None:
    chosen: list[BlockLearner] = [
        SlidingWindowRelease(window_records=7 * RECORDS, refresh=None, **COMMON),
        SlidingWindowRelease(window_records=7 * RECORDS, **COMMON),
        ContinualRelease(base=4, **COMMON | {"horizon": 30}),
        MultiResolutionRelease(levels=4, **COMMON),
        BasicRelease(base=2, **COMMON | {"horizon": 9}),
        DecayedRelease(decay=0.5, **COMMON),
        MultiResolutionRelease(
            levels=4,
            **COMMON | {"noise": "spherical_laplace", "budget": Budget(epsilon=1.0, delta=0.0)},
        ),
    ]
    for learner in chosen:
        levels = budget_levels(learner)
        assert json.loads(json.dumps(levels)) == levels
        assert math.fsum(level["fraction"] for level in levels) == pytest.approx(1.0, abs=1e-9)
        assert [level["blocks"] for level in levels] == sorted(
            (level["blocks"] for level in levels), reverse=True
        )
    chains = budget_levels(chosen[0])
    assert [(level["blocks"], level["fits"]) for level in chains] == [(4, 1), (1, 1)] or sum(
        level["fits"] * level["blocks"] ** -2.0 for level in chains
    ) == pytest.approx(1.3125)


def test_memories_have_the_weights_they_are_named_for() -> None:
    sliding = memory(SlidingWindowRelease(window_records=5 * RECORDS, **COMMON), 12)
    assert np.allclose(sliding.weights, [0.0] * 7 + [0.2] * 5)
    assert sliding.mean_age == pytest.approx(2.0)
    cumulative = memory(ContinualRelease(base=1, updates="refit", **COMMON), 9)
    assert cumulative.mean_age == pytest.approx(4.0)
    decayed = memory(DecayedRelease(decay=0.8, **COMMON), 60)
    expected = 0.8 ** np.arange(59, -1, -1)
    assert np.allclose(decayed.weights, expected / expected.sum())
    # As quiet as the refitted window of (1 + decay) / (1 - decay) = 9 blocks.
    window = memory(SlidingWindowRelease(window_records=9 * RECORDS, **COMMON), 60)
    assert decayed.noise == pytest.approx(window.noise, rel=2e-3)
    with pytest.raises(ConfigurationError, match="a model is there from block 5"):
        memory(SlidingWindowRelease(window_records=5 * RECORDS, **COMMON), 3)
    with pytest.raises(ConfigurationError, match="up to 9"):
        memory(BasicRelease(base=2, **COMMON | {"horizon": 9}), 10)


def memories(**changes: Any) -> dict[str, BlockLearner]:
    settings: dict[str, Any] = COMMON | {"horizon": 60} | changes
    return {
        "sliding": SlidingWindowRelease(window_records=7 * settings["block_records"], **settings),
        "decayed": DecayedRelease(decay=0.75, **settings),
        "cumulative": ContinualRelease(base=7, updates="refit", **settings),
    }


def test_a_plan_trades_bias_for_noise() -> None:
    calm = [item["name"] for item in drift_plan(memories(), block=50)]
    assert calm[0] == "cumulative"
    moving = drift_plan(memories(), block=50, drift=1.0)
    assert moving[-1]["name"] == "cumulative"
    assert json.loads(json.dumps(moving)) == moving
    jumped = drift_plan(memories(), block=50, change=100.0, changed_at=40)
    assert jumped[0]["name"] == "sliding"
    assert jumped[0]["bias"] == 0.0
    for guess in ({"drift": -1.0}, {"change": math.inf}):
        with pytest.raises(ConfigurationError, match="at least 0"):
            drift_plan(memories(), block=50, **guess)


@pytest.mark.parametrize("slow", [False, True])
def test_the_order_that_the_plan_foretells_is_the_one_that_is_measured(slow: bool) -> None:
    """The best parameters turn around at once, or move by a little with every block."""
    blocks, size = 60, 400
    chosen = memories(block_records=size, ridge=0.2)
    step = 0.02
    planned = (
        drift_plan(chosen, block=blocks, drift=step)
        if slow
        else drift_plan(chosen, block=blocks, change=1.4, changed_at=50)
    )
    draw = public_generator(8)
    rows = draw.normal(size=(blocks * size, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    block = np.arange(len(rows)) // size
    start = np.zeros((len(rows), 3))
    start[:, 0] = -0.6 + step * block if slow else np.where(block < 50, 0.7, -0.7)
    batch = DOMAIN.admit(rows, np.einsum("ij,ij->i", rows, start))
    errors: dict[str, float] = {}
    for name, learner in chosen.items():
        last = coefficients(run(learner, batch)[-1])
        errors[name] = float(np.linalg.norm(last - start[-1]))
    assert planned[-1]["name"] == "cumulative"
    assert max(errors, key=errors.__getitem__) == "cumulative"
    gaps = {item["name"]: item["error"] for item in planned}
    for name in ("sliding", "decayed"):
        assert gaps[name] < 0.7 * gaps["cumulative"]
        assert errors[name] < 0.8 * errors["cumulative"]


def test_identity_tells_a_source_apart() -> None:
    plain = BasicRelease(base=1, **COMMON)
    named = replace(plain, source=ReleasedModels("a", domain=DOMAIN))
    assert plain.describe() != named.describe()
