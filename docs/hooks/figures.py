"""The picture of every algorithm, drawn when the site is built, by the project's own module.

Strategies show their own formulas, learners a run on the shipped flights, solvers their error on
made-up records beside what their plan promised.
"""

from dataclasses import dataclass, replace

import numpy as np
from flight_run import AHEAD, QUIET, RECORDS, course, running_mean

from dpstream.arrays import FloatArray
from dpstream.bench.sums import BUDGET, lower_bound, prepared
from dpstream.catalogue.entry import Entry, Kind
from dpstream.cli.part import SOLVERS
from dpstream.domain.column import Numeric
from dpstream.domain.domain import Domain
from dpstream.domain.target import IntervalTarget, LabelTarget
from dpstream.geometry.convex_set import ConvexSet
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.regularised import RegularisedLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.continual.choice import sum_strategy
from dpstream.mechanisms.continual.prediction import revealing_ticks, standard_deviations
from dpstream.mechanisms.continual.strategy import Strategy
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.report.figure import Line, line_figure
from dpstream.solvers.choice import rank
from dpstream.solvers.problem import Problem

HORIZON, WINDOW, DECAY, TICKS = 1_024, 32, 0.95, 128

STRATEGY_NAMES = {
    "BinaryTree": "binary_tree",
    "HonakerTree": "honaker_tree",
    "Hybrid": "hybrid",
    "SquareRootToeplitz": "square_root_toeplitz",
    "BufferedToeplitz": "blt",
    "ToeplitzChain": "chain",
    "DecayedToeplitz": "decayed_toeplitz",
    "SlidingToeplitz": "sliding_toeplitz",
    "WindowTree": "window_tree",
    "ExpiringToeplitz": "expiring_toeplitz",
}
"""The name in a configuration of every strategy of the catalogue."""

EXAMPLES = {
    "RunningSum": "mean_delay",
    "PrivIncReg1": "flights",
    "PrivIncReg2": "projected_regression",
    "PrivIncERM": "refit_late",
    "AutoIncremental": "chosen_regression",
    "MultiResolutionRelease": "late_resolutions",
    "ContinualRelease": "late_continual",
    "BasicRelease": "late_basic",
    "SlidingWindowRelease": "late_window",
    "DecayedRelease": "late_decayed",
    "WindowedRegression": "recent_regression",
    "FollowTheLeader": "late",
    "POCP": "late_perturbed",
}
"""The example configuration that stands for every learner of the catalogue."""


@dataclass(frozen=True)
class Picture:
    """An SVG, and what it shows in words."""

    svg: str
    caption: str


def picture(entry: Entry) -> Picture:
    """The picture of a catalogued strategy, learner or solver."""
    if entry.kind is Kind.STRATEGY:
        return _strategy(entry)
    if entry.kind is Kind.LEARNER:
        return _running_sum() if entry.name == "RunningSum" else _learner(entry)
    return _solver(entry)


# --- strategies --------------------------------------------------------------------------------


def made_strategy(name: str) -> Strategy:
    """A strategy at the sizes of the pictures, by its catalogued name."""
    short = STRATEGY_NAMES[name]
    windowed = name in ("SlidingToeplitz", "WindowTree", "ExpiringToeplitz")
    return sum_strategy(
        short,
        horizon=HORIZON,
        window=WINDOW if windowed else None,
        decay=DECAY if name == "DecayedToeplitz" else None,
    )


_BESIDE = {
    "BinaryTree": ("HonakerTree", "BufferedToeplitz"),
    "HonakerTree": ("BinaryTree", "BufferedToeplitz"),
    "Hybrid": ("ToeplitzChain",),
    "SquareRootToeplitz": ("BufferedToeplitz",),
    "BufferedToeplitz": ("HonakerTree", "BinaryTree"),
    "ToeplitzChain": ("Hybrid", "BufferedToeplitz"),
    "DecayedToeplitz": ("ToeplitzChain",),
    "SlidingToeplitz": ("ToeplitzChain",),
    "WindowTree": ("ExpiringToeplitz",),
    "ExpiringToeplitz": ("WindowTree",),
}
_WHAT = {
    "DecayedToeplitz": f"decay {DECAY} per tick",
    "SlidingToeplitz": f"window of {WINDOW} ticks",
    "WindowTree": f"window of {WINDOW} ticks",
    "ExpiringToeplitz": f"window of {WINDOW} ticks",
    "ToeplitzChain": "no horizon",
    "Hybrid": "no horizon",
}


def _strategy(entry: Entry) -> Picture:
    ticks = revealing_ticks(TICKS)
    lines = {}
    for name in (entry.name, *_BESIDE[entry.name]):
        strategy = made_strategy(name)
        scale = prepared(strategy).sigma
        y = standard_deviations(strategy, ticks, scale=scale)
        what = _WHAT.get(name, f"horizon {HORIZON:,}")
        lines[f"{name}, {what}"] = Line(x=ticks.astype(float), y=y)
    running = entry.name not in ("DecayedToeplitz", "SlidingToeplitz", "WindowTree")
    running = running and entry.name != "ExpiringToeplitz"
    unit = prepared(made_strategy("BufferedToeplitz"))
    single = 1.0 / unit.kind.shift_per_noise(unit.strength)
    references = (
        {f"no largest deviation over {TICKS:,} ticks lies below": lower_bound(TICKS, single)}
        if running
        else {"one measurement alone": single}
    )
    svg = line_figure(
        lines,
        x_label="tick",
        y_label="standard deviation of the released sum",
        references=references,
    )
    return Picture(
        svg,
        f"Noise of every release, from the strategies' own formulas: epsilon {BUDGET.epsilon:g}, "
        f"delta {BUDGET.delta:g}, one record of norm 1 made null.",
    )


