"""POCP: any online algorithm with a declared sensitivity, published through shrinking noise.

Paper 004, section 3, Algorithm 1. The iterate stays secret; every release is the iterate, or the
average of all iterates so far, plus Gaussian noise in proportion to what one record can have
moved. The promise covers all releases of the stream's whole life, adaptively.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast, get_args

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.batch import GRID, Batch
from dpstream.domain.domain import Domain
from dpstream.errors import ConfigurationError, HorizonReached
from dpstream.geometry.convex_set import ConvexSet, Projectable
from dpstream.geometry.declaration import require_positive
from dpstream.learners.description import described_scores
from dpstream.learners.learner import Arrays, Outcome, Tick
from dpstream.learners.online.gradient_stack import NO_CONSTANT, NO_SLOPE, natural_slope
from dpstream.learners.online.online_algorithm import (
    OnlineAlgorithm,
    StepProblem,
    remembers,
    takes_steps,
)
from dpstream.learners.online.release_price import ReleasePrice, Schedule
from dpstream.learners.online.release_sensitivity import Output, release_sensitivity
from dpstream.losses.generalised_linear import GeneralisedLinearLoss
from dpstream.mechanisms.continual.strategy import Promise
from dpstream.mechanisms.gaussian import measure_gaussian
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import gaussian_mu
from dpstream.privacy.event import Event, GaussianEvent
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.solvers.description import described

RESOLUTION_BITS = 20
"""A release's lattice is this much finer than its noise."""

STEP_CONSTANT = 0.3
"""The constant's size for stepping algorithms, beside features in the unit ball."""

_ROUNDED_UP = 1.0 + 2.0**-40


@dataclass
class PerturbedState:
    """One stream's state: secret, but for the number of releases.

    Attributes:
        point: the iterate.
        total: the sum of all iterates.
        steps: taken so far: records, null ones included.
        released: how many releases there were.
        rows: all records so far, in pieces, where the algorithm remembers them.
    """

    point: FloatArray
    total: FloatArray
    steps: int = 0
    released: int = 0
    rows: list[FloatArray] = field(default_factory=list[FloatArray])


