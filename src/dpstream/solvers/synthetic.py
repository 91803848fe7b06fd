"""Made-up records inside a domain's public bounds: for plans, audits and benchmarks."""

from typing import Any

import numpy as np

from dpstream.domain.column import Boolean, Categorical, Numeric
from dpstream.domain.domain import Domain
from dpstream.mechanisms.public import PublicGenerator


def synthetic_columns(domain: Domain, count: int, generator: PublicGenerator) -> dict[str, Any]:
    """Columns of ``count`` records, each value drawn independently and evenly over its bounds.

    A number without bounds is normal, at the scale at which rows fill the domain's norm bound.
    Nothing is known of real records here: it is a stand-in, and says so where it is used.
    """
    columns: dict[str, Any] = {}
    loose = max(1, sum(isinstance(c, Numeric) and c.lower is None for c in domain.columns))
    for column in domain.columns:
        match column:
            case Numeric(lower=float() as lower, upper=float() as upper):
                columns[column.name] = generator.uniform(lower, upper, count)
            case Numeric():
                spread = (domain.norm_bound or 1.0) / np.sqrt(loose)
                columns[column.name] = generator.normal(0.0, spread, count)
            case Boolean():
                columns[column.name] = generator.integers(0, 2, count).astype(bool)
            case Categorical():
                names = np.array(column.categories, object)
                columns[column.name] = generator.choice(names, count).tolist()
    return columns
