"""Excess risk against dimension and number of records: the shapes that paper 001 proves.

The paper's risk is the largest over data sets, so each point is taken at data that are hard for
its size (001, section 6): every record holds the same weak signal ``v``, on which the logistic
loss is all but linear, and whose strength is a multiple of what the noise can hide. The largest
mean excess over a few multiples is the point's.

For the strongly convex problem the signal is fixed; for the LASSO by Frank-Wolfe the truth is
spread evenly over all columns, which no few vertices approximate.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.geometry.convex_set import ConvexSet, LinearlyOptimizable, support
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.geometry.simplex import Simplex
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.regularised import RegularisedLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import gaussian_noise_multiplier
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.report.figure import Line, line_figure
from dpstream.report.page import Block, Picture, Table, Text, render_page
from dpstream.reproduce.curve import CONFIDENCE, Curve
from dpstream.reproduce.geometry_claim import FULL_DATA, geometry_claims, geometry_pictures
from dpstream.solvers.frank_wolfe import FrankWolfe
from dpstream.solvers.mirror_descent import MirrorDescent
from dpstream.solvers.plan import Solver
from dpstream.solvers.problem import Problem

BUDGET = Budget(epsilon=1.0, delta=1e-6)
DIMENSIONS = (16, 32, 64, 128, 256, 512)
RECORDS = (500, 1000, 2000, 4000, 8000, 16000)
LASSO_RECORDS = (250, 500, 1000, 2000, 4000)
FIXED_RECORDS = 2000
FIXED_DIMENSION = 16
LASSO_DIMENSION = 1024
RIDGE = 0.5
STRENGTHS = (0.5, 1.0, 2.0)
"""Signals in units of what noise of the set's geometry hides."""


def _weak_signal(dimension: int, records: int, strength: float) -> tuple[Domain, Batch]:
    """Records that are all ``strength * e_1`` with label 1."""
    domain = Domain.vectors(dimension, norm_bound=1.0, target_bound=1.0)
    features = np.zeros((records, dimension))
    features[:, 0] = strength
    return domain, domain.admit(features, np.ones(records))


def _problem(
    loss: LogisticLoss | SquaredLoss | RegularisedLoss,
    convex_set: ConvexSet,
    domain: Domain,
    records: int,
) -> Problem:
    return Problem(
        loss=loss,
        convex_set=convex_set,
        domain=domain,
        records=records,
        neighbours=Neighbours.ZERO_OUT,
        unit=Unit(),
    )


def _runs(
    problem: Problem, solver: Solver, batch: Batch, *, draws: int, least: float, label: str
) -> FloatArray:
    """The excess of independent releases on one batch."""
    plan = solver.plan(problem, BUDGET)
    noise = Noise.insecure(0).child(label)
    return np.array(
        [
            problem.risk(solver.release(plan, batch, noise.child(str(draw))).parameters, batch)
            - least
            for draw in range(draws)
        ]
    )


def lipschitz_excess(convex_set: LinearlyOptimizable, *, records: int, draws: int) -> FloatArray:
    """At the hardest of a few weak signals, for the logistic loss and mirror descent."""
    dimension = convex_set.dimension
    hidden = gaussian_noise_multiplier(BUDGET) * convex_set.gaussian_width() / records
    worst = np.zeros(draws)
    for strength in STRENGTHS:
        domain, batch = _weak_signal(dimension, records, min(1.0, strength * hidden))
        problem = _problem(LogisticLoss(), convex_set, domain, records)
        reach = support(convex_set, batch.scaled_features[0])
        least = math.log1p(math.exp(-reach))
        excess = _runs(
            problem,
            MirrorDescent(),
            batch,
            draws=draws,
            least=least,
            label=f"{type(convex_set).__name__} {dimension} {records} {strength}",
        )
        worst = excess if excess.mean() > worst.mean() else worst
    return worst


def strongly_convex_excess(*, dimension: int, records: int, draws: int) -> FloatArray:
    """Of the regularised logistic loss on the L2 ball, for mirror descent."""
    domain, batch = _weak_signal(dimension, records, 0.25)
    problem = _problem(
        RegularisedLoss(loss=LogisticLoss(), ridge=RIDGE),
        L2Ball(dimension=dimension),
        domain,
        records,
    )
    signal = float(batch.scaled_features[0, 0])

    def risk(length: float) -> float:
        return math.log1p(math.exp(-signal * length)) + RIDGE / 2 * length**2

    least = optimize.minimize_scalar(
        risk, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-10}
    )
    return _runs(
        problem,
        MirrorDescent(),
        batch,
        draws=draws,
        least=risk(float(least.x)),
        label=f"strongly convex {records}",
    )


