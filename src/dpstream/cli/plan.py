"""``dpstream plan``: before any data, the noise, the predicted error, which strategy and why."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpstream.cli.assemble import assemble_stream
from dpstream.cli.config import Config, load_config
from dpstream.cli.declaration import ticks_of
from dpstream.cli.folder import write_public
from dpstream.cli.output import print_json, print_text
from dpstream.cli.plan_text import show_plan, show_ranking
from dpstream.cli.problem import rank_problem
from dpstream.engine.schedule import EveryRecords, Schedule, Thinning
from dpstream.engine.stream import Stream
from dpstream.errors import ConfigurationError
from dpstream.learners.incremental.auto import AutoIncremental
from dpstream.learners.incremental.forecast import forecast
from dpstream.learners.incremental.priv_inc_reg1 import PrivIncReg1
from dpstream.learners.learner import Learner
from dpstream.learners.online.follow_the_leader import FollowTheLeader
from dpstream.learners.online.forecast import release_prices
from dpstream.learners.online.pocp import POCP
from dpstream.learners.sums.running_sum import RunningSum
from dpstream.learners.window.block_learner import BlockLearner
from dpstream.learners.window.forecast import (
    balanced_ridge,
    budget_levels,
    comparison_block,
    drift_plan,
    longest_history,
    rival_memories,
)
from dpstream.learners.window.windowed_regression import WindowedRegression
from dpstream.mechanisms.continual.choice import alternatives
from dpstream.mechanisms.continual.prediction import largest_standard_deviation, most_memory
from dpstream.mechanisms.continual.sum import ContinualSum
from dpstream.report.plan import plan_page, ranking_page

LOOK_AHEAD = 1_000_000
"""How far a plan without a horizon looks."""

_FORECASTS = 6
_NOISES = 24


@dataclass(frozen=True, kw_only=True)
class DriftGuess:
    """What the user takes the stream's drift to be; see ``drift_plan``.

    Attributes:
        drift: how far the best parameters move with every block, in scaled units.
        change: how far they jump at once.
        changed_at: the first block, from 0, after the jump.
        block: after which block memories are compared; None for the horizon, or a steady state.
    """

    drift: float | None = None
    change: float | None = None
    changed_at: int = 0
    block: int | None = None

    @property
    def given(self) -> bool:
        """Whether there is one."""
        return self.drift is not None or self.change is not None


def plan(config_path: Path, *, guess: DriftGuess, picture: Path | None, as_json: bool) -> None:
    """Show the plan of a configuration."""
    config = load_config(config_path)
    if config.batch is not None:
        found = rank_problem(config, config.batch).describe()
    else:
        found = make_plan(config, assemble_stream(config), guess)
    if picture is not None:
        page = plan_page(found) if config.batch is None else ranking_page(found)
        write_public(picture, page)
    if as_json:
        print_json(found)
        return
    if config.batch is not None:
        show_ranking(found)
    else:
        show_plan(found)
    if picture is not None:
        print_text(f"picture: {picture}")


def make_plan(
    config: Config, stream: Stream[Any], guess: DriftGuess | None = None
) -> dict[str, Any]:
    """The plan as plain values.

    Raises:
        ConfigurationError: if a drift is guessed for a learner that is not one over blocks.
    """
    learner = stream.learner
    last = learner.horizon or LOOK_AHEAD
    result: dict[str, Any] = {
        "learner": config.learner.name,
        "epsilon": stream.budget.epsilon,
        "delta": stream.budget.delta,
        "unit": {"kind": stream.unit.kind, "cap": stream.unit.cap},
        "neighbours": stream.neighbours.value,
        "promise": learner.promise.value,
        "horizon": learner.horizon,
        "looked_ahead_to_tick": last,
        "events": [event.to_json() for event in learner.opening_events()],
    }
    if isinstance(learner, AutoIncremental):
        result["comparison"] = learner.comparison.describe()
        learner = learner.chosen
    summed = _continual_sum(learner)
    if summed is not None:
        result["noise"] = _noise(summed, last)
        result["strategies"] = _compare(summed, learner.horizon, last)
        result["why"] = _reason(config, learner.horizon)
    if isinstance(learner, POCP):
        result["releases"] = _releases(learner, config, stream.schedule)
    if isinstance(learner, PrivIncReg1):
        result["forecast"] = forecast_until(learner, stream.schedule, last)
    if isinstance(learner, BlockLearner):
        result["levels"] = budget_levels(learner)
        result["longest_history_in_blocks"] = longest_history(
            learner, publish_every=_publish_every(config)
        )
        result["ridge"] = {"declared": learner.ridge, "balanced": balanced_ridge(learner)}
    if guess is not None and guess.given:
        result["drift"] = _drift(learner, guess)
    return result


def _publish_every(config: Config) -> int:
    given = ticks_of(config).publish_every
    return 1 if given is None else given


def _continual_sum(learner: Any) -> ContinualSum | None:
    """The one sum that the learner measures, if that is how it works."""
    if isinstance(learner, WindowedRegression):
        return learner.stream.sum
    summed = isinstance(learner, PrivIncReg1 | RunningSum | FollowTheLeader)
    return learner.sum if summed else None


def _releases(learner: POCP, config: Config, schedule: Schedule) -> list[dict[str, Any]]:
    """Prices and noise by the number of the release, where records come by count."""
    assert isinstance(schedule, EveryRecords | Thinning)
    step = _publish_every(config) or 1
    numbers = _spread_ticks(learner.releases or LOOK_AHEAD // step, _FORECASTS)
    return release_prices(learner, [(number, schedule.end(number * step)) for number in numbers])


def _drift(learner: Any, guess: DriftGuess) -> dict[str, Any]:
    if not isinstance(learner, BlockLearner):
        raise ConfigurationError(
            "a drift is guessed for learners over blocks (SlidingWindowRelease, DecayedRelease and "
            f"their like); {learner.name} is none: leave --drift and --change out"
        )
    block = comparison_block(learner, guess.block)
    return {
        "guess": {
            "drift": guess.drift or 0.0,
            "change": guess.change or 0.0,
            "changed_at": guess.changed_at,
        },
        "block": block,
        "memories": drift_plan(
            rival_memories(learner, block),
            block=block,
            drift=guess.drift or 0.0,
            change=guess.change or 0.0,
            changed_at=guess.changed_at,
        ),
    }


def _noise(summed: ContinualSum, last: int) -> dict[str, Any]:
    spread = float(summed.variance(1)[0] / summed.strategy.variance(1)) ** 0.5
    largest, tick = largest_standard_deviation(summed.strategy, last, scale=spread)
    least = float(summed.scale_vector[0] / summed.scale_vector.max())
    return {
        "strategy": summed.strategy.name,
        "coordinates": summed.dimension,
        "node_standard_deviation": summed.sigma,
        "largest_standard_deviation": largest,
        "at_tick": tick,
        "standard_deviation_of_the_quietest_coordinate": largest * least,
        "most_vectors_in_memory": most_memory(summed.strategy, last),
        "by_tick": [
            {"tick": tick, "standard_deviation": spread * summed.strategy.variance(tick) ** 0.5}
            for tick in _spread_ticks(last, _NOISES)
        ],
    }


def _compare(summed: ContinualSum, horizon: int | None, last: int) -> list[dict[str, Any]]:
    """The same sum by every strategy that keeps the same promise, quietest first."""
    found: list[dict[str, Any]] = []
    for strategy in alternatives(summed.strategy, horizon=horizon):
        try:
            other = ContinualSum(
                strategy=strategy,
                dimension=summed.dimension,
                increment_exponent=summed.increment_exponent,
                increment_bound=summed.increment_bound,
                record_shift=summed.record_shift,
                participation=summed.participation,
                kind=summed.kind,
                strength=summed.strength,
                scales=summed.scales,
            )
        except ConfigurationError as error:
            found.append({"strategy": strategy.name, "not_possible": str(error)})
            continue
        noise = _noise(other, last)
        found.append(
            {
                "strategy": strategy.name,
                "largest_standard_deviation": noise["largest_standard_deviation"],
                "most_vectors_in_memory": noise["most_vectors_in_memory"],
            }
        )
    return sorted(found, key=lambda item: item.get("largest_standard_deviation", float("inf")))


def _reason(config: Config, horizon: int | None) -> str:
    if config.learner.options.get("strategy", "auto") != "auto":
        return "the configuration names the strategy"
    remembered = ("window", "window_ticks", "decay")
    if any(config.learner.options.get(key) for key in remembered):
        return "the strategy for this memory that protects every record for ever"
    if horizon is None:
        return "the quietest running sum without a horizon, at constant epsilon"
    return "the quietest running sum for a known horizon that needs little memory"


def forecast_until(learner: Learner[Any], schedule: Schedule, last: int) -> list[dict[str, Any]]:
    """Predicted errors of a linear model up to a tick; nothing where there is no forecast."""
    if not isinstance(learner, PrivIncReg1) or not isinstance(schedule, EveryRecords | Thinning):
        return []
    ticks = _spread_ticks(last, _FORECASTS)
    found = forecast(learner, [(tick, schedule.end(tick)) for tick in ticks])
    return [dict(vars(item)) for item in found]


def _spread_ticks(last: int, count: int) -> list[int]:
    """So many ticks, each about the same factor after the one before, the first and the last."""
    return sorted({max(1, round(last ** (step / (count - 1)))) for step in range(count)})
