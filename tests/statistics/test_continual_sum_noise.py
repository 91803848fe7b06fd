"""The noise of a measured node, coordinate by coordinate, where scales differ.

Seeds are fixed; each limit leaves honest noise a false alarm of FALSE_ALARM.
"""

import numpy as np
import pytest
from scipy.stats import kstest, norm

from dpstream.domain.lattice import ExactVector
from dpstream.mechanisms.continual.node_noise import NoiseKind
from dpstream.mechanisms.continual.strategy import Participation
from dpstream.mechanisms.continual.sum import ContinualSum
from dpstream.mechanisms.continual.tree import BinaryTree
from dpstream.mechanisms.mechanism import Noise
from dpstream.testing.attack import separation_finding, variance_finding

FALSE_ALARM = 1e-7
HALF = 4000


def released(kind: NoiseKind, seed: int, *, value: int = 0) -> tuple[ContinualSum, np.ndarray]:
    """One node of half quiet and half loud coordinates."""
    mechanism = ContinualSum(
        strategy=BinaryTree(1),
        dimension=2 * HALF,
        increment_exponent=-20,
        increment_bound=1.0,
        record_shift=1.0,
        participation=Participation(),
        kind=kind,
        strength=1.0,
        scales=(4.0,) * HALF + (0.5,) * HALF,
    )
    state = mechanism.init()
    increment = np.full(2 * HALF, value << 20, np.int64)
    mechanism.absorb(state, ExactVector.from_integers(increment, -20))
    return mechanism, mechanism.release(state, Noise.insecure(seed))[1]


@pytest.mark.parametrize("kind", [NoiseKind.GAUSSIAN, NoiseKind.EXACT])
def test_each_coordinate_has_its_own_scale(kind: NoiseKind) -> None:
    mechanism, estimate = released(kind, 5)
    claims = mechanism.variance(1)
    assert claims[-1] == pytest.approx(64 * claims[0])
    for part, other in ((slice(None, HALF), -1), (slice(HALF, None), 0)):
        values, claim = estimate[part], float(claims[part][0])
        assert variance_finding("noise", values, claim, false_alarm=FALSE_ALARM).passed
        for wrong in (claim / 4, claim * 4, float(claims[other])):
            assert not variance_finding("noise", values, wrong, false_alarm=FALSE_ALARM).passed
        standard = norm.cdf(values / np.sqrt(claim))
        assert kstest(standard, "uniform").pvalue > FALSE_ALARM
        assert kstest(standard**1.2, "uniform").pvalue < FALSE_ALARM


@pytest.mark.parametrize("kind", [NoiseKind.GAUSSIAN, NoiseKind.EXACT])
def test_a_scaled_coordinate_tells_as_much_as_its_scale_says(kind: NoiseKind) -> None:
    mechanism, without = released(kind, 6)
    _, present = released(kind, 6, value=1)
    # Other values at the same address: the noise must be independent, not the same.
    assert np.ptp(present - without) > mechanism.sigma / 4
    for part, scale in ((slice(None, HALF), 4.0), (slice(HALF, None), 0.5)):
        claim = scale / mechanism.sigma
        for factor, passed in ((1.0, True), (0.5, False), (2.0, False)):
            finding = separation_finding(
                "shift", without[part], present[part], claim * factor, false_alarm=FALSE_ALARM
            )
            assert finding.passed is passed, str(finding)
