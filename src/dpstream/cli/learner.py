"""From ``[learner]`` to a calibrated learner: one row for each, keys from its constructor."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpstream.cli.config import Config, nearest
from dpstream.cli.declaration import (
    assemble_budget,
    assemble_domain,
    assemble_horizon,
    assemble_schedule,
    assemble_unit,
    ticks_of,
)
from dpstream.cli.options import EXTRA, key_of, left_out, option_model, part_kinds, read_options
from dpstream.cli.part import build_algorithm, build_loss, build_set, build_solver
from dpstream.connectors.released_models import LoggedModels
from dpstream.domain.domain import Domain
from dpstream.domain.target import LabelTarget
from dpstream.errors import ConfigurationError
from dpstream.geometry.convex_set import ConvexSet
from dpstream.learners.incremental.auto import AutoIncremental
from dpstream.learners.incremental.priv_inc_erm import PrivIncERM, RefitInterval
from dpstream.learners.incremental.priv_inc_reg1 import PrivIncReg1
from dpstream.learners.incremental.priv_inc_reg2 import PrivIncReg2
from dpstream.learners.incremental.refit_schedule import Shares
from dpstream.learners.learner import Learner
from dpstream.learners.online.follow_the_leader import FollowTheLeader
from dpstream.learners.online.pocp import POCP
from dpstream.learners.online.pqftl import pqftl
from dpstream.learners.online.wdp_cocol import wdp_cocol
from dpstream.learners.online.wdp_cocop import wdp_cocop
from dpstream.learners.sums.running_sum import RunningSum
from dpstream.learners.window.basic_release import BasicRelease
from dpstream.learners.window.continual_release import ContinualRelease
from dpstream.learners.window.decayed_release import DecayedRelease
from dpstream.learners.window.multi_resolution import MultiResolutionRelease
from dpstream.learners.window.sliding_window import SlidingWindowRelease
from dpstream.learners.window.windowed_regression import WindowedRegression
from dpstream.losses.loss import Loss
from dpstream.losses.regularised import RegularisedLoss
from dpstream.losses.softmax import SoftmaxLoss
from dpstream.mechanisms.continual.choice import AUTO, sum_strategy
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.solvers.plan import Solver


@dataclass(frozen=True, kw_only=True)
class Row:
    """How a configuration makes one learner.

    Attributes:
        make: its constructor; parameters that no section supplies are keys of ``[learner]``.
        constants: whether its constraint set holds the constants too.
        memory: whether it takes windowed and decayed strategies, which need a number more.
        counted: whether its ticks must close by count.
    """

    make: Callable[..., Learner[Any]]
    constants: bool = False
    memory: bool = False
    counted: bool = False


def _priv_inc_erm(
    *,
    domain: Domain,
    budget: Budget,
    unit: Unit,
    neighbours: Neighbours,
    horizon: int | None,
    loss: Loss,
    constraint: ConvexSet,
    solver: Solver,
    tick_records: int,
    ridge: float = 0.0,
    refit_every: RefitInterval = "auto",
    shares: Shares | None = None,
    gradient_clip: float | None = None,
) -> PrivIncERM:
    """``PrivIncERM`` with its public regulariser beside the loss, as other learners have it."""
    return PrivIncERM(
        domain=domain,
        budget=budget,
        unit=unit,
        neighbours=neighbours,
        horizon=horizon,
        loss=RegularisedLoss(loss=loss, ridge=ridge) if ridge else loss,
        constraint=constraint,
        solver=solver,
        tick_records=tick_records,
        refit_every=refit_every,
        shares=shares,
        gradient_clip=gradient_clip,
    )


LEARNERS: Mapping[str, Row] = {
    "auto": Row(make=AutoIncremental),
    "RunningSum": Row(make=RunningSum, memory=True),
    "PrivIncReg1": Row(make=PrivIncReg1),
    "PrivIncReg2": Row(make=PrivIncReg2),
    "PrivIncERM": Row(make=_priv_inc_erm, constants=True, counted=True),
    "PQFTL": Row(make=pqftl),
    "FollowTheLeader": Row(make=FollowTheLeader, memory=True),
    "WDP-COCOP": Row(make=wdp_cocop),
    "WDP-COCOL": Row(make=wdp_cocol),
    "POCP": Row(make=POCP, counted=True),
    "MultiResolutionRelease": Row(make=MultiResolutionRelease),
    "ContinualRelease": Row(make=ContinualRelease),
    "BasicRelease": Row(make=BasicRelease),
    "SlidingWindowRelease": Row(make=SlidingWindowRelease),
    "DecayedRelease": Row(make=DecayedRelease),
    "WindowedRegression": Row(make=WindowedRegression),
}
"""Every learner of the catalogue, and the papers' names for arrangements of them."""


