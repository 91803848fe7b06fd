"""Attacks on continual sums: measurements and released sums, tick by tick.

One run over a vector of equal coordinates is as many independent runs of a scalar sum, because
coordinates have independent noise: that is what makes tens of thousands of runs cheap.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.audit.attack import (
    averaging_attack,
    likelihood_ratio_attack,
    whiteness_attack,
)
from dpstream.audit.evidence import Evidence
from dpstream.audit.explicit import INCREMENT_EXPONENT, ExplicitStrategy, explicit, worst_shift
from dpstream.audit.finding import Finding
from dpstream.audit.gaussian import (
    GaussianWorlds,
    Search,
    everything_seen,
    gaussian_evidence,
    share_of,
)
from dpstream.domain.lattice import ExactVector
from dpstream.mechanisms.continual.node_noise import NoiseKind
from dpstream.mechanisms.continual.strategy import Address, Participation, Promise, Strategy
from dpstream.mechanisms.continual.sum import ContinualSum
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.bounds import curve_of

_FINE = 2.0**-10
_SCAN_RUNS = 3000

_FURTHER = 5 * 5
# The released sums' attacks share the battery's last fifth.


@dataclass(frozen=True, kw_only=True)
class Played:
    """What a stream published.

    Attributes:
        addresses: of all measurements, in order; one measured twice is listed twice.
        nodes: their values, runs by measurements.
        sums: the released sums, runs by ticks.
    """

    addresses: tuple[Address, ...]
    nodes: FloatArray
    sums: FloatArray


def play(mechanism: ContinualSum, records: IntArray, noise: Noise) -> Played:
    """Run a stream whose tick ``t`` has the increment ``records[t]`` in every coordinate."""
    state = mechanism.init()
    addresses: list[Address] = []
    nodes: list[FloatArray] = []
    sums: list[FloatArray] = []
    for record in records.tolist():
        value = np.full(mechanism.dimension, record << -INCREMENT_EXPONENT, np.int64)
        mechanism.absorb(state, ExactVector.from_integers(value, INCREMENT_EXPONENT))
        measured, estimate = mechanism.release(state, noise)
        sums.append(estimate)
        for measurement in measured:
            addresses.append(measurement.address)
            nodes.append(np.ldexp(measurement.value.astype(np.float64), measurement.exponent))
    return Played(
        addresses=tuple(addresses),
        nodes=np.array(nodes).T.reshape(mechanism.dimension, len(nodes)),
        sums=np.array(sums).T,
    )


@dataclass(frozen=True, kw_only=True)
class Neighbours:
    """A unit's records in a short stream, the worst that a search found.

    Attributes:
        ticks: the length of the stream: all of it is attacked.
        places: the ticks of the unit's records, from 1.
        tried: how many units were tried.
        shift: the unit's shift over the noise of weight 1, per unit of record norm.
        stream: how long the searched stream was.
        window: ticks for which a record is live, if it expires.
    """

    ticks: int
    places: tuple[int, ...]
    tried: int
    shift: float
    stream: int
    window: int | None = None

    def records(self) -> IntArray:
        """How many of the unit's records fall in each tick."""
        return np.bincount(np.array(self.places) - 1, minlength=self.ticks).astype(np.int64)


def search_neighbours(
    strategy: Strategy, *, ticks: int, window: int | None, participation: Participation
) -> Neighbours:
    """The unit with the largest shift among all its admissible ticks, by exhaustion.

    With expiry a record is attacked on all that was published while it is live.
    """
    matrices = explicit(strategy, ticks)
    best = Neighbours(ticks=ticks, places=(1,), tried=0, shift=0.0, stream=ticks, window=window)
    tried = 0
    for last in range(1, ticks + 1) if window is not None else [ticks]:
        live = range(max(last - (window or last), 0), last)
        code = _seen_code(matrices, last)[:, live.start : live.stop]
        for first in range(len(live)):
            most = min(participation.cap, participation.per_tick * (len(live) - first))
            columns = _packed(most, participation.per_tick, first)
            tried += 1
            shift = float(np.linalg.norm(code[:, columns].sum(axis=1)))
            if shift > best.shift * (1 + 1e-12):
                places = tuple(live.start + column + 1 for column in columns)
                best = replace(best, ticks=last, places=places, shift=shift)
    return replace(best, tried=tried)


