"""Declarations of columns and targets: refusals, encoding, units, description."""

import json
import math

import numpy as np
import pytest

from dpstream.domain.column import Boolean, Categorical, Numeric
from dpstream.domain.domain import Domain
from dpstream.domain.target import IntervalTarget, LabelTarget
from dpstream.errors import ConfigurationError
from dpstream.randomness.public import public_generator


def flights(*, intercept: bool = True, norm_bound: float | None = None) -> Domain:
    return Domain(
        [
            Numeric("hour", 0, 24),
            Boolean("weekend"),
            Categorical("carrier", ["UA", "AA", "DL"]),
        ],
        IntervalTarget("delay", -60, 120),
        intercept=intercept,
        norm_bound=norm_bound,
    )


@pytest.mark.parametrize(
    ("declare", "names"),
    [
        (lambda: Numeric("a", 1, 1), "'a'"),
        (lambda: Numeric("a", 2, 1), "'a'"),
        (lambda: Numeric("a", 0, math.inf), "'a'"),
        (lambda: Numeric("a", math.nan, 1), "'a'"),
        (lambda: Numeric("a", 0), "'a'"),
        (lambda: Numeric(""), "name"),
        (lambda: Categorical("c", []), "'c'"),
        (lambda: Categorical("c", "abc"), "'c'"),
        (lambda: Categorical("c", ["x", "x"]), "'c'"),
        (lambda: Categorical("c", [1, 1.0]), "'c'"),
        (lambda: Categorical("c", ["other"]), "'other'"),
        (lambda: IntervalTarget("y", 0, 0), "'y'"),
        (lambda: LabelTarget("y", ["only"]), "'y'"),
        (lambda: Domain([]), "no columns"),
        (lambda: Domain([Numeric("a", 0, 1), Boolean("a")]), "'a'"),
        (lambda: Domain([Numeric("a", 0, 1)], IntervalTarget("a", 0, 1)), "'a'"),
        (lambda: Domain([Numeric("a")]), "'a'"),
        (lambda: Domain([Numeric("a")], record_bound="max"), "'a'"),
        (lambda: Domain([Numeric("a", 0, 1)], record_bound="max", norm_bound=1.0), "norm_bound"),
        (lambda: Domain([Numeric("a", 0, 1)], record_bound="l1"), "'l1'"),
        (lambda: Domain([Numeric("a", 0, 1)], norm_bound=0.0), "norm_bound"),
        (lambda: Domain([Numeric("a", 0, 1)], norm_bound=math.inf), "norm_bound"),
        (lambda: Domain([Numeric("a", 0, 1e-300)]), "'a'"),
        (
            lambda: Domain(
                [Numeric("a", 0, 1)], [LabelTarget("y", [0, 1]), IntervalTarget("z", 0, 1)]
            ),
            "'y'",
        ),
    ],
)
def test_wrong_declarations_are_refused_by_name(declare, names):
    with pytest.raises(ConfigurationError, match=names):
        declare()


def test_the_first_category_is_the_reference_only_beside_an_intercept():
    assert flights().feature_names == (
        "hour",
        "weekend",
        "carrier=AA",
        "carrier=DL",
        "carrier=other",
    )
    assert flights(intercept=False).feature_names[2] == "carrier=UA"
    assert flights(intercept=False).dimension == 6


def test_target_names_and_widths():
    assert Domain([Boolean("b")], LabelTarget("y", ["no", "yes"])).target_names == ("y",)
    three = Domain([Boolean("b")], LabelTarget("y", [1, 2, 3]))
    assert three.target_names == ("y=1", "y=2", "y=3")
    assert three.width == 1 + 1 + 3
    assert Domain([Boolean("b")]).target_count == 0


def test_radius_is_the_largest_norm_the_bounds_allow_or_the_given_one():
    assert flights().radius == math.sqrt(3)
    assert flights(norm_bound=1.5).radius == 1.5
    assert flights(norm_bound=7.0).radius == math.sqrt(3)
    assert Domain.vectors(4, norm_bound=7.0).radius == 7.0
    assert Domain.vectors(4, norm_bound=7.0, record_bound="max").radius == 2.0


