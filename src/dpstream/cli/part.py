"""Sets, losses, solvers and online algorithms by name, with their own parameters.

In a configuration each is a name, ``constraint = "l1"``, or a table of a name and parameters,
``constraint = { name = "l1", radius = 2.0 }``. The names of the catalogue are known as well.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstream.cli.config import nearest
from dpstream.cli.options import option_model, read_options
from dpstream.domain.domain import Domain
from dpstream.domain.target import IntervalTarget, LabelTarget
from dpstream.errors import ConfigurationError
from dpstream.geometry.box import Box, box
from dpstream.geometry.convex_set import ConvexSet
from dpstream.geometry.declaration import finite_array
from dpstream.geometry.flow_polytope import FlowPolytope
from dpstream.geometry.group_ball import GroupBall
from dpstream.geometry.hull import SymmetricHull, VertexHull
from dpstream.geometry.interpolation_ball import InterpolationBall
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.geometry.lp_ball import LpBall
from dpstream.geometry.nuclear_ball import NuclearBall
from dpstream.geometry.polytope import Polytope
from dpstream.geometry.simplex import Simplex
from dpstream.learners.online.exact_leader import ExactLeader
from dpstream.learners.online.online_algorithm import OnlineAlgorithm
from dpstream.learners.online.pgiga import GradientAscent
from dpstream.learners.online.pigd import ImplicitGradientDescent
from dpstream.losses.hinge import HingeLoss, SmoothedHingeLoss
from dpstream.losses.huber import HuberLoss, PseudoHuberLoss
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.loss import Loss
from dpstream.losses.poisson import PoissonLoss
from dpstream.losses.quantile import QuantileLoss
from dpstream.losses.softmax import SoftmaxLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.solvers.frank_wolfe import FrankWolfe
from dpstream.solvers.frank_wolfe_gaussian import GaussianFrankWolfe
from dpstream.solvers.lasso import Lasso
from dpstream.solvers.mirror_descent import MirrorDescent
from dpstream.solvers.moment_regression import MomentRegression
from dpstream.solvers.noisy_sgd import NoisySgd
from dpstream.solvers.non_strongly_convex import FadingRegulariser
from dpstream.solvers.objective_perturbation import ObjectivePerturbation
from dpstream.solvers.output_perturbation import OutputPerturbation
from dpstream.solvers.permuted_sgd import PermutedSGD
from dpstream.solvers.plan import Solver
from dpstream.solvers.pol import OnlineToOffline

Declaration = str | Mapping[str, Any]


@dataclass(frozen=True)
class Shelf:
    """Parts of one kind, by name.

    Attributes:
        what: the kind, for messages.
        parts: what makes each; the catalogue's names lead to the same.
    """

    what: str
    parts: Mapping[str, Callable[..., Any]]

    def find(self, name: object, *, key: str) -> Callable[..., Any]:
        """What makes the part of that name.

        Raises:
            ConfigurationError: if there is none; it names the nearest.
        """
        names = {**self.parts, **{make.__name__: make for make in self.parts.values()}}
        if not isinstance(name, str) or name not in names:
            hint = nearest(str(name), self.parts)
            raise ConfigurationError(f"{key} is {name!r}; there is no such {self.what}{hint}")
        return names[name]

    def build(self, declared: Declaration, *, key: str, **supplied: Any) -> Any:
        """The declared part.

        Args:
            declared: a name, or a table with ``name`` and parameters.
            key: where it stands, for messages.
            supplied: parameters that follow from the rest of the configuration, for makers
                that take them.
        """
        given = {"name": declared} if isinstance(declared, str) else dict(declared)
        make = self.find(given.pop("name", None), key=f"{key}.name" if given else key)
        wanted = inspect.signature(make).parameters
        known = {name: value for name, value in supplied.items() if name in wanted}
        model = option_model(make, frozenset(known))
        return make(**known, **read_options(model, given, section=key))


def _box_set(
    *,
    dimension: int,
    radius: float = 1.0,
    lower: list[float] | None = None,
    upper: list[float] | None = None,
) -> ConvexSet:
    """The same interval for every coordinate, or limits of their own."""
    if lower is None and upper is None:
        return Box(np.full(dimension, radius))
    if lower is None or upper is None:
        raise ConfigurationError("a box has lower and upper limits; give both, or a radius")
    return box(lower, upper)


def _simplex_set(*, dimension: int, radius: float = 1.0) -> ConvexSet:
    return Simplex(dimension=dimension, total=radius)


def _hull_set(*, vertices: list[list[float]]) -> ConvexSet:
    return VertexHull(finite_array("vertices", vertices, 2))


def _symmetric_hull_set(*, vertices: list[list[float]]) -> ConvexSet:
    return SymmetricHull(finite_array("vertices", vertices, 2))


def _polytope_set(*, matrix: list[list[float]], limits: list[float]) -> ConvexSet:
    return Polytope(finite_array("matrix", matrix, 2), finite_array("limits", limits, 1))


def _flow_set(*, edges: list[list[int]], source: int, sink: int) -> ConvexSet:
    return FlowPolytope(finite_array("edges", edges, 2).astype(np.int64), source, sink)


def _softmax(*, domain: Domain) -> Loss:
    target = domain.targets[0]
    if not isinstance(target, LabelTarget) or target.width < 2:
        raise ConfigurationError(
            "loss is 'softmax', which needs a target with three or more labels; for two labels "
            'write loss = "logistic"'
        )
    return SoftmaxLoss(classes=target.width)


def _poisson(*, domain: Domain, rate_bound: float | None = None) -> Loss:
    """Rates up to the largest count, or to one that is given: in the target's own units."""
    target = domain.targets[0]
    if not isinstance(target, IntervalTarget) or target.lower < 0.0:
        raise ConfigurationError(
            "loss is 'poisson', which needs a target that counts: a number whose lower is at "
            "least 0"
        )
    scale, centre = float(domain.target_map.scale[0]), float(domain.target_map.centre[0])
    rate = target.upper if rate_bound is None else rate_bound
    return PoissonLoss(rate_bound=rate * scale, target_offset=centre * scale)


