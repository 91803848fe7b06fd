"""A released model with everything that was promised of it: public, and complete in itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.domain import Domain
from dpstream.errors import ConfigurationError, require_kind
from dpstream.privacy.ledger import LedgerRow
from dpstream.release import Release
from dpstream.report.card import PrivacyCard, privacy_card
from dpstream.saved.score_model import ScoreModel

Label = str | int | float | bool
Value = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class SavedModel:
    """What is saved of a model, and what a saved one can do.

    Attributes:
        scores: how it predicts.
        release: what was published, with its guarantee and provenance.
        rows: the ledger's, from which the card recomputes epsilon.
        provenance: of bounds by column, where they were handed on by preprocessing.
        classes: the labels as the user gave them, in the order of the model's.
    """

    scores: ScoreModel
    release: Release[Value]
    rows: tuple[LedgerRow, ...]
    provenance: Mapping[str, str]
    classes: tuple[Label, ...] = ()

    def __post_init__(self) -> None:
        if len(self.classes) != len(self.scores.labels):
            raise ConfigurationError(
                f"the model has {len(self.scores.labels)} labels and {len(self.classes)} classes; "
                "give one for each, in the labels' order"
            )

    @classmethod
    def of_release(
        cls,
        release: Release[Value],
        *,
        domain: Domain,
        rows: Sequence[LedgerRow],
        provenance: Mapping[str, str] | None = None,
        classes: Sequence[Label] | None = None,
    ) -> "SavedModel":
        """The model of a stream's release.

        Args:
            release: of a regression or a classifier.
            domain: the stream's.
            rows: its ledger's.
            provenance: of bounds by column.
            classes: the labels as the user gave them; None for their texts.

        Raises:
            ConfigurationError: if the release predicts nothing.
        """
        require_kind(release, Release, "release", "give one of a session, or estimator.release_")
        require_kind(domain, Domain, "domain", "give the stream's")
        scores = ScoreModel.of_release(release.value, domain)
        return cls(
            scores=scores,
            release=release,
            rows=tuple(rows),
            provenance=dict(provenance or {}),
            classes=tuple(scores.labels if classes is None else classes),
        )

    @property
    def card(self) -> PrivacyCard:
        """The privacy card, epsilon recomputed from the ledger."""
        return privacy_card(
            self.release.guarantee,
            domain=self.scores.domain,
            rows=self.rows,
            provenance=self.provenance,
        )

    def predict(self, data: Any) -> np.ndarray[Any, Any]:
        """Predictions for rows, or the likeliest labels; a missing value counts as the middle.

        Args:
            data: a matrix in the columns' order, a frame or a mapping with their names.
        """
        scores = self.scores.scores(data)
        if self.classes:
            return np.array(self.classes)[self.scores.choices(scores)]
        return self.scores.values(scores)[:, 0]

    def predict_proba(self, data: Any) -> FloatArray:
        """Probabilities of ``classes``.

        Args:
            data: as for ``predict``.

        Raises:
            ConfigurationError: if the model gives none.
        """
        if not self.classes:
            raise ConfigurationError(
                "this model predicts numbers and has no probabilities; use predict"
            )
        return self.scores.chances(self.scores.scores(data))
