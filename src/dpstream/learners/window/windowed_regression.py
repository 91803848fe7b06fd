"""Least squares over a sliding window, or with forgetting, on one continual sum of moments.

Where paper 003 refits blocks (Algorithm 5), the squared loss needs only the window's moments, and
these are measured once, by a windowed or decayed strategy. Proof in
``windowed_regression.proof.md``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.errors import ConfigurationError
from dpstream.learners.incremental.moment_stream import (
    MomentStream,
    RegressionState,
    check_declaration,
    moment_stream,
)
from dpstream.learners.learner import Arrays, Outcome, Tick
from dpstream.mechanisms.continual.choice import AUTO, sum_strategy
from dpstream.mechanisms.continual.node_noise import NoiseKind, NoiseName
from dpstream.mechanisms.continual.strategy import Promise
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.moments import MomentLayout, balanced_weights
from dpstream.privacy.budget import Budget
from dpstream.privacy.event import Event
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.solvers.linear_model import LinearProblem, check_regularisation


@dataclass(frozen=True, kw_only=True)
class WindowedRegression:
    """Least squares on the newest records, released at any tick, for ever.

    Minimised is ``sum w_i (y_i - <x_i, theta> - b)^2 + (penalty n + ridge) |theta|^2 + (l1_penalty
    n + lasso) |theta|_1`` with n the sum of the weights, which is measured: ``w_i`` is 1 for
    records of the last ``window_ticks`` ticks and 0 for others, or ``decay`` to the power of a
    record's age in ticks.

    Guaranteed: all releases of the stream's whole life, together and adaptively, satisfy the
    budget for the declared unit and neighbours; expired records stay protected. Assumed of the
    caller: the schedule of ticks is public; at most ``tick_records`` records fall in a tick; units
    over their cap, which counts over the stream's life, were made null.

    Attributes:
        domain: what of a record counts, with at least one target.
        budget: of everything published.
        unit: whose contribution is hidden.
        neighbours: what it is hidden against.
        window_ticks: the window, or None with ``decay``.
        decay: what a tick's passing leaves of a record's weight, or None with a window.
        radius: of the L2 ball for the coefficients, or None.
        penalty: ridge penalty per record.
        ridge: ridge penalty of the whole sum.
        l1_penalty: L1 penalty per record; not together with a radius.
        lasso: L1 penalty of the whole sum; not together with a radius.
        noise: the law of the noise, or its name.
        intervals: whether releases carry standard errors and intervals; for windows alone.
        tick_records: public bound on the records of one tick; None takes the largest that fits.
        problem: what is minimised; derived.
        stream: the measured moments; derived.
    """

    domain: Domain
    budget: Budget
    unit: Unit
    neighbours: Neighbours
    window_ticks: int | None = None
    decay: float | None = None
    radius: float | None = None
    penalty: float = 0.0
    ridge: float = 0.0
    l1_penalty: float = 0.0
    lasso: float = 0.0
    noise: NoiseKind | NoiseName = NoiseKind.GAUSSIAN
    intervals: bool = False
    tick_records: int | None = None
    problem: LinearProblem = field(init=False)
    stream: MomentStream = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", NoiseKind.of(self.noise))
        if (self.window_ticks is None) == (self.decay is None):
            raise ConfigurationError(
                f"window_ticks is {self.window_ticks} and decay is {self.decay}; give one of them"
            )
        if self.decay is not None and self.intervals:
            raise ConfigurationError(
                "intervals are known for records of equal weight; turn them off, or take a window"
            )
        check_declaration(self.domain, self.unit, self.tick_records)
        check_regularisation(
            penalty=self.penalty,
            ridge=self.ridge,
            radius=self.radius,
            l1_penalty=self.l1_penalty,
            lasso=self.lasso,
        )
        layout = MomentLayout(
            dimension=self.domain.dimension,
            target_count=self.domain.target_count,
            weights=balanced_weights(
                dimension=self.domain.dimension,
                target_count=self.domain.target_count,
                intercept=self.domain.intercept,
                count=True,
                penalty=self.penalty,
                radius=self.radius,
            ),
        )
        problem = LinearProblem(
            domain=self.domain,
            layout=layout,
            penalty=self.penalty,
            ridge=self.ridge,
            radius=self.radius,
            l1_penalty=self.l1_penalty,
            lasso=self.lasso,
        )
        object.__setattr__(self, "problem", problem)
        stream = moment_stream(
            name=self.name,
            layout=layout,
            horizon=None,
            strategy=sum_strategy(AUTO, horizon=None, window=self.window_ticks, decay=self.decay),
            unit=self.unit,
            neighbours=self.neighbours,
            noise=NoiseKind.of(self.noise),
            strength=lambda _strategy, _shift: NoiseKind.of(self.noise).strength(self.budget),
            tick_records=self.tick_records,
        )
        object.__setattr__(self, "stream", stream)

    # --- the learner's contract ----------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return "windowed_regression"

    @property
    def most_records(self) -> int:
        """The most records that one tick may hold."""
        return self.stream.most_records

    @property
    def window(self) -> None:
        """None: expired records stay protected, so a unit's cap counts over its life."""
        return

    @property
    def horizon(self) -> None:
        """None: it runs for ever."""
        return

    @property
    def promise(self) -> Promise:
        """What its releases keep secret, and for how long."""
        return self.stream.sum.promise

    def describe(self) -> Mapping[str, Any]:
        """Every public parameter, JSON-ready: its identity for ``resume``."""
        return {
            "window_ticks": self.window_ticks,
            "decay": self.decay,
            "weights": self.stream.layout.weights.to_json(),
            "radius": self.radius,
            "penalty": self.penalty,
            "ridge": self.ridge,
            "l1_penalty": self.l1_penalty,
            "lasso": self.lasso,
            "intervals": self.intervals,
            "sum": self.stream.describe(),
        }

    def opening_events(self) -> Sequence[Event]:
        """The one event that covers every release of the stream's life."""
        return (self.stream.sum.event(),)

    def next_events(self, tick: Tick) -> Sequence[Event]:
        """Nothing: the opening event covers every release."""
        return ()

    def init(self) -> RegressionState:
        """The state of an empty stream."""
        return self.stream.init()

    def learn(self, state: RegressionState, batch: Batch) -> None:
        """Absorb records of the open tick; see ``MomentStream.learn``."""
        self.stream.learn(state, batch)

    def close(self, state: RegressionState, tick: Tick) -> None:
        """Close the tick, whether or not it publishes; see ``MomentStream.close``."""
        self.stream.close(state)

    def release(self, state: RegressionState, tick: Tick, noise: Noise) -> Outcome:
        """Measure the moments of a closed tick and solve; the only place where noise is drawn."""
        measurements, moments = self.stream.release(state, noise)
        # The public number of records is the whole stream's: the window's is what was measured.
        model = self.problem.model(
            moments,
            unit_variance=self.stream.unit_variance(tick.number),
            records=None,
            intervals=self.intervals,
            seed=tick.number,
        )
        return Outcome(measurements=measurements, model={"tick": tick.number, **model})

    def snapshot(self, state: RegressionState) -> Arrays:
        """The whole state, secret and public, as arrays."""
        return self.stream.snapshot(state)

    def restore(self, arrays: Arrays) -> RegressionState:
        """The state of a snapshot; continues to the bit."""
        return self.stream.restore(arrays)
