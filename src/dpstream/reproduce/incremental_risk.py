"""Excess risk of the incremental learners at the last tick of a stream, for each noise draw.

Each learner is calibrated by itself and solves by itself; only its noise is drawn from its law,
with public randomness, instead of through its nodes, so that a million ticks cost nothing. What is
``printed`` is the paper's, for comparison: it promises nothing.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.domain import Domain
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.learners.incremental.forecast import simulated_parameters
from dpstream.learners.incremental.priv_inc_erm import PrivIncERM
from dpstream.learners.incremental.priv_inc_reg1 import PrivIncReg1
from dpstream.learners.incremental.priv_inc_reg2 import PrivIncReg2
from dpstream.learners.incremental.prospect import simulated_refit
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.reproduce.weighted_stream import Ball, WeightedStream, signal_stream
from dpstream.solvers.constrained_quadratic import averaged_projected_gradient, gradient_error
from dpstream.solvers.moment_regression import MomentRegression

DELTA = 1e-6
STRENGTHS = (0.5, 0.7, 1.0, 1.4, 2.0)
"""Weak signals in units of what the noise hides over the set: the deviation times its width."""

LOUDER = (4.0, 8.0, 16.0)
"""Further ones, for solvers that also miss what stands out of the noise."""

FRESH = 1
"""The place of the news that a model which is not refitted misses."""


def declared(ball: Ball, *, records: int, epsilon: float) -> dict[str, Any]:
    """What all learners are told: a tick for every record, as in the paper."""
    return {
        "domain": Domain.vectors(ball.dimension, norm_bound=1.0, target_bound=1.0),
        "budget": Budget(epsilon=epsilon, delta=DELTA),
        "unit": Unit(),
        "neighbours": Neighbours.REPLACE,
        "horizon": records,
        "constraint": ball,
        "tick_records": 1,
    }


def hardest(excess: Callable[[float], FloatArray], strengths: Sequence[float]) -> FloatArray:
    """The excess at the strength of the largest mean: the paper's risk is the worst data set's."""
    return max((excess(strength) for strength in strengths), key=lambda found: float(found.mean()))


# --- PrivIncReg1 ----------------------------------------------------------------------------------


def first_learner(
    ball: Ball, *, records: int, epsilon: float = 1.0, printed: bool = False
) -> PrivIncReg1:
    """PrivIncReg1; as printed with the paper's constants and its averaged descent."""
    settings: dict[str, Any] = declared(ball, records=records, epsilon=epsilon)
    settings["intervals"] = False
    if not printed:
        return PrivIncReg1(**settings)
    return PrivIncReg1(
        **settings, calibration="paper", reproduction=True, solver="averaged_gradient"
    )


def first_excess(learner: PrivIncReg1, stream: WeightedStream, *, draws: int) -> FloatArray:
    """Of PrivIncReg1 on a stream."""
    ball = _ball(learner.constraint)
    exact, least = stream.moments(learner.layout, stream.batch), stream.least(ball)
    found = [
        simulated_parameters(
            learner.problem,
            exact,
            unit_variance=learner.unit_variance(stream.records),
            records=stream.records,
            shrink=learner.shrink,
            generator=public_generator(draw),
        )[1:]
        for draw in range(draws)
    ]
    return np.array([stream.risk(parameters) - least for parameters in found])


def _ball(constraint: Any) -> Ball:
    assert isinstance(constraint, L1Ball | L2Ball)
    return constraint


def hidden(learner: PrivIncReg1, records: int) -> float:
    """The size of a record at which all of them together are just hidden, over the set."""
    deviation = math.sqrt(learner.unit_variance(records)) / learner.layout.weights.xy
    return deviation * _ball(learner.constraint).gaussian_width() / records


def first_hardest(
    ball: Ball, *, records: int, epsilon: float = 1.0, draws: int, printed: bool = False
) -> FloatArray:
    """Of PrivIncReg1 at the hardest weak signal: every record ``s e_1`` with target 1."""
    learner = first_learner(ball, records=records, epsilon=epsilon, printed=printed)
    unit = hidden(learner, records)

    def excess(strength: float) -> FloatArray:
        size = min(1.0, strength * unit)
        stream = signal_stream(learner.domain, [(records, 0, size)])
        return first_excess(learner, stream, draws=draws)

    return hardest(excess, (*STRENGTHS, *LOUDER))


def printed_bound(ball: Ball, *, records: int) -> float:
    """What the paper proves of PrivIncReg1 as printed: ``2 alpha |C|`` (corollary C.2)."""
    learner = first_learner(ball, records=records, printed=True)
    deviation = math.sqrt(learner.unit_variance(records)) / learner.layout.weights.xy
    reach = ball.l2_radius()
    return 2.0 * gradient_error(deviation, ball.dimension, reach) * reach


# --- PrivIncERM -----------------------------------------------------------------------------------


