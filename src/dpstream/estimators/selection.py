"""Choosing settings on private records, for a price: ``PrivateSelection``.

The records are split by place, which is public: each candidate is fitted on the first part, with a
share of the budget, and the last part, held out, chooses among them. A record lies in one part
alone, so that the fits together may spend the whole budget and the choice may spend it again: no
record pays for both. The argument is in ``mechanisms/held_out.proof.md``. All charges are made, in
one ledger, before any noise is drawn.
"""

import math
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.errors import BudgetExceeded, ConfigurationError
from dpstream.estimators.grant import Grant, Rehearsal, require_funding
from dpstream.estimators.records import columns, part, table, targets
from dpstream.estimators.scores import LabelEstimator
from dpstream.estimators.scoring import NumberEstimator
from dpstream.learners.covering import covering
from dpstream.mechanisms.continual.strategy import Promise
from dpstream.mechanisms.held_out import choose_held_out, held_out_event, held_out_scale
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import gaussian_epsilon, gaussian_mu
from dpstream.privacy.event import Event
from dpstream.privacy.ledger import Ledger
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.release import Release
from dpstream.report.card import PrivacyCard
from dpstream.saved.saved_model import SavedModel

Candidate = NumberEstimator | LabelEstimator

FIXED = ("budget", "classes", "interval", "neighbours", "target_bounds", "user_cap")
"""Parameters that every candidate shares: gains by them would not compare, or not be private."""

_MARGINS = (1.0, 0.98, 0.9)
"""Of the whole budget's Gaussian noise, tried in turn: some learners' events are more than that."""


