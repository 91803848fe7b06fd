"""Delta is never understated, down to where floats lose their digits."""

import mpmath
import pytest

from dpstream.privacy.gaussian import gaussian_delta


@pytest.mark.parametrize(
    ("mu", "epsilon"),
    [
        (0.002896253476946942, 0.1093704298100214),  # a true delta of 1.9e-316
        (0.01, 0.372),
        (0.5, 18.5),
        (1.0, 36.0),
        (1.0, 38.5),
    ],
)
def test_deltas_next_to_underflow_are_not_understated(mu: float, epsilon: float):
    with mpmath.workdps(60):
        shift, level = mpmath.mpf(mu), mpmath.mpf(epsilon)
        exact = mpmath.ncdf(shift / 2 - level / shift) - mpmath.exp(level) * mpmath.ncdf(
            -shift / 2 - level / shift
        )
        assert mpmath.mpf(gaussian_delta(mu, epsilon)) >= exact > 0
