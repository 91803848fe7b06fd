"""Negative controls: single measurements, how noise is bound, stacks of moments, selections."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dpstream.arrays import FloatArray, IntArray
from dpstream.audit.binding import binding_attack
from dpstream.audit.finding import Finding
from dpstream.audit.gaussian import GaussianWorlds, Search, gaussian_evidence
from dpstream.audit.mechanism import (
    CANDIDATES,
    held_out_worlds,
    noise_alone,
    selection_evidence,
    spherical_evidence,
)
from dpstream.audit.moments import STACK, measure_stack, stack_evidence
from dpstream.mechanisms.continual.sum import ContinualSum
from dpstream.mechanisms.exponential import score_sensitivity, select_exponential
from dpstream.mechanisms.gaussian import gaussian_event, measure_gaussian
from dpstream.mechanisms.held_out import choose_held_out, held_out_scale
from dpstream.mechanisms.mechanism import Noise, bounded_sum_sensitivity
from dpstream.mechanisms.moments import MomentWeights, moment_sensitivity
from dpstream.mechanisms.public import public_generator
from dpstream.mechanisms.spherical_laplace import measure_spherical_laplace
from dpstream.privacy.bounds import curve_of
from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import gaussian_mu
from dpstream.privacy.unit import Neighbours
from dpstream.release import Measurement
from dpstream.testing.control import Attack, Control

BUDGET = Budget(epsilon=8.0, delta=1e-6)
MU = gaussian_mu(BUDGET)
RUNS = 6000
STACK_RUNS = 1500
EXPONENT = -20


class Careless(Noise):
    """Binds noise to the address alone: a roll-back meets the same noise on other data."""

    __slots__ = ()

    def bind(self, value: npt.NDArray[np.int64 | np.float64], *, exponent: int = 0) -> bytes:
        """The same digest for every value."""
        del value, exponent
        return b""


class Forgetful(Noise):
    """Draws afresh each time: a replay gives other noise on the same data."""

    __slots__ = ("_calls",)
    _calls: int

    def bind(self, value: npt.NDArray[np.int64 | np.float64], *, exponent: int = 0) -> bytes:
        """Another digest at every call."""
        self._calls = getattr(self, "_calls", 0) + 1
        return super().bind(value, exponent=exponent) + self._calls.to_bytes(8, "big")


def _measured(value: IntArray, address: tuple[int, ...], noise: Noise) -> Measurement:
    return measure_gaussian(value, EXPONENT, sigma=1.0, address=address, noise=noise)


def _placeless(value: IntArray, address: tuple[int, ...], noise: Noise) -> Measurement:
    return replace(_measured(value, (0,), noise), address=address)


def _binding(
    measured: Callable[[IntArray, tuple[int, ...], Noise], Measurement] = _measured,
    *,
    source: type[Noise] = Noise,
    shared_key: bool = False,
) -> Attack:
    def attack(seed: int, broken: bool) -> Sequence[Finding]:
        key = Noise.insecure(seed).key_bytes()
        other_key = Noise.insecure(seed + 1).key_bytes()
        if not broken:
            noise, other = Noise.from_key(key), Noise.from_key(other_key)
            return binding_attack(noise_alone(_measured), noise=noise, other=other)
        return binding_attack(
            noise_alone(measured),
            noise=source.from_key(key),
            other=source.from_key(key if shared_key else other_key),
        )

    return attack


def _stack(broken: Callable[[], ContinualSum]) -> Attack:
    """A stack of moments under ``replace``."""

    def attack(seed: int, broken_one: bool) -> Sequence[Finding]:
        neighbours = Neighbours.REPLACE
        mechanism = broken() if broken_one else measure_stack(STACK, neighbours)
        noise = Noise.insecure(seed)
        return stack_evidence(mechanism, STACK, neighbours, STACK_RUNS, noise).findings

    return attack


def _with_shift(shift: float) -> Callable[[], ContinualSum]:
    return lambda: measure_stack(STACK, Neighbours.REPLACE, shift=shift)


def _quiet(position: int) -> Callable[[], ContinualSum]:
    """One entry of the stack has noise a thousandth of what it should be."""

    def make() -> ContinualSum:
        sound = measure_stack(STACK, Neighbours.REPLACE)
        scales = list(STACK.scales)
        scales[position] *= 1024.0
        # The noise of the others stays: only the claim's arithmetic knows of the scales.
        return replace(sound, scales=tuple(scales))

    return make


def _halves() -> float:
    """The largest shift of either half of the stack, as if each had the budget to itself."""
    w = STACK.weights
    squares = MomentWeights(count=w.count, x=w.x, xx=w.xx, y=0.0, xy=0.0, yy=0.0)
    rest = MomentWeights(count=0.0, x=0.0, xx=0.0, y=w.y, xy=w.xy, yy=w.yy)
    return max(moment_sensitivity(part, Neighbours.REPLACE) for part in (squares, rest))


def worlds_of(
    measured: Callable[[IntArray, int, str], FloatArray],
    *,
    without: IntArray,
    present: IntArray,
    sigma: float,
    shift: FloatArray,
    runs: int,
) -> GaussianWorlds:
    """Runs of one vector measurement in two worlds.

    Args:
        measured: the mechanism: value, run and world's name.
        without: the exact value without the record.
        present: with it.
        sigma: the claimed noise.
        shift: the exact shift that is claimed.
        runs: of each world.
    """
    return GaussianWorlds(
        without=np.array([measured(without, run, "without") for run in range(runs)]),
        present=np.array([measured(present, run, "present") for run in range(runs)]),
        mean=without.astype(np.float64),
        shift=shift,
        deviation=np.full(without.size, sigma),
    )


def judged_vector(worlds: GaussianWorlds, *, mu: float) -> Sequence[Finding]:
    """The battery's findings about one vector."""
    claim = gaussian_event("measurement", sensitivity=1.0, sigma=1.0 / mu)
    search = Search(worst="given", tried=1, separation=worlds.separation, least_share=0.0)
    return gaussian_evidence(
        worlds,
        claim=curve_of(claim),
        claimed_mu=mu,
        delta=BUDGET.delta,
        search=search,
        pooled=True,
    ).findings


