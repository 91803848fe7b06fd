"""The moment stack: its sensitivity against search, its layout against the matrix it packs."""

import itertools
import math

import numpy as np
import pytest

from dpstream.domain.lattice import ExactVector
from dpstream.domain.moments import packed_positions
from dpstream.errors import ConfigurationError
from dpstream.mechanisms.moments import (
    INTERCEPT_GUESS,
    RESIDUAL_SHARE,
    MomentLayout,
    MomentWeights,
    balanced_weights,
    moment_sensitivity,
)
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.unit import Neighbours

REPLACE, ZERO_OUT = Neighbours.REPLACE, Neighbours.ZERO_OUT
BLOCKS = ("count", "x", "xx", "y", "xy", "yy")


def weights(count=0.0, x=0.0, xx=0.0, y=0.0, xy=0.0, yy=0.0) -> MomentWeights:
    return MomentWeights(count=count, x=x, xx=xx, y=y, xy=xy, yy=yy)


def stack(layout: MomentLayout, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The scaled stack of one record, from the matrix itself."""
    z = np.concatenate(([1.0], x, y))
    rows, columns = packed_positions(layout.width)
    return (z[rows] * z[columns])[layout.positions] * layout.scales


CASES = [
    weights(xx=1, xy=1),
    weights(xx=1),
    weights(xy=1),
    weights(xx=1, xy=1, yy=1),
    weights(xx=0.3, xy=1, yy=0.2),
    weights(count=0.5, x=0.7, xx=0.8, y=0.6, xy=1, yy=0.2),
    weights(count=0.1, x=2.0, xx=0.1, y=0.1, xy=0.3, yy=1.5),
    weights(x=1.0, xx=3.0),
    weights(count=1.0),
]


def test_known_values() -> None:
    # Paper 000's two sums, separately and stacked.
    assert moment_sensitivity(weights(xx=1), REPLACE) == pytest.approx(math.sqrt(2))
    assert moment_sensitivity(weights(xy=1), REPLACE) == pytest.approx(2)
    assert moment_sensitivity(weights(xx=1, xy=1), REPLACE) == pytest.approx(3 / math.sqrt(2))
    assert moment_sensitivity(weights(xx=1, xy=1), ZERO_OUT) == pytest.approx(math.sqrt(2))
    # Orthogonal features and orthogonal targets: the two stacks have nothing in common.
    assert moment_sensitivity(weights(xx=1, xy=1, yy=1), REPLACE) == pytest.approx(math.sqrt(6))
    assert moment_sensitivity(weights(xx=1, xy=1, yy=0.2), REPLACE) == pytest.approx(
        3 / math.sqrt(2)
    )
    # The count alone changes only when a record becomes null.
    assert moment_sensitivity(weights(count=1), REPLACE) == pytest.approx(1)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (3, 2), (6, 3)])
def test_no_pair_of_records_shifts_more(case: MomentWeights, shape: tuple[int, int]) -> None:
    layout = MomentLayout(dimension=shape[0], target_count=shape[1], weights=case)
    generator = public_generator(7)

    def ball(size: int) -> np.ndarray:
        vector = generator.standard_normal(size)
        length = generator.choice([1.0, 1.0, generator.random()])
        return vector / np.linalg.norm(vector) * length

    bounds = {rule: moment_sensitivity(case, rule) for rule in (REPLACE, ZERO_OUT)}
    for _ in range(400):
        first = stack(layout, ball(shape[0]), ball(shape[1]))
        second = stack(layout, ball(shape[0]), ball(shape[1]))
        assert np.linalg.norm(first) <= bounds[ZERO_OUT]
        assert np.linalg.norm(first) <= bounds[REPLACE]
        assert np.linalg.norm(first - second) <= bounds[REPLACE]


@pytest.mark.parametrize("case", CASES)
def test_some_pair_of_records_shifts_as_much(case: MomentWeights) -> None:
    layout = MomentLayout(dimension=2, target_count=2, weights=case)
    angles = np.linspace(0.0, math.pi, 181)
    unit = np.array([1.0, 0.0])
    fixed = stack(layout, unit, unit)
    worst = np.linalg.norm(fixed)
    assert worst == pytest.approx(moment_sensitivity(case, ZERO_OUT), rel=1e-11)
    for a, b in itertools.product(angles, angles):
        x, y = (np.array([math.cos(angle), math.sin(angle)]) for angle in (a, b))
        worst = max(worst, np.linalg.norm(fixed - stack(layout, x, y)))
    assert worst == pytest.approx(moment_sensitivity(case, REPLACE), rel=1e-3)


def least_inner_product(case: MomentWeights) -> float:
    """The minimum of ``g`` over ``[-1, 1]^2``, by a grid that closes in on it."""
    c, s, q = case.count**2, case.x**2, case.xx**2
    y, m, v = case.y**2, case.xy**2, case.yy**2
    centre, half, best = (0.0, 0.0), 1.0, math.inf
    for _ in range(12):
        sides = [np.clip(middle + half * np.linspace(-1, 1, 81), -1, 1) for middle in centre]
        r, e = np.meshgrid(*sides, indexing="ij")
        value = c + s * r + q * r * r + y * e + m * r * e + v * e * e
        place = int(value.argmin())
        centre, half = (float(r.flat[place]), float(e.flat[place])), half / 4
        best = min(best, float(value.flat[place]))
    return best


def test_replacement_moves_a_stack_by_what_its_least_inner_product_says() -> None:
    generator = public_generator(11)
    cases = [weights(x=1), weights(y=1), weights(x=2, y=1), weights(x=1, y=2, yy=1)]
    cases += [weights(count=3, xx=0.1, xy=0.3), weights(xx=1, y=2, xy=1.3)]
    while len(cases) < 150:
        drawn = generator.uniform(0.0, 2.0, 6) * (generator.uniform(size=6) < 0.7)
        if drawn.any():
            cases.append(MomentWeights(**dict(zip(BLOCKS, drawn.tolist(), strict=True))))
    for case in cases:
        norm = sum(getattr(case, block) ** 2 for block in BLOCKS)
        worst = max(norm, 2.0 * norm - 2.0 * least_inner_product(case))
        assert moment_sensitivity(case, REPLACE) ** 2 == pytest.approx(worst, rel=1e-9)
        assert moment_sensitivity(case, ZERO_OUT) ** 2 == pytest.approx(norm, rel=1e-11)


def test_layout_packs_what_is_measured() -> None:
    layout = MomentLayout(
        dimension=3, target_count=2, weights=weights(count=0.5, xx=0.25, xy=1, yy=2)
    )
    generator = public_generator(3)
    z = np.concatenate(([1.0], generator.standard_normal(5)))
    outer = np.outer(z, z)
    rows, columns = packed_positions(6)
    integers = np.round(outer[rows, columns] * 2**20).astype(np.int64)
    chosen = layout.select(ExactVector.from_integers(integers, -20))
    assert chosen.dimension == layout.size == 1 + 6 + 6 + 3
    matrix = layout.matrix(chosen.to_float())
    measured = np.ones((6, 6), bool)
    measured[0, 1:] = measured[1:, 0] = False
    np.testing.assert_allclose(matrix[measured], outer[measured], atol=2**-20)
    assert not matrix[~measured].any()
    variances = layout.variances(9.0)
    assert np.all(np.isinf(variances[~measured]))
    assert variances[0, 0] == 9.0 / 0.25
    assert variances[1, 1] == pytest.approx(9.0 / 0.0625)
    assert variances[1, 2] == pytest.approx(9.0 / 0.0625 / 2)
    assert variances[1, 4] == pytest.approx(9.0)
    assert variances[5, 4] == pytest.approx(9.0 / 4 / 2)


def test_balanced_weights_minimise_what_they_claim() -> None:
    for penalty, radius in ((0.0, None), (1.0, None), (0.0, 0.2)):
        found = balanced_weights(
            dimension=8,
            target_count=1,
            intercept=False,
            count=False,
            penalty=penalty,
            radius=radius,
        )
        curvature = 1 / 8 + penalty
        norm = min(1 / (math.sqrt(8) * curvature), radius or 1.0)

        def cost(xx: float, xy: float, norm: float = norm) -> float:
            return (1 / xy**2 + 0.5 * norm**2 / xx**2) * (xx**2 + xy**2)

        best = cost(found.xx, found.xy)
        for factor in (0.9, 1.1):
            assert cost(found.xx * factor, found.xy) > best
        assert found.yy**2 / found.square_sum == pytest.approx(0.03)


def test_refusals_name_the_block() -> None:
    with pytest.raises(ConfigurationError, match="'xx'"):
        weights(xx=-1.0)
    with pytest.raises(ConfigurationError, match="every moment weight is 0"):
        weights()
    with pytest.raises(ConfigurationError, match="'xy'"):
        MomentLayout(dimension=2, target_count=0, weights=weights(xx=1, xy=1))
    with pytest.raises(ConfigurationError, match="no targets"):
        balanced_weights(
            dimension=2, target_count=0, intercept=False, count=True, penalty=0.0, radius=None
        )
    kept = weights(xx=1, xy=0.5)
    assert MomentWeights.from_json(kept.to_json()) == kept


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("radius", [None, 0.01])
def test_balanced_weights_minimise_the_noise_they_are_derived_from(
    intercept: bool, radius: float | None
) -> None:
    """``sum k_b / w_b^2`` at fixed ``sum w_b^2``, with the coefficients of the docstring."""
    dimension, penalty = 7, 0.25
    found = balanced_weights(
        dimension=dimension,
        target_count=1,
        intercept=intercept,
        count=True,
        penalty=penalty,
        radius=radius,
    )
    curvature = 1.0 / dimension + penalty
    norm = min(1.0 / (math.sqrt(dimension) * curvature), radius or 1.0)
    stiffness = dimension / curvature
    guess = INTERCEPT_GUESS**2
    costs = {"xx": 0.5 * stiffness * norm**2, "xy": stiffness}
    if intercept:
        costs |= {"count": guess, "x": stiffness * guess + norm**2, "y": 1.0}
    squares = {block: getattr(found, block) ** 2 for block in costs}
    # At the minimum the square of every weight is proportional to the root of its cost.
    shares = [squares[block] / math.sqrt(cost) for block, cost in costs.items()]
    assert shares == pytest.approx([shares[0]] * len(shares), rel=1e-12)
    every = [getattr(found, block) ** 2 for block in ("count", "x", "xx", "y", "xy", "yy")]
    assert max(every) == pytest.approx(1.0)
    assert found.yy**2 == pytest.approx(RESIDUAL_SHARE * sum(every), rel=1e-12)
    if not intercept:
        assert found.x == found.y == 0.0
        rest = squares["xx"] + squares["xy"]
        assert found.count**2 == pytest.approx(RESIDUAL_SHARE * rest, rel=1e-12)


def test_a_count_that_is_not_needed_has_no_weight() -> None:
    options = {"dimension": 3, "target_count": 1, "penalty": 0.0, "radius": None}
    assert balanced_weights(intercept=False, count=False, **options).count == 0.0
    with pytest.raises(ConfigurationError, match="no targets"):
        balanced_weights(intercept=True, count=True, **(options | {"target_count": 0}))


@pytest.mark.parametrize("block", BLOCKS)
def test_a_layout_refuses_exactly_the_blocks_that_its_domain_lacks(block: str) -> None:
    one = weights(count=1.0, **({} if block == "count" else {block: 0.5}))
    refused = {(0, 2): "x" in block, (3, 0): "y" in block}
    for (dimension, targets), absent in refused.items():
        if not absent:
            assert MomentLayout(dimension=dimension, target_count=targets, weights=one).weights
            continue
        message = (
            f"moment weight '{block}' is not 0, but the domain has "
            f"{dimension} features and {targets} targets"
        )
        with pytest.raises(ConfigurationError, match=f"^{message}$"):
            MomentLayout(dimension=dimension, target_count=targets, weights=one)


def test_the_intercept_and_the_residuals_weigh_what_the_documentation_says() -> None:
    with pytest.raises(ConfigurationError, match="no targets"):
        balanced_weights(
            dimension=1, target_count=0, intercept=True, count=True, penalty=0.0, radius=None
        )
    assert INTERCEPT_GUESS == 0.5
    assert RESIDUAL_SHARE == 0.03
