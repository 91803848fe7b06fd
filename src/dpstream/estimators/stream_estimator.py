"""What every estimator shares: one ``fit`` is one stream, and ``partial_fit`` continues it.

How funding works is written in ``grant``: an estimator holds a ``Grant`` that is spent by its first
fit, and every copy of the estimator is unfunded. A copy of a fitted estimator predicts, shows its
release and its card, and cannot learn: the stream stays with the original.

What a fit makes public: the numbers of records of each call (or, with ``interval``, the timestamps
that close its ticks), the columns' names and types, and the release. What it does not: a value that
is missing, unbounded or unknown never raises an error.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal, Self, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from dpstream.domain.batch import Batch, RawChunk
from dpstream.domain.domain import Domain
from dpstream.domain.target import Target
from dpstream.engine.call_schedule import EveryCall
from dpstream.engine.clock_schedule import EveryInterval
from dpstream.engine.schedule import EveryRecords, Position, Schedule
from dpstream.engine.session import Session
from dpstream.engine.stream import Stream
from dpstream.errors import ConfigurationError
from dpstream.estimators.bounds import Bounded, provenance_of, stated_bounds
from dpstream.estimators.grant import Grant, Rehearsal, require_funding
from dpstream.estimators.records import chunk, column_names, table, targets
from dpstream.learners.learner import Learner, Tick
from dpstream.privacy.budget import Budget
from dpstream.privacy.ledger import LedgerRow
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.release import Release
from dpstream.report.card import PrivacyCard, privacy_card

Model = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """What every learner is calibrated for.

    Attributes:
        domain: what of a record counts.
        budget: of the stream's whole life.
        unit: whose contribution is hidden.
        neighbours: what it is hidden against.
        horizon: the last release, or None.
        tick_records: records of a tick where that is fixed, else of the first call.
        counted: whether the number of records of a tick is public.
    """

    domain: Domain
    budget: Budget
    unit: Unit
    neighbours: Neighbours
    horizon: int | None
    tick_records: int
    counted: bool

    @property
    def shared(self) -> dict[str, Any]:
        """The parameters that every learner's constructor takes."""
        return {
            "domain": self.domain,
            "budget": self.budget,
            "unit": self.unit,
            "neighbours": self.neighbours,
        }


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """A stream that has not begun, and who would pay for it."""

    funding: Grant | Rehearsal
    stream: Stream[Any]
    domain: Domain
    provenance: Mapping[str, str]


