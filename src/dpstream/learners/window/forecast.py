"""Plans of learners over blocks, as plain values: who pays what, and which memory suits a drift.

Nothing here sees data or draws noise: budgets, noise and ages follow from the public schedule.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.errors import ConfigurationError
from dpstream.learners.window.block_learner import BlockLearner
from dpstream.learners.window.bucket import Fit
from dpstream.learners.window.continual_release import ContinualRelease
from dpstream.learners.window.decayed_release import DecayedRelease
from dpstream.learners.window.fit import FitPlan
from dpstream.learners.window.sliding_window import SlidingWindowRelease

_LOOK_AHEAD = 4096
"""Blocks that a plan steps through."""

_STEADY = 128
"""After how many blocks memories of an endless stream are compared."""

_FIRST_BASE = 8
"""Blocks before the cumulative memory's first model: refits of fewer would cost it the most."""

_WINDOWS = (2, 4, 8, 16, 32, 64)
"""Of the memories that a configured one is compared with, in blocks."""


def budget_levels(learner: BlockLearner, *, blocks: int | None = None) -> list[dict[str, Any]]:
    """What the fits of the block that pays most cost, by their size, largest first.

    Args:
        learner: the calibrated learner.
        blocks: how many to step through; None for the horizon, or a few rounds of the rule.

    Returns:
        For every size: ``blocks`` and ``records`` of a fit, ``fits`` that use the block,
        ``fraction`` of the budget that these cost together (of ``mu^2`` for Gaussian noise, of
        epsilon for pure noise), ``noise`` in each parameter of the last of them and
        ``noise_length`` of all parameters. Fractions sum to at most 1; to 1 in the limit.
    """
    last = blocks or min(learner.horizon or 8 * learner.rule.first + 32, _LOOK_AHEAD)
    power = learner.solver.power
    paid = np.zeros(last)
    uses: list[tuple[Fit, float]] = []
    for closed in range(1, last + 1):
        step = learner.rule.step(closed)
        for depth, fit in enumerate(step.fits, start=step.keep):
            paid[fit.start : fit.end] += float(fit.size) ** -power
            uses.append((fit, _modulus(learner, fit, closed, depth)))
    worst = int(paid.argmax())
    by_size: defaultdict[int, list[float]] = defaultdict(list)
    for fit, modulus in uses:
        if fit.start <= worst < fit.end:
            by_size[fit.size].append(modulus)
    levels: list[dict[str, Any]] = []
    for size in sorted(by_size, reverse=True):
        plan = learner.solver.plan(size, by_size[size][-1])
        levels.append(
            {
                "blocks": size,
                "records": size * learner.block_records,
                "fits": len(by_size[size]),
                "fraction": plan.fraction * len(by_size[size]),
                "noise": plan.noise.scale,
                "noise_length": plan.noise.length,
            }
        )
    return levels


def longest_history(learner: BlockLearner, *, publish_every: int = 1) -> int | None:
    """The most closed blocks whose records are kept for later fits; None if that has no bound.

    Args:
        learner: the calibrated learner.
        publish_every: of the schedule: fits of ticks between releases wait for the next one, and
            their records with them; 0 if the next one is not known.
    """
    horizon, rule = learner.horizon, learner.rule
    # An endless rule keeps a bounded part, or all; no window is as long as this.
    whole = rule.keep_from(1 << 60, None) <= 1 << 59
    if horizon is None and (whole or publish_every == 0):
        return None
    # The most are kept just before a release, or at the end.
    step = publish_every or 1 + (horizon or 0)
    last = horizon or step * (8 * rule.first + 32)
    return max(
        min(released + step - 1, last) - rule.keep_from(released, horizon)
        for released in range(0, last + 1, step)
    )


def balanced_ridge(learner: BlockLearner) -> float:
    """The ridge whose bias and noise have bounds of the same size, for the fit that pays most.

    A ridge g pulls a model as long as the ball's radius R by at most ``g R^2 / 2`` in mean loss;
    its noise, which is inverse to g, costs at most L times its length. The sum is least at
    ``sqrt(2 L noise(1)) / R``. Where losses have curvature, somewhat less is often better.
    """
    most = max(budget_levels(learner), key=lambda level: float(level["fraction"]))
    plan = learner.solver.plan(int(most["blocks"]), learner.ridge)
    slope = learner.solver.problem(plan.size).lipschitz.l2
    return math.sqrt(2.0 * slope * plan.noise.length * plan.modulus) / learner.radius