@dataclass(eq=False, repr=False)
class PrivateSelection(MetaEstimatorMixin, BaseEstimator):
    """The candidate by which held-out records gain most, chosen privately and billed in full.

    ``GridSearchCV`` would spend a budget once for every candidate and fold, and is refused. This
    spends one: every candidate is fitted once on the first records, all fits together cost at most
    the budget, and one private choice among them, by the last records, costs those at most the
    budget too. A record gains, from 0 to 1, by a regression 1 less the squared error over the
    squared width of ``target_bounds``, by a classifier 1 less half the squared error of its
    probabilities (Brier's score), and without probabilities 1 if its label is predicted.

    What is published is the chosen candidate as fitted, and its settings. It predicts and does not
    learn further; for a stream with these settings fund one:
    ``selection.best_estimator_.set_params(budget=Grant(...))``, which adds its own price.

    Hidden is one record, not a user with several. Order is public: if it means something, such as
    labels sorted, shuffle by a rule that does not look at the records.

    Attributes:
        estimator: a regression or classifier of dpstream, without a budget of its own.
        param_grid: settings to try, as for ``GridSearchCV``: ``{"alpha": [0.1, 1.0]}``. Public.
        budget: a ``Grant`` without a store, or a ``Rehearsal`` on public records.
        holdout: the share of the records, from the end, that choose.
    """

    estimator: Any = None
    param_grid: Any = None
    _: KW_ONLY
    budget: Grant | Rehearsal | None = None
    holdout: float = 0.2

    def fit(self, X: Any, y: Any) -> Self:
        """Fit all candidates and choose one; spends the grant.

        Args:
            X: records: a matrix, or a pandas, polars or pyarrow table.
            y: a target for each.
        """
        name = type(self).__name__
        records, wanted = table(X, owner=name), targets(y, owner=name)
        funding = self._check()
        validate_data(self, X=records, skip_check_array=True, reset=True)
        total, held = int(records.shape[0]), self._held(int(records.shape[0]))
        trained = part(records, 0, total - held), wanted[: total - held]
        grid: list[Mapping[str, Any]] = list(ParameterGrid(self.param_grid))
        candidates, ledger, scale = self._charged(funding, grid, trained, total)
        held_out = part(records, total - held, total)
        judges = [_admitted(each, records, wanted, total - held) for each in candidates]
        # Nothing is drawn before this line, and nothing but noise can fail after it.
        funding.take(name)
        for candidate in candidates:
            candidate.fit(*trained)
            candidate.close()
        gains = [
            _gains(candidate, judge, held_out)
            for candidate, judge in zip(candidates, judges, strict=True)
        ]
        choice = choose_held_out(
            np.column_stack(gains), scale=scale, address=(0,), noise=_noise(funding)
        )
        self.best_index_ = int(choice.value[0])
        self.best_params_: Mapping[str, Any] = grid[self.best_index_]
        self.best_estimator_: Any = candidates[self.best_index_]
        _bill(self.best_estimator_, ledger, funding.budget)
        if isinstance(self.best_estimator_, LabelEstimator):
            self.classes_ = self.best_estimator_.classes_
        return self

    # --- before any record is read --------------------------------------------------------------

    def _check(self) -> Grant | Rehearsal:
        name, inner = type(self).__name__, self.estimator
        if not isinstance(inner, Candidate):
            raise ConfigurationError(
                f"{name} has estimator={inner!r}; hand it a regression or a classifier of "
                "dpstream, and put preprocessing before it: make_pipeline(PublicScaler(...), "
                f"{name}(...))"
            )
        owner = type(inner).__name__
        if inner.budget is not None:
            raise ConfigurationError(
                f"{owner} has a budget of its own, which {name} would not spend; leave it out, and "
                f"hand {name} the budget"
            )
        if inner.user_cap is not None or inner.interval is not None:
            raise ConfigurationError(
                f"{owner} has user_cap={inner.user_cap!r} and interval={inner.interval!r}; {name} "
                "hides single records of a public number: one user's records may lie on both "
                "sides of the split. Choose settings on public records with Rehearsal"
            )
        funding = require_funding(self.budget, name)
        if isinstance(funding, Grant) and funding.durable:
            raise ConfigurationError(
                f"{name} publishes once and keeps nothing in a store; hand it a Grant without one"
            )
        self._check_grid()
        return funding

    def _check_grid(self) -> None:
        name = type(self).__name__
        try:
            grid = list(ParameterGrid(self.param_grid))
        except (TypeError, ValueError):
            raise ConfigurationError(
                f"{name} has param_grid={self.param_grid!r}; give lists of settings by name, such "
                'as {"alpha": [0.1, 1.0]}'
            ) from None
        if len(grid) < 2:
            raise ConfigurationError(
                f"{name} has {len(grid)} setting to choose among; give at least two"
            )
        known = self.estimator.get_params(deep=False)
        for key in sorted({key for settings in grid for key in settings}):
            if key in FIXED:
                raise ConfigurationError(
                    f"{name} cannot choose {key}; set it in the estimator, the same for all"
                    if key != "budget"
                    else f"{name} pays for all candidates; hand it the budget, not param_grid"
                )
            if key not in known:
                raise ConfigurationError(
                    f"{name} has {key!r} in param_grid, which {type(self.estimator).__name__} "
                    f"does not have; known: {', '.join(sorted(set(known) - set(FIXED)))}"
                )

    def _held(self, records: int) -> int:
        share: Any = self.holdout
        number = isinstance(share, int | float | np.number) and not isinstance(share, bool)
        if not number or not 0.0 < share < 1.0:
            raise ConfigurationError(
                f"{type(self).__name__} has holdout={share!r}; it must be a share of the records "
                "above 0 and below 1, such as 0.2"
            )
        held = math.ceil(float(share) * records)
        if held >= records:
            raise ConfigurationError(
                f"{type(self).__name__} got n_samples = {records} and holdout={share!r}, which "
                "leaves none to fit on; hand in more records"
            )
        return held

    def _charged(
        self,
        funding: Grant | Rehearsal,
        grid: list[Mapping[str, Any]],
        trained: tuple[Any, Any],
        total: int,
    ) -> tuple[list[Candidate], Ledger, float]:
        """The candidates, each with its share; the ledger with every charge; the choice's noise."""
        neighbours = Neighbours(self.estimator.neighbours)
        first = len(trained[1])
        scale = held_out_scale(funding.budget, neighbours)
        choice = held_out_event(
            "choice by held-out records", neighbours=neighbours, scale=scale, covers=(first, total)
        )
        refused: BudgetExceeded | None = None
        for share in _shares(funding.budget, len(grid)):
            candidates = [self._candidate(settings, funding, share) for settings in grid]
            ledger = Ledger(funding.budget, Unit())
            try:
                for candidate in candidates:
                    for event in _events(candidate, trained):
                        ledger.charge(covering(event, (0, first)))
                ledger.charge(choice)
            except BudgetExceeded as error:
                refused = error
                continue
            return candidates, ledger, scale
        assert refused is not None
        raise refused

    def _candidate(
        self, settings: Mapping[str, Any], funding: Grant | Rehearsal, share: Budget
    ) -> Candidate:
        candidate: Any = clone(self.estimator)
        candidate.set_params(**settings)
        if candidate.horizon is None and candidate.release_every is None:
            candidate.set_params(horizon=1)
        seed = funding.insecure_seed
        money: Grant | Rehearsal = Grant(epsilon=share.epsilon, delta=share.delta)
        if seed is not None:
            money = Rehearsal(epsilon=share.epsilon, delta=share.delta, seed=seed)
        return candidate.set_params(budget=money)

    # --- what was chosen ------------------------------------------------------------------------

    @property
    def release_(self) -> Release[Mapping[str, Any]]:
        """The chosen candidate's release, under the guarantee of the whole selection."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.release_

    @property
    def privacy_(self) -> PrivacyCard:
        """The privacy card of the whole selection: every candidate and the choice are billed."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.privacy_

    def saved_model(self) -> SavedModel:
        """The chosen candidate with the selection's ledger and card, for ``save_model``."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.saved_model()

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """Predictions of the chosen candidate.

        Args:
            X: rows of the declared columns.
        """
        check_is_fitted(self, "best_estimator_")
        validate_data(
            self, X=table(X, owner=type(self).__name__), skip_check_array=True, reset=False
        )
        return self.best_estimator_.predict(X)

    @available_if(lambda self: _has(self, "predict_proba"))
    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of the labels by the chosen candidate.

        Args:
            X: rows of the declared columns.
        """
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict_proba(X)

    @available_if(lambda self: _has(self, "decision_function"))
    def decision_function(self, X: Any) -> FloatArray:
        """Scores by the chosen candidate.

        Args:
            X: rows of the declared columns.
        """
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.decision_function(X)

    def score(self, X: Any, y: Any) -> float:
        """The chosen candidate's score on records that are not private.

        Args:
            X: rows of the declared columns.
            y: their targets.
        """
        check_is_fitted(self, "best_estimator_")
        return float(self.best_estimator_.score(X, y))

    def __getstate__(self) -> dict[str, Any]:
        # Whatever copies it, the copy is not funded.
        return {**cast("dict[str, Any]", super().__getstate__()), "budget": copy(self.budget)}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_estimator_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.estimator is not None:
            inner = get_tags(self.estimator)
            for kind in ("estimator_type", "classifier_tags", "regressor_tags", "target_tags"):
                setattr(tags, kind, getattr(inner, kind))
        tags.input_tags.allow_nan = True
        return tags


