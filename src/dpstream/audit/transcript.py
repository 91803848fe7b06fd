"""Everything one run published, as numbers, and the attack on transcripts of two worlds."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast
from zlib import crc32

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
from dpstream.audit.watch import DeepNoise, ForcedNoise, SteadyNoise, WatchedNoise, real
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
        models: all models, the last one included, where there are several.
    """

    measurements: tuple[Measurement, ...]
    released: Mapping[str, float]
    models: tuple[Any, ...] = ()

    def told(self) -> dict[str, float]:
        """Every number of every model, by model and place."""
        return dict(numbers_of(self.models)) if self.models else dict(self.released)

    @property
    def addresses(self) -> list[tuple[int, ...]]:
        """Of the measurements."""
        return [measurement.address for measurement in self.measurements]

    def numbers(self) -> FloatArray:
        """All measured numbers, in units of what they measure."""
        return np.concatenate([real(each.value, each.exponent) for each in self.measurements])


Run = Callable[[bool, Noise], Transcript]
"""One run of a stream, without or with the unit's records."""


def numbers_of(model: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Every finite number of a JSON-ready value, with its place; a text as a number of its own."""
    if isinstance(model, Mapping):
        for key, value in cast("Mapping[str, Any]", model).items():
            yield from numbers_of(value, f"{path}.{key}")
    elif isinstance(model, list | tuple):
        for index, value in enumerate(cast("Sequence[Any]", model)):
            yield from numbers_of(value, f"{path}.{index}")
    elif isinstance(model, bool | int | float) and math.isfinite(model):
        yield path, float(model)
    elif isinstance(model, str):
        yield path, float(crc32(model.encode("utf-8", "surrogatepass")))


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
        numbers: what was measured, with noise.
        told: every number of every model.
    """

    exact: FloatArray
    deviation: FloatArray
    addresses: list[tuple[int, ...]]
    numbers: FloatArray
    told: Mapping[str, float]


def watch(run: Run, present: bool) -> WhiteBox:
    """Run one world with steady noise: exact values and noise scales, from outside.

    For mechanisms with Gaussian noise.
    """
    return _steady(run, present)[0]


def _steady(run: Run, present: bool) -> tuple[WhiteBox, ForcedNoise]:
    noise = SteadyNoise.over(Noise.insecure(0))
    transcript = run(present, noise)
    exact = noise.exact(transcript.measurements)
    box = WhiteBox(
        exact=exact,
        deviation=np.abs(transcript.numbers() - exact),
        addresses=transcript.addresses,
        numbers=transcript.numbers(),
        told=transcript.told(),
    )
    deep = DeepNoise.over(Noise.insecure(0))
    scales = deep.scales(run(present, deep).measurements)
    return box, ForcedNoise.repeating(noise, transcript.measurements, scales)


def white_boxes(run: Run, factor: float = 1.0) -> tuple[WhiteBox, WhiteBox]:
    """Both worlds along one transcript: the second measures other values and releases the same.

    What is measured may depend on what was released before; what a record shifts is then
    counted as an attacker sees it, given everything released so far.

    Args:
        run: one run of a world.
        factor: on the noise scales.
    """
    without, forced = _steady(run, False)
    transcript = run(True, forced)
    present = WhiteBox(
        exact=forced.exact(transcript.measurements),
        deviation=without.deviation,
        addresses=transcript.addresses,
        numbers=transcript.numbers(),
        told=transcript.told(),
    )
    return (
        replace(without, deviation=without.deviation * factor),
        replace(present, deviation=present.deviation * factor),
    )


def pair_separation(run: Run) -> float:
    """A pair's exact shift over the noise, for Gaussian noise; infinite if nothing hides it."""
    without, present = white_boxes(run)
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
    adaptive: bool = False,
) -> Evidence:
    """Attack the transcripts of two worlds.

    Assumed of the neighbours: how the unit shifts what is measured does not depend on what was
    released before. Of a mechanism that is not ``adaptive`` the same is assumed of the measured
    values; the whiteness of the noise around them tells if it is wrong.

    Args:
        run: one run of a world.
        claim: what the transcript may reveal of the unit.
        claimed_mu: its Gaussian part.
        delta: at which epsilon is stated.
        search: how the neighbours were found.
        runs: of each world.
        noise: where noise comes from.
        white: exact values and noise scales of both worlds.
        adaptive: whether exact values follow what was released before: every run's numbers are
            then taken from its own exact values, which an attacker knows in one of the worlds.
    """
    without_box, present_box = white
    if without_box.addresses != present_box.addresses:
        raise NotPrivate(
            "the places of the measurements differ between neighbouring streams: a schedule or a "
            "shape depends on the data"
        )
    played: list[list[Transcript]] = []
    worlds: list[FloatArray] = []
    for present, box in ((False, without_box), (True, present_box)):
        rows: list[FloatArray] = []
        played.append([])
        for number in range(runs):
            source = noise.child(f"{present} {number}")
            watched = WatchedNoise.over(source)
            transcript = run(present, watched if adaptive else source)
            played[-1].append(transcript)
            centre = box.exact - watched.exact(transcript.measurements) if adaptive else 0.0
            rows.append(transcript.numbers() + centre)
        worlds.append(np.array(rows))
    without, present_numbers = worlds
    places = sorted({place for world in played for each in world for place in each.released})
    released = [released_matrix(world, places) for world in played]
    shift = present_box.exact - without_box.exact
    noisy = without_box.deviation > 0.0
    claimed_epsilon = claim.epsilon(delta)
    further = (
        *repeated_findings(without_box, present_box),
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


def repeated_findings(without: WhiteBox, present: WhiteBox) -> tuple[Finding, Finding]:
    """What is released is computed from measurements: equal ones lead to equal models.

    The second world was forced to measure what the first did. Whatever then differs in a model
    was computed from the unit's records beside the noise: a diagnostic, a step count, a text.
    """
    other = np.sum(without.numbers != present.numbers)
    places = without.told.keys() | present.told.keys()
    differing = sum(without.told.get(place) != present.told.get(place) for place in places)
    return (
        Finding("measurements that could not be forced", float(other), 0.0, 0.0),
        Finding("released numbers that bypass the measurements", float(differing), 0.0, 0.0),
    )


def _binding(run: Run, box: WhiteBox, moved: Any, noise: Noise) -> list[Finding]:
    """Replays repeat; a roll-back to other data meets other noise; no address comes twice."""
    source = noise.child("binding")
    watched, elsewhere = WatchedNoise.over(source), WatchedNoise.over(source)
    first, again, other = run(False, watched), run(False, source), run(True, elsewhere)
    added = first.numbers() - watched.exact(first.measurements)
    kept = other.numbers() - elsewhere.exact(other.measurements)
    shared = float(np.mean(added[moved] == kept[moved])) if moved.any() else 0.0
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
