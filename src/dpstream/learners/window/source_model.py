"""Released models of a source stream, for learners of a target stream: dynamic transfer.

Paper 003's introduction: a large source and a small target, both evolving. Each is a stream of its
own, with its own unit, budget and ledger; the target sees what the source has released and nothing
else, so that its fits cost the source's records nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.domain import Domain
from dpstream.errors import ConfigurationError, SourceError


@dataclass(frozen=True, kw_only=True)
class SourceModel:
    """One released model, in the domain's scaled units.

    Attributes:
        tick: of the source stream.
        coefficients: ``(classes, features)``.
        intercept: ``(classes,)``.
    """

    tick: int
    coefficients: FloatArray
    intercept: FloatArray


class SourceModels(Protocol):
    """The models that a source stream has released so far."""

    @property
    def domain(self) -> Domain:
        """The source's, which must be declared as the target's is."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """Which stream it is, JSON-ready; the same at every restart."""
        ...

    def newest(self) -> SourceModel | None:
        """The newest released model; None before there is one."""
        ...


def check_source(source: SourceModels, domain: Domain) -> None:
    """Refuse a source whose parameters mean something else.

    Raises:
        ConfigurationError: if its domain is declared otherwise.
    """
    if source.domain.to_json() != domain.to_json():
        raise ConfigurationError(
            "the source's domain is declared otherwise than the target's, so that its parameters "
            "mean something else; declare the same columns, bounds and classes for both"
        )


def read_model(value: Mapping[str, Any], domain: Domain) -> SourceModel | None:
    """The model of a release's value; None if it is marked as not ready.

    Args:
        value: what a learner of scores published.
        domain: of the source.

    Raises:
        SourceError: if it holds no finite scores of the domain's shape.
    """
    if value.get("ready") is False:
        return None
    try:
        tick = int(value["tick"])
        coefficients = np.array(value["coefficients"], np.float64)
        intercept = np.array(value["intercept"], np.float64)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise SourceError(
            "a source's release holds no tick, coefficients and intercept; take a learner of "
            "scores (logistic, softmax, Huber or squared over blocks) as the source"
        ) from None
    rows = intercept.shape
    whole = len(rows) == 1 and coefficients.shape == (*rows, domain.dimension)
    if not whole or not (np.isfinite(coefficients).all() and np.isfinite(intercept).all()):
        raise SourceError(
            f"a source's release holds coefficients of shape {coefficients.shape} for "
            f"{domain.dimension} features; it must hold finite rows of as many"
        )
    return SourceModel(tick=tick, coefficients=coefficients, intercept=intercept)


class ReleasedModels:
    """The newest model of a source in the same process.

    Args:
        name: of the source stream: part of the target's identity.
        domain: of the source.
    """

    def __init__(self, name: str, *, domain: Domain) -> None:
        self._name = name
        self._domain = domain
        self._newest: SourceModel | None = None

    @property
    def domain(self) -> Domain:
        """The source's."""
        return self._domain

    def describe(self) -> Mapping[str, Any]:
        """Its name."""
        return {"source": self._name}

    def newest(self) -> SourceModel | None:
        """What was shown last."""
        return self._newest

    def show(self, value: Mapping[str, Any]) -> None:
        """Take the value of a release that is public.

        Raises:
            SourceError: if it holds no model of the domain.
        """
        found = read_model(value, self._domain)
        if found is not None:
            self._newest = found
