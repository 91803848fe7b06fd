"""Attacks on solvers pass sound ones and catch a wrong noise scale, odds or sampling rate.

A sound solver fails its attack with probability at most 1e-6; seeds are fixed.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpstream.audit.evidence import Evidence
from dpstream.audit.gaussian import share_of
from dpstream.audit.objective import PerturbedLaw, exact_delta, objective_evidence
from dpstream.audit.sampling import sampled_evidence
from dpstream.audit.selection import frank_wolfe_evidence, scale_finding, selection_law
from dpstream.audit.transcript import Transcript, pair_separation, white_boxes
from dpstream.audit.watch import WatchedNoise
from dpstream.errors import NotPrivate
from dpstream.mechanisms.gaussian import measure_gaussian
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.gaussian import gaussian_delta
from dpstream.release import Measurement
from dpstream.solvers import noisy_sgd
from dpstream.solvers.frank_wolfe import FrankWolfe
from dpstream.solvers.objective_perturbation import ObjectivePerturbation
from dpstream.solvers.plan import Plan


def failed(evidence: Evidence) -> set[str]:
    return {finding.name for finding in evidence.findings if not finding.passed}


def scaled(solver: type, name: str, factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver that releases with its planned noise times a factor."""
    release = solver.release

    def broken(self: Any, plan: Plan, batch: Any, noise: Any) -> Any:
        scales = {**plan.noise_scales, name: factor * plan.noise_scales[name]}
        return release(self, replace(plan, noise_scales=scales), batch, noise)

    monkeypatch.setattr(solver, "release", broken)


@pytest.mark.parametrize("factor", [0.7, 1.0, 1.4])
def test_the_perturbation_of_an_objective_shows(
    factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    scaled(ObjectivePerturbation, "linear_term", factor, monkeypatch)
    found = failed(objective_evidence(120, Noise.insecure(3)))
    assert bool(found) is (factor != 1.0)
    if factor != 1.0:
        assert "variance of the perturbation, without" in found


def test_the_exact_delta_of_gaussian_shifts_is_the_closed_one() -> None:
    # So little curvature that the minimiser is a shifted normal: mu is twice the slope's bound.
    sigma = 0.1 / 0.5
    laws = [PerturbedLaw(target=sign, modulus=1e-3, sigma=sigma) for sign in (1e6, -1e6)]
    assert exact_delta(laws[0], laws[1], 1.0) == pytest.approx(gaussian_delta(0.5, 1.0), rel=1e-6)


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_the_odds_of_selected_vertices_show(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    scaled(FrankWolfe, "score", factor, monkeypatch)
    found = failed(frank_wolfe_evidence(200, Noise.insecure(4)))
    assert bool(found) is (factor != 1.0)


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_the_rate_of_a_sample_shows(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = noisy_sgd.poisson_sample

    def broken(count: int, rate: float, **options: Any) -> Any:
        return sample(count, factor * rate, **options)

    monkeypatch.setattr(noisy_sgd, "poisson_sample", broken)
    found = failed(sampled_evidence(120, Noise.insecure(5)))
    assert bool(found) is (factor != 1.0)
    if factor != 1.0:
        assert "records sampled" in found


@pytest.mark.parametrize("factor", [0.8, 1.0, 1.25])
def test_the_scale_of_selections_is_told_by_any_candidates(factor: float) -> None:
    generator = public_generator(6)
    steps: list[tuple[np.ndarray, int]] = []
    for _ in range(3000):
        scores = generator.uniform(0.0, 4.0, int(generator.integers(2, 9)))
        law = selection_law(scores, factor)
        steps.append((scores, int(generator.choice(scores.size, p=law))))
    finding, caught = scale_finding("scale", steps, 1.0, level=share_of(1))
    assert finding.passed is (factor == 1.0)
    assert 0.1 < caught < 0.25


# --- one transcript for two worlds -------------------------------------------------------------


def chained(present: bool, noise: Noise) -> Transcript:
    """A second value that is the first release and the record once more."""
    record = (1 << 30) * int(present)
    first = measure_gaussian(
        np.array([record]), -30, sigma=2.0, address=(0,), noise=noise.child("first")
    )
    second = measure_gaussian(
        first.value + record, -30, sigma=1.0, address=(0,), noise=noise.child("second")
    )
    return Transcript(measurements=(first, replace(second, address=(1,))), released={})


def test_a_shift_is_counted_given_what_was_released() -> None:
    without, present = white_boxes(chained)
    shift = present.exact - without.exact
    # Free streams would differ by 1 and by 2: the release carries the first shift along.
    assert shift == pytest.approx([1.0, 1.0], abs=1e-5)
    assert pair_separation(chained) == pytest.approx(np.sqrt(1.25), rel=1e-5)


def test_measurements_that_cannot_be_told_apart_are_refused() -> None:
    watched = WatchedNoise.over(Noise.insecure(1))
    for label in ("one", "two"):
        source = watched.child(label)
        measure_gaussian(np.zeros(2, np.int64), -20, sigma=1.0, address=(0,), noise=source)
    lone = Measurement(address=(0,), exponent=-20, value=np.zeros(2, np.int64))
    with pytest.raises(NotPrivate, match="drawn twice for one address"):
        watched.exact([lone])
