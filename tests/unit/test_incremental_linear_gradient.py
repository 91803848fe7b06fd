"""Paper 000, remark 4.4: problems whose gradient is linear in the parameters take one line each."""

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet

from dpstream.domain.domain import Domain
from dpstream.geometry.interpolation_ball import InterpolationBall
from dpstream.learners.incremental.priv_inc_reg1 import PrivIncReg1
from dpstream.learners.learner import Tick
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.randomness.public import public_generator
from dpstream.solvers.constrained_quadratic import Constraint, minimise_quadratic

WIDTH, RECORDS = 4, 1500


def data(targets: int = 1) -> tuple[np.ndarray, np.ndarray]:
    generator = public_generator(8)
    x = generator.standard_normal((RECORDS, WIDTH))
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1, keepdims=True))
    truth = generator.uniform(-0.4, 0.4, (WIDTH, targets))
    return x, x @ truth + 0.05 * generator.standard_normal((RECORDS, targets))


def fitted(x: np.ndarray, y: np.ndarray, **options: object) -> np.ndarray:
    """``(targets, features)`` of one release with next to no noise."""
    targets = y.shape[1]
    learner = PrivIncReg1(
        domain=Domain.vectors(WIDTH, norm_bound=1.0, target_bound=2.0, target_count=targets),
        budget=Budget(epsilon=1e9, delta=1e-6),
        unit=Unit(),
        neighbours=Neighbours.ZERO_OUT,
        horizon=1,
        intervals=False,
        **options,  # type: ignore[arg-type]  # by name
    )
    state = learner.init()
    learner.learn(state, learner.domain.admit(x, y))
    tick = Tick(number=1, records=len(x))
    learner.close(state, tick)
    model = learner.release(state, tick, Noise.insecure(0)).model
    return np.array([part["user"]["coefficients"]["estimate"] for part in model["targets"]])


def test_ridge() -> None:
    x, y = data()
    expected = np.linalg.solve(x.T @ x + 50.0 * np.eye(WIDTH), x.T @ y)
    np.testing.assert_allclose(fitted(x, y, ridge=50.0), expected.T, atol=2e-4)


def test_several_outputs() -> None:
    x, y = data(targets=3)
    expected = np.linalg.lstsq(x, y, rcond=None)[0]
    np.testing.assert_allclose(fitted(x, y), expected.T, atol=2e-4)


def test_weighted_least_squares() -> None:
    # Weights at most 1 keep a record within its bounds: scale it by their roots.
    x, y = data()
    weights = np.where(x[:, :1] > 0.0, 1.0, 0.1)
    root = np.sqrt(weights)
    expected = np.linalg.solve(x.T @ (weights * x), x.T @ (weights * y))
    np.testing.assert_allclose(fitted(root * x, root * y), expected.T, atol=5e-4)


def test_elastic_net_as_a_penalty() -> None:
    x, y = data()
    # The target is scaled by 1/2 and so are its coefficients: the L1 penalty is twice as strong.
    expected = ElasticNet(alpha=70.0 / RECORDS, l1_ratio=3 / 7, fit_intercept=False, tol=1e-10).fit(
        x, y[:, 0]
    )
    found = fitted(x, y, ridge=40.0, lasso=30.0)[0]
    np.testing.assert_allclose(found, expected.coef_, atol=5e-4)


@pytest.mark.parametrize("radius", [0.2, 5.0])
def test_elastic_net_as_a_set(radius: float) -> None:
    x, y = data()
    # The target is scaled by 1/2 and so are its coefficients; the set is that of the scaled ones.
    ball = InterpolationBall(dimension=WIDTH, radius=radius / 2, mix=0.5)
    found = fitted(x, y, constraint=ball)[0]
    best = minimise_quadratic(x.T @ x, x.T @ (y[:, 0] / 2), Constraint(convex_set=ball))
    np.testing.assert_allclose(found / 2, best.parameters, atol=5e-4)
    assert ball.gauge(found / 2) <= 1.0 + 1e-6
