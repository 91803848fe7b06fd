"""Everything one run published, as numbers, and the attack on transcripts of two worlds."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.audit.confidence import epsilon_lower_bound
from dpstream.audit.evidence import Evidence
from dpstream.audit.finding import Finding
from dpstream.audit.gaussian import (
    GaussianWorlds,
    Search,
    gaussian_evidence,
    share_of,
)
from dpstream.audit.watch import SteadyNoise, WatchedNoise
from dpstream.errors import NotPrivate
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.curve import PrivacyCurve
from dpstream.release import Measurement

_FURTHER = 5 * 2


@dataclass(frozen=True, kw_only=True)
class Transcript:
    """What one run published.

    Attributes:
        measurements: in order.
        released: every number of the last model, by its place in it.
    """

    measurements: tuple[Measurement, ...]
    released: Mapping[str, float]

    @property
    def addresses(self) -> list[tuple[int, ...]]:
        """Of the measurements."""
        return [measurement.address for measurement in self.measurements]

    def numbers(self) -> FloatArray:
        """All measured numbers, in units of what they measure."""
        return np.concatenate([_real(each) for each in self.measurements])


Run = Callable[[bool, Noise], Transcript]
"""One run of a stream, without or with the unit's records."""


def _real(measurement: Measurement) -> FloatArray:
    return np.ldexp(measurement.value.astype(np.float64), measurement.exponent)


