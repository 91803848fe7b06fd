"""What all learners of consecutive blocks share; the rule of fits is theirs.

A block is a tick's records, padded with null records to a public number. After a block, the rule
says which blocks are fitted, each fit around a model that was released before; what no later fit
needs is erased. Proof in ``block_learner.proof.md``.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.errors import ConfigurationError, HorizonReached, NotPrivate
from dpstream.geometry.declaration import require_positive, require_whole
from dpstream.learners.description import described_scores
from dpstream.learners.learner import Arrays, Outcome, Tick
from dpstream.learners.window.bucket import BucketRule, Fit
from dpstream.learners.window.fit import BlockSolver, FitPlan
from dpstream.learners.window.source_model import SourceModels, check_source
from dpstream.losses.loss import Loss
from dpstream.mechanisms.continual.strategy import Promise
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import gaussian_mu, pure_epsilon
from dpstream.privacy.event import Event, GaussianEvent, PureEvent
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.release import Measurement
from dpstream.solvers.description import described
from dpstream.solvers.output_perturbation import NoiseKind
from dpstream.solvers.plan import Solver

_ORDER = {"gaussian": 2.0, "spherical_laplace": 1.0}
_ROUNDED_UP = 1.0 + 2.0**-40
"""On the charge: what rounding in the fits' shares may add; calibration leaves room for it."""

_UNBOUNDED = "without it nothing bounds how far a record moves a fit, and no noise would do"

SAMPLING_REFUSED = (
    "sampling=True asks for paper 003's variants that fit about B sampled records of 2^k B while "
    "they scale the noise by 2^k B: a fit then costs a sampled record 2^k times its share, which "
    "sampling cannot win back, and epsilon grows without bound over the levels. With noise for B "
    "records they only lose data: leave sampling out"
)


@dataclass
class BlockState:
    """One stream's state.

    Attributes:
        open: rows of the open block: secret.
        history: rows of the closed blocks that later fits need, from block ``first`` on: secret.
        first: the position of the first of them.
        closed: how many blocks are closed.
        fitted: after how many blocks the last step was made.
        stack: released models and their fits, each centred on the one before it.
    """

    open: list[FloatArray]
    history: list[FloatArray]
    first: int
    closed: int
    fitted: int
    stack: list[tuple[Fit, FloatArray]]