def test_extreme_admissible_rows_touch_the_unit_sphere_and_never_leave_it():
    batch = flights().admit(
        {
            "hour": [24, 0, 12],
            "weekend": [True, False, True],
            "carrier": ["AA", "ZZ", "UA"],
            "delay": [120, -60, 30],
        }
    )
    norms = (batch.scaled_features**2).sum(axis=1)
    assert norms[0] == pytest.approx(1.0, abs=1e-5)
    assert (norms <= 1.0).all()
    np.testing.assert_array_equal(batch.scaled_targets[:, 0], [1.0, -1.0, 0.0])


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("norm_bound", [None, 1.25])
@pytest.mark.parametrize("record_bound", ["l2", "max"])
def test_scaled_coefficients_predict_the_same_in_the_users_units(
    intercept, norm_bound, record_bound
):
    if record_bound == "max" and norm_bound is not None:
        norm_bound = None
    domain = Domain(
        [Numeric("a", -3, 9), Numeric("b", 100, 101), Boolean("c"), Categorical("d", [1, 2])],
        [IntervalTarget("y", -60, 120), IntervalTarget("z", 5, 6)],
        intercept=intercept,
        norm_bound=norm_bound,
        record_bound=record_bound,
    )
    generator = public_generator(1)
    data = {
        "a": generator.uniform(-3, 9, 20),
        "b": generator.uniform(100, 101, 20),
        "c": generator.integers(0, 2, 20),
        "d": generator.integers(1, 4, 20),
    }
    coefficients = generator.normal(size=domain.dimension)
    constant = 0.3 if intercept else 0.0
    coded = [1, 2, "other"][1 if intercept else 0 :]
    levels = np.where(data["d"] == 3, -1, data["d"])
    raw = np.column_stack(
        [data["a"], data["b"], data["c"]]
        + [levels == (-1 if level == "other" else level) for level in coded]
    )
    scaled = domain.features(data) @ coefficients + constant
    for target in (0, 1):
        slope, start = domain.to_user(coefficients, constant, target=target)
        expected = domain.user_targets(np.column_stack([scaled, scaled]))[:, target]
        np.testing.assert_allclose(raw @ slope + start, expected, rtol=1e-9)
        if not intercept:
            assert start == 0.0
        mapping = domain.user_map(target)
        np.testing.assert_allclose(
            mapping.matrix @ np.concatenate(([constant], coefficients)) + mapping.offset,
            np.concatenate(([start], slope)),
        )


def test_prediction_rows_apply_column_bounds_but_not_the_norm_bound():
    domain = Domain([Numeric("a", -1, 1), Numeric("b", -1, 1)], norm_bound=0.5)
    rows = domain.features({"a": [1.0, 5.0, np.nan], "b": [1.0, 0.0, 0.0]})
    np.testing.assert_array_equal(rows[:2], [[2.0, 2.0], [2.0, 0.0]])
    assert np.isnan(rows[2, 0])


def test_prediction_needs_no_targets():
    assert Domain.vectors(2, norm_bound=1.0, target_bound=1.0).features(np.ones((3, 2))).shape == (
        3,
        2,
    )


@pytest.mark.parametrize(
    "domain",
    [
        flights(norm_bound=1.25),
        Domain.vectors(3, norm_bound=2.0, target_bound=1.0, target_count=2),
        Domain.vectors(3, norm_bound=2.0, record_bound="max", intercept=True),
        Domain([Boolean("b")], LabelTarget("y", ["a", "b", "c"])),
    ],
)
def test_a_domain_survives_its_public_description(domain):
    restored = Domain.from_json(json.loads(json.dumps(domain.to_json())))
    assert restored == domain
    assert restored.to_json() == domain.to_json()


def test_an_unknown_kind_in_a_description_is_refused():
    description = flights().to_json()
    description["columns"][0]["kind"] = "mystery"
    with pytest.raises(ConfigurationError, match="mystery"):
        Domain.from_json(description)
