"""From a checked configuration to a domain, a learner, a schedule and a source."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, ValidationError, model_validator

from dpstream.cli.config import Config, ScheduleSection, Section, nearest
from dpstream.connectors.location import Format
from dpstream.connectors.opening import open_source
from dpstream.domain.column import Boolean, Categorical, Column, Numeric
from dpstream.domain.domain import Domain
from dpstream.domain.target import IntervalTarget, LabelTarget, Target
from dpstream.engine.ports import Source
from dpstream.engine.schedule import Schedule, schedule_from_json
from dpstream.engine.stream import Stream
from dpstream.errors import ConfigurationError
from dpstream.learners.incremental.priv_inc_reg1 import PrivIncReg1
from dpstream.learners.learner import Learner
from dpstream.learners.sums.running_sum import LARGEST_TICK, RunningSum
from dpstream.mechanisms.continual.choice import sum_strategy
from dpstream.mechanisms.continual.node_noise import NoiseKind
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit

S = TypeVar("S", bound=Section)

NoiseName = Literal["gaussian", "exact", "spherical_laplace"]


class PrivIncReg1Options(Section):
    """Parameters of ``[learner] name = "PrivIncReg1"``."""

    strategy: str = "auto"
    radius: Annotated[float, Field(gt=0)] | None = None
    penalty: Annotated[float, Field(ge=0)] = 0.0
    ridge: Annotated[float, Field(ge=0)] = 0.0
    noise: NoiseName = "gaussian"
    shrink: bool = True
    intervals: bool = True


class RunningSumOptions(Section):
    """Parameters of ``[learner] name = "RunningSum"``."""

    strategy: str = "auto"
    window: Annotated[int, Field(ge=1)] | None = None
    decay: Annotated[float, Field(gt=0, lt=1)] | None = None
    count: bool = False
    noise: NoiseName = "gaussian"

    @model_validator(mode="after")
    def _one_memory(self) -> "RunningSumOptions":
        if self.window is not None and self.decay is not None:
            raise ValueError("give window or decay, not both")
        return self


def assemble_domain(config: Config) -> Domain:
    """The domain that a configuration declares."""
    columns: list[Column] = []
    for name, declared in config.columns.items():
        if declared.categories is not None:
            columns.append(Categorical(name, declared.categories))
        elif declared.boolean:
            columns.append(Boolean(name))
        else:
            columns.append(Numeric(name, declared.lower, declared.upper))
    targets: list[Target] = []
    for name, target in config.targets.items():
        if target.labels is not None:
            targets.append(LabelTarget(name, target.labels))
        elif target.lower is not None and target.upper is not None:
            targets.append(IntervalTarget(name, target.lower, target.upper))
    return Domain(
        columns,
        targets,
        intercept=config.record.intercept,
        record_bound=config.record.bound,
        norm_bound=config.record.norm,
    )


def assemble_schedule(config: Config) -> Schedule:
    """The public schedule that a configuration declares."""
    options = _ticks(config).model_dump(exclude={"horizon", "records"}, exclude_none=True)
    return schedule_from_json(options)


def _ticks(config: Config) -> ScheduleSection:
    if config.schedule is None:
        raise ConfigurationError(
            "this configuration declares a batch problem; for a stream write [schedule] instead "
            "of [batch]"
        )
    return config.schedule


def assemble_horizon(config: Config, schedule: Schedule) -> int | None:
    """The last tick, from ``horizon`` or from ``records``; None for a stream without end."""
    declared = _ticks(config)
    if declared.horizon is not None:
        return declared.horizon
    if declared.records is None:
        return None
    ticks = schedule.horizon_ticks(declared.records)
    if not ticks:
        raise ConfigurationError(
            f"schedule.records is {declared.records}, which does not fill one tick of "
            f"{declared.every} records; raise records or lower every"
        )
    return ticks


def assemble_learner(config: Config) -> Learner[Any]:
    """The learner that a configuration declares, calibrated; no data is read."""
    if config.learner.name not in _LEARNERS:
        raise ConfigurationError(
            f"learner.name is {config.learner.name!r}{nearest(config.learner.name, _LEARNERS)}"
        )
    return _LEARNERS[config.learner.name](config)


def assemble_stream(config: Config, *, insecure_seed: int | None = None) -> Stream[Any]:
    """The whole public declaration of a configuration's stream."""
    return Stream(
        learner=assemble_learner(config),
        schedule=assemble_schedule(config),
        insecure_seed=insecure_seed,
    )


def assemble_source(config: Config, *, folder: Path, input_path: str | None) -> Source:
    """The source to read: the command line's, else the configuration's, beside its file."""
    format_: Format | None = config.source.format
    if input_path is not None:
        return open_source(input_path, format_=format_)
    if config.source.path is None:
        raise ConfigurationError(
            "no source: give --input FILE (or - for standard input), or [source] path"
        )
    location = config.source.path
    return open_source(location if location == "-" else str(folder / location), format_=format_)


def assemble_budget(config: Config) -> Budget:
    """The budget that a configuration declares."""
    return Budget(epsilon=config.privacy.epsilon, delta=config.privacy.delta)


def assemble_unit(config: Config) -> Unit:
    """The unit that a configuration declares."""
    unit = config.unit
    return Unit(kind=unit.kind, cap=unit.cap, column=unit.column, period=unit.period)


def _neighbours(config: Config) -> Neighbours:
    return Neighbours(config.privacy.neighbours)


def _tick_records(config: Config) -> int:
    # Ticks by count have a known size; a clock's ticks get a generous bound.
    return _ticks(config).every or LARGEST_TICK


def _options(config: Config, model: type[S]) -> S:
    try:
        return model.model_validate(config.learner.options)
    except ValidationError as error:
        lines: list[str] = []
        for item in error.errors(include_url=False):
            key = ".".join(str(part) for part in item["loc"])
            if item["type"] == "extra_forbidden":
                lines.append(f"learner.{key}: unknown key{nearest(key, model.model_fields)}")
            else:
                message = str(item["msg"]).removeprefix("Value error, ")
                lines.append(f"learner{'.' if key else ''}{key}: {message}")
        raise ConfigurationError("; ".join(lines)) from None


def _priv_inc_reg1(config: Config) -> Learner[Any]:
    options = _options(config, PrivIncReg1Options)
    return PrivIncReg1(
        domain=assemble_domain(config),
        budget=assemble_budget(config),
        unit=assemble_unit(config),
        neighbours=_neighbours(config),
        horizon=assemble_horizon(config, assemble_schedule(config)),
        strategy=options.strategy,
        radius=options.radius,
        penalty=options.penalty,
        ridge=options.ridge,
        noise=NoiseKind(options.noise),
        shrink=options.shrink,
        intervals=options.intervals,
        tick_records=_tick_records(config),
    )


def _running_sum(config: Config) -> Learner[Any]:
    options = _options(config, RunningSumOptions)
    horizon = assemble_horizon(config, assemble_schedule(config))
    return RunningSum(
        domain=assemble_domain(config),
        budget=assemble_budget(config),
        unit=assemble_unit(config),
        neighbours=_neighbours(config),
        horizon=horizon,
        strategy=sum_strategy(
            options.strategy, horizon=horizon, window=options.window, decay=options.decay
        ),
        count=options.count,
        noise=NoiseKind(options.noise),
        tick_records=_tick_records(config),
    )


_LEARNERS: dict[str, Callable[[Config], Learner[Any]]] = {
    "PrivIncReg1": _priv_inc_reg1,
    "RunningSum": _running_sum,
}