# --- learners ----------------------------------------------------------------------------------


def _running_sum() -> Picture:
    records, means, halves, truth = running_mean()
    svg = line_figure(
        {
            "published, with two standard errors of the noise": Line(
                x=records, y=means, lower=means - halves, upper=means + halves
            ),
            "exact mean of the same flights": Line(x=records, y=truth),
        },
        x_label="flights",
        y_label="mean departure delay (minutes)",
    )
    return Picture(svg, f"`mean_delay.toml` on the first {RECORDS:,} of the shipped flights.")


def _learner(entry: Entry) -> Picture:
    name = EXAMPLES[entry.name]
    private, quiet = course(name), course(name, epsilon=QUIET)
    labelled = name.startswith(("late", "refit"))
    svg = line_figure(
        {
            "as configured, epsilon 1": Line(x=private.records, y=private.error),
            f"the same with almost no noise, epsilon {QUIET:,.0f}": Line(
                x=quiet.records, y=quiet.error
            ),
            "a constant": Line(x=private.records, y=private.trivial),
        },
        x_label="flights",
        y_label="log-loss" if labelled else "root mean square error (minutes)",
        y_log=bool(private.error.max() > 8.0 * private.error.min()),
    )
    return Picture(
        svg,
        f"`{name}.toml` on the first {RECORDS:,} of the shipped flights: the error of every "
        f"published model on the {AHEAD:,} flights that follow it. One run, with the noise of a "
        "fixed test seed.",
    )


# --- solvers -----------------------------------------------------------------------------------

SIZES = (500, 1_000, 2_000, 4_000)
SOLVER_BUDGET = Budget(epsilon=1.0, delta=1e-6)
FEATURES = 8
_SPARSE_FEATURES = 16
_SPARSE = ("FrankWolfe", "Lasso")
_SQUARED = ("FrankWolfe", "Lasso", "MomentRegression")
_RIDGE = 0.01
_FREE = (*_SPARSE, "MomentRegression", "GaussianFrankWolfe", "FadingRegulariser")


def solver_problem(name: str, records: int) -> Problem:
    """A problem that suits the solver: squared on an L1 ball, or logistic on an L2 ball."""
    features = _SPARSE_FEATURES if name in _SPARSE else FEATURES
    target = (
        IntervalTarget("y", lower=-1.0, upper=1.0)
        if name in _SQUARED
        else LabelTarget("y", labels=("no", "yes"))
    )
    columns = [Numeric(f"x{place}", lower=-1.0, upper=1.0) for place in range(features)]
    domain = Domain(columns, targets=[target], intercept=False)
    chosen: ConvexSet = (
        L1Ball(dimension=features, radius=1.0)
        if name in _SPARSE
        else L2Ball(dimension=features, radius=2.0)
    )
    loss = SquaredLoss() if name in _SQUARED else LogisticLoss()
    return Problem(
        loss=loss if name in _FREE else RegularisedLoss(loss=loss, ridge=_RIDGE),
        convex_set=chosen,
        domain=domain,
        records=records,
        neighbours=Neighbours.ZERO_OUT,
        unit=Unit(),
    )


def _solver(entry: Entry) -> Picture:
    solver = next(make for make in SOLVERS.parts.values() if make.__name__ == entry.name)()
    reached: list[float] = []
    loud: list[float] = []
    bounds: list[float] = []
    for records in SIZES:
        problem = solver_problem(entry.name, records)
        for epsilon, found in ((SOLVER_BUDGET.epsilon, reached), (4.0, loud)):
            budget = replace(SOLVER_BUDGET, epsilon=epsilon)
            best = rank(problem, budget, solvers={entry.name: solver}, simulated_records=records)
            found.append(best.best.simulated)
            if found is reached:
                bounds.append(best.best.bound)
    sizes = np.array(SIZES, np.float64)
    svg = line_figure(
        {
            "epsilon 1": Line(x=sizes, y=_above(reached), marker=True),
            "epsilon 4": Line(x=sizes, y=_above(loud), marker=True),
            "the plan's own bound, epsilon 1": Line(x=sizes, y=np.array(bounds)),
        },
        x_label="records",
        y_label="excess risk",
        y_log=True,
    )
    problem = solver_problem(entry.name, SIZES[0])
    ball = "L1 ball" if entry.name in _SPARSE else "L2 ball"
    return Picture(
        svg,
        f"Excess risk over the best model found, the mean of three draws of noise on made-up "
        f"records: {problem.loss.name} loss, {problem.dimension} features, {ball} of radius "
        f"{problem.convex_set.l2_radius():g}, delta {SOLVER_BUDGET.delta:g}.",
    )


def _above(values: list[float]) -> FloatArray:
    """Excess risks as a logarithmic axis takes them; zero is drawn at a millionth."""
    return np.maximum(np.array(values), 1e-6)
