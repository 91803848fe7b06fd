"""Laws of composition, of conversion and of the ledger, over arbitrary parts."""

import json
import math
from functools import reduce

from hypothesis import given, settings
from hypothesis import strategies as st

from dpstream.privacy.bounds import curve_of
from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import gaussian_mu, pure_epsilon
from dpstream.privacy.curve import PrivacyCurve
from dpstream.privacy.event import (
    ApproximateEvent,
    ComposedEvent,
    ExponentialEvent,
    FailureEvent,
    GaussianEvent,
    PureEvent,
    RepeatedEvent,
    ZeroConcentratedEvent,
    event_from_json,
)
from dpstream.privacy.ledger import Ledger
from dpstream.privacy.unit import Unit

# Bounds by distribution are computed on a grid that depends on the parts: between different
# grids a bound may move by their resolution, which is about 1e-5 of the total loss.
GRID = 1e-4


def law(examples):
    return settings(deadline=None, derandomize=True, max_examples=examples)


amounts = st.floats(1e-3, 1.5)
parts = st.one_of(
    st.builds(PrivacyCurve.gaussian, amounts),
    st.builds(PrivacyCurve.pure, amounts),
    st.builds(PrivacyCurve.exponential, amounts),
    st.builds(PrivacyCurve.zcdp, st.floats(1e-5, 1.0)),
    st.builds(PrivacyCurve.failure, st.floats(0.0, 1e-3)),
    st.builds(PrivacyCurve.approximate, amounts, st.floats(0.0, 1e-3)),
)
curves = st.lists(parts, max_size=4).map(
    lambda chosen: reduce(PrivacyCurve.compose, chosen, PrivacyCurve.none())
)
epsilons = st.floats(0.0, 6.0)
deltas = st.floats(1e-12, 0.5)