SETS = Shelf(
    "constraint set",
    {
        "l2": L2Ball,
        "l1": L1Ball,
        "box": _box_set,
        "simplex": _simplex_set,
        "lp": LpBall,
        "group": GroupBall,
        "interpolation": InterpolationBall,
        "nuclear": NuclearBall,
        "hull": _hull_set,
        "symmetric_hull": _symmetric_hull_set,
        "polytope": _polytope_set,
        "flow": _flow_set,
    },
)

LOSSES = Shelf(
    "loss",
    {
        "squared": SquaredLoss,
        "logistic": LogisticLoss,
        "softmax": _softmax,
        "hinge": HingeLoss,
        "smoothed_hinge": SmoothedHingeLoss,
        "huber": HuberLoss,
        "pseudo_huber": PseudoHuberLoss,
        "quantile": QuantileLoss,
        "poisson": _poisson,
    },
)

SOLVERS = Shelf(
    "solver",
    {
        "noisy_sgd": NoisySgd,
        "mirror_descent": MirrorDescent,
        "frank_wolfe": FrankWolfe,
        "frank_wolfe_gaussian": GaussianFrankWolfe,
        "lasso": Lasso,
        "moment_regression": MomentRegression,
        "objective_perturbation": ObjectivePerturbation,
        "output_perturbation": OutputPerturbation,
        "permuted_sgd": PermutedSGD,
        "pol": OnlineToOffline,
        "non_strongly_convex": FadingRegulariser,
    },
)

ALGORITHMS = Shelf(
    "online algorithm",
    {"pigd": ImplicitGradientDescent, "pgiga": GradientAscent, "leader": ExactLeader},
)


def build_loss(declared: Declaration, domain: Domain, *, key: str) -> Loss:
    """A loss on the domain's targets."""
    if not domain.targets:
        raise ConfigurationError("a loss predicts something; declare [targets.NAME]")
    loss: Loss = LOSSES.build(declared, key=key, domain=domain)
    _check_labels(loss, domain, key)
    return loss


def _check_labels(loss: Loss, domain: Domain, key: str) -> None:
    """Refuse a loss for labels on numbers, and one for numbers on many labels."""
    target = domain.targets[0]
    labels = len(target.labels) if isinstance(target, LabelTarget) else 0
    if labels > 2 and not isinstance(loss, SoftmaxLoss):
        raise ConfigurationError(
            f'{key} is {loss.name!r}, but the target has {labels} labels; write loss = "softmax"'
        )
    if labels == 0 and isinstance(loss, LogisticLoss | HingeLoss | SmoothedHingeLoss):
        raise ConfigurationError(
            f"{key} is {loss.name!r}, which needs a target with two labels; write "
            'labels = ["...", "..."] for the target, or loss = "squared" for a number'
        )


def build_set(
    declared: Declaration, domain: Domain, *, key: str, classes: int = 1, constants: bool
) -> ConvexSet:
    """A set for the parameters of scores on the domain.

    Args:
        declared: its name, or a table.
        domain: of the records.
        key: where it stands.
        classes: scores per record.
        constants: whether the constants are among its coordinates.
    """
    features = domain.dimension + int(constants and domain.intercept)
    return SETS.build(declared, key=key, dimension=features * classes)


def build_solver(declared: Declaration, *, key: str) -> Solver:
    """A private batch solver."""
    return SOLVERS.build(declared, key=key)


def build_algorithm(declared: Declaration, *, key: str) -> OnlineAlgorithm:
    """An online algorithm with a declared sensitivity."""
    return ALGORITHMS.build(declared, key=key)