def _tick_records(config: Config) -> int | None:
    ticks = ticks_of(config)
    return ticks.every or ticks.tick_records


def _releases(config: Config) -> int | None:
    """Ticks that publish within the horizon: what a perturbed learner pays for.

    None, for no end, where releases are asked for: how often they will be is not known.
    """
    horizon = assemble_horizon(config, assemble_schedule(config))
    publish_every = ticks_of(config).publish_every
    if horizon is None or publish_every == 0:
        return None
    return horizon // (publish_every or 1)


def _expected_records(config: Config) -> int | None:
    ticks = ticks_of(config)
    if ticks.records is None and ticks.horizon and ticks.every:
        return ticks.horizon * ticks.every
    return ticks.records


SUPPLIED: Mapping[str, Callable[[Config], Any]] = {
    "domain": lambda config: assemble_domain(config),
    "budget": lambda config: assemble_budget(config),
    "unit": lambda config: assemble_unit(config),
    "neighbours": lambda config: Neighbours(config.privacy.neighbours),
    "horizon": lambda config: assemble_horizon(config, assemble_schedule(config)),
    "tick_records": _tick_records,
    "block_records": _tick_records,
    "releases": _releases,
    "counted": lambda config: ticks_of(config).every is not None,
    "expected_records": _expected_records,
}
"""Parameters that other sections of the configuration tell."""


def assemble_learner(config: Config) -> Learner[Any]:
    """The learner that a configuration declares, calibrated; no data is read."""
    name = config.learner.name
    if name not in LEARNERS:
        raise ConfigurationError(f"learner.name is {name!r}{nearest(name, LEARNERS)}")
    row = LEARNERS[name]
    if row.counted and ticks_of(config).every is None:
        raise ConfigurationError(
            f"{name} needs ticks of a public number of records; write [schedule] every = N "
            "instead of interval"
        )
    parameters = inspect.signature(row.make).parameters
    values = {name: SUPPLIED[name](config) for name in parameters.keys() & SUPPLIED.keys()}
    for key in ("tick_records", "block_records"):
        if values.get(key, 0) is not None:
            continue
        if parameters[key].default is inspect.Parameter.empty:
            raise ConfigurationError(
                f"{name} plans with the records of a tick; beside interval write tick_records = N, "
                "the most that may come in one"
            )
        del values[key]  # the learner's own bound
    memory = frozenset(EXTRA) if row.memory else frozenset[str]()
    given = read_options(
        option_model(row.make, frozenset(values), memory), config.learner.options, section="learner"
    )
    own = {name: given[key_of(name)] for name in parameters if key_of(name) in given}
    own |= _parts(row, own, values["domain"])
    if row.memory:
        own |= _strategy(own, given, values["horizon"])
    _check_target(config, values["domain"])
    return row.make(**left_out(row.make, {*values, *own}), **values, **own)


def _check_target(config: Config, domain: Domain) -> None:
    """Refuse to choose a regression for classes."""
    if config.learner.name == AUTO and any(isinstance(t, LabelTarget) for t in domain.targets):
        raise ConfigurationError(
            "learner.name is 'auto', which chooses among regressions, but the target has labels; "
            'write name = "FollowTheLeader" with loss = "logistic", or "softmax" for three '
            "labels or more"
        )


def _parts(row: Row, own: Mapping[str, Any], domain: Domain) -> dict[str, Any]:
    """The parts among the options, built."""
    kinds = part_kinds(row.make)
    built: dict[str, Any] = {}
    classes = 1
    for name in sorted(own.keys() & kinds.keys(), key=lambda name: kinds[name] != "loss"):
        declared, kind, key = own[name], kinds[name], f"learner.{key_of(name)}"
        if declared is None:
            continue
        if kind == "loss":
            loss = built[name] = build_loss(declared, domain, key=key)
            classes = loss.classes if isinstance(loss, SoftmaxLoss) else 1
        elif kind == "set":
            built[name] = build_set(
                declared, domain, key=key, classes=classes, constants=row.constants
            )
        elif kind == "solver":
            built[name] = build_solver(declared, key=key)
        elif kind == "source":
            built[name] = LoggedModels(Path(str(declared)), domain=domain)
        else:
            built[name] = build_algorithm(declared, key=key)
    return built


def _strategy(
    own: Mapping[str, Any], given: Mapping[str, Any], horizon: int | None
) -> dict[str, Any]:
    """The strategy of a learner that takes any: by its name, its window or its decay."""
    name = own.get("strategy", AUTO)
    window, decay = given.get("window"), given.get("decay")
    if window is not None and decay is not None:
        raise ConfigurationError("learner: give window or decay, not both")
    if name == AUTO and window is None and decay is None:
        return {}
    return {"strategy": sum_strategy(name, horizon=horizon, window=window, decay=decay)}