def _coarse_rounding(seed: int, broken: bool) -> Sequence[Finding]:
    """A sum rounded to a lattice near its noise: 0.499 and 1.501 steps become 0 and 2."""
    size, real = 16, 1.002
    step = 0.0 if broken else 1.0
    sensitivity = bounded_sum_sensitivity(
        real * math.sqrt(size),
        neighbours=Neighbours.ZERO_OUT,
        cap=1,
        rounding_step=step,
        dimension=size,
    )
    sigma = sensitivity / MU
    before = np.full(size, round(0.499), np.int64)
    after = np.full(size, round(0.499 + real), np.int64)
    noise = Noise.insecure(seed)

    def measured(value: IntArray, run: int, name: str) -> FloatArray:
        source = noise.child(name)
        made = measure_gaussian(value, 0, sigma=sigma, address=(run,), noise=source)
        return made.value.astype(np.float64)

    shift = (after - before).astype(np.float64)
    worlds = worlds_of(
        measured, without=before, present=after, sigma=sigma, shift=shift, runs=RUNS // 4
    )
    # Rounded noise of a few steps has Sheppard's variance: 1/12 of a squared step more.
    widened = replace(worlds, deviation=np.full(size, math.sqrt(sigma**2 + 1 / 12)))
    found = judged_vector(widened, mu=MU)
    # Integers are not normal: Kolmogorov-Smirnov does not apply on so coarse a lattice.
    return [each for each in found if "Kolmogorov" not in each.name]


def _data_bound(seed: int, broken: bool) -> Sequence[Finding]:
    """Noise scaled by the largest norm in the data, 0.1 without the outlier and 1 with it."""
    noise = Noise.insecure(seed)
    one = 1 << -EXPONENT

    def measured(value: IntArray, run: int, name: str) -> FloatArray:
        bound = 0.1 if broken and name == "without" else 1.0
        made = measure_gaussian(
            value, EXPONENT, sigma=bound / MU, address=(run,), noise=noise.child(name)
        )
        return np.ldexp(made.value.astype(np.float64), EXPONENT)

    worlds = worlds_of(
        measured,
        without=np.zeros(2, np.int64),
        present=np.array([one, 0], np.int64),
        sigma=1.0 / MU,
        shift=np.array([1.0, 0.0]),
        runs=RUNS // 2,
    )
    return judged_vector(worlds, mu=MU)


PURE_EPSILON, PURE_DIMENSION = 2.0, 6


def _spherical(law: str) -> Attack:
    """Pure noise in the L2 geometry: density ``exp(-|v| / scale)``, or what is taken for it."""
    scale, runs = 1.0 / PURE_EPSILON, RUNS // 2
    shift = np.zeros(PURE_DIMENSION)
    shift[0] = 1.0

    def attack(seed: int, broken: bool) -> Sequence[Finding]:
        noise, generator = Noise.insecure(seed), public_generator(seed)

        def draws(name: str) -> FloatArray:
            size = (runs, PURE_DIMENSION)
            if broken and law == "coordinates":
                return generator.laplace(0.0, scale, size)
            if broken and law == "gaussian":
                return generator.normal(0.0, scale * math.sqrt(PURE_DIMENSION + 1), size)
            value, source = np.zeros(PURE_DIMENSION, np.int64), noise.child(name)
            rows = [
                measure_spherical_laplace(
                    value, EXPONENT, scale=scale, address=(run,), noise=source
                ).value
                for run in range(runs)
            ]
            made = np.ldexp(np.array(rows).astype(np.float64), EXPONENT)
            if broken:
                # The norm of one exponential variable, whatever the dimension.
                made *= (generator.exponential(scale, runs) / np.linalg.norm(made, axis=1))[:, None]
            return made

        without, present = draws("without"), draws("present") + shift
        return spherical_evidence(without, present, shift, scale=scale).findings

    return attack


