"""A released model of scores: public numbers, and how they predict.

A score is ``<coefficients, x> + intercept`` in the user's units, with every column of x clipped to
its public bounds as in training. What is made of it is the link's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import special

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.domain import Domain
from dpstream.domain.row_product import row_products
from dpstream.domain.target import LabelTarget
from dpstream.errors import ConfigurationError

Link = Literal["identity", "exp", "logistic", "softmax", "sign"]

PREDICTING = ("linear", "scores")
"""The kinds of released values that predict; sums and means do not."""

LINKS: tuple[Link, ...] = ("identity", "exp", "logistic", "softmax", "sign")


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreModel:
    """Scores of rows, and predictions from them.

    Attributes:
        domain: the columns and their bounds.
        coefficients: ``(scores, encoded features)``, in the user's units.
        intercepts: ``(scores,)``.
        link: ``"identity"`` predicts the score, ``"exp"`` a rate, ``"logistic"`` and ``"sign"``
            one of two labels by the score's sign, ``"softmax"`` the label of the largest score.
    """

    domain: Domain
    coefficients: FloatArray
    intercepts: FloatArray
    link: Link

    def __post_init__(self) -> None:
        expected = (len(self.intercepts), self.domain.dimension)
        if self.coefficients.shape != expected:
            raise ConfigurationError(
                f"the model has coefficients of shape {self.coefficients.shape}, but its columns "
                f"and intercepts need {expected}"
            )
        if not (np.isfinite(self.coefficients).all() and np.isfinite(self.intercepts).all()):
            raise ConfigurationError("the model has coefficients that are not finite numbers")

    @classmethod
    def of_release(cls, value: Mapping[str, Any], domain: Domain) -> "ScoreModel":
        """The model of a release's value, of kind ``linear`` or ``scores``.

        Raises:
            ConfigurationError: if the value is of another kind.
        """
        match value["kind"]:
            case "linear":
                parts = [target["user"] for target in value["targets"]]
                slopes = [part["coefficients"]["estimate"] for part in parts]
                heads = [
                    0.0 if part["intercept"] is None else part["intercept"]["estimate"]
                    for part in parts
                ]
                link: Link = "identity"
            case "scores":
                slopes, heads = value["user"]["coefficients"], value["user"]["intercept"]
                link = link_of(domain, value["loss"])
            case kind:
                raise ConfigurationError(
                    f"a release of kind {kind!r} predicts nothing; take a regression or a "
                    "classifier"
                )
        widths = {len(row) for row in slopes}
        if widths != {domain.dimension}:
            raise ConfigurationError(
                f"the release has {sorted(widths)} coefficients and the domain "
                f"{domain.dimension} encoded features; give the domain of the release's own stream"
            )
        return cls(
            domain=domain,
            coefficients=np.array(slopes, np.float64),
            intercepts=np.array(heads, np.float64),
            link=link,
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels it chooses among; empty for numbers."""
        targets = self.domain.targets
        return targets[0].labels if targets and isinstance(targets[0], LabelTarget) else ()

    def inputs(self, data: Any) -> FloatArray:
        """Encoded features within their bounds, in the user's units.

        A missing value counts as the middle of its bounds.
        """
        mapping = self.domain.feature_map
        return np.nan_to_num(self.domain.features(data), nan=0.0) / mapping.scale + mapping.centre

    def scores(self, data: Any) -> FloatArray:
        """``(rows, scores)``; a row's are the same alone and among others."""
        return row_products(self.inputs(data), self.coefficients.T) + self.intercepts

    def values(self, scores: FloatArray) -> FloatArray:
        """Predicted numbers, ``(rows, targets)``; for models without labels."""
        return np.exp(scores) if self.link == "exp" else scores

    def choices(self, scores: FloatArray) -> IntArray:
        """The places of the predicted labels."""
        if self.link == "softmax":
            return np.argmax(scores, axis=1)
        return (scores[:, 0] > 0.0).astype(np.int64)

    def chances(self, scores: FloatArray) -> FloatArray:
        """``(rows, labels)`` probabilities.

        Raises:
            ConfigurationError: if the loss gives none.
        """
        if self.link == "softmax":
            return np.asarray(special.softmax(scores, axis=1), np.float64)
        if self.link != "logistic":
            raise ConfigurationError(
                "this model's loss gives no probabilities; take loss 'log_loss' for them"
            )
        chance = np.asarray(special.expit(scores[:, 0]), np.float64)
        return np.column_stack([1.0 - chance, chance])


def link_of(domain: Domain, loss: str) -> Link:
    """What is made of the scores of a loss, with a regulariser or without."""
    loss = loss.removeprefix("regularised ")
    if loss == "Poisson":
        return "exp"
    if loss in ("logistic", "softmax"):
        return "logistic" if loss == "logistic" else "softmax"
    labelled = bool(domain.targets) and isinstance(domain.targets[0], LabelTarget)
    return "sign" if labelled else "identity"
