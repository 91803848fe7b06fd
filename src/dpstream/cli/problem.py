"""A configuration's batch problem: its loss, its set, and which solver to take."""

from collections.abc import Callable

import numpy as np

from dpstream.cli.assemble import assemble_budget, assemble_domain, assemble_unit
from dpstream.cli.config import BatchSection, Config
from dpstream.domain.domain import Domain
from dpstream.domain.target import LabelTarget
from dpstream.errors import ConfigurationError
from dpstream.geometry.box import Box
from dpstream.geometry.convex_set import ConvexSet
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.geometry.simplex import Simplex
from dpstream.losses.hinge import HingeLoss, SmoothedHingeLoss
from dpstream.losses.huber import HuberLoss, PseudoHuberLoss
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.loss import Loss
from dpstream.losses.quantile import QuantileLoss
from dpstream.losses.regularised import RegularisedLoss
from dpstream.losses.softmax import SoftmaxLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.privacy.unit import Neighbours
from dpstream.solvers.choice import Ranking, rank
from dpstream.solvers.problem import Problem

_LOSSES: dict[str, Callable[[], Loss]] = {
    "squared": SquaredLoss,
    "logistic": LogisticLoss,
    "hinge": HingeLoss,
    "smoothed_hinge": SmoothedHingeLoss,
    "huber": HuberLoss,
    "pseudo_huber": PseudoHuberLoss,
    "quantile": QuantileLoss,
}


def rank_problem(config: Config, declared: BatchSection) -> Ranking:
    """All solvers for the configuration's problem, best first; no data is seen."""
    return rank(assemble_problem(config, declared), assemble_budget(config))


def assemble_problem(config: Config, declared: BatchSection) -> Problem:
    """The batch problem that a configuration declares."""
    domain = assemble_domain(config)
    if not domain.targets:
        raise ConfigurationError("a batch problem predicts something; declare [targets.NAME]")
    loss = _loss(domain, declared)
    classes = loss.classes if isinstance(loss, SoftmaxLoss) else 1
    dimension = (domain.dimension + int(domain.intercept)) * classes
    return Problem(
        loss=RegularisedLoss(loss=loss, ridge=declared.ridge) if declared.ridge else loss,
        convex_set=_set(declared, dimension),
        domain=domain,
        records=declared.records,
        neighbours=Neighbours(config.privacy.neighbours),
        unit=assemble_unit(config),
    )


def _loss(domain: Domain, declared: BatchSection) -> Loss:
    if declared.loss != "softmax":
        return _LOSSES[declared.loss]()
    target = domain.targets[0]
    if not isinstance(target, LabelTarget) or target.width < 2:
        raise ConfigurationError(
            "batch.loss is 'softmax', which needs a target with three or more labels; for two "
            'labels write loss = "logistic"'
        )
    return SoftmaxLoss(classes=target.width)


def _set(declared: BatchSection, dimension: int) -> ConvexSet:
    radius = declared.radius
    match declared.constraint:
        case "l2":
            return L2Ball(dimension=dimension, radius=radius)
        case "l1":
            return L1Ball(dimension=dimension, radius=radius)
        case "box":
            return Box(np.full(dimension, radius))
        case "simplex":
            return Simplex(dimension=dimension, total=radius)
