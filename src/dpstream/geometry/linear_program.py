"""Linear programs and nonnegative least squares: the one door to scipy's solvers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize

from dpstream.arrays import FloatArray
from dpstream.errors import CertificateError, ConfigurationError

INFEASIBLE = 2
UNBOUNDED = 3


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """``matrix x <= limits``, ``equal_matrix x = equal_limits``, ``lower <= x <= upper``.

    Bounds default to all nonnegative numbers; matrices may be scipy sparse arrays.
    """

    matrix: Any = None
    limits: FloatArray | None = None
    equal_matrix: Any = None
    equal_limits: FloatArray | None = None
    lower: FloatArray | float = 0.0
    upper: FloatArray | float = np.inf


def minimize_linear_program(cost: FloatArray, constraints: Constraints, *, name: str) -> FloatArray:
    """The minimiser of ``<cost, x>``, by HiGHS.

    Raises:
        ConfigurationError: if the constraints have no solution, or the cost no minimum.
        CertificateError: if the solver stopped for another reason.
    """
    # Costs are brought to size one: the solver's tolerances are absolute.
    largest = float(np.max(np.abs(cost), initial=0.0))
    lower = np.broadcast_to(np.asarray(constraints.lower, np.float64), cost.shape)
    upper = np.broadcast_to(np.asarray(constraints.upper, np.float64), cost.shape)
    arguments: dict[str, Any] = {
        "A_ub": constraints.matrix,
        "b_ub": constraints.limits,
        "A_eq": constraints.equal_matrix,
        "b_eq": constraints.equal_limits,
        "bounds": np.stack([lower, upper], axis=1),
    }
    cost = cost / largest if largest > 0 else cost
    result: Any = optimize.linprog(cost, method="highs", **arguments)
    if result.status not in (0, INFEASIBLE, UNBOUNDED):
        # Presolve may leave open which of the two it is; without it the answer is definite.
        result = optimize.linprog(cost, method="highs", options={"presolve": False}, **arguments)
    if result.status == INFEASIBLE:
        raise ConfigurationError(f"{name} is empty: no point meets its constraints; relax them")
    if result.status == UNBOUNDED:
        raise ConfigurationError(
            f"{name} is unbounded; a bounded set is needed: add limits on every coordinate"
        )
    if result.status != 0:
        raise CertificateError(f"{name}: the linear program was not solved: {result.message}")
    return np.asarray(result.x, np.float64)


def nonnegative_least_squares(matrix: FloatArray, target: FloatArray, *, name: str) -> FloatArray:
    """``argmin |matrix x - target|_2`` over ``x >= 0``, by an active-set method.

    Raises:
        CertificateError: if it did not end.
    """
    try:
        solution, _ = optimize.nnls(matrix, target, maxiter=30 * max(matrix.shape))
    except RuntimeError as error:
        raise CertificateError(f"{name}: the projection did not end; scale the set") from error
    return np.asarray(solution, np.float64)