def refit_hardest(
    ball: Ball,
    *,
    records: int,
    epsilon: float = 1.0,
    draws: int,
    refit_every: Literal["convex", "auto"] = "convex",
    printed: bool = False,
) -> FloatArray:
    """Of PrivIncERM just before its last refit, with news since the one before.

    Every record is ``s e_1`` with target 1 up to the last model's refit, and ``e_2`` with target 1
    since: what the noise hides and what came too late are both in the excess, as in the proof of
    theorem 3.1.

    Args:
        ball: the set.
        records: T.
        epsilon: the budget's.
        draws: of the noise.
        refit_every: tau.
        printed: split the budget as printed, ``epsilon / (2 sqrt(2 l ln(2 / delta)))`` and
            ``delta / (2 l)`` for each of l refits.
    """
    settings = declared(ball, records=records, epsilon=epsilon)
    solver = MomentRegression()
    learner = PrivIncERM(**settings, loss=SquaredLoss(), solver=solver, refit_every=refit_every)
    count = max(2, records // learner.interval)
    fitted = (count - 1) * learner.interval
    plan = learner.plan(count - 1, fitted)
    if printed:
        share = epsilon / (2.0 * math.sqrt(2.0 * count * math.log(2.0 / DELTA)))
        plan = solver.plan(plan.problem, Budget(epsilon=share, delta=DELTA / (2.0 * count)))
    layout = solver.layout(plan.problem)
    unit = plan.noise_scales["moments"] / layout.weights.xy * ball.gaussian_width() / fitted
    news = (learner.interval - 1, FRESH, 1.0)

    def excess(strength: float) -> FloatArray:
        past = [(fitted, 0, min(1.0, strength * unit))]
        seen = signal_stream(learner.domain, past)
        # With tau 1 there is no news.
        whole = signal_stream(learner.domain, [*past, news] if news[0] else past)
        exact, least = seen.moments(layout, seen.batch), whole.least(ball)
        found = [
            simulated_refit(solver, plan, exact, public_generator(draw))[1:]
            for draw in range(draws)
        ]
        return np.array([whole.risk(parameters) - least for parameters in found])

    return hardest(excess, STRENGTHS)


# --- PrivIncReg2 ----------------------------------------------------------------------------------


def second_learner(ball: Ball, *, records: int, seed: int, **options: Any) -> PrivIncReg2:
    """PrivIncReg2, with m by predicted risk unless it is given."""
    settings = declared(ball, records=records, epsilon=1.0)
    return PrivIncReg2(**settings, projection_seed=seed, expected_records=records, **options)


def second_excess(learner: PrivIncReg2, stream: WeightedStream, *, draws: int) -> FloatArray:
    """Of PrivIncReg2 on a stream."""
    ball = _ball(learner.constraint)
    seen = learner.features.project(stream.batch)
    exact, least = stream.moments(learner.layout, seen), stream.least(ball)
    found = [
        simulated_parameters(
            learner.problem,
            exact,
            unit_variance=learner.stream.unit_variance(stream.records),
            records=stream.records,
            shrink=learner.shrink,
            generator=public_generator(draw),
        )[1:]
        for draw in range(draws)
    ]
    return np.array([stream.risk(parameters) - least for parameters in found])


def descent_excess(
    learner: PrivIncReg1 | PrivIncReg2, stream: WeightedStream, *, draws: int
) -> FloatArray:
    """With tight noise, but solved by the paper's descent, in d or in m dimensions."""
    ball = _ball(learner.constraint)
    projection = learner.features if isinstance(learner, PrivIncReg2) else None
    seen = stream.batch if projection is None else projection.project(stream.batch)
    lift = None if projection is None or projection.trivial else projection.matrix
    layout, least = learner.layout, stream.least(ball)
    deviation = math.sqrt(learner.stream.unit_variance(stream.records))
    exact, found = stream.moments(layout, seen), list[float]()
    inner, target = slice(1, 1 + layout.dimension), 1 + layout.dimension
    for draw in range(draws):
        noise = public_generator(draw).standard_normal(exact.size) * deviation / layout.scales
        matrix = layout.matrix(exact + noise)
        gram, cross = matrix[inner, inner], matrix[inner, target]
        if lift is not None:
            gram, cross = lift.T @ gram @ lift, cross @ lift
        parameters = averaged_projected_gradient(
            gram,
            cross,
            ball,
            records=stream.records,
            deviation=deviation / layout.weights.xy,
            noisy_dimension=layout.dimension,
        )
        found.append(stream.risk(parameters) - least)
    return np.array(found)


def descent_hardest(
    learners: Sequence[PrivIncReg1 | PrivIncReg2],
    *,
    records: int,
    strengths: Sequence[float],
    draws: int,
) -> FloatArray:
    """Of the paper's descent at the hardest of weak signals of one feature each.

    Args:
        learners: whose noise and projections are used; their excess is put side by side.
        records: T.
        strengths: signals in units of one entry's noise deviation.
        draws: of the noise, for each learner.
    """

    def excess(strength: float) -> FloatArray:
        return np.concatenate(
            [
                descent_excess(learner, _one_signal(learner, records, strength), draws=draws)
                for learner in learners
            ]
        )

    return hardest(excess, strengths)


def second_hardest(learners: Sequence[PrivIncReg2], *, records: int, draws: int) -> FloatArray:
    """Of PrivIncReg2 at the hardest weak signal of one feature, side by side."""
    width = _ball(learners[0].constraint).gaussian_width()

    def excess(strength: float) -> FloatArray:
        return np.concatenate(
            [
                second_excess(learner, _one_signal(learner, records, strength * width), draws=draws)
                for learner in learners
            ]
        )

    return hardest(excess, (*STRENGTHS, *LOUDER))


def _one_signal(
    learner: PrivIncReg1 | PrivIncReg2, records: int, strength: float
) -> WeightedStream:
    deviation = math.sqrt(learner.stream.unit_variance(records)) / learner.layout.weights.xy
    size = min(1.0, strength * deviation / records)
    return signal_stream(learner.domain, [(records, 0, size)])