def _has(selection: PrivateSelection, method: str) -> bool:
    return hasattr(getattr(selection, "best_estimator_", selection.estimator), method)


def _shares(budget: Budget, count: int) -> Iterator[Budget]:
    """Budgets of each of ``count`` fits, the largest first; the last adds up by plain addition."""
    if budget.delta > 0.0:
        part = budget.delta / count
        whole = gaussian_mu(budget)
        for margin in _MARGINS:
            epsilon = gaussian_epsilon(margin * whole / math.sqrt(count) * (1 - 1e-9), part)
            if epsilon > budget.epsilon / count:
                yield Budget(epsilon=epsilon, delta=part)
    rest = (1.0 - 1e-6) / count
    yield Budget(epsilon=budget.epsilon * rest, delta=budget.delta * rest)


def _events(candidate: Candidate, trained: tuple[Any, Any]) -> Iterator[Event]:
    """What a candidate's fit will be charged: public, and known before it reads a record."""
    stream, ticks = candidate.planned(*trained)
    learner = stream.learner
    if learner.promise is not Promise.FOREVER:
        raise ConfigurationError(
            f"{type(candidate).__name__} protects records for a while only, and a choice among "
            "such models would not; take learners that protect for ever"
        )
    yield from learner.opening_events()
    for tick in ticks:
        yield from learner.next_events(tick)


def _admitted(candidate: Candidate, X: Any, y: Any, first: int) -> Batch:
    """The held-out records as the candidate's domain admits them; malformed ones stop here."""
    batch = candidate.admitted(X, y)
    return batch.slice(first, len(batch))


def _gains(candidate: Candidate, judge: Batch, X: Any) -> FloatArray:
    """What each held-out record gains by a released model: a function of that record alone."""
    model = candidate.model_
    domain = model.domain
    scores = model.scores(columns(X, [column.name for column in domain.columns]))
    if isinstance(candidate, NumberEstimator):
        low, high = domain.target_map.lower[0], domain.target_map.upper[0]
        truth = domain.user_targets(judge.scaled_targets)[:, 0]
        with np.errstate(over="ignore"):
            error = (np.clip(model.values(scores)[:, 0], low, high) - truth) / (high - low)
        gains = 1.0 - error**2
    else:
        codes = judge.targets
        truth = (codes[:, 0] > 0).astype(np.int64) if codes.shape[1] == 1 else codes.argmax(axis=1)
        if model.link == "sign":
            gains = (model.choices(scores) == truth).astype(np.float64)
        else:
            misses = model.chances(scores)
            misses[np.arange(len(truth)), truth] -= 1.0
            gains = 1.0 - 0.5 * (misses**2).sum(axis=1)
    # The null record gains by nobody.
    return np.where(judge.null, 0.0, gains)


def _noise(funding: Grant | Rehearsal) -> Noise:
    if funding.insecure_seed is None:
        return Noise.from_entropy()
    return Noise.insecure(funding.insecure_seed).child("selection")


def _bill(chosen: Candidate, ledger: Ledger, budget: Budget) -> None:
    """Put the selection's whole bill in place of the chosen candidate's own part of it."""
    release = chosen.release_
    chosen.rebill(
        replace(
            release,
            guarantee=replace(release.guarantee, epsilon=budget.epsilon, delta=budget.delta),
            events=tuple(row.event.to_json() for row in ledger.rows),
            provenance={
                **release.provenance,
                "ledger_rows": len(ledger.rows),
                "ledger_head": ledger.head,
            },
        ),
        ledger.rows,
    )
