"""The public declaration of a stream."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from dpstream.domain.domain import Domain
from dpstream.engine.identity import canonical
from dpstream.engine.ports import Store
from dpstream.engine.publication import unit_to_json
from dpstream.engine.schedule import Schedule
from dpstream.errors import ConfigurationError
from dpstream.learners.learner import Learner
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.randomness.source import NoiseSource

State = TypeVar("State")


@dataclass(frozen=True, kw_only=True)
class Stream(Generic[State]):
    """The public declaration of a stream: everything its guarantee rests on.

    Attributes:
        domain: what of a record may count.
        learner: what is made of the records.
        schedule: when it is published.
        budget: what it may cost.
        unit: whose contribution is hidden.
        neighbours: what it is hidden against.
        window: ticks in a window, if the unit's cap counts over one.
        insecure_seed: noise anyone can recompute, for tests; every artefact then says so.
    """

    domain: Domain
    learner: Learner[State]
    schedule: Schedule
    budget: Budget
    unit: Unit
    neighbours: Neighbours
    window: int | None = None
    insecure_seed: int | None = None

    def __post_init__(self) -> None:
        if (self.unit.period == "window") != (self.window is not None):
            raise ConfigurationError(
                f"the unit's cap counts over the {self.unit.period} and the window is "
                f"{self.window!r}; give a window's length in ticks with a cap per window, and "
                "with no other"
            )
        if self.window is not None and self.window < 1:
            raise ConfigurationError(f"the window is {self.window} ticks; it needs at least one")

    def identity(self) -> dict[str, Any]:
        """The declaration as JSON: what ``resume`` compares."""
        return canonical(
            {
                "domain": self.domain.to_json(),
                "learner": {"name": self.learner.name, **self.learner.describe()},
                "schedule": self.schedule.describe(),
                "budget": {"epsilon": self.budget.epsilon, "delta": self.budget.delta},
                "unit": unit_to_json(self.unit),
                "neighbours": self.neighbours.value,
                "window": self.window,
                "insecure_seed": self.insecure_seed,
            }
        )

    def noise(self, store: Store) -> NoiseSource:
        """The stream's noise: derived from the store's secret and the stream's random name.

        Whoever restores an older copy of the store gets the same key; noise is bound to the
        value it covers, so that other data still meets independent noise.
        """
        if self.insecure_seed is not None:
            return NoiseSource.insecure(self.insecure_seed)
        return NoiseSource.from_key(store.secret()).child(f"noise {store.stream_id()}")
