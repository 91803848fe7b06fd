"""The public declaration of a stream."""

import secrets
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

from dpstream.domain.batch import Batch, RawChunk
from dpstream.domain.cell import UnitHash
from dpstream.domain.domain import Domain
from dpstream.engine.identity import Identity, canonical
from dpstream.engine.ports import Store
from dpstream.engine.publication import unit_to_json
from dpstream.engine.schedule import Schedule
from dpstream.errors import ConfigurationError, SourceError, require_able, require_kind
from dpstream.learners.learner import BoundedTick, Learner, OrderedTick, OwnDraw, check_parts
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.randomness.source import NoiseSource
from dpstream.release import Guarantee

State = TypeVar("State")

_SALT = "salt"
_SALT_BYTES = 16


@dataclass(frozen=True, kw_only=True)
class Stream(Generic[State]):
    """The public declaration of a stream: everything its guarantee rests on, and no records.

    Open a ``Session`` on it and a store to run it. A store that holds a stream refuses one that is
    declared otherwise.

    What the guarantee says (domain, budget, unit, neighbours) is the learner's, which is calibrated
    for exactly that: it is not declared twice.

    Attributes:
        learner: what is made of the records, and what it promises.
        schedule: when it is published.
        insecure_seed: noise anyone can recompute, for tests; every artefact then says so.
    """

    learner: Learner[State]
    schedule: Schedule
    insecure_seed: int | None = None

    def __post_init__(self) -> None:
        _check_parts(self.learner, self.schedule)
        if self.insecure_seed is not None:
            require_kind(self.insecure_seed, int, "insecure_seed", "for tests give a whole number")
            NoiseSource.insecure(self.insecure_seed)  # refuses what is no seed
        longest = self.schedule.largest_tick
        if isinstance(self.learner, BoundedTick) and longest is not None:
            most = self.learner.most_records
            if longest > most:
                raise ConfigurationError(
                    f"the schedule closes ticks of up to {longest} records, but "
                    f"{self.learner.name} is calibrated for at most {most} in one; close ticks "
                    "more often, or declare as many for the learner (block_records or "
                    "tick_records)"
                )
        ordered = isinstance(self.learner, OrderedTick) and self.learner.ordered
        if ordered and self.schedule.wall_clock:
            raise ConfigurationError(
                f"the schedule follows the time of day, by which a record may be absent, but "
                f"{self.learner.name} goes through a tick's records in order, so that those after "
                "it would all stand elsewhere; leave base_solver out, or take output_perturbation, "
                "or close ticks by count or by a column's clock"
            )
        if self.unit.period == "window" and (self.window is None or self.window < 1):
            raise ConfigurationError(
                f"the unit's cap counts over a window but the learner's window is {self.window!r}; "
                "take a learner whose records count for a number of ticks, or cap over the "
                "stream's life"
            )

    @property
    def domain(self) -> Domain:
        """What of a record may count."""
        return self.learner.domain

    @property
    def budget(self) -> Budget:
        """What the stream's whole life may cost."""
        return self.learner.budget

    @property
    def unit(self) -> Unit:
        """Whose contribution is hidden."""
        return self.learner.unit

    @property
    def neighbours(self) -> Neighbours:
        """What it is hidden against."""
        return self.learner.neighbours

    @property
    def window(self) -> int | None:
        """Ticks in a window, if the unit's cap counts over one."""
        return self.learner.window if self.unit.period == "window" else None

    def admit(self, chunk: RawChunk, *, unit_hash: UnitHash) -> Batch:
        """The chunk's records, clipped and quantised.

        Raises:
            SchemaError: if they do not fit the domain.
            SourceError: if the chunk does not hold as many as it says.
        """
        batch = self.domain.admit(
            chunk,
            unit_column=self.unit.column,
            unit_hash=unit_hash if self.unit.column else None,
            time_column=self.schedule.time_column,
        )
        if len(batch) != chunk.length:
            raise SourceError(
                f"{chunk.origin} announced {chunk.length} records and delivered {len(batch)}"
            )
        return batch

    def guarantee(self, *, insecure_seed: bool) -> Guarantee:
        """The privacy statement of everything the stream publishes."""
        return Guarantee(
            epsilon=self.budget.epsilon,
            delta=self.budget.delta,
            unit=self.unit,
            neighbours=self.neighbours,
            promise=self.learner.promise.value,
            insecure_seed=insecure_seed,
        )

    def identity(self) -> dict[str, Any]:
        """The declaration as JSON: what ``resume`` compares."""
        salt = self.learner.salt if isinstance(self.learner, OwnDraw) else None
        return canonical(
            {
                **({_SALT: salt} if salt else {}),
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

    def own(self, stored: Identity | None) -> Self:
        """The stream with the public draws of its own, if its learner has any.

        Args:
            stored: the identity that a store holds, whose draws go on; None for a stream that
                begins.
        """
        if not isinstance(self.learner, OwnDraw):
            return self
        if stored is not None:
            salt = str(stored.get(_SALT, ""))
        elif self.insecure_seed is not None:
            salt = f"insecure {self.insecure_seed}"
        else:
            salt = secrets.token_hex(_SALT_BYTES)
        return replace(self, learner=self.learner.drawn_for(salt))

    def require_own_draw(self, store: Store) -> None:
        """Refuse to begin with a named draw that another stream kept beside the store has.

        Streams of insecure seeds repeat themselves on purpose, and are not compared.

        Raises:
            ConfigurationError: naming that stream.
        """
        learner = self.learner
        if not isinstance(learner, OwnDraw) or learner.salt is not None:
            return
        if self.insecure_seed is not None:
            return
        for name, identity in store.others():
            secure = identity.get("insecure_seed") is None
            if secure and learner.shares_draw(identity.get("learner", {})):
                raise ConfigurationError(
                    f"projection_seed names the projection of another stream, {name}, which has "
                    "the same declaration; leave projection_seed out, and every stream draws one "
                    "of its own, or name another number"
                )

    def noise(self, store: Store) -> NoiseSource:
        """The stream's noise: derived from the store's secret and the stream's random name.

        Whoever restores an older copy of the store gets the same key; noise is bound to the
        value it covers, so that other data still meets independent noise.
        """
        if self.insecure_seed is not None:
            return NoiseSource.insecure(self.insecure_seed)
        return NoiseSource.from_key(store.secret()).child(f"noise {store.stream_id()}")


def _check_parts(learner: object, schedule: object) -> None:
    """Refuse what is no learner or no schedule, and learners whose own parts are none."""
    require_able(
        learner, "opening_events", "learner", "give one that is calibrated: PrivIncReg1(...)"
    )
    require_able(schedule, "segments", "schedule", "give EveryRecords(records=500) or another")
    parts = {name: getattr(learner, name) for name in ("domain", "budget", "unit", "neighbours")}
    check_parts(**parts)
