"""The losses that compiled loops know, as numbers: a code and one parameter."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from dpstream.losses.hinge import HingeLoss, SmoothedHingeLoss
from dpstream.losses.huber import HuberLoss, PseudoHuberLoss
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.poisson import PoissonLoss
from dpstream.losses.quantile import QuantileLoss
from dpstream.losses.squared import SquaredLoss

LOGISTIC: Final = 0
SQUARED: Final = 1
HUBER: Final = 2
HINGE: Final = 3
SMOOTHED_HINGE: Final = 4
PSEUDO_HUBER: Final = 5
QUANTILE: Final = 6
POISSON: Final = 7

ROOT_ACCURACY: Final = 2.0**-50
"""How far a slope that is found as a root may be from it."""


def _none(_: Any) -> float:
    return 0.0


def _threshold(loss: HuberLoss | PseudoHuberLoss) -> float:
    return loss.threshold


def _width(loss: SmoothedHingeLoss) -> float:
    return loss.width


def _level(loss: QuantileLoss) -> float:
    return loss.level


def _rate_bound(loss: PoissonLoss) -> float:
    return loss.rate_bound


_CODES: Mapping[type, tuple[int, Callable[[Any], float]]] = {
    LogisticLoss: (LOGISTIC, _none),
    SquaredLoss: (SQUARED, _none),
    HuberLoss: (HUBER, _threshold),
    HingeLoss: (HINGE, _none),
    SmoothedHingeLoss: (SMOOTHED_HINGE, _width),
    PseudoHuberLoss: (PSEUDO_HUBER, _threshold),
    QuantileLoss: (QUANTILE, _level),
    PoissonLoss: (POISSON, _rate_bound),
}


def loss_code(loss: object) -> tuple[int, float] | None:
    """The loss as the compiled loops know it, and its parameter; None if they do not know it.

    A Poisson loss's target is meant with its offset added.
    """
    found = _CODES.get(type(loss))
    return None if found is None else (found[0], found[1](loss))
