"""The contract between a learner and the engine that runs it.

A learner is an arrangement of parts: a statistic of the records, a mechanism that measures it,
a solver that turns measurements into a model. It holds no state of its own; the engine owns the
state, decides when a tick closes, charges, commits and publishes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.errors import require_kind
from dpstream.mechanisms.continual.strategy import Promise
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.budget import Budget
from dpstream.privacy.event import Event
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.release import Measurement

State = TypeVar("State")
Arrays = Mapping[str, FloatArray | IntArray]


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A public opportunity to publish.

    Attributes:
        number: counts from 1.
        records: records admitted to the stream so far (null records included: they keep
            their place), or None when ticks follow a clock and the count is secret.
        time: the public clock's reading, for clock ticks.
        publish: whether the schedule publishes at this tick.
    """

    number: int
    records: int | None
    time: float | None = None
    publish: bool = True


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a learner hands back at a published tick.

    Attributes:
        measurements: the new noisy statistics, to be kept for ever.
        model: the public value: JSON-ready mapping of names to numbers, strings and lists.
    """

    measurements: Sequence[Measurement]
    model: Mapping[str, Any]


def check_parts(*, domain: object, budget: object, unit: object, neighbours: object) -> None:
    """Refuse parts of a declaration that are something else: noise is calibrated for them.

    Raises:
        ConfigurationError: naming the first that is wrong.
    """
    require_kind(domain, Domain, "domain", "declare what of a record counts: Domain([...], ...)")
    require_kind(budget, Budget, "budget", "give Budget(epsilon=1.0, delta=1e-6)")
    require_kind(unit, Unit, "unit", "give Unit() for records, or Unit(kind='user', ...)")
    require_kind(
        neighbours, Neighbours, "neighbours", "give Neighbours.ZERO_OUT or Neighbours.REPLACE"
    )


class Learner(Protocol[State]):
    """A streaming learner over one domain, calibrated before any data is read."""

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        ...

    @property
    def domain(self) -> Domain:
        """What of a record may count."""
        ...

    @property
    def budget(self) -> Budget:
        """What everything published, taken together, may cost."""
        ...

    @property
    def unit(self) -> Unit:
        """Whose contribution is hidden; the caller makes records over its cap null."""
        ...

    @property
    def neighbours(self) -> Neighbours:
        """What it is hidden against."""
        ...

    @property
    def window(self) -> int | None:
        """Ticks for which a record counts, or None if it counts for ever."""
        ...

    @property
    def horizon(self) -> int | None:
        """The last tick it may close, or None if it runs for ever."""
        ...

    @property
    def promise(self) -> Promise:
        """What its releases keep secret, and for how long."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """Every public parameter, JSON-ready: its identity for ``resume``."""
        ...

    def opening_events(self) -> Sequence[Event]:
        """Events that cover the stream's whole life, charged once before the first record."""
        ...

    def next_events(self, tick: Tick) -> Sequence[Event]:
        """Further events that a release at this tick costs (empty for prepaid learners)."""
        ...

    def init(self) -> State:
        """The state of an empty stream."""
        ...

    def learn(self, state: State, batch: Batch) -> None:
        """Absorb records that belong to the open tick; exact, and the same for any batching."""
        ...

    def close(self, state: State, tick: Tick) -> None:
        """Close the tick, whether or not it publishes."""
        ...

    def release(self, state: State, tick: Tick, noise: Noise) -> Outcome:
        """Measure and model at a closed tick; the only place where noise is drawn."""
        ...

    def snapshot(self, state: State) -> Arrays:
        """The whole state, secret and public, as arrays."""
        ...

    def restore(self, arrays: Arrays) -> State:
        """The state of a snapshot; continues to the bit."""
        ...


@runtime_checkable
class BoundedTick(Protocol):
    """A learner that is calibrated for ticks of at most so many records."""

    @property
    def most_records(self) -> int:
        """The most records that one tick may hold: public."""
        ...


@runtime_checkable
class OwnDraw(Protocol):
    """A learner with a public random draw, such as a projection, that no two streams may share.

    Records may be chosen with everything published in sight, the draw included: a second stream
    with the same draw could meet records that were made for it. That hurts the model, not privacy.
    """

    @property
    def salt(self) -> str | None:
        """The public text that the draw was made for; None if it was named, or there is none."""
        ...

    def drawn_for(self, salt: str) -> Self:
        """The same learner with the draw of the stream of that salt, unless the draw was named."""
        ...

    def shares_draw(self, described: Mapping[str, Any]) -> bool:
        """Whether the learner that so described itself had this one's draw."""
        ...


@runtime_checkable
class OrderedTick(Protocol):
    """A learner to which the order of a tick's records may matter."""

    @property
    def ordered(self) -> bool:
        """Whether it does: a record that did not come moves those after it to other places."""
        ...
