"""The attack on admission: records that break every bound."""

import math
from typing import Any

import numpy as np

from dpstream.audit.finding import Finding
from dpstream.domain.batch import GRID, RawChunk
from dpstream.domain.column import Boolean, Categorical
from dpstream.domain.domain import Domain
from dpstream.domain.target import IntervalTarget

_HOSTILE = (1e300, -1e300, math.inf, -math.inf, math.nan, 0.0, 1e-300)


def hostile_records(domain: Domain) -> dict[str, list[Any]]:
    """Columns of records far beyond every bound, infinite, missing and next to nothing."""
    count = len(_HOSTILE)
    data: dict[str, list[Any]] = {}
    for column in domain.columns:
        if isinstance(column, Categorical):
            data[column.name] = ["no such category"] * count
        elif isinstance(column, Boolean):
            data[column.name] = [True] * count
        else:
            data[column.name] = list(_HOSTILE)
    for target in domain.targets:
        if isinstance(target, IntervalTarget):
            data[target.name] = list(_HOSTILE)
        else:
            data[target.name] = [target.labels[0]] * count
    return data


def admission_finding(domain: Domain) -> Finding:
    """The largest admitted norm over its bound, in exact integers."""
    data = hostile_records(domain)
    chunk = RawChunk(data=data, offset=0, length=len(_HOSTILE))
    batch = domain.admit(chunk)
    largest = 0
    for part in (batch.features, batch.targets):
        for row in part.tolist():
            largest = max(largest, sum(number * number for number in row))
    finite = float(np.isfinite(batch.rows).all())
    norm = math.sqrt(largest) / GRID if finite else math.inf
    return Finding("admission: largest norm of hostile records", norm, 0.0, 1.0)
