"""Projected records: exact, inside the ball, one by one; PrivIncReg2 as the engine sees it."""

import json
import math

import numpy as np
import pytest
from learner_run import outcomes, same

from dpstream.domain.batch import GRID, Batch
from dpstream.domain.domain import Domain
from dpstream.domain.subset import AbsoluteSumSubset, BoxSubset, SparseSubset, within
from dpstream.errors import ConfigurationError, HorizonReached
from dpstream.geometry.convex_set import ConvexSet
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.geometry.simplex import Simplex
from dpstream.geometry.width import expected_norm
from dpstream.learners.incremental.priv_inc_reg1 import PrivIncReg1
from dpstream.learners.incremental.priv_inc_reg2 import PrivIncReg2
from dpstream.learners.incremental.projected_dimension import (
    input_width,
    paper_dimension,
    predicted_excess,
)
from dpstream.learners.incremental.projection import Projection
from dpstream.learners.learner import Outcome, Tick
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit

WIDTH = 40
RICH = Budget(epsilon=1e9, delta=1e-6)


def learner(**settings: object) -> PrivIncReg2:
    given: dict[str, object] = {
        "domain": Domain.vectors(WIDTH, norm_bound=1.0, target_bound=1.0),
        "budget": Budget(epsilon=1.0, delta=1e-6),
        "unit": Unit(),
        "neighbours": Neighbours.ZERO_OUT,
        "horizon": 8,
        "constraint": L1Ball(dimension=WIDTH),
        "projection_seed": 5,
        "projected_dimension": 12,
        "strategy": "honaker_tree",
    }
    return PrivIncReg2(**(given | settings))


def data(records: int = 600, sparsity: int = 2) -> tuple[np.ndarray, np.ndarray]:
    generator = public_generator(1)
    features = np.zeros((records, WIDTH))
    for row in features:
        row[generator.choice(WIDTH, sparsity, replace=False)] = 1.0 / math.sqrt(sparsity)
    truth = np.zeros(WIDTH)
    truth[:2] = 0.6, -0.4
    return features, features @ truth


def run(model: PrivIncReg2, cuts: list[int], resume_at: int | None = None) -> list[Outcome]:
    records = model.domain.admit(*data())
    return outcomes(model, records, cuts=cuts, resume_at=resume_at, publish=(2, 6))


@pytest.mark.parametrize("settings", [{}, {"subset": SparseSubset(largest_count=1)}])
def test_batching_and_resuming_change_nothing(settings: dict[str, object]) -> None:
    whole = run(learner(**settings), [])
    for other in (
        run(learner(**settings), [1, 13, 99, 101, 350, 599]),
        run(learner(**settings), [130], resume_at=100),
    ):
        assert all(map(same, whole, other))
        assert len(whole) == len(other)


@pytest.mark.parametrize("kind", ["gaussian", "sparse"])
def test_projected_records_are_admitted_records(kind: str) -> None:
    projection = Projection(kind=kind, source=WIDTH, target=12, seed=3, purpose="test")
    domain = Domain.vectors(WIDTH, norm_bound=1.0, target_bound=1.0)
    generator = public_generator(9)
    # The worst directions: those that the matrix stretches most, and those it sends to nothing.
    _, values, turned = np.linalg.svd(projection.matrix)
    features = np.vstack([turned, generator.standard_normal((100, WIDTH)), np.full(WIDTH, np.nan)])
    batch = domain.admit(features, np.ones(len(features)))
    projected = projection.project(batch)
    squares = (projected.features.astype(object) ** 2).sum(axis=1)
    assert max(squares) <= GRID**2
    assert values[0] > 1.3  # unclipped, the first direction would leave the ball
    assert max(squares) > 0.999 * GRID**2
    assert np.abs(projected.features[12:WIDTH]).max() <= 8  # null directions, off by the grid alone
    np.testing.assert_array_equal(projected.targets, batch.targets)
    np.testing.assert_array_equal(projected.null, batch.null)
    raw = batch.scaled_features @ projection.matrix.T
    clipped = raw / np.maximum(1.0, np.linalg.norm(raw, axis=1, keepdims=True))
    np.testing.assert_allclose(projected.scaled_features, clipped, atol=1e-6)


