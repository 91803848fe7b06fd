"""Perturbed learners: how far one record moves the secret iterate, and what releases then cost.

The claimed shift S(t) is compared with the largest found over first records and streams; mu
squared is then the sum over releases of (shift / sigma)^2, found and claimed.
"""

import math

import numpy as np
import pytest
from pocp_claim import claimed, found_shifts, perturbed

from dpstream.domain.batch import Batch
from dpstream.learners.learner import Tick
from dpstream.learners.online.online_algorithm import OnlineAlgorithm
from dpstream.learners.online.pgiga import GradientAscent
from dpstream.learners.online.pigd import ImplicitGradientDescent
from dpstream.learners.online.pocp import POCP
from dpstream.learners.online.release_price import ReleasePrice
from dpstream.losses.generalised_linear import GeneralisedLinearLoss
from dpstream.losses.hinge import HingeLoss
from dpstream.losses.huber import HuberLoss
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.randomness.source import NoiseSource

STEPS = 40
ALGORITHMS: dict[str, OnlineAlgorithm] = {
    "pigd": ImplicitGradientDescent(),
    "pgiga": GradientAscent(),
}


def learner(**settings: object) -> POCP:
    given: dict[str, object] = {
        "releases": STEPS,
        "algorithm": ImplicitGradientDescent(),
        "loss": HingeLoss(),
        "modulus": 1.0,
    }
    return perturbed(**(given | settings))


def admitted(model: POCP, x: np.ndarray, y: np.ndarray) -> Batch:
    return model.domain.admit(x, y)


