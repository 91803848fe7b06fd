"""A continual sum, measured: a strategy, a unit's sensitivity, noise, and a budget.

The only place where a strategy's nodes meet noise. Everything is fixed from public numbers
before any data: the lattice of the nodes, the noise and the privacy event, which covers every
release of the stream's whole life.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.lattice import ExactVector
from dpstream.errors import ConfigurationError, NotPrivate
from dpstream.mechanisms.continual.node_noise import NoiseKind
from dpstream.mechanisms.continual.pending import refuse_past_horizon
from dpstream.mechanisms.continual.strategy import (
    Address,
    Decoder,
    Encoder,
    Node,
    Participation,
    Promise,
    Strategy,
)
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.budget import Budget
from dpstream.privacy.event import Event
from dpstream.release import Measurement

LARGEST_ROUNDING = 2.0**-11
"""What the lattice may add to the noise, relative, where samplers are quick: below 0.05 %."""

LAST_ROUNDING = 2.0**-7
"""The most that the lattice may add to the noise at all, relative: below 0.8 %."""

RESOLUTION_BITS = 20
"""The lattice is at least this much finer than a coordinate's smallest noise."""

LARGEST_SCALE_BITS = 38
"""Noise of weight 1 is at most this many lattice steps; samplers take four times as many,
for nodes of larger weight."""

REFINED_PER_STEP = 2.0**-42
"""The share of Gaussian draws that float64 cannot round, per lattice step of the noise's scale.

A draw is refined if it lies within ``scale * 2**-43`` of a rounding boundary, on either side."""

LARGEST_NODE_BITS = 61

_ROUNDED_UP = 1.0 + 2.0**-40
# Pays for the float64 rounding of the noise scale, so that the event's number is kept exactly.


@dataclass
class SumState:
    """One stream's state.

    Attributes:
        encoder: exact sums: secret.
        decoder: noisy sums: public.
        tick: ticks closed.
    """

    encoder: Encoder
    decoder: Decoder
    tick: int = 0


