"""From a checked configuration to the stream's domain, unit, schedule and budget."""

from dpstream.cli.config import Config, ScheduleSection
from dpstream.domain.column import Boolean, Categorical, Column, Numeric
from dpstream.domain.domain import Domain
from dpstream.domain.target import IntervalTarget, LabelTarget, Target
from dpstream.engine.schedule import Schedule
from dpstream.engine.schedule_declaration import schedule_from_json
from dpstream.errors import ConfigurationError
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Unit


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
    options = ticks_of(config).model_dump(
        exclude={"horizon", "records", "tick_records"}, exclude_none=True
    )
    return schedule_from_json(options)


def ticks_of(config: Config) -> ScheduleSection:
    """The section of the schedule.

    Raises:
        ConfigurationError: if a batch problem is declared instead.
    """
    if config.schedule is None:
        raise ConfigurationError(
            "this configuration declares a batch problem; for a stream write [schedule] instead "
            "of [batch]"
        )
    return config.schedule


def assemble_horizon(config: Config, schedule: Schedule) -> int | None:
    """The last tick, from ``horizon`` or from ``records``; None for a stream without end."""
    declared = ticks_of(config)
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
    # Records after the last full tick open one more, which is not published.
    opened = schedule.horizon_ticks(declared.records - 1) == ticks
    return ticks + opened


def assemble_budget(config: Config) -> Budget:
    """The budget that a configuration declares."""
    return Budget(epsilon=config.privacy.epsilon, delta=config.privacy.delta)


def assemble_unit(config: Config) -> Unit:
    """The unit that a configuration declares."""
    unit = config.unit
    return Unit(kind=unit.kind, cap=unit.cap, column=unit.column, period=unit.period)