def values(model: POCP, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The secret value after every step."""
    state, batch = model.init(), admitted(model, x, y)
    found = []
    for step in range(len(y)):
        model.learn(state, batch.slice(step, step + 1))
        average = state.total / state.steps
        found.append(state.point.copy() if model.output == "last" else average)
    return np.array(found)


def shifts(model: POCP, place: int) -> np.ndarray:
    return found_shifts(model, values, place=place, steps=STEPS)


CASES: list[tuple[str, GeneralisedLinearLoss, float, float | None]] = [
    ("pigd", HingeLoss(), 1.0, None),
    ("pigd", HingeLoss(), 0.1, None),
    ("pigd", LogisticLoss(), 1.0, None),
    ("pigd", HuberLoss(threshold=0.5), 0.3, None),
    ("pigd", SquaredLoss(), 0.5, 0.5),
    ("pigd", LogisticLoss(), 0.2, 0.3),
    ("pgiga", LogisticLoss(), 1.0, None),
    ("pgiga", LogisticLoss(), 0.05, 0.3),
    ("pgiga", HuberLoss(threshold=0.5), 0.3, None),
    ("pgiga", SquaredLoss(), 0.1, 0.5),
]


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("output", ["last", "average"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1].name}-{case[2]}")
def test_no_record_moves_the_secret_value_further_than_declared(
    case: tuple[str, GeneralisedLinearLoss, float, float | None],
    output: str,
    neighbours: Neighbours,
) -> None:
    name, loss, modulus, clip = case
    model = learner(
        algorithm=ALGORITHMS[name],
        loss=loss,
        modulus=modulus,
        slope_clip=clip,
        output=output,
        neighbours=neighbours,
    )
    bound = claimed(model, steps=STEPS)
    for place in (0, 1, 7):
        assert np.all(shifts(model, place) <= bound)


@pytest.mark.parametrize("output", ["last", "average"])
@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_the_declared_shift_is_attained(name: str, output: str) -> None:
    # Slope clipped low stays on its linear part: the bound holds with equality for the first
    # record at every step; a Huber loss of tiny threshold is that for both algorithms.
    for neighbours in Neighbours:
        model = learner(
            algorithm=ALGORITHMS[name],
            loss=HuberLoss(threshold=0.01),
            modulus=0.5,
            output=output,
            neighbours=neighbours,
        )
        np.testing.assert_allclose(shifts(model, 0), claimed(model, steps=STEPS), rtol=1e-5)


@pytest.mark.parametrize(
    ("schedule", "releases"), [("uniform", STEPS), ("optimal", STEPS), ("endless", None)]
)
@pytest.mark.parametrize("output", ["last", "average"])
def test_all_releases_together_cost_what_is_claimed(
    schedule: str, releases: int | None, output: str
) -> None:
    model = learner(
        schedule=schedule,
        releases=releases,
        output=output,
        loss=HuberLoss(threshold=0.01),
        head_start=1,
    )
    sigmas = np.array([model.noise_scale(t, t)[0] for t in range(1, STEPS + 1)])
    paid = math.fsum(model.price.price(t) for t in range(1, STEPS + 1))
    first = float(np.sum((shifts(model, 0) / sigmas) ** 2))
    assert first <= model.mu**2
    assert first >= 0.999 * paid * model.mu**2
    if releases is not None:
        assert paid == pytest.approx(1.0, abs=1e-6)
    # Records that come later cost less.
    assert float(np.sum((shifts(model, 7) / sigmas) ** 2)) < first
    # The negative control, both ways.
    for factor in (0.5, 2.0):
        spoilt = float(np.sum((shifts(model, 0) / (factor * sigmas)) ** 2))
        assert not 0.999 * paid * model.mu**2 <= spoilt <= model.mu**2


def test_endless_prices_never_exceed_the_budget() -> None:
    for head_start in (1, 100):
        price = ReleasePrice(schedule="endless", releases=None, head_start=head_start)
        last = 200_000
        head = math.fsum(price.price(j) for j in range(1, last + 1))
        # What all later ones cost is at least and at most an integral's worth.
        weight = price.price(1) * (1 + head_start) * math.log(1 + head_start) ** 2
        tail = weight / math.log(last + head_start + 0.5)
        assert head + tail == pytest.approx(1.0, abs=1e-6)
        assert head < 1.0
    first = ReleasePrice(schedule="endless", releases=None, head_start=1)
    total = 1.0 / (first.price(1) * 2 * math.log(2) ** 2)
    assert total == pytest.approx(2.1097, abs=1e-3)


def test_a_user_pays_for_every_record() -> None:
    model = learner(
        unit=Unit(kind="user", cap=3, column="id"), loss=HuberLoss(threshold=0.01), modulus=0.5
    )
    x = np.full((STEPS, 2), np.nan)
    x[:3] = [1.0, 0.0]
    y = np.ones(STEPS)
    distance = np.linalg.norm(
        values(model, x, y) - values(model, np.full((STEPS, 2), np.nan), y), axis=1
    )
    assert np.all(distance <= claimed(model, steps=STEPS))
    np.testing.assert_allclose(distance[2:], claimed(model, steps=STEPS)[2:], rtol=1e-5)


def test_released_noise_has_the_claimed_scale() -> None:
    # Sum over releases and coordinates of squared standardised noise is chi-square; with n terms
    # its relative deviation is sqrt(2/n), and 5.4 of them are exceeded with probability < 1e-6.
    model = learner(releases=None)
    generator = public_generator(5)
    x, y = generator.standard_normal((STEPS, 2)), generator.choice([-1.0, 1.0], STEPS)
    batch = admitted(model, x, y)
    terms: list[float] = []
    for seed in range(60):
        state, source = model.init(), NoiseSource.insecure(seed)
        for step in range(1, STEPS + 1):
            model.learn(state, batch.slice(step - 1, step))
            tick = Tick(number=step, records=step)
            model.close(state, tick)
            sigma = model.noise_scale(step, step)[0]
            measurement = model.release(state, tick, source).measurements[0]
            noise = np.ldexp(measurement.value.astype(float), measurement.exponent) - state.point
            terms += (noise / sigma).tolist()
    count = len(terms)
    mean_square = float(np.mean(np.square(terms)))

    def consistent(value: float) -> bool:
        return abs(value - 1.0) < 5.4 * math.sqrt(2 / count)

    assert consistent(mean_square)
    assert not consistent(0.25 * mean_square)
    assert not consistent(4.0 * mean_square)
    correlation = np.corrcoef(np.array(terms).reshape(60, STEPS, 2)[:, :, 0].T)
    # Noise is fresh at every release: off-diagonal correlations have deviation 1/sqrt(60).
    off = correlation[np.triu_indices(STEPS, 1)]
    assert np.max(np.abs(off)) < 6.5 / math.sqrt(60)
