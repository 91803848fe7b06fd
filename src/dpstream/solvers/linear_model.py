"""A linear model of a domain, from the noisy moments of its records: what is published.

All post-processing: moments and public numbers in, a JSON-ready mapping out, in the domain's
scaled units and in the user's.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.domain import Domain
from dpstream.errors import ConfigurationError, require_kind
from dpstream.geometry.convex_set import LinearlyOptimizable, Projectable
from dpstream.geometry.l2_ball import L2Ball
from dpstream.mechanisms.moments import MomentLayout
from dpstream.solvers.constrained_quadratic import (
    Constraint,
    averaged_projected_gradient,
    lift_by_gauge,
)
from dpstream.solvers.interval import TargetSpread, Uncertainty, uncertainty
from dpstream.solvers.l1_penalty import L1Penalty
from dpstream.solvers.noisy_quadratic import NoisyQuadratic
from dpstream.solvers.quadratic import QuadraticSolution, solve_quadratic

SolverName = Literal["certified", "averaged_gradient"]

SCALED_TARGET_BOUND = 1.0
"""Scaled targets lie in the unit ball."""


def check_regularisation(
    *,
    penalty: float,
    ridge: float,
    radius: float | None,
    l1_penalty: float = 0.0,
    lasso: float = 0.0,
    bounded: bool = False,
) -> None:
    """Refuse penalties and radii that no problem can have.

    Args:
        penalty: ridge penalty per record.
        ridge: ridge penalty of the whole sum.
        radius: of the L2 ball, or None.
        l1_penalty: L1 penalty per record.
        lasso: L1 penalty of the whole sum.
        bounded: whether there is another set.

    Raises:
        ConfigurationError: naming the first that is wrong.
    """
    for name, value in (
        ("penalty", penalty),
        ("ridge", ridge),
        ("l1_penalty", l1_penalty),
        ("lasso", lasso),
    ):
        require_kind(value, (int, float, np.number), name, "give a number")
        if not (math.isfinite(value) and value >= 0.0):
            raise ConfigurationError(f"{name} is {value}; it must be finite and at least 0")
    if radius is not None and not 0.0 < radius < math.inf:
        raise ConfigurationError(f"radius is {radius}; it must be positive and finite")
    if (l1_penalty or lasso) and (bounded or radius is not None):
        name = "l1_penalty" if l1_penalty else "lasso"
        raise ConfigurationError(
            f"{name} and a set both hold the coefficients back, and an L1 ball does what the "
            "penalty does; leave one of them out (a ridge goes with either)"
        )


@dataclass(frozen=True, kw_only=True)
class LinearProblem:
    """What is minimised over t records, in scaled units, for every target on its own.

    ``sum (y_i - <x_i, theta> - b)^2 + (penalty t + ridge) |theta|^2 + (l1_penalty t + lasso)
    |theta|_1``, over ``|theta| <= radius`` or over the constraint's set. With a lift Phi the layout
    holds moments of the projected features ``v_i``, ``<v_i, Phi theta>`` replaces ``<x_i, theta>``,
    and of all theta with the same ``Phi theta`` the one of least gauge is taken, if the set
    contains the origin.

    Attributes:
        domain: the records' domain; the constant b is there if it has an intercept.
        layout: which moments are measured.
        penalty: ridge penalty per record.
        ridge: ridge penalty of the whole sum.
        radius: of the L2 ball, or None.
        constraint: another set, or None.
        l1_penalty: L1 penalty per record; not together with a set.
        lasso: L1 penalty of the whole sum; not together with a set.
        solver: how it is minimised.
    """

    domain: Domain
    layout: MomentLayout
    penalty: float
    ridge: float
    radius: float | None
    constraint: Constraint | None = None
    l1_penalty: float = 0.0
    lasso: float = 0.0
    solver: SolverName = "certified"

    def __post_init__(self) -> None:
        check_regularisation(
            penalty=self.penalty,
            ridge=self.ridge,
            radius=self.radius,
            l1_penalty=self.l1_penalty,
            lasso=self.lasso,
            bounded=self.constraint is not None,
        )
        weights = self.layout.weights
        needed = ("count", "x", "xx", "y", "xy") if self.domain.intercept else ("xx", "xy")
        missing = [block for block in needed if getattr(weights, block) == 0.0]
        if missing:
            raise ConfigurationError(
                f"moment weight {missing[0]!r} is 0, but the model needs that block; "
                "give it a positive weight"
            )
        if (
            self.constraint is not None
            and self.constraint.convex_set.dimension != self.domain.dimension
        ):
            raise ConfigurationError(
                f"the constraint has dimension {self.constraint.convex_set.dimension}, but the "
                f"domain has {self.domain.dimension} encoded features; declare the set in that "
                "dimension (a constant is never part of it)"
            )
        if self.solver == "averaged_gradient":
            _ = self._descent_set()

    @property
    def implied_radius(self) -> float | None:
        """A bound of the solution's norm that the penalty implies, or the declared radius.

        With ``|x| <= 1`` and ``|y| <= 1`` the ridge solution has norm at most ``1/penalty``, and
        at most ``1/(2 sqrt(penalty))`` (``linear_model.proof.md``).
        """
        if self.penalty == 0.0 or self.constraint is not None or self._sparse:
            return self.radius
        implied = min(1.0 / self.penalty, 0.5 / math.sqrt(self.penalty))
        return implied if self.radius is None else min(implied, self.radius)

    def model(
        self,
        moments: FloatArray,
        *,
        unit_variance: float,
        records: int | None,
        shrink: bool = True,
        intervals: bool = True,
        seed: int = 0,
    ) -> Mapping[str, Any]:
        """The model, its errors and what is known of the noise.

        Args:
            moments: the measured entries, as the layout orders them.
            unit_variance: noise variance of an entry of scale 1.
            records: how many records there are, or None if that is secret and was measured.
            shrink: whether the solver may shrink.
            intervals: whether standard errors and intervals are computed.
            seed: of the public bootstrap.
        """
        matrix = self.layout.matrix(moments)
        variances = self.layout.variances(unit_variance)
        count = float(matrix[0, 0]) if math.isfinite(float(variances[0, 0])) else None
        total = float(records) if records is not None else count
        if total is None:
            raise ConfigurationError(
                "ticks follow a clock and moment weight 'count' is 0: the number of records is "
                "neither public nor measured; give that block a positive weight"
            )
        if intervals and self._lift is not None:
            raise ConfigurationError(
                "intervals of projected regressions are not known: a projection's own error is "
                "not covered; turn them off"
            )
        total = max(total, 1.0)
        problem = self._quadratic(matrix, variances, total, records)
        solution = self._solve(problem, total, shrink=shrink)
        # An implied radius cannot bind on the noiseless problem: intervals need not know of it.
        stated = replace(problem, radius=self.radius)
        targets: list[dict[str, Any]] = []
        for index, name in enumerate(self.domain.target_names):
            place = 1 + self.layout.dimension + index
            spread = TargetSpread(
                square=float(matrix[place, place]),
                square_variance=float(variances[place, place]),
                count=total,
            )
            known = uncertainty(stated, spread, target=index, seed=seed) if intervals else None
            targets.append({"name": name, **self._report(index, solution, known)})
        error = math.sqrt(float(variances[0, 0]))
        return {
            "kind": "linear",
            "records": records,
            "count": None if count is None else {"value": count, "standard_error": error},
            "features": list(self.domain.feature_names),
            "targets": targets,
            "noise": {
                "standard_deviation": math.sqrt(unit_variance),
                "matrix_shrinkage": list(solution.matrix_shrinkage),
                "raised_eigenvalues": solution.raised,
            },
        }

    @property
    def _sparse(self) -> bool:
        """Whether there is an L1 penalty."""
        return self.l1_penalty > 0.0 or self.lasso > 0.0

    @property
    def _lift(self) -> FloatArray | None:
        return None if self.constraint is None else self.constraint.lift

    def _descent_set(self) -> Projectable:
        """The set that the paper's averaged gradient projects on.

        Raises:
            ConfigurationError: if there is none, or the problem has a constant or a penalty.
        """
        chosen = None if self.constraint is None else self.constraint.convex_set
        if self.radius is not None:
            chosen = L2Ball(dimension=self.domain.dimension, radius=self.radius)
        plain = not (self.domain.intercept or self.penalty or self.ridge or self._sparse)
        if not isinstance(chosen, Projectable) or not plain or self._lift is not None:
            raise ConfigurationError(
                "solver='averaged_gradient' repeats the paper's: it needs a set with a projection "
                "and a domain without intercept, without penalty; use solver='certified'"
            )
        return chosen

    def _solve(self, problem: NoisyQuadratic, total: float, *, shrink: bool) -> QuadraticSolution:
        solution = solve_quadratic(problem, shrink=shrink)
        if self.solver == "certified":
            return solution
        chosen = self._descent_set()
        columns = [
            averaged_projected_gradient(
                problem.gram,
                problem.cross[:, target],
                chosen,
                records=total,
                deviation=math.sqrt(float(problem.cross_variance[0, target])),
            )
            for target in range(problem.cross.shape[1])
        ]
        parameters = np.column_stack(columns)
        return replace(
            solution,
            parameters=parameters,
            points=parameters,
            gaps=(math.inf,) * len(columns),
        )

    def _lifted(self, solution: QuadraticSolution, target: int) -> FloatArray:
        """The constant, where there is one, and the features' parameters in the set."""
        parameters = solution.parameters[:, target]
        constraint = self.constraint
        if constraint is None or constraint.lift is None:
            return parameters
        first = 1 if self.domain.intercept else 0
        point = solution.points[:, target]
        chosen = constraint.convex_set
        if chosen.contains(np.zeros(chosen.dimension)) and isinstance(chosen, LinearlyOptimizable):
            point = lift_by_gauge(parameters[first:], constraint).point
        return np.concatenate([parameters[:first], point])

    def _quadratic(
        self, matrix: FloatArray, variances: FloatArray, total: float, records: int | None
    ) -> NoisyQuadratic:
        first = 0 if self.domain.intercept else 1
        inner = slice(first, 1 + self.layout.dimension)
        outer = slice(1 + self.layout.dimension, None)
        return NoisyQuadratic(
            gram=matrix[inner, inner],
            cross=matrix[inner, outer],
            gram_variance=variances[inner, inner],
            cross_variance=variances[inner, outer],
            penalty=self.penalty * total + self.ridge,
            constant=self.domain.intercept,
            radius=self.implied_radius,
            constraint=L1Penalty(
                dimension=self.layout.dimension,
                weight=0.5 * (self.l1_penalty * total + self.lasso),
            )
            if self._sparse
            else self.constraint,
            target_bound=SCALED_TARGET_BOUND,
            most_records=None if records is None else float(records),
        )

    def _report(
        self, target: int, solution: QuadraticSolution, known: Uncertainty | None
    ) -> dict[str, Any]:
        """One target's part of the model: scaled units, then the user's."""
        constant = self.domain.intercept
        mapping = self.domain.user_map(target)
        inner = slice(0 if constant else 1, None)
        matrix, offset = mapping.matrix[inner, inner], mapping.offset[inner]
        parameters = self._lifted(solution, target)
        gap = solution.gaps[target]
        report: dict[str, Any] = {
            **_parameters(parameters, known, constant),
            "user": _parameters(
                matrix @ parameters + offset,
                None if known is None else known.mapped(matrix, offset),
                constant,
            ),
            "shrinkage": float(solution.shrinkage[target]),
            "constraint_active": solution.active[target] and not self._sparse,
            "optimality_gap": gap if math.isfinite(gap) else None,
            "expected_noise_excess": float(solution.noise_excess[target]),
        }
        if known is not None:
            report |= {
                "interval_method": known.method,
                "noise_ratio": known.noise_ratio if math.isfinite(known.noise_ratio) else None,
                "residual_variance": known.residual_variance,
                "residual_variance_error": known.residual_error,
                "r_squared": known.r_squared,
            }
        return report


def _parameters(values: FloatArray, known: Uncertainty | None, constant: bool) -> dict[str, Any]:
    """Coefficients and intercept with their errors and intervals, as lists."""
    columns: dict[str, FloatArray | None] = {"estimate": values}
    if known is not None:
        columns |= {
            "unshrunk": known.centre,
            "noise_standard_error": known.noise_error,
            "total_standard_error": known.total_error,
            "noise_interval": known.noise_interval,
            "total_interval": known.total_interval,
        }
    first = 1 if constant else 0
    slopes = {
        key: None if column is None else column[first:].tolist() for key, column in columns.items()
    }
    heads = {key: None if column is None else column[0].tolist() for key, column in columns.items()}
    return {"coefficients": slopes, "intercept": heads if constant else None}