def _packed(most: int, per_tick: int, first: int) -> list[int]:
    """A unit's records in consecutive ticks from ``first`` on, as dense as allowed."""
    return [first + index // per_tick for index in range(most)]


def _seen_code(matrices: ExplicitStrategy, last: int) -> FloatArray:
    noisy = matrices.weights > 0
    return matrices.scaled_code[matrices.handed[noisy] <= last]


def exhaustive_share(strategy: Strategy, participation: Participation, *, ticks: int) -> float:
    """The largest shift over every multiset of ticks, over the strategy's claim."""
    code = explicit(strategy, ticks).scaled_code
    return worst_shift(code, participation, order=2) / strategy.sensitivity(participation, order=2)


def attack_sum(
    mechanism: ContinualSum,
    claimed: ContinualSum,
    neighbours: Neighbours,
    *,
    record_size: int = 1,
    noise: Noise,
    delta: float,
    least_share: float = 0.95,
) -> Evidence:
    """Attack a continual sum with everything it publishes about one unit.

    Args:
        mechanism: what runs.
        claimed: what it says it is: its strategy, noise and strength.
        neighbours: the unit and the stream.
        record_size: the norm of the unit's records.
        noise: where noise comes from.
        delta: at which epsilon is stated.
        least_share: the share of the claim that the unit must reach.
    """
    ticks = neighbours.ticks
    nothing = np.zeros(ticks, np.int64)
    records = neighbours.records()
    clean = play(mechanism, nothing, noise.child("without"))
    moved = play(mechanism, record_size * records, noise.child("present"))
    matrices = explicit(claimed.strategy, ticks)
    strange = _unlike(moved.addresses, matrices)
    noisy = matrices.weights > 0
    shift = matrices.code @ (claimed.record_shift * records)
    deviation = claimed.sigma * matrices.weights
    made = set(moved.addresses)
    columns = [
        place for place, known in enumerate(noisy) if known and matrices.addresses[place] in made
    ]
    claimed_mu = curve_of(claimed.event())
    mu = claimed_mu.mu or (2.0 * claimed_mu.rho) ** 0.5
    search = Search(
        worst=f"the unit's records at ticks {', '.join(map(str, neighbours.places))}, all that "
        f"is published up to tick {ticks}",
        tried=neighbours.tried,
        separation=float(np.linalg.norm(shift[noisy] / deviation[noisy])),
        least_share=least_share,
    )
    further = (
        strange,
        _scan(
            mechanism,
            claimed,
            neighbours,
            record_size=record_size,
            mu=mu,
            noise=noise.child("scan"),
        ),
        _exact_finding(matrices, records),
        *_released_attacks(clean.sums, moved.sums, matrices, claimed, records),
    )
    order = [moved.addresses.index(matrices.addresses[place]) for place in columns]
    worlds = GaussianWorlds(
        without=clean.nodes[:, order],
        present=moved.nodes[:, order],
        mean=np.zeros(len(columns)),
        shift=shift[columns],
        deviation=deviation[columns],
    )
    return gaussian_evidence(
        worlds,
        claim=claimed_mu,
        claimed_mu=mu,
        delta=delta,
        search=search,
        further=further,
    )


def _unlike(addresses: tuple[Address, ...], matrices: ExplicitStrategy) -> Finding:
    """Measurements that the strategy does not speak of, or made twice."""
    made, claimed = set(addresses), set(matrices.addresses)
    unlike = len(addresses) - len(made & claimed) + len(claimed - made)
    return Finding("measurements beyond the claim", float(unlike), 0.0, 0.0)


def _scan(
    mechanism: ContinualSum,
    claimed: ContinualSum,
    neighbours: Neighbours,
    *,
    record_size: int,
    mu: float,
    noise: Noise,
) -> Finding:
    """All that was measured, wherever the strategy speaks of it or not, for a unit at any tick."""
    few = replace(mechanism, dimension=min(mechanism.dimension, _SCAN_RUNS))
    level = share_of(_FURTHER * neighbours.stream)
    window = neighbours.window
    worst = -math.inf
    for first in range(1, neighbours.stream + 1):
        last = neighbours.stream if window is None else min(neighbours.stream, first + window - 1)
        moved_to = [place - neighbours.places[0] + first for place in neighbours.places]
        if moved_to[-1] > last:
            continue
        records = np.bincount(np.array(moved_to) - 1, minlength=last).astype(np.int64)
        matrices = explicit(claimed.strategy, last)
        clean = play(few, np.zeros(last, np.int64), noise.child(f"{first} without"))
        moved = play(few, record_size * records, noise.child(f"{first} present"))
        if clean.addresses != moved.addresses:
            return Finding("places of measurements that depend on the data", 1.0, 0.0, 0.0)
        scale = _noise_scales(moved.addresses, matrices, claimed)
        found = everything_seen(clean.nodes / scale, moved.nodes / scale, mu, false_alarm=level)
        worst = max(worst, found.statistic / found.upper)
    return Finding("everything seen, any tick, over its limit", worst, -math.inf, 1.0)


def _noise_scales(
    addresses: tuple[Address, ...], matrices: ExplicitStrategy, claimed: ContinualSum
) -> FloatArray:
    """The claimed noise of every measurement; unknown places are taken to have weight 1."""
    weight = dict(zip(matrices.addresses, matrices.weights.tolist(), strict=True))
    # An exact sum, by claim, counts in steps far below the noise.
    return np.array([claimed.sigma * (weight.get(place, 1.0) or _FINE) for place in addresses])


def _exact_finding(matrices: ExplicitStrategy, records: IntArray) -> Finding:
    """Exact sums, by claim, that hold a live record of the unit."""
    held = matrices.code[matrices.weights == 0] @ records
    return Finding("exact sums of live records", float(np.abs(held).sum()), 0.0, 0.0)


def _released_attacks(
    without: FloatArray,
    present: FloatArray,
    matrices: ExplicitStrategy,
    claimed: ContinualSum,
    records: IntArray,
) -> list[Finding]:
    """The released sums: their claimed covariance is the strategy's own formula."""
    ticks = range(1, without.shape[1] + 1)
    covariance = np.array(
        [[claimed.covariance(min(s, t), max(s, t))[0] for t in ticks] for s in ticks]
    )
    shift = matrices.decoding @ (matrices.code @ (claimed.record_shift * records))
    level = share_of(_FURTHER)
    findings = averaging_attack(
        without, present, shift=shift, covariance=covariance, false_alarm=level
    )
    if claimed.promise is Promise.FOREVER:
        # With expiry, neighbouring sums can hold the same nodes: their covariance is singular.
        findings += likelihood_ratio_attack(
            without, present, shift=shift, covariance=covariance, false_alarm=level
        )
        findings += whiteness_attack(present, mean=shift, covariance=covariance, false_alarm=level)
    return [
        Finding(f"released sums: {each.name}", each.statistic, each.lower, each.upper)
        for each in findings
    ]


def scalar_sum(
    strategy: Strategy,
    *,
    runs: int,
    strength: float,
    participation: Participation | None = None,
    record_shift: float = 1.0,
    kind: NoiseKind = NoiseKind.GAUSSIAN,
    bound: float = 4.0,
    model: type[ContinualSum] = ContinualSum,
) -> ContinualSum:
    """As many independent sums of numbers as there are runs, in one mechanism.

    Each coordinate is a sum of its own, whose records have norm at most ``record_shift``.
    """
    return model(
        strategy=strategy,
        dimension=runs,
        increment_exponent=INCREMENT_EXPONENT,
        increment_bound=bound,
        record_shift=record_shift,
        participation=participation or Participation(),
        kind=kind,
        strength=strength,
    )
