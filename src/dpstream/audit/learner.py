"""Audits of learners: short streams of the worst records that the public bounds allow."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, cast

import numpy as np

from dpstream.audit.admission import admission_finding
from dpstream.audit.evidence import Evidence
from dpstream.audit.gaussian import Search
from dpstream.audit.record import Pair, record_pairs
from dpstream.audit.transcript import (
    Run,
    Transcript,
    numbers_of,
    pair_separation,
    transcript_evidence,
    watch,
    white_boxes,
)
from dpstream.domain.batch import Batch
from dpstream.errors import ConfigurationError
from dpstream.learners.learner import Learner, Tick
from dpstream.mechanisms.continual.node_noise import NoiseKind
from dpstream.mechanisms.continual.strategy import Promise
from dpstream.mechanisms.continual.sum import ContinualSum
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.bounds import curve_of
from dpstream.privacy.curve import PrivacyCurve
from dpstream.release import Measurement

TICKS = 12
"""Streams are attacked at this length; the noise is calibrated for it."""


_REFIT_TICKS = TICKS // 4
"""Ticks between the refits of a learner whose own lie too far apart for so short a stream."""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where a unit's records lie.

    Attributes:
        counts: how many of them fall in each tick.
        last: the tick up to which everything published is attacked.
    """

    counts: tuple[int, ...]
    last: int

    @property
    def words(self) -> str:
        """The placement in words."""
        places = [f"{n} in tick {t}" for t, n in enumerate(self.counts, start=1) if n]
        return f"the unit's records: {', '.join(places)}; attacked up to tick {self.last}"


def shortened(learner: Any) -> tuple[Any, tuple[str, ...]]:
    """The same learner for a stream of a few ticks, and what was changed."""
    if not is_dataclass(learner) or isinstance(learner, type):
        return learner, ()
    notes: tuple[str, ...] = ()
    if getattr(learner, "intervals", False):
        learner = replace(learner, intervals=False)
        notes = ("attacked without intervals, which are computed from measurements alone",)
    horizon: int | None = cast("Learner[Any]", learner).horizon
    if horizon is None or horizon <= TICKS:
        return learner, notes
    changes: dict[str, Any] = {"horizon": TICKS}
    strategy = getattr(learner, "strategy", None)
    if is_dataclass(strategy) and not isinstance(strategy, type):
        settable = {item.name for item in fields(strategy) if item.init}
        if "horizon" in settable:
            changes["strategy"] = replace(strategy, horizon=TICKS)
    note = (
        f"attacked with a horizon of {TICKS} ticks instead of {horizon:,}: the same budget, bounds "
        "and code, with noise calibrated for the shorter stream"
    )
    refit_every = getattr(learner, "refit_every", None)
    if isinstance(refit_every, int) and refit_every > _REFIT_TICKS:
        changes["refit_every"] = _REFIT_TICKS
        note += f"; and a refit every {_REFIT_TICKS} ticks instead of {refit_every:,}"
    return replace(learner, **changes), (*notes, note)


def placements(learner: Learner[Any], ticks: int) -> Iterator[Placement]:
    """Candidates for the worst places of one unit's records."""
    cap = learner.unit.cap
    window = learner.window if learner.promise is Promise.WHILE_LIVE else None
    for start in range(1, ticks + 1):
        last = ticks if window is None else min(ticks, start + window - 1)
        together = [0] * ticks
        together[start - 1] = cap
        yield Placement(counts=tuple(together), last=last)
        if cap > 1:
            spread = [0] * ticks
            # Records that have expired by the last tick are no secret any more.
            live = 0 if window is None else max(0, last - window)
            for index in range(cap):
                spread[live + (start - 1 - live + index) % (last - live)] += 1
            yield Placement(counts=tuple(spread), last=last)


def learner_run(
    learner: Learner[Any], pair: Pair, placement: Placement, *, lazy: bool = False
) -> Run:
    """One run of a stream of null records, with or without a unit's records.

    Args:
        learner: the learner.
        pair: one record of the unit, and what stands in its place.
        placement: of the unit's records.
        lazy: publish the last tick alone, where that measures the same.
    """
    width = max(1, learner.unit.cap)
    domain = learner.domain

    def rows(count: int, *, present: bool) -> Batch:
        filled = np.zeros((width, domain.width))
        if count:
            filled[:count] = pair.record if present else pair.other
        return Batch(filled, domain.dimension)

    def run(present: bool, noise: Noise) -> Transcript:
        state = learner.init()
        measured: list[Measurement] = []
        models: list[Any] = [{}]
        for number in range(1, placement.last + 1):
            learner.learn(state, rows(placement.counts[number - 1], present=present))
            publish = not lazy or number == placement.last
            tick = Tick(number=number, records=number * width, publish=publish)
            learner.close(state, tick)
            if publish:
                outcome = learner.release(state, tick, noise)
                measured.extend(outcome.measurements)
                models.append(outcome.model)
        return Transcript(
            measurements=tuple(measured),
            released=dict(numbers_of(models[-1])),
            models=tuple(models),
        )

    return run


