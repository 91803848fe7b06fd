"""What mechanisms refuse, what they return, and what their events say."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from dpstream.errors import ConfigurationError
from dpstream.mechanisms.discrete_gaussian import (
    discrete_gaussian_event,
    measure_discrete_gaussian,
)
from dpstream.mechanisms.exponential import (
    LARGEST_SCORE,
    check_score_bound,
    exponential_event,
    rounded_scores,
    score_sensitivity,
    select_exponential,
)
from dpstream.mechanisms.gaussian import gaussian_event, measure_gaussian
from dpstream.mechanisms.held_out import held_out_totals
from dpstream.mechanisms.mechanism import (
    MEASURABLE,
    Noise,
    bounded_sum_sensitivity,
    checked_ratio,
    lattice_units,
    measure,
)
from dpstream.mechanisms.spherical_laplace import (
    measure_spherical_laplace,
    spherical_laplace_event,
)
from dpstream.privacy.unit import Neighbours
from dpstream.release import Measurement

NOISE = Noise.insecure(31)
ADDRESS = (4, 2)

MECHANISMS: dict[str, Callable[[np.ndarray, int, float], Measurement]] = {
    "gaussian": lambda value, exponent, scale: measure_gaussian(
        value, exponent, sigma=scale, address=ADDRESS, noise=NOISE
    ),
    "discrete gaussian": lambda value, exponent, scale: measure_discrete_gaussian(
        value, exponent, sigma=scale, address=ADDRESS, noise=NOISE
    ),
    "spherical Laplace": lambda value, exponent, scale: measure_spherical_laplace(
        value, exponent, scale=scale, address=ADDRESS, noise=NOISE
    ),
    "exponential": lambda value, exponent, scale: select_exponential(
        value, exponent, scale=scale, address=ADDRESS, noise=NOISE
    ),
}
VECTORS = [name for name in MECHANISMS if name != "exponential"]


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("exponent", [-40, -20, 0, 12])
def test_a_measurement_is_the_value_and_noise_on_its_lattice(name: str, exponent: int):
    value = np.array([5, -7, MEASURABLE, -MEASURABLE, 0])
    scale = 2.0 ** (exponent + 8)
    measured = MECHANISMS[name](value, exponent, scale)
    assert (measured.address, measured.exponent) == (ADDRESS, exponent)
    assert measured.value.dtype == np.int64
    noise = measured.value - value
    assert np.any(noise != 0)
    # 2^8 steps of scale: beyond 2^8 * 100 with chance below e^-90.
    assert np.all(np.abs(noise) < 25_600)


@pytest.mark.parametrize("name", VECTORS)
def test_an_empty_vector_is_measured_as_empty(name: str):
    assert MECHANISMS[name](np.empty(0, np.int64), 0, 100.0).value.shape == (0,)


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_value_beyond_the_measurable_range_is_refused_without_being_shown(name: str):
    with pytest.raises(ConfigurationError, match="exceeds") as caught:
        MECHANISMS[name](np.array([0, MEASURABLE + 54_321]), 0, 100.0)
    assert "54" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="exceeds"):
        MECHANISMS[name](np.array([np.iinfo(np.int64).min]), 0, 100.0)


@pytest.mark.parametrize("name", MECHANISMS)
def test_anything_but_a_row_of_integers_is_refused(name: str):
    for wrong in (np.zeros((2, 2), np.int64), np.asarray(3), np.array([0.5]), np.array(["1"])):
        with pytest.raises(ConfigurationError, match="row of 64-bit integers"):
            MECHANISMS[name](wrong, 0, 100.0)
    with pytest.raises(ConfigurationError, match="uint64"):
        MECHANISMS[name](np.zeros(2, np.uint64), 0, 100.0)


@pytest.mark.parametrize("name", MECHANISMS)
def test_narrower_integers_are_the_same_value(name: str):
    narrow = MECHANISMS[name](np.array([3, 1, 2], np.int16), 0, 100.0)
    assert np.array_equal(narrow.value, MECHANISMS[name](np.array([3, 1, 2]), 0, 100.0).value)


@pytest.mark.parametrize("scale", [math.nan, math.inf, -1.0, 0.0, 1e-30, 1e30])
@pytest.mark.parametrize("name", MECHANISMS)
def test_a_scale_that_does_not_fit_the_lattice_is_refused(name: str, scale: float):
    with pytest.raises(ConfigurationError, match=r"scale|variance"):
        MECHANISMS[name](np.zeros(2, np.int64), 0, scale)


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_scale_beyond_float64_in_lattice_steps_is_refused(name: str):
    with pytest.raises(ConfigurationError, match="coarser lattice"):
        MECHANISMS[name](np.zeros(2, np.int64), -100, 1e300)
    with pytest.raises(ConfigurationError, match=r"scale|variance"):
        MECHANISMS[name](np.zeros(2, np.int64), 2000, 1.0)


def test_gaussian_noise_may_differ_by_coordinate():
    value = np.zeros(4000, np.int64)
    sigma = np.repeat([2.0, 2.0**11], 2000)
    measured = measure_gaussian(value, -4, sigma=sigma, address=ADDRESS, noise=NOISE)
    near, far = measured.value[:2000].std(), measured.value[2000:].std()
    # The deviation of 2000 normals is known within 5.4 / sqrt(4000) at false alarm 1e-7.
    assert abs(near / 32 - 1) < 0.09
    assert abs(far / 2.0**15 - 1) < 0.09


def test_a_selection_is_one_index():
    measured = select_exponential(
        np.array([0, 10**12, 3]), -20, scale=1.0, address=ADDRESS, noise=NOISE
    )
    assert measured == Measurement(address=ADDRESS, exponent=0, value=measured.value)
    assert measured.value.tolist() == [1]


def test_selection_refuses_no_candidates():
    with pytest.raises(ConfigurationError, match="at least one"):
        select_exponential(np.empty(0, np.int64), 0, scale=1.0, address=ADDRESS, noise=NOISE)


def test_scores_are_rounded_to_the_nearest_step():
    rounded = rounded_scores(np.array([0.24, 0.26, -0.26, 1e3]), -1)
    assert rounded.dtype == np.int64
    assert rounded.tolist() == [0, 1, -1, 2000]
    for bad in (math.nan, math.inf, 1e30):
        with pytest.raises(ConfigurationError, match="score"):
            rounded_scores(np.array([0.0, bad]), -1)


def test_scores_of_2_to_the_61_steps_are_the_largest():
    largest = 2.0**62
    assert rounded_scores(np.array([largest, -largest]), 1).tolist() == [1 << 61, -(1 << 61)]
    for score in (largest * (1 + 2.0**-52), -largest * (1 + 2.0**-52)):
        with pytest.raises(ConfigurationError, match=r"exceeds 2\*\*61 lattice steps"):
            rounded_scores(np.array([0.0, score]), 1)


def test_events_carry_the_ratio_of_shift_to_noise_rounded_up():
    covers = (3, 9)
    gaussian = gaussian_event("batch", sensitivity=2.0, sigma=3.0, covers=covers)
    discrete = discrete_gaussian_event("batch", sensitivity=2.0, sigma=3.0, covers=covers)
    spherical = spherical_laplace_event("batch", sensitivity=2.0, scale=3.0, covers=covers)
    selection = exponential_event("batch", sensitivity=2.0, scale=3.0, covers=covers)
    for event in (gaussian, discrete, spherical, selection):
        assert (event.name, event.covers) == ("batch", covers)
    for stated, exact in (
        (gaussian.mu, 2 / 3),
        (discrete.rho, 2 / 9),
        (spherical.epsilon, 2 / 3),
        (selection.epsilon, 4 / 3),
    ):
        assert exact <= stated <= exact * (1 + 1e-14)


@pytest.mark.parametrize(("sensitivity", "scale"), [(-1, 1), (math.nan, 1), (math.inf, 1)])
def test_events_refuse_a_sensitivity_that_bounds_nothing(sensitivity: float, scale: float):
    with pytest.raises(ConfigurationError, match="sensitivity"):
        gaussian_event("batch", sensitivity=sensitivity, sigma=scale)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_events_refuse_a_scale_that_is_none(scale: float):
    with pytest.raises(ConfigurationError, match="noise scale"):
        spherical_laplace_event("batch", sensitivity=1.0, scale=scale)


@pytest.mark.parametrize(
    "wrong",
    [
        {"bound": -1.0},
        {"bound": math.nan},
        {"bound": math.inf},
        {"cap": -1},
        {"rounding_step": -1.0},
        {"rounding_step": math.inf},
        {"dimension": -4},
    ],
)
def test_sensitivity_refuses_what_bounds_nothing(wrong: dict[str, float]):
    arguments = {"bound": 1.0, "cap": 1, "rounding_step": 1.0, "dimension": 4} | wrong
    with pytest.raises(ConfigurationError, match="no sensitivity"):
        bounded_sum_sensitivity(neighbours=Neighbours.REPLACE, **arguments)


def test_lattice_units_are_exact():
    assert lattice_units(0.1, -20) == 0.1 * 2.0**20
    assert score_sensitivity(1.0, exponent=-3) == 1.125


@pytest.mark.parametrize("gains", [np.zeros(3), np.zeros((2, 0)), np.zeros((1, 2, 3))])
def test_gains_are_a_row_for_each_record(gains: np.ndarray) -> None:
    with pytest.raises(ConfigurationError, match="one row per record"):
        held_out_totals(gains)


def test_a_records_gains_lie_between_0_and_1_whatever_it_says() -> None:
    wild = np.array([[np.inf, -np.inf, np.nan, 2.0, -3.0, 0.5]])
    one = held_out_totals(np.ones((1, 1)))[0]
    assert held_out_totals(wild).tolist() == [one, 0, 0, one, 0, one // 2]
    assert held_out_totals(np.zeros((0, 2))).tolist() == [0, 0]


@pytest.mark.parametrize("exponent", [-40, 0, 12])
def test_scores_that_some_batch_could_not_hold_are_refused_beforehand(exponent: int):
    largest = math.ldexp(1.0, 60 + exponent)
    check_score_bound(largest, exponent)
    # What is let through is rounded for every data set, with half the room to spare.
    assert abs(int(rounded_scores(np.array([largest]), exponent)[0])) <= LARGEST_SCORE // 2
    for refused in (math.nextafter(largest, math.inf), math.inf, math.nan):
        with pytest.raises(
            ConfigurationError, match=r"exceeds 2\*\*60 steps.*give a smaller ridge"
        ):
            check_score_bound(refused, exponent)


def test_what_is_drawn_is_added() -> None:
    drawn = np.array([3, -1, 0])
    measured = measure(
        np.array([MEASURABLE, -MEASURABLE, 0]),
        -7,
        address=ADDRESS,
        noise=NOISE,
        draw=lambda _: drawn,
    )
    assert MEASURABLE == 2**61
    assert measured.value.tolist() == [2**61 + 3, -(2**61) - 1, 0]
    assert (measured.address, measured.exponent) == (ADDRESS, -7)


@pytest.mark.parametrize("bound", [0.1, 1.0 / 3.0, 0.7, 1.0, 1e-9, 123.456])
@pytest.mark.parametrize("cap", [1, 3, 7])
def test_sensitivities_and_ratios_are_rounded_upwards(bound: float, cap: int) -> None:
    step, little = 2.0**-9 / 3.0, Fraction(2) ** -48
    for neighbours, changes in ((Neighbours.ZERO_OUT, 1), (Neighbours.REPLACE, 2)):
        for dimension, root in ((0, 0), (1, 1), (4, 2), (9, 3)):
            exact = changes * cap * Fraction(bound) + root * Fraction(step)
            claim = bounded_sum_sensitivity(
                bound, neighbours=neighbours, cap=cap, rounding_step=step, dimension=dimension
            )
            assert exact < Fraction(claim) < exact * (1 + little)
    ratio = Fraction(bound) / cap
    assert ratio < Fraction(checked_ratio(bound, float(cap))) < ratio * (1 + little)
