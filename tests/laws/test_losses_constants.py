"""Every constant of every loss against brute force, on domains that hypothesis draws.

The largest over a fine grid of what a domain admits is at most the claim, and near it wherever the
docstring calls the constant exact: on L2 balls with an L2 bound of records, on L1 balls with a
bound of entries.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpstream.arrays import FloatArray
from dpstream.geometry.convex_set import ConvexSet
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.losses.generalised_linear import GeneralisedLinearLoss, SmoothGeneralisedLinearLoss
from dpstream.losses.hinge import HingeLoss, SmoothedHingeLoss
from dpstream.losses.huber import HuberLoss, PseudoHuberLoss
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.poisson import PoissonLoss
from dpstream.losses.quantile import QuantileLoss
from dpstream.losses.record_bound import RecordBound
from dpstream.losses.softmax import SoftmaxLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.randomness.public import public_generator

sizes = st.floats(0.05, 8.0)
LOSSES: dict[str, st.SearchStrategy[Any]] = {
    "squared": st.just(SquaredLoss()),
    "logistic": st.just(LogisticLoss()),
    "hinge": st.just(HingeLoss()),
    "smoothed hinge": st.builds(SmoothedHingeLoss, width=sizes),
    "Huber": st.builds(HuberLoss, threshold=sizes),
    "pseudo-Huber": st.builds(PseudoHuberLoss, threshold=sizes),
    "quantile": st.builds(QuantileLoss, level=st.floats(0.01, 0.99)),
    "Poisson": st.builds(
        PoissonLoss, rate_bound=st.floats(0.01, 50.0), target_offset=st.floats(-1.0, 1.0)
    ),
}
DIMENSION = 3


@dataclass(frozen=True)
class Case:
    """A domain with the longest records, aligned with the farthest parameters."""

    bound: RecordBound
    convex_set: ConvexSet
    record: FloatArray
    tip: FloatArray
    labels: FloatArray


@st.composite
def cases(draw: st.DrawFn) -> Case:
    # Thousandths: squares of labels near 1e-160 underflow in the norms here, not in the claims.
    lower = draw(st.integers(-3000, 3000)) / 1000
    upper = lower + draw(st.sampled_from([0.0, 0.1, 1.0, 4.0]))
    radius, length = draw(sizes), draw(sizes)
    tip = np.array([radius, 0.0, 0.0])
    # Short scores meet the label nearest to 0 alone: residual 0, where a loss of small threshold
    # bends in a stretch shorter than the spacing of labels.
    labels = np.sort(np.append(np.linspace(lower, upper, 33), np.clip(0.0, lower, upper)))
    ends = {"target_lower": lower, "target_upper": upper}
    if draw(st.booleans()):
        bound = RecordBound(feature_l2=length, **ends)
        ball: ConvexSet = L2Ball(dimension=DIMENSION, radius=radius)
        return Case(bound, ball, np.array([length, 0.0, 0.0]), tip, labels)
    bound = RecordBound(feature_max=length, **ends)
    return Case(
        bound, L1Ball(dimension=DIMENSION, radius=radius), np.full(DIMENSION, length), tip, labels
    )


def grid(loss: GeneralisedLinearLoss, case: Case) -> FloatArray:
    """Multiples of the tip: even ones, and those on both sides of every kink."""
    reach = float(case.record @ case.tip)
    parts = [np.linspace(-1.0, 1.0, 401)]
    y = case.labels[np.abs(case.labels) > 1e-6]
    kinks: list[FloatArray] = [case.labels]
    match loss:
        case SmoothedHingeLoss():
            kinks = [1.0 / y, (1.0 - loss.width) / y]
        case HingeLoss():
            kinks = [1.0 / y]
        case HuberLoss():
            kinks = [case.labels - loss.threshold, case.labels + loss.threshold]
        case PoissonLoss():
            kinks = [np.array([math.log(loss.rate_bound)])]
        case _:
            pass
    for place in kinks:
        parts += [place / reach * (1 + side) for side in (-1e-9, 1e-9)]
    scales = np.concatenate(parts)
    return scales[np.abs(scales) <= 1.0]


def largest(loss: GeneralisedLinearLoss, case: Case) -> dict[str, float]:
    """Brute force: gradients and Hessians over the grid and the labels."""
    found = {"l2": 0.0, "max": 0.0, "bend": 0.0}
    features = np.tile(case.record, (case.labels.size, 1))
    for scale in grid(loss, case):
        rows = loss.gradients(scale * case.tip, features, case.labels)
        found["l2"] = max(found["l2"], float(np.linalg.norm(rows, axis=1).max()))
        found["max"] = max(found["max"], float(np.abs(rows).max()))
        if isinstance(loss, SmoothGeneralisedLinearLoss):
            bends = loss.hessian_weights(scale * case.tip, features, case.labels)
            found["bend"] = max(found["bend"], float(bends.max()))
    return found


SLACK = 1 + 1e-9
NEAR = 0.97
"""What a grid of 401 scores and 34 labels may miss of a smooth maximum."""


@pytest.mark.parametrize("name", LOSSES)
@given(data=st.data())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_constants_are_the_brute_force_maxima(name: str, data: st.DataObject) -> None:
    loss, case = data.draw(LOSSES[name]), data.draw(cases())
    found = largest(loss, case)
    claim = loss.lipschitz(case.bound, case.convex_set)
    assert NEAR * claim.l2 - 1e-12 <= found["l2"] <= claim.l2 * SLACK
    assert NEAR * claim.max - 1e-12 <= found["max"] <= claim.max * SLACK
    if not isinstance(loss, SmoothGeneralisedLinearLoss):
        return
    smooth = loss.smoothness(case.bound, case.convex_set)
    length = float(np.linalg.norm(case.record))
    largest_entry = float(np.abs(case.record).max())
    for claimed, square in ((smooth.l2, length**2), (smooth.max, largest_entry**2)):
        assert NEAR * claimed - 1e-12 <= found["bend"] * square <= claimed * SLACK
    # Frank-Wolfe's curvature: the bend times the squared largest change of a score.
    change = 2.0 * float(case.record @ case.tip)
    curvature = loss.curvature(case.bound, case.convex_set)
    assert NEAR * curvature - 1e-12 <= found["bend"] * change**2 <= curvature * SLACK


@pytest.mark.parametrize("name", LOSSES)
@given(data=st.data())
@settings(max_examples=25, deadline=None, derandomize=True)
def test_constants_hold_wherever_the_domain_reaches(name: str, data: st.DataObject) -> None:
    """Records bounded in both norms, parameters anywhere in a ball of either: random ones."""
    loss = data.draw(LOSSES[name])
    lower = data.draw(st.floats(-3.0, 3.0))
    upper = lower + data.draw(st.sampled_from([0.0, 0.5, 4.0]))
    entry, length = data.draw(sizes), data.draw(sizes)
    bound = RecordBound(
        feature_l2=length, feature_max=entry, target_lower=lower, target_upper=upper
    )
    radius = data.draw(sizes)
    generator = public_generator(data.draw(st.integers(0, 2**20)))
    for chosen in (
        L2Ball(dimension=DIMENSION, radius=radius),
        L1Ball(dimension=DIMENSION, radius=radius),
    ):
        claim = loss.lipschitz(bound, chosen)
        features = generator.uniform(-bound.feature_max, bound.feature_max, (200, DIMENSION))
        features[:50] = np.sign(features[:50]) * bound.feature_max
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        features *= np.minimum(1.0, length / lengths)
        labels = generator.choice([lower, upper, (lower + upper) / 2], 200)
        for draw in generator.standard_normal((10, DIMENSION)):
            parameters = chosen.minimize_linear(draw)
            rows = loss.gradients(parameters, features, labels)
            assert np.linalg.norm(rows, axis=1).max() <= claim.l2 * SLACK
            assert np.abs(rows).max() <= claim.max * SLACK
            if isinstance(loss, SmoothGeneralisedLinearLoss):
                bends = loss.hessian_weights(parameters, features, labels)
                squares = np.einsum("ij,ij->i", features, features)
                assert (bends * squares).max() <= loss.smoothness(bound, chosen).l2 * SLACK


@given(
    classes=st.integers(2, 6),
    radius=sizes,
    length=sizes,
    seed=st.integers(0, 2**20),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_softmax_constants_hold_and_are_met_by_two_classes(
    classes: int, radius: float, length: float, seed: int
) -> None:
    loss, bound = SoftmaxLoss(classes=classes), RecordBound(feature_l2=length)
    chosen = L2Ball(dimension=2 * classes, radius=radius)
    claim, smooth = loss.lipschitz(bound, chosen), loss.smoothness(bound, chosen)
    generator = public_generator(seed)
    record = np.array([[length, 0.0]])
    worst = 0.0
    for index in range(60):
        draw = generator.standard_normal((classes, 2))
        if index < 20:
            # A confident wrong answer: the label's row against all others, along the record.
            draw[:] = 0.0
            draw[0, 0] = -1.0
            draw[1 : 2 + index % (classes - 1), 0] = 1.0 / (1 + index % (classes - 1))
        parameters = (draw * (radius / np.linalg.norm(draw))).ravel()
        row = loss.gradients(parameters, record, np.eye(classes)[:1])
        worst = max(worst, float(np.linalg.norm(row)))
        assert np.abs(row).max() <= claim.max * SLACK
        direction = generator.standard_normal(2 * classes)
        form = loss.hessian_products(parameters, record, direction)[0]
        assert form <= smooth.l2 * float(direction @ direction) * SLACK
    assert worst <= claim.l2 * SLACK
    if classes == 2:
        assert worst >= NEAR * claim.l2
