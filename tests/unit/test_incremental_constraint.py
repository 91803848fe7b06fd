"""PrivIncReg1 over sets: the constrained least squares of the records, and what is said of it."""

import json

import numpy as np
import pytest

from dpstream.domain.domain import Domain
from dpstream.errors import ConfigurationError
from dpstream.geometry.convex_set import ConvexSet
from dpstream.geometry.flow_polytope import FlowPolytope
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.geometry.simplex import Simplex
from dpstream.learners.incremental.forecast import forecast
from dpstream.learners.incremental.priv_inc_reg1 import PrivIncReg1
from dpstream.learners.learner import Tick
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.solvers.constrained_quadratic import Constraint, minimise_quadratic

WIDTH = 4
RICH = Budget(epsilon=1e9, delta=1e-6)
TRUTH = np.array([0.6, -0.4, 0.3, 0.0])


def learner(constraint: ConvexSet | None, **settings: object) -> PrivIncReg1:
    given: dict[str, object] = {
        "domain": Domain.vectors(WIDTH, norm_bound=1.0, target_bound=1.0),
        "budget": RICH,
        "unit": Unit(),
        "neighbours": Neighbours.ZERO_OUT,
        "horizon": 4,
        "constraint": constraint,
    }
    return PrivIncReg1(**(given | settings))


def data(records: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    generator = public_generator(3)
    features = generator.standard_normal((records, WIDTH))
    features /= np.maximum(1.0, np.linalg.norm(features, axis=1, keepdims=True))
    return features, features @ TRUTH + 0.05 * generator.standard_normal(records)


def released(model: PrivIncReg1, seed: int = 1) -> dict:
    state = model.init()
    batch = model.domain.admit(*data())
    model.learn(state, batch)
    tick = Tick(number=1, records=len(batch))
    model.close(state, tick)
    return dict(model.release(state, tick, Noise.insecure(seed)).model)


SETS = {
    "l1": L1Ball(dimension=WIDTH, radius=0.5),
    "simplex": Simplex(dimension=WIDTH),
    "loose": L1Ball(dimension=WIDTH, radius=5.0),
    "flow": FlowPolytope(edges=np.array([(0, 1), (0, 2), (1, 3), (2, 3)]), source=0, sink=3),
}


@pytest.mark.parametrize("name", SETS)
def test_with_a_large_budget_it_is_constrained_least_squares(name: str) -> None:
    model = released(learner(SETS[name]))
    features, targets = data()
    best = minimise_quadratic(
        features.T @ features, features.T @ targets, Constraint(convex_set=SETS[name])
    )
    target = model["targets"][0]
    np.testing.assert_allclose(target["coefficients"]["estimate"], best.point, atol=1e-4)
    assert target["constraint_active"] == (name != "loose")
    assert 0.0 <= target["optimality_gap"] < 1e-3
    assert target["interval_method"] == "bootstrap"
    assert json.loads(json.dumps(model, allow_nan=False)) == model


def test_a_ball_is_a_radius() -> None:
    short, long = learner(None, radius=0.3), learner(L2Ball(dimension=WIDTH, radius=0.3))
    assert released(short)["targets"] == released(long)["targets"]
    assert short.describe() != long.describe()


def test_a_constant_is_free() -> None:
    domain = Domain.vectors(WIDTH, norm_bound=1.0, target_bound=2.0, intercept=True)
    model = learner(SETS["l1"], domain=domain)
    state = model.init()
    features, targets = data()
    model.learn(state, domain.admit(features, targets + 1.0))
    tick = Tick(number=1, records=len(features))
    model.close(state, tick)
    user = model.release(state, tick, Noise.insecure(1)).model["targets"][0]["user"]
    scaled = np.array(user["coefficients"]["estimate"]) / 2.0
    assert np.abs(scaled).sum() == pytest.approx(0.5, abs=1e-9)
    assert user["intercept"]["estimate"] == pytest.approx(1.0, abs=0.03)


def test_every_release_lies_in_the_set_and_repeats() -> None:
    model = learner(SETS["l1"], budget=Budget(epsilon=0.2, delta=1e-6), intervals=False)
    for seed in range(20):
        target = released(model, seed)["targets"][0]
        assert SETS["l1"].contains(np.array(target["coefficients"]["estimate"]))
        assert target == released(model, seed)["targets"][0]


def test_the_papers_descent_stands_beside_the_certified_solver() -> None:
    settings = {"budget": Budget(epsilon=8.0, delta=1e-6), "intervals": False}
    ours = released(learner(SETS["l1"], **settings))["targets"][0]
    paper = released(learner(SETS["l1"], solver="averaged_gradient", **settings))["targets"][0]
    assert paper["optimality_gap"] is None
    gap = np.array(ours["coefficients"]["estimate"]) - paper["coefficients"]["estimate"]
    assert 0.0 < np.linalg.norm(gap) < 0.5
    with pytest.raises(ConfigurationError, match="needs a set with a projection"):
        learner(SETS["flow"], solver="averaged_gradient")
    with pytest.raises(ConfigurationError, match="needs a set with a projection"):
        learner(SETS["l1"], solver="averaged_gradient", penalty=1.0)


def test_sets_are_part_of_the_identity() -> None:
    texts = {json.dumps(learner(item).describe(), sort_keys=True) for item in SETS.values()}
    assert len(texts) == len(SETS)


def test_the_forecast_knows_the_set() -> None:
    tight = learner(SETS["l1"], budget=Budget(epsilon=1.0, delta=1e-6), intervals=False)
    (found,) = forecast(tight, [(1, 100_000)], draws=2)
    assert found.best_error <= found.expected_error < found.constant_error


def test_refusals() -> None:
    with pytest.raises(ConfigurationError, match="two sets"):
        learner(SETS["l1"], radius=1.0)
    with pytest.raises(ConfigurationError, match="dimension 3, but the domain has 4"):
        learner(L1Ball(dimension=3))