covers = st.one_of(
    st.none(),
    st.tuples(st.integers(0, 40), st.integers(1, 20)).map(lambda pair: (pair[0], sum(pair))),
)
names = st.text(min_size=1, max_size=8)
single_events = st.one_of(
    st.builds(GaussianEvent, names, mu=st.floats(0, 1e6), covers=covers),
    st.builds(PureEvent, names, epsilon=st.floats(0, 1e6), covers=covers),
    st.builds(ExponentialEvent, names, epsilon=st.floats(0, 1e6), covers=covers),
    st.builds(ZeroConcentratedEvent, names, rho=st.floats(0, 1e6), covers=covers),
    st.builds(
        ApproximateEvent,
        names,
        epsilon=st.floats(0, 1e6),
        delta=st.floats(0, 1, exclude_max=True),
        covers=covers,
    ),
    st.builds(FailureEvent, names, delta=st.floats(0, 1, exclude_max=True), covers=covers),
)
events = st.recursive(
    single_events,
    lambda inner: st.one_of(
        st.builds(RepeatedEvent, inner, st.integers(0, 5)),
        st.builds(ComposedEvent, st.lists(inner, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)


@given(curves, curves, curves)
@law(60)
def test_composition_is_commutative_and_associative_to_the_bit(first, second, third):
    assert first.compose(second) == second.compose(first)
    assert first.compose(second).compose(third) == first.compose(second.compose(third))
    assert first.compose(PrivacyCurve.none()) == first


@given(curves, st.integers(0, 6), st.integers(0, 6))
@law(60)
def test_repetition_is_composition(curve, count, more):
    composed = reduce(PrivacyCurve.compose, [curve] * count, PrivacyCurve.none())
    assert curve.repeat(count) == composed
    assert curve.repeat(count).compose(curve.repeat(more)) == curve.repeat(count + more)
    assert curve.repeat(count).repeat(more) == curve.repeat(count * more)


@given(parts, st.integers(2, 5), epsilons)
@law(30)
def test_counts_are_paid_for_when_delta_is_computed(part, count, epsilon):
    # The same parts told apart by a hair, so that none is stored as a count.
    hairs = [1.0 + index * 1e-9 for index in range(count)]
    apart = PrivacyCurve.none()
    for hair in hairs:
        apart = apart.compose(
            PrivacyCurve(
                part.squared_shift,
                part.concentration,
                part.failure_mass,
                tuple((value * hair, times) for value, times in part.pure_steps),
                tuple((value * hair, times) for value, times in part.exponential_steps),
            )
        )
    together = part.repeat(count).delta(epsilon)
    # A jump of a pure part's delta is smeared over one grid point.
    shift = 4 * GRID * (1.0 + part.pure_epsilon * count)
    assert apart.delta(epsilon + shift) <= together * (1 + GRID) + 1e-11
    assert together <= apart.delta(max(0.0, epsilon - shift)) * (1 + GRID) + 1e-11


@given(curves, curves, epsilons)
@law(40)
def test_releasing_more_never_reveals_less(first, second, epsilon):
    both = first.compose(second)
    assert both.delta(epsilon) >= first.delta(epsilon) * (1 - 20 * GRID) - 1e-11


@given(curves, epsilons, epsilons)
@law(40)
def test_delta_falls_as_epsilon_grows(curve, one, other):
    low, high = sorted((one, other))
    # Two evaluations differ by their rounding, 1e-11 relative.
    assert curve.delta(high) <= curve.delta(low) * (1 + 1e-11)


@given(curves, deltas, deltas)
@law(30)
def test_epsilon_falls_as_delta_grows(curve, one, other):
    low, high = sorted((one, other))
    assert curve.epsilon(high) <= curve.epsilon(low) * (1 + 1e-11)


@given(curves, deltas)
@law(40)
def test_epsilon_is_the_smallest_that_holds(curve, delta):
    epsilon = curve.epsilon(delta)
    if math.isfinite(epsilon):
        assert curve.delta(epsilon) <= delta
        assert curve.holds(epsilon, delta)
    if 0.0 < epsilon < math.inf:
        assert curve.delta(epsilon * (1 - 1e-6)) > delta * (1 - 1e-9)


@given(st.floats(1e-3, 50.0), st.floats(0.0, 8.0))
@law(200)
def test_gaussian_round_trip(mu, quantile):
    epsilon = min(500.0, mu * mu / 2 + mu * quantile)
    curve = PrivacyCurve.gaussian(mu)
    delta = curve.delta(epsilon)
    back = curve.epsilon(delta)
    assert back <= epsilon * (1 + 1e-11)
    # d ln(delta)/d epsilon is at least of order (1 + quantile)/mu here, unless delta is near 1.
    if delta < 0.99:
        assert back >= epsilon * (1 - 1e-9) - 1e-9 * mu


@given(st.floats(0.01, 50.0), st.floats(-14.0, -0.05))
@law(60)
def test_calibrated_shares_of_any_budget_fit_it(epsilon, exponent):
    budget = Budget(epsilon=epsilon, delta=10.0**exponent)
    mu = gaussian_mu(budget)
    for count in (1, 3, 7):
        share = GaussianEvent("share", mu=mu / math.sqrt(count))
        assert curve_of(RepeatedEvent(share, count)).holds(budget.epsilon, budget.delta)
        ledger = Ledger(budget, Unit())
        for _ in range(count):
            ledger.charge(share)
    pure = Budget(epsilon=epsilon, delta=0.0)
    step = PureEvent("share", epsilon=pure_epsilon(pure) / 7)
    assert curve_of(RepeatedEvent(step, 7)).holds(epsilon, 0.0)


@given(events)
@law(150)
def test_events_survive_json(event):
    text = json.dumps(event.to_json(), allow_nan=False)
    back = event_from_json(json.loads(text))
    assert back == event
    assert curve_of(back) == curve_of(event)


@given(
    st.lists(
        st.tuples(st.sampled_from([0.05, 0.1, 0.3]), covers, st.integers(1, 3)),
        max_size=12,
    )
)
@law(60)
def test_ledger_spends_what_the_worst_position_paid(charges):
    ledger = Ledger(Budget(epsilon=1.0, delta=0.0), Unit())
    paid = [0.0] * 64
    for epsilon, where, count in charges:
        first, end = where or (0, 64)
        event = RepeatedEvent(PureEvent("p", epsilon=epsilon, covers=where), count)
        after = [
            value + count * epsilon * (first <= position < end)
            for position, value in enumerate(paid)
        ]
        # Rounding of this reference, not of the ledger, is what the margin is for.
        if abs(max(after[first:end]) - 1.0) < 1e-9:
            continue
        fits = max(after[first:end]) <= 1.0
        assert ledger.admits(event) == fits
        if fits:
            ledger.charge(event)
            paid = after
    assert math.isclose(ledger.spent().pure_epsilon, max(paid), abs_tol=1e-12)
    rebuilt = Ledger.from_rows(ledger.rows, budget=ledger.budget, unit=ledger.unit)
    assert rebuilt.spent() == ledger.spent()
    assert rebuilt.head == ledger.head
