"""Funding: a budget that one estimator can spend, once.

scikit-learn duplicates estimators freely: ``clone`` rebuilds them from deep copies of their
parameters, ``GridSearchCV`` and ``cross_val_score`` clone once per candidate and fold, pickling
sends copies to other processes. If epsilon were a number among the parameters, each of them would
spend it again. Here an estimator's ``budget`` is a *thing*:

- A ``Grant`` is money: one estimator's first fit takes it, and from then on it is spent. Whatever
  copies it, by ``copy``, ``deepcopy``, ``clone``, pickling or a fork, gets a grant of the same
  face value that is not funded and says why. The original stays with the original: ``Pipeline``,
  which does not clone its last step, works as always.
- A ``Rehearsal`` is a rehearsal on public records: the same noise, drawn from a public seed. It
  promises nothing, every artefact says so, and it may therefore be copied at will: searches,
  cross-validation and scikit-learn's own checks run on it. Search on public records with a
  rehearsal, then hand the winner a grant: ``search.best_estimator_.set_params(budget=Grant(...))``.

So nothing that scikit-learn does by itself spends a budget twice; a person can, by writing
``Grant(...)`` twice for the same records, and then both prices add up.
"""

import os
from dataclasses import dataclass
from threading import Lock
from typing import Any, Literal, Self

from dpstream.engine.memory import MemoryStore
from dpstream.engine.ports import Store
from dpstream.errors import BudgetExceeded, ConfigurationError, require_kind
from dpstream.privacy.budget import Budget

State = Literal["funded", "spent", "copy"]


class Grant:
    """What one stream's whole life may cost, to be spent by one estimator, once.

    Args:
        epsilon: above 0.
        delta: in [0, 1); 0 only for learners with pure noise.
        store: where the stream lives; None for this process's memory. On a store that already
            holds the estimator's stream, ``partial_fit`` goes on where it stopped: the budget is
            the store's, and was spent there.

    Raises:
        ConfigurationError: if epsilon or delta is no such number.
    """

    def __init__(self, *, epsilon: float, delta: float, store: Store | None = None) -> None:
        self._budget = Budget(epsilon=epsilon, delta=delta)
        if store is not None and (isinstance(store, type) or not hasattr(store, "acquire")):
            require_kind(store, (), "store", "give SqliteStore('stream.db'), or leave it out")
        self._store = store
        self._state: State = "funded"
        self._owner = ""
        self._process = os.getpid()
        self._lock = Lock()

    @property
    def budget(self) -> Budget:
        """Its face value."""
        return self._budget

    @property
    def durable(self) -> bool:
        """Whether it pays for a stream in a store, which outlives this process."""
        return self._store is not None

    @property
    def insecure_seed(self) -> None:
        """None: noise comes from the store's secret."""
        return

    @property
    def state(self) -> State:
        """Whether it can still be spent."""
        if self._state == "funded" and os.getpid() != self._process:
            return "copy"
        return self._state

    def require_funded(self, taker: str) -> None:
        """Refuse a taker unless the grant can still be spent.

        Raises:
            BudgetExceeded: saying why not, and what to do.
        """
        if self.state == "funded":
            return
        anew = (
            "If these records may cost that much once more, say so: "
            "set_params(budget=Grant(epsilon=..., delta=...))"
        )
        if self.state == "spent":
            raise BudgetExceeded(
                f"{taker} has a grant that {self._owner} has spent already; one grant pays for "
                "one stream. Continue that stream with partial_fit of the estimator that began "
                f"it. {anew}"
            )
        raise BudgetExceeded(
            f"{taker} is a copy, and copies are not funded: clone, copy, pickle, GridSearchCV and "
            "cross_val_score would each spend the budget again. Fit the original; to search "
            "settings, use Rehearsal on public records, or PrivateSelection, which is "
            f"billed. {anew}"
        )

    def take(self, taker: str) -> Store:
        """Spend it: nobody can take it again.

        Raises:
            BudgetExceeded: if it was spent, or is a copy.
        """
        with self._lock:
            self.require_funded(taker)
            self._state, self._owner = "spent", taker
        return MemoryStore() if self._store is None else self._store

    def give_back(self) -> None:
        """Undo ``take``: the taker's stream ended before it measured anything."""
        with self._lock:
            self._state, self._owner = "funded", ""

    def __copy__(self) -> Self:
        return _unfunded(type(self), self._budget.epsilon, self._budget.delta)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.__copy__()

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return _unfunded, (type(self), self._budget.epsilon, self._budget.delta)

    def __repr__(self) -> str:
        face = f"epsilon={self._budget.epsilon:g}, delta={self._budget.delta:g}"
        return f"Grant({face}) [{'not funded: a copy' if self.state == 'copy' else self.state}]"


def _unfunded(kind: type[Grant], epsilon: float, delta: float) -> Any:
    grant = kind(epsilon=epsilon, delta=delta)
    grant._state = "copy"  # pyright: ignore[reportPrivateUsage]  # the one maker of copies
    return grant


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """A budget's noise from a public seed, for records that are public: promises nothing.

    Attributes:
        epsilon: of the budget that is rehearsed.
        delta: beside it.
        seed: of the noise; the same seed gives the same fit.
    """

    epsilon: float
    delta: float
    seed: int = 0

    def __post_init__(self) -> None:
        _ = self.budget
        if isinstance(self.seed, bool) or not hasattr(self.seed, "__index__") or self.seed < 0:
            raise ConfigurationError(f"seed is {self.seed!r}; it must be a whole number from 0")

    @property
    def budget(self) -> Budget:
        """What is rehearsed."""
        return Budget(epsilon=self.epsilon, delta=self.delta)

    @property
    def insecure_seed(self) -> int:
        """The seed: whoever knows it can recompute the noise."""
        return self.seed

    def require_funded(self, taker: str) -> None:
        """Nothing is spent."""

    def take(self, taker: str) -> Store:
        """A new stream; as many as you like, for none promises anything."""
        return MemoryStore()

    def give_back(self) -> None:
        """Nothing was taken."""


def require_funding(budget: object, taker: str) -> Grant | Rehearsal:
    """The funding among an estimator's parameters, if it can be spent.

    Raises:
        ConfigurationError: if it is none.
        BudgetExceeded: if it was spent, or is a copy.
    """
    if not isinstance(budget, Grant | Rehearsal):
        given = "no budget" if budget is None else f"budget={budget!r}"
        if isinstance(budget, Budget):
            given = "a Budget, which is a pair of numbers that anybody can copy"
        raise ConfigurationError(
            f"{taker} has {given}; hand it money that can be spent once: "
            "budget=Grant(epsilon=1.0, delta=1e-6), from dpstream.estimators"
        )
    budget.require_funded(taker)
    return budget
