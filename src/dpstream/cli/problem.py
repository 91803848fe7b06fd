"""A configuration's batch problem: its loss, its set, its solver, and the stream that runs it."""

from collections.abc import Mapping

from dpstream.cli.config import BatchSection, Config
from dpstream.cli.declaration import assemble_budget, assemble_domain, assemble_unit
from dpstream.cli.part import build_loss, build_set, build_solver
from dpstream.engine.schedule import EveryRecords
from dpstream.engine.stream import Stream
from dpstream.errors import ConfigurationError
from dpstream.learners.incremental.priv_inc_erm import HistoryState, PrivIncERM
from dpstream.losses.regularised import RegularisedLoss
from dpstream.losses.softmax import SoftmaxLoss
from dpstream.privacy.unit import Neighbours
from dpstream.solvers.choice import Ranking, rank
from dpstream.solvers.plan import Solver
from dpstream.solvers.problem import Problem

_AUTO = "auto"


def rank_problem(config: Config, declared: BatchSection) -> Ranking:
    """All solvers for the configuration's problem, best first; no data is seen.

    A solver that the configuration names stands alone.
    """
    problem, budget = assemble_problem(config, declared), assemble_budget(config)
    return rank(problem, budget, solvers=_named_solver(declared))


def assemble_problem(config: Config, declared: BatchSection) -> Problem:
    """The batch problem that a configuration declares."""
    domain = assemble_domain(config)
    if len(domain.targets) > 1:
        raise ConfigurationError(
            f"a batch problem predicts one target, but {len(domain.targets)} are declared; keep "
            "one, and give the others configurations and budgets of their own"
        )
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
        gradient_clip=declared.gradient_clip,
    )


def assemble_batch_stream(
    config: Config, declared: BatchSection, *, insecure_seed: int | None = None
) -> Stream[HistoryState]:
    """A stream of one tick, at the problem's last record, whose one release is the solution."""
    if config.learner.model_fields_set:
        raise ConfigurationError(
            "[learner] belongs to a stream, but this configuration declares [batch]; name the "
            "solver by batch.solver"
        )
    problem = assemble_problem(config, declared)
    learner = PrivIncERM(
        domain=problem.domain,
        budget=assemble_budget(config),
        unit=problem.unit,
        neighbours=problem.neighbours,
        horizon=1,
        loss=problem.loss,
        constraint=problem.convex_set,
        solver=rank_problem(config, declared).best.solver,
        tick_records=problem.records,
        refit_every=1,
        shares="equal",
        gradient_clip=problem.gradient_clip,
    )
    schedule = EveryRecords(records=problem.records)
    return Stream(learner=learner, schedule=schedule, insecure_seed=insecure_seed)


def _named_solver(declared: BatchSection) -> Mapping[str, Solver] | None:
    """The one that is named, by its own name; None to choose among all."""
    if declared.solver == _AUTO:
        return None
    solver = build_solver(declared.solver, key="batch.solver")
    return {solver.name: solver}