@dataclass(frozen=True, kw_only=True)
class ContinualSum:
    """A running, windowed or decayed sum, released at any tick, under one lifelong event.

    Guaranteed: if one record moves the scaled increment of its tick by at most ``record_shift``
    in L2 (scaled: coordinate i times ``scales[i]``), and a unit contributes as ``participation``
    says, then all measurements together, over the stream's whole life and adaptively, satisfy
    ``event()``; for strategies with ``Promise.WHILE_LIVE``, those up to any tick do for the
    records that are live then. Assumed of the caller: these two bounds; that coordinates of an
    increment stay within ``increment_bound``; and that an increment depends on earlier records
    through measurements alone.

    Attributes:
        strategy: the factorisation of the sum.
        dimension: coordinates of the sum.
        increment_exponent: the lattice of the increments.
        increment_bound: public bound of every coordinate of every tick's increment; infinite
            if there is none, for strategies that sum integers.
        record_shift: the largest L2 shift of the scaled increment by one record.
        participation: how often a unit contributes.
        kind: the law of the noise.
        strength: what everything may cost: ``mu``, ``rho`` or ``epsilon`` by kind.
        scales: one positive number per coordinate, or none: noise of coordinate i is
            ``sigma / scales[i]``, as if the statistic were multiplied by it.
        address: what the addresses of the measurements begin with.
        node_exponent: the lattice of the nodes; derived.
        sigma: the noise scale of a node of weight 1 before ``scales``; derived.
    """

    strategy: Strategy
    dimension: int
    increment_exponent: int
    increment_bound: float
    record_shift: float
    participation: Participation
    kind: NoiseKind
    strength: float
    scales: tuple[float, ...] | None = None
    address: Address = ()
    node_exponent: int = field(init=False)
    sigma: float = field(init=False)

    def __post_init__(self) -> None:
        self._check()
        exponent = self._choose_exponent()
        object.__setattr__(self, "node_exponent", exponent)
        object.__setattr__(self, "sigma", self._noise_for(self.sensitivity(exponent)))
        bound = self.strategy.code_bound() * self.increment_bound
        overflows = math.isfinite(bound) and bound > self._largest_node()
        if overflows or self.horizon == 0:
            raise ConfigurationError(
                f"with increments up to {self.increment_bound:g}, nodes of {self.strategy.name} "
                f"exceed 61 bits on the lattice 2**{exponent}; lower the increments' bound or the "
                "horizon, or allow more noise"
            )

    @classmethod
    def calibrated(
        cls,
        strategy: Strategy,
        *,
        budget: Budget,
        kind: NoiseKind,
        dimension: int,
        increment_exponent: int,
        increment_bound: float,
        record_shift: float,
        participation: Participation,
        scales: tuple[float, ...] | None = None,
        address: Address = (),
    ) -> "ContinualSum":
        """The sum that spends a whole budget."""
        return cls(
            strategy=strategy,
            dimension=dimension,
            increment_exponent=increment_exponent,
            increment_bound=increment_bound,
            record_shift=record_shift,
            participation=participation,
            kind=kind,
            strength=kind.strength(budget),
            scales=scales,
            address=address,
        )

    def _check(self) -> None:
        if self.dimension < 1:
            raise ConfigurationError(
                f"a continual sum's dimension is {self.dimension}; it must be at least 1"
            )
        for name in ("increment_bound", "record_shift", "strength"):
            value = getattr(self, name)
            unbounded = math.isinf(value) and name != "increment_bound"
            if not value > 0 or unbounded:
                raise ConfigurationError(
                    f"a continual sum's {name} is {value}; it must be positive and finite"
                )
        if self.scales is None:
            return
        if len(self.scales) != self.dimension:
            raise ConfigurationError(
                f"there are {len(self.scales)} scales for {self.dimension} coordinates; "
                "give one per coordinate"
            )
        if not all(0 < scale < math.inf for scale in self.scales):
            raise ConfigurationError("every scale must be positive and finite")
        if self.kind is NoiseKind.SPHERICAL_LAPLACE and len(set(self.scales)) > 1:
            raise ConfigurationError(
                "spherical Laplace noise has one scale for all coordinates; give equal scales, "
                "or use Gaussian noise"
            )

    def sensitivity(self, node_exponent: int) -> float:
        """One unit's largest total shift of the scaled nodes over their weights.

        ``record_shift`` times the strategy's sensitivity, plus what rounding the nodes to the
        lattice can add: in each of two neighbouring streams a coordinate moves by at most
        ``node_error``, over the nodes the unit touches.
        """
        order = self.kind.order
        return self.record_shift * self.strategy.sensitivity(
            self.participation, order=order
        ) + self._rounding_shift(node_exponent)

    def _rounding_shift(self, node_exponent: int) -> float:
        error = self.strategy.node_error(
            increment_bound=self.increment_bound,
            increment_exponent=self.increment_exponent,
            node_exponent=node_exponent,
        )
        if error == 0.0:
            return 0.0
        reach = self.strategy.rounding_norm(self.participation, order=self.kind.order)
        return 2.0 * error * float(np.linalg.norm(self.scale_vector)) * reach

    def _noise_for(self, shift: float) -> float:
        return shift / self.kind.shift_per_noise(self.strength) * _ROUNDED_UP

    def _choose_exponent(self) -> int:
        exact = self.record_shift * self.strategy.sensitivity(
            self.participation, order=self.kind.order
        )
        noise = self._noise_for(exact) * self.kind.spread(self.dimension)
        scales = self.scale_vector
        exponent = math.frexp(noise / float(scales.max()))[1] - 1 - RESOLUTION_BITS
        finest = math.frexp(noise / float(scales.min()))[1] - LARGEST_SCALE_BITS
        mean_scale = noise * float(np.mean(1.0 / scales))
        # A finer lattice costs less noise, but more draws need slow arithmetic: where float64
        # no longer rounds nearly all of them, as much is added to the noise as is refined.
        while self._rounding_shift(exponent) > exact * max(
            LARGEST_ROUNDING, REFINED_PER_STEP * math.ldexp(mean_scale, -exponent)
        ):
            exponent -= 1
            if exponent < finest:
                break
        if exponent < finest or self._rounding_shift(exponent) > LAST_ROUNDING * exact:
            raise ConfigurationError(
                f"no lattice suits {self.strategy.name}: rounding would cost more than 0.8 % of "
                f"the noise, or the scales spread by more than 2**{LARGEST_SCALE_BITS}; lower the "
                "increments' bound, the horizon or the spread of the scales"
            )
        return exponent

    def _largest_node(self) -> float:
        return math.ldexp(1.0, LARGEST_NODE_BITS + self.node_exponent)

    @cached_property
    def scale_vector(self) -> FloatArray:
        """The scales, one per coordinate."""
        scales = np.ones(self.dimension) if self.scales is None else np.array(self.scales)
        scales.flags.writeable = False
        return scales

    @cached_property
    def _noise_scale(self) -> float | FloatArray:
        # One number where all scales are equal: the samplers are faster then.
        if self.scales is None or len(set(self.scales)) == 1:
            return self.sigma / float(self.scale_vector[0])
        return self.sigma / self.scale_vector

    @cached_property
    def _node_variance(self) -> FloatArray:
        return (self.sigma * self.kind.spread(self.dimension) / self.scale_vector) ** 2

    @cached_property
    def horizon(self) -> int | None:
        """The last tick: the strategy's, or the last whose sums surely fit the integers."""
        grows = math.isinf(self.strategy.code_bound()) or self.promise is Promise.WHILE_LIVE
        if not grows or math.isinf(self.increment_bound):
            return self.strategy.horizon
        fits = int(self._largest_node() / self.increment_bound)
        return fits if self.strategy.horizon is None else min(fits, self.strategy.horizon)

    @property
    def promise(self) -> Promise:
        """What its releases keep secret, and for how long."""
        return self.strategy.promise

    def event(self) -> Event:
        """The one event that covers every release of the stream's whole life."""
        return self.kind.event(f"continual sum, {self.strategy.name}", self.strength)

    def describe(self) -> Mapping[str, Any]:
        """Every public parameter, JSON-ready: two sums with equal descriptions are the same."""
        strategy = {item.name: getattr(self.strategy, item.name) for item in fields(self.strategy)}
        return {
            "strategy": {"name": self.strategy.name, **strategy},
            "dimension": self.dimension,
            "increment_exponent": self.increment_exponent,
            "increment_bound": self.increment_bound if self.increment_bound < math.inf else None,
            "record_shift": self.record_shift,
            "cap": self.participation.cap,
            "per_tick": self.participation.per_tick,
            "noise": self.kind.value,
            "strength": self.strength,
            "scales": None if self.scales is None else list(self.scales),
            "address": list(self.address),
            "node_exponent": self.node_exponent,
            "sigma": self.sigma,
        }

    def init(self) -> SumState:
        """The state of an empty stream."""
        return SumState(
            encoder=self.strategy.encoder(
                self.dimension,
                increment_exponent=self.increment_exponent,
                node_exponent=self.node_exponent,
            ),
            decoder=self.strategy.decoder(self.dimension),
        )

    def absorb(self, state: SumState, increment: ExactVector) -> None:
        """Close one tick with its exact increment.

        Raises:
            HorizonReached: past the horizon; nothing is absorbed.
        """
        horizon = self.horizon
        if horizon is not None:
            refuse_past_horizon(f"continual sum by {self.strategy.name}", state.tick, horizon)
        state.encoder.absorb(increment)
        state.tick += 1

    def release(self, state: SumState, noise: Noise) -> tuple[list[Measurement], FloatArray]:
        """Measure what this tick needs and was not measured yet, and decode the sum.

        Asked twice at a tick, it measures nothing more and returns the same sum.

        Returns:
            The new measurements, to be kept for ever, and the sum's estimate.
        """
        if state.tick == 0:
            return [], np.zeros(self.dimension)
        measurements: list[Measurement] = []
        for node in state.encoder.nodes():
            measurement = self._measure(node, noise)
            measurements.append(measurement)
            value = np.ldexp(measurement.value.astype(np.float64), measurement.exponent)
            state.decoder.observe(node.address, value)
        return measurements, state.decoder.estimate(state.tick)

    def _measure(self, node: Node, noise: Noise) -> Measurement:
        address = (*self.address, *node.address)
        if node.weight == 0:
            if self.promise is not Promise.WHILE_LIVE:
                raise NotPrivate(
                    f"{self.strategy.name} hands out an exact sum, and promises that records are "
                    "protected for ever; only an expiring strategy may do so"
                )
            return Measurement(address=address, exponent=node.exponent, value=node.value)
        return self.kind.measure(
            node.value,
            node.exponent,
            scale=node.weight * self._noise_scale,
            address=address,
            noise=noise,
        )

    def variance(self, tick: int) -> FloatArray:
        """Variance of every coordinate of the released sum at ``tick``.

        Of the noise: rounding to the lattice adds less than a millionth of it, and what it adds
        to the sensitivity is in ``sigma``.
        """
        return self._node_variance * self.strategy.variance(tick)

    def covariance(self, earlier: int, later: int) -> FloatArray:
        """Covariance of every coordinate between two ticks' released sums."""
        return self._node_variance * self.strategy.covariance(earlier, later)

    def memory(self, tick: int) -> int:
        """Exact vectors held after ``tick`` ticks."""
        return self.strategy.memory(tick)

    def snapshot(self, state: SumState) -> dict[str, FloatArray | IntArray]:
        """The whole state, secret and public, as arrays."""
        arrays: dict[str, FloatArray | IntArray] = {"tick": np.array([state.tick], np.int64)}
        for part, held in (
            ("encoder", state.encoder.snapshot()),
            ("decoder", state.decoder.snapshot()),
        ):
            arrays |= {f"{part}.{key}": value for key, value in held.items()}
        return arrays

    def restore(self, arrays: Mapping[str, FloatArray | IntArray]) -> SumState:
        """The state of a snapshot; continues to the bit."""
        state = self.init()
        state.encoder.restore(_part(arrays, "encoder."))
        state.decoder.restore(_part(arrays, "decoder."))
        state.tick = int(arrays["tick"][0])
        return state


def _part(
    arrays: Mapping[str, FloatArray | IntArray], prefix: str
) -> dict[str, FloatArray | IntArray]:
    return {
        key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)
    }
