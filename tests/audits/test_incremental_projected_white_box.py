"""PrivIncReg2 from its records to its nodes: what a record can move, whatever the projection.

The map from a stream to the measured nodes is the learner's own code, run without noise; the
sum of squared shifts over noise variances is the Gaussian privacy parameter mu squared, to be
compared with the event that the learner is charged for.
"""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from dpstream.domain.domain import Domain
from dpstream.domain.subset import SparseSubset
from dpstream.geometry.l1_ball import L1Ball
from dpstream.learners.incremental import projection as module
from dpstream.learners.incremental.priv_inc_reg2 import PrivIncReg2
from dpstream.learners.learner import Tick
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit

WIDTH, TARGET, HORIZON = 30, 4, 5
Record = tuple[np.ndarray, float] | None


def build(neighbours: Neighbours, **settings: object) -> PrivIncReg2:
    given: dict[str, object] = {
        "domain": Domain.vectors(WIDTH, norm_bound=1.0, target_bound=1.0),
        "budget": Budget(epsilon=1.0, delta=1e-6),
        "unit": Unit(),
        "neighbours": neighbours,
        "horizon": HORIZON,
        "constraint": L1Ball(dimension=WIDTH),
        "projection_seed": 2,
        "projected_dimension": TARGET,
        "strategy": "honaker_tree",
    }
    return PrivIncReg2(**(given | settings))


def nodes(model: PrivIncReg2, records: Sequence[Record]) -> np.ndarray:
    """All measured nodes over their noise; one record a tick."""
    state = model.init()
    noise = model.sum.sigma / model.layout.scales
    parts: list[np.ndarray] = []
    for number, record in enumerate(records, start=1):
        x = np.full((1, WIDTH), np.nan) if record is None else record[0][np.newaxis]
        y = np.array([np.nan if record is None else record[1]])
        model.learn(state, model.domain.admit(x, y))
        model.close(state, Tick(number=number, records=None))
        for node in state.sum.encoder.nodes():
            parts.append(np.ldexp(node.value.astype(float), node.exponent) / noise / node.weight)
    return np.concatenate(parts)


def shift(model: PrivIncReg2, first: Record, second: Record) -> float:
    others: list[Record] = [(np.eye(WIDTH)[j], 0.5) for j in range(HORIZON - 1)]
    return float(np.linalg.norm(nodes(model, [first, *others]) - nodes(model, [second, *others])))


def directions(model: PrivIncReg2) -> np.ndarray:
    """The matrix's singular directions: its most stretched ones, and some it sends to nothing."""
    return np.linalg.svd(model.features.matrix)[2][: TARGET + 2]


@pytest.mark.parametrize("kind", ["gaussian", "sparse"])
def test_a_record_against_null(kind: str) -> None:
    model = build(Neighbours.ZERO_OUT, projection=kind)
    assert np.linalg.norm(model.features.matrix, 2) > 1.5
    found = max(shift(model, (x, y), None) for x in directions(model) for y in (1.0, -1.0))
    assert found <= model.sum.strength
    assert found >= 0.995 * model.sum.strength


def test_a_record_against_another() -> None:
    # Two stretched directions at every angle: both are clipped onto the unit sphere.
    model = build(Neighbours.REPLACE)
    first, second = directions(model)[:2]
    found = max(
        shift(model, (first, 1.0), (math.cos(angle) * first + math.sin(angle) * second, y))
        for angle in np.linspace(0.0, math.pi, 25)
        for y in (-1.0, 0.0, 1.0)
    )
    assert found <= model.sum.strength
    assert found >= 0.98 * model.sum.strength


def test_a_record_that_leaves_the_subset_is_a_zeroed_one() -> None:
    model = build(Neighbours.REPLACE, subset=SparseSubset(largest_count=1))
    inside: Record = (np.eye(WIDTH)[3] * 3.0, 1.0)
    outside: Record = (np.ones(WIDTH), 1.0)
    found = shift(model, inside, outside)
    assert found == pytest.approx(shift(model, inside, None), rel=1e-12)
    assert 0.0 < found <= model.sum.strength


def test_without_the_clip_the_claim_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    # The control: note 15 of the paper, which drops the rescaling and clips nothing.
    model = build(Neighbours.ZERO_OUT)
    monkeypatch.setattr(
        module,
        "quantise",
        lambda records, _map, _width: np.nan_to_num(
            np.rint(np.hstack([np.ones((len(records), 1)), records]) * 2.0**20)
        ),
    )
    assert shift(model, (directions(model)[0], 1.0), None) > 2.0 * model.sum.strength


def test_a_wrong_noise_is_seen_both_ways() -> None:
    for factor in (0.5, 2.0):
        model = build(Neighbours.ZERO_OUT)
        object.__setattr__(model.sum, "sigma", model.sum.sigma * factor)
        found = shift(model, (directions(model)[0], 1.0), None)
        assert not 0.995 * model.sum.strength <= found <= model.sum.strength
