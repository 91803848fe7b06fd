"""Sampled Gaussian measurements: delta against exact integrals and another program's."""

import math

import mpmath
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from dpstream.errors import ConfigurationError
from dpstream.privacy import loss_distribution
from dpstream.privacy.budget import Budget
from dpstream.privacy.gaussian import gaussian_delta
from dpstream.privacy.loss_distribution import sampled_gaussian_delta


def exact_single(mu: float, rate: float, epsilon: float) -> float:
    """The larger hockey-stick divergence of one sampled measurement, by 30-digit quadrature."""
    with mpmath.workdps(30):

        def density(x: mpmath.mpf, shift: float) -> mpmath.mpf:
            return mpmath.npdf(x, mpmath.mpf(shift), 1)

        def joined(x: mpmath.mpf) -> mpmath.mpf:
            return rate * density(x, mu) + (1 - rate) * density(x, 0.0)

        level = mpmath.exp(epsilon)
        # The likelihood ratio grows with x: each difference changes its sign once.
        odds = (level - 1 + rate) / rate
        above = mpmath.log(odds) / mu + mu / 2
        forward = mpmath.quad(
            lambda x: joined(x) - level * density(x, 0.0), [above, above + 2, above + 10, 40]
        )
        other = (1 / level - 1 + rate) / rate
        backward = mpmath.mpf(0)
        if other > 0:
            below = mpmath.log(other) / mu + mu / 2
            backward = mpmath.quad(
                lambda x: density(x, 0.0) - level * joined(x), [-40, below - 10, below - 2, below]
            )
        return float(max(forward, backward))


@pytest.mark.parametrize(
    ("mu", "rate", "epsilon"),
    [(1.0, 0.5, 0.3), (0.5, 0.1, 0.02), (2.0, 0.01, 1.0), (1.0, 0.9, 0.0), (1.5, 0.3, 0.1)],
)
def test_one_measurement_is_the_integral_and_never_below(
    mu: float, rate: float, epsilon: float
) -> None:
    exact = exact_single(mu, rate, epsilon)
    found = sampled_gaussian_delta(mu, rate, 1, epsilon)
    assert exact <= found <= exact * (1 + 2e-3) + 1e-12


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_rate_one_is_the_gaussian(epsilon: float) -> None:
    exact = gaussian_delta(math.sqrt(5) * 0.7, epsilon)
    found = sampled_gaussian_delta(0.7, 1.0, 5, epsilon)
    assert exact * (1 - 1e-9) <= found <= exact * (1 + 5e-3)


@pytest.mark.parametrize(
    ("mu", "rate", "count", "epsilon"), [(1.0, 0.1, 20, 1.0), (0.8, 0.02, 400, 0.5)]
)
def test_many_measurements_agree_with_dp_accounting(
    mu: float, rate: float, count: int, epsilon: float
) -> None:
    def theirs(*, above: bool) -> float:
        single = pld.from_gaussian_mechanism(
            1.0 / mu,
            value_discretization_interval=1e-4,
            pessimistic_estimate=above,
            sampling_prob=rate,
        )
        return single.self_compose(count).get_delta_for_epsilon(epsilon)

    found = sampled_gaussian_delta(mu, rate, count, epsilon)
    assert theirs(above=False) <= found <= theirs(above=True) * (1 + 1e-2)


@pytest.mark.parametrize(
    ("mu", "rate", "count"),
    [(0.5, 0.1, 20), (0.05, 0.5, 400), (2.0, 1e-4, 1), (2.0, 1e-4, 1000), (4.0, 0.3, 1)],
)
def test_the_grid_holds_nine_deviations_at_a_256th_of_one(
    mu: float, rate: float, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Half a million points at most, for the composition's whole range.
    grids: list[tuple[float, list[int]]] = []

    class Nothing:
        def get_delta_for_epsilon(self, epsilon: float) -> float:
            return 0.0

    def seen(spacing: float, dots: list[int], *further: object) -> Nothing:
        grids.append((spacing, dots))
        return Nothing()

    monkeypatch.setattr(loss_distribution, "_connected", seen)
    sampled_gaussian_delta(mu, rate, count, 0.5)
    single = math.log(1.0 - rate + rate * math.exp(9.5 * mu + mu**2 / 2))
    deviation = rate * math.sqrt(math.exp(mu**2) - 1.0)
    mean, spread = count * deviation**2, 9.5 * math.sqrt(count) * deviation
    total = min(count * single, single + mean + spread)
    assert len(grids) == 2
    for spacing, dots in grids:
        assert spacing == pytest.approx(max(deviation / 256, 2 * total / 2**19), rel=1e-9)
        assert max(dots) == -min(dots) == math.ceil(single / spacing)


def test_what_is_beyond_the_grid_is_allowed_for() -> None:
    # In units of 2^-52: 512 for the part and 16 for each measurement.
    found = sampled_gaussian_delta(0.01, 0.5, 5, 50.0)
    # Of it the transform used five.
    assert 512 + 5 * 16 <= found * 2.0**52 < 512 + 6 * 16


def test_losses_beyond_every_exponential() -> None:
    # At rate 1 the grid reaches below -37, where the other stream's density is no float's.
    assert gaussian_delta(4.0, 2.0) <= sampled_gaussian_delta(4.0, 1.0, 1, 2.0) <= 1.0


def test_more_of_anything_reveals_more() -> None:
    base = sampled_gaussian_delta(0.8, 0.1, 10, 0.5)
    for other in (
        (0.9, 0.1, 10, 0.5),
        (0.8, 0.2, 10, 0.5),
        (0.8, 0.1, 20, 0.5),
        (0.8, 0.1, 10, 0.4),
    ):
        assert sampled_gaussian_delta(*other) > base


@pytest.mark.parametrize("value", ["1.0", True, None, [1.0]])
def test_a_budget_is_numbers(value: object) -> None:
    with pytest.raises(ConfigurationError, match=r"budget epsilon is .*such as 1.0"):
        Budget(epsilon=value, delta=1e-6)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(ConfigurationError, match=r"budget delta is .*such as 1e-06"):
        Budget(epsilon=1.0, delta=value)  # type: ignore[arg-type]  # what is refused
