"""Laws of the losses: derivatives, implicit steps, and constants against brute force."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpstream.arrays import FloatArray
from dpstream.errors import ConfigurationError
from dpstream.geometry.box import box
from dpstream.geometry.convex_set import ConvexSet
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.geometry.simplex import Simplex
from dpstream.losses.generalised_linear import GeneralisedLinearLoss, SmoothGeneralisedLinearLoss
from dpstream.losses.hinge import HingeLoss, SmoothedHingeLoss
from dpstream.losses.huber import HuberLoss, PseudoHuberLoss
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.loss import (
    GeneralisedLinear,
    Loss,
    SmoothGeneralisedLinear,
    SmoothLoss,
)
from dpstream.losses.poisson import PoissonLoss
from dpstream.losses.quantile import QuantileLoss
from dpstream.losses.record_bound import RecordBound
from dpstream.losses.regularised import RegularisedLoss
from dpstream.losses.softmax import SoftmaxLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.randomness.public import PublicGenerator, public_generator

SMOOTH: list[SmoothGeneralisedLinearLoss] = [
    SquaredLoss(),
    LogisticLoss(),
    SmoothedHingeLoss(width=0.7),
    HuberLoss(threshold=0.6),
    PseudoHuberLoss(threshold=0.8),
    PoissonLoss(rate_bound=3.0),
    PoissonLoss(rate_bound=2.0, target_offset=1.0),
]
SCALAR: list[GeneralisedLinearLoss] = [
    *SMOOTH,
    HingeLoss(),
    QuantileLoss(level=0.3),
    QuantileLoss(level=0.8),
    SmoothedHingeLoss(width=3.0),
    HuberLoss(threshold=50.0),
    PoissonLoss(rate_bound=0.01),
]
KINKED = (SmoothedHingeLoss, HuberLoss, PoissonLoss, HingeLoss, QuantileLoss)

scores = st.floats(-6, 6)
targets = st.floats(-1, 1)


def one(value: float) -> FloatArray:
    return np.array([value])


def identity(loss: object) -> str:
    return repr(loss)


def distance_to_kink(loss: GeneralisedLinearLoss, u: float, y: float) -> float:
    match loss:
        case SmoothedHingeLoss():
            return min(abs(1 - y * u), abs(1 - y * u - loss.width))
        case HingeLoss():
            return abs(1 - y * u)
        case HuberLoss():
            return abs(abs(u - y) - loss.threshold)
        case QuantileLoss():
            return abs(u - y)
        case PoissonLoss():
            return abs(u - math.log(loss.rate_bound))
        case _:
            return math.inf


@pytest.mark.parametrize("loss", SCALAR, ids=identity)
@given(u=scores, y=targets)
@settings(max_examples=60, deadline=None)
def test_derivatives_agree_with_differences(
    loss: GeneralisedLinearLoss, u: float, y: float
) -> None:
    h = 1e-5
    if distance_to_kink(loss, u, y) < 3 * h:
        return
    difference = loss.link(one(u + h), one(y)) - loss.link(one(u - h), one(y))
    assert loss.derivative(one(u), one(y))[0] == pytest.approx(difference[0] / (2 * h), abs=1e-6)
    if isinstance(loss, SmoothGeneralisedLinearLoss):
        change = loss.derivative(one(u + h), one(y)) - loss.derivative(one(u - h), one(y))
        second = loss.second_derivative(one(u), one(y))[0]
        assert second == pytest.approx(change[0] / (2 * h), abs=1e-6)


@pytest.mark.parametrize("loss", SCALAR, ids=identity)
@given(u=scores, v=scores, y=targets)
@settings(max_examples=60, deadline=None)
def test_losses_are_convex_with_subgradients(
    loss: GeneralisedLinearLoss, u: float, v: float, y: float
) -> None:
    tangent = loss.link(one(u), one(y)) + loss.derivative(one(u), one(y)) * (v - u)
    assert loss.link(one(v), one(y))[0] >= tangent[0] - 1e-9 * (1 + abs(tangent[0]))


@pytest.mark.parametrize("loss", SCALAR, ids=identity)
@given(u=st.floats(-30, 30), y=targets, c=st.floats(1e-6, 1e4))
@settings(max_examples=80, deadline=None)
def test_proximal_minimises(loss: GeneralisedLinearLoss, u: float, y: float, c: float) -> None:
    v = loss.proximal(one(u), one(y), one(c))[0]

    def objective(w: float) -> float:
        return loss.link(one(w), one(y))[0] + (w - u) ** 2 / (2 * c)

    # Strongly convex with modulus 1/c: being as good as both neighbours pins the minimiser.
    h = 1e-4 * (1 + abs(v))
    slack = 1e-10 * (1 + abs(objective(v)))
    assert objective(v) <= objective(v + h) + slack
    assert objective(v) <= objective(v - h) + slack
    if isinstance(loss, SmoothGeneralisedLinearLoss):
        residual = v + c * loss.derivative(one(v), one(y))[0] - u
        assert abs(residual) <= 1e-9 * (1 + abs(u) + c)


def test_proximal_is_vectorised() -> None:
    generator = public_generator(0)
    u, y = generator.standard_normal(50) * 3, generator.uniform(-1, 1, 50)
    steps = generator.exponential(size=50)
    for loss in SCALAR:
        together = loss.proximal(u, y, steps)
        apart = [loss.proximal(u[i : i + 1], y[i : i + 1], steps[i : i + 1])[0] for i in range(50)]
        assert np.allclose(together, apart, rtol=1e-12, atol=1e-12)


def test_implicit_step_solves_the_vector_problem() -> None:
    generator = public_generator(1)
    x, theta, y, h = generator.standard_normal(4), generator.standard_normal(4), 0.4, 0.7
    for loss in SMOOTH:
        u = theta @ x
        v = loss.proximal(one(u), one(y), one(h * (x @ x)))[0]
        moved = theta - (u - v) / (x @ x) * x
        gradient = loss.gradients(moved, x[None], one(y))[0]
        assert np.allclose(moved, theta - h * gradient, atol=1e-9)


def batch(generator: PublicGenerator, n: int, d: int) -> tuple[FloatArray, FloatArray]:
    return generator.standard_normal((n, d)), generator.uniform(-1, 1, n)


@pytest.mark.parametrize("loss", SCALAR, ids=identity)
def test_batch_gradients_sum_clip_and_match_differences(loss: GeneralisedLinearLoss) -> None:
    generator = public_generator(2)
    features, labels = batch(generator, 30, 5)
    features[3] = 0.0
    parameters = generator.standard_normal(5)
    rows = loss.gradients(parameters, features, labels)
    assert np.allclose(loss.gradient_sum(parameters, features, labels), rows.sum(axis=0))
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    clipped = rows * np.minimum(1.0, 0.5 / np.maximum(lengths, 1e-300))
    total = loss.gradient_sum(parameters, features, labels, clip=0.5)
    assert np.allclose(total, clipped.sum(axis=0))
    h = 1e-6
    for axis in np.eye(5):
        ahead = loss.values(parameters + h * axis, features, labels)
        behind = loss.values(parameters - h * axis, features, labels)
        assert np.allclose(rows @ axis, (ahead - behind) / (2 * h), atol=1e-6)
    with pytest.raises(ConfigurationError, match="clip is 0"):
        loss.gradient_sum(parameters, features, labels, clip=0.0)


# Each pair: a set, and bounds under which the constants are claimed to be exact.
TIGHT: list[tuple[ConvexSet, RecordBound]] = [
    (L2Ball(dimension=3, radius=2.0), RecordBound(feature_l2=1.5)),
    (L2Ball(dimension=3, radius=0.2), RecordBound(feature_l2=1.0)),
    (L1Ball(dimension=3, radius=2.0), RecordBound(feature_max=1.0)),
    (L2Ball(dimension=3), RecordBound(feature_l2=1.0, target_lower=0.5, target_upper=2.0)),
    (L2Ball(dimension=3), RecordBound(feature_l2=0.3, target_lower=-9.0, target_upper=-5.0)),
]


def worst_records(
    convex_set: ConvexSet, bound: RecordBound
) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
    """Aligned records and parameters over a grid of scores and targets, and random ones."""
    labels = np.linspace(bound.target_lower, bound.target_upper, 41)
    if isinstance(convex_set, L2Ball):
        x = np.array([bound.feature_l2, 0.0, 0.0])
        tips = np.array([convex_set.radius, 0.0, 0.0])
    else:
        assert isinstance(convex_set, L1Ball)
        x = np.full(3, bound.feature_max)
        tips = np.array([0.0, convex_set.radius, 0.0])
    features = np.tile(x, (labels.size, 1))
    return [(t * tips, features, labels) for t in np.linspace(-1, 1, 201)]


@pytest.mark.parametrize("case", range(len(TIGHT)))
@pytest.mark.parametrize("loss", SCALAR, ids=identity)
def test_lipschitz_constants_are_attained(loss: GeneralisedLinearLoss, case: int) -> None:
    convex_set, bound = TIGHT[case]
    claim = loss.lipschitz(bound, convex_set)
    largest = {"l2": 0.0, "max": 0.0}
    for parameters, features, labels in worst_records(convex_set, bound):
        rows = loss.gradients(parameters, features, labels)
        largest["l2"] = max(largest["l2"], float(np.linalg.norm(rows, axis=1).max()))
        largest["max"] = max(largest["max"], float(np.abs(rows).max()))
    for norm, found in largest.items():
        assert found <= getattr(claim, norm) * (1 + 1e-9)
        assert found >= getattr(claim, norm) * 0.99


@pytest.mark.parametrize("case", range(len(TIGHT)))
@pytest.mark.parametrize("loss", SMOOTH, ids=identity)
def test_smoothness_is_attained(loss: SmoothGeneralisedLinearLoss, case: int) -> None:
    convex_set, bound = TIGHT[case]
    claim = loss.smoothness(bound, convex_set)
    l2 = largest = 0.0
    for parameters, features, labels in worst_records(convex_set, bound):
        weights = loss.hessian_weights(parameters, features, labels)
        l2 = max(l2, float((weights * (features**2).sum(axis=1)).max()))
        largest = max(largest, float((weights * np.abs(features).max(axis=1) ** 2).max()))
    assert claim.l2 * 0.98 <= l2 <= claim.l2 * (1 + 1e-9)
    assert claim.max * 0.98 <= largest <= claim.max * (1 + 1e-9)


@pytest.mark.parametrize("loss", SCALAR, ids=identity)
def test_constants_hold_for_random_records_and_other_sets(loss: GeneralisedLinearLoss) -> None:
    generator = public_generator(5)
    bound = RecordBound(feature_l2=1.2, feature_max=0.7, target_lower=-0.5, target_upper=1.0)
    for convex_set in (Simplex(dimension=4, total=3.0), box([-1, 0, 0, 1], [1, 2, 0.5, 3])):
        claim = loss.lipschitz(bound, convex_set)
        features = generator.uniform(-0.7, 0.7, (400, 4))
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        features *= np.minimum(1.0, 1.2 / lengths)
        labels = generator.choice([-0.5, 1.0, 0.2], 400)
        for _ in range(20):
            parameters = convex_set.minimize_linear(generator.standard_normal(4))
            rows = loss.gradients(parameters, features, labels)
            assert np.linalg.norm(rows, axis=1).max() <= claim.l2 * (1 + 1e-9)
            assert np.abs(rows).max() <= claim.max * (1 + 1e-9)


@pytest.mark.parametrize("loss", [*SMOOTH, SoftmaxLoss(classes=3)], ids=identity)
def test_curvature_bounds_frank_wolfe_steps(loss: SmoothLoss) -> None:
    generator = public_generator(6)
    classes = 3 if isinstance(loss, SoftmaxLoss) else 1
    for convex_set in (
        L1Ball(dimension=3 * classes, radius=1.5),
        L2Ball(dimension=3 * classes),
        Simplex(dimension=3 * classes),
    ):
        bound = RecordBound(feature_max=1.0)
        claim = loss.curvature(bound, convex_set)
        for _ in range(200):
            x = generator.choice([-1.0, 1.0], (1, 3))
            y = generator.uniform(-1, 1, 1)
            if classes > 1:
                y = np.eye(classes)[generator.integers(classes, size=1)]
            first, second = (
                convex_set.minimize_linear(generator.standard_normal(3 * classes)) for _ in range(2)
            )
            if generator.random() < 0.3:
                second = -first if not isinstance(convex_set, Simplex) else second
            for gamma in (1e-2, 0.5, 1.0):
                third = first + gamma * (second - first)
                change = loss.values(third, x, y) - loss.values(first, x, y)
                change = change - loss.gradients(first, x, y) @ (third - first)
                assert 2 / gamma**2 * change[0] <= claim * (1 + 1e-9) + 1e-9


def test_lasso_constants() -> None:
    """Entries and targets in [-1, 1] over the unit L1 ball: 2 for the gradient, 4 for curvature."""
    bound, ball = RecordBound(feature_max=1.0), L1Ball(dimension=2000)
    loss = SquaredLoss()
    assert loss.lipschitz(bound, ball).max == 2.0
    assert loss.lipschitz(bound, ball).l2 == pytest.approx(2 * math.sqrt(2000))
    assert loss.curvature(bound, ball) == 4.0


def test_infinite_constants_name_the_bound_to_add() -> None:
    bound = RecordBound(feature_l2=1.0)
    with pytest.raises(ConfigurationError, match=r"Lipschitz constant of the squared loss.*set"):
        SquaredLoss().lipschitz(bound, None)
    with pytest.raises(ConfigurationError, match="feature_l2"):
        LogisticLoss().lipschitz(RecordBound(feature_max=1.0), None)
    for loss in SCALAR:
        if not isinstance(loss, SquaredLoss):
            assert math.isfinite(loss.lipschitz(bound, None).l2)
    assert LogisticLoss().lipschitz(bound, None).l2 == 1.0
    assert SquaredLoss().smoothness(bound, None).l2 == 1.0


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"feature_l2": 0.0},
        {"feature_l2": -1.0},
        {"feature_max": math.nan},
        {"feature_l2": 1.0, "target_lower": 1.0, "target_upper": 0.0},
    ],
)
def test_record_bounds_refuse_nonsense(arguments: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError):
        RecordBound(**arguments)


def test_losses_refuse_nonsense() -> None:
    for make in (
        lambda: HuberLoss(threshold=0.0),
        lambda: PseudoHuberLoss(threshold=-1.0),
        lambda: SmoothedHingeLoss(width=math.inf),
        lambda: QuantileLoss(level=1.0),
        lambda: PoissonLoss(rate_bound=0.0),
        lambda: PoissonLoss(rate_bound=1.0, target_offset=math.inf),
        lambda: SoftmaxLoss(classes=1),
        lambda: RegularisedLoss(loss=SquaredLoss(), ridge=0.0),
    ):
        with pytest.raises(ConfigurationError):
            make()


def test_capabilities_are_types() -> None:
    for loss in SCALAR:
        assert isinstance(loss, Loss)
        assert isinstance(loss, GeneralisedLinear)
        smooth = not isinstance(loss, HingeLoss | QuantileLoss)
        assert isinstance(loss, SmoothLoss) == smooth
        assert isinstance(loss, SmoothGeneralisedLinear) == smooth
    twice = {type(loss) for loss in SMOOTH if loss.twice_differentiable}
    assert twice == {SquaredLoss, LogisticLoss, PseudoHuberLoss}
    softmax = SoftmaxLoss(classes=3)
    assert isinstance(softmax, SmoothLoss)
    assert not isinstance(softmax, GeneralisedLinear)


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_softmax_gradients(classes: int) -> None:
    generator = public_generator(classes)
    loss = SoftmaxLoss(classes=classes)
    features = generator.standard_normal((20, 4))
    labels = np.eye(classes)[generator.integers(classes, size=20)]
    features[0], labels[0] = 0.0, 0.0
    parameters = generator.standard_normal(4 * classes)
    rows = loss.gradients(parameters, features, labels)
    assert np.all(rows[0] == 0)
    assert np.allclose(loss.gradient_sum(parameters, features, labels), rows.sum(axis=0))
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    clipped = (rows * np.minimum(1, 0.3 / np.maximum(lengths, 1e-300))).sum(axis=0)
    assert np.allclose(loss.gradient_sum(parameters, features, labels, clip=0.3), clipped)
    h = 1e-5
    for axis in np.eye(4 * classes):
        ahead = loss.values(parameters + h * axis, features, labels)
        behind = loss.values(parameters - h * axis, features, labels)
        assert np.allclose(rows @ axis, (ahead - behind) / (2 * h), atol=1e-8)
    direction = generator.standard_normal(4 * classes)
    change = loss.gradients(parameters + h * direction, features, labels) - loss.gradients(
        parameters - h * direction, features, labels
    )
    expected = change @ direction / (2 * h)
    assert np.allclose(loss.hessian_products(parameters, features, direction), expected, atol=1e-7)


def test_softmax_constants() -> None:
    bound = RecordBound(feature_l2=1.5)
    free = SoftmaxLoss(classes=10).lipschitz(bound, None)
    assert free.l2 == math.sqrt(2) * 1.5
    assert free.max == 1.5
    # Approached by a confident wrong answer, and never passed.
    x = np.array([[1.5, 0.0]])
    parameters = np.zeros((10, 2))
    parameters[3, 0] = 40.0
    row = SoftmaxLoss(classes=10).gradients(parameters.ravel(), x, np.eye(10)[:1])
    assert np.linalg.norm(row) == pytest.approx(free.l2, rel=1e-9)
    assert np.abs(row).max() == pytest.approx(free.max, rel=1e-9)
    # Exact on a bounded set for two classes: rows +-(R / sqrt 2) along the record.
    ball = L2Ball(dimension=4, radius=0.8)
    two = SoftmaxLoss(classes=2)
    worst = np.array([-0.8, 0.0, 0.8, 0.0]) / math.sqrt(2)
    row = two.gradients(worst, x, np.array([[1.0, 0.0]]))
    assert np.linalg.norm(row) == pytest.approx(two.lipschitz(bound, ball).l2, rel=1e-9)
    # Smoothness, at equal chances of two classes.
    direction = np.array([1.0, 0.0, -1.0, 0.0]) / math.sqrt(2)
    form = two.hessian_products(np.zeros(4), x, direction)[0]
    assert form == pytest.approx(two.smoothness(bound, ball).l2, rel=1e-9)
    wide = SoftmaxLoss(classes=3).lipschitz(bound, L2Ball(dimension=6, radius=0.8))
    generator = public_generator(4)
    for _ in range(300):
        theta = generator.standard_normal(6)
        theta *= 0.8 / np.linalg.norm(theta)
        row = SoftmaxLoss(classes=3).gradients(theta, x, np.eye(3)[:1])
        assert np.linalg.norm(row) <= wide.l2


def test_regularised_loss_adds_the_ridge_to_everything_but_sensitivity() -> None:
    generator = public_generator(9)
    features, labels = generator.standard_normal((10, 3)), generator.uniform(-1, 1, 10)
    centre = np.array([0.1, 0.0, -0.2])
    loss = RegularisedLoss(loss=LogisticLoss(), ridge=0.3, centre=centre)
    theta = generator.standard_normal(3)
    bound, ball = RecordBound(feature_l2=1.0), L2Ball(dimension=3, radius=2.0)
    assert loss.name == "regularised logistic"
    assert loss.strong_convexity() == 0.3
    assert loss.data_lipschitz(bound, ball) == LogisticLoss().lipschitz(bound, ball)
    reach = 2.0 + float(np.linalg.norm(centre))
    expected = LogisticLoss().lipschitz(bound, ball).l2 + 0.3 * reach
    assert loss.lipschitz(bound, ball).l2 == pytest.approx(expected)
    with pytest.raises(ConfigurationError, match="data_lipschitz"):
        loss.lipschitz(bound, None)
    rows = loss.gradients(theta, features, labels)
    assert np.allclose(loss.gradient_sum(theta, features, labels), rows.sum(axis=0))
    h = 1e-6
    for axis in np.eye(3):
        ahead, behind = (loss.values(theta + s * h * axis, features, labels) for s in (1, -1))
        assert np.allclose(rows @ axis, (ahead - behind) / (2 * h), atol=1e-7)
    clipped = loss.gradient_sum(theta, features, labels, clip=0.1)
    own = LogisticLoss().gradient_sum(theta, features, labels, clip=0.1)
    assert np.allclose(clipped - own, 10 * 0.3 * (theta - centre))
    # Strongly convex for every record, with exactly that modulus where the loss is flat.
    other = theta + generator.standard_normal(3)
    plain = RegularisedLoss(loss=HingeLoss(), ridge=0.3)
    gap = plain.values(other, features, labels) - plain.values(theta, features, labels)
    gap = gap - plain.gradients(theta, features, labels) @ (other - theta)
    modulus = 2 * gap / np.sum((other - theta) ** 2)
    assert modulus.min() == pytest.approx(0.3)