@dataclass(frozen=True, kw_only=True)
class POCP:
    """A strongly convex model whose secret iterate is published through noise.

    Every record is one step on ``loss(<z, x>, y) + (modulus / 2) |x|^2`` in scaled units, the
    constant included. Three ways to publish, by the schedule of ticks: at every record, at every
    n-th, or whenever asked; the price of a release depends on its number alone.

    Guaranteed: all releases of the stream's whole life, together and adaptively, satisfy the
    budget. Assumed of the caller: ticks close by public rules and by count: a null record keeps
    its step; units over their cap were made null.

    Attributes:
        domain: of the records, with one target.
        budget: of everything published.
        unit: whose contribution is hidden; a user's cap must hold for the stream's life.
        neighbours: what it is hidden against.
        releases: how many there may be, or None for no end at constant epsilon.
        algorithm: how the iterate moves: step by step, or as the leader of all records.
        loss: of a record: for steps logistic, squared, Huber or hinge, for leaders a smooth one of
            bounded slope.
        modulus: strong convexity (the papers' alpha); larger is more private and more biased. May
            be 0 for a regularised leader.
        schedule: of the prices; None takes ``"optimal"``, or ``"endless"`` without an end.
        head_start: of endless prices.
        output: the last iterate or the average of all (POL's, kept current).
        convex_set: what releases are projected on, of the parameters without constant.
        slope_clip: bound to which slopes are clipped; None takes the loss's own.
        constant_scale: the constant's size beside features in the unit ball; None takes 0.3, or 1
            for leaders, which have it so.
        constant: that size; derived.
    """

    domain: Domain
    budget: Budget
    unit: Unit
    neighbours: Neighbours
    releases: int | None
    algorithm: OnlineAlgorithm
    loss: GeneralisedLinearLoss
    modulus: float
    schedule: Schedule | None = None
    head_start: int = 100
    output: Output = "last"
    convex_set: ConvexSet | None = None
    slope_clip: float | None = None
    constant_scale: float | None = None
    constant: float = field(init=False)
    problem: StepProblem = field(init=False)
    price: ReleasePrice = field(init=False)
    mu: float = field(init=False)

    def __post_init__(self) -> None:
        self._check()
        leads = remembers(self.algorithm)
        constant = self.constant_scale
        if constant is None:
            constant = 1.0 if leads else STEP_CONSTANT
        object.__setattr__(self, "constant", constant)
        slope = self.slope_clip
        if slope is None:
            slope = natural_slope(self.loss, convex_set=None, intercept=True)
        problem = StepProblem(
            loss=self.loss,
            slope=slope,
            length=math.hypot(1.0, constant if self.domain.intercept else 0.0),
            modulus=self.modulus,
            domain=self.domain,
            clipped=self.slope_clip is not None,
        )
        if not leads:
            _ = problem.code
        self.algorithm.shift(problem, 1)
        schedule: Schedule = "endless" if self.releases is None else "optimal"
        price = ReleasePrice(
            schedule=self.schedule or schedule,
            releases=self.releases,
            head_start=self.head_start,
        )
        object.__setattr__(self, "problem", problem)
        object.__setattr__(self, "price", price)
        object.__setattr__(self, "mu", gaussian_mu(self.budget))
        # Noise is largest at the first release: what float64 cannot hold is refused at once.
        if not math.isfinite(self.noise_scale(1, 1)[0]):
            raise ConfigurationError(
                f"modulus is {self.modulus} and the noise that it needs is beyond float64; give a "
                "larger modulus, or clip slopes"
            )

    def _check(self) -> None:
        if remembers(self.algorithm):
            if not (math.isfinite(self.modulus) and self.modulus >= 0):
                raise ConfigurationError(
                    f"modulus is {self.modulus}; it must be finite and at least 0"
                )
            if self.output != "last" or self.constant_scale not in (None, 1.0):
                raise ConfigurationError(
                    f"output is {self.output!r} and constant_scale {self.constant_scale}; a leader "
                    "is published itself, with a constant of size 1: drop both"
                )
        else:
            require_positive(
                "modulus, the strong convexity,",
                self.modulus,
                otherwise="without it one record could move the iterate without bound",
            )
        if self.constant_scale is not None:
            require_positive("constant_scale", self.constant_scale, otherwise=NO_CONSTANT)
        if self.slope_clip is not None:
            require_positive("slope_clip", self.slope_clip, otherwise=NO_SLOPE)
        if self.output not in get_args(Output):
            raise ConfigurationError(
                f"output is {self.output!r}; it must be one of {', '.join(get_args(Output))}"
            )
        if self.domain.target_count != 1:
            raise ConfigurationError(
                f"the domain has {self.domain.target_count} encoded targets; a perturbed learner "
                "takes one"
            )
        if self.unit.period == "window":
            raise ConfigurationError(
                "the unit's cap counts over a window, but this learner never forgets a record; "
                "cap over the stream's life"
            )
        chosen = self.convex_set
        if chosen is not None and not (
            isinstance(chosen, Projectable) and chosen.dimension == self.domain.dimension
        ):
            raise ConfigurationError(
                f"releases are projected on a set of dimension {self.domain.dimension}; "
                f"{type(chosen).__name__} has no projection or dimension {chosen.dimension}"
            )

    # --- the learner's contract ----------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return "pocp"

    @property
    def window(self) -> None:
        """None: a record counts for ever."""
        return

    @property
    def horizon(self) -> None:
        """None: releases are limited, not ticks."""
        return

    @property
    def promise(self) -> Promise:
        """What its releases keep secret, and for how long."""
        return Promise.FOREVER

    def describe(self) -> Mapping[str, Any]:
        """Every public parameter, JSON-ready: its identity for ``resume``."""
        return {
            "domain": self.domain.to_json(),
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "unit": described(self.unit),
            "neighbours": self.neighbours.value,
            "algorithm": described(self.algorithm.describe()),
            "loss": described(self.loss),
            "modulus": self.modulus,
            "price": described(self.price),
            "output": self.output,
            "convex_set": described(self.convex_set),
            "slope": self.problem.slope,
            "constant_scale": self.constant,
        }

    def opening_events(self) -> Sequence[Event]:
        """The one event that covers every release of the stream's life."""
        return (GaussianEvent(f"perturbed {self.algorithm.name}", mu=self.mu),)

    def next_events(self, tick: Tick) -> Sequence[Event]:
        """Nothing: the opening event covers every release."""
        return ()

    def init(self) -> PerturbedState:
        """The state of an empty stream, at the origin."""
        return PerturbedState(np.zeros(self._width), np.zeros(self._width))

    def learn(self, state: PerturbedState, batch: Batch) -> None:
        """Take one step per record, or remember them; the same for any batching."""
        if remembers(self.algorithm):
            if len(batch):
                state.rows.append(batch.rows.copy())
            state.steps += len(batch)
            return
        assert takes_steps(self.algorithm)
        rows = batch.rows[:, self._first :]
        self.algorithm.run(
            self.problem,
            rows,
            self._scales,
            target_column=self._width,
            steps=state.steps,
            point=state.point,
            total=state.total,
        )
        state.steps += len(batch)

    def close(self, state: PerturbedState, tick: Tick) -> None:
        """Close the tick, whether or not it publishes.

        Raises:
            ConfigurationError: if ticks follow a clock: the number of steps is then secret.
            HorizonReached: if the tick would publish and every release has been spent.
        """
        if tick.records is None:
            raise ConfigurationError(
                "a perturbed learner's noise depends on its number of steps; let ticks close by "
                "count, or follow the leader with count=True"
            )
        spent = self.releases is not None and state.released >= self.releases
        if tick.publish and spent:
            raise HorizonReached(
                f"{self.name} has spent its {self.releases} releases; declare more, or None for "
                "no end, before the stream starts"
            )

    def release(self, state: PerturbedState, tick: Tick, noise: Noise) -> Outcome:
        """Publish the iterate or the average through noise; noise is drawn here alone."""
        number = state.released + 1
        steps = state.steps
        sigma, exponent = self.noise_scale(steps, number)
        value = self._secret_value(state)
        integers = np.rint(np.ldexp(value, -exponent)).astype(np.int64)
        measurement = measure_gaussian(
            integers, exponent, sigma=sigma, address=(number,), noise=noise
        )
        state.released = number
        released = np.ldexp(measurement.value.astype(np.float64), exponent)
        return Outcome(measurements=(measurement,), model=self._model(released, tick, sigma))

    def _secret_value(self, state: PerturbedState) -> FloatArray:
        """What a release shows through noise."""
        if remembers(self.algorithm):
            if not state.steps:
                return state.point
            # One piece from now on: pieces of any batching give the same rows in the same order.
            state.rows = [np.concatenate(state.rows)]
            batch = Batch(rows=state.rows[0], dimension=self.domain.dimension)
            return self.algorithm.leader(self.problem, batch)
        return state.point if self.output == "last" else state.total / max(state.steps, 1)

    def snapshot(self, state: PerturbedState) -> Arrays:
        """The whole state, secret and public, as arrays; rows are integers."""
        arrays: dict[str, FloatArray | IntArray] = {
            "point": state.point.copy(),
            "total": state.total.copy(),
            "numbers": np.array([state.steps, state.released], np.int64),
        }
        if remembers(self.algorithm):
            rows = np.concatenate([np.zeros((0, self.domain.width)), *state.rows])
            arrays["rows"] = rows.astype(np.int64)
        return arrays

    def restore(self, arrays: Arrays) -> PerturbedState:
        """The state of a snapshot; continues to the bit."""
        point, total = (np.array(arrays[name], np.float64) for name in ("point", "total"))
        steps, released = (int(number) for number in arrays["numbers"])
        rows = [np.ascontiguousarray(arrays["rows"], np.float64)] if "rows" in arrays else []
        return PerturbedState(point, total, steps, released, rows)

    # --- calibration ---------------------------------------------------------------------------

    @cached_property
    def _first(self) -> int:
        return 0 if self.domain.intercept else 1

    @cached_property
    def _width(self) -> int:
        return self.domain.dimension + 1 - self._first

    @cached_property
    def _scales(self) -> FloatArray:
        """Of each feature, then of the target, from grid units."""
        scales = np.full(self._width + 1, 1.0 / GRID)
        if self.domain.intercept:
            scales[0] *= self.constant
        return scales

    def noise_scale(self, steps: int, number: int) -> tuple[float, int]:
        """Standard deviation and lattice of release ``number``, made after ``steps`` steps."""
        shift = release_sensitivity(
            self.algorithm,
            self.problem,
            steps=max(steps, 1),
            output=self.output,
            neighbours=self.neighbours,
            cap=self.unit.cap,
            width=self._width,
        )
        allowed = self.mu * math.sqrt(self.price.price(number))
        exponent = math.frexp(shift / allowed)[1] - 1 - RESOLUTION_BITS
        # Rounding moves each of two worlds by at most half a step in each coordinate.
        rounded = shift + math.ldexp(math.sqrt(self._width), exponent)
        return rounded / allowed * _ROUNDED_UP, exponent

    # --- post-processing -----------------------------------------------------------------------

    def _model(self, released: FloatArray, tick: Tick, sigma: float) -> Mapping[str, Any]:
        point = released.copy()
        constants = 1 - self._first
        if self.convex_set is not None:
            # Checked once: looking for a capability takes longer than a release may.
            point[constants:] = cast("Projectable", self.convex_set).project(point[constants:])
        if constants:
            point[0] *= self.constant
        return {
            "kind": "scores",
            "tick": tick.number,
            "records": tick.records,
            "loss": self.loss.name,
            "promise": self.promise.value,
            "features": list(self.domain.feature_names),
            "targets": list(self.domain.target_names),
            **described_scores(self.domain, point[None], loss=self.loss),
            "output": self.output,
            "noise_standard_error": sigma,
        }
