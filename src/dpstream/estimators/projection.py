"""``PublicRandomProjection``: many bounded columns to a few, by a public matrix."""

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.column import Numeric
from dpstream.domain.domain import Domain
from dpstream.domain.row_product import row_products
from dpstream.errors import ConfigurationError
from dpstream.estimators.bounds import Bounded, stated_bounds
from dpstream.estimators.transformer import PublicTransformer, require_seed
from dpstream.mechanisms.public import public_generator


@dataclass(kw_only=True, eq=False, repr=False)
class PublicRandomProjection(PublicTransformer):
    """Rows times a Gaussian matrix from a public seed, about as long as they were.

    scikit-learn's ``GaussianRandomProjection`` with a fixed seed. A row that comes out longer than
    the bound on the input's length is shortened to it, and that bound is handed on. The seed must
    be chosen without looking at the records.

    Attributes:
        n_components: how many columns come out.
        seed: of the matrix; public.
        bounds: of the input's columns, as for ``PublicScaler``; None if the step before hands
            them on, or with ``norm_bound``.
        norm_bound: on the input rows' length in their own units, in place of columns' bounds;
            longer rows are shortened when they come out.
    """

    n_components: int = 16
    seed: int = 0
    bounds: Any = None
    norm_bound: float | None = None

    def _declare(self, data: Any, names: list[str]) -> tuple[Domain, Bounded]:
        owner, count = type(self).__name__, self.n_components
        if isinstance(count, bool) or not hasattr(count, "__index__") or count < 1:
            raise ConfigurationError(
                f"{owner} has n_components={count!r}; it must be a whole number from 1"
            )
        given = stated_bounds(data, names, self.bounds, self.norm_bound, owner=owner)
        longest = given.norm
        if longest is None:
            longest = sqrt(sum(_largest(column, owner) ** 2 for column in given.columns))
        require_seed(self.seed, owner=type(self).__name__)
        free = tuple(Numeric(f"projection{place}") for place in range(count))
        basis = "its input's" if self.bounds is None and self.norm_bound is None else "the declared"
        provenance = {
            column.name: f"{owner} with the public seed {self.seed}, from {basis} bounds"
            for column in free
        }
        domain = Domain(given.columns, norm_bound=longest)
        self._matrix = public_generator(self.seed).standard_normal((len(names), count)) / sqrt(
            count
        )
        return domain, Bounded(columns=free, norm=longest, provenance=provenance)

    def _map(self, values: FloatArray) -> FloatArray:
        assert self.bounded_.norm is not None
        with np.errstate(over="ignore", invalid="ignore"):
            projected = row_products(values, self._matrix)
            lengths = np.sqrt(row_products(projected**2, np.ones((projected.shape[1], 1)))[:, 0])
        over = lengths > self.bounded_.norm
        projected[over] *= (self.bounded_.norm / lengths[over])[:, None]
        return projected


def _largest(column: object, owner: str) -> float:
    if not isinstance(column, Numeric) or column.lower is None or column.upper is None:
        raise ConfigurationError(
            f"{owner} projects numbers with bounds; put PublicOneHot or PublicHashing before it"
        )
    return max(abs(column.lower), abs(column.upper))