def _modulus(learner: BlockLearner, fit: Fit, closed: int, depth: int) -> float:
    """Of a fit onto so many models below it; a source is taken to have released one."""
    centred = learner.source is not None or (fit.centred and depth > 0)
    return learner.modulus(closed, centred=centred)


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What a released model is made of, where the loss has little curvature beside the ridge.

    Attributes:
        weights: of blocks, the oldest first; they sum to 1.
        noise: the root mean square length of the noise in the model.
    """

    weights: FloatArray
    noise: float

    @property
    def mean_age(self) -> float:
        """Of the records, in blocks; 0 for the newest."""
        ages = np.arange(len(self.weights))[::-1]
        return float(self.weights @ ages)


def memory(learner: BlockLearner, block: int) -> Memory:
    """The memory of the model released after a block.

    A fit of s blocks with modulus m moves its centre by their mean gradient over m, and adds its
    noise. With curvature a fit forgets more of its centre, and of its noise, than this says.

    Raises:
        ConfigurationError: if there is no model yet, or the block lies beyond the horizon.
    """
    last = learner.horizon if learner.horizon is not None else block
    if not learner.rule.first <= block <= last:
        raise ConfigurationError(
            f"block is {block}; a model is there from block {learner.rule.first} on"
            + ("" if learner.horizon is None else f", up to {learner.horizon}")
        )
    empty = np.zeros(block)
    stack: list[tuple[FloatArray, float]] = []
    zero, one = np.zeros(1), np.ones(1)
    plans: dict[tuple[int, float], FitPlan] = {}
    for closed in range(1, block + 1):
        step = learner.rule.step(closed)
        stack = stack[: step.keep]
        for fit in step.fits:
            below = stack[-1] if fit.centred and stack else None
            key = (fit.size, _modulus(learner, fit, closed, len(stack)))
            plan = plans[key] = plans.get(key) or learner.solver.plan(*key)
            gain = empty.copy()
            gain[fit.start : fit.end] = 1.0 / (plan.modulus * fit.size)
            variance = plan.noise.length**2
            if below is not None:
                kept = float(learner.centre(closed, one, zero)[0])
                gain += kept * below[0]
                variance += kept**2 * below[1]
            stack.append((gain, variance))
        if step.forget:
            stack = stack[-1:]
    gain, variance = stack[-1]
    return Memory(weights=gain / gain.sum(), noise=math.sqrt(variance))


def drift_plan(
    learners: Mapping[str, BlockLearner],
    *,
    block: int,
    drift: float = 0.0,
    change: float = 0.0,
    changed_at: int = 0,
) -> list[dict[str, Any]]:
    """Bias against noise of several memories, for a guess of the drift: the best one first.

    Args:
        learners: by name; of one domain and loss, else their figures do not compare.
        block: after which the models are compared.
        drift: a guess of how far the best parameters move with every block, in one direction
            and in scaled units.
        change: a guess of how far they jumped at once, besides.
        changed_at: the first block, from 0, after the jump.

    Returns:
        For each: ``bias`` (how far the records' average lies behind), ``noise`` (the root mean
        square length of the privacy noise) and ``error``, the root of the sum of their squares.
        Sampling error and the ridge's own bias are not in it.

    Raises:
        ConfigurationError: if a guess is negative.
    """
    for name, value in (("drift", drift), ("change", change)):
        if not (math.isfinite(value) and value >= 0.0):
            raise ConfigurationError(f"{name} is {value}; it must be finite and at least 0")
    found: list[dict[str, Any]] = []
    for name, learner in learners.items():
        held = memory(learner, block)
        stale = float(held.weights[: max(0, changed_at)].sum())
        bias = drift * held.mean_age + change * stale
        found.append(
            {
                "name": name,
                "learner": learner.name,
                "block": block,
                "mean_age": held.mean_age,
                "bias": bias,
                "noise": held.noise,
                "error": math.hypot(bias, held.noise),
            }
        )
    return sorted(found, key=lambda item: item["error"])


def rival_memories(learner: BlockLearner, block: int) -> dict[str, BlockLearner]:
    """The learner, and others of the same loss, blocks and budget that remember more or less.

    Args:
        learner: as configured.
        block: after which they are compared: all have a model there.

    Returns:
        By name: windows, forgetting that is as quiet as each of these, and everything.
    """
    settings: dict[str, Any] = {
        "domain": learner.domain,
        "budget": learner.budget,
        "unit": learner.unit,
        "neighbours": learner.neighbours,
        "horizon": learner.horizon,
        "loss": learner.loss,
        "block_records": learner.block_records,
        "ridge": learner.ridge,
        "radius": learner.radius,
        "noise": learner.noise,
        "source": learner.source,
        "base_solver": learner.base_solver,
    }
    found: dict[str, BlockLearner] = {"as configured": learner}
    for window in (window for window in _WINDOWS if window <= block):
        decay = (window - 1) / (window + 1)
        found[f"sliding, {window} blocks"] = SlidingWindowRelease(
            window_records=window * learner.block_records, **settings
        )
        found[f"decayed, {decay:.2f} per block"] = DecayedRelease(decay=decay, **settings)
    # Pure noise cannot refit everything for ever.
    endless = learner.noise != "gaussian" and learner.horizon is None
    found["cumulative"] = ContinualRelease(
        base=min(_FIRST_BASE, block), updates="doubling" if endless else "refit", **settings
    )
    return found


def comparison_block(learner: BlockLearner, wanted: int | None) -> int:
    """After which block memories are compared: the horizon's last, or one at which all are full.

    Raises:
        ConfigurationError: if the learner has no model there yet, or the horizon ends before.
    """
    block = wanted or min(learner.horizon or _STEADY, _LOOK_AHEAD)
    last = learner.horizon or block
    if not learner.rule.first <= block <= last:
        raise ConfigurationError(
            f"block is {block}; the configured learner has a model from block "
            f"{learner.rule.first} on" + (f", up to {last}" if learner.horizon else "")
        )
    return block