def numbers_of(model: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Every finite number of a JSON-ready value, with its place."""
    if isinstance(model, Mapping):
        for key, value in cast("Mapping[str, Any]", model).items():
            yield from numbers_of(value, f"{path}.{key}")
    elif isinstance(model, list | tuple):
        for index, value in enumerate(cast("Sequence[Any]", model)):
            yield from numbers_of(value, f"{path}.{index}")
    elif isinstance(model, bool | int | float) and math.isfinite(model):
        yield path, float(model)


def released_matrix(transcripts: Sequence[Transcript], places: Sequence[str]) -> FloatArray:
    """Runs by released numbers; a number that a run did not release counts as 0."""
    return np.array(
        [[each.released.get(place, 0.0) for place in places] for each in transcripts], np.float64
    ).reshape(len(transcripts), len(places))


@dataclass(frozen=True, kw_only=True)
class WhiteBox:
    """The exact values behind one run's measurements.

    Attributes:
        exact: all of them, in units of what they measure.
        deviation: the noise's standard deviation for each; 0 where none was added.
        addresses: of the measurements.
    """

    exact: FloatArray
    deviation: FloatArray
    addresses: list[tuple[int, ...]]


def watch(run: Run, present: bool) -> WhiteBox:
    """Run one world with steady noise: exact values and noise scales, from outside.

    For mechanisms with Gaussian noise.
    """
    noise = SteadyNoise.over(Noise.insecure(0))
    transcript = run(present, noise)
    exact: list[FloatArray] = []
    for measurement in transcript.measurements:
        kept = noise.exact.get(measurement.address)
        value = measurement.value if kept is None else kept
        exact.append(np.ldexp(value.astype(np.float64), measurement.exponent))
    values = np.concatenate(exact)
    return WhiteBox(
        exact=values,
        deviation=np.abs(transcript.numbers() - values),
        addresses=transcript.addresses,
    )


def white_boxes(run: Run, factor: float = 1.0) -> tuple[WhiteBox, WhiteBox]:
    """Both worlds, with noise scales multiplied by a factor."""
    without, present = watch(run, False), watch(run, True)
    return (
        replace(without, deviation=without.deviation * factor),
        replace(present, deviation=present.deviation * factor),
    )


def pair_separation(run: Run) -> float:
    """A pair's exact shift over the noise, for Gaussian noise; infinite if nothing hides it."""
    without, present = watch(run, False), watch(run, True)
    if without.addresses != present.addresses:
        return math.inf
    shift = present.exact - without.exact
    bare = without.deviation == 0.0
    if shift[bare].any():
        return math.inf
    return float(np.linalg.norm(shift[~bare] / without.deviation[~bare]))


def transcript_evidence(
    run: Run,
    *,
    claim: PrivacyCurve,
    claimed_mu: float,
    delta: float,
    search: Search,
    runs: int,
    noise: Noise,
    white: tuple[WhiteBox, WhiteBox],
) -> Evidence:
    """Attack the transcripts of two worlds.

    Assumed of the neighbours: what is measured does not depend on what was measured before, as
    for sums; the whiteness of the noise around its exact means tells if it does.

    Args:
        run: one run of a world.
        claim: what the transcript may reveal of the unit.
        claimed_mu: its Gaussian part.
        delta: at which epsilon is stated.
        search: how the neighbours were found.
        runs: of each world.
        noise: where noise comes from.
        white: exact values and noise scales of both worlds.
    """
    without_box, present_box = white
    if without_box.addresses != present_box.addresses:
        raise NotPrivate(
            "the places of the measurements differ between neighbouring streams: a schedule or a "
            "shape depends on the data"
        )
    played = [
        [run(present, noise.child(f"{present} {number}")) for number in range(runs)]
        for present in (False, True)
    ]
    places = sorted({place for world in played for each in world for place in each.released})
    released = [released_matrix(world, places) for world in played]
    without, present_numbers = (np.array([each.numbers() for each in world]) for world in played)
    shift = present_box.exact - without_box.exact
    noisy = without_box.deviation > 0.0
    claimed_epsilon = claim.epsilon(delta)
    further = (
        *_binding(run, without_box, noisy & (shift != 0.0), noise),
        Finding("numbers without noise that move", float(np.sum(shift[~noisy] != 0)), 0.0, 0.0),
        Finding(
            "released models: epsilon proved",
            released_bound(released[0], released[1], delta=delta),
            -math.inf,
            claimed_epsilon,
        ),
    )
    return gaussian_evidence(
        GaussianWorlds(
            without=without[:, noisy],
            present=present_numbers[:, noisy],
            mean=without_box.exact[noisy],
            shift=shift[noisy],
            deviation=without_box.deviation[noisy],
        ),
        claim=claim,
        claimed_mu=claimed_mu,
        delta=delta,
        search=search,
        pooled=True,
        further=further,
    )


def _binding(run: Run, box: WhiteBox, moved: Any, noise: Noise) -> list[Finding]:
    """Replays repeat; a roll-back to other data meets other noise; no address comes twice."""
    source = noise.child("binding")
    first, again = run(False, source), run(False, source)
    watched = WatchedNoise.over(source)
    other = run(True, watched)
    exact = [
        np.ldexp(watched.exact.get(each.address, each.value).astype(np.float64), each.exponent)
        for each in other.measurements
    ]
    added = first.numbers() - box.exact
    elsewhere = other.numbers() - np.concatenate(exact)
    shared = float(np.mean(added[moved] == elsewhere[moved])) if moved.any() else 0.0
    twice = len(box.addresses) - len(set(box.addresses))
    changed = float(np.sum(first.numbers() != again.numbers()))
    return [
        Finding("replay: numbers that changed", changed, 0.0, 0.0),
        Finding("noise kept after a roll-back", shared, 0.0, 0.05),
        Finding("addresses measured twice", float(twice), 0.0, 0.0),
    ]


def released_bound(without: FloatArray, present: FloatArray, *, delta: float) -> float:
    """A proved epsilon from released numbers alone, along the best linear direction.

    The direction is found on a third of the runs (Fisher's discriminant); the bound uses the
    rest and assumes nothing of the law.
    """
    third = without.shape[0] // 3
    seen = np.concatenate([without[:third], present[:third]])
    spread = seen.std(axis=0)
    gap = present[:third].mean(axis=0) - without[:third].mean(axis=0)
    moving = np.abs(gap) > 0.0
    if third < 2 or not moving.any():
        return 0.0
    unit = np.where(spread > 0.0, spread, 1.0)[moving]
    clean = (without[:, moving] - without[:third, moving].mean(axis=0)) / unit
    moved = (present[:, moving] - without[:third, moving].mean(axis=0)) / unit
    pooled = np.cov(
        np.concatenate([clean[:third], moved[:third] - moved[:third].mean(axis=0)]),
        rowvar=False,
    ).reshape(unit.size, unit.size)
    ridge = 1e-9 * np.eye(unit.size)
    direction = np.linalg.lstsq(pooled + ridge, gap[moving] / unit, rcond=None)[0]
    return epsilon_lower_bound(
        clean[third:] @ direction,
        moved[third:] @ direction,
        delta=delta,
        false_alarm=share_of(_FURTHER),
    )
