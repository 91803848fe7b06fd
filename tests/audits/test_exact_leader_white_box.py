"""Following the exact leader: how far one record moves it, and what all releases then cost.

Leaders of neighbouring streams are found by the learner's own code; the distance between them must
obey what releases pay for, which is the declared shift and twice the certificate.
"""

import math

import numpy as np
import pytest
from pocp_claim import claimed, found_shifts, perturbed
from scipy import optimize

from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.learners.online.exact_leader import TOLERANCE_SHARE, ExactLeader
from dpstream.learners.online.pocp import POCP
from dpstream.losses.generalised_linear import GeneralisedLinearLoss
from dpstream.losses.huber import HuberLoss, PseudoHuberLoss
from dpstream.losses.logistic import LogisticLoss
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.unit import Neighbours

STEPS = 12


def learner(**settings: object) -> POCP:
    given: dict[str, object] = {
        "releases": STEPS,
        "algorithm": ExactLeader(),
        "loss": HuberLoss(threshold=0.01),
        "modulus": 0.5,
    }
    return perturbed(**(given | settings))


def leaders(model: POCP, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    algorithm = model.algorithm
    assert isinstance(algorithm, ExactLeader)
    batch = model.domain.admit(x, y)
    parts = (Batch(rows=batch.rows[:t].copy(), dimension=2) for t in range(1, STEPS + 1))
    return np.array([algorithm.leader(model.problem, part) for part in parts])


def shifts(model: POCP, place: int) -> np.ndarray:
    return found_shifts(model, leaders, place=place, steps=STEPS)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize(
    ("loss", "modulus", "weight"),
    [
        (LogisticLoss(), 1.0, 0.0),
        (LogisticLoss(), 0.02, 0.0),
        (LogisticLoss(), 0.0, 2.0),
        (HuberLoss(threshold=0.5), 0.3, 1.0),
        (PseudoHuberLoss(), 0.1, 0.0),
    ],
)
def test_no_record_moves_the_leader_further_than_declared(
    loss: GeneralisedLinearLoss, modulus: float, weight: float, neighbours: Neighbours
) -> None:
    model = learner(
        algorithm=ExactLeader(weight), loss=loss, modulus=modulus, neighbours=neighbours
    )
    bound = claimed(model, steps=STEPS)
    for place in (0, 5):
        assert np.all(shifts(model, place) <= bound)


@pytest.mark.parametrize("weight", [0.0, 3.0])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_the_declared_shift_is_attained(neighbours: Neighbours, weight: float) -> None:
    # Slopes stay on their linear part: equality, but for what certificates leave open.
    model = learner(algorithm=ExactLeader(weight), neighbours=neighbours)
    found = shifts(model, 0)
    assert np.all(found <= claimed(model, steps=STEPS))
    assert np.all(found >= (1.0 - 4.0 * TOLERANCE_SHARE) * claimed(model, steps=STEPS))


@pytest.mark.parametrize(
    ("schedule", "releases"), [("uniform", STEPS), ("optimal", STEPS), ("endless", None)]
)
def test_all_releases_together_cost_what_is_claimed(schedule: str, releases: int | None) -> None:
    model = learner(schedule=schedule, releases=releases, head_start=1)
    sigmas = np.array([model.noise_scale(t, t)[0] for t in range(1, STEPS + 1)])
    paid = math.fsum(model.price.price(t) for t in range(1, STEPS + 1))
    spent = float(np.sum((shifts(model, 0) / sigmas) ** 2))
    least = (1.0 - 8.0 * TOLERANCE_SHARE) * paid * model.mu**2
    assert least <= spent <= model.mu**2
    for factor in (0.5, 2.0):
        assert not least <= spent / factor**2 <= model.mu**2


def test_a_leader_is_within_its_certificate_of_the_minimiser() -> None:
    model = learner(
        algorithm=ExactLeader(weight=0.5),
        loss=LogisticLoss(),
        modulus=0.05,
        domain=Domain.vectors(2, norm_bound=1.0, target_bound=1.0, intercept=True),
    )
    generator = public_generator(5)
    x = generator.standard_normal((STEPS, 2))
    x[3] = np.nan
    batch = model.domain.admit(x, generator.choice([-1.0, 1.0], STEPS))
    rows = batch.rows[:, :3] / 2.0**20
    signs = batch.scaled_targets[:, 0]

    def slope(point: np.ndarray) -> np.ndarray:
        pull = -signs / (1.0 + np.exp(signs * (rows @ point)))
        return pull @ rows + (0.05 * STEPS + 0.5) * point

    exact = optimize.root(slope, np.zeros(3), tol=1e-13).x
    algorithm = model.algorithm
    assert isinstance(algorithm, ExactLeader)
    found = algorithm.leader(model.problem, batch)
    allowed = algorithm.inexactness(model.problem, STEPS)
    assert np.linalg.norm(found - exact) <= allowed
    # The certificate is small beside what a record can do, and its lack would be seen.
    assert allowed <= 2.0 * TOLERANCE_SHARE * algorithm.shift(model.problem, STEPS)
    assert np.linalg.norm(found + 2.0 * allowed - exact) > allowed


def test_a_long_stream_pays_what_floats_cannot_certify() -> None:
    algorithm = ExactLeader()
    problem = learner(algorithm=algorithm, loss=LogisticLoss(), modulus=1e-3).problem
    shares = [
        algorithm.inexactness(problem, steps) / algorithm.shift(problem, steps)
        for steps in (10**3, 10**6, 10**9)
    ]
    assert shares[0] == pytest.approx(TOLERANCE_SHARE)
    # Beyond, the certificate stays what it can be, and the noise grows in proportion.
    assert shares[2] > shares[1] >= shares[0]
