"""Which incremental learner to take for a regression, by predicted excess risk; and taking it.

PrivIncReg1, PrivIncReg2 and PrivIncERM (on measured moments) answer the same question. Each is
calibrated for the declared stream and simulated on made-up records (``prospect.py``): the one with
the least predicted worst excess risk is taken, and every release says which, and why.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Self

from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.domain.subset import SubsetRule
from dpstream.errors import ConfigurationError, DpstreamError
from dpstream.geometry.convex_set import ConvexSet
from dpstream.learners.incremental.population import made_up
from dpstream.learners.incremental.priv_inc_erm import PrivIncERM
from dpstream.learners.incremental.priv_inc_reg1 import PrivIncReg1
from dpstream.learners.incremental.priv_inc_reg2 import PrivIncReg2
from dpstream.learners.incremental.prospect import DRAWS, LOOKS, Incremental, Prospect, prospect
from dpstream.learners.learner import Arrays, Outcome, OwnDraw, Tick
from dpstream.learners.limit import check_tick_records
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.continual.node_noise import NoiseKind, NoiseName
from dpstream.mechanisms.continual.strategy import Promise, Strategy
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.event import Event
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.solvers.moment_regression import MomentRegression

LOOK_AHEAD = 10_000
"""Ticks for which a stream without end is compared."""

LARGEST_ENTRIES = 1 << 23
"""Moments beyond so many entries are not kept: 64 MiB for each vector of a continual sum."""

SIMULATED_FEATURES = 512
"""Up to so many features predictions use the made-up records in full."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The three learners on one declared stream: public.

    Attributes:
        prospects: the best first; those that cannot take the stream last.
    """

    prospects: tuple[Prospect, ...]

    @property
    def best(self) -> Prospect:
        """The one to take."""
        return self.prospects[0]

    @property
    def reason(self) -> str:
        """One sentence: what is taken and why."""
        able = [item for item in self.prospects if item.refusal is None]
        if len(able) == 1:
            return f"{self.best.name}: the only one that can take this stream"
        return (
            f"{self.best.name}: least predicted worst excess risk, {self.best.worst:.3g}; "
            f"{able[1].name} follows with {able[1].worst:.3g}"
        )

    def describe(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "take": self.best.name,
            "reason": self.reason,
            "candidates": [item.describe() for item in self.prospects],
        }


@dataclass(frozen=True, kw_only=True)
class AutoIncremental:
    """Whichever of PrivIncReg1, PrivIncReg2 and PrivIncERM is predicted to be best.

    Minimised at a tick is ``sum (y_i - <x_i, theta> - b)^2 + (penalty t + ridge) |theta|^2`` over
    the constraint's set, where there is one. A learner that cannot solve the declared problem is
    left out, with its reason. The choice uses public numbers alone and is part of every release
    (``chosen``).

    Guaranteed and assumed: what the chosen learner guarantees and assumes.

    Attributes:
        domain: what of a record counts, with at least one target.
        budget: of everything published.
        unit: whose contribution is hidden.
        neighbours: what it is hidden against.
        horizon: how many ticks may be closed, or None for a stream without end.
        constraint: the set for the coefficients, or None.
        tick_records: records of a tick, as planned; at most so many may come in one.
        counted: whether ticks close by count, so that the number of records is public.
        sparsity: how many features of a record are not zero, if that is known: it is assumed of
            the made-up records, and enforced by nothing.
        subset: of the records that count, for PrivIncReg2.
        projection_seed: public, to name PrivIncReg2's projection; None draws one for each stream.
        strategy: of the continual sums.
        penalty: ridge penalty per record.
        ridge: ridge penalty of the whole sum.
        l1_penalty: L1 penalty per record; PrivIncReg1 alone takes one, without a set.
        lasso: L1 penalty of the whole sum; likewise.
        noise: the law of the noise, or its name.
        shrink: whether the solver may shrink.
        intervals: whether releases carry standard errors and intervals, where they are known.
        draws: of the simulation.
        comparison: of the three; derived.
        chosen: the learner that is run; derived.
    """

    domain: Domain
    budget: Budget
    unit: Unit
    neighbours: Neighbours
    horizon: int | None
    constraint: ConvexSet | None
    tick_records: int
    counted: bool = True
    sparsity: int | None = None
    subset: SubsetRule | None = None
    projection_seed: int | None = None
    strategy: str | Strategy = "auto"
    penalty: float = 0.0
    ridge: float = 0.0
    l1_penalty: float = 0.0
    lasso: float = 0.0
    noise: NoiseKind | NoiseName = NoiseKind.GAUSSIAN
    shrink: bool = True
    intervals: bool = True
    draws: int = DRAWS
    comparison: Comparison = field(init=False)
    chosen: Incremental = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", NoiseKind.of(self.noise))
        check_tick_records(self.tick_records)
        if self.draws < 1:
            raise ConfigurationError(f"draws is {self.draws}; it must be at least 1")
        comparison = self._compare()
        chosen = comparison.best.learner
        if chosen is None:
            refusals = "; ".join(f"{item.name}: {item.refusal}" for item in comparison.prospects)
            raise ConfigurationError(f"no incremental learner can take this stream: {refusals}")
        object.__setattr__(self, "comparison", comparison)
        object.__setattr__(self, "chosen", chosen)

    # --- choosing ------------------------------------------------------------------------------

    def _compare(self) -> Comparison:
        makers: Mapping[str, Callable[[], Incremental]] = {
            "priv_inc_reg1": self._regression,
            "priv_inc_reg2": self._projected,
            "priv_inc_erm": self._refits,
        }
        made = [_made(name, maker) for name, maker in makers.items()]
        if sum(item.learner is not None for item in made) > 1:
            made = [self._predicted(item) for item in made]
        # The order above breaks ties, and a refused learner's worst excess is infinite.
        return Comparison(
            prospects=tuple(sorted(made, key=lambda item: (item.refusal is not None, item.worst)))
        )

    def _predicted(self, item: Prospect) -> Prospect:
        if item.learner is None:
            return item
        generator = public_generator(0)
        population = made_up(self.domain, generator, sparsity=self.sparsity)
        found = prospect(
            item.learner,
            population,
            last=self.horizon or LOOK_AHEAD,
            tick_records=self.tick_records,
            draws=self.draws if self.domain.dimension <= SIMULATED_FEATURES else 1,
            looks=LOOKS if self.domain.dimension <= SIMULATED_FEATURES else 2,
        )
        return replace(found, learner=item.learner)

    def _common(self) -> dict[str, Any]:
        return {
            "domain": self.domain,
            "budget": self.budget,
            "unit": self.unit,
            "neighbours": self.neighbours,
            "horizon": self.horizon,
            "constraint": self.constraint,
            "tick_records": self.tick_records,
        }

    def _require_no_sparsity(self, name: str) -> None:
        if self.l1_penalty or self.lasso:
            raise ConfigurationError(f"{name} has no L1 penalty; PrivIncReg1 has")

    def _require_entries(self, features: int, name: str) -> None:
        width = 1 + features + self.domain.target_count
        entries = width * (width + 1) // 2
        if entries > LARGEST_ENTRIES:
            raise ConfigurationError(
                f"the moments of {features} features have {entries:,} entries, above the "
                f"{LARGEST_ENTRIES:,} that {name} is offered for; project the features"
            )

    def _require_set(self, name: str) -> ConvexSet:
        if self.constraint is None:
            raise ConfigurationError(f"{name} needs a constraint set; declare one")
        return self.constraint

    def _regression(self) -> PrivIncReg1:
        self._require_entries(self.domain.dimension, "PrivIncReg1")
        return PrivIncReg1(
            **self._common(),
            strategy=self.strategy,
            penalty=self.penalty,
            ridge=self.ridge,
            l1_penalty=self.l1_penalty,
            lasso=self.lasso,
            noise=self.noise,
            shrink=self.shrink,
            intervals=self.intervals,
        )

    def _projected(self) -> PrivIncReg2:
        self._require_no_sparsity("PrivIncReg2")
        self._require_set("PrivIncReg2")
        if self.penalty:
            raise ConfigurationError("PrivIncReg2 has no penalty per record; give a ridge")
        learner = PrivIncReg2(
            **self._common(),
            projection_seed=self.projection_seed,
            expected_records=(self.horizon or LOOK_AHEAD) * self.tick_records,
            subset=self.subset,
            strategy=self.strategy,
            ridge=self.ridge,
            noise=self.noise,
            shrink=self.shrink,
        )
        self._require_entries(learner.features.target, "PrivIncReg2")
        return learner

    def _refits(self) -> PrivIncERM:
        self._require_no_sparsity("PrivIncERM")
        self._require_set("PrivIncERM")
        if not self.counted:
            raise ConfigurationError("PrivIncERM needs ticks that close by count")
        if self.domain.intercept:
            raise ConfigurationError("PrivIncERM's set would bound the intercept, too")
        if self.ridge or self.penalty:
            raise ConfigurationError("PrivIncERM is compared for problems without a penalty")
        if self.noise is not NoiseKind.GAUSSIAN:
            raise ConfigurationError("PrivIncERM is compared with Gaussian noise alone")
        self._require_entries(self.domain.dimension, "PrivIncERM")
        return PrivIncERM(
            **self._common(),
            loss=SquaredLoss(),
            solver=MomentRegression(shrink=self.shrink),
            refit_every=1 if self.horizon is None else "auto",
        )

    # --- the stream's own projection -------------------------------------------------------------

    @property
    def salt(self) -> str | None:
        """The chosen learner's; None if it draws nothing."""
        return self.chosen.salt if isinstance(self.chosen, OwnDraw) else None

    def drawn_for(self, salt: str) -> Self:
        """The same choice, with the projection of the stream of that salt."""
        if not isinstance(self.chosen, OwnDraw):
            return self
        own = copy(self)
        object.__setattr__(own, "chosen", self.chosen.drawn_for(salt))
        return own

    def shares_draw(self, described: Mapping[str, Any]) -> bool:
        """Whether the learner that so described itself had the same projection."""
        return isinstance(self.chosen, OwnDraw) and self.chosen.shares_draw(described)

    # --- the learner's contract, as the chosen one keeps it --------------------------------------

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return "incremental_auto"

    @property
    def window(self) -> None:
        """None: a record counts for ever."""
        return

    @property
    def most_records(self) -> int:
        """The most records that one tick may hold: as declared."""
        return self.tick_records

    @property
    def promise(self) -> Promise:
        """The chosen learner's."""
        return self.chosen.promise

    def describe(self) -> Mapping[str, Any]:
        """Which learner was chosen, and its every public parameter."""
        return {"chosen": self.chosen.name, **self.chosen.describe()}

    def opening_events(self) -> Sequence[Event]:
        """The chosen learner's."""
        return self.chosen.opening_events()

    def next_events(self, tick: Tick) -> Sequence[Event]:
        """The chosen learner's."""
        return self.chosen.next_events(tick)

    def init(self) -> Any:
        """The state of an empty stream."""
        return self.chosen.init()

    def learn(self, state: Any, batch: Batch) -> None:
        """Absorb records of the open tick."""
        self.chosen.learn(state, batch)

    def close(self, state: Any, tick: Tick) -> None:
        """Close the tick."""
        self.chosen.close(state, tick)

    def release(self, state: Any, tick: Tick, noise: Noise) -> Outcome:
        """The chosen learner's, with the choice said in the model."""
        outcome = self.chosen.release(state, tick, noise)
        said = {"learner": self.chosen.name, "reason": self.comparison.reason}
        return replace(outcome, model={**outcome.model, "chosen": said})

    def snapshot(self, state: Any) -> Arrays:
        """The whole state, secret and public, as arrays."""
        return self.chosen.snapshot(state)

    def restore(self, arrays: Arrays) -> Any:
        """The state of a snapshot; continues to the bit."""
        return self.chosen.restore(arrays)


def _made(name: str, maker: Callable[[], Incremental]) -> Prospect:
    try:
        return Prospect(name=name, learner=maker())
    except DpstreamError as refusal:
        return Prospect(name=name, refusal=str(refusal))
