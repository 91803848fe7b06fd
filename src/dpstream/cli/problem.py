"""A configuration's batch problem: its loss, its set, and which solver to take."""

from dpstream.cli.config import BatchSection, Config
from dpstream.cli.declaration import assemble_budget, assemble_domain, assemble_unit
from dpstream.cli.part import build_loss, build_set
from dpstream.losses.regularised import RegularisedLoss
from dpstream.losses.softmax import SoftmaxLoss
from dpstream.privacy.unit import Neighbours
from dpstream.solvers.choice import Ranking, rank
from dpstream.solvers.problem import Problem


def rank_problem(config: Config, declared: BatchSection) -> Ranking:
    """All solvers for the configuration's problem, best first; no data is seen."""
    return rank(assemble_problem(config, declared), assemble_budget(config))


def assemble_problem(config: Config, declared: BatchSection) -> Problem:
    """The batch problem that a configuration declares."""
    domain = assemble_domain(config)
    loss = build_loss(declared.loss, domain, key="batch.loss")
    chosen = declared.constraint
    if isinstance(chosen, str):
        chosen = {"name": chosen, "radius": declared.radius}
    return Problem(
        loss=RegularisedLoss(loss=loss, ridge=declared.ridge) if declared.ridge else loss,
        convex_set=build_set(
            chosen,
            domain,
            key="batch.constraint",
            classes=loss.classes if isinstance(loss, SoftmaxLoss) else 1,
            constants=True,
        ),
        domain=domain,
        records=declared.records,
        neighbours=Neighbours(config.privacy.neighbours),
        unit=assemble_unit(config),
    )