@dataclass(kw_only=True, eq=False, repr=False)
class StreamEstimator(BaseEstimator):
    """An estimator whose fits are streams.

    Attributes:
        budget: a ``Grant``, spent by the first fit, or a ``Rehearsal`` on public records.
        bounds: public bounds of the columns: ``(lower, upper)`` for all, two lists, or by column
            ``{name: (lower, upper) or [categories] or "boolean"}``; None if preprocessing hands
            them on. Values beyond them are clipped.
        norm_bound: public bound on a record's length, after columns with bounds are mapped to
            [-1, 1]; longer records are shortened. With it columns need no bounds.
        fit_intercept: whether the model has a constant.
        neighbours: ``"zero_out"``, which hides a record against an empty one, or ``"replace"``,
            against any other.
        user_cap: None to protect single records; a number to protect users, so many of whose
            records count: ``fit`` then needs ``users``.
        release_every: records from one release to the next; None for a release at every call of
            ``fit`` or ``partial_fit``. Records after the last full tick wait for the next call.
        interval: seconds of a tick by the public clock ``timestamps``, in place of records.
        horizon: how many releases there will be, if that is known: the noise is then smaller, two
            to three times for ``horizon=1``, a single fit. None for no end.
    """

    budget: Grant | Rehearsal | None = None
    bounds: Any = None
    norm_bound: float | None = None
    fit_intercept: bool = True
    neighbours: Literal["zero_out", "replace"] = "zero_out"
    user_cap: int | None = None
    release_every: int | None = None
    interval: float | None = None
    horizon: int | None = None

    # --- what families differ in ----------------------------------------------------------------

    @abstractmethod
    def _target(self, y: Any, name: str, *, rehearsed: bool) -> Target | None:
        """The public declaration of what is predicted; None if nothing is."""

    @abstractmethod
    def _make_learner(self, declared: Declaration) -> Learner[Any]:
        """The learner, calibrated."""

    @abstractmethod
    def _publish(self, release: Release[Model]) -> None:
        """Set the fitted attributes."""

    # --- fitting --------------------------------------------------------------------------------

    def _learn(
        self, X: Any, y: Any, users: Any, timestamps: Any, *, begin: bool, targeted: bool = True
    ) -> Self:
        records = table(X, owner=self._name)
        wanted = targets(y, owner=self._name) if targeted else None
        open_ = getattr(self, "_session", None)
        if begin or open_ is None:
            self._require_new(begin)
            validate_data(self, X=records, skip_check_array=True, reset=True)
            self._begin(records, wanted, users, timestamps, begin=begin)
        else:
            validate_data(self, X=records, skip_check_array=True, reset=False)
        try:
            self._continue(records, wanted, users, timestamps)
        except Exception:
            self._undo_beginning()
            raise
        return self

    def _undo_beginning(self) -> None:
        """Give the grant back if no record was taken: nothing was measured or shown."""
        session: Session[Any] = self._session
        if session.records == 0 and session.tick == 1 and not hasattr(self, "release_"):
            self.close()
            if self.budget is not None:
                self.budget.give_back()

    def _require_new(self, begin: bool) -> None:
        """Refuse to begin anew what a copy cannot continue."""
        if not begin and hasattr(self, "release_") and not isinstance(self.budget, Rehearsal):
            raise ConfigurationError(
                f"this {self._name} was copied or loaded: it predicts, but its stream stayed with "
                "the original, and partial_fit cannot continue it here. Continue the original, or "
                "begin a new stream with set_params(budget=Grant(...)) and fit"
            )

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _plan(self, X: Any, y: Any, users: Any, timestamps: Any) -> _Plan:
        """What a stream that begins with these records would be, from public things alone."""
        funding = require_funding(self.budget, self._name)
        names = column_names(X)
        bounded = stated_bounds(X, names, self.bounds, self.norm_bound, owner=self._name)
        rehearsed = isinstance(funding, Rehearsal)
        self._names = names
        self._extra = {role: _unused(role, names) for role in ("target", "user", "time")}
        declared = self._declare(bounded, y, len(X), rehearsed=rehearsed)
        self._check_roles(users, timestamps)
        learner = self._make_learner(declared)
        stream = Stream(
            learner=learner, schedule=self._schedule(), insecure_seed=funding.insecure_seed
        )
        return _Plan(
            funding=funding,
            stream=stream,
            domain=declared.domain,
            provenance=provenance_of(bounded),
        )

    def planned(self, X: Any, y: Any) -> tuple[Stream[Any], list[Tick]]:
        """The stream that ``fit`` would begin, and the ticks it would close; nothing is spent.

        Args:
            X: the records that ``fit`` will get; their form is read, not their values.
            y: their targets; read on a ``Rehearsal`` alone.
        """
        stream = self._plan(X, y, None, None).stream
        segments = stream.schedule.segments(Position(), int(X.shape[0]), None)
        closed = [segment.closes for segment in segments]
        return stream, [tick for tick in closed if tick is not None and tick.publish]

    def admitted(self, X: Any, y: Any) -> Batch:
        """The records as ``fit`` would admit them. Secret.

        Raises:
            SchemaError: if they do not fit the declared columns.
        """
        plan = self._plan(X, y, None, None)
        return plan.stream.admit(self._chunk(X, y, None, None, offset=0), unit_hash=_no_units)

    def rebill(self, release: Release[Model], rows: Sequence[LedgerRow]) -> None:
        """Put a bill that covers more than this estimator's fit in place of its own.

        Args:
            release: the same value, under the guarantee of everything that was billed.
            rows: the whole ledger's.
        """
        self.release_, self._rows = release, tuple(rows)

    def _begin(self, X: Any, y: Any, users: Any, timestamps: Any, *, begin: bool) -> None:
        plan = self._plan(X, y, users, timestamps)
        if begin and self.release_every is not None and len(X) < self.release_every:
            raise ConfigurationError(
                f"{self._name} has release_every={self.release_every}, and fit got {len(X)} "
                "records, which fill no tick: nothing would be released. Lower release_every, or "
                "use partial_fit, which waits for more records; nothing was spent"
            )
        store = plan.funding.take(self._name)
        self.close()
        self._forget()
        self._domain, self._provenance = plan.domain, plan.provenance
        self._session = Session(plan.stream, store=store)
        if self._session.records and begin:
            self.close()
            raise ConfigurationError(
                f"{store.name} already holds a stream of this declaration; continue it with "
                "partial_fit, or hand fit a grant with an empty store"
            )
        self._show(list(self._session.releases())[-1:])

    def _declare(self, bounded: Bounded, y: Any, records: int, *, rehearsed: bool) -> Declaration:
        target = self._target(y, self._extra["target"], rehearsed=rehearsed)
        domain = Domain(
            bounded.columns,
            () if target is None else target,
            intercept=self.fit_intercept,
            norm_bound=bounded.norm,
        )
        unit = Unit()
        if self.user_cap is not None:
            unit = Unit(kind="user", cap=self.user_cap, column=self._extra["user"])
        kinds = [item.value for item in Neighbours]
        if self.neighbours not in kinds:
            raise ConfigurationError(
                f"{self._name} has neighbours={self.neighbours!r}; give {' or '.join(kinds)}"
            )
        assert self.budget is not None
        return Declaration(
            domain=domain,
            budget=self.budget.budget,
            unit=unit,
            neighbours=Neighbours(self.neighbours),
            horizon=whole("horizon", self.horizon, self._name),
            tick_records=self.release_every or records,
            counted=self.interval is None,
        )

    def _schedule(self) -> Schedule:
        every = whole("release_every", self.release_every, self._name)
        if self.interval is not None:
            if every is not None:
                raise ConfigurationError(
                    f"{self._name} has release_every and interval; ticks close by one of them"
                )
            return EveryInterval(seconds=self.interval, time_column=self._extra["time"])
        return EveryCall() if every is None else EveryRecords(records=every)

    def _check_roles(self, users: Any, timestamps: Any) -> None:
        for role, given, parameter, wanted in (
            ("users", users, "user_cap", self.user_cap is not None),
            ("timestamps", timestamps, "interval", self.interval is not None),
        ):
            if wanted and given is None:
                raise ConfigurationError(
                    f"{self._name} has {parameter}={getattr(self, parameter)!r}, which needs "
                    f"{role}: call fit(X, y, {role}=...), in a Pipeline with metadata routing and "
                    f"set_fit_request({role}=True)"
                )
            if given is not None and not wanted:
                raise ConfigurationError(
                    f"{self._name} got {role} but {parameter} is None, so that they would change "
                    f"nothing; declare {parameter}, or leave {role} out"
                )

    def _continue(self, X: Any, y: Any, users: Any, timestamps: Any) -> None:
        self._check_roles(users, timestamps)
        records = self._chunk(X, y, users, timestamps, offset=self._session.records)
        self._show(list(self._session.learn(records)))
        self._session.checkpoint()

    def _chunk(self, X: Any, y: Any, users: Any, timestamps: Any, *, offset: int) -> RawChunk:
        extra: dict[str, Any] = {}
        if users is not None:
            extra[self._extra["user"]] = users
        if timestamps is not None:
            extra[self._extra["time"]] = timestamps
        return chunk(
            X,
            y,
            names=self._names,
            target=self._extra["target"],
            offset=offset,
            extra=extra,
            owner=self._name,
        )

    def _show(self, releases: list[Release[Model]]) -> None:
        if releases:
            self.release_ = releases[-1]
            self._rows: tuple[LedgerRow, ...] = self._session.ledger.rows
            self._publish(self.release_)

    def _forget(self) -> None:
        """Drop what an earlier fit published: a new stream is another model."""
        for name in [name for name in vars(self) if name.endswith("_") and name != "classes_"]:
            if name not in ("n_features_in_", "feature_names_in_"):
                delattr(self, name)

    def close(self) -> None:
        """End the stream and give up its store; the fitted attributes stay."""
        session: Session[Any] | None = self.__dict__.pop("_session", None)
        if session is not None:
            session.close()

    # --- what was released ----------------------------------------------------------------------

    def releases(self) -> Iterator[Release[Model]]:
        """Every release of the running stream, from its log."""
        check_is_fitted(self, "release_")
        return self._session.releases() if hasattr(self, "_session") else iter((self.release_,))

    @property
    def privacy_(self) -> PrivacyCard:
        """The privacy card: promise, bounds, events, epsilon recomputed, what is not promised."""
        check_is_fitted(self, "release_")
        return privacy_card(
            self.release_.guarantee,
            domain=self._domain,
            rows=self._rows,
            provenance=self._provenance,
        )

    # --- copies ---------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = {**vars(self), **cast("dict[str, Any]", super().__getstate__())}
        state.pop("_session", None)
        state["budget"] = copy(self.budget)
        return state

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "release_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # A missing value makes its record null; nobody learns that there was one.
        tags.input_tags.allow_nan = True
        return tags


def whole(name: str, value: Any, owner: str) -> int | None:
    """A parameter that must be None or a whole number from 1, numpy's included.

    Raises:
        ConfigurationError: if it is not.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ConfigurationError(
            f"{owner} has {name}={value!r}; it must be None or a whole number from 1"
        )
    return int(value)


def _no_units(identifier: bytes) -> bytes:
    """Streams of single records hash nobody."""
    raise AssertionError("a stream of records has no unit column")


def _unused(role: str, names: list[str]) -> str:
    """A name for a column of our own that no column of theirs has."""
    name = role
    while name in names:
        name += "_"
    return name