def _one_sided_scores(seed: int, broken: bool) -> Sequence[Finding]:
    """Gumbel noise of scale ``shift / epsilon``: enough if all scores moved the same way."""
    epsilon, step = 2.0, 1 << -EXPONENT
    shift = score_sensitivity(1.0, exponent=EXPONENT)
    scale = (1.0 if broken else 2.0) * shift / epsilon
    noise = Noise.insecure(seed)

    def world(name: str, first: int, others: int) -> IntArray:
        scores = np.full(CANDIDATES, others, np.int64)
        scores[0] = first
        source = noise.child(name)
        return np.array(
            [
                select_exponential(
                    scores, EXPONENT, scale=scale, address=(run,), noise=source
                ).value[0]
                for run in range(RUNS)
            ]
        )

    return selection_evidence(
        world("without", 0, 0), world("present", step, -step), epsilon
    ).findings


def _held_out(fault: str) -> Attack:
    """A choice by held-out records that are replaced."""
    epsilon = 2.0
    budget = Budget(epsilon=epsilon, delta=0.0)

    def attack(seed: int, broken: bool) -> Sequence[Finding]:
        hidden = Neighbours.ZERO_OUT if broken and fault == "range" else Neighbours.REPLACE
        scale = held_out_scale(budget, hidden)
        if broken and fault == "doubled":
            scale *= 2.0
        noise = Noise.insecure(seed)

        def world(name: str, gains: FloatArray) -> IntArray:
            source = noise.child(name)
            # A mean over records in place of their sum, with the sum's noise.
            shown = gains / len(gains) if broken and fault == "mean" else gains
            made = [
                choose_held_out(shown, scale=scale, address=(run,), noise=source)
                for run in range(RUNS)
            ]
            return np.array([each.value[0] for each in made])

        without, present = held_out_worlds()
        return selection_evidence(
            world("without", without), world("present", present), epsilon
        ).findings

    return attack


def measurement_controls() -> tuple[Control, ...]:
    """Faults of measurements."""
    zero_out = moment_sensitivity(STACK.weights, Neighbours.ZERO_OUT)
    entry = {"count": 0, "square": int(np.argmax(STACK.scales))}

    def control(name: str, fault: str, attack: Attack) -> Control:
        return Control(name=name, fault=fault, attack=attack)

    return (
        control(
            "measure_gaussian",
            "noise reused after a roll-back: not bound to the value",
            _binding(source=Careless),
        ),
        control(
            "measure_gaussian", "noise bound to the value, not to the address", _binding(_placeless)
        ),
        control("measure_gaussian", "one key shared by two streams", _binding(shared_key=True)),
        control("measure_gaussian", "a replay draws fresh noise", _binding(source=Forgetful)),
        control("measure_gaussian", "rounding left out of the sensitivity", _coarse_rounding),
        control("measure_gaussian", "noise scaled by the data's own largest norm", _data_bound),
        control("MomentLayout", "zero_out noise under replace", _stack(_with_shift(zero_out))),
        control(
            "MomentLayout",
            "two halves of the stack, each with the whole budget",
            _stack(_with_shift(_halves())),
        ),
        control("MomentLayout", "the count is un-noised", _stack(_quiet(entry["count"]))),
        control("MomentLayout", "one moment is un-noised", _stack(_quiet(entry["square"]))),
        control(
            "measure_spherical_laplace",
            "independent Laplace coordinates, scaled by the L2 norm",
            _spherical("coordinates"),
        ),
        control(
            "measure_spherical_laplace",
            "exponential norm, whatever the dimension",
            _spherical("norm"),
        ),
        control(
            "measure_spherical_laplace", "Gaussian noise for a pure claim", _spherical("gaussian")
        ),
        control("select_exponential", "Gumbel scale for one-sided sensitivity", _one_sided_scores),
        control("choose_held_out", "zero_out noise under replace", _held_out("range")),
        control("choose_held_out", "twice the noise that is claimed", _held_out("doubled")),
        control("choose_held_out", "a mean's scores with a sum's noise", _held_out("mean")),
    )