def test_a_record_is_projected_alone_and_exactly() -> None:
    projection = Projection(kind="gaussian", source=WIDTH, target=12, seed=3, purpose="test")
    domain = Domain.vectors(WIDTH, norm_bound=1.0, target_bound=1.0)
    features = public_generator(4).standard_normal((50, WIDTH))
    batch = domain.admit(features, np.zeros(50))
    whole = projection.project(batch)
    for index in range(50):
        one = projection.project(batch.slice(index, index + 1))
        np.testing.assert_array_equal(one.rows[0], whole.rows[index])
    # In Python's integers, the sums that BLAS took in its own order.
    integers = np.ldexp(projection.matrix, -projection.describe()["exponent"]).astype(object)
    exact = batch.features.astype(object) @ integers.T
    floats = batch.rows[:, 1:-1] @ integers.astype(np.float64).T
    assert (floats.astype(object) == exact).all()


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 16, 63, 1000, 8192])
@pytest.mark.parametrize("kind", ["gaussian", "sparse"])
def test_any_batching_projects_to_the_same_bytes(kind: str, rows: int) -> None:
    # Long records along the matrix's own rows: the largest sums, and shapes for every BLAS kernel.
    width = 301
    projection = Projection(kind=kind, source=width, target=97, seed=3, purpose="test")
    domain = Domain.vectors(width, norm_bound=1.0, target_bound=1.0)
    features = public_generator(rows).standard_normal((rows, width))
    features[: min(rows, 97)] = 1e3 * projection.matrix[: min(rows, 97)]
    batch = domain.admit(features, np.zeros(rows))
    whole = projection.project(batch)
    for start, stop in ((0, 1), (rows // 2, rows // 2 + 1), (rows - 1, rows), (0, min(rows, 5))):
        part = projection.project(batch.slice(start, stop))
        assert part.rows.tobytes() == whole.rows[start:stop].tobytes()


def test_projections_belong_to_a_seed_and_a_declaration() -> None:
    digest = learner().describe()["projection"]["digest"]
    assert learner().describe()["projection"]["digest"] == digest
    others = [
        learner(projection_seed=6),
        learner(budget=Budget(epsilon=2.0, delta=1e-6)),
        learner(constraint=L2Ball(dimension=WIDTH)),
        learner(projected_dimension=13),
        learner(projection="sparse"),
        learner(subset=BoxSubset(half_width=0.5)),
    ]
    digests = {item.describe()["projection"]["digest"] for item in others}
    assert len(digests) == len(others)
    assert digest not in digests
    assert json.loads(json.dumps(learner().describe())) == learner().describe()


def test_at_full_dimension_it_is_priv_inc_reg1() -> None:
    full = learner(projected_dimension=WIDTH)
    plain = PrivIncReg1(
        domain=full.domain,
        budget=full.budget,
        unit=full.unit,
        neighbours=full.neighbours,
        horizon=full.horizon,
        constraint=full.constraint,
        strategy=full.strategy,
        intervals=False,
    )
    model = run(full, [])[-1].model
    expected = outcomes(plain, plain.domain.admit(*data()), publish=(2, 6))[-1].model
    assert model["targets"] == expected["targets"]


def test_with_a_large_budget_the_truth_is_found_in_few_dimensions() -> None:
    model = run(learner(budget=RICH, projected_dimension=25), [])[-1].model
    estimate = np.array(model["targets"][0]["coefficients"]["estimate"])
    features, targets = data()
    risk = float(np.mean((features @ estimate - targets) ** 2) / np.mean(targets**2))
    assert 0.0 < risk < 0.3
    assert np.abs(estimate).sum() <= 1 + 1e-9
    assert model["projected_dimension"] == 25
    assert json.loads(json.dumps(model, allow_nan=False)) == model


@pytest.mark.parametrize("constraint", [L2Ball(dimension=WIDTH), Simplex(dimension=WIDTH)])
def test_every_release_lies_in_the_set(constraint: ConvexSet) -> None:
    for outcome in run(learner(constraint=constraint), []):
        estimate = np.array(outcome.model["targets"][0]["coefficients"]["estimate"])
        assert constraint.contains(estimate, tolerance=1e-5)


def test_records_outside_the_subset_are_null() -> None:
    domain = Domain.vectors(4, norm_bound=1.0, target_bound=1.0)
    features = np.array([[0.5, 0, 0, 0], [0.5, 0.5, 0, 0], [0.1, 0.1, 0.1, 0.1], [0, 0, 0, 0]])
    batch = domain.admit(features, np.ones(4))

    def kept(batch: Batch) -> list[bool]:
        return [not null for null in batch.null.tolist()]

    assert kept(within(batch, SparseSubset(largest_count=1))) == [True, False, False, True]
    assert kept(within(batch, BoxSubset(half_width=0.2))) == [False, False, True, True]
    assert kept(within(batch, AbsoluteSumSubset(radius=0.6))) == [True, False, True, True]
    assert kept(within(batch, None)) == [True] * 4
    inside = run(learner(budget=RICH, subset=SparseSubset(largest_count=1)), [])[-1].model
    assert abs(inside["count"]["value"]) < 0.1  # every record has two features
    assert inside["records"] is None


def test_widths_bound_simulated_ones() -> None:
    generator = public_generator(3)
    draws = np.abs(generator.standard_normal((400, 200)))
    ranked = np.sort(draws, axis=1)[:, ::-1]
    for count in (1, 5, 50):
        simulated = float(np.mean(np.linalg.norm(ranked[:, :count], axis=1)))
        bound = input_width(SparseSubset(largest_count=count), 200)
        assert simulated <= bound <= 1.3 * simulated
    assert input_width(None, 200) == expected_norm(200)
    assert input_width(BoxSubset(half_width=0.01), 200) == pytest.approx(
        0.01 * float(np.mean(draws.sum(axis=1))), rel=0.02
    )
    assert input_width(AbsoluteSumSubset(radius=0.5), 200) == pytest.approx(
        0.5 * float(np.mean(ranked[:, 0])), rel=0.05
    )


def test_dimensions_are_chosen_from_public_numbers() -> None:
    assert paper_dimension(records=1000, width=1.0, dimension=10**6) == math.ceil(
        math.log(1000 / 0.05) * 1000 ** (2 / 3)
    )
    grown = paper_dimension(records=8000, width=8.0, dimension=10**6)
    assert grown == math.ceil(8000 ** (2 / 3) * 8.0 ** (4 / 3))
    assert paper_dimension(records=1000, width=8.0, dimension=50) == 50
    assert learner(projected_dimension="paper", expected_records=10**6).features.target == WIDTH
    # Few records against many features: projecting pays; many records: it does not.
    wide = Domain.vectors(2000, norm_bound=1.0, target_bound=1.0)
    settings = {"domain": wide, "constraint": L1Ball(dimension=2000), "projected_dimension": "auto"}
    few = learner(expected_records=200, horizon=8, **settings)
    assert few.features.target < 500
    many = learner(expected_records=10**7, horizon=8)
    many = learner(expected_records=10**7, horizon=8, projected_dimension="auto")
    assert many.features.target == WIDTH
    assert many.features.trivial


def test_the_prediction_has_a_least_dimension_inside() -> None:
    weights = learner().layout.weights
    predicted = [
        predicted_excess(
            size, records=10_000, dimension=10_000, radius=1.0, deviation=10.0, weights=weights
        )
        for size in (2, 200, 9_999)
    ]
    assert predicted[1] < min(predicted[0], predicted[2])


def test_the_horizon_is_kept() -> None:
    model = learner(horizon=1)
    state = model.init()
    model.close(state, Tick(number=1, records=0))
    with pytest.raises(HorizonReached):
        model.close(state, Tick(number=2, records=0))


def test_refusals() -> None:
    with pytest.raises(ConfigurationError, match="at most their number"):
        learner(projected_dimension=WIDTH + 1)
    with pytest.raises(ConfigurationError, match="at least 1"):
        learner(projected_dimension=0)
    with pytest.raises(ConfigurationError, match="needs expected_records"):
        learner(projected_dimension="auto")
    with pytest.raises(ConfigurationError, match="give a number"):
        learner(projected_dimension="best", expected_records=10)
    with pytest.raises(ConfigurationError, match="it must be at least 1"):
        learner(projected_dimension="paper", expected_records=0)
    with pytest.raises(ConfigurationError, match="fixed rule per record"):
        learner(subset=lambda batch: batch.null)
    with pytest.raises(ConfigurationError, match="one of gaussian, sparse"):
        learner(projection="fourier")
    with pytest.raises(ConfigurationError, match="declare the set in that dimension"):
        learner(constraint=L1Ball(dimension=3))
    for rule in (SparseSubset, BoxSubset, AbsoluteSumSubset):
        with pytest.raises(ConfigurationError):
            rule(**{next(iter(rule.__dataclass_fields__)): 0})