def lasso_excess(*, dimension: int, records: int, draws: int) -> FloatArray:
    """Of Frank-Wolfe on the LASSO with an even truth and columns of random signs, new each draw."""
    generator = public_generator(records)
    domain = Domain.vectors(dimension, norm_bound=1.0, target_bound=1.0, record_bound="max")
    problem = _problem(SquaredLoss(), L1Ball(dimension=dimension), domain, records)
    excess: list[FloatArray] = []
    for draw in range(draws):
        features = generator.choice([-1.0, 1.0], (records, dimension))
        truth = generator.choice([-1.0, 1.0], dimension) / dimension
        batch = domain.admit(features, features @ truth)
        # The truth is in the set and fits up to the grid: its risk is below 1e-10.
        label = f"lasso {records} {draw}"
        excess.append(_runs(problem, FrankWolfe(), batch, draws=1, least=0.0, label=label))
    return np.concatenate(excess)


def curves(*, draws: int) -> list[Curve]:
    """All experiments."""

    def curve(
        name: str,
        axis: str,
        expected: str,
        x: tuple[int, ...],
        point: Callable[[int], FloatArray],
    ) -> Curve:
        excess = np.column_stack([point(size) for size in x])
        return Curve(name=name, axis=axis, expected=expected, x=x, excess=excess)

    def lipschitz(size: int, kind: type[L2Ball | L1Ball | Simplex], records: int) -> FloatArray:
        return lipschitz_excess(kind(dimension=size), records=records, draws=draws)

    return [
        curve(
            "L2 ball",
            "dimension",
            "1/2",
            DIMENSIONS,
            lambda size: lipschitz(size, L2Ball, FIXED_RECORDS),
        ),
        curve(
            "L1 ball",
            "dimension",
            "0 (at most log p)",
            DIMENSIONS,
            lambda size: lipschitz(size, L1Ball, FIXED_RECORDS),
        ),
        curve(
            "simplex",
            "dimension",
            "0 (at most log p)",
            DIMENSIONS,
            lambda size: lipschitz(size, Simplex, FIXED_RECORDS),
        ),
        curve(
            "Lipschitz, L2 ball",
            "records",
            "-1",
            RECORDS,
            lambda size: lipschitz(FIXED_DIMENSION, L2Ball, size),
        ),
        curve(
            "strongly convex, L2 ball",
            "records",
            "-2",
            RECORDS,
            lambda size: strongly_convex_excess(
                dimension=FIXED_DIMENSION, records=size, draws=draws
            ),
        ),
        curve(
            "LASSO by Frank-Wolfe",
            "records",
            "-2/3",
            LASSO_RECORDS,
            lambda size: lasso_excess(
                dimension=LASSO_DIMENSION, records=size, draws=max(2, draws // 2)
            ),
        ),
    ]


def geometry(out: Path | None = None, *, draws: int = 16) -> dict[str, Any]:
    """Run all experiments; with ``out``, write ``geometry.html`` there.

    Args:
        out: a folder for the page, made if it is missing; None for numbers alone.
        draws: of the noise per point, at least 2.

    Returns:
        JSON-ready: per curve its points, slope and interval; claims with verdicts; pictures.
    """
    found = curves(draws=draws)
    rows = [curve.to_json() for curve in found]
    result: dict[str, Any] = {
        "name": "geometry",
        "epsilon": BUDGET.epsilon,
        "delta": BUDGET.delta,
        "neighbours": Neighbours.ZERO_OUT.value,
        "confidence": CONFIDENCE,
        "curves": rows,
        "claims": geometry_claims(rows),
        "full_data": FULL_DATA,
    }
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        page = out / "geometry.html"
        page.write_text(_page(found), encoding="utf-8")
        result["page"] = str(page)
        result["pictures"] = geometry_pictures(rows, out)
    return result


def _page(found: Sequence[Curve]) -> str:
    sections: list[tuple[str, Sequence[Block]]] = []
    for axis in ("dimension", "records"):
        chosen = [curve for curve in found if curve.axis == axis]
        lines = {curve.name: _line(curve) for curve in chosen}
        picture = line_figure(lines, x_label=axis, y_label="excess risk", x_log=True, y_log=True)
        rows = [(curve.name, curve.expected, *curve.slope()) for curve in chosen]
        caption = "; ".join(
            f"{name}: slope {slope:.2f} (expected {expected})"
            for name, expected, slope, _, _ in rows
        )
        header = ("set", "expected slope", "slope", "lower", "upper")
        sections.append(
            (f"Excess risk against {axis}", [Picture(picture, caption), Table(header, rows)])
        )
    sections.append(("Setup", [Text(line) for line in str(__doc__).split("\n\n")]))
    lead = f"epsilon = {BUDGET.epsilon:g}, delta = {BUDGET.delta:g}, {Neighbours.ZERO_OUT.value}"
    return render_page("Geometry of private empirical risk minimisation", lead, sections)


def _line(curve: Curve) -> Line:
    error = 2.0 * curve.excess.std(axis=0, ddof=1) / math.sqrt(len(curve.excess))
    return Line(
        x=np.array(curve.x, np.float64),
        y=curve.mean,
        lower=np.maximum(curve.mean - error, curve.mean / 10),
        upper=curve.mean + error,
        marker=True,
    )