@dataclass(frozen=True, kw_only=True)
class BlockLearner(ABC):
    """Fits of public blocks, under one event for life.

    Guaranteed: all releases of the stream's whole life, together and adaptively, satisfy the
    budget for the declared unit and neighbours. Assumed of the caller: the schedule of ticks is
    public; units over their cap were made null.

    Attributes:
        domain: what of a record counts: one target, or for softmax its classes.
        budget: of everything published.
        unit: whose contribution is hidden; a user's cap must hold for the stream's life.
        neighbours: what it is hidden against.
        horizon: how many blocks may be closed, or None for a stream without end.
        loss: of a record: squared, logistic, Huber, softmax or another smooth one.
        block_records: records of a block (paper 003's b0 or w0): one tick's, or by a clock the
            most that one may hold. A tick with fewer, or none, is filled up with null records;
            more are refused, and stop the stream.
        ridge: the modulus of the regulariser of fits around the origin: ``(ridge / 2)
            |theta|^2`` beside the mean loss (the paper's lambda is half of it).
        update_ridge: of fits around a released model; None for ``ridge``. Noise falls with it.
        radius: of the ball of parameters, in scaled units.
        noise: Gaussian, or spherical Laplace for a pure guarantee.
        tilt: 0 gives fits of every size the same noise, as the paper does; between 0 and 1
            larger fits are quieter and smaller ones louder.
        sampling: refused.
        source: released models of another stream, the newest of which takes the origin's place
            (dynamic transfer): fits around it have ``update_ridge``. That stream has a unit and a
            budget of its own, which this one's statement does not cover.
        base_solver: takes the certified minimiser's place in every fit, if its result has one
            sensitivity: ``OutputPerturbation``, ``PermutedSGD`` (the paper's) or
            ``OnlineToOffline``. The last two go through records in order, and are refused where
            ticks follow the time of day.
        solver: fits blocks; derived.
    """

    domain: Domain
    budget: Budget
    unit: Unit
    neighbours: Neighbours
    horizon: int | None
    loss: Loss
    block_records: int
    ridge: float
    update_ridge: float | None = None
    radius: float
    noise: NoiseKind = "gaussian"
    tilt: float = 0.0
    sampling: bool = False
    source: SourceModels | None = None
    base_solver: Solver | None = None
    solver: BlockSolver = field(init=False)

    def __post_init__(self) -> None:
        if self.sampling:
            raise NotPrivate(SAMPLING_REFUSED)
        require_whole("block_records", self.block_records)
        if self.horizon is not None:
            require_whole("horizon", self.horizon, least=0)
        require_positive("ridge", self.ridge, otherwise=_UNBOUNDED)
        if self.update_ridge is not None:
            require_positive("update_ridge", self.update_ridge, otherwise=_UNBOUNDED)
        if not 0.0 <= self.tilt < 1.0:
            raise ConfigurationError(f"tilt is {self.tilt}; it must be at least 0 and below 1")
        if self.horizon is not None and self.horizon < self.rule.first:
            raise ConfigurationError(
                f"horizon is {self.horizon} blocks, but the first model needs {self.rule.first}; "
                "declare smaller blocks or a longer horizon"
            )
        if self.unit.period == "window":
            raise ConfigurationError(
                "the unit's cap counts over a window, but models of expired blocks stay "
                "published; cap over the stream's life"
            )
        power = _ORDER.get(self.noise, 2.0) * (1.0 - self.tilt)
        solver = BlockSolver(
            loss=self.loss,
            domain=self.domain,
            block_records=self.block_records,
            radius=self.radius,
            neighbours=self.neighbours,
            unit=self.unit,
            budget=self.budget,
            kind=self.noise,
            power=power,
            worst=self.rule.worst(power, self.horizon),
            base=self.base_solver,
        )
        object.__setattr__(self, "solver", solver)
        if self.source is not None:
            check_source(self.source, self.domain)
        _ = solver.plan(1, self.ridge)

    # --- what learners differ in ---------------------------------------------------------------

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name in the catalogue."""

    @property
    @abstractmethod
    def rule(self) -> BucketRule:
        """Which blocks are fitted when."""

    def modulus(self, closed: int, *, centred: bool) -> float:
        """Of the regulariser of a fit after so many blocks: public.

        Args:
            closed: blocks.
            centred: whether around a released model, or around zero.
        """
        return (self.update_ridge or self.ridge) if centred else self.ridge

    def centre(self, closed: int, below: FloatArray | None, origin: FloatArray) -> FloatArray:
        """What a fit is regularised around: a function of released models and public numbers.

        Args:
            closed: blocks.
            below: the released model that it updates, or None.
            origin: zero, or the source's newest model.
        """
        return origin if below is None else below

    # --- the learner's contract ----------------------------------------------------------------

    @property
    def window(self) -> int | None:
        """None: models of a record stay published, and it stays protected."""
        return None

    @property
    def promise(self) -> Promise:
        """Every record is protected for ever."""
        return Promise.FOREVER

    @property
    def most_records(self) -> int:
        """The most records that one tick may hold."""
        return self.block_records

    @property
    def ordered(self) -> bool:
        """Whether fits go through a block's records in order: some ``base_solver`` does."""
        return self.solver.ordered

    def describe(self) -> Mapping[str, Any]:
        """Every public parameter, JSON-ready: its identity for ``resume``."""
        return {
            "rule": described(self.rule),
            "horizon": self.horizon,
            "loss": described(self.loss) | {"name": self.loss.name},
            "block_records": self.block_records,
            "ridge": self.ridge,
            "update_ridge": self.update_ridge,
            "radius": self.radius,
            "noise": self.noise,
            "tilt": self.tilt,
            "base_solver": None
            if self.base_solver is None
            else {"name": self.base_solver.name, "options": described(self.base_solver)},
            "source": None if self.source is None else described(self.source.describe()),
        }

    def opening_events(self) -> Sequence[Event]:
        """The one event that covers every fit of the stream's life: what the worst record pays."""
        if self.noise == "gaussian":
            return (GaussianEvent(self.name, mu=gaussian_mu(self.budget) * _ROUNDED_UP),)
        return (PureEvent(self.name, epsilon=pure_epsilon(self.budget) * _ROUNDED_UP),)

    def next_events(self, tick: Tick) -> Sequence[Event]:
        """Nothing: the opening event covers every release."""
        return ()

    def init(self) -> BlockState:
        """The state of an empty stream."""
        return BlockState([], [], 0, 0, 0, [])

    def learn(self, state: BlockState, batch: Batch) -> None:
        """Keep records of the open block; the same for any batching.

        Raises:
            ConfigurationError: if the block has more records than its public number; nothing of
                the batch is kept.
        """
        held = sum(len(rows) for rows in state.open)
        if held + len(batch) > self.block_records:
            raise ConfigurationError(
                f"a tick holds more than block_records = {self.block_records} records; close a "
                "tick every block_records records, or declare larger blocks (for ticks by a clock "
                "a larger tick_records)"
            )
        if len(batch):
            state.open.append(batch.rows.copy())

    def close(self, state: BlockState, tick: Tick) -> None:
        """Close the block, filled up with null records.

        Raises:
            HorizonReached: after the last block.
        """
        if self.horizon is not None and state.closed >= self.horizon:
            raise HorizonReached(
                f"the stream has used the {self.horizon} blocks that {self.name} was calibrated "
                "for; start a new stream with its own budget, or plan a longer horizon"
            )
        missing = self.block_records - sum(len(rows) for rows in state.open)
        padding = np.zeros((missing, self.domain.width))
        state.history.append(np.concatenate([*state.open, padding]))
        state.open = []
        state.closed += 1

    def release(self, state: BlockState, tick: Tick, noise: Noise) -> Outcome:
        """Fit what the rule demands, and publish the newest model."""
        measurements: list[Measurement] = []
        models: list[dict[str, Any]] = []
        while state.fitted < state.closed:
            models = []
            for fit, plan, point, measurement, source in self._advance(state, noise):
                measurements.append(measurement)
                models.append(self._fitted(fit, plan, point) | {"source": source})
        return Outcome(measurements=measurements, model=self._model(state, models, tick))

    def snapshot(self, state: BlockState) -> Arrays:
        """The whole state, secret and public, as arrays."""
        width = self.domain.width
        empty = np.zeros((0, width))
        return {
            "open": np.concatenate([empty, *state.open]),
            "history": np.concatenate([empty, *state.history]),
            "counts": np.array([state.first, state.closed, state.fitted], np.int64),
            "fits": np.array(
                [(f.start, f.end, f.level, int(f.centred)) for f, _ in state.stack], np.int64
            ).reshape(-1, 4),
            "points": np.array([point for _, point in state.stack], np.float64).reshape(
                -1, self.solver.dimension
            ),
        }

    def restore(self, arrays: Arrays) -> BlockState:
        """The state of a snapshot; continues to the bit."""
        open_rows = np.array(arrays["open"], np.float64)
        history = np.array(arrays["history"], np.float64)
        size = self.block_records
        first, closed, fitted = (int(number) for number in arrays["counts"])
        stack = [
            (Fit(start=start, end=end, level=level, centred=bool(centred)), np.array(point))
            for (start, end, level, centred), point in zip(
                np.asarray(arrays["fits"]).tolist(),
                np.asarray(arrays["points"], np.float64),
                strict=True,
            )
        ]
        return BlockState(
            [open_rows] if len(open_rows) else [],
            [history[at : at + size] for at in range(0, len(history), size)],
            first,
            closed,
            fitted,
            stack,
        )

    # --- within --------------------------------------------------------------------------------

    def _advance(
        self, state: BlockState, noise: Noise
    ) -> list[tuple[Fit, FitPlan, FloatArray, Measurement, int | None]]:
        """Make one step of the rule, and erase what no later step needs."""
        closed = state.fitted + 1
        step = self.rule.step(closed)
        stack = state.stack[: step.keep]
        done: list[tuple[Fit, FitPlan, FloatArray, Measurement, int | None]] = []
        known = None if self.source is None or not step.fits else self.source.newest()
        origin = np.zeros(self.solver.dimension)
        if known is not None:
            origin = self.solver.parameters(known.coefficients, known.intercept)
        for fit in step.fits:
            below = stack[-1][1] if fit.centred and stack else None
            around = below is not None or known is not None
            centre = self.solver.ball.project(self.centre(closed, below, origin))
            plan = self.solver.plan(fit.size, self.modulus(closed, centred=around), centre)
            rows = state.history[fit.start - state.first : fit.end - state.first]
            point, measurement = self.solver.fit(
                plan,
                Batch(np.concatenate(rows), self.domain.dimension),
                centre=centre,
                address=(closed, fit.start, fit.end),
                noise=noise,
            )
            stack.append((fit, point))
            done.append((fit, plan, point, measurement, None if known is None else known.tick))
        state.stack = stack[-1:] if step.forget else stack
        state.fitted = closed
        needed = self.rule.keep_from(closed, self.horizon)
        del state.history[: max(0, needed - state.first)]
        state.first = max(state.first, needed)
        return done

    def _fitted(self, fit: Fit, plan: FitPlan, point: FloatArray) -> dict[str, Any]:
        return {
            "blocks": [fit.start, fit.end],
            "noise": plan.noise.scale,
            **described_scores(self.domain, self._table(point), loss=self.loss),
        }

    def _table(self, point: FloatArray) -> FloatArray:
        table = np.atleast_2d(self.solver.problem(1).scaled_parameters(point))
        return table if self.domain.intercept else table[:, 1:]

    def _model(
        self, state: BlockState, models: Sequence[dict[str, Any]], tick: Tick
    ) -> Mapping[str, Any]:
        """The newest model; zero, and marked as not ready, before there is one."""
        newest = state.stack[-1][1] if state.stack else np.zeros(self.solver.dimension)
        return {
            "kind": "scores",
            "tick": tick.number,
            "records": tick.records,
            "loss": self.loss.name,
            "promise": self.promise.value,
            "features": list(self.domain.feature_names),
            "targets": list(self.domain.target_names),
            "ready": bool(state.stack),
            "chain": [[fit.start, fit.end] for fit, _ in state.stack],
            **described_scores(self.domain, self._table(newest), loss=self.loss),
            "fitted": list(models),
        }