def _may_wait(learner: Learner[Any], pair: Pair, placement: Placement) -> bool:
    """Whether one release at the end measures all that a release at every tick does."""
    if not isinstance(getattr(learner, "sum", None), ContinualSum):
        return False
    eager, lazy = (
        watch(learner_run(learner, pair, placement, lazy=lazy), True) for lazy in (False, True)
    )
    return eager.addresses == lazy.addresses and bool(np.array_equal(eager.exact, lazy.exact))


def claim_of(learner: Learner[Any], ticks: int) -> PrivacyCurve:
    """What the learner charges for a stream of so many ticks, all of them published.

    Whichever records an event covers: none pays more than all of them.
    """
    width = max(1, learner.unit.cap)
    curve = PrivacyCurve.none()
    for event in learner.opening_events():
        curve = curve.compose(curve_of(event))
    for number in range(1, ticks + 1):
        for event in learner.next_events(Tick(number=number, records=number * width)):
            curve = curve.compose(curve_of(event))
    return curve


def learner_evidence(
    learner: Learner[Any],
    *,
    runs: int,
    noise: Noise,
    least_share: float = 0.0,
    ticks: int | None = None,
    adaptive: bool = False,
) -> Evidence:
    """Attack a learner of a short stream with its worst neighbours.

    Args:
        learner: as ``shortened`` gives it.
        runs: of each world.
        noise: where noise comes from.
        least_share: of the claim that the neighbours must reach.
        ticks: the stream's length; by default its horizon, or a short one.
        adaptive: whether what it measures follows what it released before.

    Raises:
        ConfigurationError: if its noise is not Gaussian or discrete Gaussian.
    """
    if ticks is None:
        ticks = TICKS if learner.window is None else min(3 * learner.window, 2 * TICKS)
    ticks = min(ticks, learner.horizon or ticks)
    claim = claim_of(learner, ticks)
    if claim.pure_steps or claim.exponential_steps or not (claim.mu or claim.rho):
        raise ConfigurationError(
            f"{learner.name} claims more than Gaussian noise; audit its mechanism by --mechanism"
        )
    visible, factor = gaussian_twin(learner)
    worst = _worst(visible, ticks, factor)
    lazy = _may_wait(visible, worst.pair, worst.placement)
    evidence = transcript_evidence(
        learner_run(learner, worst.pair, worst.placement, lazy=lazy),
        claim=claim,
        claimed_mu=math.sqrt(claim.mu**2 + 2.0 * claim.rho),
        delta=learner.budget.delta,
        search=Search(
            worst=f"{worst.pair.words}; {worst.placement.words}",
            tried=worst.tried,
            separation=worst.separation,
            least_share=least_share,
        ),
        runs=runs,
        noise=noise,
        white=white_boxes(learner_run(visible, worst.pair, worst.placement), factor),
        adaptive=adaptive,
    )
    return replace(evidence, findings=(*evidence.findings, admission_finding(learner.domain)))


def gaussian_twin(learner: Any) -> tuple[Any, float]:
    """A learner whose noise steady words can show, and the factor between the noise scales.

    Discrete Gaussian noise is drawn by rejection and has no quantile; what it is added to, and
    in which proportions, is the same with Gaussian noise.
    """
    kind = getattr(learner, "noise", None)
    if not isinstance(kind, NoiseKind) or kind is NoiseKind.GAUSSIAN:
        return learner, 1.0
    twin = replace(learner, noise=NoiseKind.GAUSSIAN)
    return twin, learner.sum.sigma / twin.sum.sigma


@dataclass(frozen=True, kw_only=True)
class _Worst:
    pair: Pair
    placement: Placement
    separation: float
    tried: int


def _worst(learner: Learner[Any], ticks: int, factor: float) -> _Worst:
    """The worst pair of records at the first place, then the worst places for it."""
    domain = learner.domain
    pairs = record_pairs(domain.dimension, domain.target_count, learner.neighbours)
    places = list(placements(learner, ticks))

    def separation(pair: Pair, placement: Placement) -> float:
        return pair_separation(learner_run(learner, pair, placement)) / factor

    found = [(separation(pair, places[0]), pair, places[0]) for pair in pairs]
    first = max(found, key=lambda item: item[0])
    found += [(separation(first[1], place), first[1], place) for place in places[1:]]
    best = max(found, key=lambda item: item[0])
    return _Worst(pair=best[1], placement=best[2], separation=best[0], tried=len(found))
